//! A conversation as the text a model was trained on, by the template in its file.

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind, context};
use minijinja_contrib::pycompat::unknown_method_callback;
use model::{Exchange, ModelRequest, PromptMessage, ToolSpec};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Value as Json, json};

use crate::grammar::{CALL_BEGIN, CALL_END};
use crate::tokenizer::Tokenizer;

/// Instructions that a template may take, so that none can run for ever.
const MAX_INSTRUCTIONS: u64 = 10_000_000;
const NAME: &str = "chat";
const MAX_INDENT: usize = 16;
const BLANK_LINE: &str = "\n\n";

/// A template that most small models understand, for files without one.
const CHAT_ML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + \
    '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Text about tools that models have seen in training, for templates that do not tell of tools.
const TOOLS_BEFORE: &str = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
    You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
const TOOLS_AFTER: &str = "\n</tools>\n\nFor each function call, return a json object with function name and \
    arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n\
    {\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    /// Whether it tells of tools and calls by itself, in the form that answers are held to.
    tells_tools: bool,
}

impl ChatTemplate {
    /// The file's own template, or one that most models understand if there is none that works.
    pub(crate) fn new(source: Option<&str>) -> Self {
        let mut environment = Environment::new();
        environment.set_fuel(Some(MAX_INSTRUCTIONS));
        if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
            environment.set_syntax(syntax);
        }
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_filter("tojson", to_json);
        if let Some(source) = source {
            match environment.add_template_owned(NAME, source.to_owned()) {
                Ok(()) => {
                    let takes = |template: minijinja::Template<'_, '_>| {
                        template.undeclared_variables(false).contains("tools")
                    };
                    let takes = environment.get_template(NAME).is_ok_and(takes);
                    return Self { environment, tells_tools: takes && source.contains(CALL_BEGIN) };
                }
                Err(error) => {
                    tracing::warn!(%error, "the model's template is not used, because it does not parse")
                }
            }
        }
        // It is a constant, and tests render it.
        let _ = environment.add_template(NAME, CHAT_ML);
        Self { environment, tells_tools: false }
    }

    /// The prompt, with nothing in it but what the template puts there that steers the model. The error is the
    /// template's, in words.
    pub(crate) fn render(
        &self,
        request: &ModelRequest,
        tools: &[ToolSpec],
        tokenizer: &Tokenizer,
    ) -> Result<String, String> {
        let text = |token: Option<u32>| token.map(|token| tokenizer.text(token)).unwrap_or_default();
        let clean = |list: Vec<Json>| {
            Serde(list.into_iter().map(|json| without_special_tokens(json, tokenizer)).collect::<Vec<_>>())
        };
        let (opening, turns) = request.opening();
        let system = joined_texts(std::iter::once(request.system.as_str()).chain(opening));
        let (messages, tools) = if self.tells_tools {
            (messages(&system, turns, calls_as_data), tools.iter().map(tool).collect())
        } else {
            (messages(&with_tools(&system, tools), turns, calls_as_text), Vec::new())
        };
        let values = context! {
            messages => Value::from(clean(messages)),
            tools => if tools.is_empty() { Value::from(()) } else { Value::from(clean(tools)) },
            add_generation_prompt => true,
            // Thoughts would stand in the answer.
            enable_thinking => false,
            bos_token => text(tokenizer.begin()),
            eos_token => text(tokenizer.end_tokens().first().copied()),
        };
        let template = self.environment.get_template(NAME).map_err(|error| error.to_string())?;
        template.render(values).map_err(|error| error.to_string())
    }
}

/// The texts with a blank line between them.
fn joined_texts<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    texts.join(BLANK_LINE)
}

/// The conversation in the words that templates know. How a turn with calls is put is the last argument's to say.
/// Templates know one system message, the first: later ones are part of the user's turn beside them.
fn messages(system: &str, turns: &[PromptMessage], called: fn(&str, &[Exchange]) -> Vec<Json>) -> Vec<Json> {
    let mut list = Vec::new();
    if !system.is_empty() {
        list.push(json!({"role": "system", "content": system}));
    }
    let mut after_system = false;
    for message in turns {
        match message {
            PromptMessage::System(text) => add_to_user(&mut list, text),
            // No local model sees images.
            PromptMessage::User(said) if after_system => add_to_user(&mut list, &said.text),
            PromptMessage::User(said) => list.push(json!({"role": "user", "content": said.text})),
            PromptMessage::Assistant { text, exchanges, provider: _ } if exchanges.is_empty() => {
                list.push(json!({"role": "assistant", "content": text}));
            }
            PromptMessage::Assistant { text, exchanges, provider: _ } => list.extend(called(text, exchanges)),
        }
        after_system = matches!(message, PromptMessage::System(_));
    }
    list
}

/// Adds to the user's turn if that is the last, and as a turn of theirs if it is not.
fn add_to_user(list: &mut Vec<Json>, text: &str) {
    let last = list.last_mut().filter(|last| last.get("role").is_some_and(|role| role == "user"));
    match last.and_then(|last| last.get_mut("content")) {
        Some(Json::String(said)) => *said = joined_texts([said.as_str(), text].into_iter()),
        Some(_) | None => list.push(json!({"role": "user", "content": text})),
    }
}

/// For a template that knows calls.
fn calls_as_data(text: &str, exchanges: &[Exchange]) -> Vec<Json> {
    let call = |exchange: &Exchange| json!({"type": "function", "function": function(exchange)});
    let calls: Vec<Json> = exchanges.iter().map(call).collect();
    let said = json!({"role": "assistant", "content": text, "tool_calls": calls});
    let result =
        |exchange: &Exchange| json!({"role": "tool", "name": exchange.name, "content": exchange.result.text});
    std::iter::once(said).chain(exchanges.iter().map(result)).collect()
}

/// For a template that does not: calls as the model wrote them, and results as if the user had.
fn calls_as_text(text: &str, exchanges: &[Exchange]) -> Vec<Json> {
    let call = |exchange: &Exchange| format!("{CALL_BEGIN}\n{}\n{CALL_END}", line(&function(exchange)));
    let calls = exchanges.iter().map(call);
    let said: Vec<String> =
        Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().chain(calls).collect();
    let result = |exchange: &Exchange| format!("<tool_response>\n{}\n</tool_response>", exchange.result.text);
    let results: Vec<String> = exchanges.iter().map(result).collect();
    vec![
        json!({"role": "assistant", "content": said.join("\n")}),
        json!({"role": "user", "content": results.join("\n")}),
    ]
}

fn function(exchange: &Exchange) -> Json {
    json!({"name": exchange.name, "arguments": exchange.input})
}

/// The system's words, with what it takes to call the tools.
fn with_tools(system: &str, tools: &[ToolSpec]) -> String {
    if tools.is_empty() {
        return system.to_owned();
    }
    let between = if system.is_empty() { "" } else { BLANK_LINE };
    let tools: String = tools.iter().map(|spec| format!("\n{}", line(&tool(spec)))).collect();
    format!("{system}{between}{TOOLS_BEFORE}{tools}{TOOLS_AFTER}")
}

/// The JSON without anything that would be read as a special token.
fn without_special_tokens(json: Json, tokenizer: &Tokenizer) -> Json {
    match json {
        Json::String(text) => Json::String(tokenizer.without_special_tokens(&text)),
        Json::Array(list) => list.into_iter().map(|item| without_special_tokens(item, tokenizer)).collect(),
        Json::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(key, value)| {
                    (tokenizer.without_special_tokens(&key), without_special_tokens(value, tokenizer))
                })
                .collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => json,
    }
}

fn tool(tool: &ToolSpec) -> Json {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}

/// JSON as Python writes it, which is what models have seen: a space after each comma and colon, and nothing escaped
/// that need not be.
#[expect(clippy::needless_pass_by_value, reason = "the signature that filters have")]
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let text = match indent {
        Some(indent) => {
            let spaces = vec![b' '; indent.min(MAX_INDENT)];
            format_json(value, PrettyFormatter::with_indent(&spaces))
        }
        None => format_json(value, Spaced),
    };
    text.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn format_json(value: &impl Serialize, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, formatter))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// JSON can always be written.
fn line(json: &Json) -> String {
    format_json(json, Spaced).unwrap_or_default()
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
