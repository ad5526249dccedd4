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
    let mut asked = request("What time is it?");
    let result = CallResult { text: "12:00".into(), success: true };
    let exchange =
        Exchange { id: TimeOrderedIds.call(), name: "current_time".into(), input: json!({}), result };
    asked.messages.push(PromptMessage::Assistant {
        text: String::new(),
        exchanges: vec![exchange],
        provider: None,
    });
    let noted = "What time is it?\n\nResult of current_time: 12:00\nAnswer my message in a sentence with this result. \
                 Do not write JSON.";
    assert_eq!(with_results_as_notes(&asked), request(noted));
    assert_eq!(with_results_as_notes(&request("Hello")), request("Hello"));
}
