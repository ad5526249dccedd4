//! One connection to a scripted server of tools.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;

use super::reply::{ENDLESS_BYTES, McpAct};
use super::{McpArrival, Shared};
use crate::listen::{RawRequest, Reader};

/// Bytes of an endless answer that are written at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Answers requests until either side closes.
pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    shared.change(|state| (state.connections, state.open) = (state.connections + 1, state.open + 1));
    let (reader, mut writer) = stream.split();
    let mut reader = Reader::new(reader);
    while let Some(request) = reader.request().await {
        let acts = shared.receive(&arrival(request));
        let goes_on = tokio::select! {
            biased;
            goes_on = perform(acts, &mut writer, &shared) => goes_on,
            () = reader.wait_until_gone() => false,
        };
        if !goes_on {
            break;
        }
    }
    drop(stream);
    shared.change(|state| state.open -= 1);
}

/// Carries out an answer and says whether the connection may carry another.
async fn perform(acts: Vec<McpAct>, writer: &mut WriteHalf<'_>, shared: &Shared) -> bool {
    for act in acts {
        match act {
            McpAct::Write(bytes) => {
                if !write(writer, &bytes, shared).await {
                    return false;
                }
            }
            McpAct::Wait(gate) => gate.pass().await,
            McpAct::Stall => std::future::pending().await,
            McpAct::Endless => {
                endless(writer, shared).await;
                return false;
            }
            McpAct::Close => return false,
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

/// Writes a text that does not close until the client does, or there has been more of it than a client may read.
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

fn arrival(request: RawRequest) -> McpArrival {
    let RawRequest { method, target, headers, body } = request;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    McpArrival { verb: method, path: target, headers, body }
}
