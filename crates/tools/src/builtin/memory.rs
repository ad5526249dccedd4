//! Memory: looking up what is known of the user and what was said before, and keeping something.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use jiff::civil::Date;
use jiff::{Span, Timestamp};
use memory::dates;
use memory::index::{IndexItem, ItemRef, RecallFilter};
use memory::recall::{RecallHit, RecallQuestion};
use memory::{extract, secrets, suspicion};
use protocol::{MemoryId, Role};
use serde_json::{Value, json};
use store::{MAX_MEMORY_BYTES, NewMemoryRow, Write};

use super::{found_limit, store_failure, text};
use crate::{Calling, Failed, Tool, ToolOutput};

/// Messages shown before and after one that was found.
const NEIGHBOURS: usize = 1;
/// Bytes of one message that are shown.
const MAX_SHOWN_BYTES: usize = 1_000;

pub(crate) struct SearchHistory;
pub(crate) struct SearchMemories;
pub(crate) struct SaveMemory;

#[async_trait]
impl Tool for SearchHistory {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        check_on(&calling).await?;
        let mut question = question(&calling, RecallFilter::Messages);
        question.within = requested_span(&calling)?;
        question.without = calling.thread;
        let found = calling.recall.search(calling.scope, question).await.map_err(store_failure)?;
        let mut messages = Vec::new();
        for RecallHit { item, .. } in &found {
            messages.push(message(&calling, item).await?);
        }
        Ok(json!({ "messages": messages }).into())
    }
}

#[async_trait]
impl Tool for SearchMemories {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        check_on(&calling).await?;
        let found = calling.recall.search(calling.scope, question(&calling, RecallFilter::Memories)).await;
        let memory = |found: &RecallHit| match found.item.id {
            ItemRef::Memory(id) => {
                Some(json!({ "memoryId": id, "text": &*found.item.text, "since": day(&found.item) }))
            }
            ItemRef::Message(_) | ItemRef::Chunk(_) => None,
        };
        let memories: Vec<Value> = found.map_err(store_failure)?.iter().filter_map(memory).collect();
        Ok(json!({ "memories": memories }).into())
    }
}

#[async_trait]
impl Tool for SaveMemory {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        check_on(calling).await?;
        let fact = text(&calling.input, "text").unwrap_or_default().trim();
        if fact.is_empty() || fact.len() > MAX_MEMORY_BYTES {
            return Err(Failed::new(
                "invalid_arguments",
                "text is empty or too long; say one fact in a sentence",
            ));
        }
        if let Some(secret) = secrets::find(fact) {
            let message =
                format!("it looks like {}, and secrets are not kept; do not try again", secret.kind);
            return Err(Failed::new("secret", message));
        }
        if suspicion::is_instruction(fact) {
            let message = "it is an instruction, not a fact about the user; only facts are kept";
            return Err(Failed::new("not_a_fact", message));
        }
        Ok(())
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let fact = text(&calling.input, "text").unwrap_or_default().trim().to_owned();
        let known =
            calling.recall.duplicate(calling.scope, &fact, calling.now).await.map_err(store_failure)?;
        if let Some(memory) = known {
            return Ok(known_already(memory).into());
        }
        let id = calling.ids.memory();
        let kind = text(&calling.input, "kind").unwrap_or(extract::DEFAULT_KIND).to_owned();
        let sources =
            calling.thread.map(|thread| store::MemoryOrigin { thread: Some(thread), ..Default::default() });
        let memory = NewMemoryRow {
            id,
            text: fact,
            kind,
            source: "tool",
            sources: sources.into_iter().collect(),
            valid_from: None,
            created_at: None,
        };
        let output = json!({ "memoryId": id, "saved": true });
        Ok(ToolOutput::with_write(output, Write::Remember(memory)))
    }
}

/// The answer of a call to save a memory that is there already.
pub fn known_already(memory: MemoryId) -> Value {
    json!({ "memoryId": memory, "saved": false, "note": "this is known already" })
}

fn question<'a>(calling: &'a Calling<'_>, among: RecallFilter) -> RecallQuestion<'a> {
    let limit = found_limit(&calling.input);
    let question =
        RecallQuestion::new(text(&calling.input, "query").unwrap_or_default(), calling.now, limit, among);
    RecallQuestion { zone: calling.zone.clone(), ..question }
}

/// The user decides whether anything is remembered of them.
async fn check_on(calling: &Calling<'_>) -> Result<(), Failed> {
    if calling.store.memory_is_off(calling.scope).await.map_err(store_failure)? {
        return Err(Failed::new("memory_off", "the user has turned memory off; answer without it"));
    }
    Ok(())
}

/// From the beginning of one day to the end of another, where the user lives.
fn requested_span(calling: &Calling<'_>) -> Result<Option<dates::TimeSpan>, Failed> {
    let (input, zone) = (&calling.input, &calling.zone);
    let start = |name: &str, days: i64| -> Result<Option<Timestamp>, Failed> {
        let Some(written) = text(input, name) else { return Ok(None) };
        let wrong =
            || Failed::new("invalid_arguments", format!("{name} is not a day; write it as in 2026-05-01"));
        let date: Date = written.parse().map_err(|_| wrong())?;
        let date = date.checked_add(Span::new().days(days)).map_err(|_| wrong())?;
        Ok(Some(date.to_zoned(zone.clone()).map_err(|_| wrong())?.timestamp()))
    };
    let (from, to) = (start("from", 0)?, start("to", 1)?);
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    Ok(Some(dates::TimeSpan { start: from.unwrap_or(Timestamp::MIN), end: to.unwrap_or(Timestamp::MAX) }))
}

/// A message with what was said around it.
async fn message(calling: &Calling<'_>, item: &IndexItem) -> Result<Value, Failed> {
    let ItemRef::Message(id) = item.id else { return Ok(Value::Null) };
    let around =
        calling.recall.messages_around(calling.scope, id, NEIGHBOURS).await.map_err(store_failure)?;
    let others: Vec<Value> = around.iter().filter(|other| other.id != item.id).map(message_json).collect();
    let mut shown = message_json(item);
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("around".into(), others.into());
    }
    Ok(shown)
}

fn message_json(item: &IndexItem) -> Value {
    let end = item.text.floor_char_boundary(MAX_SHOWN_BYTES);
    let more = if end < item.text.len() { "…" } else { "" };
    let by = match item.role {
        Some(Role::Assistant) => "you",
        Some(Role::User) | None => "user",
    };
    json!({ "date": day(item), "by": by, "text": format!("{}{more}", item.text.get(..end).unwrap_or_default()) })
}

fn day(item: &IndexItem) -> String {
    item.at.strftime("%Y-%m-%d").to_string()
}
