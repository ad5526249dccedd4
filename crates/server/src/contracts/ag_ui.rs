//! AG-UI, version 1.0.
//!
//! One request is one run of the client, with the ids that the client gave. A run of ours that waits is told in several
//! of them: each ends where ours waits (see [`super::RunPart`]). Everything that was opened is closed before the end. The
//! state is read when the stream opens; all else follows from the log.

mod event;
mod memory_state;

use std::collections::HashMap;

use protocol::{
    CallId, Event, MemoryId, ProposalOpen, RunEnd, RunStart, RunStatus, StepEnd, StreamComplete,
    ToolComplete, ToolInput, ToolStart, ToolStatus,
};
use serde_json::{Value, json};

use self::event::{
    AgUiEvent, AgUiInterrupt, AgUiOutcome, AgUiResult, CustomValue, ModelUsage, PatchOperation,
};
use super::waits::{PartPlace, RunPart};
use super::{AwaitedAnswer, BEGUN_AGAIN, Encoder, StreamState, write_data};

pub(crate) use memory_state::MemoryState;

const PROTOCOL_VERSION: &str = "1.0";

/// Codes of streams that end before their run does.
const CUT: &str = "stream_cut";
const RESET: &str = "step_reset";

/// Said of a call that the model began and that was not made.
const NOT_MADE: &str = "this call was not made";

/// The tool whose result tells of a new memory.
const SAVE_MEMORY: &str = "save_memory";

/// The ids by which the client knows its thread and its run.
#[derive(Debug, Clone)]
pub(crate) struct AgUiNames {
    pub(crate) thread: String,
    pub(crate) run: String,
}

/// See the file.
#[derive(Debug)]
pub(crate) struct AgUiEncoder {
    names: AgUiNames,
    part: RunPart,
    state: MemoryState,
    /// Whether `RUN_STARTED` was sent.
    is_started: bool,
    start: Option<RunStart>,
    step: ShownStep,
    open: Option<(PieceKind, String)>,
    /// Approvals that were asked for in the newest step.
    interrupts: Vec<AgUiInterrupt>,
    /// Texts of memories that calls under way are to save.
    saving: HashMap<CallId, String>,
    usage: Vec<ModelUsage>,
    /// The text of the last step.
    said: String,
    answer: Option<StreamComplete>,
}

/// The newest step, as far as it was sent.
#[derive(Debug, Default)]
struct ShownStep {
    number: u32,
    is_open: bool,
    model: String,
    text: usize,
    reasoning: usize,
    /// Messages so far, for their ids.
    messages: u32,
    /// The newest text message, which calls belong to.
    message: Option<String>,
    /// Calls whose input has begun, and how many bytes of it were sent.
    inputs: Vec<(CallId, usize)>,
}

impl ShownStep {
    fn is_visible(&self) -> bool {
        self.text > 0 || self.reasoning > 0 || !self.inputs.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Text,
    Reasoning,
}

impl AgUiEncoder {
    pub(crate) fn new(names: AgUiNames, part: RunPart, state: MemoryState) -> Self {
        Self {
            names,
            part,
            state,
            is_started: false,
            start: None,
            step: ShownStep::default(),
            open: None,
            interrupts: Vec::new(),
            saving: HashMap::new(),
            usage: Vec::new(),
            said: String::new(),
            answer: None,
        }
    }
}

impl Encoder for AgUiEncoder {
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState {
        let place = self.part.read(&event);
        let before = out.len();
        let state = match place {
            PartPlace::Opening => {
                self.begin(out);
                StreamState::Open
            }
            PartPlace::Before | PartPlace::Inside => self.encode(event, out),
        };
        if place == PartPlace::Before {
            out.truncate(before);
            self.usage.clear();
            self.is_started = false;
            return StreamState::Open;
        }
        if state == StreamState::Open && self.part.is_parked() {
            self.park(out);
            return StreamState::Ended;
        }
        state
    }

    fn cut(&mut self, why: &str, out: &mut Vec<u8>) {
        self.fail(why, CUT, out);
    }

    /// The log alone says where this contract ends a stream.
    fn waits_for(&self) -> Vec<AwaitedAnswer> {
        Vec::new()
    }

    fn park(&mut self, out: &mut Vec<u8>) {
        self.close_step(out);
        let is_awaited = |interrupt: &AgUiInterrupt| {
            let mut awaited = self.part.awaited_answers();
            awaited.any(|(call, answer)| {
                call == interrupt.tool_call_id && matches!(answer, AwaitedAnswer::Decision(_))
            })
        };
        let interrupts: Vec<AgUiInterrupt> =
            self.interrupts.iter().filter(|i| is_awaited(i)).cloned().collect();
        let outcome = if interrupts.is_empty() {
            AgUiOutcome::Success {
                pending_tool_call_ids: self.part.awaited_answers().map(|(call, _)| call).collect(),
            }
        } else {
            AgUiOutcome::Interrupt { interrupts: &interrupts }
        };
        self.finish(outcome, out);
    }
}

impl AgUiEncoder {
    fn encode(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState {
        match event {
            Event::RunStart(start) => {
                self.start = Some(start);
                self.begin(out);
            }
            Event::ContextLoaded(loaded) => {
                let changes = self.state.read_context(&loaded);
                write_changes(&changes, out);
            }
            Event::MemoryUpdate(update) => {
                let changes = self.state.read_update(&update);
                write_changes(&changes, out);
            }
            Event::StepStart(start) => self.step_start(start.step, start.model, out),
            Event::TextDelta(piece) => self.piece(PieceKind::Text, &piece.delta, out),
            Event::ReasoningDelta(piece) => self.piece(PieceKind::Reasoning, &piece.delta, out),
            Event::ToolInput(input) => self.tool_input(&input, out),
            Event::StepEnd(end) => self.step_end(end, out),
            Event::StepReset(_) => return self.step_reset(out),
            Event::ToolStart(start) => self.tool_start(&start),
            Event::ToolComplete(complete) => self.tool_complete(&complete, out),
            Event::ProposalOpen(open) => self.interrupts.push(interrupt(&open)),
            Event::Source(source) => {
                let value = CustomValue::Source(&source);
                write_data(out, &AgUiEvent::Custom { name: "rondo.source", value });
            }
            Event::StreamComplete(answer) => self.complete(answer, out),
            Event::RunEnd(end) => return self.end(&end, out),
            Event::MessageUser(_)
            | Event::StepRetry(_)
            | Event::ProposalClosed(_)
            | Event::CallOpen(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::Summary(_) => {}
        }
        StreamState::Open
    }

    /// The beginning of a stream: its ids, the ids here, and the state.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        self.step.is_open = false; // the stream before this one has closed it
        let (thread_id, run_id) = (self.names.thread.as_str(), self.names.run.as_str());
        write_data(out, &AgUiEvent::RunStarted { thread_id, run_id, protocol_version: PROTOCOL_VERSION });
        if let Some(RunStart { run_id, thread_id, model, .. }) = &self.start {
            let value = CustomValue::Run { run_id: *run_id, thread_id: *thread_id, model: model.as_deref() };
            write_data(out, &AgUiEvent::Custom { name: "rondo.run", value });
        }
        write_data(out, &AgUiEvent::StateSnapshot { snapshot: &self.state.snapshot() });
    }

    fn step_start(&mut self, number: u32, model: String, out: &mut Vec<u8>) {
        let is_again = self.step.is_open && self.step.number == number;
        if !is_again {
            self.close_step(out);
            write_data(out, &AgUiEvent::StepStarted { step_name: step_name(number) });
        }
        self.interrupts.clear();
        self.step = ShownStep { number, model, is_open: true, ..ShownStep::default() };
    }

    fn piece(&mut self, kind: PieceKind, delta: &str, out: &mut Vec<u8>) {
        if delta.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close_message(out);
            let id = self.open_message(kind, out);
            self.open = Some((kind, id));
        }
        let message_id = self.open.as_ref().map_or("", |(_, id)| id);
        match kind {
            PieceKind::Text => {
                self.step.text += delta.len();
                write_data(out, &AgUiEvent::TextMessageContent { message_id, delta });
            }
            PieceKind::Reasoning => {
                self.step.reasoning += delta.len();
                write_data(out, &AgUiEvent::ReasoningMessageContent { message_id, delta });
            }
        }
    }

    fn open_message(&mut self, kind: PieceKind, out: &mut Vec<u8>) -> String {
        self.step.messages += 1;
        let id = self.message_id(self.step.messages);
        let message_id = id.as_str();
        match kind {
            PieceKind::Text => {
                self.step.message = Some(id.clone());
                write_data(out, &AgUiEvent::TextMessageStart { message_id, role: "assistant" });
            }
            PieceKind::Reasoning => {
                write_data(out, &AgUiEvent::ReasoningStart { message_id });
                write_data(out, &AgUiEvent::ReasoningMessageStart { message_id, role: "reasoning" });
            }
        }
        id
    }

    /// Messages of one run have different ids in all its parts.
    fn message_id(&self, number: u32) -> String {
        let run =
            self.start.as_ref().map_or_else(|| self.names.run.clone(), |start| start.run_id.to_string());
        format!("{run}-{}-{number}", self.step.number)
    }

    fn tool_input(&mut self, input: &ToolInput, out: &mut Vec<u8>) {
        self.close_message(out);
        self.open_call(input.call_id, &input.name, out);
        self.call_args(input.call_id, &input.delta, out);
    }

    fn open_call(&mut self, tool_call_id: CallId, tool_call_name: &str, out: &mut Vec<u8>) {
        if self.step.inputs.iter().any(|(begun, _)| *begun == tool_call_id) {
            return;
        }
        self.step.inputs.push((tool_call_id, 0));
        let parent = self.step.message.clone().unwrap_or_else(|| self.message_id(0));
        let parent_message_id = parent.as_str();
        write_data(out, &AgUiEvent::ToolCallStart { tool_call_id, tool_call_name, parent_message_id });
    }

    fn call_args(&mut self, tool_call_id: CallId, delta: &str, out: &mut Vec<u8>) {
        let sent = self.step.inputs.iter_mut().find(|(begun, _)| *begun == tool_call_id);
        if let Some((_, sent)) = sent.filter(|_| !delta.is_empty()) {
            *sent += delta.len();
            write_data(out, &AgUiEvent::ToolCallArgs { tool_call_id, delta });
        }
    }

    /// Deltas of old runs may be gone; the step says everything again.
    fn step_end(&mut self, end: StepEnd, out: &mut Vec<u8>) {
        let reasoning = end.reasoning.unwrap_or_default();
        self.piece(PieceKind::Reasoning, reasoning.get(self.step.reasoning..).unwrap_or_default(), out);
        self.piece(PieceKind::Text, end.text.get(self.step.text..).unwrap_or_default(), out);
        self.close_message(out);
        for call in &end.calls {
            self.open_call(call.id, &call.name, out);
            if self.step.inputs.contains(&(call.id, 0)) {
                let input = call.raw.clone().unwrap_or_else(|| call.input.to_string());
                self.call_args(call.id, &input, out);
            }
        }
        for (tool_call_id, _) in std::mem::take(&mut self.step.inputs) {
            write_data(out, &AgUiEvent::ToolCallEnd { tool_call_id });
            if !end.calls.iter().any(|call| call.id == tool_call_id) {
                write_result(tool_call_id, NOT_MADE, out);
            }
        }
        let model = end.fallback.as_deref().unwrap_or(&self.step.model);
        if !self.usage.iter().any(|usage| usage.model == model) {
            self.usage.push(ModelUsage::of(model.to_owned()));
        }
        if let Some(usage) = self.usage.iter_mut().find(|usage| usage.model == model) {
            usage.add(&end.usage);
        }
        self.said = end.text;
        (self.step.text, self.step.reasoning) = (0, 0);
    }

    fn step_reset(&mut self, out: &mut Vec<u8>) -> StreamState {
        if self.step.is_visible() && self.part.has_begun() {
            self.fail(BEGUN_AGAIN, RESET, out);
            return StreamState::Ended;
        }
        self.open = None;
        (self.step.text, self.step.reasoning) = (0, 0);
        self.step.inputs.clear();
        StreamState::Open
    }

    fn tool_start(&mut self, start: &ToolStart) {
        if start.name == SAVE_MEMORY
            && let Some(text) = start.input.get("text").and_then(Value::as_str)
        {
            self.saving.insert(start.call_id, text.trim().to_owned());
        }
    }

    fn tool_complete(&mut self, complete: &ToolComplete, out: &mut Vec<u8>) {
        let content = match (&complete.output, complete.status) {
            (Value::String(text), _) => text.clone(),
            (output, _) => output.to_string(),
        };
        write_result(complete.call_id, &content, out);
        let saved = self.saving.remove(&complete.call_id).filter(|_| complete.status == ToolStatus::Complete);
        let is_saved = complete.output.get("saved").and_then(Value::as_bool) == Some(true);
        let id = complete.output.get("memoryId").and_then(Value::as_str).and_then(|id| id.parse().ok());
        if let (Some(text), Some(id), true) = (saved, id, is_saved) {
            let id: MemoryId = id;
            let change: Vec<PatchOperation> = self.state.add(id, &text).into_iter().collect();
            write_changes(&change, out);
        }
    }

    /// An answer that no model has written is in no step. Its delta may be pruned with the others.
    fn complete(&mut self, answer: StreamComplete, out: &mut Vec<u8>) {
        if self.step.text > 0 || answer.text != self.said {
            self.piece(PieceKind::Text, answer.text.get(self.step.text..).unwrap_or_default(), out);
        }
        self.answer = Some(answer);
    }

    fn end(&mut self, end: &RunEnd, out: &mut Vec<u8>) -> StreamState {
        self.begin(out);
        match end.status {
            RunStatus::Failed => {
                let (message, code) = end.error.as_ref().map_or(("the run failed", "failed"), |error| {
                    (error.message.as_str(), error.code.as_str())
                });
                self.fail(message, code, out);
                return StreamState::Ended;
            }
            RunStatus::Completed | RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => {
                self.close_step(out);
                self.finish(AgUiOutcome::Success { pending_tool_call_ids: Vec::new() }, out);
            }
            RunStatus::Cancelled | RunStatus::Interrupted => {
                self.close_step(out);
                self.finish(AgUiOutcome::Cancelled, out);
            }
        }
        StreamState::Ended
    }

    fn finish(&self, outcome: AgUiOutcome<'_>, out: &mut Vec<u8>) {
        let (thread_id, run_id) = (self.names.thread.as_str(), self.names.run.as_str());
        let result = self.answer.as_ref().map(|answer| AgUiResult {
            message_id: answer.message_id,
            memories_referenced: &answer.memories_referenced,
            data: answer.data.as_ref(),
        });
        write_data(out, &AgUiEvent::RunFinished { thread_id, run_id, outcome, result, usage: &self.usage });
    }

    fn fail(&self, message: &str, code: &str, out: &mut Vec<u8>) {
        write_data(out, &AgUiEvent::RunError { message, code, usage: &self.usage });
    }

    fn close_message(&mut self, out: &mut Vec<u8>) {
        let Some((kind, id)) = self.open.take() else { return };
        let message_id = id.as_str();
        match kind {
            PieceKind::Text => write_data(out, &AgUiEvent::TextMessageEnd { message_id }),
            PieceKind::Reasoning => {
                write_data(out, &AgUiEvent::ReasoningMessageEnd { message_id });
                write_data(out, &AgUiEvent::ReasoningEnd { message_id });
            }
        }
    }

    /// Closes everything that is open.
    fn close_step(&mut self, out: &mut Vec<u8>) {
        self.close_message(out);
        for (tool_call_id, _) in std::mem::take(&mut self.step.inputs) {
            write_data(out, &AgUiEvent::ToolCallEnd { tool_call_id });
        }
        if std::mem::take(&mut self.step.is_open) {
            write_data(out, &AgUiEvent::StepFinished { step_name: step_name(self.step.number) });
        }
    }
}

fn step_name(number: u32) -> String {
    format!("step-{number}")
}

fn interrupt(open: &ProposalOpen) -> AgUiInterrupt {
    AgUiInterrupt {
        id: open.proposal_id.to_string(),
        reason: "approval",
        message: format!("Allow {}?", open.name),
        tool_call_id: open.call_id,
        response_schema: json!({
            "type": "object",
            "properties": { "approved": { "type": "boolean" } },
            "required": ["approved"],
        }),
        expires_at: open.expires_at.to_string(),
    }
}

fn write_result(tool_call_id: CallId, content: &str, out: &mut Vec<u8>) {
    let message_id = format!("{tool_call_id}-result");
    write_data(out, &AgUiEvent::ToolCallResult { message_id, tool_call_id, content, role: "tool" });
}

fn write_changes(changes: &[PatchOperation], out: &mut Vec<u8>) {
    if !changes.is_empty() {
        write_data(out, &AgUiEvent::StateDelta { delta: changes });
    }
}
