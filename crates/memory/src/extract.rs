//! Facts that a model finds worth keeping in a conversation, and which of them are kept.
//!
//! [`request`] says what a memory model is asked; [`plan`] reads what it answered as a list of changes that are safe to
//! make. The model is not trusted: it names memories and messages by labels that exist in this batch only, each change
//! rests on words the user really said, and what fails a check is dropped, never repaired.

mod duplicates;
mod plan;
mod quote;
mod request;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use protocol::{MemoryId, MessageId, Role};

pub use duplicates::is_duplicate;
pub use plan::plan;
pub use request::{ExtractionPrompt, request};

/// The prompt of a memory model when the app has none of its own.
pub const DEFAULT_PROMPT: &str = include_str!("extract/default.md");

/// The most turns of a batch; of more, the newest count.
pub const MAX_TURNS: usize = 50;

/// The most known memories of a batch; of more, the first count.
pub const MAX_KNOWN: usize = 100;

/// The most changes one result can make.
pub const MAX_CHANGES: usize = 20;

/// The kind of a memory when the request names none.
pub const DEFAULT_KIND: &str = "fact";

/// A message of the conversation, without the words that were forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationTurn {
    pub message: MessageId,
    pub role: Role,
    pub text: String,
    pub at: Timestamp,
}

/// A memory that may have to do with the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownMemory {
    pub id: MemoryId,
    pub version: u64,
    pub text: String,
    pub kind: String,
    /// Whether the user asked for this memory or wrote it. That counts as consent for every kind of memory.
    pub asked_for: bool,
}

/// One question to a memory model.
#[derive(Debug, Clone, Copy)]
pub struct ExtractionBatch<'a> {
    pub turns: &'a [ConversationTurn],
    /// Earlier messages of the conversation, for understanding only; may be empty.
    pub earlier: &'a [ConversationTurn],
    pub known: &'a [ShownMemory],
    /// Context from the app, such as a lesson plan; may be empty.
    pub extra: &'a str,
    pub today: Date,
    /// The time zone in which the user lives.
    pub zone: &'a TimeZone,
}

impl<'a> ExtractionBatch<'a> {
    /// The turns that count.
    fn turns(&self) -> &'a [ConversationTurn] {
        self.turns.get(self.turns.len().saturating_sub(MAX_TURNS)..).unwrap_or_default()
    }

    /// The memories that count.
    fn known_memories(&self) -> &'a [ShownMemory] {
        self.known.get(..self.known.len().min(MAX_KNOWN)).unwrap_or_default()
    }

    /// The user's turns with their labels.
    fn labelled_turns(&self) -> impl Iterator<Item = (String, &'a ConversationTurn)> {
        let users = self.turns().iter().filter(|turn| turn.role == Role::User);
        users.enumerate().map(|(at, turn)| (format!("u{}", at + 1), turn))
    }

    /// The known memories with their labels.
    fn labelled_memories(&self) -> impl Iterator<Item = (String, &'a ShownMemory)> {
        self.known_memories().iter().enumerate().map(|(at, known)| (format!("m{}", at + 1), known))
    }
}

/// The user's words that a change rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitedWords {
    pub message: MessageId,
    /// Exactly as they stand in the message.
    pub words: String,
}

/// A memory as it was when the model saw it. A change to a newer version must be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenMemory {
    pub id: MemoryId,
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtractedChange {
    Create {
        text: String,
        kind: String,
        source: CitedWords,
    },
    Update {
        of: SeenMemory,
        text: String,
        kind: String,
        source: CitedWords,
    },
    /// The first takes the new text and the sources of all; the others end in it.
    Merge {
        into: SeenMemory,
        from: Vec<SeenMemory>,
        text: String,
        kind: String,
        source: Option<CitedWords>,
    },
    Remove {
        of: SeenMemory,
        source: CitedWords,
    },
}

/// The changes that a result may make, and those that were dropped of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtractionPlan {
    pub changes: Vec<ExtractedChange>,
    pub dropped: Vec<Dropped>,
}

impl ExtractionPlan {
    /// The plan without changes that keep a memory of these kinds, because the user has not approved that. Memories that
    /// are kept already may be changed and removed.
    #[must_use]
    pub fn without_kinds(mut self, kinds: &[String], batch: &ExtractionBatch<'_>) -> Self {
        let needs_approval = |kind: &str| kind.split('/').any(|part| kinds.iter().any(|named| named == part));
        let is_approved = |known: &ShownMemory| known.asked_for || needs_approval(&known.kind);
        let was_approved =
            |held: &SeenMemory| batch.known.iter().any(|known| known.id == held.id && is_approved(known));
        let mut at = 0;
        self.changes.retain(|change| {
            let refused = match change {
                ExtractedChange::Create { kind, .. } => needs_approval(kind),
                ExtractedChange::Update { of, kind, .. } => needs_approval(kind) && !was_approved(of),
                ExtractedChange::Merge { into, from, kind, .. } => {
                    needs_approval(kind) && !was_approved(into) && !from.iter().any(was_approved)
                }
                ExtractedChange::Remove { .. } => false,
            };
            if refused {
                self.dropped.push(Dropped { at, reason: Reason::NoConsent });
            }
            at += 1;
            !refused
        });
        self
    }
}

/// A change that was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Its place in the result, from 0.
    pub at: usize,
    pub reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("does not match the requested schema")]
    Malformed,
    #[error("names a memory that was not shown")]
    UnknownMemory,
    #[error("names the wrong number of memories")]
    WrongCount,
    #[error("names a memory that another change names too")]
    TouchedTwice,
    #[error("cites no message of the user")]
    UnknownMessage,
    #[error("quotes words that the user did not say")]
    NotSaid,
    #[error("has no text")]
    Empty,
    #[error("has more text than a memory can have")]
    TooLong,
    #[error("holds a secret")]
    Secret,
    #[error("is an instruction that the user did not give")]
    Order,
    #[error("is known already")]
    Duplicate,
    #[error("changes nothing")]
    Unchanged,
    #[error("merges memories into something they do not say")]
    Unfounded,
    #[error("is beyond the maximum number of changes")]
    TooMany,
    #[error("is of a kind that needs the user's approval")]
    NoConsent,
}
