//! A run as its facts tell it: its result once it has ended, and one event that stands for events which are gone.

use protocol::{
    Event, Kind, RunEnd, RunId, RunResult, RunStatus, Seq, Snapshot, Stored, StreamComplete, ThreadId,
    ToolCallView, ToolComplete, ToolResultView, ToolStart, ToolStatus,
};
use store::{RawEvent, RunRow, Store};

use crate::state::RunState;
use crate::unseen_images;

/// A run that has ended, from its facts, for front ends that see no events.
pub fn run_result(row: RunRow, facts: &[RawEvent]) -> RunResult {
    let result = outcome(row, facts);
    RunResult { reply: marked_reply(facts, &result.reply), ..result }
}

/// A run that has ended, from its facts.
fn outcome(row: RunRow, facts: &[RawEvent]) -> RunResult {
    let events = readable(facts);
    let state = RunState::replay(&events);
    let answer = answer(&events);
    let reply =
        answer.map(|answer| answer.text.clone()).or_else(|| state.last().map(|step| step.text.clone()));
    let noted = state.context.map(|context| context.warnings).unwrap_or_default();
    let warnings = unseen_images::warnings(noted, state.steps.iter().map(|done| &done.step));
    let (calls, results): (Vec<_>, Vec<_>) =
        state.steps.into_iter().map(|done| (done.step.calls, done.results)).unzip();
    RunResult {
        run_id: row.id,
        thread_id: row.thread,
        status: row.status,
        reply: reply.unwrap_or_default(),
        token_usage: Some(row.usage.total()).filter(|total| *total > 0),
        token_usage_estimated: row.usage.estimated && row.usage.total() > 0,
        usage: row.usage,
        tool_calls: calls
            .into_iter()
            .flatten()
            .map(|call| ToolCallView { id: call.id, name: call.name, input: call.input })
            .collect(),
        tool_results: results.into_iter().flatten().map(tool_result_view).collect(),
        memories_referenced: answer.map(|answer| answer.memories_referenced.clone()).unwrap_or_default(),
        data: answer.and_then(|answer| answer.data.clone()),
        proposals: Vec::new(),
        client_calls: Vec::new(),
        warnings,
        error: row.error,
    }
}

fn readable(facts: &[RawEvent]) -> Vec<Event> {
    facts.iter().filter_map(|raw| Event::read(&raw.kind, &raw.body).ok()).collect()
}

fn answer(events: &[Event]) -> Option<&StreamComplete> {
    events
        .iter()
        .find_map(|event| if let Event::StreamComplete(answer) = event { Some(answer) } else { None })
}

fn end(events: &[Event]) -> Option<&RunEnd> {
    events.iter().find_map(|event| if let Event::RunEnd(end) = event { Some(end) } else { None })
}

/// The answer after the markers of the calls it rests on, each once.
fn marked_reply(facts: &[RawEvent], reply: &str) -> String {
    let mut markers: Vec<String> = Vec::new();
    for fact in facts.iter().filter(|fact| fact.kind == Kind::ToolStart.name()) {
        if let Ok(Event::ToolStart(ToolStart { marker: Some(marker), .. })) =
            Event::read(&fact.kind, &fact.body)
            && !markers.contains(&marker)
        {
            markers.push(marker);
        }
    }
    markers.iter().map(|marker| format!("{marker}\n\n")).collect::<String>() + reply
}

/// Returns the number of the event with which the step that is streaming began, or began again, if there is one.
pub(crate) fn open_since(facts: &[RawEvent]) -> Option<Seq> {
    let of_a_step = |fact: &&RawEvent| fact.kind.starts_with("step:") && fact.kind != Kind::StepRetry.name();
    facts.iter().rev().find(of_a_step).filter(|fact| fact.kind != Kind::StepEnd.name()).map(|fact| fact.seq)
}

/// The state of a run as one event, for a reader whose place in the log is not there. `streamed` is the text of the
/// step that is streaming, if one is.
pub(crate) fn snapshot(row: RunRow, facts: &[RawEvent], streamed: Option<String>, seq: Seq) -> Stored {
    let told = snapshot_of_facts((row.thread, row.id), facts);
    let text = streamed.unwrap_or(told.text);
    snapshot_event(&Snapshot { status: row.status, error: row.error, text, ..told }, seq)
}

/// The text and the reasoning of a run's deltas after `since`, up to and with `until`.
pub(crate) async fn read_streamed_text(
    store: &Store,
    (thread, run): (ThreadId, RunId),
    since: Seq,
    until: Seq,
) -> Result<(String, String), store::Error> {
    let (mut text, mut reasoning, mut seen) = (String::new(), String::new(), since);
    while seen < until {
        let events = store.events(thread, Some(run), seen).await?;
        let Some(last) = events.last() else { break };
        seen = last.seq;
        for event in events.iter().filter(|event| event.seq <= until) {
            match Event::read(&event.kind, &event.body) {
                Ok(Event::TextDelta(piece)) => text.push_str(&piece.delta),
                Ok(Event::ReasoningDelta(piece)) => reasoning.push_str(&piece.delta),
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok((text, reasoning))
}

/// The state of a run that has ended, by its facts alone; none if they do not say that it has.
pub(crate) fn last_snapshot(of: (ThreadId, RunId), facts: &[RawEvent]) -> Option<Stored> {
    let end = facts.iter().rev().find(|fact| fact.kind == Kind::RunEnd.name())?;
    Some(snapshot_event(&snapshot_of_facts(of, facts), end.seq))
}

/// The state of a run by its facts. One whose end cannot be read has failed.
pub(super) fn snapshot_of_facts((thread_id, run_id): (ThreadId, RunId), facts: &[RawEvent]) -> Snapshot {
    let events = readable(facts);
    let (answer, end) = (answer(&events), end(&events));
    let last = || RunState::replay(&events).last().map(|step| step.text.clone());
    Snapshot {
        run_id,
        thread_id,
        status: end.map_or(RunStatus::Failed, |end| end.status),
        text: answer.map(|answer| answer.text.clone()).or_else(last).unwrap_or_default(),
        message_id: answer.map(|answer| answer.message_id).or_else(|| end?.message_id),
        memories_referenced: answer.map(|answer| answer.memories_referenced.clone()).unwrap_or_default(),
        data: answer.and_then(|answer| answer.data.clone()),
        error: end.and_then(|end| end.error.clone()),
    }
}

fn snapshot_event(snapshot: &Snapshot, seq: Seq) -> Stored {
    let body = serde_json::to_string(snapshot).unwrap_or_else(|_| String::from("{}"));
    let (thread, run) = (snapshot.thread_id, Some(snapshot.run_id));
    Stored { thread, seq, run, kind: "snapshot".into(), body: body.into() }
}

/// The result of a tool call as the API shows it.
pub fn tool_result_view(result: ToolComplete) -> ToolResultView {
    ToolResultView {
        call_id: result.call_id,
        name: result.name,
        result: result.output,
        success: result.status == ToolStatus::Complete,
        status: result.status,
        duration_ms: result.duration_ms,
    }
}
