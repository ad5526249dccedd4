//! Encoders that write a run's log in the contracts of other projects, such as OpenAI's or AG-UI.
//!
//! An encoder is a fold over the events of one run, so a stream that is read again has the same bytes. The facts alone
//! give the same text in fewer pieces, so a run with pruned deltas is written like any other. Some contracts cannot
//! remove text that was sent. If a step begins again there, the stream ends with an error, and the run continues
//! without it.

mod ag_ui;
mod chat_completions;
mod chats;
mod delta;
mod responses;
#[cfg(test)]
mod tests;
mod ui;
mod waits;

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use protocol::{CallId, Event, Principal, ProposalId, ReasoningDelta, Seq, Stored, TextDelta, ToolInput};
use serde::Serialize;
use service::Service;

use crate::event_stream::{EventWriter, StreamCut, StreamState};
use crate::sse::{EXPIRED, REVOKED};

pub(crate) use ag_ui::{AgUiEncoder, AgUiNames, MemoryState};
pub(crate) use chat_completions::{
    APPROVAL_NOTICE, ChatCompletion, ChatCompletionEncoder, CollectedCompletion, CompletionCollector,
};
pub(crate) use chats::ChatKey;
pub(crate) use delta::DeltaEncoder;
pub(crate) use responses::{
    ConversationId, ResponseEcho, ResponseId, ResponseTeller, ResponseWriter, StreamPresence, ToldRun,
};
pub(crate) use ui::UiMessageEncoder;
pub(crate) use waits::RunPart;

/// Tells clients of the AI SDK which protocol this is.
pub(crate) const UI_MESSAGE_STREAM: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-vercel-ai-ui-message-stream"), HeaderValue::from_static("v1"));

/// Reasons that clients are given when a stream ends before its run does.
const STOPPING: &str =
    "the server is stopping; the run continues after the restart, and its answer can be read then";
const UNREADABLE: &str = "the answer cannot be read now; the run continues, and its answer can be read later";
const BEGUN_AGAIN: &str =
    "the stream of the model broke, and the answer starts again; read it when it is complete";

/// One contract's words for a run.
pub(crate) trait Encoder: Send + Sync + 'static {
    /// Appends what the event becomes.
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState;

    /// Appends the end of a stream that is cut while its run goes on.
    fn cut(&mut self, why: &str, out: &mut Vec<u8>);

    /// The decisions and results that the run needs before it can continue. Empty if this contract does not end its
    /// stream while a run waits.
    fn waits_for(&self) -> Vec<AwaitedAnswer>;

    /// Appends the end of a stream whose run waits for the user.
    fn park(&mut self, out: &mut Vec<u8>);
}

/// An answer that a run waits for: a decision of the user, or a result from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitedAnswer {
    Decision(ProposalId),
    Result(CallId),
}

/// Writes a run in its words of an encoder.
pub(crate) struct ContractWriter<E> {
    pub(crate) encoder: E,
    /// The service, which knows more of its run than its log so far.
    pub(crate) service: Service,
    /// The user whose run it is.
    pub(crate) principal: Principal,
    /// Pieces that were void before the stream was opened.
    pub(crate) void: VoidPieces,
}

/// Pieces of steps that began again. A reader that comes late need not see them.
#[derive(Debug, Clone, Default)]
pub(crate) struct VoidPieces(Vec<(u32, Seq)>);

impl VoidPieces {
    /// The void pieces of a run with these facts.
    pub(crate) fn of_facts(facts: &[(Seq, Event)]) -> Self {
        let reset = |(seq, event): &(Seq, Event)| {
            if let Event::StepReset(reset) = event { Some((reset.step, *seq)) } else { None }
        };
        Self(facts.iter().filter_map(reset).collect())
    }

    /// Notes the steps that begin again among newer events.
    fn note(&mut self, events: &[(Seq, Event)]) {
        self.0.extend(Self::of_facts(events).0);
    }

    /// Whether the event at this place of the log is one of them.
    fn contains(&self, seq: Seq, event: &Event) -> bool {
        piece_of(event).is_some_and(|step| self.0.iter().any(|(reset, at)| *reset == step && *at > seq))
    }
}

impl<E: Encoder> EventWriter for ContractWriter<E> {
    type Event = Arc<Stored>;

    async fn write(&mut self, batch: &[Arc<Stored>]) -> (Bytes, StreamState) {
        let mut out = Vec::new();
        // A row that cannot be read is left out of every contract.
        let read = |stored: &Arc<Stored>| {
            let event = Event::read(&stored.kind, &stored.body).ok()?;
            (!self.void.contains(stored.seq, &event)).then_some(event)
        };
        for event in without_repeats(batch.iter().filter_map(read).collect()) {
            if self.encoder.write(event, &mut out) == StreamState::Ended {
                return (out.into(), StreamState::Ended);
            }
        }
        if !self.is_parked().await {
            return (out.into(), StreamState::Open);
        }
        self.encoder.park(&mut out);
        (out.into(), StreamState::Ended)
    }

    fn cut(&mut self, cut: StreamCut) -> Bytes {
        let mut out = Vec::new();
        self.encoder.cut(reason_of(cut), &mut out);
        out.into()
    }
}

/// The reason of a cut, for people.
fn reason_of(cut: StreamCut) -> &'static str {
    match cut {
        StreamCut::Stopping => STOPPING,
        StreamCut::Unreadable => UNREADABLE,
        StreamCut::Expired => EXPIRED,
        StreamCut::Revoked => REVOKED,
    }
}

impl<E: Encoder> ContractWriter<E> {
    /// Whether the run waits, rather than having waited at this place of its log.
    async fn is_parked(&self) -> bool {
        for answer in self.encoder.waits_for() {
            let is_awaited = match answer {
                AwaitedAnswer::Decision(id) => {
                    let proposal = self.service.proposal(&self.principal, id).await;
                    proposal.is_ok_and(|proposal| proposal.decided_at.is_none())
                }
                AwaitedAnswer::Result(id) => {
                    let call = self.service.client_call(&self.principal, id).await;
                    call.is_ok_and(|call| call.answered_at.is_none())
                }
            };
            if is_awaited {
                return true;
            }
        }
        false
    }
}

/// The events without pieces of steps that are begun again among them: who reads a log late need not see them.
fn without_repeats(mut events: Vec<Event>) -> Vec<Event> {
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
