//! Memories as files: taken along, and brought from elsewhere.
//!
//! Three forms are read, told apart by their content: the server's own JSON, a Markdown list that people can edit, and
//! what mem0 exports. A caller that imports still has to look for secrets and orders in what [`read`] returns.

mod json;
mod markdown;
mod mem0;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use protocol::is_kind;
use serde::Serialize;
use store::MAX_MEMORY_BYTES;

use crate::extract::DEFAULT_KIND;

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// The most memories of a file.
pub const MAX_MEMORIES: usize = 10_000;

/// The longest name of a source, in bytes.
const MAX_SOURCE_BYTES: usize = 256;

/// A memory as it travels: without ids, which are each server's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedMemory {
    pub text: String,
    pub kind: String,
    pub created_at: Timestamp,
    /// Since when it is true, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Timestamp>,
    /// The origin of the memory, in a word or a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeFormat {
    Json,
    Markdown,
    Mem0,
}

/// Why a file cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the file has {bytes} bytes, and at most {MAX_FILE_BYTES} are allowed; split it")]
    TooLarge { bytes: usize },
    #[error("the file has more than {MAX_MEMORIES} memories; split it")]
    TooMany,
    #[error("the file is empty")]
    Empty,
    #[error("line {line}, column {column}: is not JSON")]
    NotJson { line: usize, column: usize },
    #[error("the file has no known format; send an export of Rondo or of mem0, or a Markdown list")]
    UnknownFormat,
    #[error("the file has the format version {version}, and only version {} is known", json::VERSION)]
    UnknownVersion { version: String },
    /// Counted from 0, as a path in the file would.
    #[error("memory {index}, field `{field}`: {problem}")]
    Field { index: usize, field: &'static str, problem: ImportProblem },
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: ImportProblem },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImportProblem {
    #[error("is missing")]
    Missing,
    #[error("is of the wrong type")]
    WrongType,
    #[error("is empty")]
    Empty,
    #[error("is longer than a memory can be")]
    TooLong,
    #[error(
        "must be one word of lower-case letters, digits, - and _, or two such words with a slash between them"
    )]
    NotAWord,
    #[error("is not a date")]
    NotADate,
    #[error("is not a list item; begin it with `- `")]
    NotAnItem,
}

/// The memories as a file of this form.
pub fn write(memories: &[ExportedMemory], format: ExchangeFormat) -> String {
    match format {
        ExchangeFormat::Json => json::write(memories),
        ExchangeFormat::Markdown => markdown::write(memories),
        ExchangeFormat::Mem0 => mem0::write(memories),
    }
}

/// Reads a file of any form. Memories without a date of their own are of `now`.
pub fn read(text: &str, now: Timestamp) -> Result<Vec<ExportedMemory>, ReadError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(ReadError::TooLarge { bytes: text.len() });
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.trim_start().chars().next() {
        None => Err(ReadError::Empty),
        Some('{' | '[') => {
            let not_json =
                |error: serde_json::Error| ReadError::NotJson { line: error.line(), column: error.column() };
            let value: serde_json::Value = serde_json::from_str(text).map_err(not_json)?;
            if value.get("format").is_some() { json::read(&value, now) } else { mem0::read(&value, now) }
        }
        Some(_) => markdown::read(text, now),
    }
}

/// The text as it is kept: with one sort of line break, and no white space at the ends of lines.
fn clean_text(text: &str) -> Result<String, ImportProblem> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let text = text.split('\n').map(str::trim_end).collect::<Vec<_>>().join("\n");
    match text.trim() {
        "" => Err(ImportProblem::Empty),
        long if long.len() > MAX_MEMORY_BYTES => Err(ImportProblem::TooLong),
        text => Ok(text.to_owned()),
    }
}

/// A source on one line, without the sign that ends a text in Markdown.
fn clean_source(source: &str) -> Option<String> {
    let line = source.replace('—', "-").split_whitespace().collect::<Vec<_>>().join(" ");
    let short = line.get(..line.floor_char_boundary(MAX_SOURCE_BYTES)).unwrap_or_default().trim();
    (!short.is_empty()).then(|| short.to_owned())
}

/// A moment, or the beginning of a day, in UTC where no offset is given.
fn moment(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let in_utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let day =
        || text.parse::<Date>().ok().and_then(|day| in_utc(day.to_datetime(jiff::civil::Time::midnight())));
    text.parse().ok().or_else(|| text.parse::<DateTime>().ok().and_then(in_utc)).or_else(day)
}
