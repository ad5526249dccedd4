//! What was looked up for the message alone: memories, and what was said in earlier conversations.

use std::fmt::Write as _;

use app::{Fragment, Inject};
use memory::index::{Among, Item, ItemId};
use memory::recall::{Found, Question};
use protocol::{ContextLoaded, Role};
use serde_json::Value;
use store::MemoryRow;

use super::memories;
use crate::context::gather::Sources;
use crate::context::{Fence, Piece};

/// A past message that is less near than this says nothing about the question.
const MIN_MESSAGE_SCORE: f32 = 0.3;

/// The pieces found, within the app's bound, and what there was no room for.
pub(in crate::context) async fn read(from: &Sources<'_>, message: &str) -> Result<Vec<Piece>, store::Error> {
    let memory = &from.app.memory;
    let among = match (memory.inject, memory.history) {
        (Inject::Top, true) => Among::Both,
        (Inject::Top, false) => Among::Memories,
        (Inject::None | Inject::All | Inject::Snapshot, true) => Among::Messages,
        (Inject::None | Inject::All | Inject::Snapshot, false) => return Ok(Vec::new()),
    };
    let mut question = Question::new(message, from.now, memory.limit, among);
    question.without = Some(from.thread);
    question.zone = from.zone.clone();
    let found = from.recall.search(from.scope, question).await?;
    let mut left = memory.recall_tokens.min(from.share(SHARE));
    let (mut near, mut ids) = (Vec::new(), Vec::new());
    for Found { item, score } in found {
        let Some(rest) = left.checked_sub(from.counter.text(&item.text)) else { continue };
        match item.id {
            ItemId::Memory(id) => ids.push(id),
            ItemId::Message(_) if score >= MIN_MESSAGE_SCORE => near.push(earlier(&item)),
            ItemId::Message(_) | ItemId::Chunk(_) => continue,
        }
        left = rest;
    }
    let rows: Vec<MemoryRow> =
        if ids.is_empty() { Vec::new() } else { from.store.memories_by_id(from.scope, &ids).await? };
    let memories = rows.iter().map(|row| memories::piece(Fragment::Recalled, row));
    Ok(memories.chain(near).collect())
}

/// A part of the prompt that it may take at most: one in so many.
const SHARE: usize = 4;

fn earlier(item: &Item) -> Piece {
    let who = match item.role {
        Some(Role::Assistant) => "you",
        Some(Role::User) | None => "the user",
    };
    let line = format!("- {}, {who}: {}", item.at.strftime("%Y-%m-%d"), Value::from(&*item.text));
    let source = match item.id {
        ItemId::Message(id) => id.to_string(),
        ItemId::Memory(id) => id.to_string(),
        ItemId::Chunk(id) => id.to_string(),
    };
    Piece::of_data(Fragment::Recalled, source, line)
}

/// It stands before the message, and so after all that stays the same.
pub(super) fn text(pieces: &[&Piece], loaded: &ContextLoaded, fence: &Fence) -> String {
    let of_memory = |piece: &&&Piece| loaded.memories.contains(&piece.source);
    let (memories, earlier): (Vec<&Piece>, Vec<&Piece>) = pieces.iter().partition(of_memory);
    let mut out = super::lines(memories::INTRO, &memories, fence);
    let said = super::lines("From earlier conversations with the user, as they were said.", &earlier, fence);
    for part in [said.as_str(), note(loaded).unwrap_or_default()] {
        if !part.is_empty() {
            let line = if out.is_empty() { "" } else { "\n\n" };
            let _ = write!(out, "{line}{part}");
        }
    }
    out
}

/// What the model is told of a request to remember that came with a question.
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
