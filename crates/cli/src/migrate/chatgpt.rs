//! `ChatGPT`'s export: a list of conversations, each a tree of messages with a node that is shown.

use std::collections::HashSet;

use protocol::{ImportedCall, ThreadToImport};
use serde_json::{Map, Value, json};

use super::turns::{TurnBuilder, moment, text_of};
use super::{FoundItem, FoundMemory};

/// Messages of one conversation that are followed back.
const MAX_NODES: usize = 100_000;

/// The tool by which `ChatGPT` keeps memories.
const MEMORY_TOOL: &str = "bio";

/// The source that is noted for its memories.
const SOURCE: &str = "chatgpt";

/// The conversation of an entry as it is shown, and the memories that were kept in it.
pub(super) fn items(index: usize, entry: &Value) -> Vec<FoundItem> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let title = text("title");
    let problem = |what: &str| {
        let title = title.map(|title| format!(" ({title})")).unwrap_or_default();
        vec![FoundItem::Problem(format!("conversation {index}{title}: {what}"))]
    };
    let Some(id) = text("conversation_id").or_else(|| text("id")) else {
        return problem("has no conversation_id");
    };
    let Some(mapping) = entry.get("mapping").and_then(Value::as_object) else {
        return problem("has no mapping");
    };
    let leaf = text("current_node").or_else(|| newest_leaf(mapping));
    let Some(leaf) = leaf else { return problem("has no current_node") };
    let mut builder = TurnBuilder::default();
    let mut items = Vec::new();
    for message in path(mapping, leaf) {
        items.extend(add(&mut builder, message));
    }
    let turns = builder.into_turns();
    if !turns.is_empty() {
        let thread = ThreadToImport {
            source_id: format!("chatgpt:{id}"),
            title: title.map(one_line).filter(|title| !title.is_empty()),
            created_at: moment(entry.get("create_time")),
            turns,
        };
        items.push(FoundItem::Conversation(thread));
    }
    items
}

/// A title on one line, within what a thread takes.
pub(super) fn one_line(title: &str) -> String {
    let words = title.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(120).collect()
}

/// The leaf that was written last, where nothing says which one is shown.
fn newest_leaf(mapping: &Map<String, Value>) -> Option<&str> {
    let is_leaf = |node: &Value| node.get("children").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let time = |node: &Value| node.pointer("/message/create_time").and_then(Value::as_f64).unwrap_or(0.0);
    let leaves = mapping.iter().filter(|(_, node)| is_leaf(node));
    leaves.max_by(|one, other| time(one.1).total_cmp(&time(other.1))).map(|(id, _)| id.as_str())
}

/// The messages up to a node, oldest first.
fn path<'m>(mapping: &'m Map<String, Value>, leaf: &'m str) -> Vec<&'m Value> {
    let (mut messages, mut seen, mut next) = (Vec::new(), HashSet::new(), Some(leaf));
    while let Some(id) = next.filter(|id| seen.len() < MAX_NODES && seen.insert(*id)) {
        let Some(node) = mapping.get(id) else { break };
        messages.extend(node.get("message").filter(|message| !message.is_null()));
        next = node.get("parent").and_then(Value::as_str);
    }
    messages.reverse();
    messages
}

/// Adds a message to the turns. Gives the memories that it keeps.
fn add(builder: &mut TurnBuilder, message: &Value) -> Vec<FoundItem> {
    let role = message.pointer("/author/role").and_then(Value::as_str).unwrap_or_default();
    let name = message.pointer("/author/name").and_then(Value::as_str).unwrap_or("tool");
    let recipient = message.get("recipient").and_then(Value::as_str).unwrap_or("all");
    let is_hidden =
        message.pointer("/metadata/is_visually_hidden_from_conversation") == Some(&Value::Bool(true));
    let at = moment(message.get("create_time"));
    let text = content_text(message.get("content"));
    match role {
        "user" if !is_hidden && !text.trim().is_empty() => builder.user(&text, at),
        "assistant" if recipient == MEMORY_TOOL => return memories(&text, message),
        "assistant" if recipient != "all" => {
            let call = ImportedCall {
                id: message.get("id").and_then(Value::as_str).unwrap_or_default().to_owned(),
                name: recipient.to_owned(),
                input: json!({ "text": text }),
                result: None,
                failed: false,
            };
            builder.assistant("", vec![call], at);
        }
        "assistant" => builder.assistant(&text, Vec::new(), at),
        "tool" if name != MEMORY_TOOL && !text.trim().is_empty() => builder.result("", name, &text, false),
        // Instructions of the system are the app's here.
        _ => {}
    }
    Vec::new()
}

/// Returns the words of a message: its parts, or the text of code and of what a program printed. Thoughts are left out.
fn content_text(content: Option<&Value>) -> String {
    let Some(content) = content else { return String::new() };
    let kind = content.get("content_type").and_then(Value::as_str).unwrap_or("text");
    match kind {
        "thoughts" | "reasoning_recap" | "user_editable_context" | "model_editable_context" => String::new(),
        _ => match content.get("parts").or_else(|| content.get("text")) {
            Some(said) => text_of(said),
            None => text_of(content.get("result").unwrap_or(&Value::Null)),
        },
    }
}

/// The memories of a message to the tool that keeps them: one in each line, or one in JSON.
fn memories(text: &str, message: &Value) -> Vec<FoundItem> {
    let at = moment(message.get("create_time"));
    let in_json: Option<Value> = serde_json::from_str(text).ok();
    let content =
        in_json.as_ref().and_then(|json| json.get("content").or_else(|| json.get("text"))?.as_str());
    let lines = content.unwrap_or(text).lines().map(str::trim).filter(|line| !line.is_empty());
    let memory =
        |line: &str| FoundItem::Memory(FoundMemory { text: line.to_owned(), at, source: SOURCE.to_owned() });
    lines.map(memory).collect()
}
