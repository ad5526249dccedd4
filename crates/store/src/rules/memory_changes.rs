//! Changes of a memory: which state, dates and reason its next version has.

use jiff::Timestamp;
use protocol::MemoryId;

use crate::{Error, MemoryEdit, MemoryRow, MemoryStatus, MemoryVersionReason};

/// The version of a memory that was not there before.
pub const FIRST_MEMORY_VERSION: u64 = 1;

/// The next version of a memory, and the reason for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedMemory {
    /// The row after the change. Its `updated_at` is still that of the version before: the transaction writes a new one.
    pub row: MemoryRow,
    pub reason: MemoryVersionReason,
}

impl ChangedMemory {
    fn new(row: MemoryRow, reason: MemoryVersionReason) -> Self {
        Self { row: MemoryRow { version: row.version.saturating_add(1), ..row }, reason }
    }
}

/// The time at which a memory was made, in milliseconds. An import can name it; a time in the future counts as now.
pub fn creation_time(imported: Option<Timestamp>, at: i64) -> i64 {
    imported.map_or(at, Timestamp::as_millisecond).min(at)
}

/// A memory after an edit by hand; none if the edit changes nothing. [`Error::Changed`] unless the memory is active.
pub fn edited_memory(row: MemoryRow, edit: MemoryEdit) -> Result<Option<ChangedMemory>, Error> {
    if row.status != MemoryStatus::Active {
        return Err(Error::Changed(format!("the memory is {}; restore it first", row.status.name())));
    }
    let (text, kind) = (row.text.clone(), row.kind.clone());
    let edited =
        MemoryRow { text: edit.text.unwrap_or(row.text), kind: edit.kind.unwrap_or(row.kind), ..row };
    let is_other = edited.text != text || edited.kind != kind;
    Ok(is_other.then(|| ChangedMemory::new(edited, MemoryVersionReason::Edited)))
}

/// A memory that the user forgets; none if it is forgotten already.
pub fn forgotten_memory(row: MemoryRow) -> Option<ChangedMemory> {
    let forgotten = MemoryRow { status: MemoryStatus::Forgotten, ..row };
    (row.status != MemoryStatus::Forgotten)
        .then(|| ChangedMemory::new(forgotten, MemoryVersionReason::Forgotten))
}

/// A memory that becomes active again from any other status; none if it is active already.
pub fn restored_memory(row: MemoryRow) -> Option<ChangedMemory> {
    let restored = MemoryRow { status: MemoryStatus::Active, valid_until: None, superseded_by: None, ..row };
    (row.status != MemoryStatus::Active).then(|| ChangedMemory::new(restored, MemoryVersionReason::Restored))
}

/// A memory that a call has added, after the call was undone.
pub fn undone_memory(row: MemoryRow) -> ChangedMemory {
    ChangedMemory::new(MemoryRow { status: MemoryStatus::Removed, ..row }, MemoryVersionReason::Undone)
}

/// A memory whose fact changes now.
pub fn updated_memory(row: MemoryRow, (text, kind): (String, String), now: Timestamp) -> ChangedMemory {
    ChangedMemory::new(MemoryRow { text, kind, valid_from: Some(now), ..row }, MemoryVersionReason::Updated)
}

/// A memory whose fact no longer holds from now on.
pub fn removed_memory(row: MemoryRow, now: Timestamp) -> ChangedMemory {
    let removed = MemoryRow { status: MemoryStatus::Removed, valid_until: Some(now), ..row };
    ChangedMemory::new(removed, MemoryVersionReason::Removed)
}

/// A memory that was merged into another memory, which replaces it.
pub fn superseded_memory(row: MemoryRow, by: MemoryId) -> ChangedMemory {
    let superseded = MemoryRow { status: MemoryStatus::Superseded, superseded_by: Some(by), ..row };
    ChangedMemory::new(superseded, MemoryVersionReason::Superseded)
}

/// A memory into which others were merged.
pub fn merged_memory(row: MemoryRow, (text, kind): (String, String)) -> ChangedMemory {
    ChangedMemory::new(MemoryRow { text, kind, ..row }, MemoryVersionReason::Merged)
}

/// A memory that was worth least when there were too many.
pub fn expired_memory(row: MemoryRow) -> ChangedMemory {
    ChangedMemory::new(MemoryRow { status: MemoryStatus::Expired, ..row }, MemoryVersionReason::Expired)
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, Scope, UserId};
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> MemoryId {
        MemoryId::new(Uuid::from_u128(number))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn memory() -> MemoryRow {
        MemoryRow {
            id: id(1),
            scope: Scope { app: AppId::new("app"), user: UserId::new("alice") },
            text: "Likes tea.".into(),
            kind: "preference".into(),
            status: MemoryStatus::Active,
            access_count: 0,
            last_accessed_at: None,
            source: "user".into(),
            created_at: at(1),
            updated_at: at(1),
            version: 3,
            valid_from: Some(at(1)),
            valid_until: None,
            superseded_by: None,
            first_source: None,
        }
    }

    fn changed(row: MemoryRow, reason: MemoryVersionReason) -> ChangedMemory {
        ChangedMemory { row: MemoryRow { version: 4, ..row }, reason }
    }

    #[test]
    fn an_edit_changes_an_active_memory_and_only_if_it_says_something_else() {
        let text = |text: &str| MemoryEdit { text: Some(text.into()), kind: None };
        let expected = MemoryRow { text: "Likes coffee.".into(), ..memory() };
        let edited = edited_memory(memory(), text("Likes coffee.")).unwrap();
        assert_eq!(edited, Some(changed(expected, MemoryVersionReason::Edited)));
        assert_eq!(edited_memory(memory(), text("Likes tea.")).unwrap(), None);
        let expired = MemoryRow { status: MemoryStatus::Expired, ..memory() };
        let refused = edited_memory(expired, text("Likes coffee.")).unwrap_err().to_string();
        assert_eq!(refused, "the memory is expired; restore it first");
    }

    #[test]
    fn a_restored_memory_is_as_it_was_before_it_ended() {
        let removed = removed_memory(memory(), at(9));
        let expected = MemoryRow { status: MemoryStatus::Removed, valid_until: Some(at(9)), ..memory() };
        assert_eq!(removed, changed(expected, MemoryVersionReason::Removed));
        let superseded = superseded_memory(memory(), id(2));
        let expected = MemoryRow { status: MemoryStatus::Superseded, superseded_by: Some(id(2)), ..memory() };
        assert_eq!(superseded, changed(expected, MemoryVersionReason::Superseded));
        for ended in [removed, superseded, expired_memory(memory()), undone_memory(memory())] {
            let restored = restored_memory(ended.row).unwrap();
            let expected = MemoryRow { version: 5, ..memory() };
            assert_eq!(restored, ChangedMemory { row: expected, reason: MemoryVersionReason::Restored });
            assert_eq!(restored_memory(restored.row), None);
        }
    }

    #[test]
    fn a_memory_is_forgotten_once() {
        let forgotten = forgotten_memory(memory()).unwrap();
        let expected = MemoryRow { status: MemoryStatus::Forgotten, ..memory() };
        assert_eq!(forgotten, changed(expected, MemoryVersionReason::Forgotten));
        assert_eq!(forgotten_memory(forgotten.row), None);
    }

    #[test]
    fn an_update_begins_now_and_a_merge_keeps_the_dates() {
        let said = || ("Likes coffee.".to_owned(), "habit".to_owned());
        let (text, kind) = said();
        let expected = MemoryRow { text, kind, ..memory() };
        let updated = MemoryRow { valid_from: Some(at(9)), ..expected.clone() };
        assert_eq!(updated_memory(memory(), said(), at(9)), changed(updated, MemoryVersionReason::Updated));
        assert_eq!(merged_memory(memory(), said()), changed(expected, MemoryVersionReason::Merged));
    }

    #[test]
    fn a_memory_from_the_future_counts_as_new() {
        let millis = |time: Option<Timestamp>| creation_time(time, 5_000);
        assert_eq!([millis(None), millis(Some(at(2))), millis(Some(at(9)))], [5_000, 2_000, 5_000]);
    }
}
