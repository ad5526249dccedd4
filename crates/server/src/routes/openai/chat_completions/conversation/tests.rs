//! Messages of every role as turns.

use serde_json::json;

use super::*;

fn read(messages: Value) -> Result<SentConversation, String> {
    let messages = serde_json::from_value(messages).map_err(|error| error.to_string())?;
    SentConversation::read(messages)
        .map_err(|problem| format!("{}: {}", problem.field().unwrap_or_default(), problem.detail()))
}

fn say(text: &str) -> ConversationAsk {
    ConversationAsk::Say { text: text.to_owned(), parts: Vec::new() }
}

fn step(text: &str) -> EarlierStep {
    EarlierStep { text: text.to_owned(), calls: Vec::new() }
}

#[test]
fn roles_become_turns() {
    let read = read(json!([
        { "role": "system", "content": "Be brief." },
        { "role": "assistant", "content": "Welcome!" },
        { "role": "user", "content": "one" },
        { "role": "developer", "content": [{ "type": "text", "text": "In English." }] },
        { "role": "user", "content": [{ "type": "text", "text": "two" }, { "type": "text", "text": "three" }] },
        { "role": "assistant", "content": null, "refusal": "I cannot." },
        { "role": "user", "content": "four" },
    ]))
    .unwrap();
    assert_eq!(read.system.as_deref(), Some("Be brief.\n\nIn English."));
    let turn = |text: &str, steps: Vec<EarlierStep>| EarlierTurn {
        text: text.to_owned(),
        steps,
        ..EarlierTurn::default()
    };
    let expected = [turn("", vec![step("Welcome!")]), turn("one\n\ntwo\nthree", vec![step("I cannot.")])];
    assert_eq!(read.turns, expected);
    assert_eq!(read.ask, say("four"));
}

#[test]
fn calls_get_their_results() {
    let call =
        |id: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "" } });
    let messages = json!([
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": "Let me see.", "tool_calls": [call("a"), call("b")] },
        { "role": "tool", "tool_call_id": "b", "content": "second" },
        { "role": "tool", "tool_call_id": "a", "content": [{ "type": "text", "text": "first" }] },
        { "role": "assistant", "function_call": { "name": "g", "arguments": "not json" } },
        { "role": "function", "name": "g", "content": "third" },
    ]);
    let read = read(messages).unwrap();
    let made = |id: &str, name: &str, input: Value, result: &str| EarlierCall {
        id: id.into(),
        name: name.into(),
        input,
        result: Some(result.into()),
        failed: false,
    };
    let first = vec![made("a", "f", json!({}), "first"), made("b", "f", json!({}), "second")];
    let second = vec![made("g", "g", json!("not json"), "third")];
    assert_eq!(read.turns[0].steps[0], EarlierStep { text: "Let me see.".into(), calls: first });
    assert_eq!(read.turns[0].steps[1], EarlierStep { text: String::new(), calls: second });
    let results = vec![SentResult { call: "g".into(), output: "third".into() }];
    assert_eq!(read.ask, ConversationAsk::Results { results, stray: None });
}

#[test]
fn a_result_without_its_call_is_kept_apart() {
    let alone = read(json!([{ "role": "tool", "tool_call_id": "x", "content": "r" }])).unwrap();
    let results = vec![SentResult { call: "x".into(), output: "r".into() }];
    assert_eq!(alone.ask, ConversationAsk::Results { results, stray: Some(0) });
    let in_the_middle = json!([
        { "role": "user", "content": "a" },
        { "role": "tool", "tool_call_id": "x", "content": "r" },
        { "role": "user", "content": "b" },
    ]);
    assert!(read(in_the_middle).unwrap_err().starts_with("messages[1]: is the result of a call"));
}

#[test]
fn files_are_parts_and_other_addresses_are_refused() {
    let with = |part: Value| read(json!([{ "role": "user", "content": [part] }]));
    let image = with(json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } }));
    let part = NewPart::Image { image_id: None, url: Some("data:image/png;base64,AA==".into()), name: None };
    assert_eq!(image.unwrap().ask, ConversationAsk::Say { text: String::new(), parts: vec![part] });
    for (part, problem) in [
        (
            json!({ "type": "image_url", "image_url": { "url": "https://a.example/b.png" } }),
            "messages[0].content[0].image_url.url: the server fetches no address",
        ),
        (json!({ "type": "image_url" }), "messages[0].content[0].image_url: is required"),
        (json!({ "type": "file", "file": {} }), "messages[0].content[0].file: the file has no file_data"),
        (
            json!({ "type": "file", "file": { "file_id": "file-abc" } }),
            "messages[0].content[0].file: file_id must be the id",
        ),
        (json!({ "type": "input_audio" }), "messages[0].content[0].type: audio is not supported"),
        (json!({ "type": "video" }), "messages[0].content[0].type: must be text"),
    ] {
        let refused = with(part.clone()).unwrap_err();
        assert!(refused.starts_with(problem), "{part} {refused}");
    }
}

#[test]
fn a_conversation_without_a_question_is_refused() {
    for messages in [
        json!([]),
        json!([{ "role": "system", "content": "x" }]),
        json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]),
    ] {
        let refused = read(messages).unwrap_err();
        assert_eq!(refused, "messages: the last one must be the user's, or the result of a tool");
    }
    assert!(read(json!([{ "role": "robot" }])).unwrap_err().starts_with("messages[0].role: must be"));
}
