//! Threads of `LangGraph`, as its server gives them: a thread or a state with `values.messages`, a list of those, or an
//! object with `threads` and with `items` of the store.

use protocol::{ImportedCall, ThreadToImport};
use serde_json::Value;

use super::chatgpt::one_line;
use super::turns::{TurnBuilder, arguments, moment, text_of};
use super::{FoundItem, FoundMemory};

/// Fields of an item of the store that have its text.
const TEXT_FIELDS: [&str; 4] = ["text", "content", "memory", "data"];

/// Returns the items of an entry of a file.
pub(super) fn items(index: usize, entry: &Value) -> Vec<FoundItem> {
    let list = |name: &str| entry.get(name).and_then(Value::as_array);
    if list("threads").is_some() || list("items").is_some() {
        let threads = list("threads").into_iter().flatten().enumerate();
        let threads = threads.map(|(index, thread)| conversation(&format!("threads[{index}]"), thread));
        let memories = list("items").into_iter().flatten().map(memory);
        return threads.flatten().chain(memories).collect();
    }
    if entry.get("namespace").is_some() && entry.get("value").is_some() {
        return vec![memory(entry)];
    }
    conversation(&format!("entry {index}"), entry).into_iter().collect()
}

fn conversation(place: &str, thread: &Value) -> Option<FoundItem> {
    let problem = |what: &str| Some(FoundItem::Problem(format!("{place}: {what}")));
    let id = ["/thread_id", "/checkpoint/thread_id", "/config/configurable/thread_id", "/metadata/thread_id"]
        .iter()
        .find_map(|path| thread.pointer(path).and_then(Value::as_str));
    let Some(id) = id else { return problem("has no thread_id") };
    let messages = thread.pointer("/values/messages").or_else(|| thread.get("messages"));
    let Some(messages) = messages.and_then(Value::as_array) else { return problem("has no values.messages") };
    let mut builder = TurnBuilder::default();
    for message in messages {
        add(&mut builder, message);
    }
    let title = ["/metadata/title", "/metadata/name", "/values/title"];
    let title = title.iter().find_map(|path| thread.pointer(path).and_then(Value::as_str));
    let thread = ThreadToImport {
        source_id: format!("langgraph:{id}"),
        title: title.map(one_line).filter(|title| !title.is_empty()),
        created_at: moment(thread.get("created_at")),
        turns: builder.into_turns(),
    };
    (!thread.turns.is_empty()).then_some(FoundItem::Conversation(thread))
}

/// Adds a message: as the server writes it, as `dumps` does (`kwargs`), or as `messages_to_dict` does (`data`).
fn add(builder: &mut TurnBuilder, message: &Value) {
    let body = message
        .get("kwargs")
        .or_else(|| message.get("data").filter(|data| data.is_object()))
        .unwrap_or(message);
    let class = message.get("id").and_then(Value::as_array).and_then(|path| path.last()?.as_str());
    let kind =
        body.get("type").or_else(|| message.get("type")).or_else(|| body.get("role")).and_then(Value::as_str);
    let text = text_of(body.get("content").unwrap_or(&Value::Null));
    match class.or(kind).unwrap_or_default() {
        "human" | "user" | "HumanMessage" => builder.user(&text, None),
        "ai" | "assistant" | "AIMessage" | "AIMessageChunk" => builder.assistant(&text, calls_of(body), None),
        "tool" | "ToolMessage" => {
            let field = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
            let name = Some(field("name")).filter(|name| !name.is_empty()).unwrap_or("tool");
            builder.result(field("tool_call_id"), name, &text, field("status") == "error");
        }
        _ => {}
    }
}

fn calls_of(body: &Value) -> Vec<ImportedCall> {
    let calls = body.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    let call = |call: &Value| {
        let function = call.get("function").unwrap_or(call);
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        ImportedCall {
            id: text(call, "id"),
            name: Some(text(function, "name"))
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "tool".into()),
            input: arguments(function.get("args").or_else(|| function.get("arguments"))),
            result: None,
            failed: false,
        }
    };
    calls.map(call).collect()
}

/// An item of the store: its text, or all of it as JSON.
fn memory(item: &Value) -> FoundItem {
    let value = item.get("value").unwrap_or(item);
    let text = TEXT_FIELDS.iter().find_map(|field| value.get(field)?.as_str()).or_else(|| value.as_str());
    let text = text.map_or_else(|| value.to_string(), str::to_owned);
    let namespace = item.get("namespace").and_then(Value::as_array).into_iter().flatten();
    let namespace: Vec<&str> = namespace.filter_map(Value::as_str).collect();
    let source = format!("langgraph:{}", namespace.join("/"));
    FoundItem::Memory(FoundMemory { text, at: moment(item.get("created_at")), source })
}
