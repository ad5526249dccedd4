//! HTTP/2 over real sockets: many streams, readers that stall or leave, and a server that stops.

use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use hyper::Request;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Barrier;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::encryption::certificate;
use super::*;

/// A connection of HTTP/2 that the test drives itself.
struct Client {
    requests: SendRequest<Bytes>,
    /// Reads and writes the connection for as long as it is here.
    connection: JoinSet<Result<(), h2::Error>>,
}

type Driven = h2::client::Connection<TlsStream<TcpStream>, Bytes>;

async fn connect(server: &Server, pem: &str, window: u32) -> (SendRequest<Bytes>, Driven) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(1 << 30);
    builder.handshake(stream).await.unwrap()
}

impl Client {
    async fn open(server: &Server, pem: &str, window: u32) -> Self {
        let (requests, driven) = connect(server, pem, window).await;
        let mut connection = JoinSet::new();
        connection.spawn(driven);
        Self { requests: requests.ready().await.unwrap(), connection }
    }

    async fn get(&mut self, path: &str) -> RecvStream {
        let request = Request::get(format!("https://localhost{path}")).body(()).unwrap();
        let (response, _) = self.requests.send_request(request, true).unwrap();
        let response = timeout(PATIENCE, response).await.unwrap().unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    async fn text(&mut self, path: &str) -> String {
        let mut body = self.get(path).await;
        let mut text = Vec::new();
        while let Some(data) = timeout(PATIENCE, body.data()).await.unwrap() {
            text.extend_from_slice(&data.unwrap());
        }
        String::from_utf8(text).unwrap()
    }

    /// Waits until the server has closed the connection.
    async fn closed(&mut self) {
        let _either_way = timeout(PATIENCE, self.connection.join_next()).await.unwrap();
    }
}

/// A router with an endless body at `/endless`, and a token that says that the body was dropped.
fn endless(chunk: &'static [u8]) -> (Router, CancellationToken) {
    let dropped = CancellationToken::new();
    let watch = dropped.clone();
    let body = move || {
        let guard = watch.clone().drop_guard();
        let chunks = stream::repeat(Bytes::from_static(chunk)).map(move |chunk| {
            let _held = &guard;
            Ok::<_, Infallible>(chunk)
        });
        async move { Body::from_stream(chunks) }
    };
    (hello().route("/endless", get(body)), dropped)
}

async fn start(router: Router, limits: ServerLimits) -> (Server, String) {
    let (pair, pem) = certificate();
    (Server::start_tls(ServerTls::new(pair), router, limits).await, pem)
}

#[tokio::test]
async fn fifty_requests_are_answered_side_by_side_on_one_connection() {
    let all = Arc::new(Barrier::new(50));
    let meet = move || {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            "met"
        }
    };
    let limits = ServerLimits { max_connections: 1, ..ServerLimits::default() };
    let (server, pem) = start(Router::new().route("/", get(meet)), limits).await;
    let client = Client::open(&server, &pem, 65_535).await;
    let mut answers = JoinSet::new();
    for _ in 0..50 {
        let mut requests = client.requests.clone();
        answers.spawn(async move {
            let request = Request::get("https://localhost/").body(()).unwrap();
            let (response, _) = requests.send_request(request, true).unwrap();
            response.await.unwrap().into_body().data().await.unwrap().unwrap()
        });
    }
    let answers = timeout(PATIENCE, answers.join_all()).await.unwrap();
    assert_eq!(answers, vec![Bytes::from_static(b"met"); 50]);
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let large: String = (0..200_000_u32).map(|number| format!("{number} ")).collect();
    let expected = large.clone();
    let (server, pem) =
        start(Router::new().route("/", get(async move || large)), ServerLimits::default()).await;
    let mut client = Client::open(&server, &pem, 1 << 30).await;
    assert_eq!(client.text("/").await, expected);
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_reset_and_the_others_go_on() {
    let (router, dropped) = endless(&[b'x'; 64 * 1024]);
    let limits = ServerLimits { write_timeout: Duration::from_millis(200), ..ServerLimits::default() };
    let (server, pem) = start(router, limits).await;
    let mut client = Client::open(&server, &pem, 65_535).await;
    let mut stalled = client.get("/endless").await;
    timeout(PATIENCE, dropped.cancelled()).await.unwrap();
    let mut taken = 0;
    let end = loop {
        match timeout(PATIENCE, stalled.data()).await.unwrap().unwrap() {
            Ok(data) => taken += data.len(),
            Err(error) => break error,
        }
    };
    assert_eq!((end.reason(), taken), (Some(Reason::CANCEL), 65_535), "only the window was sent");
    assert_eq!(client.text("/").await, "hello\n");
}

#[tokio::test]
async fn a_slow_reader_that_moves_is_served() {
    let (router, dropped) = endless(&[b'x'; 64 * 1024]);
    let limits = ServerLimits { write_timeout: Duration::from_millis(500), ..ServerLimits::default() };
    let (server, pem) = start(router, limits).await;
    let mut client = Client::open(&server, &pem, 65_535).await;
    let mut body = client.get("/endless").await;
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..10 {
        let data = timeout(PATIENCE, body.data()).await.unwrap().unwrap().unwrap();
        pace.tick().await;
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    assert!(!dropped.is_cancelled());
    drop(body);
    timeout(PATIENCE, dropped.cancelled()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_takes_no_bytes_at_all_is_let_go() {
    let (router, dropped) = endless(&[b'x'; 64 * 1024]);
    let limits = ServerLimits { write_timeout: Duration::from_millis(200), ..ServerLimits::default() };
    let (server, pem) = start(router, limits).await;
    let (mut requests, mut driven) = connect(&server, &pem, 1 << 30).await;
    let request = Request::get("https://localhost/endless").body(()).unwrap();
    let (response, _) = requests.send_request(request, true).unwrap();
    let body = tokio::select! {
        ended = &mut driven => panic!("the connection ended: {ended:?}"),
        response = response => response.unwrap().into_body(),
    };
    // From here on, the client does not read the socket.
    timeout(PATIENCE, dropped.cancelled()).await.unwrap();
    drop((body, driven));
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_streams_even_in_silence() {
    let dropped = CancellationToken::new();
    let watch = dropped.clone();
    let silent = move || {
        let guard = watch.clone().drop_guard();
        let rest = stream::pending::<Result<Bytes, Infallible>>().inspect(move |_| {
            let _held = &guard;
        });
        async move { Body::from_stream(rest) }
    };
    let (server, pem) = start(Router::new().route("/", get(silent)), ServerLimits::default()).await;
    let mut client = Client::open(&server, &pem, 65_535).await;
    let body = client.get("/").await;
    assert!(!dropped.is_cancelled());
    drop((client, body));
    timeout(PATIENCE, dropped.cancelled()).await.unwrap();
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_after_the_header_timeout() {
    let limits = ServerLimits { header_timeout: Duration::from_millis(300), ..ServerLimits::default() };
    let (server, pem) = start(hello(), limits).await;
    let mut client = Client::open(&server, &pem, 65_535).await;
    assert_eq!(client.text("/").await, "hello\n");
    let start = Instant::now();
    client.closed().await;
    assert!(start.elapsed() >= limits.header_timeout / 2);
}

/// The request is over for us, but its answer waits for a client that gives it no room.
#[tokio::test]
async fn an_answer_that_nobody_takes_does_not_keep_the_connection() {
    let short = Duration::from_millis(200);
    let limits = ServerLimits { header_timeout: short, write_timeout: short, ..ServerLimits::default() };
    let (server, pem) = start(hello(), limits).await;
    let mut client = Client::open(&server, &pem, 0).await;
    let mut body = client.get("/").await;
    client.closed().await;
    assert!(timeout(PATIENCE, body.data()).await.unwrap().unwrap().is_err());
}

#[tokio::test]
async fn headers_without_bound_are_refused() {
    let (server, pem) = start(hello(), ServerLimits::default()).await;
    let mut client = Client::open(&server, &pem, 65_535).await;
    let request =
        Request::get("https://localhost/").header("x-large", "x".repeat(40 * 1024)).body(()).unwrap();
    let (response, _) = client.requests.send_request(request, true).unwrap();
    assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status(), 431);
    assert_eq!(client.text("/").await, "hello\n");
}

#[tokio::test]
async fn a_server_that_stops_lets_requests_end_and_closes() {
    let (started, has_started) = oneshot::channel();
    let (finish, may_finish) = oneshot::channel();
    let channels = Arc::new(std::sync::Mutex::new(Some((started, may_finish))));
    let slow = move || {
        let (started, may_finish) = channels.lock().unwrap().take().unwrap();
        async move {
            started.send(()).unwrap();
            may_finish.await.unwrap();
            "done"
        }
    };
    let (server, pem) = start(hello().route("/slow", get(slow)), ServerLimits::default()).await;
    let mut idle = Client::open(&server, &pem, 65_535).await;
    assert_eq!(idle.text("/").await, "hello\n");
    let mut client = Client::open(&server, &pem, 65_535).await;
    let request = Request::get("https://localhost/slow").body(()).unwrap();
    let (response, _) = client.requests.send_request(request, true).unwrap();
    has_started.await.unwrap();
    server.shutdown.cancel();
    finish.send(()).unwrap();
    let mut body = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), Bytes::from_static(b"done"));
    assert!(server.stop().await < GRACE);
    idle.closed().await;
}

#[tokio::test]
async fn a_stream_without_end_is_dropped_after_the_grace() {
    let (started, has_started) = oneshot::channel();
    let started = Arc::new(std::sync::Mutex::new(Some(started)));
    let stuck = move || {
        started.lock().unwrap().take().unwrap().send(()).unwrap();
        std::future::pending::<()>()
    };
    let (server, pem) = start(Router::new().route("/", get(stuck)), ServerLimits::default()).await;
    let mut client = Client::open(&server, &pem, 65_535).await;
    let request = Request::get("https://localhost/").body(()).unwrap();
    let (response, _) = client.requests.send_request(request, true).unwrap();
    has_started.await.unwrap();
    let took = server.stop().await;
    assert!((GRACE..GRACE * 2).contains(&took), "{took:?}");
    assert!(timeout(PATIENCE, response).await.unwrap().is_err());
}
