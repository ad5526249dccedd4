//! What the native API takes and gives of memories and of past messages.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{MemoryId, MessageId, Role, ThreadId};

/// Bytes of a memory's kind.
pub const MAX_KIND_BYTES: usize = 32;

/// Whether this is a kind: one word of small letters, digits, `-` and `_`, or a subject and such a word with a slash
/// between them, as in `maths/level`.
pub fn is_kind(kind: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(plain);
    kind.len() <= MAX_KIND_BYTES && kind.split('/').count() <= 2 && kind.split('/').all(is_word)
}

/// A kind without its subject: `level` of `maths/level`.
pub fn kind_within_subject(kind: &str) -> &str {
    kind.split_once('/').map_or(kind, |(_, word)| word)
}

/// Something to be remembered about the user.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMemory {
    pub text: String,
    /// What sort of fact it is; `fact` when absent.
    pub kind: Option<String>,
}

/// A change of a memory. What is absent stays.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryPatch {
    pub text: Option<String>,
    pub kind: Option<String>,
}

/// A durable fact about the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryView {
    pub id: MemoryId,
    pub app_id: String,
    pub text: String,
    pub kind: String,
    /// `active`, `forgotten`, `removed`, `expired` or `superseded`.
    pub status: String,
    /// Grows with each change.
    pub version: u64,
    /// How many answers referred to it.
    pub access_count: u64,
    pub last_accessed_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Since when it is so, where that is known.
    pub valid_from: Option<Timestamp>,
    /// When it ceased to be so.
    pub valid_until: Option<Timestamp>,
    /// The memory that says the same, and more.
    pub superseded_by: Option<MemoryId>,
    pub source: MemorySource,
}

/// Where a memory comes from first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemorySource {
    /// `user` (by hand), `asked`, `extracted`, `tool` or `import`.
    pub by: String,
    #[serde(flatten)]
    pub said: SaidView,
}

/// The user's words that a memory rests on, and where they were said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SaidView {
    pub thread_id: Option<ThreadId>,
    pub message_id: Option<MessageId>,
    /// Null where there were none, and of a forgotten memory.
    pub words: Option<String>,
    pub at: Option<Timestamp>,
    /// `deleted conversation`, where that is why the ids are null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A memory as one change has left it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryVersionView {
    pub version: u64,
    pub text: String,
    pub kind: String,
    pub status: String,
    /// `created`, `edited`, `updated`, `merged`, `removed`, `forgotten`, `restored`, `expired`, `superseded` or `undone`.
    pub reason: String,
    pub valid_from: Option<Timestamp>,
    pub valid_until: Option<Timestamp>,
    pub at: Timestamp,
}

/// Why a memory is known: what it was, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryHistoryView {
    pub memory: MemoryView,
    /// Oldest first.
    pub versions: Vec<MemoryVersionView>,
    /// Oldest first.
    pub sources: Vec<SaidView>,
}

/// What to look for among memories.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryQuery {
    pub query: String,
    /// From 1 to 100; 10 when absent.
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryHit {
    pub memory: MemoryView,
    /// From 0 to 1.
    pub score: f32,
}

/// Whether the user wants anything to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySettings {
    pub enabled: bool,
}

/// What has become of a file of memories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportReport {
    pub imported: u64,
    /// Those that say what is known already.
    pub duplicates: u64,
    pub refused: Vec<ImportRefused>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportRefused {
    /// Its place in the file, counted from 0.
    pub index: u64,
    pub reason: String,
}

/// A past message that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageHit {
    pub message: FoundMessage,
    /// From 0 to 1.
    pub score: f32,
    /// What was said just before it, oldest first.
    pub before: Vec<FoundMessage>,
    /// What was said just after it, oldest first.
    pub after: Vec<FoundMessage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundMessage {
    pub id: MessageId,
    pub thread_id: ThreadId,
    pub role: Role,
    /// Without words that were forgotten.
    pub text: String,
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_word_or_a_subject_and_a_word() {
        for kind in ["fact", "a-b_1", "maths/level", "french/goal"] {
            assert!(is_kind(kind), "{kind}");
        }
        let long = "x".repeat(MAX_KIND_BYTES + 1);
        for wrong in ["", "/", "Fact", "two words", "maths/", "/level", "a/b/c", "é", &long] {
            assert!(!is_kind(wrong), "{wrong}");
        }
        assert_eq!((kind_within_subject("maths/level"), kind_within_subject("level")), ("level", "level"));
    }
}
