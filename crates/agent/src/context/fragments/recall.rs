//! Recall for the message alone: memories, and what was said in earlier conversations.

use std::fmt::Write as _;

use app::{Fragment, Inject};
use memory::index::{IndexItem, ItemRef, RecallFilter};
use memory::recall::{RecallHit, RecallQuestion};
use memory::words::says_something;
use protocol::{ContextLoaded, Role};
use serde_json::Value;
use store::MemoryRow;

use super::memories;
use crate::context::gather::Sources;
use crate::context::{Fence, PromptPiece};

/// A past message that is less near than this says nothing about the question.
const MIN_MESSAGE_SCORE: f32 = 0.3;

/// Messages that are looked at for each that may be shown: some say nothing.
const LOOKED_AT: usize = 4;

/// The memories found, then the messages, each within their number and together within the app's bound.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    message: &str,
) -> Result<Vec<PromptPiece>, store::Error> {
    let memory = &from.app.memory;
    let mut left = memory.recall_tokens.min(from.share(SHARE));
    let mut ids = Vec::new();
    if memory.inject == Inject::Top {
        for RecallHit { item, .. } in search(from, message, memory.limit, RecallFilter::Memories).await? {
            let rest = left.checked_sub(from.counter.text(&item.text));
            if let (ItemRef::Memory(id), Some(rest)) = (item.id, rest) {
                ids.push(id);
                left = rest;
            }
        }
    }
    let rows: Vec<MemoryRow> =
        if ids.is_empty() { Vec::new() } else { from.world.store.memories_by_id(from.scope, &ids).await? };
    let memories = rows.iter().map(|row| memories::piece(Fragment::Recalled, row, None));
    Ok(memories.chain(messages(from, message, left).await?).collect())
}

/// Messages of earlier conversations, where the app wants it and there is room.
async fn messages(
    from: &Sources<'_>,
    message: &str,
    mut left: usize,
) -> Result<Vec<PromptPiece>, store::Error> {
    let memory = &from.app.memory;
    if !memory.history {
        return Ok(Vec::new());
    }
    let looked_at = memory.history_limit.saturating_mul(LOOKED_AT);
    let mut near = Vec::new();
    for RecallHit { item, score } in search(from, message, looked_at, RecallFilter::Messages).await? {
        if near.len() >= memory.history_limit || score < MIN_MESSAGE_SCORE {
            break;
        }
        let Some(rest) = left.checked_sub(from.counter.text(&item.text)) else { continue };
        if says_something(&item.text) && !memory.speaks_of_danger(&item.text) {
            near.push(earlier_message(&item));
            left = rest;
        }
    }
    Ok(near)
}

async fn search(
    from: &Sources<'_>,
    message: &str,
    limit: usize,
    among: RecallFilter,
) -> Result<Vec<RecallHit>, store::Error> {
    let mut question = RecallQuestion::new(message, from.now, limit, among);
    question.without = Some(from.thread);
    question.zone = from.zone.clone();
    from.world.recall.search(from.scope, question).await
}

/// Recalled memories and messages together get at most 1/`SHARE` of the prompt.
const SHARE: usize = 4;

fn earlier_message(item: &IndexItem) -> PromptPiece {
    let who = match item.role {
        Some(Role::Assistant) => "you",
        Some(Role::User) | None => "the user",
    };
    let line = format!("- {}, {who}: {}", item.at.strftime("%Y-%m-%d"), Value::from(&*item.text));
    let source = match item.id {
        ItemRef::Message(id) => id.to_string(),
        ItemRef::Memory(id) => id.to_string(),
        ItemRef::Chunk(id) => id.to_string(),
    };
    PromptPiece::of_data(Fragment::Recalled, source, line)
}

/// The recalled text stands before the message, and so after all that stays the same.
pub(super) fn text(pieces: &[&PromptPiece], loaded: &ContextLoaded, fence: &Fence) -> String {
    let of_memory = |piece: &&&PromptPiece| loaded.memories.contains(&piece.source);
    let (memories, earlier): (Vec<&PromptPiece>, Vec<&PromptPiece>) = pieces.iter().partition(of_memory);
    let mut out = super::lines(super::MEMORIES, &memories, fence);
    let said = super::lines("From earlier conversations with the user, as they were said.", &earlier, fence);
    for part in [said.as_str(), note(loaded).unwrap_or_default()] {
        if !part.is_empty() {
            let line = if out.is_empty() { "" } else { "\n\n" };
            let _ = write!(out, "{line}{part}");
        }
    }
    out
}

/// The note for the model about a request to remember that came with a question.
fn note(loaded: &ContextLoaded) -> Option<&'static str> {
    use protocol::RememberedOutcome::{Known, NotSaid, Refused, Saved};
    Some(match loaded.remembered.as_ref()?.outcome {
        Saved => "What the user asks you to remember below has just been saved to memory.",
        Known => "What the user asks you to remember below is in memory already.",
        Refused => {
            "What the user asks you to remember below looks like a secret and was not saved; tell the user so."
        }
        NotSaid => return None,
    })
}
