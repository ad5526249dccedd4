//! An answer in OpenAI's Responses API, with every event of its life.

use serde_json::{Value, json};

use super::speech::{CREATED, Speech, named_event};
use super::{ReplyPart, ReplyTail, ScriptedCall, StreamFault};

pub(super) struct ResponsesSpeech {
    model: String,
    sequence: u64,
    /// The items that are done.
    output: Vec<Value>,
    open: Option<OpenOutput>,
    calls: usize,
    status: &'static str,
    incomplete: Value,
    error: Value,
    usage: Value,
    events: Vec<Vec<u8>>,
}

/// The item under way.
enum OpenOutput {
    Reasoning(String),
    Message(String),
    Call { id: String, name: String, arguments: String },
}

impl ResponsesSpeech {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            sequence: 0,
            output: Vec::new(),
            open: None,
            calls: 0,
            status: "in_progress",
            incomplete: Value::Null,
            error: Value::Null,
            usage: Value::Null,
            events: Vec::new(),
        }
    }

    fn emit(&mut self, kind: &str, mut data: Value) {
        if let Some(data) = data.as_object_mut() {
            data.insert("type".into(), kind.into());
            data.insert("sequence_number".into(), self.sequence.into());
        }
        self.sequence += 1;
        self.events.push(named_event(kind, &data));
    }

    fn begin(&mut self) {
        if self.sequence == 0 {
            for kind in ["response.created", "response.in_progress"] {
                self.emit(kind, json!({"response": self.complete_body()}));
            }
        }
    }

    /// The id of the item under way.
    fn id(&self, kind: &str) -> String {
        format!("{kind}_{}", self.output.len())
    }

    fn text(&mut self, delta: &str) {
        if !matches!(self.open, Some(OpenOutput::Message(_))) {
            self.close("completed");
            return self.open_message(delta);
        }
        if let Some(OpenOutput::Message(text)) = &mut self.open {
            text.push_str(delta);
        }
        let place = json!({"item_id": self.id("msg"), "output_index": self.output.len(), "content_index": 0});
        self.emit(
            "response.output_text.delta",
            merge_objects(place, json!({"delta": delta, "logprobs": []})),
        );
    }

    fn open_message(&mut self, delta: &str) {
        let (index, id) = (self.output.len(), self.id("msg"));
        let item = message(&id, "in_progress", &[]);
        self.emit("response.output_item.added", json!({"output_index": index, "item": item}));
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        self.emit("response.content_part.added", merge_objects(place, json!({"part": output_text("")})));
        self.open = Some(OpenOutput::Message(String::new()));
        self.text(delta);
    }

    fn reasoning(&mut self, delta: &str) {
        if !matches!(self.open, Some(OpenOutput::Reasoning(_))) {
            self.close("completed");
            return self.open_reasoning(delta);
        }
        if let Some(OpenOutput::Reasoning(text)) = &mut self.open {
            text.push_str(delta);
        }
        let place = json!({"item_id": self.id("rs"), "output_index": self.output.len(), "summary_index": 0});
        self.emit("response.reasoning_summary_text.delta", merge_objects(place, json!({"delta": delta})));
    }

    fn open_reasoning(&mut self, delta: &str) {
        let (index, id) = (self.output.len(), self.id("rs"));
        let item = json!({"id": id, "type": "reasoning", "summary": []});
        self.emit("response.output_item.added", json!({"output_index": index, "item": item}));
        let place = json!({"item_id": id, "output_index": index, "summary_index": 0});
        self.emit(
            "response.reasoning_summary_part.added",
            merge_objects(place, json!({"part": summary_text("")})),
        );
        self.open = Some(OpenOutput::Reasoning(String::new()));
        self.reasoning(delta);
    }

    fn call(&mut self, call: &ScriptedCall) {
        self.close("completed");
        let (index, id) = (self.output.len(), self.id("fc"));
        let call_id = call.id_at(self.calls);
        self.calls += 1;
        let item = function_call(&id, "in_progress", (&call_id, &call.name, ""));
        self.emit("response.output_item.added", json!({"output_index": index, "item": item}));
        for fragment in call.parts() {
            let delta = json!({"item_id": id, "output_index": index, "delta": fragment});
            self.emit("response.function_call_arguments.delta", delta);
        }
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        self.open = Some(OpenOutput::Call { id: call_id, name, arguments });
    }

    /// Ends the item under way, if there is one.
    fn close(&mut self, status: &str) {
        let index = self.output.len();
        let item = match self.open.take() {
            None => return,
            Some(OpenOutput::Message(text)) => self.close_message(status, &text),
            Some(OpenOutput::Reasoning(text)) => self.close_reasoning(&text),
            Some(OpenOutput::Call { id: call_id, name, arguments }) => {
                let id = self.id("fc");
                let done =
                    json!({"item_id": id, "output_index": index, "name": name, "arguments": arguments});
                self.emit("response.function_call_arguments.done", done);
                function_call(&id, status, (&call_id, &name, &arguments))
            }
        };
        self.emit("response.output_item.done", json!({"output_index": index, "item": item}));
        self.output.push(item);
    }

    fn close_message(&mut self, status: &str, text: &str) -> Value {
        let (id, part) = (self.id("msg"), output_text(text));
        let place = json!({"item_id": id, "output_index": self.output.len(), "content_index": 0});
        let done = json!({"text": text, "logprobs": []});
        self.emit("response.output_text.done", merge_objects(place.clone(), done));
        self.emit("response.content_part.done", merge_objects(place, json!({"part": part})));
        message(&id, status, &[part])
    }

    fn close_reasoning(&mut self, text: &str) -> Value {
        let (id, part) = (self.id("rs"), summary_text(text));
        let place = json!({"item_id": id, "output_index": self.output.len(), "summary_index": 0});
        self.emit(
            "response.reasoning_summary_text.done",
            merge_objects(place.clone(), json!({"text": text})),
        );
        self.emit("response.reasoning_summary_part.done", merge_objects(place, json!({"part": part})));
        let sealed = format!("sealed_{}", self.output.len());
        json!({"id": id, "type": "reasoning", "summary": [part], "encrypted_content": sealed})
    }
}

impl Speech for ResponsesSpeech {
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn part(&mut self, part: ReplyPart) -> Vec<Vec<u8>> {
        self.begin();
        match part {
            ReplyPart::Text(text) => self.text(&text),
            ReplyPart::Reasoning(text) => self.reasoning(&text),
            ReplyPart::Call(call) => self.call(&call),
            ReplyPart::Chunk(chunk) => super::refuse_chunk(&chunk),
        }
        std::mem::take(&mut self.events)
    }

    fn fault(&mut self, fault: &StreamFault) -> Vec<Vec<u8>> {
        self.begin();
        let code = fault.code.as_ref().unwrap_or(&fault.kind);
        self.emit("error", json!({"code": code, "message": fault.message, "param": null}));
        std::mem::take(&mut self.events)
    }

    fn end(&mut self, tail: &ReplyTail) -> Vec<Vec<u8>> {
        self.begin();
        let (status, detail) = match tail.reason(self.calls > 0) {
            "length" => ("incomplete", "max_output_tokens"),
            "content_filter" => ("incomplete", "content_filter"),
            "error" => ("failed", "server_error"),
            _ => ("completed", ""),
        };
        self.close(if status == "completed" { status } else { "incomplete" });
        self.status = status;
        if status == "incomplete" {
            self.incomplete = json!({"reason": detail});
        } else if status == "failed" {
            self.error = json!({"code": detail, "message": "The model failed."});
        }
        if let Some((input, output)) = tail.usage {
            self.usage = json!({
                "input_tokens": input,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input + output,
            });
        }
        self.emit(&format!("response.{status}"), json!({"response": self.complete_body()}));
        std::mem::take(&mut self.events)
    }

    fn complete_body(&self) -> Value {
        json!({
            "id": "resp_1",
            "object": "response",
            "created_at": CREATED,
            "status": self.status,
            "background": false,
            "error": self.error,
            "incomplete_details": self.incomplete,
            "instructions": null,
            "max_output_tokens": null,
            "model": self.model,
            "output": self.output,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "reasoning": {"effort": null, "summary": null},
            "store": true,
            "temperature": 1,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1,
            "truncation": "disabled",
            "usage": self.usage,
            "metadata": {},
        })
    }
}

/// Both objects in one.
fn merge_objects(mut one: Value, other: Value) -> Value {
    if let (Some(one), Value::Object(other)) = (one.as_object_mut(), other) {
        one.extend(other);
    }
    one
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn summary_text(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

fn message(id: &str, status: &str, content: &[Value]) -> Value {
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
}

fn function_call(id: &str, status: &str, (call_id, name, arguments): (&str, &str, &str)) -> Value {
    json!({
        "id": id,
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    })
}
