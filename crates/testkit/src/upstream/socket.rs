//! One connection: HTTP/1.1 by hand, because faults have to happen at exact bytes.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::reply::Act;
use super::{Received, Shared};

/// Answers requests until either side closes.
pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut served = Vec::new();
    let (reader, mut writer) = stream.split();
    let mut reader = Reader { half: reader, buffer: Vec::new() };
    while let Some(request) = reader.request().await {
        let (index, acts) = shared.receive(request);
        served.push(index);
        let goes_on = tokio::select! {
            biased;
            goes_on = perform(acts, &mut writer, |bytes| shared.wrote(index, bytes)) => goes_on,
            () = reader.gone() => false,
        };
        if !goes_on {
            break;
        }
    }
    drop(stream);
    shared.closed(&served);
}

/// Carries out a reply and says whether the connection may carry another.
async fn perform(acts: Vec<Act>, writer: &mut WriteHalf<'_>, wrote: impl Fn(usize)) -> bool {
    for act in acts {
        match act {
            Act::Write(bytes) => {
                if writer.write_all(&bytes).await.is_err() {
                    return false;
                }
                wrote(bytes.len());
            }
            Act::Wait(gate) => gate.pass().await,
            Act::Stall => std::future::pending().await,
            Act::Close => return false,
            Act::Reset => {
                let _ = writer.as_ref().set_zero_linger();
                return false;
            }
        }
    }
    true
}

struct Reader<'a> {
    half: ReadHalf<'a>,
    buffer: Vec<u8>,
}

impl Reader<'_> {
    /// Returns when the client has closed the connection.
    async fn gone(&mut self) {
        while self.fill().await {}
    }

    async fn fill(&mut self) -> bool {
        self.half.read_buf(&mut self.buffer).await.is_ok_and(|bytes| bytes > 0)
    }

    async fn request(&mut self) -> Option<Received> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill().await {
                return None;
            }
        };
        let head = String::from_utf8_lossy(self.buffer.get(..head_end)?).into_owned();
        let mut request = parse_head(&head)?;
        let end =
            head_end + request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.buffer.len() < end {
            if !self.fill().await {
                return None;
            }
        }
        request.body = read_json(self.buffer.get(head_end..end)?).unwrap_or_default();
        self.buffer.drain(..end);
        Some(request)
    }
}

/// None if it is not JSON, or an object in it names a key twice, of which readers would each take another one.
fn read_json(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    (members(&value) == colons(bytes)).then_some(value)
}

/// How many members all objects in this have.
fn members(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(values) => values.iter().map(members).sum(),
        Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
    }
}

/// Colons outside of strings: one for every member that was written down.
fn colons(json: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b':' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

fn parse_head(head: &str) -> Option<Received> {
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some(Received { path, headers, body: Value::Null })
}
