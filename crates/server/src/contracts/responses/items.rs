//! Items of a response that are told in several events: texts, reasoning, and calls that the server makes.

use protocol::{CallId, ToolComplete};
use serde::Serialize;
use serde_json::{Value, json};

use super::numbers::EventVoidness;
use super::{ResponseTeller, is_success, merge_objects, plain_text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceForm {
    Text,
    Reasoning,
}

/// An item that pieces are added to.
#[derive(Debug, Clone)]
pub(super) struct OpenItem {
    form: PieceForm,
    id: String,
    index: usize,
    text: String,
}

/// A piece of text. There is one for each token, so it is written without an object in between.
#[derive(Serialize)]
struct TextPiece<'a> {
    item_id: &'a str,
    output_index: usize,
    content_index: usize,
    delta: &'a str,
    logprobs: [(); 0],
}

/// A piece of reasoning.
#[derive(Serialize)]
struct ReasoningPiece<'a> {
    item_id: &'a str,
    output_index: usize,
    summary_index: usize,
    delta: &'a str,
}

impl ResponseTeller {
    pub(super) fn piece(&mut self, form: PieceForm, delta: &str, voidness: EventVoidness) {
        if delta.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|open| open.form != form) {
            self.close_item(voidness);
            self.open_item(form, voidness);
        }
        self.step.is_shown |= voidness == EventVoidness::Good;
        let Some(open) = &mut self.open else { return };
        open.text.push_str(delta);
        let (item_id, output_index) = (open.id.as_str(), open.index);
        match form {
            PieceForm::Text => {
                self.step.text += delta.len();
                let body = TextPiece { item_id, output_index, content_index: 0, delta, logprobs: [] };
                self.numbers.emit("response.output_text.delta", body, voidness);
            }
            PieceForm::Reasoning => {
                self.step.reasoning += delta.len();
                let body = ReasoningPiece { item_id, output_index, summary_index: 0, delta };
                self.numbers.emit("response.reasoning_summary_text.delta", body, voidness);
            }
        }
    }

    fn open_item(&mut self, form: PieceForm, voidness: EventVoidness) {
        self.step.pieces += 1;
        let prefix = if form == PieceForm::Text { "msg" } else { "rs" };
        let run = self.told.run.uuid().simple();
        let id = format!("{prefix}_{run}_{}_{}", self.step.number, self.step.pieces);
        let index = self.items.len();
        self.items.push(Value::Null);
        let (item, part, place, kind) = match form {
            PieceForm::Text => (
                json!({ "id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": [] }),
                text_part(""),
                "content_index",
                "response.content_part.added",
            ),
            PieceForm::Reasoning => (
                json!({ "id": id, "type": "reasoning", "summary": [] }),
                summary_part(""),
                "summary_index",
                "response.reasoning_summary_part.added",
            ),
        };
        let added = json!({ "output_index": index, "item": item });
        self.numbers.emit("response.output_item.added", added, voidness);
        let part = json!({ "item_id": id, "output_index": index, place: 0, "part": part });
        self.numbers.emit(kind, part, voidness);
        self.open = Some(OpenItem { form, id, index, text: String::new() });
    }

    pub(super) fn close_item(&mut self, voidness: EventVoidness) {
        let Some(OpenItem { form, id, index, text }) = self.open.take() else { return };
        let (place, part, item) = match form {
            PieceForm::Text => (
                "content_index",
                text_part(&text),
                json!({
                    "id": id, "type": "message", "status": "completed", "role": "assistant",
                    "content": [text_part(&text)],
                }),
            ),
            PieceForm::Reasoning => (
                "summary_index",
                summary_part(&text),
                json!({ "id": id, "type": "reasoning", "summary": [summary_part(&text)] }),
            ),
        };
        let at = json!({ "item_id": id, "output_index": index, place: 0 });
        let (text_done, part_done) = match form {
            PieceForm::Text => ("response.output_text.done", "response.content_part.done"),
            PieceForm::Reasoning => {
                ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
            }
        };
        let mut whole = merge_objects(&at, json!({ "text": text }));
        if let (PieceForm::Text, Some(fields)) = (form, whole.as_object_mut()) {
            fields.insert("logprobs".into(), json!([]));
        }
        self.numbers.emit(text_done, whole, voidness);
        self.numbers.emit(part_done, merge_objects(&at, json!({ "part": part })), voidness);
        let done = json!({ "output_index": index, "item": item });
        self.numbers.emit("response.output_item.done", done, voidness);
        if let Some(place) = self.items.get_mut(index) {
            *place = item;
        }
    }

    /// A call that the server makes.
    pub(super) fn open_call(&mut self, call: CallId, name: &str, arguments: &str) {
        let index = self.items.len();
        self.items.push(Value::Null);
        self.under_way.insert(call, index);
        self.calls.insert(call, (name.to_owned(), arguments.to_owned()));
        let item = self.call_item(call, "in_progress", None);
        let at = json!({ "item_id": call_item_id(call), "output_index": index });
        let begun = merge_objects(&item, json!({ "arguments": "" }));
        self.emit("response.output_item.added", json!({ "output_index": index, "item": begun }));
        self.emit("response.mcp_call.in_progress", &at);
        self.emit("response.mcp_call_arguments.delta", merge_objects(&at, json!({ "delta": arguments })));
        self.emit("response.mcp_call_arguments.done", merge_objects(&at, json!({ "arguments": arguments })));
    }

    pub(super) fn close_call(&mut self, complete: &ToolComplete) {
        let Some(index) = self.under_way.remove(&complete.call_id) else { return };
        let is_success = is_success(complete.status);
        let (status, kind) = if is_success {
            ("completed", "response.mcp_call.completed")
        } else {
            ("failed", "response.mcp_call.failed")
        };
        let item = self.call_item(complete.call_id, status, Some((is_success, plain_text(&complete.output))));
        self.emit(kind, json!({ "item_id": call_item_id(complete.call_id), "output_index": index }));
        self.emit("response.output_item.done", json!({ "output_index": index, "item": item }));
        if let Some(place) = self.items.get_mut(index) {
            *place = item;
        }
    }

    /// The item of a call, with its output or its error.
    fn call_item(&self, call: CallId, status: &str, result: Option<(bool, String)>) -> Value {
        let (name, arguments) = self.calls.get(&call).cloned().unwrap_or_default();
        let (output, error) = match result {
            Some((true, output)) => (Some(output), None),
            Some((false, error)) => (None, Some(error)),
            None => (None, None),
        };
        json!({
            "id": call_item_id(call),
            "type": "mcp_call",
            "server_label": self.told.app,
            "name": name,
            "arguments": arguments,
            "output": output,
            "error": error,
            "status": status,
            "approval_request_id": self.approvals.get(&call),
        })
    }
}

fn call_item_id(call: CallId) -> String {
    format!("mcp_{}", call.uuid().simple())
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn summary_part(text: &str) -> Value {
    json!({ "type": "summary_text", "text": text })
}
