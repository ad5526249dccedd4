//! Erasure: how deleted things are named where their traces are looked for, and the reasons that the ledger gives.

use protocol::{RecordId, Scope};

use crate::{AppliedChange, source};

/// The reason for erasing an action whose thing was deleted.
pub const THING_DELETED: &str = "what it changed was deleted";
/// The reason for erasing the actions of a thread.
pub const THREAD_DELETED: &str = "the conversation was deleted";

/// How a profile is named.
pub const PROFILE: &str = "profile";

/// The beginning of the name of a file.
const FILE: &str = "file:";

/// The one who deletes a thing. The user's own deletions are erased with the next sweep, and undo refuses them at once;
/// a tool's deletions, or those of an undo, can be undone until their time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedBy {
    User,
    Tool,
}

/// How a record is named.
pub fn record_name(record: RecordId) -> String {
    record.to_string()
}

/// How a file is named.
pub fn file_name(path: &str) -> String {
    format!("{FILE}{path}")
}

/// How the thing of a change is named.
pub fn change_name(change: &AppliedChange) -> String {
    match change {
        AppliedChange::Record { id, .. } => record_name(*id),
        AppliedChange::File { path, .. } => file_name(path),
        AppliedChange::Memory { id, .. } => id.to_string(),
        AppliedChange::Profile { .. } => PROFILE.to_owned(),
    }
}

/// By which name kept texts and snapshots have a thing that is named here.
pub fn text_source(scope: &Scope, thing: &str) -> String {
    thing.strip_prefix(FILE).map_or_else(|| thing.to_owned(), |path| source::of_file(scope, path))
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, UserId};

    use super::*;

    #[test]
    fn a_file_is_found_by_the_name_that_texts_have_for_it() {
        let scope = Scope { app: AppId::new("app"), user: UserId::new("alice") };
        assert_eq!(text_source(&scope, &file_name("a.md")), source::of_file(&scope, "a.md"));
        assert_eq!(text_source(&scope, PROFILE), PROFILE);
    }
}
