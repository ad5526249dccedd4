//! Memory: looking up what is known of the user and what was said before, and keeping something.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use jiff::civil::Date;
use jiff::{Span, Timestamp};
use memory::dates;
use memory::index::{Among, Item, ItemId};
use memory::recall::{Found, Question};
use memory::{extract, secrets, suspicion};
use protocol::{Effect, MAX_KIND_BYTES, MemoryId, Role};
use serde_json::{Value, json};
use store::{MAX_MEMORY_BYTES, NewMemoryRow, Write};

use super::{closed, count, failed, text};
use crate::{Calling, Done, Failed, Tool, ToolSpec};

const MAX_FOUND: usize = 20;
const DEFAULT_FOUND: usize = 5;
/// Messages shown before and after one that was found.
const NEIGHBOURS: usize = 1;
/// Bytes of one message that are shown.
const MAX_SHOWN_BYTES: usize = 1_000;
const MAX_QUERY_CHARS: usize = 1_000;
/// Calls that keep something are made one after the other, so that the second sees the first.
const MEMORIES: &str = "memories";

pub(crate) struct SearchHistory;
pub(crate) struct SearchMemories;
pub(crate) struct SaveMemory;

#[async_trait]
impl Tool for SearchHistory {
    fn spec(&self) -> ToolSpec {
        let day = |which: &str| json!({ "type": "string", "format": "date", "description": which });
        let properties = json!({
            "query": query("what to look for, in words; times such as \"last Tuesday\" are understood"),
            "from": day("nothing from before this day, as in 2026-05-01"),
            "to": day("nothing from after this day"),
            "limit": limit(),
        });
        ToolSpec {
            name: "search_history".into(),
            description: "Searches what was said in earlier conversations with the user, by you and by them."
                .into(),
            parameters: closed(properties, &["query"]),
        }
    }

    async fn call(&self, calling: Calling<'_>) -> Result<Done, Failed> {
        check_on(&calling).await?;
        let mut question = question(&calling, Among::Messages);
        question.within = within(&calling)?;
        question.without = calling.thread;
        let found = calling.recall.search(calling.scope, question).await.map_err(failed)?;
        let mut messages = Vec::new();
        for Found { item, .. } in &found {
            messages.push(message(&calling, item).await?);
        }
        Ok(json!({ "messages": messages }).into())
    }
}

#[async_trait]
impl Tool for SearchMemories {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_memories".into(),
            description: "Searches what is remembered about the user.".into(),
            parameters: closed(json!({ "query": query("what to look for"), "limit": limit() }), &["query"]),
        }
    }

    async fn call(&self, calling: Calling<'_>) -> Result<Done, Failed> {
        check_on(&calling).await?;
        let found = calling.recall.search(calling.scope, question(&calling, Among::Memories)).await;
        let memory = |found: &Found| match found.item.id {
            ItemId::Memory(id) => {
                Some(json!({ "memoryId": id, "text": &*found.item.text, "since": day(&found.item) }))
            }
            ItemId::Message(_) | ItemId::Chunk(_) => None,
        };
        let memories: Vec<Value> = found.map_err(failed)?.iter().filter_map(memory).collect();
        Ok(json!({ "memories": memories }).into())
    }
}

#[async_trait]
impl Tool for SaveMemory {
    fn spec(&self) -> ToolSpec {
        let properties = json!({
            "text": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_MEMORY_BYTES,
                "description": "one fact about the user, as a sentence that can be understood by itself",
            },
            "kind": {
                "type": "string",
                "maxLength": MAX_KIND_BYTES,
                "pattern": "^[a-z0-9_-]+(/[a-z0-9_-]+)?$",
                "description": "what sort of fact it is, such as preference, person, goal or event; with a subject \
                                before it where there is one, as in maths/level",
            },
        });
        ToolSpec {
            name: "save_memory".into(),
            description:
                "Remembers a fact about the user for later conversations. Only what the user has said.".into(),
            parameters: closed(properties, &["text"]),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Reversible
    }

    fn is_lasting(&self) -> bool {
        true
    }

    fn exclusive(&self) -> Option<&str> {
        Some(MEMORIES)
    }

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

    async fn call(&self, calling: Calling<'_>) -> Result<Done, Failed> {
        let fact = text(&calling.input, "text").unwrap_or_default().trim().to_owned();
        let known = calling.recall.duplicate(calling.scope, &fact, calling.now).await.map_err(failed)?;
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
        Ok(Done::writing(output, Write::Remember(memory)))
    }
}

/// What a call to keep something answers when a memory says it.
pub fn known_already(memory: MemoryId) -> Value {
    json!({ "memoryId": memory, "saved": false, "note": "this is known already" })
}

fn query(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS, "description": description })
}

fn limit() -> Value {
    let description = format!("at most so many; {DEFAULT_FOUND} when absent");
    json!({ "type": "integer", "minimum": 1, "maximum": MAX_FOUND, "description": description })
}

fn question<'a>(calling: &'a Calling<'_>, among: Among) -> Question<'a> {
    let limit = count(&calling.input, "limit").unwrap_or(DEFAULT_FOUND).min(MAX_FOUND);
    let question =
        Question::new(text(&calling.input, "query").unwrap_or_default(), calling.now, limit, among);
    Question { zone: calling.zone.clone(), ..question }
}

/// The user decides whether anything is remembered of them.
async fn check_on(calling: &Calling<'_>) -> Result<(), Failed> {
    if calling.store.memory_is_off(calling.scope).await.map_err(failed)? {
        return Err(Failed::new("memory_off", "the user has turned memory off; answer without it"));
    }
    Ok(())
}

/// From the beginning of one day to the end of another, where the user lives.
fn within(calling: &Calling<'_>) -> Result<Option<dates::Span>, Failed> {
    let (input, zone) = (&calling.input, &calling.zone);
    let start = |name: &str, days: i64| -> Result<Option<Timestamp>, Failed> {
        let Some(written) = text(input, name) else { return Ok(None) };
        let wrong =
            || Failed::new("invalid_arguments", format!("{name} is no day; write it as in 2026-05-01"));
        let date: Date = written.parse().map_err(|_| wrong())?;
        let date = date.checked_add(Span::new().days(days)).map_err(|_| wrong())?;
        Ok(Some(date.to_zoned(zone.clone()).map_err(|_| wrong())?.timestamp()))
    };
    let (from, to) = (start("from", 0)?, start("to", 1)?);
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    Ok(Some(dates::Span { start: from.unwrap_or(Timestamp::MIN), end: to.unwrap_or(Timestamp::MAX) }))
}

/// A message with what was said around it.
async fn message(calling: &Calling<'_>, item: &Item) -> Result<Value, Failed> {
    let ItemId::Message(id) = item.id else { return Ok(Value::Null) };
    let around = calling.recall.around(calling.scope, id, NEIGHBOURS).await.map_err(failed)?;
    let others: Vec<Value> = around.iter().filter(|other| other.id != item.id).map(said).collect();
    let mut shown = said(item);
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("around".into(), others.into());
    }
    Ok(shown)
}

fn said(item: &Item) -> Value {
    let end = item.text.floor_char_boundary(MAX_SHOWN_BYTES);
    let more = if end < item.text.len() { "…" } else { "" };
    let by = match item.role {
        Some(Role::Assistant) => "you",
        Some(Role::User) | None => "user",
    };
    json!({ "date": day(item), "by": by, "text": format!("{}{more}", item.text.get(..end).unwrap_or_default()) })
}

fn day(item: &Item) -> String {
    item.at.strftime("%Y-%m-%d").to_string()
}
