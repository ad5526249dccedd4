//! A small HTTP server and client on loopback, for trials.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long a peer may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a request's body that are read.
const MAX_BODY: u64 = 16 * 1024 * 1024;

/// The answer to a request: its status, the type of its content, and its content.
pub(super) type LoopbackAnswer = (u16, &'static str, Vec<u8>);

/// A server that answers every request by its path. It stops when it is dropped.
pub(super) struct LoopbackServer {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl LoopbackServer {
    pub(super) fn start(answer: impl Fn(&str) -> LoopbackAnswer + Send + 'static) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot serve on loopback: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let server = Self { address, stopped: Arc::clone(&stopped) };
        thread::spawn(move || serve_all(&listener, &stopped, &answer));
        Ok(server)
    }

    /// The address as a URL, without a slash at its end.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve_all(listener: &TcpListener, stopped: &AtomicBool, answer: &impl Fn(&str) -> LoopbackAnswer) {
    for connection in listener.incoming().flatten() {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        // A client that breaks off reports its own failure.
        let _ = serve(connection, answer);
    }
}

fn serve(connection: TcpStream, answer: &impl Fn(&str) -> LoopbackAnswer) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(connection);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    io::copy(&mut reader.by_ref().take(MAX_BODY.min(length)), &mut io::sink())?;
    let path = first.split_whitespace().nth(1).unwrap_or_default();
    let (status, kind, body) = answer(path);
    let mut connection = reader.into_inner();
    write!(
        connection,
        "HTTP/1.1 {status} Answer\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    connection.write_all(&body)
}

/// A request to a server on this machine.
pub(super) struct LoopbackRequest<'a> {
    pub(super) port: u16,
    pub(super) path: &'a str,
    /// The key of a user, if the server needs one.
    pub(super) key: Option<&'a str>,
    /// JSON, which makes it a POST.
    pub(super) body: Option<&'a str>,
}

impl LoopbackRequest<'_> {
    /// The status and everything after it.
    pub(super) fn send(&self) -> io::Result<(u16, String)> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let method = if self.body.is_some() { "POST" } else { "GET" };
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n",
            self.path, self.port
        );
        if let Some(key) = self.key {
            head.push_str(&format!("authorization: Bearer {key}\r\n"));
        }
        let body = self.body.unwrap_or_default();
        if !body.is_empty() {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        write!(connection, "{head}\r\n{body}")?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("this is no HTTP: {answer:?}")))?;
        Ok((status, answer))
    }
}

/// A port that no process uses at this moment.
pub(super) fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("there is no free port: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_reads_what_the_server_answers() {
        let server = LoopbackServer::start(|path| match path {
            "/there" => (200, "text/plain", b"Hello.".to_vec()),
            _ => (404, "text/plain", Vec::new()),
        })
        .unwrap();
        let port = server.address.port();
        let get = |path| LoopbackRequest { port, path, key: None, body: None }.send().unwrap();
        let (status, answer) = get("/there");
        assert_eq!((status, answer.ends_with("\r\n\r\nHello.")), (200, true));
        assert_eq!(get("/other").0, 404);
        let post = LoopbackRequest { port, path: "/there", key: Some("k"), body: Some("{}") };
        assert_eq!(post.send().unwrap().0, 200);
    }
}
