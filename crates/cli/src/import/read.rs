//! The files that an import takes and an export makes.

use std::path::{Path, PathBuf};

use protocol::{MAX_STORED_DEPTH, json_depth};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CommandResult;
use crate::replace_file::read_text;

/// Files of one import.
const MAX_FILES: usize = 200;

/// Bytes of one file.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A record as files hold it. Others refer to it by its id, which need not look like one of the server's.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) data: Value,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// All that a user has in an app.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportBundle {
    #[serde(default)]
    pub(crate) records: Vec<RecordEntry>,
    #[serde(default)]
    pub(crate) files: Vec<FileEntry>,
}

/// The content of one file, or of the `.json` files of a folder, with the name of each.
pub(super) fn sheets(from: &Path) -> CommandResult<Vec<(String, ImportBundle)>> {
    let named = |error: std::io::Error| format!("{}: {error}", from.display());
    if !from.is_dir() {
        return Ok(vec![sheet(from)?]);
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(from).map_err(named)? {
        let path = entry.map_err(named)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    if paths.is_empty() || paths.len() > MAX_FILES {
        let count = paths.len();
        return Err(
            format!("{} has {count} .json files; 1 to {MAX_FILES} are allowed", from.display()).into()
        );
    }
    paths.sort();
    paths.iter().map(|path| sheet(path)).collect()
}

fn sheet(path: &Path) -> CommandResult<(String, ImportBundle)> {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (name, kind) = (part(path.file_name()), part(path.file_stem()));
    let read = read_text(path, MAX_BYTES).and_then(|text| parse(&kind, &text));
    Ok((name, read.map_err(|message| format!("{}: {message}", path.display()))?))
}

/// `kind` is the type of what does not say one.
pub(super) fn parse(kind: &str, text: &str) -> Result<ImportBundle, String> {
    // A record is held to less when it is stored; here it is still wrapped.
    if json_depth(text) > MAX_STORED_DEPTH {
        return Err(format!("nests deeper than {MAX_STORED_DEPTH} levels"));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match value {
        Value::Array(items) => {
            let records = items.into_iter().map(|item| entry(kind, item)).collect();
            Ok(ImportBundle { records, files: Vec::new() })
        }
        Value::Object(_) => serde_json::from_value(value).map_err(|error| error.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err("is neither an array of records nor an export; write [{\"type\": …, \"data\": {…}}, …]"
                .into())
        }
    }
}

/// An item that says its type, or the data of a record of the file's type.
fn entry(kind: &str, item: Value) -> RecordEntry {
    let says_type =
        item.get("type").is_some_and(Value::is_string) && item.get("data").is_some_and(Value::is_object);
    if says_type && let Ok(entry) = RecordEntry::deserialize(&item) {
        return entry;
    }
    RecordEntry { id: None, kind: kind.to_owned(), data: item }
}
