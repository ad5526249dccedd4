//! Answers that may be written: calls of the tools there are, words, or JSON, and nothing between.

use std::sync::Arc;

use model::Schema;

use super::*;
use crate::gguf::Gguf;
use crate::tests::tiny;

fn tool(name: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: String::new(), parameters }
}

fn tools() -> Vec<ToolSpec> {
    let count = json!({"type": "integer", "minimum": 1, "maximum": 9});
    let closed = json!({"type": "object", "properties": {"count": count}, "required": ["count"],
        "additionalProperties": false});
    let referring = json!({"type": "object", "properties": {"mood": {"$ref": "#/$defs/mood"}}, "required": ["mood"],
        "additionalProperties": false, "$defs": {"mood": {"enum": ["good", "bad"]}}});
    vec![tool("roll_dice", closed), tool("feel", referring)]
}

/// Whether the whole text may be an answer.
fn takes(format: &AnswerFormat, choice: ToolChoice, text: &str) -> bool {
    let file = tiny::on_disk(&tiny::model());
    let tokenizer = Tokenizer::load(&Gguf::open(file.path()).unwrap()).unwrap();
    let grammars = Grammars::new(&tokenizer, tokenizer.vocabulary()).unwrap();
    let mut matcher = grammars.matcher(format, &tools(), choice).unwrap().unwrap();
    let tokens = tokenizer.encode(text);
    let taken = matcher.try_consume_tokens(&tokens).unwrap();
    taken == tokens.len() && matcher.is_accepting().unwrap()
}

fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

#[test]
fn an_answer_in_words_may_call_the_tools_that_there_are() {
    let takes = |text: &str| takes(&AnswerFormat::Text, ToolChoice::Free, text);
    let rolled = call("roll_dice", r#"{"count": 3}"#);
    let felt = call("feel", r#"{"mood": "bad"}"#);
    for good in ["", "Hello <b> {\"a\": 1}\n", &rolled, &felt, &format!("Let me see.\n{rolled}\n{felt}")] {
        assert!(takes(good), "{good}");
    }
    for bad in [
        call("roll_die", r#"{"count": 3}"#),
        call("roll_dice", r#"{"count": 10}"#),
        call("roll_dice", r#"{"number": 3}"#),
        call("feel", r#"{"mood": "odd"}"#),
        format!("{rolled} There."),
        format!("Hello {CALL_BEGIN} again"),
        [rolled.as_str(); MAX_CALLS + 1].join("\n"),
    ] {
        assert!(!takes(&bad), "{bad}");
    }
    assert!(takes(&[rolled.as_str(); MAX_CALLS].join("\n")));
}

#[test]
fn a_call_that_is_required_leaves_no_words() {
    let takes = |text: &str| takes(&AnswerFormat::Text, ToolChoice::Required, text);
    assert!(takes(&call("feel", r#"{"mood": "good"}"#)));
    assert!(!takes("Hello") && !takes("") && !takes(&format!("So: {}", call("feel", r#"{"mood": "good"}"#))));
}

#[test]
fn a_schema_and_tools_leave_the_choice_between_the_two() {
    let schema = json!({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"],
        "additionalProperties": false});
    let format = AnswerFormat::Schema(Arc::new(Schema { name: "a".into(), schema, strict: true }));
    let takes = |text: &str| takes(&format, ToolChoice::Free, text);
    assert!(takes(r#"{"a":1}"#) && takes(&call("feel", r#"{"mood": "good"}"#)));
    assert!(!takes("Hello") && !takes(r#"{"a":2}"#));
}

#[test]
fn what_cannot_be_followed_in_a_tool_is_left_to_the_tool() {
    let file = tiny::on_disk(&tiny::model());
    let tokenizer = Tokenizer::load(&Gguf::open(file.path()).unwrap()).unwrap();
    let grammars = Grammars::new(&tokenizer, tokenizer.vocabulary()).unwrap();
    let odd = json!({"type": "object", "properties": {"a": {"type": "string", "format": "no-such"}},
        "dependentRequired": {"a": ["b"]}});
    assert!(grammars.matcher(&AnswerFormat::Text, &[tool("odd", odd)], ToolChoice::Free).is_ok());
    assert!(grammars.matcher(&AnswerFormat::Text, &[], ToolChoice::Free).unwrap().is_none());
    let absurd =
        grammars.matcher(&AnswerFormat::Text, &[tool("absurd", json!({"type": "none"}))], ToolChoice::Free);
    assert!(absurd.is_err());
}
