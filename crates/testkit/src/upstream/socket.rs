//! One connection to the scripted provider.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;

use super::reply::ReplyAct;
use super::{Received, ReplyEnding, Shared};
use crate::listen::{RawRequest, Reader};

/// Answers requests until either side closes.
pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    shared.change(|state| state.connections += 1);
    let mut served = Vec::new();
    let (reader, mut writer) = stream.split();
    let mut reader = Reader::new(reader);
    while let Some(request) = reader.request().await {
        let (index, acts) = shared.receive(as_received(request));
        served.push(index);
        let ending = tokio::select! {
            biased;
            ending = perform(acts, &mut writer, |bytes| shared.count_written(index, bytes)) => ending,
            () = reader.wait_until_gone() => ReplyEnding::Left,
        };
        shared.note_end(index, ending);
        if ending != ReplyEnding::Whole {
            break;
        }
        if shared.is_observed() {
            served.clear();
        }
    }
    drop(stream);
    shared.note_closed(&served);
}

/// Carries out a reply. After a whole one the connection may carry another.
async fn perform(acts: Vec<ReplyAct>, writer: &mut WriteHalf<'_>, wrote: impl Fn(usize)) -> ReplyEnding {
    for act in acts {
        match act {
            ReplyAct::Write(bytes) => {
                if writer.write_all(&bytes).await.is_err() {
                    return ReplyEnding::Left;
                }
                wrote(bytes.len());
            }
            ReplyAct::Wait(gate) => gate.pass().await,
            ReplyAct::Pause(time) => tokio::time::sleep(time).await,
            ReplyAct::Stall => std::future::pending().await,
            ReplyAct::Close => return ReplyEnding::Cut,
            ReplyAct::Reset => {
                let _ = writer.as_ref().set_zero_linger();
                return ReplyEnding::Cut;
            }
        }
    }
    ReplyEnding::Whole
}

fn as_received(request: RawRequest) -> Received {
    let RawRequest { target, headers, body, .. } = request;
    Received { path: target, headers, body: read_json(&body).unwrap_or_default() }
}

/// None if it is not JSON, or an object in it names a key twice, of which readers would each take another one.
fn read_json(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    (members(&value) == count_colons(bytes)).then_some(value)
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
fn count_colons(json: &[u8]) -> usize {
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
