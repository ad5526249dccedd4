//! The fold over a run's log that both forms of an answer are made from.

use protocol::{
    CallId, CallOpen, Event, Failure, Finish, ProposalOpen, RunEnd, RunId, StepEnd, StreamComplete, Usage,
};

use super::super::AwaitedAnswer;
use super::APPROVAL_NOTICE;
use crate::error::openai::failure_of;

/// The text between two steps.
const PARAGRAPH: &str = "\n\n";

/// Characters of a call's arguments that a notice shows.
const MAX_NOTICE_CHARS: usize = 300;

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompletionPiece {
    Begin(RunId),
    /// A step begins. The pieces that follow are void if it is reset.
    StepBegin,
    Content(String),
    Reasoning(String),
    /// A call that the client is to make.
    Call {
        index: usize,
        call: CallId,
        name: String,
        /// JSON.
        arguments: String,
    },
    /// The step begins again: all pieces since the last [`Self::StepBegin`] are void.
    StepReset,
    Finish {
        reason: &'static str,
        usage: Usage,
    },
    Fail(Failure),
}

/// See the file.
#[derive(Debug, Default)]
pub(super) struct CompletionFold {
    /// Decisions and results that the client has sent. It has seen everything before the first of them, so nothing is
    /// given until that one comes.
    given: Vec<AwaitedAnswer>,
    run: Option<RunId>,
    step: StepProgress,
    /// Whether the text so far, and the reasoning, does not end with a paragraph.
    open: OpenParagraphs,
    /// The text of the last step, and why it ended.
    last_step: (String, &'static str),
    /// Calls without a result that wait for no decision and no result from the client.
    pending: Vec<CallId>,
    waiting: Vec<WaitingCall>,
    /// Calls of the client that were given.
    calls: usize,
    usage: Usage,
}

/// The step under way, as far as it was given.
#[derive(Debug, Default)]
struct StepProgress {
    text: usize,
    reasoning: usize,
    open_before: OpenParagraphs,
}

#[derive(Debug, Clone, Copy, Default)]
struct OpenParagraphs {
    text: bool,
    reasoning: bool,
}

#[derive(Debug)]
struct WaitingCall {
    call: CallId,
    awaited: AwaitedAnswer,
    /// The notice for the user, if the call waits for a decision.
    notice: Option<String>,
}

impl CompletionFold {
    /// Gives only the pieces after the first of these decisions and results.
    pub(super) fn after_answers(given: Vec<AwaitedAnswer>) -> Self {
        Self { given, ..Self::default() }
    }

    /// The pieces that an event becomes.
    pub(super) fn read(&mut self, event: Event) -> Vec<CompletionPiece> {
        let mut pieces = Vec::new();
        if !self.given.is_empty() && self.is_awaited(&event) {
            self.begin_answer(&mut pieces);
        }
        self.fold(event, &mut pieces);
        if !self.given.is_empty() {
            pieces.clear();
        }
        pieces
    }

    fn is_awaited(&self, event: &Event) -> bool {
        if let Event::ToolComplete(result) = event {
            return self.given.contains(&AwaitedAnswer::Result(result.call_id));
        }
        matches!(event, Event::RunEnd(_))
    }

    /// Begins the answer after the decisions and results that the client has sent. Their calls do not wait any more.
    fn begin_answer(&mut self, pieces: &mut Vec<CompletionPiece>) {
        let given = std::mem::take(&mut self.given);
        for waiting in self.waiting.extract_if(.., |waiting| given.contains(&waiting.awaited)) {
            self.pending.push(waiting.call);
        }
        (self.step, self.open, self.calls) = (StepProgress::default(), OpenParagraphs::default(), 0);
        self.usage = Usage::default();
        pieces.extend(self.run.map(CompletionPiece::Begin));
    }

    fn fold(&mut self, event: Event, pieces: &mut Vec<CompletionPiece>) {
        match event {
            Event::RunStart(start) => {
                self.run = Some(start.run_id);
                pieces.push(CompletionPiece::Begin(start.run_id));
            }
            Event::StepStart(_) => {
                self.step = StepProgress { open_before: self.open, ..StepProgress::default() };
                pieces.push(CompletionPiece::StepBegin);
            }
            Event::TextDelta(piece) => self.text(&piece.delta, pieces),
            Event::ReasoningDelta(piece) => self.reasoning(&piece.delta, pieces),
            Event::StepEnd(end) => self.step_end(end, pieces),
            Event::StepReset(reset) => {
                self.usage += reset.usage.unwrap_or_default();
                self.step_reset(pieces);
            }
            Event::ToolComplete(result) => {
                self.pending.retain(|call| *call != result.call_id);
                self.waiting.retain(|waiting| waiting.call != result.call_id);
                self.park(pieces);
            }
            Event::ProposalOpen(open) => self.proposal_open(&open, pieces),
            Event::ProposalClosed(closed) => {
                self.waiting.retain(|waiting| waiting.call != closed.call_id);
                self.pending.push(closed.call_id);
            }
            Event::CallOpen(open) => self.call_open(open, pieces),
            Event::StreamComplete(answer) => self.complete(&answer, pieces),
            Event::RunEnd(end) => self.end(&end, pieces),
            Event::MessageUser(_)
            | Event::ContextLoaded(_)
            | Event::ToolInput(_)
            | Event::StepRetry(_)
            | Event::ToolStart(_)
            | Event::Source(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => {}
        }
    }

    fn text(&mut self, delta: &str, pieces: &mut Vec<CompletionPiece>) {
        if delta.is_empty() {
            return;
        }
        let is_new = self.step.text == 0 && self.open.text;
        self.step.text += delta.len();
        self.open.text = !delta.ends_with(PARAGRAPH);
        pieces.extend(is_new.then(|| CompletionPiece::Content(PARAGRAPH.to_owned())));
        pieces.push(CompletionPiece::Content(delta.to_owned()));
    }

    fn reasoning(&mut self, delta: &str, pieces: &mut Vec<CompletionPiece>) {
        if delta.is_empty() {
            return;
        }
        let is_new = self.step.reasoning == 0 && self.open.reasoning;
        self.step.reasoning += delta.len();
        self.open.reasoning = !delta.ends_with(PARAGRAPH);
        pieces.extend(is_new.then(|| CompletionPiece::Reasoning(PARAGRAPH.to_owned())));
        pieces.push(CompletionPiece::Reasoning(delta.to_owned()));
    }

    /// Deltas of old runs may be gone; the step says everything again.
    fn step_end(&mut self, end: StepEnd, pieces: &mut Vec<CompletionPiece>) {
        let reasoning = end.reasoning.unwrap_or_default();
        self.reasoning(reasoning.get(self.step.reasoning..).unwrap_or_default(), pieces);
        self.text(end.text.get(self.step.text..).unwrap_or_default(), pieces);
        self.usage += end.usage;
        self.pending = end.calls.iter().map(|call| call.id).collect();
        self.last_step = (end.text, finish_reason(end.finish));
        self.step = StepProgress { open_before: self.open, ..StepProgress::default() };
    }

    fn step_reset(&mut self, pieces: &mut Vec<CompletionPiece>) {
        if self.step.text > 0 || self.step.reasoning > 0 {
            pieces.push(CompletionPiece::StepReset);
        }
        self.open = self.step.open_before;
        self.step = StepProgress { open_before: self.open, ..StepProgress::default() };
    }

    fn proposal_open(&mut self, open: &ProposalOpen, pieces: &mut Vec<CompletionPiece>) {
        let (call, id) = (open.call_id, open.proposal_id);
        self.pending.retain(|pending| *pending != call);
        let input: String = open.input.to_string().chars().take(MAX_NOTICE_CHARS).collect();
        let notice = format!(
            "{APPROVAL_NOTICE}{} {input}. Approve it with POST /v1/proposals/{id}/confirm, reject it with POST \
             /v1/proposals/{id}/reject, or decide in the console.",
            open.name
        );
        self.waiting.push(WaitingCall { call, awaited: AwaitedAnswer::Decision(id), notice: Some(notice) });
        self.park(pieces);
    }

    fn call_open(&mut self, open: CallOpen, pieces: &mut Vec<CompletionPiece>) {
        let CallOpen { call_id: call, name, input, .. } = open;
        self.pending.retain(|pending| *pending != call);
        self.waiting.push(WaitingCall { call, awaited: AwaitedAnswer::Result(call), notice: None });
        pieces.push(CompletionPiece::Call { index: self.calls, call, name, arguments: input.to_string() });
        self.calls += 1;
        self.park(pieces);
    }

    /// Ends the answer if all that is left of it waits for the client or the user.
    fn park(&mut self, pieces: &mut Vec<CompletionPiece>) {
        if !self.pending.is_empty() || self.waiting.is_empty() {
            return;
        }
        let is_result = |waiting: &WaitingCall| matches!(waiting.awaited, AwaitedAnswer::Result(_));
        let reason = if self.waiting.iter().any(is_result) { "tool_calls" } else { "stop" };
        let notices: Vec<String> = self.waiting.iter().filter_map(|waiting| waiting.notice.clone()).collect();
        for notice in notices {
            self.step.text = 0; // a paragraph of its own
            self.text(&notice, pieces);
        }
        pieces.push(CompletionPiece::Finish { reason, usage: self.usage });
    }

    /// An answer that no model has written is in no step. Its delta may be pruned with the others.
    fn complete(&mut self, answer: &StreamComplete, pieces: &mut Vec<CompletionPiece>) {
        if self.step.text > 0 || answer.text != self.last_step.0 {
            self.text(answer.text.get(self.step.text..).unwrap_or_default(), pieces);
            self.last_step.1 = "stop";
        }
    }

    fn end(&self, end: &RunEnd, pieces: &mut Vec<CompletionPiece>) {
        pieces.push(match failure_of(end) {
            Some(failure) => CompletionPiece::Fail(failure),
            None => {
                let reason = if self.last_step.1.is_empty() { "stop" } else { self.last_step.1 };
                CompletionPiece::Finish { reason, usage: self.usage }
            }
        });
    }
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::Stop | Finish::ToolCalls | Finish::Cancelled | Finish::Failed => "stop",
    }
}
