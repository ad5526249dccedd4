//! The AI SDK's UI message stream, version 1, which `useChat` reads.
//!
//! One run is one message, whose id is the run's. The first piece of a part opens it, and the next other
//! event closes it.
//! A step is one answer of the model with the results of its calls. A run that waits for the user ends the stream, and
//! the user's decision begins another one from there.

mod chunk;

use std::collections::HashSet;

use protocol::{
    CallId, CallOpen, ContextLoaded, Event, Finish, ProposalClosed, ProposalOpen, RunEnd, RunStart,
    RunStatus, Source, StepEnd, StreamComplete, ToolComplete, ToolInput, ToolStatus,
};
use serde_json::Value;

use self::chunk::{Begun, Ended, MadeHere, RecalledMemories, UiChunk};
use super::{AwaitedAnswer, BEGUN_AGAIN, Encoder, StreamState, write_data};

const DONE: &[u8] = b"data: [DONE]\n\n";

/// The media type of documents once their text has been read out of them.
const TEXT: &str = "text/plain";

/// Said of a call that the model began and that was not made.
const NOT_MADE: &str = "this call was not made";

/// See the file.
#[derive(Debug, Default)]
pub(crate) struct UiMessageEncoder {
    /// Whether the client can drop what it was sent of a step that begins again.
    resets: bool,
    /// Decisions and results that the client has sent. It has seen everything before the first of them, so nothing is
    /// sent until that one comes.
    given: Vec<AwaitedAnswer>,
    start: Option<RunStart>,
    step: Step,
    /// Parts so far, for their ids.
    parts: u32,
    open: Option<(UiPieceKind, String)>,
    calls: Calls,
    /// Names of the tools that the client runs.
    client_tools: HashSet<String>,
    /// Calls of the run that the client makes.
    client_calls: HashSet<CallId>,
    sources: HashSet<String>,
    /// The text of the last step, and why it ended.
    said: (String, Option<&'static str>),
    answer: Option<StreamComplete>,
    /// The model that stood in for the run's own in the newest step.
    fallback: Option<String>,
}

/// The step under way, as far as it was sent.
#[derive(Debug, Default)]
struct Step {
    /// None between steps.
    number: Option<u32>,
    text: usize,
    reasoning: usize,
    /// Calls whose input has begun, and whether the client is to make them.
    inputs: Vec<(CallId, bool)>,
}

impl Step {
    fn is_visible(&self) -> bool {
        self.text > 0 || self.reasoning > 0 || !self.inputs.is_empty()
    }
}

/// The calls of the last step.
#[derive(Debug, Default)]
struct Calls {
    /// Calls without a result that wait for no decision and no result from the client.
    pending: Vec<CallId>,
    waiting: Vec<(CallId, AwaitedAnswer)>,
    /// Calls that wait for the user's decision.
    asked: HashSet<CallId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UiPieceKind {
    Text,
    Reasoning,
}

impl UiMessageEncoder {
    pub(crate) fn new(resets: bool) -> Self {
        Self { resets, ..Self::default() }
    }

    /// Gives only what comes after the first of these decisions and results, for a client that has seen the rest.
    pub(crate) fn after_answers(self, given: Vec<AwaitedAnswer>) -> Self {
        Self { given, ..self }
    }
}

impl Encoder for UiMessageEncoder {
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState {
        let is_awaited = if let Event::ProposalClosed(closed) = &event {
            self.given.contains(&AwaitedAnswer::Decision(closed.proposal_id))
        } else if let Event::ToolComplete(result) = &event {
            self.given.contains(&AwaitedAnswer::Result(result.call_id))
        } else {
            matches!(event, Event::RunEnd(_))
        };
        if is_awaited && !self.given.is_empty() {
            self.given.clear();
            self.step = Step::default(); // the stream before this one has ended it
            self.begin(out);
        }
        let before = out.len();
        let flow = self.encode(event, out);
        if !self.given.is_empty() {
            out.truncate(before);
        }
        flow
    }

    fn cut(&mut self, why: &str, out: &mut Vec<u8>) {
        self.close_step(out);
        write_data(out, &UiChunk::Error { error_text: why });
        out.extend_from_slice(DONE);
    }

    fn waits_for(&self) -> Vec<AwaitedAnswer> {
        if self.calls.pending.is_empty() && self.given.is_empty() {
            self.calls.waiting.iter().map(|(_, answer)| *answer).collect()
        } else {
            Vec::new()
        }
    }

    fn park(&mut self, out: &mut Vec<u8>) {
        self.close_step(out);
        write_data(out, &UiChunk::Finish { finish_reason: "tool-calls", message_metadata: None });
        out.extend_from_slice(DONE);
    }
}

impl UiMessageEncoder {
    fn encode(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState {
        match event {
            Event::RunStart(start) => {
                let of_request = start.tools.iter().map(|tool| &tool.name);
                self.client_tools = of_request.chain(&start.client_tools).cloned().collect();
                self.start = Some(start);
                self.begin(out);
            }
            Event::ContextLoaded(loaded) => context(&loaded, out),
            Event::StepStart(start) => self.step_start(start.step, out),
            Event::TextDelta(piece) => self.piece(UiPieceKind::Text, &piece.delta, out),
            Event::ReasoningDelta(piece) => self.piece(UiPieceKind::Reasoning, &piece.delta, out),
            Event::ToolInput(input) => self.tool_input(&input, out),
            Event::StepEnd(end) => self.step_end(end, out),
            Event::StepReset(_) => return self.step_reset(out),
            Event::ToolComplete(complete) => self.tool_complete(&complete, out),
            Event::ProposalOpen(open) => self.proposal_open(&open, out),
            Event::ProposalClosed(closed) => self.proposal_closed(&closed),
            Event::CallOpen(open) => self.call_open(&open, out),
            Event::Source(source) => self.source(&source, out),
            Event::StreamComplete(answer) => self.complete(answer, out),
            Event::RunEnd(end) => return self.end(&end, out),
            Event::MessageUser(_)
            | Event::StepRetry(_)
            | Event::ToolStart(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => {}
        }
        StreamState::Open
    }

    fn begin(&self, out: &mut Vec<u8>) {
        if let Some(RunStart { run_id, thread_id, model, .. }) = &self.start {
            let (run_id, thread_id) = (*run_id, *thread_id);
            let message_metadata = Begun { run_id, thread_id, model: model.as_deref() };
            write_data(out, &UiChunk::Start { message_id: run_id, message_metadata });
        }
    }

    fn step_start(&mut self, number: u32, out: &mut Vec<u8>) {
        // One that begins again is still open.
        if self.step.number != Some(number) {
            self.close_step(out);
            write_data(out, &UiChunk::StartStep);
        }
        self.step = Step { number: Some(number), ..Step::default() };
    }

    fn piece(&mut self, kind: UiPieceKind, delta: &str, out: &mut Vec<u8>) {
        if delta.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close_part(out);
            self.parts += 1;
            let id = format!("part-{}", self.parts);
            match kind {
                UiPieceKind::Text => write_data(out, &UiChunk::TextStart { id: &id }),
                UiPieceKind::Reasoning => write_data(out, &UiChunk::ReasoningStart { id: &id }),
            }
            self.open = Some((kind, id));
        }
        let id = self.open.as_ref().map_or("", |(_, id)| id);
        match kind {
            UiPieceKind::Text => {
                self.step.text += delta.len();
                write_data(out, &UiChunk::TextDelta { id, delta });
            }
            UiPieceKind::Reasoning => {
                self.step.reasoning += delta.len();
                write_data(out, &UiChunk::ReasoningDelta { id, delta });
            }
        }
    }

    fn tool_input(&mut self, input: &ToolInput, out: &mut Vec<u8>) {
        let tool_call_id = input.call_id;
        self.close_part(out);
        if !self.step.inputs.iter().any(|(begun, _)| *begun == tool_call_id) {
            let by_client = self.client_tools.contains(&input.name);
            self.step.inputs.push((tool_call_id, by_client));
            let made_here = MadeHere::of_call(by_client);
            write_data(out, &UiChunk::ToolInputStart { tool_call_id, tool_name: &input.name, made_here });
        }
        if !input.delta.is_empty() {
            write_data(out, &UiChunk::ToolInputDelta { tool_call_id, input_text_delta: &input.delta });
        }
    }

    /// Deltas of old runs may be gone; the step says everything again.
    fn step_end(&mut self, end: StepEnd, out: &mut Vec<u8>) {
        let reasoning = end.reasoning.unwrap_or_default();
        self.piece(UiPieceKind::Reasoning, reasoning.get(self.step.reasoning..).unwrap_or_default(), out);
        self.piece(UiPieceKind::Text, end.text.get(self.step.text..).unwrap_or_default(), out);
        self.close_part(out);
        for call in &end.calls {
            let raw = call.raw.as_deref().map(Value::from);
            let (tool_call_id, tool_name) = (call.id, call.name.as_str());
            let input = raw.as_ref().unwrap_or(&call.input);
            let by_client = self.client_tools.contains(&call.name);
            if by_client {
                self.client_calls.insert(call.id);
            }
            let made_here = MadeHere::of_call(by_client);
            write_data(out, &UiChunk::ToolInputAvailable { tool_call_id, tool_name, input, made_here });
        }
        let was_made = |id: &CallId| end.calls.iter().any(|call| call.id == *id);
        for (id, by_client) in self.step.inputs.iter().filter(|(id, _)| !was_made(id)) {
            tool_error(*id, NOT_MADE, *by_client, out);
        }
        self.calls = Calls { pending: end.calls.iter().map(|call| call.id).collect(), ..Calls::default() };
        self.said = (end.text, Some(reason(end.finish)));
        self.fallback = end.fallback;
        self.step = Step { number: self.step.number, ..Step::default() };
    }

    fn step_reset(&mut self, out: &mut Vec<u8>) -> StreamState {
        if self.step.is_visible() {
            if !self.resets && self.given.is_empty() {
                self.cut(BEGUN_AGAIN, out);
                return StreamState::Ended;
            }
            self.close_part(out);
            write_data(out, &UiChunk::ResetStep);
        }
        self.step = Step { number: self.step.number, ..Step::default() };
        StreamState::Open
    }

    fn tool_complete(&mut self, complete: &ToolComplete, out: &mut Vec<u8>) {
        let ToolComplete { call_id, status, output, .. } = complete;
        self.calls.pending.retain(|call| call != call_id);
        self.calls.waiting.retain(|(call, _)| call != call_id);
        let by_client = self.client_calls.contains(call_id);
        match status {
            ToolStatus::Complete => {
                let (tool_call_id, made_here) = (*call_id, MadeHere::of_call(by_client));
                write_data(out, &UiChunk::ToolOutputAvailable { tool_call_id, output, made_here });
            }
            ToolStatus::Denied if self.calls.asked.contains(call_id) => {
                write_data(out, &UiChunk::ToolOutputDenied { tool_call_id: *call_id });
            }
            ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Cancelled | ToolStatus::Unknown => {
                tool_error(*call_id, &in_words(output), by_client, out);
            }
        }
    }

    fn proposal_open(&mut self, open: &ProposalOpen, out: &mut Vec<u8>) {
        self.calls.pending.retain(|call| *call != open.call_id);
        self.calls.waiting.push((open.call_id, AwaitedAnswer::Decision(open.proposal_id)));
        self.calls.asked.insert(open.call_id);
        let (approval_id, tool_call_id) = (open.proposal_id, open.call_id);
        write_data(out, &UiChunk::ToolApprovalRequest { approval_id, tool_call_id });
    }

    fn proposal_closed(&mut self, closed: &ProposalClosed) {
        self.calls.waiting.retain(|(call, _)| *call != closed.call_id);
        self.calls.pending.push(closed.call_id);
    }

    /// The client is to make the call. One that it did not know of so, or that was approved first, is told again.
    fn call_open(&mut self, open: &CallOpen, out: &mut Vec<u8>) {
        let (tool_call_id, tool_name, input) = (open.call_id, open.name.as_str(), &open.input);
        self.calls.pending.retain(|call| *call != tool_call_id);
        self.calls.waiting.push((tool_call_id, AwaitedAnswer::Result(tool_call_id)));
        let was_approved = self.calls.asked.remove(&tool_call_id);
        if self.client_calls.insert(tool_call_id) || was_approved {
            let made_here = MadeHere::of_call(true);
            write_data(out, &UiChunk::ToolInputAvailable { tool_call_id, tool_name, input, made_here });
        }
    }

    fn source(&mut self, source: &Source, out: &mut Vec<u8>) {
        let Source { kind, id, title, place } = source;
        if !self.sources.insert(id.clone()) {
            return;
        }
        let chunk = match kind.as_str() {
            "web" => UiChunk::SourceUrl { source_id: id, url: place, title },
            _ => UiChunk::SourceDocument { source_id: id, media_type: TEXT, title },
        };
        write_data(out, &chunk);
    }

    /// An answer that no model has written is in no step. Its delta may be pruned with the others.
    fn complete(&mut self, answer: StreamComplete, out: &mut Vec<u8>) {
        if self.step.text > 0 || answer.text != self.said.0 {
            self.piece(UiPieceKind::Text, answer.text.get(self.step.text..).unwrap_or_default(), out);
            self.said.1 = None;
        }
        self.answer = Some(answer);
    }

    fn end(&mut self, end: &RunEnd, out: &mut Vec<u8>) -> StreamState {
        self.close_step(out);
        match end.status {
            RunStatus::Completed | RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => {
                let message_metadata = self.answer.as_ref().map(|answer| Ended {
                    answer_id: answer.message_id,
                    model: self.fallback.as_deref(),
                    usage: answer.usage,
                    memories_referenced: &answer.memories_referenced,
                    data: answer.data.as_ref(),
                });
                let finish_reason = self.said.1.unwrap_or("stop");
                write_data(out, &UiChunk::Finish { finish_reason, message_metadata });
            }
            RunStatus::Failed => {
                let error_text = end.error.as_ref().map_or("the run failed", |error| &error.message);
                write_data(out, &UiChunk::Error { error_text });
            }
            RunStatus::Cancelled | RunStatus::Interrupted => write_data(out, &UiChunk::Abort),
        }
        out.extend_from_slice(DONE);
        StreamState::Ended
    }

    fn close_part(&mut self, out: &mut Vec<u8>) {
        match self.open.take() {
            Some((UiPieceKind::Text, id)) => write_data(out, &UiChunk::TextEnd { id: &id }),
            Some((UiPieceKind::Reasoning, id)) => write_data(out, &UiChunk::ReasoningEnd { id: &id }),
            None => {}
        }
    }

    fn close_step(&mut self, out: &mut Vec<u8>) {
        self.close_part(out);
        if self.step.number.take().is_some() {
            write_data(out, &UiChunk::FinishStep);
        }
    }
}

fn context(loaded: &ContextLoaded, out: &mut Vec<u8>) {
    if let Some(remembered) = &loaded.remembered {
        let id = remembered.memory_id.map_or_else(|| "memory".to_owned(), |id| id.to_string());
        write_data(out, &UiChunk::DataMemory { id, data: remembered });
    }
    if !loaded.memories.is_empty() {
        write_data(out, &UiChunk::DataMemories { data: RecalledMemories { ids: &loaded.memories } });
    }
}

fn tool_error(tool_call_id: CallId, error_text: &str, by_client: bool, out: &mut Vec<u8>) {
    let made_here = MadeHere::of_call(by_client);
    write_data(out, &UiChunk::ToolOutputError { tool_call_id, error_text, made_here });
}

/// The error of a failed call, for people.
fn in_words(output: &Value) -> String {
    let message = output.get("message").unwrap_or(output);
    message.as_str().map_or_else(|| message.to_string(), str::to_owned)
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool-calls",
        Finish::ContentFilter => "content-filter",
        Finish::Cancelled | Finish::Failed => "other",
    }
}
