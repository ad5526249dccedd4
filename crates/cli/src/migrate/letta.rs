//! Letta's agent file (.af): agents with their messages, and blocks of memory. The older form, one agent alone, is read
//! too.

use protocol::{ImportedCall, ThreadToImport};
use serde_json::Value;

use super::chatgpt::one_line;
use super::turns::{TurnBuilder, arguments, moment, text_of};
use super::{FoundItem, FoundMemory};

/// The tool by which older agents say something.
const SPEAK: &str = "send_message";

/// The block that tells who the agent is, which is the instructions of an app here.
const PERSONA: &str = "persona";

/// Returns the items of a file: blocks as memories, and the messages of each agent as a conversation.
pub(super) fn items(file: &Value) -> Vec<FoundItem> {
    let list = |name: &str| file.get(name).and_then(Value::as_array);
    let mut items: Vec<FoundItem> = Vec::new();
    for block in list("blocks").or_else(|| list("core_memory")).into_iter().flatten() {
        items.extend(memories(block));
    }
    match list("agents") {
        Some(agents) => {
            for (index, agent) in agents.iter().enumerate() {
                items.extend(conversation(&format!("agents[{index}]"), agent));
            }
        }
        None if list("messages").is_some() => items.extend(conversation("the agent", file)),
        None => {
            let problem = "has neither agents nor messages; is it an agent file (.af)?";
            items.push(FoundItem::Problem(format!("the file {problem}")));
        }
    }
    items
}

/// The lines of a block, but for the one about the agent itself.
fn memories(block: &Value) -> Vec<FoundItem> {
    let label = block.get("label").and_then(Value::as_str).unwrap_or("block");
    let value = block.get("value").and_then(Value::as_str).unwrap_or_default();
    if label == PERSONA {
        return Vec::new();
    }
    let lines = value.lines().map(|line| line.trim().trim_start_matches(['-', '*']).trim());
    let memory = |line: &str| {
        let source = format!("letta:{label}");
        FoundItem::Memory(FoundMemory { text: line.to_owned(), at: None, source })
    };
    lines
        .filter(|line| line.chars().any(char::is_alphanumeric) && !line.starts_with('#'))
        .map(memory)
        .collect()
}

fn conversation(place: &str, agent: &Value) -> Option<FoundItem> {
    let text = |name: &str| agent.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let messages = agent.get("messages").and_then(Value::as_array).filter(|messages| !messages.is_empty())?;
    let Some(id) = text("id").or_else(|| text("name")) else {
        return Some(FoundItem::Problem(format!("{place}: has neither an id nor a name")));
    };
    let mut builder = TurnBuilder::default();
    for message in messages {
        add(&mut builder, message);
    }
    let turns = builder.into_turns();
    let thread = ThreadToImport {
        source_id: format!("letta:{id}"),
        title: text("name").map(one_line),
        created_at: None,
        turns,
    };
    (!thread.turns.is_empty()).then_some(FoundItem::Conversation(thread))
}

fn add(builder: &mut TurnBuilder, message: &Value) {
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    let at = moment(message.get("created_at"));
    let content = message.get("content").or_else(|| message.get("text")).unwrap_or(&Value::Null);
    let text = text_of(content);
    match role {
        "user" => {
            if let Some(said) = said_by_user(&text) {
                builder.user(&said, at);
            }
        }
        "assistant" => {
            let (spoken, calls) = calls_of(message);
            // Text that such an agent writes beside a call that speaks is thought, not said.
            builder.assistant(if spoken.is_empty() && calls.is_empty() { &text } else { &spoken }, calls, at);
        }
        "tool" => {
            for (id, result, failed) in returns_of(message, &text) {
                builder.result(&id, tool_name(message), &result, failed);
            }
        }
        _ => {}
    }
}

fn tool_name(message: &Value) -> &str {
    message.get("name").and_then(Value::as_str).unwrap_or("tool")
}

/// The words of the user. They may be wrapped in an object with the time; events of the system are no words.
fn said_by_user(text: &str) -> Option<String> {
    let wrapped: Option<Value> = serde_json::from_str(text).ok().filter(Value::is_object);
    match wrapped {
        None => Some(text.to_owned()),
        Some(wrapped) => match wrapped.get("type").and_then(Value::as_str) {
            Some("user_message") => Some(wrapped.get("message").map(text_of).unwrap_or_default()),
            Some("heartbeat" | "login" | "system_alert") => None,
            Some(_) | None => Some(text.to_owned()),
        },
    }
}

/// Returns the words that an assistant says by a call, and its other calls.
fn calls_of(message: &Value) -> (String, Vec<ImportedCall>) {
    let (mut spoken, mut calls) = (Vec::new(), Vec::new());
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        let name = function.get("name").and_then(Value::as_str).unwrap_or("tool");
        let input = arguments(function.get("arguments"));
        if name == SPEAK {
            spoken.extend(input.get("message").and_then(Value::as_str).map(str::to_owned));
            continue;
        }
        let id = call.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        calls.push(ImportedCall { id, name: name.to_owned(), input, result: None, failed: false });
    }
    (spoken.join("\n"), calls)
}

/// The results that a message of a tool has: id of the call, text, and whether it failed. The result of a call that
/// speaks is left out.
fn returns_of(message: &Value, text: &str) -> Vec<(String, String, bool)> {
    let id_of =
        |value: &Value| value.get("tool_call_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    if tool_name(message) == SPEAK {
        return Vec::new();
    }
    let returns = message.get("tool_returns").and_then(Value::as_array).filter(|returns| !returns.is_empty());
    if let Some(returns) = returns {
        let result = |one: &Value| {
            let said = one.get("func_response").map_or_else(|| text.to_owned(), text_of);
            let id = Some(id_of(one)).filter(|id| !id.is_empty()).unwrap_or_else(|| id_of(message));
            let (said, failed) = unwrapped_result(&said);
            (id, said, failed || one.get("status").and_then(Value::as_str) == Some("error"))
        };
        return returns.iter().map(result).collect();
    }
    let (said, failed) = unwrapped_result(text);
    vec![(id_of(message), said, failed)]
}

/// A result without the object with status and time around it.
fn unwrapped_result(text: &str) -> (String, bool) {
    let wrapped: Option<Value> = serde_json::from_str(text).ok();
    let status = wrapped.as_ref().and_then(|wrapped| wrapped.get("status")?.as_str());
    match (status, wrapped.as_ref().and_then(|wrapped| wrapped.get("message"))) {
        (Some(status @ ("OK" | "Failed")), Some(said)) => {
            let said = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
            (said, status == "Failed")
        }
        _ => (text.to_owned(), false),
    }
}
