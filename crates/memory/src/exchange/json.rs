//! The server's own form: an object that says what it is, of which version, and a list.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    DEFAULT_KIND, ExportedMemory, ImportProblem, MAX_MEMORIES, ReadError, clean_source, clean_text, is_kind,
    moment,
};

const FORMAT: &str = "rondo.memories";

pub(super) const VERSION: u64 = 1;

pub(super) fn write(memories: &[ExportedMemory]) -> String {
    let file = json!({"format": FORMAT, "version": VERSION, "memories": memories});
    format!("{file:#}\n")
}

/// Fields that are not known are those of a later version, and no loss.
pub(super) fn read(file: &Value, now: Timestamp) -> Result<Vec<ExportedMemory>, ReadError> {
    if file.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(ReadError::UnknownFormat);
    }
    let version = file.get("version").unwrap_or(&Value::Null);
    if version.as_u64() != Some(VERSION) {
        return Err(ReadError::UnknownVersion { version: version.to_string() });
    }
    let list = file.get("memories").and_then(Value::as_array).ok_or(ReadError::UnknownFormat)?;
    if list.len() > MAX_MEMORIES {
        return Err(ReadError::TooMany);
    }
    list.iter().enumerate().map(|(index, item)| memory(&ImportFields { index, item }, now)).collect()
}

fn memory(fields: &ImportFields<'_>, now: Timestamp) -> Result<ExportedMemory, ReadError> {
    let text = fields.text("text")?.ok_or_else(|| fields.error("text", ImportProblem::Missing))?;
    let text = clean_text(text).map_err(|problem| fields.error("text", problem))?;
    let kind = fields.text("kind")?.unwrap_or(DEFAULT_KIND);
    if !is_kind(kind) {
        return Err(fields.error("kind", ImportProblem::NotAWord));
    }
    Ok(ExportedMemory {
        text,
        kind: kind.to_owned(),
        created_at: fields.moment("createdAt")?.unwrap_or(now),
        valid_from: fields.moment("validFrom")?,
        source: fields.text("source")?.and_then(clean_source),
    })
}

/// One item of a list, and where it is.
pub(super) struct ImportFields<'v> {
    pub(super) index: usize,
    pub(super) item: &'v Value,
}

impl<'v> ImportFields<'v> {
    pub(super) fn error(&self, field: &'static str, problem: ImportProblem) -> ReadError {
        ReadError::Field { index: self.index, field, problem }
    }

    /// A text, or nothing if it is absent or null.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&'v str>, ReadError> {
        match self.item.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(self.error(field, ImportProblem::WrongType))
            }
        }
    }

    pub(super) fn moment(&self, field: &'static str) -> Result<Option<Timestamp>, ReadError> {
        let text = self.text(field)?;
        text.map(|text| moment(text).ok_or_else(|| self.error(field, ImportProblem::NotADate))).transpose()
    }
}
