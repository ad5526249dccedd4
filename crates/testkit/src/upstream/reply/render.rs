//! A reply as acts on a socket. Pure, so that what a script means does not depend on when it runs.

use serde_json::{Value, json};

use super::{Act, Framing, Reply, Step, Tail};

impl Reply {
    /// What to do, in order, for a request that asked for `model`.
    pub(in super::super) fn acts(mut self, model: &str) -> Vec<Act> {
        let steps = self.steps(model);
        let length =
            steps.iter().map(|step| if let Step::Bytes(bytes) = step { bytes.len() } else { 0 }).sum();
        let mut writer =
            Writer { head: self.head_bytes(length), framing: self.framing, offset: 0, acts: Vec::new() };
        let (limit, end) = self.cut.take().map_or((usize::MAX, None), |(limit, act)| (limit, Some(act)));
        for step in steps {
            match step {
                Step::Bytes(bytes) => writer.body(&bytes, &self.splits, limit),
                Step::Head => writer.write(Vec::new()),
                Step::Wait(gate) => writer.acts.push(Act::Wait(gate)),
                Step::Stall => writer.acts.push(Act::Stall),
                Step::Chunk(_) => {} // made into bytes above
            }
            if writer.offset >= limit {
                break;
            }
        }
        writer.finish(end)
    }

    fn steps(&mut self, model: &str) -> Vec<Step> {
        let tail = self.tail.take();
        let model = tail.as_ref().and_then(|tail| tail.model.as_deref()).unwrap_or(model).to_owned();
        let mut steps = std::mem::take(&mut self.steps);
        if let Some(tail) = tail.filter(|tail| tail.whole) {
            steps.extend(tail.steps(self.calls > 0));
        }
        let bytes = |step| match step {
            Step::Chunk(chunk) => Step::Bytes(event(chunk, &model)),
            Step::Head | Step::Bytes(_) | Step::Wait(_) | Step::Stall => step,
        };
        steps.into_iter().map(bytes).collect()
    }

    fn head_bytes(&self, length: usize) -> Vec<u8> {
        let framing = match self.framing {
            Framing::Raw => return Vec::new(),
            Framing::Chunked => "transfer-encoding: chunked\r\n".to_owned(),
            Framing::Length => format!("content-length: {length}\r\n"),
            Framing::Close => "connection: close\r\n".to_owned(),
        };
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("HTTP/1.1 {} Scripted\r\n{headers}{framing}\r\n", self.status).into_bytes()
    }
}

impl Tail {
    fn steps(self, has_calls: bool) -> Vec<Step> {
        let reason = self.finish.as_deref().unwrap_or(if has_calls { "tool_calls" } else { "stop" });
        let mut steps =
            vec![Step::Chunk(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))];
        if let Some((input, output)) = self.usage {
            let usage = json!({
                "prompt_tokens": input,
                "completion_tokens": output,
                "total_tokens": input + output,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            });
            steps.push(Step::Chunk(json!({"choices": [], "usage": usage})));
        }
        if self.done {
            steps.push(Step::Bytes(b"data: [DONE]\n\n".to_vec()));
        }
        steps
    }
}

fn event(chunk: Value, model: &str) -> Vec<u8> {
    let mut event = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_763_172_000,
        "model": model,
        "usage": null,
    });
    if let (Some(event), Value::Object(chunk)) = (event.as_object_mut(), chunk) {
        event.extend(chunk);
    }
    format!("data: {event}\n\n").into_bytes()
}

struct Writer {
    /// Not yet written.
    head: Vec<u8>,
    framing: Framing,
    /// In the body, before framing.
    offset: usize,
    acts: Vec<Act>,
}

impl Writer {
    /// Writes part of the body, up to `limit`, in pieces that end at the splits.
    fn body(&mut self, bytes: &[u8], splits: &[usize], limit: usize) {
        let (begin, end) = (self.offset, limit.min(self.offset + bytes.len()));
        let inner = splits.iter().copied().filter(|split| (begin + 1..end).contains(split));
        for stop in inner.chain([end]) {
            let part = bytes.get(self.offset - begin..stop - begin).unwrap_or_default();
            self.offset = stop;
            self.part(part);
        }
    }

    fn part(&mut self, part: &[u8]) {
        if self.framing == Framing::Chunked && !part.is_empty() {
            self.write([format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat());
        } else {
            self.write(part.to_vec());
        }
    }

    fn write(&mut self, bytes: Vec<u8>) {
        let bytes = [std::mem::take(&mut self.head), bytes].concat();
        if !bytes.is_empty() {
            self.acts.push(Act::Write(bytes));
        }
    }

    fn finish(mut self, end: Option<Act>) -> Vec<Act> {
        self.write(Vec::new()); // the head, if there was no body
        match self.framing {
            Framing::Chunked => self.write(b"0\r\n\r\n".to_vec()),
            Framing::Length => {}
            Framing::Close | Framing::Raw => self.acts.push(end.unwrap_or(Act::Close)),
        }
        self.acts
    }
}
