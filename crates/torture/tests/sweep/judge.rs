//! Conditions that must hold of a server that has come back, and of what all clients saw before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;
use store::inspection::{LoggedRow, file_log};
use testkit::fold::{DeltaState, fold};
use testkit::{Frame, Method, TestApp, ToolArrival, audit};

use crate::client::RUNS;
use crate::notes::{Notes, Pages, Seen};

/// Tools that act outside and cannot be called twice for the same thing.
const ONCE: [&str; 5] = ["act_reversible", "act_irreversible", "act_asked", "act_undone", "act_undone_once"];

/// Undos that cannot be made twice.
const UNDONE_ONCE: [&str; 1] = ["act_undone_once"];

/// The rows that are left in the end, without ids and times: the same whether or not a server died on the way.
const PARTS: [(&str, &str); 20] = [
    ("threads", "SELECT coalesce(title, '-') || ' ' || message_count FROM threads WHERE deleted_at IS NULL"),
    (
        "messages",
        "SELECT m.role || ': ' || coalesce(e.body ->> '$.text', '-') FROM messages m
            JOIN events e ON e.thread = m.thread AND e.seq = m.seq ORDER BY m.thread, m.seq",
    ),
    ("runs", "SELECT status || coalesce(' ' || (error ->> '$.code'), '') FROM runs ORDER BY thread, start_seq, id"),
    (
        "results",
        "SELECT c.name || ' ' || r.status FROM tool_results r JOIN tool_calls c ON c.id = r.call ORDER BY 1",
    ),
    (
        "memories",
        "SELECT text || ' ' || kind || ' ' || status || ' ' || version FROM memories ORDER BY 1",
    ),
    ("records", "SELECT type || ' ' || version || ' ' || coalesce(data, 'gone') FROM records ORDER BY 1"),
    ("files", "SELECT path || ' ' || version || ' ' || coalesce(content, 'gone') FROM files ORDER BY 1"),
    ("pins", "SELECT text || iif(thread IS NULL, '', ' here') FROM pins ORDER BY 1"),
    ("personas", "SELECT id || ' ' || name || ' ' || prompt FROM personas ORDER BY 1"),
    (
        "documents",
        "SELECT d.name || ' ' || d.chunks || ' ' || (SELECT count(*) FROM chunks c WHERE c.document = d.id)
            FROM documents d WHERE d.status = 'ready' AND d.deleted_at IS NULL ORDER BY 1",
    ),
    (
        "client calls",
        "SELECT a.tool || ' ' || c.status FROM client_calls c JOIN actions a ON a.id = c.id ORDER BY 1",
    ),
    ("proposals", "SELECT tool || ' ' || status FROM proposals ORDER BY 1"),
    (
        "actions",
        "SELECT tool || ' ' || status || iif(undo_of IS NULL, '', ' undoes') || iif(undone_by IS NULL, '', ' undone')
            FROM actions ORDER BY 1",
    ),
    ("jobs", "SELECT kind || ' ' || status || coalesce(' ' || error, '') FROM jobs ORDER BY 1"),
    ("keys", "SELECT key FROM idempotency ORDER BY 1"),
    ("queue", "SELECT 'waits' FROM queue"),
    ("reservations", "SELECT 'is held' FROM reservations"),
    ("summaries", "SELECT level || ' of ' || messages FROM summaries ORDER BY 1"),
    (
        "facts",
        "SELECT kind || ' ' || count(*) FROM events WHERE kind IN ('message:user', 'run:start', 'context:loaded',
            'step:end', 'tool:start', 'tool:complete', 'proposal:open', 'proposal:closed', 'call:open', 'stream:complete',
            'run:end', 'thread:named', 'memory:update', 'summary') GROUP BY kind ORDER BY 1",
    ),
    ("sources", "SELECT coalesce(words, '-') FROM memory_sources ORDER BY 1"),
];

pub(crate) type Portrait = Vec<(&'static str, Vec<String>)>;

pub(crate) fn portrait(database: &Connection) -> Portrait {
    PARTS.iter().map(|(part, query)| (*part, rows(database, query))).collect()
}

/// Returns the differences of two portraits.
pub(crate) fn differences(whole: &Portrait, other: &Portrait, ignoring: &[&str]) -> Vec<String> {
    let pairs = whole.iter().zip(other).filter(|((part, _), _)| !ignoring.contains(part));
    pairs
        .filter(|(whole, other)| whole != other)
        .map(|((part, whole), (_, other))| format!("{part} are {other:?}, and {whole:?} without a death"))
        .collect()
}

fn rows(database: &Connection, query: &str) -> Vec<String> {
    let mut statement = database.prepare(query).expect("the query is SQL");
    let rows = statement.query_map([], |row| row.get(0)).expect("the query runs");
    rows.collect::<Result<_, _>>().expect("the rows are text")
}

/// Everything that is wrong. `database` is that of the app: every connection parses the schema, so one is enough.
pub(crate) async fn judge(app: &TestApp, database: &Connection, notes: &Notes, deletes: bool) -> Vec<String> {
    let mut findings = audit(&app.data());
    let (logs, pages) = (logs(&app.data()), notes.pages());
    for (run, log) in &logs {
        findings.extend(folds(app, database, run, log).await);
    }
    findings.extend(pages.findings.iter().cloned());
    findings.extend(check_seen(&pages, &logs, deletes));
    findings.extend(check_arrivals(database, &app.arrivals.list(), deletes));
    if !deletes {
        findings.extend(check_repeats(app, &pages).await);
    }
    findings
}

/// The events of a run, in order, as they are stored.
type Log = Vec<(u64, Seen)>;

/// All runs, by their ids.
fn logs(data: &Path) -> BTreeMap<String, Log> {
    let mut logs: BTreeMap<String, Log> = BTreeMap::new();
    for LoggedRow { event, .. } in file_log(data).expect("the log is readable") {
        let Some(run) = event.run else { continue };
        let seen = Seen { event: event.kind.to_string(), data: event.body.to_string() };
        logs.entry(run.to_string()).or_default().push((event.seq, seen));
    }
    logs
}

/// S7: the events of a run say what the server says of it.
async fn folds(app: &TestApp, database: &Connection, run: &str, log: &Log) -> Vec<String> {
    let frame = |(id, seen): &(u64, Seen)| Frame {
        id: *id,
        event: seen.event.clone(),
        data: serde_json::from_str(&seen.data).expect("a body is JSON"),
    };
    let frames: Vec<Frame> = log.iter().map(frame).collect();
    let folded = fold(&frames, DeltaState::Kept);
    let mut findings: Vec<String> =
        folded.findings.iter().map(|finding| format!("{run}: {finding}")).collect();
    if folded.thread.is_empty() {
        return findings; // it was stopped before its turn came, and has nothing but its end
    }
    findings.extend(folded.compare_run(&app.get(&format!("/v1/runs/{run}")).await.body));
    let page = app.get(&format!("/v1/threads/{}/messages?limit=1000", folded.thread)).await.body;
    let shown = page["data"].as_array().cloned().unwrap_or_default();
    if is_on_path(database, run, &shown) {
        findings.extend(folded.compare_messages(&shown));
    }
    findings
}

/// Whether all messages of a run are shown: an answer in whose place there is another is not.
fn is_on_path(database: &Connection, run: &str, shown: &[Value]) -> bool {
    let query = format!("SELECT hex(id) FROM messages WHERE 'run_' || lower(hex(run)) = '{run}'");
    let here = shown.iter().filter(|message| message["runId"] == run).count();
    let later = shown.iter().any(|message| message["role"] == "assistant");
    rows(database, &query).len() == here || !later
}

/// S2, S3: each reader of a run saw the events of the log, byte for byte and without a gap; and what was told is there.
fn check_seen(pages: &Pages, logs: &BTreeMap<String, Log>, deletes: bool) -> Vec<String> {
    let mut findings = Vec::new();
    for (run, seen) in &pages.seen {
        let Some(log) = logs.get(run) else {
            if !deletes {
                findings.push(format!("{run}: its events were seen and are gone"));
            }
            continue;
        };
        let seen: Log = seen.iter().map(|(id, seen)| (*id, seen.clone())).collect();
        let log = &log[..log.len().min(seen.len())];
        for (seen, stored) in seen.iter().zip(log).filter(|(seen, stored)| seen != stored) {
            findings.push(format!("{run}: {seen:?} was seen, and {stored:?} is in the log"));
        }
        if seen.len() > log.len() {
            findings.push(format!(
                "{run}: {} events were seen, and {} are in the log",
                seen.len(),
                log.len()
            ));
        }
    }
    for (key, (told, _)) in &pages.told {
        if !deletes && !logs.contains_key(&told.run) {
            findings.push(format!("{key} was told of {}, and there is no such run", told.run));
        }
    }
    findings
}

/// E1, E2: what has reached the outside, and what is said of it.
fn check_arrivals(database: &Connection, arrivals: &[ToolArrival], deletes: bool) -> Vec<String> {
    let mut findings = Vec::new();
    let mut by_key: BTreeMap<&str, Vec<&ToolArrival>> = BTreeMap::new();
    for arrival in arrivals {
        by_key.entry(&arrival.key).or_default().push(arrival);
    }
    for (key, all) in &by_key {
        let tool = all[0].tool.as_str();
        let once = if all[0].undo { UNDONE_ONCE.contains(&tool) } else { ONCE.contains(&tool) };
        if once && all.len() > 1 {
            findings.push(format!("{tool} was reached {} times under {key}", all.len()));
        }
        if all.iter().any(|arrival| *arrival != all[0]) {
            findings.push(format!("{key} was not always the same call: {all:?}"));
        }
    }
    let calls = |query: &str| -> BTreeSet<String> { rows(database, query).into_iter().collect() };
    let complete = calls(
        "SELECT 'call_' || lower(hex(a.id)) FROM actions a LEFT JOIN actions u ON u.id = a.undo_of
            WHERE a.status = 'complete' AND coalesce(u.tool, a.tool) LIKE 'act\\_%' ESCAPE '\\'",
    );
    for call in complete.iter().filter(|call| !by_key.contains_key(call.as_str())) {
        findings.push(format!("{call} is said to be complete, and never arrived"));
    }
    let possible = calls(
        "SELECT 'call_' || lower(hex(id)) FROM actions WHERE status IN ('complete', 'unknown')
            OR effect IN ('read', 'idempotent')",
    );
    for key in by_key.keys().filter(|key| !deletes && !possible.contains(**key)) {
        findings.push(format!("{key} arrived, and nothing says that it may have"));
    }
    findings
}

/// Q3: who asks again under the same key is told of the same run.
async fn check_repeats(app: &TestApp, pages: &Pages) -> Vec<String> {
    let mut findings = Vec::new();
    for (key, (told, body)) in &pages.told {
        let request = app.request(Method::POST, RUNS).header("idempotency-key", key).json(body);
        let response = request.send().await.expect("the server answers");
        let run = response.headers().get("x-run-id").and_then(|run| run.to_str().ok());
        if run != Some(told.run.as_str()) {
            findings.push(format!("{key} was {} and is now {run:?}: {}", told.run, response.status()));
        }
    }
    findings
}
