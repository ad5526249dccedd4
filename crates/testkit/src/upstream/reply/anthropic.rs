//! An answer in Anthropic's Messages.

use serde_json::{Value, json};

use super::speech::{Speech, arguments, named_event};
use super::{ReplyPart, ReplyTail, ScriptedCall, StreamFault};
use crate::upstream::wire::Wire;

pub(super) struct Anthropic {
    model: String,
    usage: Option<(u64, u64)>,
    begun: bool,
    /// The blocks that are done.
    blocks: Vec<Value>,
    open: Option<OpenBlock>,
    calls: usize,
    reason: Value,
    events: Vec<Vec<u8>>,
}

/// The block under way.
enum OpenBlock {
    Thinking(String),
    Text(String),
    ToolUse(Value),
}

impl Anthropic {
    pub(super) fn new(model: String, usage: Option<(u64, u64)>) -> Self {
        Self {
            model,
            usage,
            begun: false,
            blocks: Vec::new(),
            open: None,
            calls: 0,
            reason: Value::Null,
            events: Vec::new(),
        }
    }

    fn emit(&mut self, kind: &str, mut data: Value) {
        if let Some(data) = data.as_object_mut() {
            data.insert("type".into(), kind.into());
        }
        self.events.push(named_event(kind, &data));
    }

    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            let usage = self.usage.map(|(input, _)| json!({"input_tokens": input, "output_tokens": 1}));
            self.emit("message_start", json!({"message": self.message(usage)}));
            self.emit("ping", json!({}));
        }
    }

    fn message(&self, usage: Option<Value>) -> Value {
        let mut message = json!({
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self.blocks,
            "stop_reason": self.reason,
            "stop_sequence": null,
        });
        if let (Some(message), Some(usage)) = (message.as_object_mut(), usage) {
            message.insert("usage".into(), usage);
        }
        message
    }

    fn start(&mut self, block: &Value) {
        self.close();
        self.emit("content_block_start", json!({"index": self.blocks.len(), "content_block": block}));
    }

    fn delta(&mut self, delta: &Value) {
        self.emit("content_block_delta", json!({"index": self.blocks.len(), "delta": delta}));
    }

    fn text(&mut self, delta: &str) {
        if !matches!(self.open, Some(OpenBlock::Text(_))) {
            self.start(&json!({"type": "text", "text": ""}));
            self.open = Some(OpenBlock::Text(String::new()));
        }
        if let Some(OpenBlock::Text(text)) = &mut self.open {
            text.push_str(delta);
        }
        self.delta(&json!({"type": "text_delta", "text": delta}));
    }

    fn thinking(&mut self, delta: &str) {
        if !matches!(self.open, Some(OpenBlock::Thinking(_))) {
            self.start(&json!({"type": "thinking", "thinking": "", "signature": ""}));
            self.open = Some(OpenBlock::Thinking(String::new()));
        }
        if let Some(OpenBlock::Thinking(text)) = &mut self.open {
            text.push_str(delta);
        }
        self.delta(&json!({"type": "thinking_delta", "thinking": delta}));
    }

    fn call(&mut self, call: &ScriptedCall) {
        let id = call.id_at(self.calls);
        self.calls += 1;
        self.start(&json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}));
        self.delta(&json!({"type": "input_json_delta", "partial_json": ""}));
        for fragment in call.parts() {
            self.delta(&json!({"type": "input_json_delta", "partial_json": fragment}));
        }
        let input = arguments(&call.arguments);
        self.open = Some(OpenBlock::ToolUse(
            json!({"type": "tool_use", "id": id, "name": call.name, "input": input}),
        ));
    }

    /// Ends the block under way, if there is one.
    fn close(&mut self) {
        let block = match self.open.take() {
            None => return,
            Some(OpenBlock::Text(text)) => json!({"type": "text", "text": text}),
            Some(OpenBlock::Thinking(thinking)) => {
                let signature = format!("signature_{}", self.blocks.len());
                self.delta(&json!({"type": "signature_delta", "signature": signature}));
                json!({"type": "thinking", "thinking": thinking, "signature": signature})
            }
            Some(OpenBlock::ToolUse(block)) => block,
        };
        self.emit("content_block_stop", json!({"index": self.blocks.len()}));
        self.blocks.push(block);
    }
}

impl Speech for Anthropic {
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn part(&mut self, part: ReplyPart) -> Vec<Vec<u8>> {
        self.begin();
        match part {
            ReplyPart::Text(text) => self.text(&text),
            ReplyPart::Reasoning(text) => self.thinking(&text),
            ReplyPart::Call(call) => self.call(&call),
            ReplyPart::Chunk(chunk) => super::refuse_chunk(&chunk),
        }
        std::mem::take(&mut self.events)
    }

    fn fault(&mut self, fault: &StreamFault) -> Vec<Vec<u8>> {
        self.begin();
        self.emit("error", fault.body(Wire::Anthropic));
        std::mem::take(&mut self.events)
    }

    fn end(&mut self, tail: &ReplyTail) -> Vec<Vec<u8>> {
        self.begin();
        self.close();
        self.reason = match tail.reason(self.calls > 0) {
            "stop" => "end_turn",
            "length" => "max_tokens",
            "tool_calls" => "tool_use",
            "content_filter" => "refusal",
            other => other,
        }
        .into();
        let mut last = json!({"delta": {"stop_reason": self.reason, "stop_sequence": null}});
        if let (Some(last), Some((_, output))) = (last.as_object_mut(), tail.usage) {
            last.insert("usage".into(), json!({"output_tokens": output}));
        }
        self.emit("message_delta", last);
        if tail.done {
            self.emit("message_stop", json!({}));
        }
        std::mem::take(&mut self.events)
    }

    fn complete_body(&self) -> Value {
        let usage = |(input, output)| json!({"input_tokens": input, "output_tokens": output});
        self.message(self.usage.map(usage))
    }
}
