//! The choice between a tool call and an answer in words, as a question of its own.
//!
//! Small models that are told of tools in a long prompt call them at random, or never. So the model is first asked a short
//! question with examples: which of a few functions does this message need? Its answer is held to the name of a
//! function with arguments, or `none`. How well each function fits the message by its words adds to the model's scores.

mod arguments;
#[cfg(test)]
mod tests;

use model::{Exchange, ModelRequest, PromptMessage, ToolSpec, UserTurn, fitting_tools};
use protocol::Settings;
use serde_json::Value;

pub(crate) use arguments::simple_schema;

/// The answer that no function is needed.
pub(crate) const NO_TOOL: &str = "none";

/// Tools in one question.
const MAX_TOOLS: usize = 3;
/// Score for each point that a function fits by its words, and the points that count at most.
const FIT_WEIGHT: f32 = 0.6;
const MAX_FIT: f32 = 5.0;
/// The lead that a function needs over `none`. Chosen by the questions marked "tune" in `bench/data/local_models.json`.
const NEEDED_LEAD: f32 = 2.0;
/// Tokens of the longest call.
const MAX_CALL_TOKENS: u32 = 256;
/// Parameters that a question names.
const MAX_PARAMETERS: usize = 8;
/// Bytes of a message in the question.
const MAX_MESSAGE_BYTES: usize = 1000;

const SYSTEM: &str = "You decide whether a function is needed to answer a message. Answer with the name of the function \
    and its arguments as JSON, or with none if the message is a greeting, small talk, an opinion or a question of \
    general knowledge.";

/// Words behind the result that answers a question.
const ANSWER_WITH_RESULT: &str = "Answer my message in a sentence with this result. Do not write JSON.";

/// Words behind the result of another request. With the words for questions, small models repeat the request.
const TELL_RESULT: &str =
    "Say in a sentence to me (\"you\", \"your\") what this result tells. Do not write JSON.";

/// Question marks that stand nowhere but at the end of a question. The usual one also stands in addresses.
const OWN_QUESTION_MARKS: [char; 2] = ['？', '؟'];

const WEATHER: &str = "get_weather(city): Tells the weather in a city\nsend_mail(to, text): Sends an e-mail";
const ORDERS: &str =
    "work_out(formula): Works out a formula\nlist_orders(status): The orders of the customer";
const CONTACTS: &str = "add_contact(name, phone): Stores a person in the address book";

/// Functions, a message and the right answer.
const EXAMPLES: [(&str, &str, &str); 7] = [
    (WEATHER, "Will it rain in Rome today?", r#"get_weather {"city": "Rome"}"#),
    (WEATHER, "Hello, how are you?", NO_TOOL),
    (ORDERS, "How much is 12 percent of 350?", r#"work_out {"formula": "12 / 100 * 350"}"#),
    (ORDERS, "Who was the first president of the United States?", NO_TOOL),
    (ORDERS, "Which orders are still open?", r#"list_orders {"status": "open"}"#),
    (
        CONTACTS,
        "I have a new neighbour, Tom Reed, 555 0143.",
        r#"add_contact {"name": "Tom Reed", "phone": "555 0143"}"#,
    ),
    (WEATHER, "What does the word weather mean?", NO_TOOL),
];

/// The question which tool a message needs.
#[derive(Debug, Clone)]
pub(crate) struct ToolQuestion {
    /// The prompt, without tools of its own.
    pub(crate) request: ModelRequest,
    /// The tools that can be called, and what is added to the score of each of their names.
    pub(crate) tools: Vec<(ToolSpec, f32)>,
    message: String,
}

/// A decision for a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCallChoice {
    pub(crate) name: String,
    /// The arguments.
    pub(crate) json: String,
}

impl ToolQuestion {
    /// None if the request has no tool that fits its last message, or is no longer about a message of the user.
    pub(crate) fn of(request: &ModelRequest) -> Option<Self> {
        let Some(PromptMessage::User(UserTurn { text: message, .. })) = request.messages.last() else {
            return None;
        };
        let fits = fitting_tools(message, &request.tools, MAX_TOOLS);
        let tools: Vec<(ToolSpec, f32)> = fits
            .iter()
            .filter_map(|fit| {
                let lead = FIT_WEIGHT * fit.fit.min(MAX_FIT) - NEEDED_LEAD;
                Some((request.tools.get(fit.index)?.clone(), lead))
            })
            .collect();
        if tools.is_empty() {
            return None;
        }
        let settings =
            Settings { temperature: Some(0.0), max_tokens: Some(MAX_CALL_TOKENS), ..Settings::default() };
        let messages = messages(message, &tools);
        let request = ModelRequest { settings, ..ModelRequest::new(request.model.clone(), SYSTEM, messages) };
        Some(Self { request, tools, message: message.clone() })
    }

    /// The call that the model's answer asks for, without arguments that it made up.
    pub(crate) fn decision(&self, answer: &str) -> Option<ToolCallChoice> {
        let (name, json) = answer.trim().split_once(' ')?;
        let (tool, _) = self.tools.iter().find(|(tool, _)| tool.name == name)?;
        let written: Value = serde_json::from_str(json).ok()?;
        let arguments = arguments::without_inventions(written, &tool.parameters, &self.message);
        Some(ToolCallChoice { name: name.to_owned(), json: arguments.to_string() })
    }
}

/// The examples, then the real question. Examples come first, so that every question begins the same.
fn messages(message: &str, tools: &[(ToolSpec, f32)]) -> Vec<PromptMessage> {
    let answered = |(functions, message, answer): (&str, &str, &str)| {
        let text = answer.to_owned();
        let answer = PromptMessage::Assistant { text, exchanges: Vec::new(), provider: None };
        [PromptMessage::User(question(functions, message).into()), answer]
    };
    let shown = message.get(..message.floor_char_boundary(MAX_MESSAGE_BYTES)).unwrap_or(message);
    let functions: Vec<String> = tools.iter().map(|(tool, _)| signature(tool)).collect();
    let asked = PromptMessage::User(question(&functions.join("\n"), shown).into());
    EXAMPLES.into_iter().flat_map(answered).chain([asked]).collect()
}

fn question(functions: &str, message: &str) -> String {
    format!("Functions:\n{functions}\nMessage: {message}")
}

/// A tool in one line. Examples in its description are left out, because small models copy them.
fn signature(tool: &ToolSpec) -> String {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flatten().map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.take(MAX_PARAMETERS).collect();
    let end = [". ", ", such as", "; "].iter().filter_map(|mark| tool.description.find(mark)).min();
    let begin = end.and_then(|end| tool.description.get(..end)).unwrap_or(&tool.description);
    format!("{}({}): {}", tool.name, names.join(", "), begin.trim_end_matches('.'))
}

/// The request with calls and results as notes to the messages that they belong to. A small model that reads a call as it
/// was made writes it again; from a note it takes the result.
pub(crate) fn with_results_as_notes(request: &ModelRequest) -> ModelRequest {
    let mut messages: Vec<PromptMessage> = Vec::new();
    let mut task = TELL_RESULT;
    for message in &request.messages {
        if let PromptMessage::User(said) = message {
            task = if has_question(&said.text) { ANSWER_WITH_RESULT } else { TELL_RESULT };
        }
        match message {
            PromptMessage::Assistant { exchanges, .. } if !exchanges.is_empty() => {
                add_note(&mut messages, &format!("{}\n{task}", results(exchanges)));
            }
            PromptMessage::Assistant { .. } | PromptMessage::User(_) | PromptMessage::System(_) => {
                messages.push(message.clone());
            }
        }
    }
    ModelRequest { messages, ..request.clone() }
}

/// Whether a sentence of the message is a question. Its text may end in lines about documents and images.
fn has_question(text: &str) -> bool {
    let closing = |c: char| matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '*');
    let ends_question = |word: &str| word.trim_end_matches(closing).ends_with('?');
    text.contains(OWN_QUESTION_MARKS) || text.split_whitespace().any(ends_question)
}

fn results(exchanges: &[Exchange]) -> String {
    let line = |exchange: &Exchange| {
        let outcome = if exchange.result.success { "Result" } else { "Error" };
        format!("{outcome} of {}: {}", exchange.name, exchange.result.text)
    };
    let lines: Vec<String> = exchanges.iter().map(line).collect();
    lines.join("\n")
}

/// Adds to the newest message of the user.
fn add_note(messages: &mut Vec<PromptMessage>, note: &str) {
    let user = |message: &mut PromptMessage| match message {
        PromptMessage::User(said) => {
            said.text = format!("{}\n\n{note}", said.text);
            true
        }
        PromptMessage::System(_) | PromptMessage::Assistant { .. } => false,
    };
    if !messages.iter_mut().rev().any(user) {
        messages.push(PromptMessage::User(note.into()));
    }
}
