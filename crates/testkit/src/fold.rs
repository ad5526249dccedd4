//! The reference reducer: what a client that saw nothing but the events of a run would show, and whether that is what
//! the server says of it (S7).
//!
//! Every rule of the stream is checked on the way, so a log in which an event is missing, doubled, changed or out of
//! place is found even where the end result happens to be the same.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::frames::Frame;

/// Whether the pieces of a run's answers are still in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaState {
    Kept,
    /// The pieces have been left out since, all of them.
    Pruned,
}

/// The outcome of the events of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Folded {
    pub run: String,
    pub thread: String,
    /// The user's message, if the run's log begins with one; another answer to an old message has none.
    pub asked: Option<Value>,
    /// The text of each step that has ended, in order.
    pub steps: Vec<String>,
    /// The run's message in the conversation: `id`, `text`, `toolCalls`, `toolResults`, `memoriesReferenced`.
    pub message: Option<Value>,
    /// How it ended; none if it has not.
    pub status: Option<String>,
    pub error: Value,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The faults of the events themselves.
    pub findings: Vec<String>,
}

/// The pieces that have been streamed of a step that has begun.
#[derive(Debug, Default)]
struct OpenStep {
    step: u64,
    text: String,
    reasoning: String,
    /// By call; what was sent of its arguments.
    inputs: BTreeMap<String, String>,
}

impl OpenStep {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.inputs.is_empty()
    }
}

#[derive(Default)]
struct Fold {
    deltas: Option<DeltaState>,
    /// Whether the run was made elsewhere: nothing of it was streamed, and none of its calls was begun.
    imported: bool,
    folded: Folded,
    open: Option<OpenStep>,
    /// The last step that ended.
    last: Value,
    calls: Vec<Value>,
    results: Vec<Value>,
    begun: Vec<String>,
    /// Proposals, by id, that are not decided yet.
    waiting: Vec<String>,
    /// The text that was streamed after the last step, by no model.
    prepared: String,
    answer: Option<Value>,
}

/// Folds all events of one run, in order.
pub fn fold(frames: &[Frame], deltas: DeltaState) -> Folded {
    let mut fold = Fold { deltas: Some(deltas), ..Fold::default() };
    let mut before = 0;
    for frame in frames {
        if frame.id <= before {
            fold.finding(frame, &format!("comes after number {before}"));
        }
        before = frame.id;
        if fold.folded.status.is_some() {
            fold.finding(frame, "comes after run:end");
        }
        fold.take(frame);
    }
    fold.folded
}

fn field<'a>(data: &'a Value, name: &str) -> &'a Value {
    &data[name]
}

fn text<'a>(data: &'a Value, field: &str) -> &'a str {
    data[field].as_str().unwrap_or_default()
}

impl Fold {
    fn finding(&mut self, frame: &Frame, what: &str) {
        self.folded.findings.push(format!("event {} ({}) {what}", frame.id, frame.event));
    }

    fn take(&mut self, frame: &Frame) {
        match frame.event.as_str() {
            "message:user" => self.folded.asked = Some(frame.data.clone()),
            "run:start" => {
                self.folded.run = text(&frame.data, "runId").to_owned();
                self.folded.thread = text(&frame.data, "threadId").to_owned();
                self.imported = field(&frame.data, "imported") == true;
            }
            "step:start" => self.begin(frame),
            "text:delta" | "reasoning:delta" | "tool:input" => self.delta(frame),
            "step:retry" => {
                if self.open_step(frame).is_some_and(|open| !open.is_empty()) {
                    self.finding(frame, "follows streamed text that was not reset");
                }
            }
            "step:reset" => self.reset(frame),
            "step:end" => self.end_step(frame),
            "tool:start" | "call:open" => self.begin_call(frame),
            "tool:complete" => self.end_call(frame),
            "proposal:open" => self.propose(frame),
            "proposal:closed" => self.decide(frame),
            "stream:complete" => self.complete(frame),
            "run:end" => self.end(frame),
            "context:loaded" | "source" => {}
            _ => self.finding(frame, "is no event of a run"),
        }
    }

    fn begin(&mut self, frame: &Frame) {
        let step = field(&frame.data, "step").as_u64().unwrap_or_default();
        if let Some(open) = &self.open {
            self.finding(frame, &format!("begins while step {} is open", open.step));
        }
        let expected = self.folded.steps.len() as u64 + 1;
        if step != expected {
            self.finding(frame, &format!("is step {step}, not {expected}"));
        }
        self.open = Some(OpenStep { step, ..OpenStep::default() });
    }

    /// The step that the event is of, if that is the open one.
    fn open_step(&mut self, frame: &Frame) -> Option<&mut OpenStep> {
        let step = field(&frame.data, "step").as_u64();
        if self.open.as_ref().map(|open| open.step) != step {
            self.finding(frame, "is not of the open step");
            return None;
        }
        self.open.as_mut()
    }

    fn delta(&mut self, frame: &Frame) {
        let delta = text(&frame.data, "delta").to_owned();
        if self.deltas == Some(DeltaState::Pruned) {
            self.finding(frame, "is there although the deltas were pruned");
        }
        if self.open.is_none() && frame.event == "text:delta" {
            self.prepare(frame, &delta);
            return;
        }
        let Some(open) = self.open_step(frame) else { return };
        let into = match frame.event.as_str() {
            "text:delta" => &mut open.text,
            "reasoning:delta" => &mut open.reasoning,
            _ => open.inputs.entry(text(&frame.data, "callId").to_owned()).or_default(),
        };
        into.push_str(&delta);
    }

    /// An answer that no model has written comes in one piece, under the number of the step that there might have been.
    fn prepare(&mut self, frame: &Frame, delta: &str) {
        let expected = self.folded.steps.len() as u64 + 1;
        if field(&frame.data, "step").as_u64() != Some(expected) || !self.prepared.is_empty() {
            self.finding(frame, "is neither of a step nor the one piece of an answer that was prepared");
        }
        self.prepared.push_str(delta);
    }

    fn reset(&mut self, frame: &Frame) {
        self.spend(field(&frame.data, "usage"));
        if let Some(open) = self.open_step(frame) {
            *open = OpenStep { step: open.step, ..OpenStep::default() };
        }
    }

    fn spend(&mut self, usage: &Value) {
        self.folded.input_tokens += usage["inputTokens"].as_u64().unwrap_or_default();
        self.folded.output_tokens += usage["outputTokens"].as_u64().unwrap_or_default();
    }

    fn end_step(&mut self, frame: &Frame) {
        let data = &frame.data;
        if !self.imported {
            self.open_step(frame);
        }
        let open = self.open.take().unwrap_or_default();
        if self.deltas == Some(DeltaState::Kept) && !self.imported {
            self.compare_step(frame, &open);
        }
        self.spend(&data["usage"]);
        for call in data["calls"].as_array().into_iter().flatten() {
            if self.calls.iter().any(|known| known["id"] == call["id"]) {
                self.finding(frame, &format!("repeats the call {}", call["id"]));
            }
            self.calls.push(json!({ "id": call["id"], "name": call["name"], "input": call["input"] }));
        }
        self.folded.steps.push(text(data, "text").to_owned());
        self.last = data.clone();
    }

    /// Checks that the pieces since the step began, or began again, are what it ended with, byte for byte.
    fn compare_step(&mut self, frame: &Frame, open: &OpenStep) {
        let data = &frame.data;
        for (what, streamed) in [("text", &open.text), ("reasoning", &open.reasoning)] {
            if streamed != text(data, what) {
                let ended = text(data, what);
                self.finding(frame, &format!("has the {what} {ended:?}, and {streamed:?} was streamed"));
            }
        }
        let calls = data["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        for call in calls {
            let id = text(call, "id");
            let streamed = open.inputs.get(id).map(String::as_str).unwrap_or_default();
            if !is_input(call, streamed) {
                let (input, raw) = (&call["input"], &call["raw"]);
                self.finding(
                    frame,
                    &format!("calls {id} with {input} ({raw}), and {streamed:?} was streamed"),
                );
            }
        }
        // Calls that were not allowed, or that a cut stream left unfinished, are all dropped.
        for id in open.inputs.keys().filter(|_| !calls.is_empty()) {
            if !calls.iter().any(|call| text(call, "id") == id) {
                self.finding(frame, &format!("has lost the call {id}"));
            }
        }
    }

    fn call(&mut self, frame: &Frame) -> String {
        let id = text(&frame.data, "callId").to_owned();
        if !self.calls.iter().any(|call| text(call, "id") == id) {
            self.finding(frame, &format!("is of {id}, which no step has called"));
        }
        if self.results.iter().any(|result| text(result, "callId") == id) {
            self.finding(frame, &format!("comes after the result of {id}"));
        }
        id
    }

    fn begin_call(&mut self, frame: &Frame) {
        let id = self.call(frame);
        if self.begun.contains(&id) {
            self.finding(frame, &format!("begins {id} a second time"));
        }
        let input = self.calls.iter().find(|call| text(call, "id") == id).map(|call| &call["input"]);
        if input.is_some_and(|input| input != field(&frame.data, "input")) {
            self.finding(frame, &format!("begins {id} with other arguments than it was called with"));
        }
        self.begun.push(id);
    }

    fn end_call(&mut self, frame: &Frame) {
        let id = self.call(frame);
        let (data, success) = (&frame.data, field(&frame.data, "status") == "complete");
        if success && !self.begun.contains(&id) && !self.imported {
            self.finding(frame, &format!("completes {id}, which has not begun"));
        }
        self.results.push(json!({
            "callId": id,
            "name": data["name"],
            "result": data["output"],
            "success": success,
            "status": data["status"],
            "durationMs": data["durationMs"],
        }));
    }

    fn propose(&mut self, frame: &Frame) {
        self.call(frame);
        self.waiting.push(text(&frame.data, "proposalId").to_owned());
    }

    fn decide(&mut self, frame: &Frame) {
        let id = text(&frame.data, "proposalId").to_owned();
        if !self.waiting.contains(&id) {
            self.finding(frame, &format!("decides {id}, which nobody asked or which is decided"));
        }
        self.waiting.retain(|waiting| *waiting != id);
    }

    fn complete(&mut self, frame: &Frame) {
        let data = &frame.data;
        let said = text(&self.last, "text").to_owned();
        let is_answer = field(&self.last, "calls").as_array().is_some_and(Vec::is_empty)
            && field(&self.last, "finish") != "failed"
            && !said.trim().is_empty();
        if is_answer && said != text(data, "text") {
            self.finding(frame, &format!("is {:?}, and the last step said {said:?}", text(data, "text")));
        }
        let unsaid = if said == text(data, "text") { "" } else { text(data, "text") };
        if self.deltas == Some(DeltaState::Kept) && self.prepared != unsaid {
            let prepared = self.prepared.clone();
            self.finding(
                frame,
                &format!("is {:?}, and {prepared:?} was streamed for it", text(data, "text")),
            );
        }
        if self.answer.is_some() {
            self.finding(frame, "is a second answer");
        }
        self.answer = Some(json!({
            "id": data["messageId"], "text": data["text"], "memoriesReferenced": data["memoriesReferenced"],
        }));
    }

    /// Ends the run; pieces of a step that has no end count for nothing.
    fn end(&mut self, frame: &Frame) {
        let status = text(&frame.data, "status").to_owned();
        if (status == "completed") != self.answer.is_some() {
            self.finding(frame, "is completed without an answer, or has one and is not");
        }
        let open: Vec<&Value> = self.calls.iter().filter(|call| !self.has_result(call)).collect();
        if !open.is_empty() {
            let ids = json!(open).to_string();
            self.finding(frame, &format!("leaves calls without a result: {ids}"));
        }
        self.folded.status = Some(status);
        self.folded.error = field(&frame.data, "error").clone();
        let cut = field(&frame.data, "messageId")
            .as_str()
            .map(|id| json!({ "id": id, "text": text(&self.last, "text"), "memoriesReferenced": [] }));
        self.folded.message = self.answer.take().or(cut).map(|message| {
            json!({
                "id": field(&message, "id"),
                "text": field(&message, "text"),
                "memoriesReferenced": field(&message, "memoriesReferenced"),
                "toolCalls": self.calls,
                "toolResults": self.results,
            })
        });
    }

    fn has_result(&self, call: &Value) -> bool {
        self.results.iter().any(|result| result["callId"] == call["id"])
    }
}

/// Whether a call's arguments are what was streamed of them; nothing at all means none.
fn is_input(call: &Value, streamed: &str) -> bool {
    match call["raw"].as_str() {
        Some(raw) => raw == streamed,
        None if streamed.trim().is_empty() => call["input"] == json!({}),
        None => serde_json::from_str::<Value>(streamed).is_ok_and(|input| input == call["input"]),
    }
}

impl Folded {
    /// Returns the differences in the run as `GET /v1/runs/{run}` shows it.
    pub fn compare_run(&self, shown: &Value) -> Vec<String> {
        let status = self.status.as_deref();
        let mut findings = Vec::new();
        let mut compare = |what: &str, folded: Value, shown: &Value| {
            if folded != *shown {
                findings.push(format!("{}: its {what} is {shown}, and its events say {folded}", self.run));
            }
        };
        compare("thread", json!(self.thread), &shown["threadId"]);
        match status {
            Some(status) => compare("status", json!(status), &shown["status"]),
            None if shown["endedAt"].is_null() => {}
            None => compare("end", Value::Null, &shown["endedAt"]),
        }
        if status.is_some() {
            compare("error", self.error.clone(), &shown["error"]);
        }
        compare("input tokens", json!(self.input_tokens), field(field(shown, "usage"), "inputTokens"));
        compare("output tokens", json!(self.output_tokens), field(field(shown, "usage"), "outputTokens"));
        findings
    }

    /// Returns the differences in the messages of its thread as `GET /v1/threads/{thread}/messages` lists them. `all`
    /// are all of them, on every branch; a run whose message is on none must not have one.
    pub fn compare_messages(&self, all: &[Value]) -> Vec<String> {
        let of = |role: &str| -> Vec<&Value> {
            all.iter().filter(|shown| shown["runId"] == self.run.as_str() && shown["role"] == role).collect()
        };
        let mut findings = Vec::new();
        let asked = self
            .asked
            .iter()
            .map(|asked| json!({ "id": asked["messageId"], "text": text(asked, "text").trim() }));
        let answered = self.message.iter().cloned();
        for (role, expected) in [("user", asked.collect::<Vec<_>>()), ("assistant", answered.collect())] {
            let shown = of(role);
            if shown.len() != expected.len() {
                let (run, found, meant) = (&self.run, shown.len(), expected.len());
                findings.push(format!(
                    "{run}: it has {found} messages of the {role}, and its events say {meant}"
                ));
            }
            for (shown, expected) in shown.into_iter().zip(&expected) {
                findings.extend(self.differences(shown, expected));
            }
        }
        findings
    }

    fn differences(&self, shown: &Value, expected: &Value) -> Vec<String> {
        let fields = expected.as_object().into_iter().flatten();
        let differing = fields.filter(|(field, value)| shown[field.as_str()] != **value);
        let say = |(field, value): (&String, &Value)| {
            let found = &shown[field.as_str()];
            format!("{}: the {field} of its message is {found}, and its events say {value}", self.run)
        };
        differing.map(say).collect()
    }
}

#[cfg(test)]
mod tests;
