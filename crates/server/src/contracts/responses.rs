//! OpenAI's Responses: a run as one response, or as one for each of its parts (see [`super::RunPart`]).
//!
//! Calls that the server makes are `mcp_call` items, which clients show and do not make. Calls of the client are
//! `function_call` items, and approvals are `mcp_approval_request` items. Both end the response, and the next request
//! continues the run in another one. Items of calls are told when the call is made or opened, not while the model writes its
//! arguments: only then it is known who makes the call, and no item has to be removed.

mod items;
mod numbers;
mod response;
mod writer;

use std::collections::HashMap;

use protocol::{
    CallId, CallOpen, Event, Finish, ProposalId, ProposalOpen, RunEnd, RunStart, RunStatus, StepEnd,
    StreamComplete, ToolComplete, ToolStart, ToolStatus, Usage,
};
use serde_json::{Value, json};

use self::items::{OpenItem, PieceForm};
use self::numbers::{EventNumbers, EventVoidness};
use self::response::{ResponseState, response_object};
use super::waits::{PartPlace, RunPart};
use super::{BEGUN_AGAIN, StreamState, piece_of};

pub(crate) use response::{ConversationId, ResponseEcho, ResponseId, ToldRun};
pub(crate) use writer::{ResponseWriter, StreamPresence};

/// Codes of streams that end before their response does.
const CUT: &str = "stream_cut";
const RESET: &str = "step_reset";

/// Tells one response. A fold over the events of its run.
#[derive(Debug, Clone)]
pub(crate) struct ResponseTeller {
    told: ToldRun,
    part: RunPart,
    numbers: EventNumbers,
    start: Option<RunStart>,
    /// Whether `response.created` was told.
    is_begun: bool,
    /// Items of the output, by their index. One that is open is null.
    items: Vec<Value>,
    open: Option<OpenItem>,
    step: ToldStep,
    /// Calls of the newest step: names and arguments.
    calls: HashMap<CallId, (String, String)>,
    /// Calls under way, by the index of their items.
    under_way: HashMap<CallId, usize>,
    approvals: HashMap<CallId, ProposalId>,
    /// Events that opened calls and approvals before the part.
    asked: Vec<Event>,
    /// Words that were given since the part before this one, as input items.
    inputs: Vec<Value>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    said: String,
    /// The response as it ended.
    end: Option<Value>,
}

/// The newest step, as far as it was told.
#[derive(Debug, Clone, Default)]
struct ToldStep {
    number: u32,
    text: usize,
    reasoning: usize,
    /// Items so far, for their ids.
    pieces: u32,
    /// Items before the step.
    first_item: usize,
    /// Whether pieces were told that are not known to be void.
    is_shown: bool,
}

impl ResponseTeller {
    pub(crate) fn new(told: ToldRun, part: RunPart, seen: Option<u64>) -> Self {
        Self {
            told,
            part,
            numbers: EventNumbers::after_number(seen),
            start: None,
            is_begun: false,
            items: Vec::new(),
            open: None,
            step: ToldStep::default(),
            calls: HashMap::new(),
            under_way: HashMap::new(),
            approvals: HashMap::new(),
            asked: Vec::new(),
            inputs: Vec::new(),
            usage: None,
            finish: None,
            said: String::new(),
            end: None,
        }
    }

    /// Takes in the next event. `is_void` is whether it is a piece of a step that began again later.
    pub(crate) fn read(&mut self, event: Event, is_void: bool) -> StreamState {
        let place = self.part.read(&event);
        let state = match place {
            PartPlace::Before => {
                self.note(event);
                return StreamState::Open;
            }
            PartPlace::Opening => {
                self.note_word(&event);
                self.begin();
                self.ask_again()
            }
            PartPlace::Inside => {
                self.tell(event, if is_void { EventVoidness::Void } else { EventVoidness::Good })
            }
        };
        if state == StreamState::Open && self.part.is_parked() {
            self.finish_response("response.completed", "completed", Value::Null, None);
            return StreamState::Ended;
        }
        state
    }

    /// Takes in the next event of a reader who needs no pieces, because the facts say everything.
    pub(crate) fn read_fact(&mut self, event: Event) -> StreamState {
        if piece_of(&event).is_some() { StreamState::Open } else { self.read(event, false) }
    }

    /// The bytes that were told since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.numbers.take()
    }

    /// Whether there is such a response: a later part begins with the decisions and results that it continues after.
    pub(crate) fn exists(&self) -> bool {
        self.part.has_begun()
    }

    /// The response as far as its run was read.
    pub(crate) fn object(&self) -> Value {
        let status = if self.start.is_some() { "in_progress" } else { "queued" };
        self.end.clone().unwrap_or_else(|| self.response(status, Value::Null, None))
    }

    /// The input of a later part. The first one's is the message of the user.
    pub(crate) fn inputs(&self) -> &[Value] {
        &self.inputs
    }

    /// The end of a stream that is cut while its run goes on.
    pub(crate) fn cut(&mut self, why: &str) {
        self.numbers.emit_cut(json!({ "code": CUT, "message": why, "param": null }));
    }

    /// Tells nothing but the end from now on, because the number that the client has seen means nothing any more.
    fn tell_end_only(&mut self) {
        self.numbers.set_stale();
    }

    /// An event before the part.
    fn note(&mut self, event: Event) {
        self.note_word(&event);
        if let Event::ProposalOpen(_) | Event::CallOpen(_) = &event {
            self.asked.push(event.clone());
        }
        if let Event::StepEnd(end) = &event {
            self.note_calls(end);
        } else if let Event::ProposalOpen(open) = &event {
            self.approvals.insert(open.call_id, open.proposal_id);
        } else if let Event::StepStart(_) = &event {
            self.inputs.clear();
            self.asked.clear();
        } else if let Event::RunStart(start) = event {
            self.start = Some(start);
        }
    }

    /// Asks again for the decisions and results that the run still waits for when the part begins.
    fn ask_again(&mut self) -> StreamState {
        let awaited: Vec<CallId> = self.part.awaited_answers().map(|(call, _)| call).collect();
        for event in std::mem::take(&mut self.asked) {
            if let Event::ProposalOpen(open) = &event
                && awaited.contains(&open.call_id)
            {
                self.proposal_open(open);
            } else if let Event::CallOpen(open) = &event
                && awaited.contains(&open.call_id)
            {
                self.call_open(open);
            }
        }
        StreamState::Open
    }

    /// A decision of the user, or a result from the client, as an item of the input.
    fn note_word(&mut self, event: &Event) {
        if let Event::ProposalClosed(closed) = event {
            let approve = closed.decision == protocol::Decision::Confirmed;
            self.inputs.push(json!({
                "id": format!("in_{}", closed.proposal_id),
                "type": "mcp_approval_response",
                "approval_request_id": closed.proposal_id,
                "approve": approve,
            }));
        } else if let Event::ToolComplete(complete) = event
            && self.is_of_client(&complete.name)
        {
            self.inputs.push(json!({
                "id": format!("in_{}", complete.call_id),
                "type": "function_call_output",
                "call_id": complete.call_id,
                "output": plain_text(&complete.output),
                "status": "completed",
            }));
        }
    }

    fn tell(&mut self, event: Event, voidness: EventVoidness) -> StreamState {
        match event {
            Event::RunStart(start) => {
                self.start = Some(start);
                self.begin();
            }
            Event::StepStart(start) => {
                let first_item = self.items.len();
                self.step = ToldStep { number: start.step, first_item, ..ToldStep::default() };
            }
            Event::TextDelta(piece) => self.piece(PieceForm::Text, &piece.delta, voidness),
            Event::ReasoningDelta(piece) => self.piece(PieceForm::Reasoning, &piece.delta, voidness),
            Event::StepEnd(end) => self.step_end(&end),
            Event::StepReset(_) => return self.step_reset(),
            Event::ToolStart(start) => self.tool_start(&start),
            Event::ToolComplete(complete) => self.tool_complete(&complete),
            Event::ProposalOpen(open) => self.proposal_open(&open),
            Event::CallOpen(open) => self.call_open(&open),
            Event::StreamComplete(answer) => self.complete(&answer),
            Event::RunEnd(end) => {
                self.run_end(&end);
                return StreamState::Ended;
            }
            Event::MessageUser(_)
            | Event::ContextLoaded(_)
            | Event::ToolInput(_)
            | Event::StepRetry(_)
            | Event::ProposalClosed(_)
            | Event::Source(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => {}
        }
        StreamState::Open
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        let response = self.response("in_progress", Value::Null, None);
        if response.get("background") == Some(&Value::Bool(true)) {
            let queued = json!({ "response": self.response("queued", Value::Null, None) });
            self.emit("response.created", &queued);
            self.emit("response.queued", &queued);
        } else {
            self.emit("response.created", json!({ "response": response }));
        }
        self.emit("response.in_progress", json!({ "response": response }));
    }

    fn note_calls(&mut self, end: &StepEnd) {
        let told = end.calls.iter().map(|call| {
            let arguments = call.raw.clone().unwrap_or_else(|| call.input.to_string());
            (call.id, (call.name.clone(), arguments))
        });
        self.calls = told.collect();
    }

    /// Deltas of old runs may be gone; the step says everything again.
    fn step_end(&mut self, end: &StepEnd) {
        let reasoning = end.reasoning.as_deref().unwrap_or_default();
        let rest = reasoning.get(self.step.reasoning..).unwrap_or_default();
        self.piece(PieceForm::Reasoning, rest, EventVoidness::Good);
        let rest = end.text.get(self.step.text..).unwrap_or_default();
        self.piece(PieceForm::Text, rest, EventVoidness::Good);
        self.close_item(EventVoidness::Good);
        self.note_calls(end);
        *self.usage.get_or_insert_default() += end.usage;
        (self.finish, self.said) = (Some(end.finish), end.text.clone());
        (self.step.text, self.step.reasoning, self.step.is_shown) = (0, 0, false);
    }

    /// Void pieces keep their numbers, and so does the error that tells of them.
    fn step_reset(&mut self) -> StreamState {
        let is_shown = std::mem::take(&mut self.step.is_shown);
        let had_pieces = self.step.pieces > 0;
        self.open = None;
        self.items.truncate(self.step.first_item);
        (self.step.text, self.step.reasoning, self.step.pieces) = (0, 0, 0);
        if is_shown {
            self.error(RESET, BEGUN_AGAIN);
            return StreamState::Ended;
        }
        if had_pieces {
            self.numbers.emit("error", json!({}), EventVoidness::Void);
        }
        StreamState::Open
    }

    fn tool_start(&mut self, start: &ToolStart) {
        let arguments = start.input.to_string();
        self.open_call(start.call_id, &start.name, &arguments);
    }

    fn tool_complete(&mut self, complete: &ToolComplete) {
        if self.is_of_client(&complete.name) {
            return;
        }
        if !self.under_way.contains_key(&complete.call_id) {
            // It was refused before it was made.
            let told = self.calls.get(&complete.call_id).cloned();
            let (name, arguments) = told.unwrap_or_else(|| (complete.name.clone(), String::from("{}")));
            self.open_call(complete.call_id, &name, &arguments);
        }
        self.close_call(complete);
    }

    fn proposal_open(&mut self, open: &ProposalOpen) {
        self.approvals.insert(open.call_id, open.proposal_id);
        let item = json!({
            "id": open.proposal_id,
            "type": "mcp_approval_request",
            "server_label": self.told.app,
            "name": open.name,
            "arguments": open.input.to_string(),
        });
        let index = self.items.len();
        self.emit("response.output_item.added", json!({ "output_index": index, "item": item }));
        self.emit("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.items.push(item);
    }

    fn call_open(&mut self, open: &CallOpen) {
        let (index, id) = (self.items.len(), format!("fc_{}", open.call_id.uuid().simple()));
        let arguments = open.input.to_string();
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "function_call", "status": status, "call_id": open.call_id,
                "name": open.name, "arguments": arguments,
            })
        };
        let at = json!({ "item_id": id, "output_index": index });
        self.emit(
            "response.output_item.added",
            json!({ "output_index": index, "item": item("in_progress", "") }),
        );
        let delta = merge_objects(&at, json!({ "delta": arguments }));
        self.emit("response.function_call_arguments.delta", delta);
        let done = merge_objects(&at, json!({ "name": open.name, "arguments": arguments }));
        self.emit("response.function_call_arguments.done", done);
        let item = item("completed", &arguments);
        self.emit("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.items.push(item);
    }

    /// An answer that no model has written is in no step. Its delta may be pruned with the others.
    fn complete(&mut self, answer: &StreamComplete) {
        if self.step.text > 0 || answer.text != self.said {
            let rest = answer.text.get(self.step.text..).unwrap_or_default();
            self.piece(PieceForm::Text, rest, EventVoidness::Good);
        }
        self.close_item(EventVoidness::Good);
    }

    fn run_end(&mut self, end: &RunEnd) {
        self.begin();
        self.close_item(EventVoidness::Good);
        match (end.status, self.finish) {
            (RunStatus::Failed, _) => {
                let error = end.error.as_ref().map_or(("failed", "the run failed"), |error| {
                    (error.code.as_str(), error.message.as_str())
                });
                let error = json!({ "code": failure_code(error.0), "message": error.1 });
                self.finish_response("response.failed", "failed", error, None);
            }
            (RunStatus::Cancelled | RunStatus::Interrupted, _) => {
                self.finish_response("response.incomplete", "cancelled", Value::Null, None);
            }
            (_, Some(Finish::Length)) => {
                let reason = Some("max_output_tokens");
                self.finish_response("response.incomplete", "incomplete", Value::Null, reason);
            }
            (_, Some(Finish::ContentFilter)) => {
                let reason = Some("content_filter");
                self.finish_response("response.incomplete", "incomplete", Value::Null, reason);
            }
            (_, _) => self.finish_response("response.completed", "completed", Value::Null, None),
        }
    }

    fn finish_response(&mut self, kind: &str, status: &str, error: Value, incomplete: Option<&str>) {
        let response = self.response(status, error, incomplete);
        self.numbers.emit_end(kind, json!({ "response": response }));
        self.end = Some(response);
    }

    fn response(&self, status: &str, error: Value, incomplete: Option<&str>) -> Value {
        let is_over = !matches!(status, "queued" | "in_progress");
        let output = self.items.iter().filter(|item| !item.is_null()).collect();
        let usage = self.usage.filter(|_| is_over);
        let state = ResponseState { status, output, usage, error, incomplete };
        let part = (self.part.number(), self.part.previous());
        response_object(&self.told, self.start.as_ref(), part, &state)
    }

    fn is_of_client(&self, name: &str) -> bool {
        self.start.as_ref().is_some_and(|start| {
            start.tools.iter().any(|tool| tool.name == name)
                || start.client_tools.iter().any(|tool| tool == name)
        })
    }

    fn emit(&mut self, kind: &str, body: impl serde::Serialize) {
        self.numbers.emit(kind, body, EventVoidness::Good);
    }

    fn error(&mut self, code: &str, message: &str) {
        self.numbers.emit_end("error", json!({ "code": code, "message": message, "param": null }));
    }
}

/// Clients know few codes of failures.
fn failure_code(code: &str) -> &'static str {
    match code {
        "budget_exceeded" | "provider_rate_limited" => "rate_limit_exceeded",
        "context_too_long" => "invalid_prompt",
        _ => "server_error",
    }
}

/// A result as a text.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Both objects in one.
fn merge_objects(first: &Value, second: Value) -> Value {
    let mut fields = first.as_object().cloned().unwrap_or_default();
    if let Value::Object(more) = second {
        fields.extend(more);
    }
    Value::Object(fields)
}

/// Whether a call went well.
fn is_success(status: ToolStatus) -> bool {
    match status {
        ToolStatus::Complete => true,
        ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Cancelled | ToolStatus::Unknown => false,
    }
}
