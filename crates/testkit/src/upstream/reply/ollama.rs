//! An answer in Ollama's own chat: one JSON text a line, and calls that come whole.

use serde_json::{Map, Value, json};

use super::speech::{Speech, arguments};
use super::{ReplyPart, ReplyTail, ScriptedCall, StreamFault};
use crate::upstream::wire::Wire;

pub(super) struct OllamaSpeech {
    model: String,
    text: String,
    thinking: String,
    calls: Vec<Value>,
    /// The fields of the last line beside the message.
    end: Map<String, Value>,
}

impl OllamaSpeech {
    pub(super) fn new(model: String) -> Self {
        let (text, thinking, calls) = (String::new(), String::new(), Vec::new());
        Self { model, text, thinking, calls, end: Map::new() }
    }

    fn call(&mut self, call: &ScriptedCall) -> Value {
        let index = self.calls.len();
        let function = json!({"index": index, "name": call.name, "arguments": arguments(&call.arguments)});
        let mut whole = json!({"function": function});
        let id = call.id_at(index);
        if let Some(whole) = whole.as_object_mut().filter(|_| !id.is_empty()) {
            whole.insert("id".into(), id.into());
        }
        self.calls.push(whole.clone());
        whole
    }

    fn object(&self, message: &Value, done: bool) -> Value {
        let mut object = json!({
            "model": self.model,
            "created_at": "2026-11-15T02:00:00.000000Z",
            "message": message,
            "done": done,
        });
        if let Some(object) = object.as_object_mut().filter(|_| done) {
            object.extend(self.end.clone());
        }
        object
    }
}

impl Speech for OllamaSpeech {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn part(&mut self, part: ReplyPart) -> Vec<Vec<u8>> {
        let message = match part {
            ReplyPart::Text(text) => {
                self.text.push_str(&text);
                json!({"role": "assistant", "content": text})
            }
            ReplyPart::Reasoning(text) => {
                self.thinking.push_str(&text);
                json!({"role": "assistant", "content": "", "thinking": text})
            }
            ReplyPart::Call(call) => {
                json!({"role": "assistant", "content": "", "tool_calls": [self.call(&call)]})
            }
            ReplyPart::Chunk(chunk) => {
                super::refuse_chunk(&chunk);
                Value::Null
            }
        };
        vec![line(&self.object(&message, false))]
    }

    fn fault(&mut self, fault: &StreamFault) -> Vec<Vec<u8>> {
        vec![line(&fault.body(Wire::Ollama))]
    }

    fn end(&mut self, tail: &ReplyTail) -> Vec<Vec<u8>> {
        let reason = match tail.reason(!self.calls.is_empty()) {
            "tool_calls" => "stop",
            other => other,
        };
        self.end.insert("done_reason".into(), reason.into());
        for name in ["total_duration", "load_duration"] {
            self.end.insert(name.into(), 1.into());
        }
        if let Some((input, output)) = tail.usage {
            for (name, number) in [
                ("prompt_eval_count", input),
                ("prompt_eval_duration", 1),
                ("eval_count", output),
                ("eval_duration", 1),
            ] {
                self.end.insert(name.into(), number.into());
            }
        }
        vec![line(&self.object(&json!({"role": "assistant", "content": ""}), true))]
    }

    fn complete_body(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if let Some(message) = message.as_object_mut() {
            if !self.thinking.is_empty() {
                message.insert("thinking".into(), self.thinking.as_str().into());
            }
            if !self.calls.is_empty() {
                message.insert("tool_calls".into(), self.calls.clone().into());
            }
        }
        self.object(&message, true)
    }
}

fn line(object: &Value) -> Vec<u8> {
    format!("{object}\n").into_bytes()
}
