//! What is known of the user when a conversation begins: taken once, and the same for as long as the thread goes on.
//!
//! It is kept line by line with the memory each line comes from, so that what is forgotten later leaves it, and nothing
//! else does.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use jiff::Timestamp;
use protocol::{Effect, MemoryId, Scope, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{ActionFilter, PageOf, RecordQuery, Store};

use super::capped;

/// Kinds of memories that say who somebody is and what they are about; they come first.
const IDENTITY: [&str; 6] = ["identity", "profile", "person", "focus", "goal", "preference"];
/// A status that says a record is no longer in use.
const ENDED: [&str; 6] = ["archived", "inactive", "done", "closed", "completed", "cancelled"];
const MAX_RECORDS: usize = 20;
const MAX_RECORD_BYTES: usize = 300;
const MAX_CHANGES: usize = 10;
/// Actions among which those that changed something are looked for.
const MAX_ACTIONS: usize = 50;
const MAX_CHANGE_BYTES: usize = 200;
const MAX_THREADS: usize = 5;
const MAX_TITLE_BYTES: usize = 100;

/// One line of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The memory it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryId>,
    pub(super) text: String,
}

/// What to take a snapshot of.
pub(crate) struct View<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) scope: &'a Scope,
    pub(crate) thread: ThreadId,
    pub(crate) memories: usize,
    pub(crate) records: &'a [String],
    pub(crate) now: Timestamp,
}

/// Takes the thread's snapshot, unless it has one.
pub(crate) async fn take(view: View<'_>) -> Result<(), store::Error> {
    if view.store.snapshot(view.scope, view.thread).await?.is_some() {
        return Ok(());
    }
    let mut lines = identity(&view).await?;
    lines.extend(records(&view).await?);
    lines.extend(changes(&view).await?);
    lines.extend(sessions(&view).await?);
    let body = serde_json::to_string(&lines).unwrap_or_default();
    view.store.keep_snapshot(view.scope, view.thread, body).await.map(drop)
}

/// The thread's snapshot as the model sees it; empty if there is none. Lines of memories that are `gone` are not in it.
pub(super) fn text(body: &str, gone: &BTreeSet<MemoryId>) -> String {
    let lines: Vec<Line> = serde_json::from_str(body).unwrap_or_default();
    let mut out = String::new();
    for line in lines.iter().filter(|line| line.memory.is_none_or(|memory| !gone.contains(&memory))) {
        let _ = write!(out, "\n{}", line.text);
    }
    out
}

/// The memories that a snapshot was made of.
pub(super) fn memories(body: &str) -> Vec<MemoryId> {
    let lines: Vec<Line> = serde_json::from_str(body).unwrap_or_default();
    lines.into_iter().filter_map(|line| line.memory).collect()
}

fn heading(text: &str) -> Line {
    Line { memory: None, text: format!("{text}:") }
}

fn line(text: String) -> Line {
    Line { memory: None, text }
}

async fn identity(view: &View<'_>) -> Result<Vec<Line>, store::Error> {
    let mut rows = view.store.active_memories(view.scope, view.memories).await?;
    rows.sort_by_key(|row| IDENTITY.iter().position(|kind| *kind == row.kind).unwrap_or(IDENTITY.len()));
    let lines = rows
        .into_iter()
        .map(|row| Line { memory: Some(row.id), text: format!("- {}: {}", row.id, Value::from(row.text)) });
    Ok(with_heading("Identity and focus", lines.collect()))
}

async fn records(view: &View<'_>) -> Result<Vec<Line>, store::Error> {
    let mut lines = Vec::new();
    for kind in view.records {
        let page = PageOf { after: None, limit: MAX_RECORDS };
        let rows = view.store.records(view.scope, kind, RecordQuery::default(), page).await?;
        let is_active = |data: &Value| {
            let status = data.get("status").and_then(Value::as_str);
            !status.is_some_and(|status| ENDED.contains(&status))
        };
        let active = rows.into_iter().filter(|row| is_active(&row.data));
        lines.extend(active.map(|row| {
            line(format!("- {kind} {}: {}", row.id, capped(&row.data.to_string(), MAX_RECORD_BYTES)))
        }));
    }
    Ok(with_heading("Active records", lines))
}

async fn changes(view: &View<'_>) -> Result<Vec<Line>, store::Error> {
    let page = PageOf { after: None, limit: MAX_ACTIONS };
    let rows = view.store.actions(view.scope, ActionFilter::default(), page).await?;
    let changed = rows.into_iter().filter(|row| row.effect != Effect::Read && row.status == "complete");
    let lines = changed.take(MAX_CHANGES).map(|row| {
        let day = row.started_at.strftime("%Y-%m-%d");
        line(format!("- {day} {}: {}", row.tool, capped(&row.input.to_string(), MAX_CHANGE_BYTES)))
    });
    Ok(with_heading("Recent changes", lines.collect()))
}

async fn sessions(view: &View<'_>) -> Result<Vec<Line>, store::Error> {
    let page = PageOf { after: None, limit: MAX_THREADS + 1 };
    let rows = view.store.threads(view.scope, page).await?;
    let earlier = rows.into_iter().filter(|row| row.id != view.thread).take(MAX_THREADS);
    let lines = earlier.map(|row| {
        let title = Value::from(capped(row.title.as_deref().unwrap_or("untitled"), MAX_TITLE_BYTES));
        let days = view.now.duration_since(row.updated_at).as_hours() / 24;
        line(format!("- {title}, {} messages, {days} days ago", row.message_count))
    });
    Ok(with_heading("Recent conversations", lines.collect()))
}

fn with_heading(name: &str, lines: Vec<Line>) -> Vec<Line> {
    if lines.is_empty() { lines } else { std::iter::once(heading(name)).chain(lines).collect() }
}
