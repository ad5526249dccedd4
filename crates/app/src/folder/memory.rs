//! `[memory]` and `extract.md`: what of the user's memories is in a prompt, what is kept, and for how long.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use protocol::is_kind;
use serde::{Deserialize, Deserializer};

use super::optional_text;
use crate::source::bounds::{KEY, refusal_at, text, whole_number};
use crate::source::{FileText, Problem, Spanned};
use crate::{ExtractionRules, Inject, MemoryRules, RecordType};

const MAX_MEMORIES: i64 = 1_000;
const MAX_MESSAGES: i64 = 100;
const MAX_KEPT: i64 = 100_000;
const MAX_RECALL_TOKENS: i64 = 100_000;
const MAX_DELAY_SECONDS: i64 = 3_600;
/// Types of records that a snapshot or the memory model is shown.
const MAX_RECORD_TYPES: usize = 16;
/// Files that a snapshot shows.
const MAX_SNAPSHOT_FILES: usize = 4;
/// How the name of a file ends, among the names of what a snapshot shows.
const FILE: &str = ".md";
/// Kinds of memories that one key names.
const MAX_KINDS: usize = 16;
/// Words that speak of danger.
const MAX_DANGER_WORDS: usize = 200;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawMemory {
    inject: Inject,
    #[serde(deserialize_with = "whole_number::<1, MAX_MEMORIES, _, _>")]
    limit: Option<usize>,
    remember: Option<bool>,
    forget: Option<bool>,
    #[serde(deserialize_with = "danger_words")]
    danger_words: Vec<String>,
    history: bool,
    #[serde(deserialize_with = "whole_number::<1, MAX_MESSAGES, _, _>")]
    history_limit: Option<usize>,
    #[serde(deserialize_with = "whole_number::<1, MAX_RECALL_TOKENS, _, _>")]
    recall_tokens: Option<usize>,
    #[serde(deserialize_with = "whole_number::<1, MAX_KEPT, _, _>")]
    keep: Option<usize>,
    keep_per: KeepPer,
    #[serde(deserialize_with = "memory_kinds")]
    consent: Vec<String>,
    #[serde(deserialize_with = "memory_kinds")]
    follow_up: Vec<String>,
    #[serde(deserialize_with = "memory_kinds")]
    review: Vec<String>,
    snapshot: Vec<Spanned<String>>,
    extract: bool,
    #[serde(deserialize_with = "text")]
    extract_model: Option<String>,
    extract_context: Vec<Spanned<String>>,
    #[serde(deserialize_with = "whole_number::<0, MAX_DELAY_SECONDS, _, _>")]
    extract_delay_seconds: Option<Duration>,
}

/// Among which memories `keep` counts.
#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum KeepPer {
    #[default]
    App,
    Subject,
}

/// The memory of an app, and the text of `extract.md` if there is one.
pub(super) fn memory(
    source: &FileText<'_>,
    dir: &Path,
    raw: RawMemory,
    records: &BTreeMap<String, RecordType>,
) -> Result<(MemoryRules, Option<String>), Problem> {
    let default = MemoryRules::default();
    let prompt = optional_text(&dir.join("extract.md"), "say what is worth remembering")?;
    let extraction = ExtractionRules {
        prompt: prompt.clone(),
        model: raw.extract_model,
        records: record_types(source, "memory.extract_context", raw.extract_context, records)?,
        delay: raw.extract_delay_seconds.unwrap_or(ExtractionRules::default().delay),
    };
    let limit = if raw.inject == Inject::Top { MemoryRules::TOP } else { default.limit };
    let remember = raw.remember.unwrap_or(raw.inject != Inject::None);
    let (files, kinds_of_records) = raw.snapshot.into_iter().partition(|name| name.get_ref().ends_with(FILE));
    let memory = MemoryRules {
        inject: raw.inject,
        limit: raw.limit.unwrap_or(limit),
        remember,
        forget: raw.forget.unwrap_or(remember),
        danger_words: raw.danger_words,
        history: raw.history,
        history_limit: raw.history_limit.unwrap_or(default.history_limit),
        recall_tokens: raw.recall_tokens.unwrap_or(default.recall_tokens),
        keep: raw.keep,
        keep_per_subject: raw.keep_per == KeepPer::Subject,
        consent: raw.consent,
        follow_up: raw.follow_up,
        review: raw.review,
        snapshot: record_types(source, "memory.snapshot", kinds_of_records, records)?,
        snapshot_files: snapshot_files(source, files)?,
        extraction: raw.extract.then_some(extraction),
    };
    Ok((memory, prompt))
}

/// Files that a snapshot shows, by their paths.
fn snapshot_files(source: &FileText<'_>, raw: Vec<Spanned<String>>) -> Result<Vec<String>, Problem> {
    match raw.get(MAX_SNAPSHOT_FILES) {
        Some(beyond) => {
            let message = format!("memory.snapshot names more than {MAX_SNAPSHOT_FILES} files");
            Err(source.problem(beyond.span(), message, "name fewer"))
        }
        None => Ok(raw.into_iter().map(Spanned::into_inner).collect()),
    }
}

/// How words of danger begin, in small letters as they are compared.
fn danger_words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<Spanned<String>>::deserialize(deserializer)?;
    if let Some(beyond) = words.get(MAX_DANGER_WORDS) {
        let message = format!("{KEY} names more than {MAX_DANGER_WORDS} words");
        return Err(refusal_at(&beyond.span(), message, "name fewer"));
    }
    if let Some(empty) = words.iter().find(|word| word.get_ref().trim().is_empty()) {
        let remedy = "write how a word begins, such as \"suicid\"";
        return Err(refusal_at(&empty.span(), format!("{KEY} has an empty word"), remedy));
    }
    Ok(words.into_iter().map(|word| word.into_inner().trim().to_lowercase()).collect())
}

/// Kinds of memories, without their subjects.
fn memory_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let kinds = Vec::<Spanned<String>>::deserialize(deserializer)?;
    if let Some(beyond) = kinds.get(MAX_KINDS) {
        let message = format!("{KEY} names more than {MAX_KINDS} kinds");
        return Err(refusal_at(&beyond.span(), message, "name fewer"));
    }
    if let Some(odd) = kinds.iter().find(|kind| !is_kind(kind.get_ref()) || kind.get_ref().contains('/')) {
        let message = format!("{KEY}: {:?} is not a kind of memories", odd.get_ref());
        return Err(refusal_at(
            &odd.span(),
            message,
            "write one word of lower-case letters, digits, - and _",
        ));
    }
    Ok(kinds.into_iter().map(Spanned::into_inner).collect())
}

fn record_types(
    source: &FileText<'_>,
    field: &str,
    raw: Vec<Spanned<String>>,
    records: &BTreeMap<String, RecordType>,
) -> Result<Vec<String>, Problem> {
    if let Some(beyond) = raw.get(MAX_RECORD_TYPES) {
        let message = format!("{field} names more than {MAX_RECORD_TYPES} record types");
        return Err(source.problem(beyond.span(), message, "name fewer"));
    }
    for name in &raw {
        if !records.contains_key(name.get_ref()) {
            let message = format!("{field}: there is no record type {:?}", name.get_ref());
            let known: Vec<&str> = records.keys().map(String::as_str).collect();
            let remedy = if known.is_empty() {
                format!("add records/{}.json", name.get_ref())
            } else {
                format!("write one of {}", known.join(", "))
            };
            return Err(source.problem(name.span(), message, remedy));
        }
    }
    Ok(raw.into_iter().map(Spanned::into_inner).collect())
}
