//! Requests and responses about memories and past messages.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{MemoryId, MemoryStatus, MemoryVersionReason, MessageId, Role, ThreadId};

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

/// A new memory of the user.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMemory {
    pub text: String,
    /// The kind of the memory; `fact` when absent.
    pub kind: Option<String>,
}

/// A change of a memory. Absent fields stay as they are.
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
    pub status: MemoryStatus,
    /// The version, which grows with each change.
    pub version: u64,
    /// The number of answers that referred to the memory.
    pub access_count: u64,
    pub last_accessed_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The time from which the fact holds, if it is known.
    pub valid_from: Option<Timestamp>,
    /// The time at which the fact ceased to hold.
    pub valid_until: Option<Timestamp>,
    /// The memory that replaces this one.
    pub superseded_by: Option<MemoryId>,
    pub source: MemorySource,
}

/// The first source of a memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemorySource {
    /// The origin of the memory: `user` (by hand), `asked`, `extracted`, `tool` or `import`.
    pub by: String,
    #[serde(flatten)]
    pub said: SaidView,
}

/// The words of the user that a memory rests on, and their place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SaidView {
    pub thread_id: Option<ThreadId>,
    pub message_id: Option<MessageId>,
    /// The words; null if there were none, and for a forgotten memory.
    pub words: Option<String>,
    pub at: Option<Timestamp>,
    /// The text `deleted conversation`, if the ids are null for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A version of a memory: its state after one change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryVersionView {
    pub version: u64,
    pub text: String,
    pub kind: String,
    pub status: MemoryStatus,
    /// The reason for the version.
    pub reason: MemoryVersionReason,
    pub valid_from: Option<Timestamp>,
    pub valid_until: Option<Timestamp>,
    pub at: Timestamp,
}

/// The history of a memory: its versions and its sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryHistoryView {
    pub memory: MemoryView,
    /// The versions, oldest first.
    pub versions: Vec<MemoryVersionView>,
    /// The sources, oldest first.
    pub sources: Vec<SaidView>,
}

/// A search for memories.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryQuery {
    pub query: String,
    /// The number of results at most, from 1 to 100; 10 when absent.
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryHit {
    pub memory: MemoryView,
    /// The score, from 0 to 1.
    pub score: f32,
}

/// The memory settings of a user in an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySettings {
    /// Whether memory is on: memories are recalled, extracted and remembered.
    pub enabled: bool,
}

/// The result of the import of a file of memories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportReport {
    pub imported: u64,
    /// The number of entries that were known already.
    pub duplicates: u64,
    pub refused: Vec<ImportRefused>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportRefused {
    /// The place of the entry in the file, counted from 0.
    pub index: u64,
    pub reason: String,
}

/// A past message that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageHit {
    pub message: FoundMessage,
    /// The score, from 0 to 1.
    pub score: f32,
    /// The messages just before it, oldest first.
    pub before: Vec<FoundMessage>,
    /// The messages just after it, oldest first.
    pub after: Vec<FoundMessage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundMessage {
    pub id: MessageId,
    pub thread_id: ThreadId,
    pub role: Role,
    /// The text, without words that were forgotten.
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
