//! The real binary with TLS: its certificate at the start, at SIGHUP and to commands on the same machine.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use protocol::{Clock, SystemClock};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use reqwest::{Certificate, Client, ClientBuilder, Version};
use serde_json::json;
use testkit::Frames;
use testkit::upstream::{Gate, Reply};

use crate::process::{PATIENCE, Process, within};
use crate::world::{Server, World, read_text, send};

const LOCAL: [&str; 2] = ["localhost", "127.0.0.1"];

/// Writes a new certificate with its key into the world, and gives back the certificate.
fn certify(world: &World, names: &[&str], end: Option<Timestamp>) -> String {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (mut params, key) = (CertificateParams::new(names).unwrap(), KeyPair::generate().unwrap());
    if let Some(end) = end.map(|end| end.to_zoned(TimeZone::UTC)) {
        let (month, day) = (end.month().try_into().unwrap(), end.day().try_into().unwrap());
        params.not_after = date_time_ymd(end.year().into(), month, day);
    }
    let pem = params.self_signed(&key).unwrap().pem();
    world.write("cert.pem", &pem);
    world.write("key.pem", &key.serialize_pem());
    pem
}

/// A command that knows of the certificate by the environment.
fn encrypted(world: &World, args: &[&str]) -> Command {
    let mut command = world.rondo(args);
    command.env("RONDO_TLS_CERT", "cert.pem").env("RONDO_TLS_KEY", "key.pem");
    command
}

/// A server with TLS that is ready.
struct TlsServer {
    process: Process,
    address: SocketAddr,
}

impl TlsServer {
    async fn start(command: &mut Command) -> Self {
        let process = Process::start(command);
        let line = process.errors.line("serving on https://").await;
        let address = line.split_once("https://").unwrap().1.split([' ', '"']).next().unwrap();
        Self { address: address.trim().parse().unwrap(), process }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    async fn say(&self, client: &Client) -> Frames {
        let request = client.post(self.url("/studio/stream")).json(&json!({ "message": "Tell me" }));
        let response = request.send().await.expect("the server answers");
        assert_eq!(response.status(), 200);
        Frames::new(response)
    }
}

fn trusting(pem: &str) -> ClientBuilder {
    let certificate = Certificate::from_pem(pem.as_bytes()).unwrap();
    Client::builder().no_proxy().timeout(PATIENCE).tls_certs_only([certificate])
}

#[tokio::test]
async fn a_run_streams_over_http1_and_http2() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::stream().text("Forty").text("-two."));
    world.write("rondo.toml", "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    let pem = certify(&world, &["localhost", "127.0.0.1", "rebind.example"], None);
    let server = TlsServer::start(&mut world.rondo(&["serve"])).await;
    let clients = [(trusting(&pem), Version::HTTP_2), (trusting(&pem).http1_only(), Version::HTTP_11)];
    for (client, version) in clients {
        let client = client.resolve("rebind.example", server.address).build().unwrap();
        let frames = server.say(&client).await.all().await;
        assert_eq!(frames.last().unwrap().data["status"], "completed");
        assert_eq!(client.get(server.url("/v1/apps")).send().await.unwrap().version(), version);
        // A name that points here is not enough, whichever protocol carries it.
        let foreign = format!("https://rebind.example:{}/v1/apps", server.address.port());
        let (status, problem) = send(client.get(foreign)).await;
        assert_eq!((status, &problem["code"]), (403, &json!("host_not_allowed")), "{problem}");
    }
    let plain = Client::builder().no_proxy().build().unwrap();
    let answer = plain.get(format!("http://{}/v1/apps", server.address)).send().await.unwrap();
    assert_eq!(answer.status(), 400);
    server.process.signal("TERM");
    assert_eq!(server.process.ended().await.code, Some(0));
    world.audit();
}

#[tokio::test]
async fn sighup_exchanges_the_certificate_and_cuts_no_stream() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([Reply::stream().text("Half").wait(&gate).text(" and half")]);
    let first = certify(&world, &LOCAL, None);
    let server = TlsServer::start(&mut encrypted(&world, &["serve"])).await;
    let old = trusting(&first).build().unwrap();
    let mut frames = server.say(&old).await;
    read_text(&mut frames, "Half").await;

    let second = certify(&world, &LOCAL, None);
    server.process.signal("HUP");
    server.process.errors.line("SIGHUP: new connections get the certificate that was read now").await;
    let new = trusting(&second).build().unwrap();
    assert_eq!(send(new.get(server.url("/readyz"))).await.0, 200);
    let late = trusting(&first).build().unwrap();
    assert!(late.get(server.url("/readyz")).send().await.unwrap_err().is_connect());
    assert_eq!(world.run(&["keys", "list"]).await.code, Some(0), "commands know the new certificate");
    gate.open();
    let rest = within("the stream to end", frames.all()).await;
    assert_eq!(rest.last().unwrap().data["status"], "completed");

    world.write("key.pem", &KeyPair::generate().unwrap().serialize_pem());
    server.process.signal("HUP");
    let line = server.process.errors.line("SIGHUP: the certificate in use stays").await;
    assert!(
        line.contains("ERROR") && line.contains("is not the key of the certificate in cert.pem"),
        "{line}"
    );
    let again = trusting(&second).build().unwrap();
    assert_eq!(send(again.get(server.url("/readyz"))).await.0, 200);
    server.process.signal("TERM");
    assert_eq!(server.process.ended().await.code, Some(0));
}

#[tokio::test]
async fn sighup_does_not_end_a_server_without_tls() {
    let world = World::new().await;
    let server = world.serve().await;
    server.process.signal("HUP");
    server.process.errors.line("SIGHUP: there is no certificate to read again").await;
    assert_eq!(server.get("/readyz").await.0, 200);
}

#[tokio::test]
async fn a_bad_pair_refuses_the_start() {
    let world = World::new().await;
    let refusal = async |expected: &str| {
        let ended = Process::start(&mut encrypted(&world, &["serve"])).ended().await;
        assert_eq!((ended.code, ended.errors.as_str()), (Some(1), format!("rondo: {expected}\n").as_str()));
    };
    let missing = "tls.cert: cert.pem cannot be read: No such file or directory (os error 2); correct the path, or \
                   let the server's user read the file";
    refusal(missing).await;
    certify(&world, &LOCAL, Some("2024-05-06T00:00:00Z".parse().unwrap()));
    refusal("tls.cert: the certificate in cert.pem ended at 2024-05-06T00:00:00Z; renew it").await;
    certify(&world, &LOCAL, None);
    world.write("key.pem", &KeyPair::generate().unwrap().serialize_pem());
    let mismatch = "tls.key: key.pem is not the key of the certificate in cert.pem; name the two files that were made \
                    together";
    refusal(mismatch).await;
    assert!(!world.path("data").exists(), "nothing is made by a command that is refused");
    let doctor = Process::start(&mut encrypted(&world, &["doctor"])).ended().await;
    assert!(doctor.output.contains(&format!("BAD   TLS: {mismatch}\n")), "{}", doctor.output);

    let alone = Process::start(world.rondo(&["serve"]).env("RONDO_TLS_CERT", "cert.pem")).ended().await;
    let expected = "rondo: RONDO_TLS_CERT: there is a certificate without its key; set tls.key (RONDO_TLS_KEY) to its \
                    PEM file too, or remove this setting\n";
    assert_eq!((alone.code, alone.errors.as_str()), (Some(1), expected));
}

#[tokio::test]
async fn a_certificate_that_ends_soon_is_told_of() {
    let world = World::new().await;
    let soon = SystemClock.now() + SignedDuration::from_hours(5 * 24);
    certify(&world, &LOCAL, Some(soon));
    let server = TlsServer::start(&mut encrypted(&world, &["serve"])).await;
    let log = server.process.errors.text();
    assert!(log.contains("WARN") && log.contains("the certificate in tls.cert ends in 4 days, at "), "{log}");
    let later = SystemClock.now() + SignedDuration::from_hours(40 * 24);
    certify(&world, &LOCAL, Some(later));
    let doctor = Process::start(&mut encrypted(&world, &["doctor"])).ended().await;
    assert!(
        doctor.output.contains("ok    TLS: the certificate in cert.pem is valid until "),
        "{}",
        doctor.output
    );
}

/// The certificate has a name that is not this machine's, and no authority has signed it.
#[tokio::test]
async fn commands_on_this_machine_reach_a_server_with_tls() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let pem = certify(&world, &["agents.example"], None);
    let server = TlsServer::start(&mut encrypted(&world, &["serve"])).await;
    let key = world.run(&["keys", "add", "alice"]).await;
    assert_eq!(key.code, Some(0), "{key:?}");
    assert_eq!(world.run(&["keys", "list"]).await.output.lines().count(), 1);
    let chat = world.run(&["chat", "Hello"]).await;
    assert_eq!((chat.code, chat.output.as_str(), chat.errors.as_str()), (Some(0), "Hello.\n", ""));
    let address = server.address.to_string();
    let health = Process::start(&mut encrypted(&world, &["health", "--listen", &address])).ended().await;
    assert_eq!((health.code, health.output.as_str()), (Some(0), "ready\n"), "{health:?}");
    let doctor = Process::start(&mut encrypted(&world, &["doctor", "--listen", &address])).ended().await;
    assert!(doctor.output.contains(&format!("ok    server: running on {address}\n")), "{}", doctor.output);
    let without_data = &["health", "--listen", &address, "--data", "elsewhere"];
    let health = Process::start(&mut encrypted(&world, without_data)).ended().await;
    assert_eq!(health.code, Some(0), "the certificate file is known too: {health:?}");

    // Another server at this address would have another certificate, and is not shown the token.
    let control = std::fs::read_to_string(world.path("data/control.json")).unwrap();
    let fingerprint = serde_json::from_str::<serde_json::Value>(&control).unwrap();
    let fingerprint = fingerprint["certificates"][0].as_str().unwrap().to_owned();
    world.write("data/control.json", &control.replace(&fingerprint, &"0".repeat(64)));
    let refused = world.run(&["keys", "list"]).await;
    assert!(refused.code == Some(1) && refused.errors.contains("cannot reach https://"), "{refused:?}");
    let elsewhere = trusting(&pem).resolve("agents.example", server.address).build().unwrap();
    let apps = format!("https://agents.example:{}/v1/apps", server.address.port());
    let (status, problem) = send(elsewhere.get(apps).bearer_auth(key.output.trim())).await;
    assert_eq!((status, &problem["code"]), (403, &json!("host_not_allowed")), "{problem}");
}

#[tokio::test]
async fn other_machines_are_served_only_with_encryption() {
    let world = World::new().await;
    certify(&world, &LOCAL, None);
    let serve = || world.rondo(&["serve", "--listen", "0.0.0.0:0"]);
    let refused = Process::start(&mut serve()).ended().await;
    let expected = "rondo: other machines can reach 0.0.0.0:0, and their requests would not be encrypted: write cert \
                    and key under [tls] in rondo.toml (RONDO_TLS_CERT, RONDO_TLS_KEY), or, if a proxy with TLS is in \
                    front of this server, write behind_proxy = true under [server] (RONDO_BEHIND_PROXY=true), or \
                    listen on 127.0.0.1\n";
    assert_eq!((refused.code, refused.errors.as_str()), (Some(1), expected));
    let ways = [
        vec![("RONDO_BEHIND_PROXY", "true")],
        vec![("RONDO_TLS_CERT", "cert.pem"), ("RONDO_TLS_KEY", "key.pem")],
        vec![("RONDO_PUBLIC_URL", "https://agents.example")],
    ];
    for way in ways {
        // The next rule is that there must be a key.
        let refused = Process::start(serve().envs(way.clone())).ended().await;
        assert!(refused.errors.contains("and there is no key"), "{way:?}: {}", refused.errors);
    }
    let refused = Process::start(serve().env("RONDO_PUBLIC_URL", "http://agents.example")).ended().await;
    assert_eq!(refused.errors, expected);
    let refused = Process::start(serve().env("RONDO_BEHIND_PROXY", "yes")).ended().await;
    assert_eq!(
        refused.errors,
        "rondo: RONDO_BEHIND_PROXY: \"yes\" is neither true nor false; write true or false\n"
    );
}

#[tokio::test]
async fn an_address_has_as_many_connections_as_are_configured() {
    let world = World::new().await;
    world.write("rondo.toml", "[server]\nmax_connections_per_address = 3\n");
    let server = Server::start(&mut world.rondo(&["serve"])).await; // it keeps one connection
    let open = [(); 2].map(|()| TcpStream::connect(server.address()).unwrap());
    for _ in 0..5 {
        let mut refused = TcpStream::connect(server.address()).unwrap();
        refused.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(refused.read(&mut [0]).unwrap(), 0);
    }
    let log = server.process.errors.contains("this address has 3 connections").await;
    assert_eq!(log.matches("this address has 3 connections").count(), 1, "{log}");
    drop(open);
}
