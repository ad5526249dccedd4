//! Doors: a run's log in the words of other people's contracts.
//!
//! An encoder is a fold over the events of one run, so a stream that is read again has the same bytes; the facts alone
//! say the same in fewer pieces, so a run whose deltas are pruned is told like any other. What a contract cannot take
//! back it does not repeat: the stream ends with an error, and the run goes on without it.

mod chats;
mod delta;
#[cfg(test)]
mod tests;
mod ui;

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use protocol::{Event, Principal, ProposalId, ReasoningDelta, Stored, TextDelta, ToolInput};
use serde::Serialize;
use service::{Follower, Service};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::sse::Setting;
use crate::streams::Permit;

pub(crate) use chats::Chat;
pub(crate) use delta::Deltas;
pub(crate) use ui::UiMessages;

const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// Tells clients of the AI SDK which protocol this is.
pub(crate) const UI_MESSAGE_STREAM: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-vercel-ai-ui-message-stream"), HeaderValue::from_static("v1"));

/// What clients are told when a stream ends before its run does.
const STOPPING: &str = "the server is stopping; the answer goes on and can be read when it is back";
const UNREADABLE: &str = "the answer cannot be read now; it goes on and can be read later";
const BEGUN_AGAIN: &str = "the model was cut off and begins this answer again; read it when it is complete";

/// Whether more of a stream follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Goes,
    Ended,
}

/// One contract's words for a run.
pub(crate) trait Encoder: Send + Sync + 'static {
    /// Appends what the event becomes.
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> Flow;

    /// Appends the end of a stream that is cut while its run goes on.
    fn cut(&mut self, why: &str, out: &mut Vec<u8>);

    /// What the user must decide before there can be more, where this contract ends its stream for that.
    fn waits_for(&self) -> Vec<ProposalId>;

    /// Appends the end of a stream whose run waits for the user.
    fn park(&mut self, out: &mut Vec<u8>);
}

/// Whose run it is, and who knows more of it than its log so far.
pub(crate) struct Asking {
    pub(crate) service: Service,
    pub(crate) principal: Principal,
}

/// The events of `follower` as a response in the words of `encoder`.
pub(crate) fn response<E: Encoder>(
    follower: Follower,
    encoder: E,
    asking: Asking,
    setting: Setting,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let Setting { heartbeat, shutdown, permit } = setting;
    let follower = follower.by_facts();
    let open = Open { follower, encoder, asking, heartbeat, shutdown, flow: Flow::Goes, _permit: permit };
    let body = stream::unfold(open, |mut open| async {
        let chunk = open.next().await?;
        Some((Ok::<_, Infallible>(chunk), open))
    });
    (headers, Body::from_stream(body)).into_response()
}

struct Open<E> {
    follower: Follower,
    encoder: E,
    asking: Asking,
    heartbeat: Duration,
    shutdown: CancellationToken,
    flow: Flow,
    _permit: Permit,
}

impl<E: Encoder> Open<E> {
    /// The next bytes. Many events have no words in a contract, so silence is measured from the last bytes.
    async fn next(&mut self) -> Option<Bytes> {
        let quiet = Instant::now() + self.heartbeat;
        while self.flow == Flow::Goes {
            let batch = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return Some(self.cut(STOPPING)),
                batch = self.follower.next() => batch,
                () = sleep_until(quiet) => return Some(KEEP_ALIVE),
            };
            let Ok(Some(batch)) = batch else { return Some(self.cut(UNREADABLE)) };
            let bytes = self.encode(&batch).await;
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
        None
    }

    async fn encode(&mut self, batch: &[Arc<Stored>]) -> Bytes {
        let mut out = Vec::new();
        // A row that cannot be read has no words in any contract.
        let read = |stored: &Arc<Stored>| Event::read(&stored.kind, &stored.body).ok();
        for event in lasting(batch.iter().filter_map(read).collect()) {
            self.flow = self.encoder.write(event, &mut out);
            if self.flow == Flow::Ended {
                return out.into();
            }
        }
        if self.is_parked().await {
            self.encoder.park(&mut out);
            self.flow = Flow::Ended;
        }
        out.into()
    }

    /// Whether the run waits, rather than having waited at this place of its log.
    async fn is_parked(&self) -> bool {
        for id in self.encoder.waits_for() {
            let proposal = self.asking.service.proposal(&self.asking.principal, id).await;
            if proposal.is_ok_and(|proposal| proposal.decided_at.is_none()) {
                return true;
            }
        }
        false
    }

    fn cut(&mut self, why: &str) -> Bytes {
        self.flow = Flow::Ended;
        let mut out = Vec::new();
        self.encoder.cut(why, &mut out);
        out.into()
    }
}

/// The events without pieces of steps that are begun again among them: who reads a log late need not see them.
fn lasting(mut events: Vec<Event>) -> Vec<Event> {
    let mut begun_again = HashSet::new();
    let mut kept = Vec::with_capacity(events.len());
    while let Some(event) = events.pop() {
        if let Event::StepReset(reset) = &event {
            begun_again.insert(reset.step);
        }
        if !piece_of(&event).is_some_and(|step| begun_again.contains(&step)) {
            kept.push(event);
        }
    }
    kept.reverse();
    kept
}

/// The step that the event is a piece of, if it is one.
fn piece_of(event: &Event) -> Option<u32> {
    if let Event::TextDelta(TextDelta { step, .. })
    | Event::ReasoningDelta(ReasoningDelta { step, .. })
    | Event::ToolInput(ToolInput { step, .. }) = event
    {
        return Some(*step);
    }
    None
}

/// Appends one `data:` line. JSON has no line breaks of its own.
fn write_data(out: &mut Vec<u8>, data: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    let written = serde_json::to_writer(&mut *out, data);
    debug_assert!(written.is_ok(), "a vector takes every byte");
    out.extend_from_slice(b"\n\n");
}
