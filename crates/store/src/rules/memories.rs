//! Memories: when two say the same, what an edit comes to, and which findings of a job still count.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{MemoryId, MemoryUpdate, MemoryVersionView, Seq};
use sha2::{Digest, Sha256};

use crate::{
    Error, ExtractedMemories, MAX_EXPIRED_PER_EXTRACTION, MAX_MEMORIES_PER_SCOPE, MemoryEdit, MemoryRow,
    MemoryStatus,
};

/// The reason of a version in which an update took the place of another.
pub const UPDATED: &str = "updated";

/// Bytes of a hash that are kept: enough that no two texts of one user share it.
const WORDS_HASH_BYTES: usize = 16;

/// Stands for the words of a text, whatever their case and whatever is between them.
pub fn words_hash(text: &str) -> Vec<u8> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let plain = words.map(str::to_lowercase).collect::<Vec<_>>().join(" ");
    // A text of signs alone stands for itself.
    let words = if plain.is_empty() { text.trim().to_owned() } else { plain };
    Sha256::digest(words).into_iter().take(WORDS_HASH_BYTES).collect()
}

/// Whether a scope that has so many active memories may have another.
pub fn check_room(active: u64) -> Result<(), Error> {
    if active >= MAX_MEMORIES_PER_SCOPE as u64 { Err(Error::MemoriesFull) } else { Ok(()) }
}

/// A memory after an edit by hand; none if the edit changes nothing. [`Error::Changed`] unless the memory is active.
pub fn edited(row: MemoryRow, edit: MemoryEdit) -> Result<Option<MemoryRow>, Error> {
    if row.status != MemoryStatus::Active {
        return Err(Error::Changed(format!("the memory is {}; restore it first", row.status.name())));
    }
    let (text, kind) = (row.text.clone(), row.kind.clone());
    let edited =
        MemoryRow { text: edit.text.unwrap_or(row.text), kind: edit.kind.unwrap_or(row.kind), ..row };
    Ok((edited.text != text || edited.kind != kind).then_some(edited))
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

/// Why findings do not count any more: nobody knows which words were those of a memory that was purged.
pub fn purged_meanwhile() -> Error {
    Error::Changed("a memory was purged meanwhile".into())
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
        let updated = next.take().filter(|next| next.reason == UPDATED);
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
    fn no_memory_is_merged_with_itself() {
        assert!(are_different(id(1), &[(id(2), 1)]));
        assert!(!are_different(id(1), &[(id(1), 1)]) && !are_different(id(1), &[]));
    }
}
