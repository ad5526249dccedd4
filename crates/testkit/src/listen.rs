//! The parts of the servers that tests talk to: requests read off a socket by hand, because faults have to happen at
//! exact bytes, and a state that tests can wait on.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The state of a server, and word of every change of it.
#[derive(Default)]
pub struct Watched<S> {
    /// Held for a few lines at a time, never over an await.
    state: Mutex<S>,
    changed: watch::Sender<()>,
}

impl<S> Watched<S> {
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let value = change(&mut self.lock());
        self.changed.send_replace(());
        value
    }

    /// Waits until `ready` finds something, and returns it.
    pub async fn wait_until<T>(&self, mut ready: impl FnMut(&S) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(value) = ready(&self.lock()) {
                return value;
            }
            let _ = changed.changed().await; // the sender lives as long as `self`
        }
    }
}

/// Listens on a free port of the loopback interface. Dropping the tasks closes the socket and every connection.
pub async fn listen<S, F>(
    shared: &Arc<Watched<S>>,
    serve: impl Fn(TcpStream, Arc<Watched<S>>) -> F + Send + 'static,
) -> (SocketAddr, JoinSet<()>)
where
    S: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind a loopback port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let (mut tasks, shared) = (JoinSet::new(), Arc::clone(shared));
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            connections.spawn(serve(stream, Arc::clone(&shared)));
            while connections.try_join_next().is_some() {}
        }
    });
    (address, tasks)
}

/// Fails the test for violations that it has not taken.
pub(crate) fn complain(what: &str, violations: &[String]) {
    if !violations.is_empty() && !std::thread::panicking() {
        panic!("{what}: {violations:#?}");
    }
}

/// A request as it came in.
pub struct RawRequest {
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The value of a header, by its name in lower case.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
}

/// Reads the requests of one connection.
pub struct Reader<'a> {
    half: ReadHalf<'a>,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub fn new(half: ReadHalf<'a>) -> Self {
        Self { half, buffer: Vec::new() }
    }

    /// Returns when the client has closed the connection.
    pub async fn wait_until_gone(&mut self) {
        while self.fill().await {}
    }

    /// None when there is no other.
    pub async fn request(&mut self) -> Option<RawRequest> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill().await {
                return None;
            }
        };
        let head = String::from_utf8_lossy(self.buffer.get(..head_end)?).into_owned();
        let request = parse_head(&head)?;
        let length = header(&request.headers, "content-length").and_then(|length| length.parse().ok());
        let end = head_end + length.unwrap_or(0usize);
        while self.buffer.len() < end {
            if !self.fill().await {
                return None;
            }
        }
        let body = self.buffer.get(head_end..end)?.to_vec();
        self.buffer.drain(..end);
        Some(RawRequest { body, ..request })
    }

    async fn fill(&mut self) -> bool {
        self.half.read_buf(&mut self.buffer).await.is_ok_and(|bytes| bytes > 0)
    }
}

fn parse_head(head: &str) -> Option<RawRequest> {
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some(RawRequest { method, target, headers, body: Vec::new() })
}
