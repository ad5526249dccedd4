//! The conversation as Anthropic wants it: every call is answered in the very next message, and nothing is empty.

use serde_json::Value;

use super::super::{
    Complaint, Object, RequestCheck, elements_of, fields, images, is_name, object, refuse, text,
};
use super::{MAX_NAME_BYTES, Version};

pub(super) fn check(body: &Object, version: Version) -> RequestCheck {
    let messages = elements_of(body.get("messages").unwrap_or(&Value::Null), "messages")?;
    let mut turns = Turns::default();
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages.{at}");
        let message = object(message, &place)?;
        fields(message, &["role", "content"], &place)?;
        let role = match text(message, "role", &place)? {
            "user" => AnthropicRole::User,
            "assistant" => AnthropicRole::Assistant,
            "system" if version == Version::V2026 => AnthropicRole::System,
            other => return refuse(format!("messages: Unexpected role \"{other}\".")),
        };
        let last = at + 1 == messages.len();
        turns.message(role, message.get("content").unwrap_or(&Value::Null), &place, last)?;
    }
    turns.close()?;
    unfinished_thinking(body, messages)
}

/// An image with its data in it.
fn check_image_block(block: &Object, place: &str) -> RequestCheck {
    fields(block, &["type", "source", "cache_control"], place)?;
    let place = format!("{place}.image.source");
    let source = object(block.get("source").unwrap_or(&Value::Null), &place)?;
    fields(source, &["type", "media_type", "data"], &place)?;
    if text(source, "type", &place)? != "base64" {
        return refuse(format!("{place}.type: Input should be 'base64'"));
    }
    images::check_image(text(source, "media_type", &place)?, text(source, "data", &place)?, &place)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnthropicRole {
    User,
    Assistant,
    System,
}

/// The demands of the messages so far on the next one.
#[derive(Default)]
struct Turns<'a> {
    before: Option<AnthropicRole>,
    /// Calls of the message before, which this one must answer.
    open: Vec<&'a str>,
    /// Calls of this message.
    called: Vec<&'a str>,
    /// Every call, whose ids must differ.
    ids: Vec<&'a str>,
}

impl<'a> Turns<'a> {
    fn message(&mut self, role: AnthropicRole, content: &'a Value, place: &str, last: bool) -> RequestCheck {
        match (self.before, role) {
            (None, AnthropicRole::Assistant) => {
                return refuse("messages: first message must use the \"user\" role");
            }
            (Some(AnthropicRole::Assistant), AnthropicRole::Assistant) => {
                return refuse("messages: roles must alternate between \"user\" and \"assistant\"");
            }
            (_, AnthropicRole::User | AnthropicRole::Assistant | AnthropicRole::System) => {}
        }
        self.before = Some(role);
        self.open = std::mem::take(&mut self.called);
        let Value::String(said) = content else {
            self.blocks(role, elements_of(content, &format!("{place}.content"))?, place)?;
            return self.check_answered(place);
        };
        if said.is_empty() {
            return refuse(format!("{place}: all messages must have non-empty content"));
        }
        if last && role == AnthropicRole::Assistant && said.ends_with(char::is_whitespace) {
            return refuse("messages: final assistant content cannot end with trailing whitespace");
        }
        self.check_answered(place)
    }

    fn blocks(&mut self, role: AnthropicRole, blocks: &'a [Value], place: &str) -> RequestCheck {
        let mut others = false;
        for (at, block) in blocks.iter().enumerate() {
            let place = format!("{place}.content.{at}");
            let block = object(block, &place)?;
            match (text(block, "type", &place)?, role) {
                ("text", _) => check_text_block(block, &place)?,
                ("thinking" | "redacted_thinking", AnthropicRole::Assistant) => thought(block, &place)?,
                ("tool_use", AnthropicRole::Assistant) => self.call(block, &place)?,
                ("tool_result", AnthropicRole::User) if others => {
                    return refuse(format!("{place}: `tool_result` blocks must come first"));
                }
                ("tool_result", AnthropicRole::User) => {
                    self.result(block, &place)?;
                    continue;
                }
                ("image", AnthropicRole::User) => check_image_block(block, &place)?,
                ("document", AnthropicRole::User) => {}
                (kind, _) => return refuse(format!("{place}: `{kind}` blocks are not allowed here")),
            }
            others = true;
        }
        Ok(())
    }

    fn call(&mut self, block: &'a Object, place: &str) -> RequestCheck {
        fields(block, &["type", "id", "name", "input", "cache_control"], place)?;
        let id = text(block, "id", place)?;
        if !is_name(id, usize::MAX) {
            return refuse(format!("{place}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
        }
        if self.ids.contains(&id) {
            return refuse(format!("{place}: `tool_use` ids must be unique"));
        }
        if !is_name(text(block, "name", place)?, MAX_NAME_BYTES) {
            return refuse(format!("{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"));
        }
        object(block.get("input").unwrap_or(&Value::Null), &format!("{place}.input"))?;
        self.ids.push(id);
        self.called.push(id);
        Ok(())
    }

    fn result(&mut self, block: &'a Object, place: &str) -> RequestCheck {
        fields(block, &["type", "tool_use_id", "content", "is_error", "cache_control"], place)?;
        let id = text(block, "tool_use_id", place)?;
        if block.get("is_error").is_some_and(|error| !error.is_boolean()) {
            return refuse(format!("{place}.is_error: Input should be a valid boolean"));
        }
        for (at, part) in block.get("content").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let place = format!("{place}.content.{at}");
            let part = object(part, &place)?;
            if part.get("type").is_some_and(|kind| kind == "text") {
                check_text_block(part, &place)?;
            }
        }
        if let Some(at) = self.open.iter().position(|open| *open == id) {
            self.open.remove(at);
            return Ok(());
        }
        refuse(format!(
            "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must \
             have a corresponding `tool_use` block in the previous message."
        ))
    }

    /// The message is over: it must have answered the calls of the one before.
    fn check_answered(&self, place: &str) -> RequestCheck {
        if self.open.is_empty() {
            return Ok(());
        }
        refuse(format!(
            "{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` \
             block must have a corresponding `tool_result` block in the next message.",
            self.open.join(", ")
        ))
    }

    /// There is no message more.
    fn close(mut self) -> RequestCheck {
        self.open = std::mem::take(&mut self.called);
        self.check_answered("messages")
    }
}

fn check_text_block(block: &Object, place: &str) -> RequestCheck {
    fields(block, &["type", "text", "cache_control", "citations"], place)?;
    let said = text(block, "text", place)?;
    if said.is_empty() {
        return refuse("messages: text content blocks must be non-empty");
    }
    if said.trim().is_empty() {
        return refuse("messages: text content blocks must contain non-whitespace text");
    }
    Ok(())
}

fn thought(block: &Object, place: &str) -> RequestCheck {
    if block.contains_key("data") {
        fields(block, &["type", "data"], place)?;
        return text(block, "data", place).map(drop);
    }
    fields(block, &["type", "thinking", "signature"], place)?;
    text(block, "thinking", place)?;
    if text(block, "signature", place)?.is_empty() {
        return refuse(format!("{place}: Invalid `signature` in `thinking` block"));
    }
    Ok(())
}

/// While a turn with tools is under way, what the model thought before its calls must be there if it is to think on.
fn unfinished_thinking(body: &Object, messages: &[Value]) -> Result<(), Complaint> {
    let enabled =
        body.get("thinking").is_some_and(|thinking| thinking.get("type") == Some(&"enabled".into()));
    let kinds = |message: Option<&Value>| -> Vec<String> {
        let blocks = message.and_then(|message| message.get("content")?.as_array());
        let kind = |block: &Value| block.get("type").and_then(Value::as_str).map(Into::into);
        blocks.into_iter().flatten().filter_map(kind).collect()
    };
    let under_way = kinds(messages.last()).first().is_some_and(|kind| kind == "tool_result");
    let before = messages.len().checked_sub(2).and_then(|at| messages.get(at));
    let thought = kinds(before).first().is_some_and(|kind| kind.ends_with("thinking"));
    if enabled && under_way && !thought {
        return refuse(
            "messages: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a \
             final `assistant` message must start with a thinking block.",
        );
    }
    Ok(())
}
