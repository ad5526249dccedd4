//! A small HTTP server in the place of a node. It says who it is, and it stops, refuses or breaks on demand.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The longest wait for a peer, and for the gate of an event stream.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of the head and of the body of a request, at most.
const MAX_REQUEST: u64 = 64 * 1024;

/// The path with an event stream.
pub(super) const EVENTS: &str = "/events";

/// The conduct of a node with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeMode {
    Serving,
    /// Answers 503, as a node that starts or stops.
    Refusing,
    /// Reads the request and closes the connection, as a node that dies.
    Cutting,
}

/// A node that runs in threads of this process.
pub(super) struct StubNode {
    pub(super) address: SocketAddr,
    state: Arc<NodeState>,
    listening: Option<JoinHandle<()>>,
}

struct NodeState {
    mode: Mutex<NodeMode>,
    /// The requests that it has read.
    requests: AtomicUsize,
    is_over: AtomicBool,
    /// Whether event streams may go on after their first event.
    gate: (Mutex<bool>, Condvar),
}

impl StubNode {
    pub(super) fn start() -> Result<Self, String> {
        let state = Arc::new(NodeState {
            mode: Mutex::new(NodeMode::Serving),
            requests: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            gate: (Mutex::new(false), Condvar::new()),
        });
        let mut node = Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), state, listening: None };
        node.listen()?;
        Ok(node)
    }

    /// Takes connections at its address; the first time, at one that is free.
    pub(super) fn listen(&mut self) -> Result<(), String> {
        let failed = |error: io::Error| format!("a node cannot listen: {error}");
        let listener = TcpListener::bind(self.address).map_err(failed)?;
        self.address = listener.local_addr().map_err(failed)?;
        self.state.is_over.store(false, Ordering::SeqCst);
        let (state, name) = (Arc::clone(&self.state), self.address.to_string());
        self.listening = Some(thread::spawn(move || {
            // One after the other is enough: nginx has a connection for each request, and the trial sends one at a time.
            for connection in listener.incoming().flatten() {
                if state.is_over.load(Ordering::SeqCst) {
                    return;
                }
                // A peer that leaves early is no failure of a node.
                let _left = answer(connection, &name, &state);
            }
        }));
        Ok(())
    }

    /// Closes its address, so that connections are refused.
    pub(super) fn stop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ended = listening.join();
        }
    }

    pub(super) fn set_mode(&self, mode: NodeMode) {
        *lock(&self.state.mode) = mode;
    }

    pub(super) fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Lets event streams go on.
    pub(super) fn open_gate(&self) {
        let (gate, opened) = &self.state.gate;
        *lock(gate) = true;
        opened.notify_all();
    }
}

impl Drop for StubNode {
    fn drop(&mut self) {
        self.open_gate();
        self.stop();
    }
}

fn answer(connection: TcpStream, name: &str, state: &NodeState) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let path = read_request(&connection)?;
    state.requests.fetch_add(1, Ordering::SeqCst);
    let mode = *lock(&state.mode);
    let mut connection = connection;
    match mode {
        NodeMode::Cutting => Ok(()),
        NodeMode::Refusing => {
            write_answer(&mut connection, "503 Service Unavailable\r\nRetry-After: 2", "refused")
        }
        NodeMode::Serving if path == EVENTS => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            connection.write_all(format!("{head}data: first\n\n").as_bytes())?;
            let (gate, opened) = &state.gate;
            let waited = opened.wait_timeout_while(lock(gate), PATIENCE, |is_open| !*is_open);
            let is_open = waited.is_ok_and(|(is_open, _)| *is_open);
            if is_open { connection.write_all(b"data: second\n\n") } else { Ok(()) }
        }
        NodeMode::Serving => write_answer(&mut connection, "200 OK", name),
    }
}

fn write_answer(connection: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    connection.write_all(text.as_bytes())
}

/// Reads a whole request, and gives its path.
fn read_request(connection: &TcpStream) -> io::Result<String> {
    let mut reader = BufReader::new(connection.take(MAX_REQUEST));
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if path.is_empty() {
            line.split(' ').nth(1).unwrap_or_default().clone_into(&mut path);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    io::copy(&mut reader.take(length), &mut io::sink())?;
    Ok(path)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
