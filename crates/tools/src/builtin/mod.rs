//! Tools that come with Rondo and need nothing but themselves and the store.

mod calculate;
mod current_time;
mod documents;
mod markdown;
mod memory;
mod profile;
mod proposals;
mod read_rest;
mod records;
mod undo;

use serde_json::{Map, Value, json};

use crate::Failed;

pub(crate) use calculate::Calculate;
pub(crate) use current_time::CurrentTime;
pub(crate) use documents::SearchDocuments;
pub(crate) use markdown::{CreateMarkdownFile, ListMarkdown, ReadMarkdown, WriteMarkdownSection};
pub use memory::known_already;
pub(crate) use memory::{SaveMemory, SearchHistory, SearchMemories};
pub(crate) use profile::UpdateProfile;
pub(crate) use proposals::{CreateProposal, UpdateProposal};
pub(crate) use read_rest::ReadRest;
pub(crate) use records::RecordTool;
pub use records::{Reference, references};
pub(crate) use undo::{ListRecentActions, UndoAction};

/// A schema of an object with these properties and no others.
fn closed(properties: impl Into<Value>, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties.into(),
        "required": required,
        "additionalProperties": false,
    })
}

/// An argument that is a text.
fn text<'a>(input: &'a Value, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}

/// An argument that is a number of things.
fn count(input: &Value, name: &str) -> Option<usize> {
    input.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
}

/// The arguments of a call; the schema has made sure that they are an object.
fn object(input: &Value) -> Map<String, Value> {
    input.as_object().cloned().unwrap_or_default()
}

/// A store that cannot be asked. What is not there is for each tool to explain.
#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is turned into another")]
fn failed(error: store::Error) -> Failed {
    tracing::error!(%error, "a tool could not read the store");
    Failed::new("unavailable", "what is stored cannot be read at the moment; try again later")
}
