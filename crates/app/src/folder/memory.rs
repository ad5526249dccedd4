//! `[memory]` and `extract.md`: what of the user's memories is in a prompt, what is kept, and for how long.

use std::collections::BTreeMap;
use std::path::Path;

use protocol::is_kind;
use serde::Deserialize;

use super::optional_text;
use crate::source::{Problem, Source, Spanned};
use crate::{Extraction, Inject, Memory, RecordType};

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
    inject: Option<RawInject>,
    limit: Option<Spanned<i64>>,
    remember: Option<bool>,
    forget: Option<bool>,
    danger_words: Vec<Spanned<String>>,
    history: Option<bool>,
    history_limit: Option<Spanned<i64>>,
    recall_tokens: Option<Spanned<i64>>,
    keep: Option<Spanned<i64>>,
    keep_per: Option<RawKeepPer>,
    consent: Vec<Spanned<String>>,
    follow_up: Vec<Spanned<String>>,
    review: Vec<Spanned<String>>,
    snapshot: Vec<Spanned<String>>,
    extract: Option<bool>,
    extract_model: Option<Spanned<String>>,
    extract_context: Vec<Spanned<String>>,
    extract_delay_seconds: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawInject {
    None,
    All,
    Top,
    Snapshot,
}

/// Among which memories `keep` counts.
#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum RawKeepPer {
    #[default]
    App,
    Subject,
}

/// The memory of an app, and the text of `extract.md` if there is one.
pub(super) fn memory(
    source: &Source<'_>,
    dir: &Path,
    raw: RawMemory,
    records: &BTreeMap<String, RecordType>,
) -> Result<(Memory, Option<String>), Problem> {
    let default = Memory::default();
    let prompt = optional_text(&dir.join("extract.md"), "say what is worth remembering")?;
    let inject = match raw.inject {
        Some(RawInject::All) => Inject::All,
        Some(RawInject::Top) => Inject::Top,
        Some(RawInject::Snapshot) => Inject::Snapshot,
        Some(RawInject::None) => Inject::None,
        None => default.inject,
    };
    let limit = source.whole("memory.limit", raw.limit, 1..=MAX_MEMORIES)?;
    let delay =
        source.seconds("memory.extract_delay_seconds", raw.extract_delay_seconds, 0..=MAX_DELAY_SECONDS)?;
    let extraction = Extraction {
        prompt: prompt.clone(),
        model: source.text("memory.extract_model", raw.extract_model)?,
        records: types(source, "memory.extract_context", raw.extract_context, records)?,
        delay: delay.unwrap_or(Extraction::default().delay),
    };
    let remember = raw.remember.unwrap_or(inject != Inject::None);
    let (files, kinds_of_records) = raw.snapshot.into_iter().partition(|name| name.get_ref().ends_with(FILE));
    let memory = Memory {
        inject,
        limit: limit.unwrap_or(if inject == Inject::Top { Memory::TOP } else { default.limit }),
        remember,
        forget: raw.forget.unwrap_or(remember),
        danger_words: danger_words(source, raw.danger_words)?,
        history: raw.history.unwrap_or(false),
        history_limit: source
            .whole("memory.history_limit", raw.history_limit, 1..=MAX_MESSAGES)?
            .unwrap_or(default.history_limit),
        recall_tokens: source
            .whole("memory.recall_tokens", raw.recall_tokens, 1..=MAX_RECALL_TOKENS)?
            .unwrap_or(default.recall_tokens),
        keep: source.whole("memory.keep", raw.keep, 1..=MAX_KEPT)?,
        keep_per_subject: raw.keep_per.unwrap_or_default() == RawKeepPer::Subject,
        consent: kinds(source, "memory.consent", raw.consent)?,
        follow_up: kinds(source, "memory.follow_up", raw.follow_up)?,
        review: kinds(source, "memory.review", raw.review)?,
        snapshot: types(source, "memory.snapshot", kinds_of_records, records)?,
        snapshot_files: snapshot_files(source, files)?,
        extraction: raw.extract.unwrap_or(false).then_some(extraction),
    };
    Ok((memory, prompt))
}

/// Files that a snapshot shows, by their paths.
fn snapshot_files(source: &Source<'_>, raw: Vec<Spanned<String>>) -> Result<Vec<String>, Problem> {
    match raw.get(MAX_SNAPSHOT_FILES) {
        Some(beyond) => {
            let message = format!("memory.snapshot names more than {MAX_SNAPSHOT_FILES} files");
            Err(source.problem(beyond.span(), message, "name fewer"))
        }
        None => Ok(raw.into_iter().map(Spanned::into_inner).collect()),
    }
}

/// How words of danger begin, in small letters as they are compared.
fn danger_words(source: &Source<'_>, raw: Vec<Spanned<String>>) -> Result<Vec<String>, Problem> {
    if let Some(beyond) = raw.get(MAX_DANGER_WORDS) {
        let message = format!("memory.danger_words names more than {MAX_DANGER_WORDS} words");
        return Err(source.problem(beyond.span(), message, "name fewer"));
    }
    if let Some(empty) = raw.iter().find(|word| word.get_ref().trim().is_empty()) {
        let message = "memory.danger_words has an empty word".to_owned();
        return Err(source.problem(empty.span(), message, "write how a word begins, such as \"suicid\""));
    }
    Ok(raw.into_iter().map(|word| word.into_inner().trim().to_lowercase()).collect())
}

/// Kinds of memories, without their subjects.
fn kinds(source: &Source<'_>, field: &str, raw: Vec<Spanned<String>>) -> Result<Vec<String>, Problem> {
    if let Some(beyond) = raw.get(MAX_KINDS) {
        let message = format!("{field} names more than {MAX_KINDS} kinds");
        return Err(source.problem(beyond.span(), message, "name fewer"));
    }
    for kind in &raw {
        if !is_kind(kind.get_ref()) || kind.get_ref().contains('/') {
            let message = format!("{field}: {:?} is no kind of memories", kind.get_ref());
            let remedy = "write one word of small letters, digits, - and _";
            return Err(source.problem(kind.span(), message, remedy));
        }
    }
    Ok(raw.into_iter().map(Spanned::into_inner).collect())
}

fn types(
    source: &Source<'_>,
    field: &str,
    raw: Vec<Spanned<String>>,
    records: &BTreeMap<String, RecordType>,
) -> Result<Vec<String>, Problem> {
    if let Some(beyond) = raw.get(MAX_RECORD_TYPES) {
        let message = format!("{field} names more than {MAX_RECORD_TYPES} types of records");
        return Err(source.problem(beyond.span(), message, "name fewer"));
    }
    for name in &raw {
        if !records.contains_key(name.get_ref()) {
            let message = format!("{field}: there is no type of records {:?}", name.get_ref());
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
