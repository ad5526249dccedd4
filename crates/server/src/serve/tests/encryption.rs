//! TLS over real sockets: handshakes that come, stay away or are none, and a certificate that is exchanged.

use std::fs;

use axum::extract::Request;
use axum::http::header::HOST;
use protocol::{Clock, SystemClock};
use rcgen::{CertificateParams, KeyPair};
use testkit::client::{Certificate, Client, ClientBuilder, Version};

use super::*;
use crate::tls::{TlsFiles, TlsPair};

/// A new certificate for `localhost` and 127.0.0.1, as the server and as its clients have it.
pub(super) fn certificate() -> (TlsPair, String) {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let (params, key) = (CertificateParams::new(names).unwrap(), KeyPair::generate().unwrap());
    let pem = params.self_signed(&key).unwrap().pem();
    fs::write(&files.cert, &pem).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    (TlsPair::load(&files, SystemClock.now()).unwrap(), pem)
}

fn trusting(pem: &str) -> ClientBuilder {
    let certificate = Certificate::from_pem(pem.as_bytes()).unwrap();
    Client::builder().no_proxy().timeout(PATIENCE).tls_certs_only([certificate])
}

fn url(server: &Server) -> String {
    format!("https://{}/", server.address)
}

/// Says who asks, under which name, and whether the way is encrypted.
async fn describe(request: Request) -> String {
    let peer = request.extensions().get::<PeerAddress>().unwrap().0.ip();
    let is_tls = request.extensions().get::<IsTls>().unwrap().0;
    let host = request.headers().get(HOST).unwrap().to_str().unwrap();
    format!("{peer} {host} {is_tls}")
}

#[tokio::test]
async fn http1_and_http2_are_served_over_tls_and_know_it() {
    let (pair, pem) = certificate();
    let router = Router::new().route("/", get(describe));
    let server = Server::start_tls(ServerTls::new(pair), router.clone(), ServerLimits::default()).await;
    let clients = [(trusting(&pem), Version::HTTP_2), (trusting(&pem).http1_only(), Version::HTTP_11)];
    for (client, version) in clients {
        let answer = client.build().unwrap().get(url(&server)).send().await.unwrap();
        assert_eq!(answer.version(), version);
        assert_eq!(answer.text().await.unwrap(), format!("127.0.0.1 {} true", server.address));
    }
    let plain = Server::start(router, ServerLimits::default()).await;
    let mut client = plain.get("/").await;
    read_until(&mut client, "\r\n\r\n").await;
    let mut body = [0; 25];
    client.read_exact(&mut body).await.unwrap();
    assert_eq!(std::str::from_utf8(&body).unwrap(), "127.0.0.1 localhost false");
}

#[tokio::test]
async fn a_client_trusts_only_the_names_of_the_certificate() {
    let (pair, pem) = certificate();
    let server = Server::start_tls(ServerTls::new(pair), hello(), ServerLimits::default()).await;
    let client = trusting(&pem).resolve("other.example", server.address).build().unwrap();
    let other = format!("https://other.example:{}/", server.address.port());
    assert!(client.get(other).send().await.unwrap_err().is_connect());
    let (_, foreign) = certificate();
    let client = trusting(&foreign).build().unwrap();
    assert!(client.get(url(&server)).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn plain_http_is_told_to_use_https() {
    let (pair, _) = certificate();
    let server = Server::start_tls(ServerTls::new(pair), hello(), ServerLimits::default()).await;
    let answer = read_to_end(&mut server.get("/").await).await;
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.ends_with("https:// in the address\n")
    );
    let mut other = TcpStream::connect(server.address).await.unwrap();
    other.write_all(&[0, 1, 2, 3]).await.unwrap();
    assert_eq!(read_to_end(&mut BufReader::new(other)).await, "", "it is closed without an answer");
}

#[tokio::test]
async fn a_handshake_that_does_not_come_costs_the_connection_and_holds_up_nobody() {
    let (pair, pem) = certificate();
    let limits = ServerLimits { header_timeout: Duration::from_millis(300), ..ServerLimits::default() };
    let server = Server::start_tls(ServerTls::new(pair), hello(), limits).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(&[0x16, 3, 1]).await.unwrap();
    let answer = trusting(&pem).build().unwrap().get(url(&server)).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "hello\n");
    for stream in [silent, half] {
        let mut rest = Vec::new();
        // Bytes that the server has not read make the end a reset.
        let _end = timeout(PATIENCE, BufReader::new(stream).read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"");
    }
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let (first, first_pem) = certificate();
    let (second, second_pem) = certificate();
    let tls = ServerTls::new(first);
    let server = Server::start_tls(tls.clone(), hello(), ServerLimits::default()).await;
    let old = trusting(&first_pem).build().unwrap();
    assert_eq!(old.get(url(&server)).send().await.unwrap().status(), 200);
    tls.replace(second);
    assert_eq!(old.get(url(&server)).send().await.unwrap().status(), 200, "its connection stays");
    let new = trusting(&second_pem).build().unwrap();
    assert_eq!(new.get(url(&server)).send().await.unwrap().status(), 200);
    let late = trusting(&first_pem).build().unwrap();
    assert!(late.get(url(&server)).send().await.unwrap_err().is_connect());
}
