//! The events of a trial, as those saw them who were not killed: what actors asked and were told, what readers
//! received, what reached the model and the tools, and when the server died. The oracle judges the server by these
//! alone.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;
use sha2::{Digest, Sha256};
use testkit::StreamedEvent;

/// Microseconds since the trial began, by one clock.
pub(crate) type Micros = u64;

/// A time during which nothing was done here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) from: Micros,
    pub(crate) until: Micros,
}

/// The knowledge of an operation after its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationOutcome {
    /// The server said that it is done.
    Ok,
    /// The server refused it, and said so: nothing of it may be there.
    Fail,
    /// The connection broke, or time ran out, on every attempt: it happened once or not at all.
    Unknown,
}

/// Something an actor asked of the server, over all attempts under one key.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Op {
    pub(crate) actor: usize,
    pub(crate) user: String,
    pub(crate) app: String,
    /// The `Idempotency-Key`, the same for every attempt.
    pub(crate) key: String,
    pub(crate) what: What,
    /// From the first attempt to the answer of the last.
    pub(crate) began: Micros,
    pub(crate) ended: Micros,
    pub(crate) outcome: OperationOutcome,
    /// The HTTP status of each attempt; 0 where there was none.
    pub(crate) attempts: Vec<u16>,
    /// When the answer that made it definite arrived, if one did; `ended` is later when a stream was read after it.
    pub(crate) answered: Option<Micros>,
    /// The node that gave that answer.
    pub(crate) node: Option<usize>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum What {
    /// A message; its program names the tag. `runs` are the ids that attempts were told, each once: more than one is a
    /// violation by itself.
    Send {
        tag: String,
        thread: Option<String>,
        runs: Vec<String>,
        threads: Vec<String>,
        on_busy: Option<String>,
    },
    /// `status` is what the run was when the cancel was acknowledged.
    Cancel {
        run: String,
        status: Option<String>,
    },
    Decide {
        proposal: String,
        run: String,
        confirm: bool,
    },
    Undo {
        action: String,
    },
    /// `memory` is the id the server gave.
    Remember {
        text: String,
        memory: Option<String>,
    },
    Edit {
        memory: String,
        text: String,
    },
    Forget {
        memory: String,
    },
    /// Everything that was found for the words, as texts.
    Search {
        words: String,
        found: Vec<String>,
    },
    DeleteThread {
        thread: String,
    },
    /// Reads of threads, messages, actions; `path` says which.
    Read {
        path: String,
    },
}

/// The events that one connection of one reader received.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StreamReading {
    pub(crate) actor: usize,
    pub(crate) user: String,
    /// A run's stream, or a thread's channel.
    pub(crate) run: Option<String>,
    pub(crate) thread: Option<String>,
    /// The cursor it began from; none means the beginning.
    pub(crate) after: Option<u64>,
    /// When the request was sent, and when its first byte of an event arrived.
    pub(crate) began: Micros,
    pub(crate) first: Option<Micros>,
    pub(crate) ended: Micros,
    /// 0 if there was no answer.
    pub(crate) status: u16,
    pub(crate) frames: Vec<ReceivedEvent>,
    pub(crate) end: End,
    /// How often the server had been started when it began; a resume of one that another process began has a higher
    /// number than the reading before.
    pub(crate) start: u32,
    /// The node that was asked. None if no node could be reached.
    pub(crate) node: Option<usize>,
}

/// One frame, exactly as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReceivedEvent {
    pub(crate) seq: u64,
    pub(crate) event: String,
    /// SHA-256 of the bytes of `data`, in hex.
    pub(crate) hash: String,
}

impl ReceivedEvent {
    pub(crate) fn of(event: &StreamedEvent) -> Self {
        let hash = Sha256::digest(&event.data).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { seq: event.id.unwrap_or_default(), event: event.event.clone(), hash }
    }
}

/// How a reading came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// The server ended the stream.
    Whole,
    /// The connection broke.
    Cut,
    /// The reader left.
    Left,
    /// There was no stream: refused, or 204.
    None,
}

/// One request to the model.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ModelCallRecord {
    /// Of the message it answers; none for background work.
    pub(crate) tag: Option<String>,
    /// From 0: how many assistant turns follow the user's message.
    pub(crate) step: usize,
    /// From 0: how often this step was asked for before.
    pub(crate) attempt: usize,
    pub(crate) began: Micros,
    /// When the last byte was written.
    pub(crate) written: Option<Micros>,
    /// When the client closed before that, if it did.
    pub(crate) closed: Option<Micros>,
    /// The tokens that a whole answer counts, as the reply says.
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Canaries in the prompt, by the users they belong to.
    pub(crate) canaries: Vec<String>,
    /// The text of the reply, if it is written whole.
    pub(crate) text: String,
    /// The node that asked.
    pub(crate) node: usize,
}

/// One request to a tool.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ToolRequestRecord {
    pub(crate) tool: String,
    pub(crate) key: String,
    /// Of the message whose run called it, as its arguments say.
    pub(crate) tag: String,
    /// The arguments, canonically.
    pub(crate) arguments: String,
    pub(crate) at: Micros,
    /// When the reply had been written, if it was.
    pub(crate) replied: Option<Micros>,
    /// Canaries in the request, by the users they belong to.
    pub(crate) canaries: Vec<String>,
}

/// Why the server was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Trigger {
    /// SIGKILL after a random time.
    Random,
    /// (a) The model has written the last byte of a tool call.
    CallWritten,
    /// (b) A tool has received a request and not replied.
    ToolArrived,
    /// (c) A tool has just replied.
    ToolReplied,
    /// (d) A client has just been told that its message is accepted.
    Accepted,
    /// (e) A client has just been told that its cancel is accepted.
    CancelAccepted,
    /// (f) A reader has just received `run:end`.
    RunEnded,
    /// (g) A server that was started less than half a second ago.
    Recovering,
    /// SIGTERM, and SIGKILL if that takes too long.
    Term,
    /// The disk was full; nothing was killed.
    DiskFull,
    /// The model answered 429 and 5xx for a while; nothing was killed.
    UpstreamBurst,
    /// Readers that read nothing; nothing was killed.
    SlowReaders,
    /// PostgreSQL was stopped in order and started again.
    DatabaseRestart,
    /// PostgreSQL was stopped at once, and recovered when it was started again.
    DatabaseCrash,
    /// A process of PostgreSQL was killed, so that it recovered.
    BackendKill,
    /// PostgreSQL ended all connections of the server.
    ConnectionLoss,
    /// SIGKILL of one node, which stays down for longer than others wait for it.
    NodeDown,
    /// SIGKILL of all nodes at once.
    AllNodes,
    /// SIGTERM of one node after the other. Each is ready again before the next one is told to end.
    RollingRestart,
    /// SIGSTOP of one node for longer than its lease, then SIGCONT.
    NodePaused,
    /// SIGSTOP of one node for less than its lease, then SIGCONT.
    NodeHiccup,
    /// One node could not reach PostgreSQL.
    NodeCut,
}

/// One thing the nemesis did.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Blow {
    pub(crate) trigger: Trigger,
    pub(crate) at: Micros,
    /// When the next process was started, and when it was ready. Of PostgreSQL, and of a node that lived on, only the
    /// latter.
    pub(crate) restarted: Option<Micros>,
    pub(crate) ready: Option<Micros>,
    /// The node that it was done to, unless all felt it.
    pub(crate) node: Option<usize>,
}

impl Blow {
    /// One that all nodes feel, and that no node has to recover from yet.
    pub(crate) fn to_all(trigger: Trigger, at: Micros) -> Self {
        Self { trigger, at, restarted: None, ready: None, node: None }
    }

    pub(crate) fn to_node(node: usize, trigger: Trigger, at: Micros) -> Self {
        Self { node: Some(node), ..Self::to_all(trigger, at) }
    }
}

/// All of it, shared by all tasks that record something; each line is in its file at once.
#[derive(Clone)]
pub(crate) struct Book {
    begin: Instant,
    pages: Arc<Mutex<Pages>>,
}

#[derive(Default)]
struct Pages {
    trial: Trial,
    files: Option<Files>,
    /// The node that last asked the model for the run of each message.
    owners: HashMap<String, usize>,
}

struct Files {
    history: BufWriter<File>,
    readings: BufWriter<File>,
    model: BufWriter<File>,
    tools: BufWriter<File>,
    blows: BufWriter<File>,
}

/// The records that the oracle looks at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trial {
    pub(crate) ops: Vec<Op>,
    pub(crate) readings: Vec<StreamReading>,
    pub(crate) asked: Vec<ModelCallRecord>,
    pub(crate) arrivals: Vec<ToolRequestRecord>,
    pub(crate) blows: Vec<Blow>,
    /// The complaints of the strict upstream.
    pub(crate) complaints: Vec<String>,
    /// Answers and events in which a user received another's word.
    pub(crate) leaks: Vec<String>,
    /// Refusals that do not say when to try again.
    pub(crate) bare_refusals: Vec<String>,
    /// When this process was held up.
    pub(crate) stalls: Vec<Stall>,
}

impl Book {
    /// Writes `history.jsonl`, `readings.jsonl`, `model.jsonl`, `tools.jsonl` and `nemesis.jsonl` into the folder.
    pub(crate) fn open(folder: &Path) -> std::io::Result<Self> {
        let file = |name: &str| File::create(folder.join(name)).map(BufWriter::new);
        let files = Files {
            history: file("history.jsonl")?,
            readings: file("readings.jsonl")?,
            model: file("model.jsonl")?,
            tools: file("tools.jsonl")?,
            blows: file("nemesis.jsonl")?,
        };
        let pages = Pages { files: Some(files), ..Pages::default() };
        Ok(Self { begin: Instant::now(), pages: Arc::new(Mutex::new(pages)) })
    }

    pub(crate) fn now(&self) -> Micros {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn note_op(&self, op: Op) {
        let mut pages = self.lock();
        pages.write(|files| &mut files.history, &op);
        pages.trial.ops.push(op);
    }

    pub(crate) fn note_reading(&self, reading: StreamReading) {
        let mut pages = self.lock();
        pages.write(|files| &mut files.readings, &reading);
        pages.trial.readings.push(reading);
    }

    /// Notes a request and gives its number, for [`Book::note_model_reply`] and [`Book::note_model_close`].
    pub(crate) fn add_model_call(&self, asked: ModelCallRecord) -> usize {
        let mut pages = self.lock();
        pages.write(|files| &mut files.model, &asked);
        if let Some(tag) = &asked.tag {
            pages.owners.insert(tag.clone(), asked.node);
        }
        pages.trial.asked.push(asked);
        pages.trial.asked.len() - 1
    }

    /// The node that works at the run of a message, as far as the model knows.
    pub(crate) fn owner(&self, tag: &str) -> usize {
        self.lock().owners.get(tag).copied().unwrap_or_default()
    }

    pub(crate) fn note_model_reply(&self, number: usize) {
        let now = self.now();
        if let Some(asked) = self.lock().trial.asked.get_mut(number) {
            asked.written.get_or_insert(now);
        }
    }

    pub(crate) fn note_model_close(&self, number: usize) {
        let now = self.now();
        if let Some(asked) = self.lock().trial.asked.get_mut(number) {
            asked.closed.get_or_insert(now);
        }
    }

    /// Notes a request and gives its number, for [`Book::note_tool_reply`].
    pub(crate) fn note_tool_request(&self, arrival: ToolRequestRecord) -> usize {
        let mut pages = self.lock();
        pages.write(|files| &mut files.tools, &arrival);
        pages.trial.arrivals.push(arrival);
        pages.trial.arrivals.len() - 1
    }

    pub(crate) fn note_tool_reply(&self, number: usize) {
        let now = self.now();
        if let Some(arrival) = self.lock().trial.arrivals.get_mut(number) {
            arrival.replied.get_or_insert(now);
        }
    }

    pub(crate) fn note_blow(&self, blow: Blow) {
        let mut pages = self.lock();
        pages.write(|files| &mut files.blows, &blow);
        pages.trial.blows.push(blow);
    }

    pub(crate) fn note_complaint(&self, complaint: String) {
        self.lock().trial.complaints.push(complaint);
    }

    pub(crate) fn note_leak(&self, leak: String) {
        self.lock().trial.leaks.push(leak);
    }

    pub(crate) fn note_bare_refusal(&self, refusal: String) {
        self.lock().trial.bare_refusals.push(refusal);
    }

    pub(crate) fn note_stall(&self, stall: Stall) {
        self.lock().trial.stalls.push(stall);
    }

    /// A copy of everything so far.
    pub(crate) fn trial_so_far(&self) -> Trial {
        self.lock().trial.clone()
    }

    /// How often something holds so far, without a copy.
    pub(crate) fn count(&self, count: impl FnOnce(&Trial) -> usize) -> usize {
        count(&self.lock().trial)
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// A line that cannot be written is lost to readers of the file, not to the oracle.
    fn write(&mut self, file: impl FnOnce(&mut Files) -> &mut BufWriter<File>, line: &impl Serialize) {
        let Some(files) = &mut self.files else { return };
        let file = file(files);
        let _ = serde_json::to_writer(&mut *file, line)
            .map(|()| file.write_all(b"\n").and_then(|()| file.flush()));
    }
}

/// Something the server did wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    /// `O1` to `O18`.
    pub(crate) check: &'static str,
    pub(crate) what: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_known_by_the_hash_of_its_bytes() {
        let event = StreamedEvent { id: Some(3), event: "run:end".into(), data: b"abc".to_vec() };
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = ReceivedEvent { seq: 3, event: "run:end".into(), hash: hash.into() };
        assert_eq!(ReceivedEvent::of(&event), expected);
    }
}
