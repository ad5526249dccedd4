//! Answers that cannot be anything but what was asked for: tokens that would break a schema, or call a tool in a way that
//! it does not take, are never chosen.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use model::{AnswerFormat, ToolSpec};
use serde_json::{Value, json};

use crate::llama::LlamaLoadError;
use crate::tokenizer::Tokenizer;
use crate::tool_choice::{NO_TOOL, simple_schema};

/// Marks around a call in an answer, as most models that call tools have learnt them.
pub(crate) const CALL_BEGIN: &str = "<tool_call>";
pub(crate) const CALL_END: &str = "</tool_call>";
/// Calls of one answer. A small model that may repeat itself does.
const MAX_CALLS: usize = 8;

/// Whether an answer may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    Free,
    Required,
}

/// Makes grammars for one vocabulary.
pub(crate) struct Grammars {
    factory: ParserFactory,
}

impl Grammars {
    pub(crate) fn new(tokenizer: &Tokenizer, vocabulary: usize) -> Result<Self, LlamaLoadError> {
        const UNSUPPORTED: LlamaLoadError = LlamaLoadError::Unsupported("vocabulary");
        let size = u32::try_from(vocabulary).map_err(|_| UNSUPPORTED)?;
        let end = *tokenizer
            .end_tokens()
            .first()
            .ok_or(LlamaLoadError::Unsupported("lack of a token that ends an answer"))?;
        let words: Vec<Vec<u8>> = (0..size).map(|token| word(tokenizer, token)).collect();
        let trie = TokTrie::from(&TokRxInfo::new(size, end), &words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&environment).map_err(|_| UNSUPPORTED)?;
        factory.quiet();
        Ok(Self { factory })
    }

    /// The matcher that holds an answer to its form, if it has one. The error says what in a schema cannot be followed.
    pub(crate) fn matcher(
        &self,
        format: &AnswerFormat,
        tools: &[ToolSpec],
        choice: ToolChoice,
    ) -> Result<Option<Matcher>, String> {
        let schema = match format {
            AnswerFormat::Text => None,
            AnswerFormat::Json => Some(compact(&json!({"type": "object"}))),
            AnswerFormat::Schema(schema) if schema.strict => Some(compact(&schema.schema)),
            AnswerFormat::Schema(schema) => Some(lenient_schema(&schema.schema)),
        };
        let grammar = match schema {
            None if tools.is_empty() => return Ok(None),
            Some(schema) if tools.is_empty() => TopLevelGrammar::from_json_schema(schema),
            schema => TopLevelGrammar::from_lark(with_calls(schema.as_ref(), tools, choice)),
        };
        let parser = self.factory.create_parser(grammar).map_err(|error| error.to_string())?;
        Ok(Some(Matcher::new(Ok(parser))))
    }
}

impl Grammars {
    /// The matcher for the choice of a tool: a tool's name with its arguments, or the word for none.
    pub(crate) fn choice<'a>(&self, tools: impl Iterator<Item = &'a ToolSpec>) -> Result<Matcher, String> {
        let mut rules = String::new();
        let mut start = Value::from(NO_TOOL).to_string();
        for (index, tool) in tools.enumerate() {
            let arguments = guided_schema(&simple_schema(&tool.parameters), &call_options());
            let head = Value::from(format!("{} ", tool.name));
            // Writing to a string cannot fail.
            let _ = write!(start, " | call_{index}");
            let _ = writeln!(rules, "call_{index}: {head} %json {arguments}");
        }
        let grammar = TopLevelGrammar::from_lark(format!("%llguidance {{}}\nstart: {start}\n{rules}"));
        let parser = self.factory.create_parser(grammar).map_err(|error| error.to_string())?;
        Ok(Matcher::new(Ok(parser)))
    }
}

/// How arguments of calls are written. The part of a schema that cannot be followed is left to the code that runs the
/// tool.
fn call_options() -> Value {
    json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ", "lenient": true})
}

/// The schema such that its JSON has no white space: a small model that may write some writes nothing else.
fn compact(schema: &Value) -> Value {
    guided_schema(schema, &json!({"whitespace_flexible": false}))
}

/// The schema such that its JSON has no white space; keywords that cannot be followed are left out of the grammar.
fn lenient_schema(schema: &Value) -> Value {
    guided_schema(schema, &json!({"whitespace_flexible": false, "lenient": true}))
}

fn guided_schema(schema: &Value, options: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(fields) = &mut schema {
        fields.insert("x-guidance".into(), options.clone());
    }
    schema
}

/// Either calls of these tools, which may follow words if words are what is asked for, or an answer without any.
fn with_calls(schema: Option<&Value>, tools: &[ToolSpec], choice: ToolChoice) -> String {
    let begin = Value::from(CALL_BEGIN);
    let end = Value::from(format!("\n{CALL_END}"));
    let more = Value::from(format!("\n{CALL_BEGIN}"));
    let mut grammar = String::from("%llguidance {}\n");
    // Writing to a string cannot fail.
    let _ = match (choice, schema) {
        (ToolChoice::Required, _) => writeln!(grammar, "start: {begin} calls"),
        (ToolChoice::Free, Some(schema)) => {
            writeln!(grammar, "start: {begin} calls | answer\nanswer: %json {schema}")
        }
        // The mark ends words wherever it appears, because it is looked for lazily.
        (ToolChoice::Free, None) => {
            writeln!(grammar, "start: WORDS | before calls\nbefore[lazy]: WORDS {begin}\nWORDS: /(.|\\n)*/")
        }
    };
    let _ = writeln!(grammar, "calls: call ({more} call){{0,{}}}", MAX_CALLS - 1);
    let names: Vec<String> = (0..tools.len()).map(|index| format!("call_{index}")).collect();
    let _ = writeln!(grammar, "call: {}", names.join(" | "));
    let options = call_options();
    for (rule, tool) in names.iter().zip(tools) {
        let head = Value::from(format!("\n{{\"name\": {}, \"arguments\": ", Value::from(tool.name.as_str())));
        let arguments = guided_schema(&tool.parameters, &options);
        let _ = writeln!(grammar, "{rule}: {head} %json {arguments} \"}}\" {end}");
    }
    grammar
}

/// The bytes of a token; those that are no text are marked as such.
fn word(tokenizer: &Tokenizer, token: u32) -> Vec<u8> {
    let bytes = tokenizer.token(token);
    let mark = tokenizer.is_control(token).then_some(TokTrie::SPECIAL_TOKEN_MARKER);
    mark.into_iter().chain(bytes.iter().copied()).collect()
}

/// Rules out every token that may not come next.
pub(crate) fn mask(matcher: &mut Matcher, scores: &mut [f32]) -> Result<(), String> {
    let mask = matcher.compute_mask_or_eos().map_err(|error| error.to_string())?;
    for (token, score) in (0..).zip(scores.iter_mut()) {
        if !mask.is_allowed(token) {
            *score = f32::NEG_INFINITY;
        }
    }
    Ok(())
}

/// Takes the token that was chosen. True if nothing can follow it.
pub(crate) fn accept(matcher: &mut Matcher, token: u32) -> Result<bool, String> {
    matcher.consume_token(token).map_err(|error| error.to_string())?;
    Ok(matcher.is_stopped())
}
