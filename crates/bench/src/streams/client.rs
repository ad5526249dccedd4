//! A client with one connection, which sends a request and reads its answer piece by piece.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::http1::{BodyPlace, read_head};

/// 5,000 connections at once take seconds until all are accepted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request of the preparation may take; an import of 10,000 memories is one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
const READ_BYTES: usize = 4096;
/// The part of a refusal that a failure shows.
const SHOWN_BYTES: usize = 300;
const JSON: &str = "application/json";

/// The part of a request that differs; the rest is always the same.
pub(super) struct PlainRequest<'r> {
    pub(super) method: &'static str,
    pub(super) path: &'r str,
    pub(super) key: Option<&'r str>,
    pub(super) content_type: &'static str,
    pub(super) body: &'r str,
}

impl<'r> PlainRequest<'r> {
    pub(super) fn json(method: &'static str, path: &'r str, key: Option<&'r str>, body: &'r str) -> Self {
        Self { method, path, key, content_type: JSON, body }
    }
}

pub(super) struct PlainClient {
    address: SocketAddr,
    stream: Option<TcpStream>,
    received: Vec<u8>,
    place: BodyPlace,
}

impl PlainClient {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, received: Vec::new(), place: BodyPlace::Done }
    }

    /// Sends a request and gives the status of its answer. A connection that the server has closed meanwhile is
    /// replaced once.
    pub(super) async fn send(&mut self, request: &PlainRequest<'_>) -> Result<u16, String> {
        let is_reused = self.stream.is_some();
        match self.send_once(request).await {
            Err(_) if is_reused && self.received.is_empty() => self.send_once(request).await,
            outcome => outcome,
        }
    }

    async fn send_once(&mut self, request: &PlainRequest<'_>) -> Result<u16, String> {
        let text = self.write_request(request);
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address).await?,
        };
        self.received.clear();
        stream.write_all(text.as_bytes()).await.map_err(|error| format!("cannot send: {error}"))?;
        loop {
            if stream.read_buf(&mut self.received).await.map_err(|error| format!("cannot read: {error}"))?
                == 0
            {
                return Err("the connection ended before the answer".into());
            }
            let Some(head) = read_head(&self.received)? else { continue };
            self.received.drain(..head.bytes);
            self.place = head.body;
            self.stream = Some(stream);
            let status = head.first_line.split(' ').nth(1).and_then(|status| status.parse().ok());
            return status.ok_or_else(|| format!("no status: {}", head.first_line));
        }
    }

    fn write_request(&self, request: &PlainRequest<'_>) -> String {
        let PlainRequest { method, path, key, content_type, body } = request;
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{key}content-type: {content_type}\r\n\
             accept: text/event-stream, application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
    }

    /// Adds the next bytes of the body to `content`; false at the end of the body.
    pub(super) async fn next_piece(&mut self, content: &mut Vec<u8>) -> Result<bool, String> {
        let before = content.len();
        loop {
            let taken = self.place.decode(&self.received, content).inspect_err(|_| self.stream = None)?;
            self.received.drain(..taken);
            if content.len() > before {
                return Ok(true);
            }
            if self.place.is_done() {
                return Ok(false);
            }
            let stream = self.stream.as_mut().ok_or("the connection is closed")?;
            self.received.reserve(READ_BYTES);
            match stream.read_buf(&mut self.received).await {
                Ok(1..) => {}
                Ok(0) => {
                    self.stream = None;
                    return Err("the connection ended inside of the answer".into());
                }
                Err(error) => {
                    self.stream = None;
                    return Err(format!("cannot read: {error}"));
                }
            }
        }
    }

    /// The next request opens a new connection.
    pub(super) fn close(&mut self) {
        self.stream = None;
    }

    /// The beginning of the body of a refusal.
    pub(super) async fn read_refusal(&mut self, status: u16) -> String {
        let mut content = Vec::new();
        while content.len() < SHOWN_BYTES && matches!(self.next_piece(&mut content).await, Ok(true)) {}
        self.close();
        content.truncate(SHOWN_BYTES);
        format!("status {status}: {}", String::from_utf8_lossy(&content))
    }

    /// Sends a request of the preparation and reads its whole answer, which must be good.
    pub(super) async fn ask(&mut self, request: &PlainRequest<'_>) -> Result<Vec<u8>, String> {
        let PlainRequest { method, path, .. } = request;
        let answer = async {
            let status = self.send(request).await?;
            if !(200..300).contains(&status) {
                return Err(self.read_refusal(status).await);
            }
            let mut content = Vec::new();
            while self.next_piece(&mut content).await? {}
            Ok(content)
        };
        match timeout(REQUEST_TIMEOUT, answer).await {
            Ok(Ok(content)) => Ok(content),
            Ok(Err(error)) => Err(format!("{method} {path}: {error}")),
            Err(_) => Err(format!("{method} {path}: no answer within {} s", REQUEST_TIMEOUT.as_secs())),
        }
    }

    pub(super) async fn ask_json(&mut self, request: &PlainRequest<'_>) -> Result<Value, String> {
        let content = self.ask(request).await?;
        serde_json::from_slice(&content).map_err(|error| format!("{} gave no JSON: {error}", request.path))
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(stream) => stream.map_err(|error| format!("cannot connect: {error}"))?,
        Err(_) => return Err(format!("cannot connect within {} s", CONNECT_TIMEOUT.as_secs())),
    };
    stream.set_nodelay(true).map_err(|error| format!("cannot connect: {error}"))?;
    Ok(stream)
}
