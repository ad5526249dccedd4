//! The loop over real sockets: clients that dawdle, stall or stay, and a server that stops.

mod addresses;
mod encryption;
mod http2;

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::body::Body;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use protocol::{SystemClock, UserId};
use service::StreamAccess;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::event_stream::{StreamSetting, body};
use crate::sse::LogFrames;
use crate::stream_permits::StreamPermits;

/// Far more than any of this takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    tasks: JoinSet<io::Result<()>>,
}

impl Server {
    async fn start(router: Router, limits: ServerLimits) -> Self {
        Self::start_until(CancellationToken::new(), router, limits).await
    }

    async fn start_until(shutdown: CancellationToken, router: Router, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let stop = shutdown.clone();
        tasks.spawn(async move { serve_router(listener, router, &limits, stop).await });
        Self { address, shutdown, tasks }
    }

    async fn start_tls(tls: ServerTls, router: Router, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let addresses = AddressCounts::new(limits.max_connections_per_address, Vec::new());
        let acceptor = ConnectionAcceptor { listener, limits, tls: Some(tls), addresses, base_path: None };
        let (mut tasks, stop) = (JoinSet::new(), shutdown.clone());
        tasks.spawn(async move {
            acceptor.serve(router, stop).await;
            Ok(())
        });
        Self { address, shutdown, tasks }
    }

    /// A connection on which `GET path` has been sent.
    async fn get(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        BufReader::new(stream)
    }

    /// How long the server takes to return once it is told to stop.
    async fn stop(mut self) -> Duration {
        let start = Instant::now();
        self.shutdown.cancel();
        timeout(PATIENCE, self.tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap();
        start.elapsed()
    }
}

async fn read_until(reader: &mut BufReader<TcpStream>, line: &str) {
    let mut read = String::new();
    while !read.ends_with(line) {
        assert_ne!(
            timeout(PATIENCE, reader.read_line(&mut read)).await.unwrap().unwrap(),
            0,
            "only {read:?}"
        );
    }
}

async fn read_to_end(reader: &mut BufReader<TcpStream>) -> String {
    let mut rest = String::new();
    timeout(PATIENCE, reader.read_to_string(&mut rest)).await.unwrap().unwrap();
    rest
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello\n"))
}

#[tokio::test]
async fn headers_that_dawdle_cost_the_connection() {
    let limits = ServerLimits { header_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = Server::start(hello(), limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: local").await.unwrap();
    assert_eq!(read_to_end(&mut BufReader::new(stream)).await, "");
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_let_go() {
    let dropped = CancellationToken::new();
    let watch = dropped.clone();
    let endless = move || {
        let guard = watch.clone().drop_guard();
        let chunks = stream::repeat(Bytes::from_static(&[b'x'; 32 * 1024]));
        async move {
            Body::from_stream(chunks.map(move |chunk| {
                let _held = &guard;
                Ok::<_, Infallible>(chunk)
            }))
        }
    };
    let limits = ServerLimits { write_timeout: Duration::from_millis(100), ..ServerLimits::default() };
    let server = Server::start(Router::new().route("/", get(endless)), limits).await;
    let mut stalled = server.get("/").await;
    timeout(PATIENCE, dropped.cancelled()).await.unwrap();
    // It may read what its own side holds; what we had for it is gone.
    let rest = timeout(PATIENCE, stalled.read_to_end(&mut Vec::new())).await.unwrap();
    assert_eq!(rest.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_body_even_in_silence() {
    let dropped = CancellationToken::new();
    let watch = dropped.clone();
    let silent = move || {
        let guard = watch.clone().drop_guard();
        let opening = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b": hello\n\n")) });
        let rest = stream::pending().inspect(move |_| {
            let _held = &guard;
        });
        async move { Body::from_stream(opening.chain(rest)) }
    };
    let server = Server::start(Router::new().route("/", get(silent)), ServerLimits::default()).await;
    let mut client = server.get("/").await;
    read_until(&mut client, ": hello\n").await;
    drop(client);
    timeout(PATIENCE, dropped.cancelled()).await.unwrap();
}

#[tokio::test]
async fn a_client_whose_body_is_refused_can_read_why() {
    let server =
        Server::start(Router::new().route("/", post(async || "too much\n")), ServerLimits::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 7000000\r\n\r\n").await.unwrap();
    timeout(PATIENCE, stream.write_all(&vec![b'x'; 7_000_000])).await.unwrap().unwrap();
    read_until(&mut BufReader::new(stream), "too much\n").await;
}

#[tokio::test]
async fn event_streams_end_at_once_when_the_server_stops() {
    let shutdown = CancellationToken::new();
    let (watched, streams) = (shutdown.clone(), StreamPermits::default());
    let events = move || {
        let permit = streams.permit(&UserId::new("ann"), 8).unwrap();
        let access = StreamAccess::without_end(&watched, Arc::new(SystemClock));
        let setting = StreamSetting { heartbeat: PATIENCE, shutdown: watched.clone(), access, permit };
        async { body(stream::pending(), LogFrames, setting) }
    };
    let router = Router::new().route("/", get(events));
    let server = Server::start_until(shutdown, router, ServerLimits::default()).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = server.get("/").await;
        read_until(&mut client, "\r\n\r\n").await;
        clients.push(client);
    }
    assert!(server.stop().await < GRACE);
    for mut client in clients {
        let rest = read_to_end(&mut client).await;
        assert_eq!(rest.matches("retry: ").count(), 2, "{rest:?}");
        assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_end() {
    let server = Server::start(hello(), ServerLimits::default()).await;
    let mut client = server.get("/").await;
    read_until(&mut client, "hello\n").await;
    assert!(server.stop().await < GRACE);
    assert_eq!(read_to_end(&mut client).await, "");
}

#[tokio::test]
async fn a_request_under_way_is_finished_before_the_end() {
    let (started, has_started) = oneshot::channel();
    let (finish, may_finish) = oneshot::channel();
    let channels = Arc::new(std::sync::Mutex::new(Some((started, may_finish))));
    let slow = move || {
        let (started, may_finish) = channels.lock().unwrap().take().unwrap();
        async move {
            started.send(()).unwrap();
            may_finish.await.unwrap();
            "done\n"
        }
    };
    let server = Server::start(Router::new().route("/", get(slow)), ServerLimits::default()).await;
    let mut client = server.get("/").await;
    has_started.await.unwrap();
    server.shutdown.cancel();
    finish.send(()).unwrap();
    read_until(&mut client, "done\n").await;
    assert!(server.stop().await < GRACE);
}

#[tokio::test]
async fn a_request_without_end_is_dropped_after_the_grace() {
    let (started, has_started) = oneshot::channel();
    let started = Arc::new(std::sync::Mutex::new(Some(started)));
    let stuck = move || {
        started.lock().unwrap().take().unwrap().send(()).unwrap();
        std::future::pending::<()>()
    };
    let server = Server::start(Router::new().route("/", get(stuck)), ServerLimits::default()).await;
    let mut client = server.get("/").await;
    has_started.await.unwrap();
    let took = server.stop().await;
    assert!((GRACE..GRACE * 2).contains(&took), "{took:?}");
    assert_eq!(read_to_end(&mut client).await, "");
}

#[tokio::test]
async fn a_connection_that_ends_makes_room_for_the_next() {
    let limits = ServerLimits { max_connections: 1, ..ServerLimits::default() };
    let server = Server::start(hello(), limits).await;
    let mut first = server.get("/").await;
    read_until(&mut first, "hello\n").await;
    let mut second = server.get("/").await;
    drop(first);
    read_until(&mut second, "hello\n").await;
}
