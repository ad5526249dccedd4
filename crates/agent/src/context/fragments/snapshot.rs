//! A snapshot of the user when a conversation begins: taken once, and the same for as long as the thread goes on.
//!
//! It is kept line by line with what each line comes from, so that what is forgotten or deleted later leaves it, and
//! nothing else does.

mod patterns;

use std::collections::BTreeSet;
use std::fmt::Display;

use app::Fragment;
use jiff::Timestamp;
use memory::tombstone::Forgotten;
use protocol::{ActionId, Effect, MemoryId, ToolStatus};
use serde_json::Value;
use store::{
    ActionFilter, ActionStatus, MAX_SNAPSHOT_LINE_BYTES, PageOf, RecordQuery, SnapshotLine, ThreadFilter,
};

use crate::context::gather::Sources;
use crate::context::{PromptPiece, cap_text};
use crate::hiding;

/// Kinds of memories that say who the user is and what they work towards. They come first.
const IDENTITY: [&str; 6] = ["identity", "profile", "person", "focus", "goal", "preference"];
/// A status that says a record is no longer in use.
const ENDED: [&str; 6] = ["archived", "inactive", "done", "closed", "completed", "cancelled"];
const MAX_RECORDS: usize = 20;
const MAX_RECORD_BYTES: usize = 800;
const MAX_VALUE_BYTES: usize = 100;
const MAX_CHANGES: usize = 10;
/// Actions among which those that changed something are looked for.
const MAX_ACTIONS: usize = 50;
const MAX_CHANGE_BYTES: usize = 200;
const MAX_THREADS: usize = 5;
const MAX_TITLE_BYTES: usize = 100;
/// Bytes of one file, and of one line of it.
const MAX_FILE_BYTES: usize = 4_000;
const MAX_FILE_LINE_BYTES: usize = 500;

/// The thread's snapshot, taken now if it has none, without what was forgotten since.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    forgotten: &Forgotten,
) -> Result<Vec<PromptPiece>, store::Error> {
    let lines = match from.world.store.snapshot(from.scope, from.thread).await? {
        Some(lines) => lines,
        None => take(from, forgotten).await?,
    };
    let memories: Vec<MemoryId> = lines.iter().filter_map(|line| line.source.parse().ok()).collect();
    let gone = from.world.store.forgotten_among(from.scope, &memories).await?;
    let gone: BTreeSet<String> = gone.iter().map(MemoryId::to_string).collect();
    let there = lines.into_iter().filter(|line| !gone.contains(&line.source));
    Ok(there.map(|line| piece(line, forgotten)).collect())
}

/// A line as it is shown: what an action said is kept at greater length, so that no part of what is forgotten is left over
/// where it is cut.
fn piece(line: SnapshotLine, forgotten: &Forgotten) -> PromptPiece {
    let text = match line.source.parse::<MemoryId>() {
        Ok(_) => line.text,
        Err(_) => forgotten.clear(&line.text, line.at).into_owned(),
    };
    let is_action = line.source.parse::<ActionId>().is_ok();
    let text = if is_action { cap_text(&text, MAX_CHANGE_BYTES) } else { text };
    PromptPiece::of_data(Fragment::Snapshot, line.source, text)
}

async fn take(from: &Sources<'_>, forgotten: &Forgotten) -> Result<Vec<SnapshotLine>, store::Error> {
    let mut lines = files(from).await?;
    lines.extend(identity(from).await?);
    let records = records(from).await?;
    let shown: Vec<(String, String)> = records.iter().map(|shown| shown.named.clone()).collect();
    lines.extend(with_heading(from, "Active records", records.into_iter().map(|shown| shown.line).collect()));
    lines.extend(changes(from, forgotten).await?);
    lines.extend(with_heading(from, "Session patterns", patterns::read(from, &shown).await?));
    lines.extend(sessions(from, forgotten).await?);
    from.world.store.keep_snapshot(from.scope, from.thread, lines).await
}

fn line(source: impl Display, at: Timestamp, text: String) -> SnapshotLine {
    SnapshotLine { source: source.to_string(), at, text: capped_line(text) }
}

/// The bytes that the store takes; only inputs of calls are ever as long.
fn capped_line(text: String) -> String {
    let end = text.floor_char_boundary(MAX_SNAPSHOT_LINE_BYTES);
    if end < text.len() { text.get(..end).unwrap_or_default().to_owned() } else { text }
}

/// Files of the user's that say who they are and what they are about, line by line.
async fn files(from: &Sources<'_>) -> Result<Vec<SnapshotLine>, store::Error> {
    let mut lines = Vec::new();
    for path in &from.app.memory.snapshot_files {
        let content = match from.world.store.file(from.scope, path).await {
            Err(store::Error::NotFound(_)) => continue,
            file => file?.content,
        };
        let source = store::source::of_file(from.scope, path);
        let shown = cap_text(&content, MAX_FILE_BYTES);
        let said = shown.lines().filter(|text| !text.trim().is_empty());
        let said = said.map(|text| line(&source, from.now, cap_text(text.trim_end(), MAX_FILE_LINE_BYTES)));
        lines.extend(with_heading(from, path, said.collect()));
    }
    Ok(lines)
}

async fn identity(from: &Sources<'_>) -> Result<Vec<SnapshotLine>, store::Error> {
    let mut rows = from.world.store.active_memories(from.scope, from.app.memory.limit).await?;
    rows.sort_by_key(|row| IDENTITY.iter().position(|kind| *kind == row.kind).unwrap_or(IDENTITY.len()));
    let lines = rows
        .into_iter()
        .map(|row| line(row.id, from.now, format!("- {}: {}", row.id, Value::from(row.text))));
    Ok(with_heading(from, "Identity and focus", lines.collect()))
}

/// A record that the snapshot shows.
struct ShownRecord {
    line: SnapshotLine,
    /// Its id, and what it is called.
    named: (String, String),
}

async fn records(from: &Sources<'_>) -> Result<Vec<ShownRecord>, store::Error> {
    let mut shown = Vec::new();
    for kind in &from.app.memory.snapshot {
        let any = RecordQuery::default();
        let rows = store::newest_records(&from.world.store, from.scope, kind, any, MAX_RECORDS).await?;
        let is_active = |data: &Value| {
            let status = data.get("status").and_then(Value::as_str);
            !status.is_some_and(|status| ENDED.contains(&status))
        };
        let active = rows.into_iter().filter(|row| is_active(&row.data));
        shown.extend(active.map(|row| {
            let name = row.data.get("name").or_else(|| row.data.get("title")).and_then(Value::as_str);
            let named = (row.id.to_string(), cap_text(name.unwrap_or(kind), MAX_VALUE_BYTES));
            let data = cap_text(&shorten_record(row.data).to_string(), MAX_RECORD_BYTES);
            let line = line(row.id, from.now, format!("- {kind} {}: {data}", row.id));
            ShownRecord { line, named }
        }));
    }
    Ok(shown)
}

/// The record with its long texts cut, so that one of them does not take the place of all others.
fn shorten_record(data: Value) -> Value {
    match data {
        Value::String(text) => cap_text(&text, MAX_VALUE_BYTES).into(),
        Value::Array(items) => items.into_iter().map(shorten_record).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, shorten_record(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => data,
    }
}

async fn changes(from: &Sources<'_>, forgotten: &Forgotten) -> Result<Vec<SnapshotLine>, store::Error> {
    let rows =
        store::newest_actions(&from.world.store, from.scope, ActionFilter::default(), MAX_ACTIONS).await?;
    // An action that was undone has changed nothing, and neither has its undo.
    let lasts = |row: &store::ActionRow| row.undone_by.is_none() && row.undo_of.is_none();
    let changed = rows.into_iter().filter(|row| {
        row.effect != Effect::Read && row.status == ActionStatus::Ended(ToolStatus::Complete) && lasts(row)
    });
    let lines = changed.take(MAX_CHANGES).map(|mut row| {
        hiding::hide_in_action(&mut row, forgotten);
        let day = row.started_at.strftime("%Y-%m-%d");
        line(row.id, row.started_at, format!("- {day} {}: {}", row.tool, row.input))
    });
    Ok(with_heading(from, "Recent changes", lines.collect()))
}

async fn sessions(from: &Sources<'_>, forgotten: &Forgotten) -> Result<Vec<SnapshotLine>, store::Error> {
    let page = PageOf { after: None, limit: MAX_THREADS + 1 };
    let rows = from.world.store.threads(from.scope, ThreadFilter::default(), page).await?.rows;
    let earlier = rows.into_iter().filter(|row| row.id != from.thread).take(MAX_THREADS);
    let lines = earlier.map(|row| {
        let title = forgotten.clear(row.title.as_deref().unwrap_or("untitled"), row.created_at);
        let title = Value::from(cap_text(&title, MAX_TITLE_BYTES));
        let days = from.now.duration_since(row.updated_at).as_hours() / 24;
        let text = format!("- {title}, {} messages, {days} days ago", row.message_count);
        line(row.id, row.created_at, text)
    });
    Ok(with_heading(from, "Recent conversations", lines.collect()))
}

fn with_heading(from: &Sources<'_>, name: &str, lines: Vec<SnapshotLine>) -> Vec<SnapshotLine> {
    let heading = line(from.thread, from.now, format!("{name}:"));
    if lines.is_empty() { lines } else { std::iter::once(heading).chain(lines).collect() }
}
