//! Tools that come with Rondo and need nothing but themselves and the store.

mod ask_user;
mod calculate;
mod current_time;
mod documents;
mod markdown;
mod memory;
mod profile;
mod proposals;
mod read_rest;
mod records;
#[cfg(test)]
mod tests;
mod undo;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use protocol::{Clock, Effect};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::ask_user::AskUser;
use self::calculate::Calculate;
use self::current_time::CurrentTime;
use self::documents::SearchDocuments;
use self::markdown::{CreateMarkdownFile, ListMarkdown, ReadMarkdown, WriteMarkdownSection};
use self::memory::{SaveMemory, SearchHistory, SearchMemories};
use self::profile::UpdateProfile;
use self::read_rest::ReadRest;
use self::undo::{ListRecentActions, UndoAction};
use crate::{Failed, OfferedTool, Tool, ToolFacts, ToolSpec};

pub use ask_user::ASK_USER;
pub(crate) use ask_user::check_user_answer;
pub use documents::SEARCH_DOCUMENTS;
pub use memory::known_already;
pub use proposals::CREATE_PROPOSAL;
pub(crate) use proposals::{CreateProposal, UpdateProposal};
pub(crate) use records::RecordTypeTool;
pub use records::{Reference, references};

/// Results of a search of memories or documents: at most, and when the call names no number.
const MAX_FOUND: usize = 20;
const DEFAULT_FOUND: usize = 5;

/// The descriptions of the built-in tools for the model, by name.
static SPECS: LazyLock<BTreeMap<String, BuiltinSpec>> =
    LazyLock::new(|| serde_json::from_str(include_str!("specs.json")).unwrap_or_default());

/// An entry of `specs.json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BuiltinSpec {
    description: String,
    parameters: Value,
}

/// The tools that every app can list, each with its facts.
pub(crate) fn tools(clock: Arc<dyn Clock>) -> [OfferedTool; 15] {
    let read = ToolFacts::default;
    // Documents and results may hold words of any author, although nothing is looked up outside the store.
    let foreign = || ToolFacts::external(Effect::Read);
    [
        builtin_tool("current_time", CurrentTime::new(clock), read()),
        builtin_tool("calculate", Calculate, read()),
        builtin_tool("listMarkdown", ListMarkdown, read()),
        builtin_tool("readMarkdown", ReadMarkdown, read()),
        builtin_tool("writeMarkdownSection", WriteMarkdownSection, ToolFacts::lasting("files")),
        builtin_tool("createMarkdownFile", CreateMarkdownFile, ToolFacts::lasting("files")),
        builtin_tool(SEARCH_DOCUMENTS, SearchDocuments, foreign()),
        builtin_tool("read_rest", ReadRest, foreign()),
        builtin_tool("search_memories", SearchMemories, read()),
        builtin_tool("search_history", SearchHistory, read()),
        builtin_tool("save_memory", SaveMemory, ToolFacts::lasting("memories")),
        builtin_tool("update_profile", UpdateProfile, ToolFacts::lasting("profile")),
        builtin_tool("undoAction", UndoAction, ToolFacts::idempotent("undo")),
        builtin_tool("listRecentActions", ListRecentActions, read()),
        // The answer is the user's own words, as a message is.
        builtin_tool(ASK_USER, AskUser, ToolFacts { by_client: true, ..ToolFacts::default() }),
    ]
}

fn builtin_tool(name: &str, tool: impl Tool, facts: ToolFacts) -> OfferedTool {
    OfferedTool::new(spec(name), tool, facts)
}

/// A built-in tool as the model is told of it.
pub(crate) fn spec(name: &str) -> ToolSpec {
    let BuiltinSpec { description, parameters } = SPECS.get(name).cloned().unwrap_or_default();
    ToolSpec { name: name.to_owned(), description, parameters }
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

/// How much a search gives.
fn found_limit(input: &Value) -> usize {
    count(input, "limit").unwrap_or(DEFAULT_FOUND).min(MAX_FOUND)
}

/// A row of the store, if it is there.
fn found_or_none<T>(found: Result<T, store::Error>) -> Result<Option<T>, Failed> {
    match found {
        Err(store::Error::NotFound(_)) => Ok(None),
        found => found.map(Some).map_err(store_failure),
    }
}

/// A store that cannot be asked. A thing that is not there is for each tool to explain.
#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is turned into another")]
fn store_failure(error: store::Error) -> Failed {
    tracing::error!(%error, "a tool could not read the store");
    Failed::new("unavailable", "the stored data cannot be read at the moment; try again later")
}
