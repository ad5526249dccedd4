//! Lines as the server sends them, and the pieces they come to.

mod encode;
mod socket;

use std::collections::VecDeque;

use protocol::{Finish, Usage};
use serde_json::{Value, json};

use super::decode::OllamaDecoder;
use crate::lines::LineSplitter;
use crate::reading::Decode;
use crate::tally::{MAX_ANSWER_BYTES, MAX_CALL_INPUT_BYTES};
use crate::{AnswerPiece, Error};

/// An answer with thinking and a call, byte for byte.
const ANSWER: &str = r#"{"model":"m","created_at":"2026-11-15T02:00:00.000000Z","message":{"role":"assistant","content":"","thinking":"Hmm"},"done":false}
{"model":"m","created_at":"2026-11-15T02:00:00.000000Z","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"index":0,"name":"get_weather","arguments":{"city":"Oslo"}}}]},"done":false}
{"model":"m","created_at":"2026-11-15T02:00:00.000000Z","message":{"role":"assistant","content":"Hi"},"done":false}
{"model":"m","created_at":"2026-11-15T02:00:00.000000Z","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":1,"load_duration":1,"prompt_eval_count":3,"prompt_eval_duration":1,"eval_count":2,"eval_duration":1}
"#;

/// Decodes lines, then the end of the stream: the pieces, and the error if there was one.
fn decode(lines: &[Value]) -> (Vec<AnswerPiece>, Option<Error>) {
    let mut decoder = OllamaDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let outcome = lines
        .iter()
        .try_for_each(|line| decoder.event("", &line.to_string(), &mut out))
        .and_then(|()| decoder.end(&mut out));
    (out.into(), outcome.err())
}

fn pieces(lines: &[Value]) -> Vec<AnswerPiece> {
    let (pieces, error) = decode(lines);
    assert_eq!(error, None);
    pieces
}

fn message(message: &Value) -> Value {
    json!({"model": "m", "message": message, "done": false})
}

fn text(content: &str) -> Value {
    message(&json!({"role": "assistant", "content": content}))
}

fn call(call: &Value) -> Value {
    message(&json!({"role": "assistant", "content": "", "tool_calls": [call]}))
}

fn done(reason: &str) -> Value {
    json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason})
}

fn said(text: &str) -> AnswerPiece {
    AnswerPiece::Text(text.into())
}

fn start(index: usize, id: Option<&str>, name: &str) -> AnswerPiece {
    AnswerPiece::CallStart { index, provider_id: id.map(Into::into), name: name.into() }
}

fn input(index: usize, json: &str) -> AnswerPiece {
    AnswerPiece::CallInput { index, json: json.into() }
}

fn stop() -> AnswerPiece {
    AnswerPiece::Finish(Finish::Stop)
}

fn broken(reason: &str) -> Option<Error> {
    Some(Error::Broken(reason.into()))
}

#[test]
fn an_answer_as_the_server_sends_it() {
    let (mut lines, mut decoder, mut out) =
        (LineSplitter::default(), OllamaDecoder::new("m", "test"), VecDeque::new());
    lines.feed(ANSWER.as_bytes(), |line| decoder.event("", line, &mut out)).unwrap();
    assert!(decoder.is_over());
    let expected = [
        AnswerPiece::Reasoning("Hmm".into()),
        start(0, Some("call_1"), "get_weather"),
        input(0, "{\"city\":\"Oslo\"}"),
        said("Hi"),
        AnswerPiece::Usage(Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() }),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(out, expected);
}

#[test]
fn a_whole_answer_is_one_line() {
    let mut decoder = OllamaDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let answer = json!({"model": "m:latest", "message": {"role": "assistant", "content": "Hi"}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2});
    decoder.whole_answer(&answer.to_string(), &mut out).and_then(|()| decoder.end(&mut out)).unwrap();
    let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
    assert_eq!(out, [AnswerPiece::Model("m:latest".into()), said("Hi"), AnswerPiece::Usage(usage), stop()]);
}

#[test]
fn odd_fields_do_not_cost_the_answer() {
    let lines = [
        json!({}),
        message(&json!(null)),
        message(&json!({"content": null, "thinking": null, "tool_calls": null})),
        message(&json!({"content": 5, "thinking": {}, "tool_calls": "x"})),
        json!({"model": null, "message": {"content": "\"\u{e9}\n🎵"}, "done": null}),
        json!({"done": true, "done_reason": null}),
    ];
    assert_eq!(pieces(&lines), [said("\"\u{e9}\n🎵"), stop()]);
}

#[test]
fn calls_come_whole_and_in_order() {
    let lines = [
        message(&json!({"tool_calls": [
            {"function": {"name": "a", "arguments": {"x": {"y": [1]}}}},
            {"id": "call_2", "function": {"index": 0, "name": "a", "arguments": "{\"z\":2}"}},
        ]})),
        call(&json!({"id": "call_2", "function": {"name": "b", "arguments": {}}})),
        call(&json!({"function": {"name": "c"}})),
        call(&json!({})),
        done("stop"),
    ];
    let expected = [
        start(0, None, "a"),
        input(0, "{\"x\":{\"y\":[1]}}"),
        start(1, Some("call_2"), "a"),
        input(1, "{\"z\":2}"),
        start(2, Some("call_2"), "b"),
        input(2, "{}"),
        start(3, None, "c"),
        start(4, None, ""),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(pieces(&lines), expected);
}

#[test]
fn every_reason_to_be_done() {
    let a_call = call(&json!({"function": {"name": "a"}}));
    for (reason, after_text, after_call) in [
        ("stop", Finish::Stop, Finish::ToolCalls),
        ("", Finish::Stop, Finish::ToolCalls),
        ("length", Finish::Length, Finish::Length),
        ("load", Finish::Stop, Finish::ToolCalls),
    ] {
        assert_eq!(
            pieces(&[text("x"), done(reason)]),
            [said("x"), AnswerPiece::Finish(after_text)],
            "{reason}"
        );
        assert_eq!(pieces(&[a_call.clone(), done(reason)])[1], AnswerPiece::Finish(after_call), "{reason}");
    }
    assert_eq!(pieces(&[done("stop")]), [stop()]);
}

#[test]
fn a_model_that_was_only_loaded_has_not_answered() {
    let loaded = Error::Unavailable { reason: "it only loaded the model".into(), after: None };
    assert_eq!(decode(&[done("load")]), (vec![], Some(loaded)));
}

#[test]
fn usage_that_cannot_be_true_is_ignored() {
    for (prompt, answer) in [
        (json!(-1), json!(7)),
        (json!(1), json!(18_446_744_073_709_551_615_u64)),
        (json!("1"), json!(7)),
        (json!(1), Value::Null),
    ] {
        let last = json!({"done": true, "prompt_eval_count": prompt, "eval_count": answer});
        assert_eq!(pieces(&[last]), [stop()]);
    }
}

#[test]
fn errors_in_the_stream_before_and_after_content() {
    let unavailable = Error::Unavailable { reason: "an error inside the stream".into(), after: None };
    for (notice, error) in [
        (json!({"error": "an unknown runner crashed"}), unavailable),
        (json!({"error": "the input is too long: exceeds context window"}), Error::ContextLength),
        (json!({"error": {"code": 429}}), Error::RateLimited { after: None }),
    ] {
        assert_eq!(decode(std::slice::from_ref(&notice)), (vec![], Some(error.clone())));
        assert_eq!(decode(&[text("x"), notice]), (vec![said("x")], Some(error)));
    }
}

#[test]
fn the_end_needs_a_last_line() {
    assert_eq!(decode(&[]), (vec![], broken("ended without a finish reason")));
    assert_eq!(decode(&[text("x")]), (vec![said("x")], broken("ended without a finish reason")));
    let odd = json!({"done": "true", "done_reason": "stop"});
    assert_eq!(decode(&[odd]), (vec![], broken("ended without a finish reason")));
}

#[test]
fn nothing_follows_the_end() {
    let mut decoder = OllamaDecoder::new("m", "test");
    let mut out = VecDeque::new();
    for data in ["", "\r", &done("stop").to_string(), &text("x").to_string(), "not json"] {
        assert_eq!(decoder.event("", data, &mut out), Ok(()));
    }
    assert_eq!(decoder.end(&mut out), Ok(()));
    assert_eq!(out, [stop()]);
}

#[test]
fn sizes_are_bounded() {
    let with = |bytes: usize| call(&json!({"function": {"name": "a", "arguments": "x".repeat(bytes)}}));
    assert_eq!(decode(&[with(MAX_CALL_INPUT_BYTES)]).0.len(), 2);
    let error = decode(&[with(MAX_CALL_INPUT_BYTES + 1)]).1;
    assert_eq!(error, broken("arguments longer than 1048576 bytes"));

    let fits = vec![text(&"x".repeat(1 << 20)); MAX_ANSWER_BYTES >> 20];
    assert_eq!(decode(&fits).0.len(), 16);
    for last in [message(&json!({"thinking": "x"})), call(&json!({}))] {
        let over = [fits.clone(), vec![last]].concat();
        assert_eq!(decode(&over).1, broken("an answer longer than 16777216 bytes"));
    }
}

#[test]
fn json_that_cannot_be_read() {
    for data in ["{", "3", "{}\n{}", "\u{fffd}", "null x", "data: {}"] {
        let outcome = OllamaDecoder::new("m", "test").event("", data, &mut VecDeque::new());
        assert_eq!(outcome.err(), broken("an event that cannot be read"), "{data:?}");
    }
}
