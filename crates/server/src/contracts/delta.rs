//! `{delta, done?, tokenUsage?}`: the stream of a front end that adds texts together and knows no events.
//!
//! This contract cannot remove text that was sent. Markers of tools become text when the tool starts, each once a run.

use protocol::{Event, Failure, RunEnd, RunStatus, StepEnd, StreamComplete, ToolStart, Usage};
use serde::Serialize;

use super::{AwaitedAnswer, BEGUN_AGAIN, Encoder, StreamState, write_data};

/// The text between two steps, and after a marker.
const PARAGRAPH: &str = "\n\n";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    delta: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_usage: Option<u64>,
    /// Whether any part of that number is our estimate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    token_usage_estimated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

/// See the file.
#[derive(Debug, Default)]
pub(crate) struct DeltaEncoder {
    markers: Vec<String>,
    /// Bytes of the step under way that were sent.
    streamed: usize,
    /// The text of the last step.
    said: String,
    /// Whether what was sent so far does not end with a paragraph.
    in_paragraph: bool,
    usage: Usage,
}

impl Encoder for DeltaEncoder {
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState {
        match event {
            Event::TextDelta(piece) => self.text(&piece.delta, out),
            Event::StepEnd(end) => self.step_end(end, out),
            Event::StepReset(_) if self.streamed > 0 => {
                return end(out, Usage::default(), Some(failure("step_reset", BEGUN_AGAIN)));
            }
            Event::ToolStart(ToolStart { marker: Some(marker), .. }) => self.marker(marker, out),
            Event::StreamComplete(answer) => self.complete(&answer, out),
            Event::RunEnd(run) => return end(out, self.usage, error_of(run)),
            Event::StepStart(_) => self.streamed = 0,
            Event::MessageUser(_)
            | Event::RunStart(_)
            | Event::ContextLoaded(_)
            | Event::ReasoningDelta(_)
            | Event::ToolInput(_)
            | Event::StepRetry(_)
            | Event::StepReset(_)
            | Event::ToolStart(_)
            | Event::ToolComplete(_)
            | Event::ProposalOpen(_)
            | Event::ProposalClosed(_)
            | Event::CallOpen(_)
            | Event::Source(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => {}
        }
        StreamState::Open
    }

    fn cut(&mut self, why: &str, out: &mut Vec<u8>) {
        end(out, Usage::default(), Some(failure("stream_cut", why)));
    }

    /// The stream stays open: there is no other way to the rest of the answer in this contract.
    fn waits_for(&self) -> Vec<AwaitedAnswer> {
        Vec::new()
    }

    fn park(&mut self, _: &mut Vec<u8>) {}
}

impl DeltaEncoder {
    fn text(&mut self, delta: &str, out: &mut Vec<u8>) {
        if delta.is_empty() {
            return;
        }
        if self.streamed == 0 {
            self.begin_paragraph(out);
        }
        self.streamed += delta.len();
        self.send(delta, out);
    }

    /// Deltas of old runs may be gone; the step says all of its text again.
    fn step_end(&mut self, end: StepEnd, out: &mut Vec<u8>) {
        let rest = end.text.get(self.streamed..).unwrap_or_default().to_owned();
        self.text(&rest, out);
        self.streamed = 0;
        self.said = end.text;
    }

    fn marker(&mut self, marker: String, out: &mut Vec<u8>) {
        if !self.markers.contains(&marker) {
            self.begin_paragraph(out);
            self.send(&format!("{marker}{PARAGRAPH}"), out);
            self.markers.push(marker);
        }
    }

    /// An answer that no model has written is in no step. Its delta may be pruned with the others.
    fn complete(&mut self, answer: &StreamComplete, out: &mut Vec<u8>) {
        if self.streamed > 0 || answer.text != self.said {
            let rest = answer.text.get(self.streamed..).unwrap_or_default().to_owned();
            self.text(&rest, out);
        }
        self.usage = answer.usage;
    }

    fn begin_paragraph(&mut self, out: &mut Vec<u8>) {
        if self.in_paragraph {
            self.send(PARAGRAPH, out);
        }
    }

    fn send(&mut self, delta: &str, out: &mut Vec<u8>) {
        self.in_paragraph = !delta.ends_with(PARAGRAPH);
        let (token_usage, token_usage_estimated) = (None, false);
        write_data(out, &Chunk { delta, done: false, token_usage, token_usage_estimated, error: None });
    }
}

/// The last chunk. Where no model was called, there is nothing to count.
fn end(out: &mut Vec<u8>, usage: Usage, error: Option<Failure>) -> StreamState {
    let token_usage = Some(usage.total()).filter(|total| *total > 0);
    let token_usage_estimated = token_usage.is_some() && usage.estimated;
    write_data(out, &Chunk { delta: "", done: true, token_usage, token_usage_estimated, error });
    StreamState::Ended
}

fn error_of(run: RunEnd) -> Option<Failure> {
    match run.status {
        RunStatus::Completed | RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => run.error,
        RunStatus::Failed => Some(run.error.unwrap_or_else(|| failure("failed", "the run failed"))),
        RunStatus::Cancelled => Some(failure("cancelled", "the run was cancelled")),
        RunStatus::Interrupted => {
            let interrupted = || failure("interrupted", "a newer message replaced this one");
            Some(run.error.unwrap_or_else(interrupted))
        }
    }
}

fn failure(code: &str, message: &str) -> Failure {
    Failure { code: code.to_owned(), message: message.to_owned() }
}
