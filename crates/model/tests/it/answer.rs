//! Good answers, in the shapes in which they come.

use futures_util::StreamExt;
use model::{ChatModel, Piece};
use protocol::{Finish, Usage};
use serde_json::{Value, json};
use testkit::upstream::{Call, Gate, Reply, Upstream};

use crate::support::{PATIENT, answer_to, ask, client, hello, said};

fn usage(input_tokens: u64, output_tokens: u64) -> Piece {
    Piece::Usage(Usage { input_tokens, output_tokens, ..Usage::default() })
}

fn start(index: usize, id: Option<&str>, name: &str) -> Piece {
    Piece::CallStart { index, provider_id: id.map(Into::into), name: name.into() }
}

fn input(index: usize, json: &str) -> Piece {
    Piece::CallInput { index, json: json.into() }
}

#[tokio::test]
async fn text_and_reasoning() {
    let reply = Reply::stream().reasoning("Hm.").text("Hel").text("lo").usage(30, 7).finish("length");
    let expected = vec![
        Piece::Reasoning("Hm.".into()),
        said("Hel"),
        said("lo"),
        usage(30, 7),
        Piece::Finish(Finish::Length),
    ];
    assert_eq!(answer_to(reply, PATIENT).await, (expected, None));
}

#[tokio::test]
async fn two_parallel_calls() {
    let reply = Reply::stream()
        .call(Call::new("weather", r#"{"city":"Oslo"}"#).id("one").fragments(9))
        .call(Call::new("weather", r#"{"city":"Rome"}"#).id(""))
        .without_usage();
    let expected = vec![
        start(0, Some("one"), "weather"),
        input(0, r#"{"city":""#),
        input(0, r#"Oslo"}"#),
        start(1, None, "weather"),
        input(1, r#"{"city":"Rome"}"#),
        Piece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(answer_to(reply, PATIENT).await, (expected, None));
}

#[tokio::test]
async fn calls_without_an_index_and_a_wrong_reason() {
    let reply = Reply::stream()
        .call(Call::new("a", "").without_index())
        .call(Call::new("b", "{}").without_index())
        .finish("stop");
    let expected = vec![
        start(0, Some("call_0"), "a"),
        start(1, Some("call_1"), "b"),
        input(1, "{}"),
        usage(10, 5),
        Piece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(answer_to(reply, PATIENT).await, (expected, None));
}

#[tokio::test]
async fn another_model_than_asked_for() {
    let reply = Reply::says("x").model("m-mini").without_usage();
    let expected = vec![Piece::Model("m-mini".into()), said("x"), Piece::Finish(Finish::Stop)];
    assert_eq!(answer_to(reply, PATIENT).await, (expected, None));
}

#[tokio::test]
async fn without_the_farewell() {
    let expected = (vec![said("x"), usage(10, 5), Piece::Finish(Finish::Stop)], None);
    assert_eq!(answer_to(Reply::says("x").without_done(), PATIENT).await, expected);
    // The connection may hang or break once the reason is known.
    let stalls =
        Reply::says("x").without_end().chunk(json!({"choices": [{"finish_reason": "stop"}]})).stall();
    let short = model::Timeouts { idle: crate::support::SHORT, ..PATIENT };
    assert_eq!(answer_to(stalls, short).await, (vec![said("x"), Piece::Finish(Finish::Stop)], None));
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_it_is_split() {
    let reply = || Reply::stream().text("é🎵").call(Call::new("a", r#"{"é":"🎵"}"#)).without_usage();
    let whole = answer_to(reply(), PATIENT).await;
    assert_eq!(whole.1, None);
    assert_eq!(answer_to(reply().split_at(0..2000), PATIENT).await, whole);
}

#[tokio::test]
async fn pieces_arrive_as_they_are_sent() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script([Reply::stream().text("a").wait(&gate).text("b").without_usage()]);
    let mut stream = client(&upstream, PATIENT).stream(&hello()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(said("a"))));
    gate.reached().await;
    gate.open();
    assert_eq!(stream.next().await, Some(Ok(said("b"))));
    assert_eq!(stream.next().await, Some(Ok(Piece::Finish(Finish::Stop))));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let upstream = Upstream::start().await;
    upstream.program(|request| Reply::says(request["messages"][0]["content"].as_str().unwrap()));
    let client = client(&upstream, PATIENT);
    for _ in 0..5 {
        let (pieces, error) = ask(&client).await;
        assert_eq!((pieces.first(), error), (Some(&said("hello")), None));
    }
    assert_eq!((upstream.requests().len(), upstream.connections()), (5, 1));
}

fn completion(message: &Value, reason: &str) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_763_172_000,
        "model": "m",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    })
}

#[tokio::test]
async fn json_instead_of_a_stream() {
    let message = json!({"role": "assistant", "content": "Hi", "refusal": null});
    let expected = vec![said("Hi"), usage(3, 2), Piece::Finish(Finish::Stop)];
    let reply = Reply::json(&completion(&message, "stop"));
    assert_eq!(answer_to(reply, PATIENT).await, (expected, None));

    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "a", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call("x"), call("y")]});
    let expected = vec![
        start(0, Some("x"), "a"),
        input(0, "{}"),
        start(1, Some("y"), "a"),
        input(1, "{}"),
        usage(3, 2),
        Piece::Finish(Finish::ToolCalls),
    ];
    let reply = Reply::json(&completion(&message, "tool_calls"));
    assert_eq!(answer_to(reply, PATIENT).await, (expected, None));
}
