//! The body of an event stream: batches of events as they come, each in the words of one contract, and a comment
//! whenever it has been silent for long.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use protocol::Stored;
use service::{Error, Follower, StreamAccess};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::stream_permits::StreamPermit;

/// The longest time between two looks at the end of an access, which a rotated key moves nearer.
const ACCESS_LOOK: Duration = Duration::from_secs(15);

const HEARTBEAT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The surroundings of an open stream.
pub(crate) struct StreamSetting {
    /// The longest silence.
    pub(crate) heartbeat: Duration,
    /// Cancelled when the server stops.
    pub(crate) shutdown: CancellationToken,
    /// The access that the stream ends with.
    pub(crate) access: StreamAccess,
    /// Held until the body is dropped.
    pub(crate) permit: StreamPermit,
}

/// Whether more of a stream follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamState {
    Open,
    Ended,
}

/// Why a stream ends before its events do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamCut {
    /// The server stops.
    Stopping,
    /// There are no more events, or they cannot be read.
    Unreadable,
    /// The key, the JWT or the session has expired.
    Expired,
    /// The key or the session was revoked.
    Revoked,
}

/// Writes events in the words of one contract.
pub(crate) trait EventWriter: Send + 'static {
    /// The events that it writes.
    type Event: Send + Sync;

    /// The bytes that a stream begins with; none by default.
    fn opening(&self) -> Bytes {
        Bytes::new()
    }

    /// The bytes of a batch. There may be none: many events have no words in a contract.
    fn write(&mut self, batch: &[Self::Event]) -> impl Future<Output = (Bytes, StreamState)> + Send;

    /// The last bytes of a stream that is cut.
    fn cut(&mut self, cut: StreamCut) -> Bytes;
}

/// The events of `follower` as a response.
pub(crate) fn response(
    follower: Follower,
    writer: impl EventWriter<Event = Arc<Stored>>,
    setting: StreamSetting,
) -> Response {
    let batches = stream::unfold(follower, |mut follower| async {
        let batch = follower.next().await.transpose()?;
        Some((batch, follower))
    });
    response_of(batches, writer, setting)
}

/// Batches of events as a response.
pub(crate) fn response_of<S, W>(batches: S, writer: W, setting: StreamSetting) -> Response
where
    S: Stream<Item = Result<Vec<W::Event>, Error>> + Send + 'static,
    W: EventWriter,
{
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body(batches, writer, setting)).into_response()
}

/// A body that ends with its events, with an error (the client resumes from the log), or when the server stops.
pub(crate) fn body<S, W>(events: S, writer: W, setting: StreamSetting) -> Body
where
    S: Stream<Item = Result<Vec<W::Event>, Error>> + Send + 'static,
    W: EventWriter,
{
    let opening = Some(writer.opening()).filter(|bytes| !bytes.is_empty());
    let StreamSetting { heartbeat, shutdown, access, permit } = setting;
    let over = Box::pin(access.is_over().clone().cancelled_owned());
    let open = EventStream {
        events: Box::pin(events),
        writer,
        heartbeat,
        shutdown,
        access,
        over,
        alarm: None,
        state: StreamState::Open,
        _permit: permit,
    };
    let chunks = stream::unfold(open, |mut open| async {
        let chunk = open.next().await?;
        Some((chunk, open))
    });
    Body::from_stream(stream::iter(opening).chain(chunks).map(Ok::<_, Infallible>))
}

struct EventStream<S, W> {
    events: Pin<Box<S>>,
    writer: W,
    heartbeat: Duration,
    shutdown: CancellationToken,
    access: StreamAccess,
    /// Ready when the access is over. One for the whole stream: to make another for each token would cost as much as the
    /// token.
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Rings at the end of a silence, or before it. One for the whole stream, too.
    alarm: Option<Pin<Box<Sleep>>>,
    state: StreamState,
    _permit: StreamPermit,
}

impl<S: Stream<Item = Result<Vec<W::Event>, Error>>, W: EventWriter> EventStream<S, W> {
    /// The next bytes. Silence is measured from the last bytes, not from the last event.
    async fn next(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        let expiry = self.access.time_left().map(|left| now + left);
        let quiet = expiry.map_or(now + self.heartbeat, |expiry| expiry.min(now + self.heartbeat));
        if expiry.is_some_and(|expiry| expiry <= now) && self.state == StreamState::Open {
            return self.cut(StreamCut::Expired);
        }
        while self.state == StreamState::Open {
            let batch = tokio::select! {
                biased;
                () = &mut self.over => {
                    let is_stopping = self.shutdown.is_cancelled();
                    return self.cut(if is_stopping { StreamCut::Stopping } else { StreamCut::Revoked });
                }
                batch = self.events.next() => batch,
                () = ring_at(&mut self.alarm, quiet) => match expiry {
                    Some(expiry) if expiry == quiet => return self.cut(StreamCut::Expired),
                    Some(_) | None => return Some(HEARTBEAT),
                },
            };
            let Some(Ok(batch)) = batch else { return self.cut(StreamCut::Unreadable) };
            // A rotated key may have ended while this waited.
            if self.access.time_left().is_some_and(|left| left.is_zero()) {
                return self.cut(StreamCut::Expired);
            }
            let (bytes, state) = self.writer.write(&batch).await;
            self.state = state;
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
        None
    }

    fn cut(&mut self, cut: StreamCut) -> Option<Bytes> {
        self.state = StreamState::Ended;
        Some(self.writer.cut(cut)).filter(|bytes| !bytes.is_empty())
    }
}

/// Waits for the end of an access: it is revoked, it expires, or the server stops.
pub(crate) async fn access_end(access: &StreamAccess) {
    loop {
        let left = access.time_left();
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        let look = left.map_or(ACCESS_LOOK, |left| left.min(ACCESS_LOOK));
        tokio::select! {
            () = access.is_over().cancelled() => return,
            () = tokio::time::sleep(look) => {}
        }
    }
}

/// Waits until a moment. An alarm that rings before it, because there were events since it was set, is set again. So a
/// stream sets its alarm once in a heartbeat, not once for each token.
async fn ring_at(alarm: &mut Option<Pin<Box<Sleep>>>, moment: Instant) {
    let alarm = alarm.get_or_insert_with(|| Box::pin(sleep_until(moment)));
    if alarm.deadline() > moment {
        alarm.as_mut().reset(moment);
    }
    loop {
        alarm.as_mut().await;
        if Instant::now() >= moment {
            return;
        }
        alarm.as_mut().reset(moment);
    }
}
