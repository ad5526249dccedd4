//! A question to the user, which the client shows. The run waits for the answer.

use std::collections::HashSet;

use async_trait::async_trait;
use serde_json::Value;

use super::text;
use crate::{Calling, Failed, Tool, ToolOutput};

/// The name of the tool. No other tool can have it.
pub const ASK_USER: &str = "ask_user";

/// Bytes of an answer in the user's own words.
const MAX_ANSWER_BYTES: usize = 8 * 1024;

/// The forms of an answer, for who has sent another.
const FORMS: &str = "must be {\"answer\": TEXT} or {\"choices\": [TEXT]}";

pub(crate) struct AskUser;

#[async_trait]
impl Tool for AskUser {
    /// Blanks are no question, and no choice.
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        let is_blank = |text: &str| text.trim().is_empty();
        if is_blank(text(&calling.input, "question").unwrap_or_default())
            || choices(&calling.input).iter().any(|choice| is_blank(choice))
        {
            return Err(Failed::new("invalid_arguments", "the question and each choice must have words"));
        }
        Ok(())
    }

    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        Err(Failed::client_only())
    }
}

/// Whether a result answers the question of a call; if not, why, in words for the client.
pub(crate) fn check_user_answer(input: &Value, result: &Value) -> Result<(), String> {
    let fields = result.as_object().filter(|fields| fields.len() == 1).ok_or(FORMS)?;
    if let Some(answer) = fields.get("answer") {
        let answer = answer.as_str().ok_or(FORMS)?;
        if answer.trim().is_empty() {
            return Err("answer is empty".into());
        }
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(format!("answer must be at most {MAX_ANSWER_BYTES} bytes"));
        }
        return Ok(());
    }
    let chosen = fields.get("choices").and_then(Value::as_array).ok_or(FORMS)?;
    let chosen: Vec<&str> =
        chosen.iter().map(|choice| choice.as_str().ok_or(FORMS)).collect::<Result<_, _>>()?;
    let offered = choices(input);
    if offered.is_empty() {
        return Err("the question offers no choices; send {\"answer\": TEXT}".into());
    }
    if chosen.iter().any(|choice| !offered.contains(choice)) {
        return Err(format!("choices must be among the offered ones: {}", offered.join(", ")));
    }
    if chosen.iter().collect::<HashSet<_>>().len() != chosen.len() {
        return Err("choices names one choice twice".into());
    }
    let several = input.get("multiple").and_then(Value::as_bool).unwrap_or(false);
    match chosen.len() {
        0 => Err("choices is empty; choose one, or send {\"answer\": TEXT}".into()),
        1 => Ok(()),
        _ if several => Ok(()),
        _ => Err("choices must name one choice only".into()),
    }
}

/// The choices that a question offers.
fn choices(input: &Value) -> Vec<&str> {
    let choices = input.get("choices").and_then(Value::as_array);
    choices.map(|choices| choices.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_free_or_among_the_choices() {
        let one = json!({ "question": "Which?", "choices": ["red", "blue"] });
        let several = json!({ "question": "Which?", "choices": ["red", "blue"], "multiple": true });
        let free = json!({ "question": "Which?" });
        for (input, result) in [
            (&free, json!({ "answer": "green" })),
            (&one, json!({ "answer": "green" })),
            (&one, json!({ "choices": ["red"] })),
            (&several, json!({ "choices": ["blue", "red"] })),
        ] {
            assert_eq!(check_user_answer(input, &result), Ok(()), "{result}");
        }
        for (input, result, reason) in [
            (&free, json!("green"), FORMS),
            (&free, json!({}), FORMS),
            (&free, json!({ "answer": 1 }), FORMS),
            (&free, json!({ "answer": "a", "more": 1 }), FORMS),
            (&free, json!({ "answer": " " }), "answer is empty"),
            (&free, json!({ "answer": "x".repeat(8193) }), "answer must be at most 8192 bytes"),
            (&free, json!({ "choices": ["red"] }), "the question offers no choices; send {\"answer\": TEXT}"),
            (&one, json!({ "choices": ["green"] }), "choices must be among the offered ones: red, blue"),
            (&one, json!({ "choices": [1] }), FORMS),
            (&one, json!({ "choices": [] }), "choices is empty; choose one, or send {\"answer\": TEXT}"),
            (&one, json!({ "choices": ["red", "blue"] }), "choices must name one choice only"),
            (&several, json!({ "choices": ["red", "red"] }), "choices names one choice twice"),
        ] {
            assert_eq!(check_user_answer(input, &result).unwrap_err(), reason, "{result}");
        }
    }
}
