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

use std::sync::Arc;

use protocol::{Clock, Effect};
use serde_json::{Map, Value, json};

use self::calculate::Calculate;
use self::current_time::CurrentTime;
use self::documents::SearchDocuments;
use self::markdown::{CreateMarkdownFile, ListMarkdown, ReadMarkdown, WriteMarkdownSection};
use self::memory::{SaveMemory, SearchHistory, SearchMemories};
use self::profile::UpdateProfile;
use self::read_rest::ReadRest;
use self::undo::{ListRecentActions, UndoAction};
use crate::{Failed, OfferedTool, ToolFacts, ToolSpec};

pub use memory::known_already;
pub(crate) use proposals::{CreateProposal, UpdateProposal};
pub(crate) use records::RecordTypeTool;
pub use records::{Reference, references};

/// Results of a search of memories or documents: at most, and when nobody says how many.
const MAX_FOUND: usize = 20;
const DEFAULT_FOUND: usize = 5;
const MAX_QUERY_CHARS: usize = 1_000;

/// The tools that every app can list, each with its facts.
pub(crate) fn tools(clock: Arc<dyn Clock>) -> [OfferedTool; 14] {
    let read = ToolFacts::default;
    // Documents and results may hold anybody's words, although nothing is looked up outside the store.
    let foreign = || ToolFacts::external(Effect::Read);
    [
        OfferedTool::new(CurrentTime::new(clock), read()),
        OfferedTool::new(Calculate, read()),
        OfferedTool::new(ListMarkdown, read()),
        OfferedTool::new(ReadMarkdown, read()),
        OfferedTool::new(WriteMarkdownSection, ToolFacts::lasting("files")),
        OfferedTool::new(CreateMarkdownFile, ToolFacts::lasting("files")),
        OfferedTool::new(SearchDocuments, foreign()),
        OfferedTool::new(ReadRest, foreign()),
        OfferedTool::new(SearchMemories, read()),
        OfferedTool::new(SearchHistory, read()),
        OfferedTool::new(SaveMemory, ToolFacts::lasting("memories")),
        OfferedTool::new(UpdateProfile, ToolFacts::lasting("profile")),
        OfferedTool::new(UndoAction, ToolFacts::idempotent("undo")),
        OfferedTool::new(ListRecentActions, read()),
    ]
}

/// A tool as the model is told of it: an object with these properties and no others is what it takes.
pub(crate) fn closed_spec(
    name: &str,
    description: &str,
    properties: impl Into<Value>,
    required: &[&str],
) -> ToolSpec {
    let parameters = closed_schema(properties, required);
    ToolSpec { name: name.into(), description: description.into(), parameters }
}

/// A schema of an object with these properties and no others.
fn closed_schema(properties: impl Into<Value>, required: &[&str]) -> Value {
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

/// The words that a search is for.
fn query_schema(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS, "description": description })
}

fn limit_schema() -> Value {
    let description = format!("at most so many; {DEFAULT_FOUND} when absent");
    json!({ "type": "integer", "minimum": 1, "maximum": MAX_FOUND, "description": description })
}

/// How much a search gives.
fn found_limit(input: &Value) -> usize {
    count(input, "limit").unwrap_or(DEFAULT_FOUND).min(MAX_FOUND)
}

/// A row of the store, if it is there.
fn present<T>(found: Result<T, store::Error>) -> Result<Option<T>, Failed> {
    match found {
        Err(store::Error::NotFound(_)) => Ok(None),
        found => found.map(Some).map_err(failed),
    }
}

/// A store that cannot be asked. What is not there is for each tool to explain.
#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is turned into another")]
fn failed(error: store::Error) -> Failed {
    tracing::error!(%error, "a tool could not read the store");
    Failed::new("unavailable", "the stored data cannot be read at the moment; try again later")
}
