//! Sources of kept texts, as words: the wire id of a thing, or one of the names here.
//!
//! A text is kept for as long as its source is what it was. The name of a source that can change says which state of
//! it was meant.

use protocol::{DocumentId, Scope, ThreadId};

const APP: &str = "app_";
const PROFILE: &str = "profile_";
const PERSONA: &str = "own_persona_";
const RECORDS: &str = "records_";
const FILE: &str = "file_";
const KNOWLEDGE: &str = "knowledge_";

/// The bounds of the names of what was made of records.
pub(crate) const ALL_RECORDS: (&str, &str) = ("records_", "records`");

/// A revision of an app, whose instructions are the same for all users.
pub fn of_app(revision: &str) -> String {
    format!("{APP}{revision}")
}

/// A document of an app, which is the same for all users.
pub fn of_knowledge(document: DocumentId) -> String {
    format!("{KNOWLEDGE}{document}")
}

/// A version of the user's profile.
pub fn of_profile(version: u64) -> String {
    format!("{PROFILE}{version}")
}

/// A persona that the user has made.
pub fn of_persona(id: &str) -> String {
    format!("{PERSONA}{id}")
}

/// Returns the name of the texts that were made of the user's records for a thread, after `erasures` erasures.
pub fn of_records(thread: ThreadId, erasures: u64) -> String {
    format!("{RECORDS}{thread}{}", erasure_suffix(erasures))
}

/// A file of the user's, which is named with its owner: many have one of the same path.
pub fn of_file(scope: &Scope, path: &str) -> String {
    format!("{FILE}{}/{}/{path}", scope.app, scope.user)
}

/// The path of a file of the scope's.
pub(crate) fn file_of<'s>(scope: &Scope, source: &'s str) -> Option<&'s str> {
    source.strip_prefix(of_file(scope, "").as_str())
}

/// Whether it is the same for all users of an app.
pub(crate) fn is_of_app(source: &str) -> bool {
    source.starts_with(APP) || source.starts_with(KNOWLEDGE)
}

/// The id of a document of an app.
pub(crate) fn knowledge_document(source: &str) -> Option<&str> {
    source.strip_prefix(KNOWLEDGE)
}

pub(crate) fn profile_version(source: &str) -> Option<i64> {
    source.strip_prefix(PROFILE)?.parse().ok()
}

pub(crate) fn persona_of_user(source: &str) -> Option<&str> {
    source.strip_prefix(PERSONA)
}

/// How many things had been erased when it was made.
pub(crate) fn records_number(source: &str) -> Option<u64> {
    source.strip_prefix(RECORDS)?.rsplit_once('@')?.1.parse().ok()
}

pub(crate) fn erasure_suffix(erasures: u64) -> String {
    format!("@{erasures}")
}

/// Returns the bounds of the names of what was made of records for a thread.
pub(crate) fn records_of_thread(thread: ThreadId) -> (String, String) {
    (format!("{RECORDS}{thread}@"), format!("{RECORDS}{thread}A"))
}
