//! `[memory]` and `extract.md`: what of the user's memories is in a prompt, what is kept, and for how long.

use std::collections::BTreeMap;
use std::path::Path;

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

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawMemory {
    inject: Option<RawInject>,
    limit: Option<Spanned<i64>>,
    remember: Option<bool>,
    history: Option<bool>,
    history_limit: Option<Spanned<i64>>,
    recall_tokens: Option<Spanned<i64>>,
    keep: Option<Spanned<i64>>,
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
    let memory = Memory {
        inject,
        limit: limit.unwrap_or(if inject == Inject::Top { Memory::TOP } else { default.limit }),
        remember: raw.remember.unwrap_or(inject != Inject::None),
        history: raw.history.unwrap_or(false),
        history_limit: source
            .whole("memory.history_limit", raw.history_limit, 1..=MAX_MESSAGES)?
            .unwrap_or(default.history_limit),
        recall_tokens: source
            .whole("memory.recall_tokens", raw.recall_tokens, 1..=MAX_RECALL_TOKENS)?
            .unwrap_or(default.recall_tokens),
        keep: source.whole("memory.keep", raw.keep, 1..=MAX_KEPT)?,
        snapshot: types(source, "memory.snapshot", raw.snapshot, records)?,
        extraction: raw.extract.unwrap_or(false).then_some(extraction),
    };
    Ok((memory, prompt))
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
