//! Tests of the question which tool a message needs.

use std::sync::Arc;

use model::{CallResult, Exchange};
use protocol::{Ids, TimeOrderedIds};
use serde_json::json;

use super::*;

fn time() -> ToolSpec {
    ToolSpec {
        name: "current_time".into(),
        description: "Tells the current time, such as 12:00. Nothing else.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "timezone": { "type": "string" }, "limit": { "type": "integer" }, "all": { "type": "boolean" },
            },
        }),
    }
}

fn request(message: &str) -> ModelRequest {
    let messages = vec![PromptMessage::User(message.into())];
    ModelRequest { tools: Arc::new([time()]), ..ModelRequest::new("m", "", messages) }
}

#[test]
fn a_message_that_no_tool_fits_is_no_question() {
    assert!(ToolQuestion::of(&request("Hello!")).is_none());
    let question = ToolQuestion::of(&request("What time is it in Tokyo?")).unwrap();
    let Some(PromptMessage::User(UserTurn { text: asked, .. })) = question.request.messages.last() else {
        panic!("no question")
    };
    assert_eq!(
        asked,
        "Functions:\ncurrent_time(timezone, limit, all): Tells the current time\nMessage: What time is it in Tokyo?"
    );
}

#[test]
fn a_call_has_only_arguments_that_were_said() {
    let question = ToolQuestion::of(&request("What time is it in Tokyo?")).unwrap();
    let call = question.decision(r#"current_time {"timezone": "Asia/Tokyo", "limit": 10}"#).unwrap();
    assert_eq!((call.name.as_str(), call.json.as_str()), ("current_time", r#"{"timezone":"Asia/Tokyo"}"#));
    let call = question.decision(r#"current_time {"timezone": "America/New_York"}"#).unwrap();
    assert_eq!(call.json, "{}");
    for words in [NO_TOOL, "", "other {}", "current_time {", "current_time"] {
        assert_eq!(question.decision(words), None, "{words}");
    }
}

#[test]
fn a_schema_keeps_what_is_required_and_simple() {
    let schema = json!({
        "type": "object", "required": ["steps"],
        "properties": { "steps": { "type": "array" }, "done": { "type": "boolean" }, "goal": { "type": "string" } },
    });
    let simple = simple_schema(&schema);
    let names: Vec<&String> = simple["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["steps", "goal"]);
}

#[test]
fn results_are_notes_to_the_message() {
    let after_calls = |message: &str, results: &[&str]| {
        let mut asked = request(message);
        for text in results {
            let result = CallResult { text: (*text).to_owned(), success: true };
            let exchange =
                Exchange { id: TimeOrderedIds.call(), name: "look".into(), input: json!({}), result };
            let exchanges = vec![exchange];
            asked.messages.push(PromptMessage::Assistant { text: String::new(), exchanges, provider: None });
        }
        with_results_as_notes(&asked)
    };
    let answer = "Answer my message in a sentence with this result. Do not write JSON.";
    let tell = "Say in a sentence to me (\"you\", \"your\") what this result tells. Do not write JSON.";
    let noted = format!("What time is it? \n\nResult of look: 12:00\n{answer}");
    assert_eq!(after_calls("What time is it? ", &["12:00"]), request(&noted));
    let noted = format!("I planted beans.\n\nResult of look: done\n{tell}");
    assert_eq!(after_calls("I planted beans.", &["done"]), request(&noted));
    let noted = format!("Why?\n\nResult of look: a\n{answer}\n\nResult of look: b\n{answer}");
    assert_eq!(after_calls("Why?", &["a", "b"]), request(&noted), "a note is no message");
    assert_eq!(with_results_as_notes(&request("Hello")), request("Hello"));
}

#[test]
fn a_question_may_stand_anywhere_in_a_message() {
    for message in
        ["Why?", "What does it say?\n[document: letter.pdf]", "(Really?) Be brief.", "天気は？教えて"]
    {
        assert!(has_question(message), "{message}");
    }
    for message in ["I planted beans.", "Read https://example.com/?page=2 for me.", ""] {
        assert!(!has_question(message), "{message}");
    }
}
