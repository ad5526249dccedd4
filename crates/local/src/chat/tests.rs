//! Tests of answering, with a model that is made up: what it says means nothing, but it must say it properly.

use std::sync::Arc;

use futures_util::{StreamExt, future};
use model::{AnswerFormat, AnswerPiece, PromptMessage, Schema};
use protocol::{Finish, Settings, Usage};
use serde_json::{Map, json};

use super::*;
use crate::tests::tiny;

fn chat(options: &LocalChatOptions) -> LocalChat {
    LocalChat::load(tiny::on_disk(&tiny::model()).path(), options).unwrap()
}

fn options() -> LocalChatOptions {
    // It knows few words, and says them again and again.
    LocalChatOptions { threads: Some(2), repeats: usize::MAX, ..LocalChatOptions::default() }
}

fn request(text: &str, tokens: u32) -> ModelRequest {
    let settings = Settings {
        max_tokens: Some(tokens),
        temperature: Some(0.0),
        repeat_penalty: Some(1.0),
        ..Settings::default()
    };
    let extra = Arc::new(Map::from_iter([("seed".into(), json!(5))]));
    ModelRequest { settings, extra, ..ModelRequest::new("tiny", "", vec![PromptMessage::User(text.into())]) }
}

/// Text, usage and the end.
async fn read(pieces: PieceStream) -> (String, Usage, Option<Finish>) {
    let pieces: Vec<_> = pieces.map(Result::unwrap).collect().await;
    let text = pieces
        .iter()
        .filter_map(|piece| if let AnswerPiece::Text(text) = piece { Some(text.as_str()) } else { None });
    let text = text.collect();
    let [.., AnswerPiece::Usage(usage), AnswerPiece::Finish(finish)] = pieces.as_slice() else {
        panic!("it ends with its usage and the reason: {pieces:?}")
    };
    (text, *usage, Some(*finish))
}

async fn answer(chat: &LocalChat, request: &ModelRequest) -> (String, Usage, Option<Finish>) {
    read(chat.stream(request).await.unwrap()).await
}

#[tokio::test]
async fn the_same_seed_gives_the_same_answer_whatever_else_is_asked() {
    let chat = chat(&LocalChatOptions { sequences: 3, ..options() });
    assert_eq!(chat.context(), tiny::CONTEXT as usize);
    let ask = |text| {
        let request = request(text, 40);
        ModelRequest { settings: Settings { temperature: Some(1.0), ..request.settings }, ..request }
    };
    let (alone, usage, _) = answer(&chat, &ask("hello")).await;
    assert_eq!(usage.cached_input_tokens, 0);
    let requests = ["hello", "world", "hello", "something rather longer than that", "hello"].map(ask);
    let streams = future::join_all(requests.iter().map(|request| chat.stream(request))).await;
    let answers = future::join_all(streams.into_iter().map(|stream| read(stream.unwrap()))).await;
    for index in [0, 2, 4] {
        assert_eq!(answers[index].0, alone, "answer {index}");
    }
    assert_ne!(answers[1].0, alone);
    let (again, usage, _) = answer(&chat, &ask("hello")).await;
    assert_eq!(
        (again, usage.cached_input_tokens),
        (alone, usage.input_tokens - 1),
        "all but the last is known"
    );
}

#[tokio::test]
async fn memory_is_reported_and_has_a_bound() {
    let chat = chat(&LocalChatOptions { sequences: 2, ..options() });
    let before = chat.memory();
    assert!(before.weights > 10_000 && before.cache == 0, "{before:?}");
    // Two layers with keys and values of 16 numbers.
    assert_eq!(before.max_cache, 2 * tiny::CONTEXT as usize * 2 * 2 * 16 * 4);
    for text in ["a", "b", "c", "d"] {
        answer(&chat, &request(&text.repeat(300), 4_000)).await;
    }
    let after = chat.memory();
    assert_eq!(
        (after.cache, after.weights),
        (before.max_cache, before.weights),
        "both are as long as they may be"
    );
}

/// Words, and calls with their arguments.
async fn called(chat: &LocalChat, request: &ModelRequest) -> (String, Vec<(String, Value)>, Option<Finish>) {
    let (mut words, mut calls, mut finish) = (String::new(), Vec::new(), None);
    for piece in chat.stream(request).await.unwrap().map(Result::unwrap).collect::<Vec<_>>().await {
        match piece {
            AnswerPiece::Text(text) => words.push_str(&text),
            AnswerPiece::CallStart { index, name, .. } => {
                assert_eq!(index, calls.len(), "they are counted");
                calls.push((name, Value::Null));
            }
            AnswerPiece::CallInput { index, json } => calls[index].1 = serde_json::from_str(&json).unwrap(),
            AnswerPiece::Finish(found) => finish = Some(found),
            AnswerPiece::Usage(_) => {}
            other @ (AnswerPiece::Reasoning(_)
            | AnswerPiece::CallsVoid
            | AnswerPiece::Model(_)
            | AnswerPiece::Provider(_)) => {
                panic!("{other:?}")
            }
        }
    }
    (words, calls, finish)
}

#[tokio::test]
async fn a_required_call_is_one_of_a_tool_that_there_is() {
    let chat = chat(&options());
    let parameters = json!({"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"], "additionalProperties": false});
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: parameters.clone(),
    };
    let mut request = request("x", 2_000);
    request.tools = Arc::new([tool("feel"), tool("think")]);
    request.settings.temperature = Some(2.0);
    for seed in 0..10 {
        let extra = [("seed".into(), json!(seed)), ("tool_choice".into(), json!("required"))];
        request.extra = Arc::new(Map::from_iter(extra));
        let (words, calls, finish) = called(&chat, &request).await;
        assert_eq!((words.as_str(), finish), ("", Some(Finish::ToolCalls)));
        assert!(!calls.is_empty());
        for (name, arguments) in calls {
            assert!(["feel", "think"].contains(&name.as_str()));
            assert!(jsonschema::is_valid(&parameters, &arguments), "{arguments}");
        }
    }
    let seeded = |choice: &str| {
        Arc::new(Map::from_iter([("seed".into(), json!(1)), ("tool_choice".into(), json!(choice))]))
    };
    request.extra = seeded("required");
    request.settings.max_tokens = Some(20);
    let (words, calls, finish) = called(&chat, &request).await;
    assert!(words.starts_with("<tool_call>\n") && calls.is_empty(), "what was cut is text: {words}");
    assert_eq!(finish, Some(Finish::Length));
    request.extra = seeded("none");
    let (words, calls, _) = called(&chat, &request).await;
    assert!(!words.is_empty() && calls.is_empty());
}

#[test]
fn calls_are_told_apart_from_words_wherever_the_text_is_cut() {
    let call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"</b>\"}}\n</tool_call>";
    let text = format!("I <add> now. {call}\n{call}");
    let expected =
        |index| calls::ChatAnswerPart::Call { index, name: "add".into(), json: "{\"a\":\"</b>\"}".into() };
    for size in 1..text.len() {
        let mut calls = CallScanner::default();
        let pieces: Vec<String> =
            text.as_bytes().chunks(size).map(|piece| String::from_utf8(piece.into()).unwrap()).collect();
        let parts: Vec<calls::ChatAnswerPart> = pieces.iter().flat_map(|piece| calls.push(piece)).collect();
        let (words, found): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| matches!(part, calls::ChatAnswerPart::Words(_)));
        let words: String = words
            .into_iter()
            .map(|part| if let calls::ChatAnswerPart::Words(text) = part { text } else { String::new() })
            .collect();
        assert_eq!((words.as_str(), found), ("I <add> now. ", vec![expected(0), expected(1)]), "{size}");
        assert!(calls.found_any() && calls.finish().is_empty());
    }
    let mut cut = CallScanner::default();
    assert_eq!(cut.push("Hm <tool"), [calls::ChatAnswerPart::Words("Hm ".into())]);
    assert_eq!(cut.push("_call>{\"na"), []);
    assert_eq!(cut.finish(), "<tool_call>{\"na");
}

#[tokio::test]
async fn an_answer_without_a_limit_of_its_own_and_one_that_goes_in_circles_end() {
    let chat = chat(&LocalChatOptions { answer: 12, repeats: 4, ..options() });
    let mut request = request("hello", 1500);
    let (_, usage, finish) = answer(&chat, &request).await;
    assert!((48..1500).contains(&usage.output_tokens), "{usage:?}");
    assert_eq!(finish, Some(Finish::Length));
    request.settings.max_tokens = None;
    let (_, usage, finish) = answer(&chat, &request).await;
    assert_eq!((usage.output_tokens, finish), (12, Some(Finish::Length)));
    request.max_output = Some(20);
    assert_eq!(answer(&chat, &request).await.1.output_tokens, 20);
}

#[tokio::test]
async fn a_long_prompt_is_read_in_parts_and_one_too_long_is_refused() {
    let chat = chat(&options());
    let (_, usage, _) = answer(&chat, &request(&"x".repeat(300), 1)).await;
    assert!(usage.input_tokens > 300 && usage.output_tokens == 1);
    let (_, usage, finish) = answer(&chat, &request(&"y".repeat(400), 4_000)).await;
    assert_eq!(
        (usage.total(), finish),
        (u64::from(tiny::CONTEXT), Some(Finish::Length)),
        "it fills the context"
    );
    for length in [tiny::CONTEXT as usize, 1 << 20] {
        let refused = chat.stream(&request(&"x".repeat(length), 1)).await.err();
        assert_eq!(refused, Some(Error::ContextLength));
    }
}

#[tokio::test]
async fn whatever_the_model_would_say_the_schema_holds() {
    let chat = chat(&options());
    let schema = json!({
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["mood", "count"],
        "additionalProperties": false,
    });
    for seed in 0..20 {
        let mut request = request("how are you?", 100);
        request.settings.temperature = Some(2.0);
        request.format = AnswerFormat::Schema(Arc::new(Schema {
            name: "mood".into(),
            schema: schema.clone(),
            strict: true,
        }));
        request.extra = Arc::new(Map::from_iter([("seed".into(), json!(seed))]));
        let (text, _, finish) = answer(&chat, &request).await;
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(jsonschema::is_valid(&schema, &value), "{value}");
        assert_eq!(finish, Some(Finish::Stop));
    }
}

#[tokio::test]
async fn a_full_queue_refuses_and_an_abandoned_answer_makes_room() {
    let chat = chat(&LocalChatOptions { sequences: 1, waiting: 1, ..options() });
    let mut first = chat.stream(&request("hello", 400)).await.unwrap();
    first.next().await;
    let second = chat.stream(&request("hello", 400)).await.unwrap();
    // The queue has one place, so of those that follow at most one gets in while the first is under way.
    let mut others = Vec::new();
    for _ in 0..2 {
        others.push(chat.stream(&request("hello", 400)).await);
    }
    let refused =
        others.iter().filter(|other| matches!(other, Err(Error::RateLimited { after: Some(_) }))).count();
    assert!(refused >= 1);
    drop((first, others));
    assert_eq!(read(second).await.1.output_tokens, 400);
}

#[tokio::test]
async fn a_file_that_is_no_model_is_refused() {
    let error = LocalChat::load(tiny::on_disk(b"nothing").path(), &options()).err().unwrap();
    assert_eq!(error.to_string(), "the file is not GGUF");
    let mut writer = tiny::GgufWriter::default();
    writer.text("tokenizer.ggml.model", "gpt2");
    assert!(LocalChat::load(tiny::on_disk(&writer.bytes()).path(), &options()).is_err());
}

#[test]
fn stop_texts_are_held_back_until_it_is_clear() {
    let mut stops = Stops::from_value(Some(&json!(["END", "é!", 5, ""])));
    let mut push = |text: &str| {
        let passed = stops.push(text);
        (passed.text, passed.stopped)
    };
    assert_eq!(push("a E"), ("a ".into(), false));
    assert_eq!(push("N"), (String::new(), false));
    assert_eq!(push("Eé"), ("ENE".into(), false));
    assert_eq!(push("?"), ("é?".into(), false));
    assert_eq!(push("xEND é!"), ("x".into(), true));
    assert_eq!(stops.finish(), "");
    let mut none = Stops::from_value(None);
    assert_eq!(none.push("END").text, "END");
}
