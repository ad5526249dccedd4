//! Server-sent events: a run or a thread's log on the wire.
//!
//! A frame is `event: <kind>`, `id: <seq>`, `data: <body>`. The stored bytes go out as they are, a whole batch in one
//! buffer: this is the hottest path of the server.

use std::fmt::Write as _;
use std::future::ready;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use protocol::Stored;
use service::{ChannelEvent, NumberedNotice};

use crate::event_stream::{EventWriter, StreamCut, StreamState};

/// A frame without its kind, number and body.
const FRAME_BYTES: usize = "event: \nid: \ndata: \n\n".len();
const MAX_NUMBER_BYTES: usize = 20;
/// How long a client waits before it connects again. Drawn per stream, so that after a restart they do not all come
/// in the same instant.
const RETRY_MS: RangeInclusive<u64> = 500..=2500;

/// Reasons that a client is given whose access ends while it reads.
pub(crate) const EXPIRED: &str =
    "the key, the JWT or the session has expired; get a new one, and read on after the last event";
pub(crate) const REVOKED: &str =
    "the key or the session was revoked; with another one, the user can read on after the last event";

/// Writes events as they are stored.
pub(crate) struct LogFrames;

impl EventWriter for LogFrames {
    type Event = Arc<Stored>;

    fn opening(&self) -> Bytes {
        retry()
    }

    fn write(&mut self, batch: &[Arc<Stored>]) -> impl Future<Output = (Bytes, StreamState)> + Send {
        ready((encode(batch), StreamState::Open))
    }

    fn cut(&mut self, cut: StreamCut) -> Bytes {
        last_frame(cut)
    }
}

/// Writes the channel of a user. Notices have their number as `id:`; events of threads have none, because a client goes on
/// from the last notice.
pub(crate) struct ChannelFrames;

impl EventWriter for ChannelFrames {
    type Event = ChannelEvent;

    fn opening(&self) -> Bytes {
        retry()
    }

    fn write(&mut self, batch: &[ChannelEvent]) -> impl Future<Output = (Bytes, StreamState)> + Send {
        let mut out = Vec::new();
        for event in batch {
            write_channel_frame(&mut out, event);
        }
        ready((Bytes::from(out), StreamState::Open))
    }

    fn cut(&mut self, cut: StreamCut) -> Bytes {
        last_frame(cut)
    }
}

fn write_channel_frame(out: &mut Vec<u8>, event: &ChannelEvent) {
    match event {
        // Without data it is no event for a browser, which remembers the number all the same.
        ChannelEvent::Place(number) => write_numbered(out, None, *number, None),
        ChannelEvent::Resync(number) => write_numbered(out, Some("resync"), *number, Some("{}")),
        ChannelEvent::Notice(NumberedNotice { number, notice, .. }) => {
            let body = serde_json::to_string(notice).unwrap_or_else(|_| "{}".into());
            write_numbered(out, Some(notice.name()), *number, Some(&body));
        }
        ChannelEvent::Thread(event) => write_thread_frame(out, event),
    }
    out.extend_from_slice(b"\n\n");
}

fn write_numbered(out: &mut Vec<u8>, name: Option<&str>, number: u64, body: Option<&str>) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    if let Some(body) = body {
        write_data(out, body.as_bytes());
    }
}

/// An event of a followed thread: the stored bytes, inside of an object that says where they belong.
fn write_thread_frame(out: &mut Vec<u8>, event: &Stored) {
    out.extend_from_slice(b"event: ");
    write_kind(out, event.kind.as_bytes());
    let mut data = format!("{{\"threadId\":\"{}\",\"seq\":{}", event.thread, event.seq);
    if let Some(run) = event.run {
        let _ = write!(data, ",\"runId\":\"{run}\"");
    }
    data.push_str(",\"data\":");
    data.push_str(&event.body);
    data.push('}');
    write_data(out, data.as_bytes());
}

/// The last frame of a stream of our own that is cut.
fn last_frame(cut: StreamCut) -> Bytes {
    match cut {
        StreamCut::Stopping => retry(),
        StreamCut::Unreadable => Bytes::new(),
        StreamCut::Expired => access_ended("expired", EXPIRED),
        StreamCut::Revoked => access_ended("revoked", REVOKED),
    }
}

/// Tells a client that it has to authenticate again before it reads on. The event has no number: it is not in the log.
fn access_ended(reason: &str, detail: &str) -> Bytes {
    let body = serde_json::json!({ "reason": reason, "detail": detail });
    Bytes::from(format!("event: access:ended\ndata: {body}\n\n"))
}

fn retry() -> Bytes {
    Bytes::from(format!("retry: {}\n\n", fastrand::u64(RETRY_MS)))
}

fn encode(batch: &[Arc<Stored>]) -> Bytes {
    let frame = |event: &Arc<Stored>| FRAME_BYTES + MAX_NUMBER_BYTES + event.kind.len() + event.body.len();
    let mut out = Vec::with_capacity(batch.iter().map(frame).sum());
    for event in batch {
        write_frame(&mut out, event);
    }
    Bytes::from(out)
}

fn write_frame(out: &mut Vec<u8>, event: &Stored) {
    out.extend_from_slice(b"event: ");
    write_kind(out, event.kind.as_bytes());
    out.extend_from_slice(b"\nid: ");
    out.extend_from_slice(itoa::Buffer::new().format(event.seq).as_bytes());
    write_data(out, event.body.as_bytes());
    out.extend_from_slice(b"\n\n");
}

fn write_kind(out: &mut Vec<u8>, kind: &[u8]) {
    if has_line_break(kind) {
        out.extend(kind.iter().filter(|byte| !is_line_break(byte)));
    } else {
        out.extend_from_slice(kind);
    }
}

/// JSON as we write it has no line breaks. A corrupt row may, and then each of its lines is a line of data, so that
/// no row can pass for another event.
fn write_data(out: &mut Vec<u8>, body: &[u8]) {
    if has_line_break(body) {
        for line in body.split(is_line_break) {
            out.extend_from_slice(b"\ndata: ");
            out.extend_from_slice(line);
        }
    } else {
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(body);
    }
}

fn has_line_break(bytes: &[u8]) -> bool {
    bytes.contains(&b'\n') || bytes.contains(&b'\r')
}

fn is_line_break(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests;
