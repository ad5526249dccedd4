//! One connection to a scripted server of tools: HTTP/1.1 by hand, because faults have to happen at exact bytes.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::reply::{Act, ENDLESS_BYTES};
use super::{McpArrival, Shared};

/// Bytes of an endless answer that are written at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Answers requests until either side closes.
pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.split();
    let mut reader = Reader { half: reader, buffer: Vec::new() };
    while let Some(arrival) = reader.arrival().await {
        let acts = shared.receive(&arrival);
        let goes_on = tokio::select! {
            biased;
            goes_on = perform(acts, &mut writer, &shared) => goes_on,
            () = reader.gone() => false,
        };
        if !goes_on {
            break;
        }
    }
    drop(stream);
    shared.change(|state| state.open -= 1);
}

/// Carries out an answer and says whether the connection may carry another.
async fn perform(acts: Vec<Act>, writer: &mut WriteHalf<'_>, shared: &Shared) -> bool {
    for act in acts {
        match act {
            Act::Write(bytes) => {
                if !write(writer, &bytes, shared).await {
                    return false;
                }
            }
            Act::Wait(gate) => gate.pass().await,
            Act::Stall => std::future::pending().await,
            Act::Endless => {
                endless(writer, shared).await;
                return false;
            }
            Act::Close => return false,
        }
    }
    true
}

async fn write(writer: &mut WriteHalf<'_>, bytes: &[u8], shared: &Shared) -> bool {
    let written = writer.write_all(bytes).await.is_ok();
    if written {
        shared.change(|state| state.written += bytes.len() as u64);
    }
    written
}

/// Writes a text that does not close until the client does, or there has been more of it than anybody may read.
async fn endless(writer: &mut WriteHalf<'_>, shared: &Shared) {
    let head = format!(
        "HTTP/1.1 200 Scripted\r\ncontent-type: application/json\r\ncontent-length: {ENDLESS_BYTES}\r\n\r\n\""
    );
    let piece = vec![b'a'; PIECE_BYTES];
    let mut goes_on = write(writer, head.as_bytes(), shared).await;
    let mut left = ENDLESS_BYTES;
    while goes_on && left > 0 {
        goes_on = write(writer, &piece, shared).await;
        left = left.saturating_sub(PIECE_BYTES as u64);
    }
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

    async fn arrival(&mut self) -> Option<McpArrival> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill().await {
                return None;
            }
        };
        let head = String::from_utf8_lossy(self.buffer.get(..head_end)?).into_owned();
        let mut arrival = parse_head(&head)?;
        let length = arrival.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let end = head_end + length;
        while self.buffer.len() < end {
            if !self.fill().await {
                return None;
            }
        }
        arrival.body = serde_json::from_slice(self.buffer.get(head_end..end)?).unwrap_or_default();
        self.buffer.drain(..end);
        Some(arrival)
    }
}

fn parse_head(head: &str) -> Option<McpArrival> {
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (verb, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some(McpArrival { verb, path, headers, body: Value::Null })
}
