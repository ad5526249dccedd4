//! A reply as acts on a socket. Pure, so that what a script means does not depend on when it runs.

use serde_json::Value;

use super::speech::{Speech, speech};
use super::{Framing, Reply, ReplyAct, ReplyTail, Step};
use crate::upstream::wire::Wire;

impl Reply {
    /// Returns the acts for this request, in order.
    pub(in super::super) fn acts(mut self, wire: Wire, request: &Value) -> Vec<ReplyAct> {
        let steps = self.steps(wire, request);
        let length =
            steps.iter().map(|step| if let Step::Bytes(bytes) = step { bytes.len() } else { 0 }).sum();
        let mut writer =
            ReplyWriter { head: self.head_bytes(length), framing: self.framing, offset: 0, acts: Vec::new() };
        let (limit, end) = self.cut.take().map_or((usize::MAX, None), |(limit, act)| (limit, Some(act)));
        for step in steps {
            match step {
                Step::Bytes(bytes) => writer.body(&bytes, &self.splits, limit),
                Step::Head => writer.write(Vec::new()),
                Step::Wait(gate) => writer.acts.push(ReplyAct::Wait(gate)),
                Step::Pause(time) => writer.acts.push(ReplyAct::Pause(time)),
                Step::Stall => writer.acts.push(ReplyAct::Stall),
                Step::Part(_) | Step::Fault(_) => {} // made into bytes above
            }
            if writer.offset >= limit {
                break;
            }
        }
        writer.finish(end)
    }

    /// The steps with everything the model says made into bytes.
    fn steps(&mut self, wire: Wire, request: &Value) -> Vec<Step> {
        let steps = std::mem::take(&mut self.steps);
        let Some(tail) = self.tail.take() else {
            let body = |step| match step {
                Step::Fault(fault) => Step::Bytes(fault.body(wire).to_string().into_bytes()),
                Step::Head
                | Step::Bytes(_)
                | Step::Part(_)
                | Step::Wait(_)
                | Step::Pause(_)
                | Step::Stall => step,
            };
            return steps.into_iter().map(body).collect();
        };
        let asked = request.get("model").and_then(Value::as_str).unwrap_or_default();
        let model = tail.model.as_deref().unwrap_or(asked).to_owned();
        let mut speech = speech(wire, model, &tail);
        let streams = wire.streams(request);
        let kind = if streams { speech.content_type() } else { "application/json" };
        self.headers.insert(0, ("content-type".into(), kind.into()));
        if streams {
            streamed(steps, &tail, &mut *speech)
        } else {
            render_at_once(steps, &tail, wire, &mut *speech)
        }
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

fn streamed(steps: Vec<Step>, tail: &ReplyTail, speech: &mut dyn Speech) -> Vec<Step> {
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Part(part) => out.extend(speech.part(part).into_iter().map(Step::Bytes)),
            Step::Fault(fault) => out.extend(speech.fault(&fault).into_iter().map(Step::Bytes)),
            Step::Head | Step::Bytes(_) | Step::Wait(_) | Step::Pause(_) | Step::Stall => out.push(step),
        }
    }
    if tail.whole {
        out.extend(speech.end(tail).into_iter().map(Step::Bytes));
    }
    out
}

/// Everything that is said comes at the end, in one JSON text.
fn render_at_once(steps: Vec<Step>, tail: &ReplyTail, wire: Wire, speech: &mut dyn Speech) -> Vec<Step> {
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Part(part) => drop(speech.part(part)),
            Step::Fault(fault) => out.push(Step::Bytes(fault.body(wire).to_string().into_bytes())),
            Step::Head | Step::Bytes(_) | Step::Wait(_) | Step::Pause(_) | Step::Stall => out.push(step),
        }
    }
    if tail.whole {
        speech.end(tail);
        out.push(Step::Bytes(speech.complete_body().to_string().into_bytes()));
    }
    out
}

struct ReplyWriter {
    /// Not yet written.
    head: Vec<u8>,
    framing: Framing,
    /// In the body, before framing.
    offset: usize,
    acts: Vec<ReplyAct>,
}

impl ReplyWriter {
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
            self.acts.push(ReplyAct::Write(bytes));
        }
    }

    fn finish(mut self, end: Option<ReplyAct>) -> Vec<ReplyAct> {
        self.write(Vec::new()); // the head, if there was no body
        match self.framing {
            Framing::Chunked => self.write(b"0\r\n\r\n".to_vec()),
            Framing::Length => {}
            Framing::Close | Framing::Raw => self.acts.push(end.unwrap_or(ReplyAct::Close)),
        }
        self.acts
    }
}
