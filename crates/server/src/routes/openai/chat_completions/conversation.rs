//! The messages of a request as turns: what was said before, and what is asked now.

use protocol::{EarlierCall, EarlierStep, EarlierTurn, NewPart};
use serde_json::{Map, Value};

use super::super::content::{SentFile, file_part, image_part};
use super::super::results::SentResult;
use super::wire::{Content, ContentPart, RequestCall, RequestFunction, RequestMessage};
use crate::error::ApiProblem;

/// Messages of one request.
const MAX_MESSAGES: usize = 8_000;

/// The text between messages that become one.
const PARAGRAPH: &str = "\n\n";

/// A conversation as a client sends it.
#[derive(Debug, Default)]
pub(super) struct SentConversation {
    /// All system and developer messages together.
    pub(super) system: Option<String>,
    pub(super) turns: Vec<EarlierTurn>,
    pub(super) ask: ConversationAsk,
}

/// The end of a conversation.
#[derive(Debug, PartialEq)]
pub(super) enum ConversationAsk {
    /// A message of the user, which comes after the turns.
    Say { text: String, parts: Vec<NewPart> },
    /// Results of calls of the last turn, and the first message that is the result of no call there.
    Results { results: Vec<SentResult>, stray: Option<usize> },
}

impl Default for ConversationAsk {
    fn default() -> Self {
        Self::Results { results: Vec::new(), stray: None }
    }
}

impl SentConversation {
    pub(super) fn read(messages: Vec<RequestMessage>) -> Result<Self, ApiProblem> {
        if messages.len() > MAX_MESSAGES {
            return Err(ApiProblem::invalid("messages", format!("must be at most {MAX_MESSAGES}")));
        }
        let mut reader = ConversationReader::default();
        for (index, message) in messages.into_iter().enumerate() {
            reader.add(index, message)?;
        }
        reader.finish()
    }
}

#[derive(Debug, Default)]
struct ConversationReader {
    system: Vec<String>,
    turns: Vec<EarlierTurn>,
    /// The newest message, while it is the user's.
    newest: Option<(String, Vec<NewPart>)>,
    /// Results since the newest answer.
    results: Vec<SentResult>,
    stray: Option<usize>,
}

impl ConversationReader {
    fn add(&mut self, index: usize, message: RequestMessage) -> Result<(), ApiProblem> {
        let field = format!("messages[{index}]");
        match message.role.as_str() {
            "system" | "developer" => {
                let text = text_of(&field, message.content)?;
                self.system.extend(Some(text).filter(|text| !text.trim().is_empty()));
            }
            "user" => {
                let said = user_content(&field, message.content)?;
                self.end_question();
                (self.newest, self.results) = (Some(said), Vec::new());
            }
            "assistant" => self.answer(&field, message)?,
            "tool" => {
                let missing = || ApiProblem::invalid(format!("{field}.tool_call_id"), "is required");
                let call = message.tool_call_id.ok_or_else(missing)?;
                self.result(index, call, text_of(&field, message.content)?);
            }
            "function" => {
                let missing = || ApiProblem::invalid(format!("{field}.name"), "is required");
                let call = message.name.ok_or_else(missing)?;
                self.result(index, call, text_of(&field, message.content)?);
            }
            _ => {
                let message = "must be system, developer, user, assistant, tool or function";
                return Err(ApiProblem::invalid(format!("{field}.role"), message));
            }
        }
        Ok(())
    }

    /// Adds a message of the user that is not the last one to the turns. If the message before it has no answer, both
    /// are one turn.
    fn end_question(&mut self) {
        let Some((text, parts)) = self.newest.take() else { return };
        match self.turns.last_mut() {
            Some(turn) if turn.steps.is_empty() => {
                turn.text = format!("{}{PARAGRAPH}{text}", turn.text);
                turn.parts.extend(parts);
            }
            Some(_) | None => self.turns.push(EarlierTurn { text, parts, ..EarlierTurn::default() }),
        }
    }

    fn answer(&mut self, field: &str, message: RequestMessage) -> Result<(), ApiProblem> {
        self.end_question();
        let refusal = message.refusal.as_ref().and_then(Value::as_str).map(str::to_owned);
        let text = text_of(field, message.content)?;
        let text = if text.is_empty() { refusal.unwrap_or_default() } else { text };
        let calls = message.tool_calls.into_iter().flatten();
        let calls = calls.map(|RequestCall { id, function }| earlier_call(id, function));
        let named = message.function_call.map(|function| earlier_call(function.name.clone(), function));
        let step = EarlierStep { text, calls: calls.chain(named).collect() };
        self.results.clear();
        if step.text.trim().is_empty() && step.calls.is_empty() {
            return Ok(()); // an empty answer is no answer
        }
        if self.turns.is_empty() {
            self.turns.push(EarlierTurn::default());
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.steps.push(step);
        }
        Ok(())
    }

    fn result(&mut self, index: usize, call: String, output: String) {
        let steps = self.turns.last_mut().into_iter().flat_map(|turn| &mut turn.steps);
        let mut calls = steps.flat_map(|step| &mut step.calls);
        match calls.find(|made| made.id == call && made.result.is_none()) {
            Some(made) if self.newest.is_none() => made.result = Some(output.clone()),
            Some(_) | None => self.stray = self.stray.or(Some(index)),
        }
        self.results.push(SentResult { call, output });
    }

    fn finish(self) -> Result<SentConversation, ApiProblem> {
        let system = Some(self.system.join(PARAGRAPH)).filter(|text| !text.is_empty());
        let ask = match self.newest {
            Some((text, parts)) if self.results.is_empty() => ConversationAsk::Say { text, parts },
            _ if !self.results.is_empty() => {
                ConversationAsk::Results { results: self.results, stray: self.stray }
            }
            _ => {
                let message = "the last one must be the user's, or the result of a tool";
                return Err(ApiProblem::invalid("messages", message));
            }
        };
        if let (ConversationAsk::Say { .. }, Some(index)) = (&ask, self.stray) {
            return Err(stray_result(index));
        }
        Ok(SentConversation { system, turns: self.turns, ask })
    }
}

/// The refusal of a result without its call.
pub(super) fn stray_result(index: usize) -> ApiProblem {
    let message =
        "is the result of a call that is unknown here, and that no answer before it has in tool_calls";
    ApiProblem::invalid(format!("messages[{index}]"), message)
}

fn earlier_call(id: String, function: RequestFunction) -> EarlierCall {
    let arguments = function.arguments.unwrap_or_default();
    let input = if arguments.trim().is_empty() {
        Value::Object(Map::new())
    } else {
        serde_json::from_str(&arguments).unwrap_or(Value::String(arguments))
    };
    EarlierCall { id, name: function.name, input, result: None, failed: false }
}

/// The text of a message that has nothing else.
fn text_of(field: &str, content: Option<Content>) -> Result<String, ApiProblem> {
    let parts = match content {
        None => return Ok(String::new()),
        Some(Content::Text(text)) => return Ok(text),
        Some(Content::Parts(parts)) => parts,
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        match part.kind.as_str() {
            "text" => texts.extend(part.text),
            "refusal" => texts.extend(part.refusal),
            _ => {
                let field = format!("{field}.content[{index}].type");
                return Err(ApiProblem::invalid(field, "must be text in a message of this role"));
            }
        }
    }
    Ok(texts.join("\n"))
}

/// The text and the files of a message of the user.
fn user_content(field: &str, content: Option<Content>) -> Result<(String, Vec<NewPart>), ApiProblem> {
    let parts = match content {
        None => return Ok((String::new(), Vec::new())),
        Some(Content::Text(text)) => return Ok((text, Vec::new())),
        Some(Content::Parts(parts)) => parts,
    };
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for (index, part) in parts.into_iter().enumerate() {
        let field = format!("{field}.content[{index}]");
        if part.kind == "text" {
            texts.extend(part.text);
        } else {
            files.push(file_of(&field, part)?);
        }
    }
    Ok((texts.join("\n"), files))
}

fn file_of(field: &str, part: ContentPart) -> Result<NewPart, ApiProblem> {
    match (part.kind.as_str(), part.image_url, part.file) {
        ("image_url", Some(image), _) => image_part(&format!("{field}.image_url.url"), image.url),
        ("file", _, Some(file)) => {
            let file = SentFile { data: file.file_data, id: file.file_id, name: file.filename };
            file_part(&format!("{field}.file"), file)
        }
        ("image_url" | "file", _, _) => {
            Err(ApiProblem::invalid(format!("{field}.{}", part.kind), "is required"))
        }
        ("input_audio", _, _) => {
            Err(ApiProblem::invalid(format!("{field}.type"), "audio is not supported; send text"))
        }
        _ => Err(ApiProblem::invalid(format!("{field}.type"), "must be text, image_url or file")),
    }
}

#[cfg(test)]
mod tests;
