//! A list that people can read and edit: one item per memory, with its kind and date after a dash.
//!
//! ```text
//! - Has a cat called Miso — pet, 2026-02-03T14:05:06Z, valid from 2025-01-01T00:00:00Z, from user
//! ```
//!
//! Further lines of a text are indented. An item without the part after the dash is a fact of today.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{
    DEFAULT_KIND, ExportedMemory, ImportProblem, MAX_MEMORIES, ReadError, clean_source, clean_text, is_kind,
    moment,
};

const TITLE: &str = "# Memories";
const DASH: &str = " — ";
const INDENT: &str = "  ";
const VALID_FROM: &str = "valid from ";
const FROM: &str = "from ";

pub(super) fn write(memories: &[ExportedMemory]) -> String {
    let mut out = format!("{TITLE}\n\n");
    for memory in memories {
        let mut lines = memory.text.lines();
        let _ = write!(out, "- {}", lines.next().unwrap_or_default());
        for line in lines {
            out.push('\n');
            if !line.is_empty() {
                let _ = write!(out, "{INDENT}{line}");
            }
        }
        let _ = write!(out, "{DASH}{}, {}", memory.kind, memory.created_at);
        if let Some(valid_from) = memory.valid_from {
            let _ = write!(out, ", {VALID_FROM}{valid_from}");
        }
        if let Some(source) = memory.source.as_deref().and_then(clean_source) {
            let _ = write!(out, ", {FROM}{source}");
        }
        out.push('\n');
    }
    out
}

/// An item whose lines are being read.
struct Item {
    /// The line at which the item begins, from 1.
    line: usize,
    text: String,
    /// Empty lines that belong to it if more of it follows.
    empty: usize,
}

pub(super) fn read(text: &str, now: Timestamp) -> Result<Vec<ExportedMemory>, ReadError> {
    let mut memories = Vec::new();
    let mut open: Option<Item> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(first) = item(line) {
            close(open.replace(Item { line: number, text: first.to_owned(), empty: 0 }), now, &mut memories)?;
        } else if line.trim().is_empty() {
            open.iter_mut().for_each(|item| item.empty += 1);
        } else if let (Some(more), Some(item)) = (line.strip_prefix(INDENT), open.as_mut()) {
            item.text.extend(std::iter::repeat_n('\n', item.empty + 1));
            item.text.push_str(more);
            item.empty = 0;
        } else if line.starts_with('#') {
            close(open.take(), now, &mut memories)?;
        } else {
            return Err(ReadError::Line { line: number, problem: ImportProblem::NotAnItem });
        }
    }
    close(open, now, &mut memories)?;
    Ok(memories)
}

fn item(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*', '+'])?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

fn close(item: Option<Item>, now: Timestamp, memories: &mut Vec<ExportedMemory>) -> Result<(), ReadError> {
    let Some(item) = item else { return Ok(()) };
    if memories.len() == MAX_MEMORIES {
        return Err(ReadError::TooMany);
    }
    let described = item.text.rsplit_once(DASH).and_then(|(text, details)| read_details(text, details));
    let mut memory = described.unwrap_or_else(|| undetailed_memory(&item.text, now));
    memory.text = clean_text(&memory.text).map_err(|problem| ReadError::Line { line: item.line, problem })?;
    memories.push(memory);
    Ok(())
}

fn undetailed_memory(text: &str, created_at: Timestamp) -> ExportedMemory {
    let (text, kind) = (text.to_owned(), DEFAULT_KIND.to_owned());
    ExportedMemory { text, kind, created_at, valid_from: None, source: None }
}

/// A memory with the details after the dash, if [`write`] puts such details there and they are no part of the text.
fn read_details(text: &str, details: &str) -> Option<ExportedMemory> {
    let (kind, rest) = details.split_once(", ")?;
    let (date, mut rest) = rest.split_once(", ").map_or((rest, None), |(date, rest)| (date, Some(rest)));
    let created_at = moment(date)?;
    let mut valid_from = None;
    if let Some(dated) = rest.and_then(|rest| rest.strip_prefix(VALID_FROM)) {
        let (date, more) = dated.split_once(", ").map_or((dated, None), |(date, more)| (date, Some(more)));
        valid_from = Some(moment(date)?);
        rest = more;
    }
    let source = match rest {
        Some(rest) => Some(clean_source(rest.strip_prefix(FROM)?)?),
        None => None,
    };
    let (text, kind) = (text.to_owned(), kind.to_owned());
    is_kind(&kind).then_some(ExportedMemory { text, kind, created_at, valid_from, source })
}
