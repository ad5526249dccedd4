//! Memories: when two say the same, how many may stay, and which findings of a job still count.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{MemoryId, MemoryUpdate, MemoryVersionView, Seq};
use sha2::{Digest, Sha256};

use crate::{
    Error, ExtractedMemories, MAX_ACTIONS_PER_PURGE, MAX_EXPIRED_PER_EXTRACTION, MAX_MEMORIES_PER_SCOPE,
    MemoryRow, MemoryStatus, MemoryVersionReason,
};

/// Bytes of a hash that are kept: enough that no two texts of one user share it.
const WORDS_HASH_BYTES: usize = 16;

/// The worth of a memory, as an expression in SQL: the time of its creation in milliseconds, and ten days more for each
/// use. The memories worth least expire first.
///
/// The index `memories_least` of both databases has the same text, so that the planner uses the index.
pub const MEMORY_WORTH: &str = "access_count * 864000000 + created_at";

/// The hash of the words of a text. Case, and signs between the words, do not change it.
pub fn words_hash(text: &str) -> Vec<u8> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let plain = words.map(str::to_lowercase).collect::<Vec<_>>().join(" ");
    // A text of signs alone stands for itself.
    let words = if plain.is_empty() { text.trim().to_owned() } else { plain };
    Sha256::digest(words).into_iter().take(WORDS_HASH_BYTES).collect()
}

/// Whether a scope with `active` active memories may have another.
pub fn check_room(active: u64) -> Result<(), Error> {
    if active >= MAX_MEMORIES_PER_SCOPE as u64 { Err(Error::MemoriesFull) } else { Ok(()) }
}

/// Whether a memory is as a change of an extraction expects it.
pub fn is_current(row: &MemoryRow, version: u64) -> bool {
    row.status == MemoryStatus::Active && row.version == version
}

/// Whether memories can be merged: there are some, and none of them twice.
pub fn are_different(into: MemoryId, from: &[(MemoryId, u64)]) -> bool {
    let different: BTreeSet<MemoryId> = from.iter().map(|(id, _)| *id).chain([into]).collect();
    !from.is_empty() && different.len() == from.len() + 1
}

/// Whether the findings of a job in messages from one place of a thread through another still count, where the thread
/// was looked at through `extracted`; none if it is deleted. [`Error::Changed`] if some of the messages were looked at
/// meanwhile, and so must not be again.
pub fn is_extraction_wanted(extracted: Option<Seq>, from: Seq, through: Seq) -> Result<bool, Error> {
    match extracted {
        None => Ok(false),
        Some(extracted) if extracted < from || through == 0 => Ok(true),
        Some(extracted) if extracted >= through => Ok(false),
        Some(_) => Err(Error::Changed("another job has read some of the messages meanwhile".into())),
    }
}

/// The refusal of findings after a purge: it is not known any more which words were those of the purged memory.
pub fn purged_meanwhile() -> Error {
    Error::Changed("a memory was purged meanwhile".into())
}

/// How many memories an extraction expires, where `active` are active and `limit` may stay.
pub fn number_to_expire(active: u64, limit: usize) -> u64 {
    active.saturating_sub(limit as u64).min(MAX_EXPIRED_PER_EXTRACTION as u64)
}

/// Whether a memory can be purged together with `actions` actions that contain it.
pub fn check_purge(status: MemoryStatus, actions: usize) -> Result<(), Error> {
    if status != MemoryStatus::Forgotten {
        return Err(Error::Changed("the memory was restored meanwhile; forget it again".into()));
    }
    if actions > MAX_ACTIONS_PER_PURGE {
        return Err(Error::Changed(format!("at most {MAX_ACTIONS_PER_PURGE} actions are erased at once")));
    }
    Ok(())
}

/// Memories beyond what may stay of each subject, those worth least first. `ranked` has the memories by worth, the
/// greatest first, each with its subject.
pub fn beyond_limit(ranked: impl IntoIterator<Item = (MemoryId, String)>, limit: usize) -> Vec<MemoryId> {
    let mut stay: BTreeMap<String, usize> = BTreeMap::new();
    let mut over: Vec<MemoryId> = Vec::new();
    for (memory, subject) in ranked {
        let count = stay.entry(subject).or_default();
        *count += 1;
        if *count > limit {
            over.push(memory);
        }
    }
    over.reverse();
    over.truncate(MAX_EXPIRED_PER_EXTRACTION);
    over
}

/// The event that tells a thread of an extraction; none when nothing changed.
pub fn update_event(extracted: &ExtractedMemories) -> Option<MemoryUpdate> {
    let ExtractedMemories { created, updated, merged, removed, expired, skipped: _ } = extracted.clone();
    let update = MemoryUpdate { created, updated, merged, removed, expired };
    (update != MemoryUpdate::default()).then_some(update)
}

/// Ends each version, newest first, where an update took its place.
pub fn end_updated_versions(versions: &mut [MemoryVersionView]) {
    let mut next: Option<MemoryVersionView> = None;
    for version in versions {
        let is_update = |next: &MemoryVersionView| next.reason == MemoryVersionReason::Updated;
        let updated = next.take().filter(is_update);
        version.valid_until = version.valid_until.or(updated.and_then(|next| next.valid_from));
        next = Some(version.clone());
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> MemoryId {
        MemoryId::new(Uuid::from_u128(number))
    }

    #[test]
    fn the_indexes_of_both_databases_have_the_expression_of_worth() {
        for schema in [include_str!("../sqlite/schema.sql"), include_str!("../postgres/schema.sql")] {
            let index = schema.lines().find(|line| line.starts_with("CREATE INDEX memories_least "));
            assert!(index.unwrap().contains(MEMORY_WORTH), "{index:?}");
        }
    }

    #[test]
    fn case_and_signs_make_no_other_memory() {
        assert_eq!(words_hash("Likes tea."), words_hash("likes  TEA"));
        assert_ne!(words_hash("Likes tea."), words_hash("Likes coffee."));
        assert_ne!(words_hash("!!"), words_hash("??"));
    }

    #[test]
    fn messages_are_looked_at_once() {
        assert!(is_extraction_wanted(Some(3), 4, 9).unwrap());
        assert!(!is_extraction_wanted(Some(9), 4, 9).unwrap());
        assert!(!is_extraction_wanted(None, 4, 9).unwrap());
        assert!(is_extraction_wanted(Some(5), 4, 9).is_err());
    }

    #[test]
    fn each_subject_keeps_its_best() {
        let ranked =
            [(1, "a"), (2, "a"), (3, "b"), (4, "a")].map(|(number, kind)| (id(number), kind.to_owned()));
        assert_eq!(beyond_limit(ranked, 1), [id(4), id(2)]);
    }

    #[test]
    fn a_bounded_number_of_memories_beyond_the_limit_expires() {
        assert_eq!([number_to_expire(3, 5), number_to_expire(7, 5)], [0, 2]);
        assert_eq!(number_to_expire(u64::MAX, 5), MAX_EXPIRED_PER_EXTRACTION as u64);
    }

    #[test]
    fn only_a_forgotten_memory_is_purged() {
        assert!(check_purge(MemoryStatus::Forgotten, MAX_ACTIONS_PER_PURGE).is_ok());
        assert!(check_purge(MemoryStatus::Forgotten, MAX_ACTIONS_PER_PURGE + 1).is_err());
        assert!(check_purge(MemoryStatus::Active, 0).is_err());
    }

    #[test]
    fn no_memory_is_merged_with_itself() {
        assert!(are_different(id(1), &[(id(2), 1)]));
        assert!(!are_different(id(1), &[(id(1), 1)]) && !are_different(id(1), &[]));
    }
}
