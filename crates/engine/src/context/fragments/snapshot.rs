//! What is known of the user when a conversation begins: taken once, and the same for as long as the thread goes on.
//!
//! It is kept line by line with the memory each line comes from, so that what is forgotten later leaves it, and nothing
//! else does.

use std::collections::BTreeSet;

use app::Fragment;
use protocol::{Effect, MemoryId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{ActionFilter, PageOf, RecordQuery};

use crate::context::gather::Sources;
use crate::context::{Fence, Piece, capped};

/// Kinds of memories that say who somebody is and what they are about; they come first.
const IDENTITY: [&str; 6] = ["identity", "profile", "person", "focus", "goal", "preference"];
/// A status that says a record is no longer in use.
const ENDED: [&str; 6] = ["archived", "inactive", "done", "closed", "completed", "cancelled"];
const MAX_RECORDS: usize = 20;
const MAX_RECORD_BYTES: usize = 500;
const MAX_VALUE_BYTES: usize = 100;
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

/// The thread's snapshot, taken now if it has none, without what was forgotten since.
pub(in crate::context) async fn read(from: &Sources<'_>) -> Result<Vec<Piece>, store::Error> {
    let body = match from.store.snapshot(from.scope, from.thread).await? {
        Some(body) => body,
        None => take(from).await?,
    };
    let lines: Vec<Line> = serde_json::from_str(&body).unwrap_or_default();
    let memories: Vec<MemoryId> = lines.iter().filter_map(|line| line.memory).collect();
    let gone: BTreeSet<MemoryId> =
        from.store.forgotten_among(from.scope, &memories).await?.into_iter().collect();
    let there = lines.into_iter().filter(|line| line.memory.is_none_or(|memory| !gone.contains(&memory)));
    Ok(there.map(|line| piece(from, line)).collect())
}

fn piece(from: &Sources<'_>, line: Line) -> Piece {
    match line.memory {
        Some(memory) => Piece::of_data(Fragment::Snapshot, memory, line.text),
        None => Piece::of_data(Fragment::Snapshot, from.thread, line.text),
    }
}

async fn take(from: &Sources<'_>) -> Result<String, store::Error> {
    let mut lines = identity(from).await?;
    lines.extend(records(from).await?);
    lines.extend(changes(from).await?);
    lines.extend(sessions(from).await?);
    let body = serde_json::to_string(&lines).unwrap_or_default();
    from.store.keep_snapshot(from.scope, from.thread, body).await
}

pub(super) fn text(pieces: &[&Piece], fence: &Fence) -> String {
    super::lines("Relevant context about the user, as it was when this conversation began.", pieces, fence)
}

fn heading(text: &str) -> Line {
    Line { memory: None, text: format!("{text}:") }
}

fn line(text: String) -> Line {
    Line { memory: None, text }
}

async fn identity(from: &Sources<'_>) -> Result<Vec<Line>, store::Error> {
    let mut rows = from.store.active_memories(from.scope, from.app.memory.limit).await?;
    rows.sort_by_key(|row| IDENTITY.iter().position(|kind| *kind == row.kind).unwrap_or(IDENTITY.len()));
    let lines = rows
        .into_iter()
        .map(|row| Line { memory: Some(row.id), text: format!("- {}: {}", row.id, Value::from(row.text)) });
    Ok(with_heading("Identity and focus", lines.collect()))
}

async fn records(from: &Sources<'_>) -> Result<Vec<Line>, store::Error> {
    let mut lines = Vec::new();
    for kind in &from.app.memory.snapshot {
        let page = PageOf { after: None, limit: MAX_RECORDS };
        let rows = from.store.records(from.scope, kind, RecordQuery::default(), page).await?;
        let is_active = |data: &Value| {
            let status = data.get("status").and_then(Value::as_str);
            !status.is_some_and(|status| ENDED.contains(&status))
        };
        let active = rows.into_iter().filter(|row| is_active(&row.data));
        lines.extend(active.map(|row| {
            line(format!("- {kind} {}: {}", row.id, capped(&brief(row.data).to_string(), MAX_RECORD_BYTES)))
        }));
    }
    Ok(with_heading("Active records", lines))
}

/// The record with its long texts cut, so that one of them does not take the place of all others.
fn brief(data: Value) -> Value {
    match data {
        Value::String(text) => capped(&text, MAX_VALUE_BYTES).into(),
        Value::Array(items) => items.into_iter().map(brief).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, brief(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => data,
    }
}

async fn changes(from: &Sources<'_>) -> Result<Vec<Line>, store::Error> {
    let page = PageOf { after: None, limit: MAX_ACTIONS };
    let rows = from.store.actions(from.scope, ActionFilter::default(), page).await?;
    let changed = rows.into_iter().filter(|row| row.effect != Effect::Read && row.status == "complete");
    let lines = changed.take(MAX_CHANGES).map(|row| {
        let day = row.started_at.strftime("%Y-%m-%d");
        line(format!("- {day} {}: {}", row.tool, capped(&row.input.to_string(), MAX_CHANGE_BYTES)))
    });
    Ok(with_heading("Recent changes", lines.collect()))
}

async fn sessions(from: &Sources<'_>) -> Result<Vec<Line>, store::Error> {
    let page = PageOf { after: None, limit: MAX_THREADS + 1 };
    let rows = from.store.threads(from.scope, page).await?;
    let earlier = rows.into_iter().filter(|row| row.id != from.thread).take(MAX_THREADS);
    let lines = earlier.map(|row| {
        let title = Value::from(capped(row.title.as_deref().unwrap_or("untitled"), MAX_TITLE_BYTES));
        let days = from.now.duration_since(row.updated_at).as_hours() / 24;
        line(format!("- {title}, {} messages, {days} days ago", row.message_count))
    });
    Ok(with_heading("Recent conversations", lines.collect()))
}

fn with_heading(name: &str, lines: Vec<Line>) -> Vec<Line> {
    if lines.is_empty() { lines } else { std::iter::once(heading(name)).chain(lines).collect() }
}
