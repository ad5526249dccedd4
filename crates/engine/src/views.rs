//! Rows as the API shows them.

use protocol::{
    Decision, Event, JobView, Kind, MemoryHistoryView, MemorySource, MemoryVersionView, MemoryView, Message,
    ProposalView, Role, RunEnd, RunId, RunResult, RunStatus, RunView, SaidView, Seq, Snapshot, Stored,
    StreamComplete, ThreadId, ThreadView, ToolCallView, ToolComplete, ToolResultView, ToolStart, ToolStatus,
};
use store::{
    JobRow, MemoryHistory, MemoryOrigin, MemoryRow, MemoryStatus, MemoryVersion, MessageRow, ProposalRow,
    RawEvent, RunRow, Stop, ThreadRow,
};

use crate::run::RunState;
use crate::transcript::{self, Turn};

/// What is said of a source that was deleted.
const DELETED: &str = "deleted conversation";

pub(crate) fn thread(row: ThreadRow) -> ThreadView {
    ThreadView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        title: row.title,
        head_id: row.head,
        message_count: row.message_count,
        model: row.model,
        persona_id: row.persona,
        active_run_id: row.active_run,
        last_seq: row.last_seq,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

pub(crate) fn run(row: RunRow) -> RunView {
    RunView {
        id: row.id,
        thread_id: row.thread,
        app_id: row.scope.app.to_string(),
        message_id: row.message,
        status: row.status,
        model: row.model,
        error: row.error,
        usage: row.usage,
        cancel_requested: row.stop == Some(Stop::Cancelled),
        created_at: row.created_at,
        ended_at: row.ended_at,
    }
}

pub(crate) fn job(row: JobRow) -> JobView {
    JobView {
        id: row.id,
        kind: row.kind,
        status: row.status.name().to_owned(),
        attempts: row.attempts,
        app_id: row.scope.app.to_string(),
        user_id: row.scope.user.to_string(),
        thread_id: row.thread,
        run_at: row.run_at,
        error: row.error,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

pub(crate) fn proposal(row: ProposalRow) -> ProposalView {
    ProposalView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        tool: row.tool,
        input: row.input,
        note: row.note,
        status: row.decision.map_or("open", Decision::name).to_owned(),
        thread_id: row.thread,
        run_id: row.run,
        call_id: row.call,
        action_id: row.action,
        expires_at: row.expires_at,
        created_at: row.created_at,
        decided_at: row.decided_at,
    }
}

pub(crate) fn memory(row: MemoryRow) -> MemoryView {
    let written = || MemoryOrigin { at: Some(row.created_at), ..MemoryOrigin::default() };
    let said = match row.first_source.clone() {
        Some(source) => said(source, &row),
        None => SaidView { note: None, ..said(written(), &row) },
    };
    MemoryView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        text: row.text,
        kind: row.kind,
        status: row.status.name().to_owned(),
        version: row.version,
        access_count: row.access_count,
        last_accessed_at: row.last_accessed_at,
        created_at: row.created_at,
        updated_at: row.updated_at,
        valid_from: row.valid_from,
        valid_until: row.valid_until,
        superseded_by: row.superseded_by,
        source: MemorySource { by: row.source, said },
    }
}

/// The words that a memory rests on are forgotten with it; its own text stays, so that it can be restored.
fn said(source: MemoryOrigin, of: &MemoryRow) -> SaidView {
    let MemoryOrigin { thread, message, words, at } = source;
    let is_deleted = thread.is_none() && message.is_none() && words.is_none();
    SaidView {
        thread_id: thread,
        message_id: message,
        words: words.filter(|_| of.status != MemoryStatus::Forgotten),
        at,
        note: is_deleted.then(|| DELETED.to_owned()),
    }
}

pub(crate) fn memory_history(history: MemoryHistory) -> MemoryHistoryView {
    let MemoryHistory { memory: row, versions, sources } = history;
    let version = |version: MemoryVersion| MemoryVersionView {
        version: version.version,
        text: version.text,
        kind: version.kind,
        status: version.status.name().to_owned(),
        reason: version.reason,
        valid_from: version.valid_from,
        valid_until: version.valid_until,
        at: version.at,
    };
    MemoryHistoryView {
        versions: versions.into_iter().map(version).collect(),
        sources: sources.into_iter().map(|source| said(source, &row)).collect(),
        memory: memory(row),
    }
}

/// None for a row whose role is none we know.
pub(crate) fn message(row: &MessageRow) -> Option<Message> {
    let Turn { role, text, steps, results, memories_referenced, .. } = transcript::read(row);
    let role = role?;
    let calls = steps.into_iter().flat_map(|step| step.calls);
    Some(Message {
        id: row.id,
        role,
        text,
        parent_id: row.parent,
        run_id: row.run,
        model: row.model.clone().filter(|_| role == Role::Assistant),
        tool_calls: calls
            .map(|call| ToolCallView { id: call.id, name: call.name, input: call.input })
            .collect(),
        tool_results: results.into_iter().map(result).collect(),
        memories_referenced,
        created_at: row.created_at,
    })
}

fn result(result: ToolComplete) -> ToolResultView {
    ToolResultView {
        call_id: result.call_id,
        name: result.name,
        result: result.output,
        success: result.status == ToolStatus::Complete,
    }
}

/// A run that has ended, from its facts, for front ends that see no events.
pub(crate) fn answered(row: RunRow, facts: &[RawEvent]) -> RunResult {
    let result = outcome(row, facts);
    RunResult { reply: marked(facts, &result.reply), ..result }
}

/// A run that has ended, from its facts.
fn outcome(row: RunRow, facts: &[RawEvent]) -> RunResult {
    let events = readable(facts);
    let state = RunState::replay(&events);
    let answer = answer(&events);
    let reply =
        answer.map(|answer| answer.text.clone()).or_else(|| state.last().map(|step| step.text.clone()));
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
        tool_results: results.into_iter().flatten().map(result).collect(),
        memories_referenced: answer.map(|answer| answer.memories_referenced.clone()).unwrap_or_default(),
        data: answer.and_then(|answer| answer.data.clone()),
        proposals: Vec::new(),
        warnings: state.context.map(|context| context.warnings).unwrap_or_default(),
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
fn marked(facts: &[RawEvent], reply: &str) -> String {
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

/// Where the step that is streaming began, or began again, if one is.
pub(crate) fn open_since(facts: &[RawEvent]) -> Option<Seq> {
    let of_a_step = |fact: &&RawEvent| fact.kind.starts_with("step:") && fact.kind != Kind::StepRetry.name();
    facts.iter().rev().find(of_a_step).filter(|fact| fact.kind != Kind::StepEnd.name()).map(|fact| fact.seq)
}

/// The state of a run as one event, for a reader whose place in the log is not there. `streamed` is the text of the
/// step that is streaming, if one is.
pub(crate) fn snapshot(row: RunRow, facts: &[RawEvent], streamed: Option<String>, seq: Seq) -> Stored {
    let told = told((row.thread, row.id), facts);
    let text = streamed.unwrap_or(told.text);
    synthesised(&Snapshot { status: row.status, error: row.error, text, ..told }, seq)
}

/// The same for a run that has ended, by its facts alone; none if they do not say that it has.
pub(crate) fn last_snapshot(of: (ThreadId, RunId), facts: &[RawEvent]) -> Option<Stored> {
    let end = facts.iter().rev().find(|fact| fact.kind == Kind::RunEnd.name())?;
    Some(synthesised(&told(of, facts), end.seq))
}

/// What the facts tell of a run. One whose end cannot be read has failed.
fn told((thread_id, run_id): (ThreadId, RunId), facts: &[RawEvent]) -> Snapshot {
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

fn synthesised(snapshot: &Snapshot, seq: Seq) -> Stored {
    let body = serde_json::to_string(snapshot).unwrap_or_else(|_| String::from("{}"));
    let (thread, run) = (snapshot.thread_id, Some(snapshot.run_id));
    Stored { thread, seq, run, kind: "snapshot".into(), body: body.into() }
}
