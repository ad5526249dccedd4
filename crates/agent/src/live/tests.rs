//! Every beginning of a log in `clients/vectors` is the run that the vector says. Clients fold the same vectors, so a page
//! shows what the server would say of the run at that moment.

use std::path::Path;

use protocol::{Event, Kind, RunId, RunStatus, Seq, ThreadId};
use serde_json::{Value, json};
use store::RawEvent;

use super::snapshot::{open_since, snapshot_of_facts};
use crate::state::RunState;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/vectors");

/// Vectors that there are at least.
const VECTORS: usize = 5;

/// Fields that vectors leave out although every event has them.
fn complete(kind: &str, mut data: Value) -> Value {
    let fields: &[(&str, Value)] = match kind {
        "run:start" => &[("appRevision", json!(""))],
        "tool:complete" => &[("durationMs", json!(0))],
        _ => &[],
    };
    for (field, value) in fields {
        data[field] = value.clone();
    }
    data
}

fn raw(event: &Value) -> RawEvent {
    let kind = event["type"].as_str().unwrap().to_owned();
    let body = complete(&kind, event["data"].clone()).to_string();
    assert!(Event::read(&kind, &body).is_ok(), "{kind} {body}");
    RawEvent { seq: event["seq"].as_u64().unwrap(), kind, body }
}

/// The newest run of a log, as its facts tell it.
fn cut(thread: ThreadId, log: &[RawEvent]) -> Value {
    let Some(begin) = log.iter().rposition(|event| event.kind == Kind::RunStart.name()) else {
        return json!({ "seq": log.last().map(|event| event.seq) });
    };
    let run = run_of(&log[begin]);
    let is_of_run = |event: &&RawEvent| event.kind != Kind::RunEnd.name() || run_of(event) == run;
    let events: Vec<RawEvent> = log[begin..].iter().filter(is_of_run).cloned().collect();
    let is_delta = |event: &RawEvent| Kind::parse(&event.kind).is_some_and(Kind::is_delta);
    let facts: Vec<RawEvent> = events.iter().filter(|event| !is_delta(event)).cloned().collect();
    let read: Vec<Event> = facts.iter().map(|event| Event::read(&event.kind, &event.body).unwrap()).collect();
    let state = RunState::replay(&read);
    let told = snapshot_of_facts((thread, run), &facts);
    let open = open_since(&facts).filter(|_| state.end.is_none());
    let status = match &state.end {
        Some(end) => end.status,
        None if !state.pending.is_empty() && state.ready().is_empty() => RunStatus::Waiting,
        None => RunStatus::Running,
    };
    json!({
        "seq": log.last().map(|event| event.seq),
        "runId": run,
        "status": status,
        "text": open.map_or(told.text, |since| streamed_after(&events, since)),
        "messageId": told.message_id,
        "error": told.error.map(|error| error.code),
        "steps": state.steps.len(),
        "calls": calls(&state),
    })
}

fn run_of(event: &RawEvent) -> RunId {
    let body: Value = serde_json::from_str(&event.body).unwrap();
    serde_json::from_value(body["runId"].clone()).unwrap()
}

fn streamed_after(events: &[RawEvent], since: Seq) -> String {
    let deltas = events.iter().filter(|event| event.seq > since);
    let texts = deltas.filter_map(|event| match Event::read(&event.kind, &event.body) {
        Ok(Event::TextDelta(piece)) => Some(piece.delta),
        Ok(_) | Err(_) => None,
    });
    texts.collect()
}

/// Each call of the steps that have ended: the status of its result, `waiting` or `pending`.
fn calls(state: &RunState) -> Vec<Value> {
    let ready = state.ready();
    let status = |id| {
        let results = state.steps.iter().flat_map(|done| &done.results);
        let result = results.clone().find(|result| result.call_id == id).map(|result| result.status.name());
        result.unwrap_or(if ready.iter().any(|call| call.id == id) { "pending" } else { "waiting" })
    };
    let calls = state.steps.iter().flat_map(|done| &done.step.calls);
    calls.map(|call| json!({ "id": call.id, "status": status(call.id) })).collect()
}

#[test]
fn every_beginning_of_a_vector_is_the_run_that_it_says() {
    let entries = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    assert!(files.len() >= VECTORS, "{files:?}");
    let mut differing = Vec::new();
    for file in files {
        let mut vector: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let log: Vec<RawEvent> = vector["log"].as_array().unwrap().iter().map(raw).collect();
        let thread: ThreadId = serde_json::from_value(vector["thread"].clone()).unwrap();
        let cuts: Vec<Value> = (1..=log.len()).map(|length| cut(thread, &log[..length])).collect();
        if vector["cuts"] != json!(cuts) {
            vector["cuts"] = json!(cuts);
            differing.push(write_beside(&file, &vector));
        }
    }
    assert!(differing.is_empty(), "the cuts differ: look at {differing:?} and rename them if they are good");
}

fn write_beside(file: &Path, vector: &Value) -> String {
    let new = file.with_extension("json.new");
    std::fs::write(&new, serde_json::to_string_pretty(vector).unwrap() + "\n").unwrap();
    new.display().to_string()
}
