//! Server-sent events: a run or a thread's log on the wire.
//!
//! A frame is `event: <kind>`, `id: <seq>`, `data: <body>`. The stored bytes go out as they are, a whole batch in one
//! buffer: this is the hottest path of the server.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use protocol::{Ids, Stored, TimeOrderedIds};
use service::{Error, Follower};
use tokio_util::sync::CancellationToken;

use crate::streams::Permit;

const HEARTBEAT: Bytes = Bytes::from_static(b": keep-alive\n\n");
/// A frame without its kind, number and body.
const FRAME_BYTES: usize = "event: \nid: \ndata: \n\n".len();
const MAX_NUMBER_BYTES: usize = 20;
/// How long a client waits before it connects again. Drawn per stream, so that after a restart they do not all come
/// in the same instant.
const RETRY_MS: RangeInclusive<u64> = 500..=2500;

/// What an open stream needs besides its events.
pub(crate) struct Setting {
    pub(crate) heartbeat: Duration,
    pub(crate) shutdown: CancellationToken,
    /// Held until the body is dropped.
    pub(crate) permit: Permit,
}

/// The events of `follower` as a response.
pub(crate) fn response(follower: Follower, setting: Setting) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body(batches(follower), setting)).into_response()
}

fn batches(follower: Follower) -> impl Stream<Item = Result<Vec<Arc<Stored>>, Error>> + Send {
    stream::unfold(follower, |mut follower| async {
        let batch = follower.next().await.transpose()?;
        Some((batch, follower))
    })
}

/// A body that ends with its events, with an error (the client resumes from the log), or when the server stops.
pub(crate) fn body<S>(events: S, setting: Setting) -> Body
where
    S: Stream<Item = Result<Vec<Arc<Stored>>, Error>> + Send + 'static,
{
    let Setting { heartbeat, shutdown, permit } = setting;
    let open = Open { events: Box::pin(events), state: State::New, heartbeat, shutdown, _permit: permit };
    Body::from_stream(stream::unfold(open, |mut open| async {
        let chunk = open.next().await?;
        Some((Ok::<_, Infallible>(chunk), open))
    }))
}

struct Open<S> {
    events: Pin<Box<S>>,
    state: State,
    heartbeat: Duration,
    shutdown: CancellationToken,
    _permit: Permit,
}

enum State {
    New,
    Following,
    Stopped,
}

impl<S: Stream<Item = Result<Vec<Arc<Stored>>, Error>>> Open<S> {
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::New => {
                self.state = State::Following;
                Some(retry())
            }
            State::Following => self.follow().await,
            State::Stopped => None,
        }
    }

    async fn follow(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => {
                self.state = State::Stopped;
                Some(retry())
            }
            batch = self.events.next() => batch?.ok().map(|batch| encode(&batch)),
            () = tokio::time::sleep(self.heartbeat) => Some(HEARTBEAT),
        }
    }
}

fn retry() -> Bytes {
    let (_, random) = TimeOrderedIds.fresh().as_u64_pair();
    let wait = RETRY_MS.start() + random % (RETRY_MS.end() - RETRY_MS.start() + 1);
    Bytes::from(format!("retry: {wait}\n\n"))
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
