//! An answer in Chat Completions.

use serde_json::{Value, json};

use super::speech::{CREATED, Speech};
use super::{ReplyPart, ReplyTail, ScriptedCall, StreamFault};
use crate::upstream::wire::Wire;

pub(super) struct ChatSpeech {
    model: String,
    reasoning: String,
    text: String,
    calls: Vec<Value>,
    reason: Value,
    usage: Value,
}

impl ChatSpeech {
    pub(super) fn new(model: String) -> Self {
        let (reasoning, text, calls) = (String::new(), String::new(), Vec::new());
        Self { model, reasoning, text, calls, reason: Value::Null, usage: Value::Null }
    }

    fn call(&mut self, call: &ScriptedCall) -> Vec<Value> {
        let index = self.calls.len();
        let id = Some(call.id_at(index)).filter(|id| !id.is_empty());
        let whole = json!({"name": call.name, "arguments": call.arguments});
        self.calls.push(json!({"id": id, "type": "function", "function": whole}));
        // A call that is not split comes with its name; one that is split, after it.
        let mut fragments = call.parts();
        let first = if call.is_split() { String::new() } else { fragments.pop().unwrap_or_default() };
        let mut deltas =
            vec![json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": first}})];
        deltas.extend(fragments.iter().map(|arguments| json!({"function": {"arguments": arguments}})));
        for delta in deltas.iter_mut().filter_map(Value::as_object_mut).filter(|_| call.indexed) {
            delta.insert("index".into(), index.into());
        }
        deltas.into_iter().map(|call| delta(&json!({"tool_calls": [call]}))).collect()
    }
}

impl Speech for ChatSpeech {
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn part(&mut self, part: ReplyPart) -> Vec<Vec<u8>> {
        let chunks = match part {
            ReplyPart::Text(text) => {
                self.text.push_str(&text);
                vec![delta(&json!({"content": text}))]
            }
            ReplyPart::Reasoning(text) => {
                self.reasoning.push_str(&text);
                vec![delta(&json!({"reasoning_content": text}))]
            }
            ReplyPart::Call(call) => self.call(&call),
            ReplyPart::Chunk(chunk) => vec![chunk],
        };
        chunks.into_iter().map(|chunk| event(chunk, &self.model)).collect()
    }

    fn fault(&mut self, fault: &StreamFault) -> Vec<Vec<u8>> {
        vec![format!("data: {}\n\n", fault.body(Wire::Chat)).into_bytes()]
    }

    fn end(&mut self, tail: &ReplyTail) -> Vec<Vec<u8>> {
        self.reason = tail.reason(!self.calls.is_empty()).into();
        let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": self.reason}]});
        let mut events = vec![event(last, &self.model)];
        if let Some((input, output)) = tail.usage {
            self.usage = json!({
                "prompt_tokens": input,
                "completion_tokens": output,
                "total_tokens": input + output,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            });
            events.push(event(json!({"choices": [], "usage": self.usage}), &self.model));
        }
        if tail.done {
            events.push(b"data: [DONE]\n\n".to_vec());
        }
        events
    }

    fn complete_body(&self) -> Value {
        let content = Some(&self.text).filter(|text| !text.is_empty());
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if let Some(message) = message.as_object_mut() {
            if !self.reasoning.is_empty() {
                message.insert("reasoning_content".into(), self.reasoning.as_str().into());
            }
            if !self.calls.is_empty() {
                message.insert("tool_calls".into(), self.calls.clone().into());
            }
        }
        json!({
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": CREATED,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": self.reason}],
            "usage": self.usage,
        })
    }
}

pub(super) fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "finish_reason": null, "delta": delta}]})
}

fn event(chunk: Value, model: &str) -> Vec<u8> {
    let mut event = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "usage": null,
    });
    if let (Some(event), Value::Object(chunk)) = (event.as_object_mut(), chunk) {
        event.extend(chunk);
    }
    format!("data: {event}\n\n").into_bytes()
}
