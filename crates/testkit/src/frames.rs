//! Reading our own event streams, strictly, and writing logs down for comparison.

use std::collections::VecDeque;
use std::fmt::Write as _;

use reqwest::Response;
use serde_json::Value;

use crate::sse::{EventDecoder, StreamedEvent};

/// One event as a client receives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub id: u64,
    pub event: String,
    pub data: Value,
}

/// An open event stream.
pub struct Frames {
    response: Response,
    decoder: EventDecoder,
    ready: VecDeque<Frame>,
}

impl Frames {
    pub fn new(response: Response) -> Self {
        Self { response, decoder: EventDecoder::default(), ready: VecDeque::new() }
    }

    pub fn header(&self, name: &str) -> String {
        self.response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }

    /// The next event; none when the stream has ended.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let chunk = self.response.chunk().await.expect("the stream is readable")?;
            let events = self.decoder.feed(&chunk).expect("an event is not too large");
            self.ready.extend(events.into_iter().filter(|event| !event.event.is_empty()).map(Frame::from));
        }
    }

    /// Everything up to the end.
    pub async fn all(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    /// Everything up to and including the first event of that name.
    pub async fn read_until(&mut self, event: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("no {event} came: {frames:?}"));
            let found = frame.event == event;
            frames.push(frame);
            if found {
                return frames;
            }
        }
    }
}

impl From<StreamedEvent> for Frame {
    fn from(StreamedEvent { id, event, data }: StreamedEvent) -> Self {
        let data = serde_json::from_slice(&data).expect("data is JSON");
        Self { id: id.expect("an event has a number as its id"), event, data }
    }
}

/// A log as text, a line an event. Neighbouring deltas are one line, because how many there are depends on the load;
/// durations are left out.
pub fn script(frames: &[Frame]) -> String {
    let mut lines: Vec<(String, Value)> = Vec::new();
    for frame in frames {
        let mut data = frame.data.clone();
        if let Some(duration) = data.get_mut("durationMs") {
            *duration = Value::from("…");
        }
        match lines.last_mut() {
            Some((event, last)) if *event == frame.event && can_join(event, last, &data) => {
                let joined = format!("{}{}", text(last), text(&data));
                last["delta"] = Value::from(joined);
            }
            _ => lines.push((frame.event.clone(), data)),
        }
    }
    lines.iter().fold(String::new(), |mut script, (event, data)| {
        let _ = writeln!(script, "{event} {data}");
        script
    })
}

fn can_join(event: &str, last: &Value, next: &Value) -> bool {
    matches!(event, "text:delta" | "reasoning:delta" | "tool:input")
        && last["step"] == next["step"]
        && last["callId"] == next["callId"]
}

fn text(data: &Value) -> &str {
    data["delta"].as_str().unwrap_or_default()
}
