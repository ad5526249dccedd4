//! Streams as servers send them, and the pieces they come to.

use std::collections::VecDeque;

use protocol::{Finish, Usage};
use serde_json::{Value, json};

use super::decode::ChatDecoder;
use super::{Quirks, TokenLimit};
use crate::reading::Decode;
use crate::tally::{MAX_ANSWER_BYTES, MAX_CALL_INPUT_BYTES};
use crate::{AnswerPiece, Error};

/// Decodes chunks, then the end of the stream: the pieces, and the error if there was one.
fn decode(chunks: &[Value]) -> (Vec<AnswerPiece>, Option<Error>) {
    let mut decoder = ChatDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let outcome = chunks
        .iter()
        .try_for_each(|chunk| decoder.event("", &chunk.to_string(), &mut out))
        .and_then(|()| decoder.end(&mut out));
    (out.into(), outcome.err())
}

fn pieces(chunks: &[Value]) -> Vec<AnswerPiece> {
    let (pieces, error) = decode(chunks);
    assert_eq!(error, None);
    pieces
}

fn delta(delta: &Value) -> Value {
    json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
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

fn call(index: usize, id: &str, name: &str, arguments: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn text_in_every_shape() {
    let chunks = [
        delta(&json!({"role": "", "content": ""})),
        delta(&json!({"content": "a"})),
        delta(&json!({"content": "\"\u{e9}\n🎵"})),
        delta(&json!({"content": null, "refusal": null, "tool_calls": null})),
        delta(&json!({"content": [{"type": "text", "text": "p"}, {"type": "image"}, {"text": "q"}]})),
        json!({"id": null, "model": null, "choices": null}),
        json!({}),
        json!({"choices": [{"delta": null}]}),
        json!({"choices": [{"delta": {"content": "d"}, "message": {"role": "assistant", "content": "whole"}}]}),
        finish("stop"),
    ];
    let expected =
        [said("a"), said("\"\u{e9}\n🎵"), said("pq"), said("d"), AnswerPiece::Finish(Finish::Stop)];
    assert_eq!(pieces(&chunks), expected);
}

#[test]
fn reasoning_has_two_names() {
    let chunks = [
        delta(&json!({"reasoning_content": "one"})),
        delta(&json!({"reasoning": "two"})),
        delta(&json!({"reasoning_content": "both", "reasoning": "both"})),
        delta(&json!({"reasoning_content": "", "reasoning": "three", "content": "said"})),
        finish("stop"),
    ];
    let thought = |text: &str| AnswerPiece::Reasoning(text.into());
    let expected = [
        thought("one"),
        thought("two"),
        thought("both"),
        thought("three"),
        said("said"),
        AnswerPiece::Finish(Finish::Stop),
    ];
    assert_eq!(pieces(&chunks), expected);
}

#[test]
fn parallel_calls_are_told_apart_by_index() {
    let part = |index: usize, text: &str| {
        delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}))
    };
    let chunks = [
        delta(&json!({"content": null, "tool_calls": [call(0, "call_1", "weather", "")]})),
        part(0, "{\"city\":"),
        delta(&json!({"tool_calls": [call(1, "call_2", "weather", "{\"city\":\"Rome\"}")]})),
        part(0, "\"Oslo\"}"),
        finish("tool_calls"),
    ];
    let expected = [
        start(0, Some("call_1"), "weather"),
        input(0, "{\"city\":"),
        start(1, Some("call_2"), "weather"),
        input(1, "{\"city\":\"Rome\"}"),
        input(0, "\"Oslo\"}"),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(pieces(&chunks), expected);
}

#[test]
fn calls_without_an_index_begin_with_their_name() {
    let chunks = [
        delta(&json!({"tool_calls": [
            {"id": "", "function": {"name": "a", "arguments": "{}"}},
            {"function": {"name": "a", "arguments": {"x": 1}}},
        ]})),
        delta(&json!({"tool_calls": [{"function": {"name": "b"}}]})),
        delta(&json!({"tool_calls": [{"function": {"arguments": "{}"}}]})),
        finish("stop"),
    ];
    let expected = [
        start(0, None, "a"),
        input(0, "{}"),
        start(1, None, "a"),
        input(1, "{\"x\":1}"),
        start(2, None, "b"),
        input(2, "{}"),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(pieces(&chunks), expected);
}

#[test]
fn odd_indices_and_ids() {
    let long = "é".repeat(200);
    let chunks = [
        delta(&json!({"tool_calls": [call(7, "same", "a", "")]})),
        delta(&json!({"tool_calls": [call(7, "same", "a", "{}")]})), // repeats itself
        delta(&json!({"tool_calls": [call(7, "other", "b", "{}")]})), // a new call under an old index
        delta(&json!({"tool_calls": [call(9, "same", "c", "")]})),   // a new call under an old id
        delta(&json!({"tool_calls": [call(3, &long, "d", "")]})),
        delta(&json!({"tool_calls": [{"index": 4, "id": null, "function": null}]})),
        finish("tool_calls"),
    ];
    let expected = [
        start(0, Some("same"), "a"),
        input(0, "{}"),
        start(1, Some("other"), "b"),
        input(1, "{}"),
        start(2, Some("same"), "c"),
        start(3, Some(&"é".repeat(128)), "d"),
        start(4, None, ""),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(pieces(&chunks), expected);
}

#[test]
fn many_calls_are_passed_on() {
    let mut chunks: Vec<Value> =
        (0..10_000).map(|n| delta(&json!({"tool_calls": [call(n, "x", "a", "{}")]}))).collect();
    chunks.push(finish("tool_calls"));
    assert_eq!(pieces(&chunks).len(), 20_001);
}

#[test]
fn what_a_call_carries_is_kept_for_the_provider() {
    let signature = json!({"google": {"thought_signature": "c2ln"}});
    let chunks = [
        delta(&json!({"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]})),
        delta(
            &json!({"tool_calls": [{"function": {"name": "b", "arguments": "{}"}, "extra_content": signature}]}),
        ),
        finish("tool_calls"),
    ];
    let found = pieces(&chunks);
    assert_eq!(found[4], AnswerPiece::Provider(json!({"provider": "test", "extra": {"1": signature}})));
}

#[test]
fn every_finish_reason() {
    for (reason, expected) in [
        ("stop", Finish::Stop),
        ("eos", Finish::Stop),
        ("tool_calls", Finish::Stop), // but there are none
        ("length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
    ] {
        let chunks = [delta(&json!({"content": "x"})), finish(reason), finish("")];
        assert_eq!(pieces(&chunks), [said("x"), AnswerPiece::Finish(expected)], "{reason}");
    }
    for (reason, expected) in [
        ("stop", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
    ] {
        let chunks = [delta(&json!({"tool_calls": [call(0, "i", "a", "{")]})), finish(reason)];
        assert_eq!(pieces(&chunks).last(), Some(&AnswerPiece::Finish(expected)), "{reason}");
    }
    let gave_up =
        Error::Unavailable { reason: "it stopped before the end of the answer".into(), after: None };
    assert_eq!(decode(&[finish("error")]), (vec![], Some(gave_up)));
}

#[test]
fn a_refusal_is_text_and_ends_as_filtered() {
    let chunks = [delta(&json!({"refusal": "I "})), delta(&json!({"refusal": "won't."})), finish("stop")];
    assert_eq!(pieces(&chunks), [said("I "), said("won't."), AnswerPiece::Finish(Finish::ContentFilter)]);
    let chunks = [delta(&json!({"content": "yes", "refusal": false})), finish("stop")];
    assert_eq!(pieces(&chunks), [said("yes"), AnswerPiece::Finish(Finish::Stop)]);
}

#[test]
fn usage_comes_anywhere_before_the_finish() {
    let usage = json!({
        "prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37,
        "prompt_tokens_details": {"cached_tokens": 20}, "completion_tokens_details": {"reasoning_tokens": 4},
    });
    let expected = AnswerPiece::Usage(Usage {
        input_tokens: 30,
        output_tokens: 7,
        cached_input_tokens: 20,
        reasoning_tokens: 4,
        ..Usage::default()
    });
    let own = [finish("stop"), json!({"choices": [], "usage": usage})];
    let last = [json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage})];
    for chunks in [&own[..], &last[..]] {
        assert_eq!(pieces(chunks), [expected.clone(), AnswerPiece::Finish(Finish::Stop)]);
    }
}

#[test]
fn usage_that_cannot_be_true_is_ignored() {
    for usage in [
        json!({"prompt_tokens": -1, "completion_tokens": 7}),
        json!({"prompt_tokens": 1, "completion_tokens": 18_446_744_073_709_551_615_u64}),
        json!({"prompt_tokens": 1.5, "completion_tokens": 7}),
        json!({"prompt_tokens": "1", "completion_tokens": 7}),
        json!({"prompt_tokens": 1}),
        json!({}),
        json!("none"),
    ] {
        let chunks = [finish("stop"), json!({"choices": [], "usage": usage})];
        assert_eq!(pieces(&chunks), [AnswerPiece::Finish(Finish::Stop)], "{usage}");
    }
    let details = json!({"cached_tokens": 9, "reasoning_tokens": -9});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": details,
        "completion_tokens_details": details});
    let expected = Usage { input_tokens: 1, output_tokens: 2, cached_input_tokens: 1, ..Usage::default() };
    assert_eq!(pieces(&[finish("stop"), json!({"usage": usage})])[0], AnswerPiece::Usage(expected));
}

#[test]
fn another_model_is_named_once() {
    let named = |name: &str| json!({"model": name, "choices": [{"delta": {"content": "x"}}]});
    let other = AnswerPiece::Model("m-2026".into());
    let expected = [other, said("x"), said("x"), AnswerPiece::Finish(Finish::Stop)];
    assert_eq!(pieces(&[named("m-2026"), named("m-2027"), finish("stop")]), expected);
    assert_eq!(pieces(&[named("m"), finish("stop")]), [said("x"), AnswerPiece::Finish(Finish::Stop)]);
}

#[test]
fn errors_in_the_stream_before_and_after_content() {
    let unavailable = |reason: &str| Error::Unavailable {
        reason: format!("an error inside the stream{reason}"),
        after: None,
    };
    for (notice, error) in [
        (
            json!({"error": {"message": "x", "type": "server_error", "code": null}}),
            unavailable(", server_error"),
        ),
        (json!({"error": {"message": "x", "code": 429}}), Error::RateLimited { after: None }),
        (json!({"error": "out of memory"}), unavailable("")),
        (
            json!({"object": "error", "message": "x", "code": 400, "type": "BadRequestError"}),
            Error::Rejected { status: 400, summary: "the provider found the request invalid".into() },
        ),
    ] {
        assert_eq!(decode(std::slice::from_ref(&notice)), (vec![], Some(error.clone())));
        let after = [delta(&json!({"content": "x"})), notice];
        assert_eq!(decode(&after), (vec![said("x")], Some(error)));
    }
    let mut decoder = ChatDecoder::new("m", "test");
    let outcome = decoder.event("error", "it broke", &mut VecDeque::new());
    assert_eq!(outcome, Err(unavailable("")));
}

#[test]
fn the_end_needs_a_finish_reason() {
    let broken = Some(Error::Broken("ended without a finish reason".into()));
    assert_eq!(decode(&[]), (vec![], broken.clone()));
    assert_eq!(decode(&[delta(&json!({"content": "x"}))]), (vec![said("x")], broken.clone()));
    let mut decoder = ChatDecoder::new("m", "test");
    let mut out = VecDeque::new();
    assert_eq!(decoder.event("", "[DONE]", &mut out).err(), broken);
    assert!(out.is_empty());
}

#[test]
fn words_and_a_farewell_are_an_answer_whose_calls_are_not_made() {
    let said_and_done = |chunks: &[Value]| {
        let mut decoder = ChatDecoder::new("m", "test");
        let mut out = VecDeque::new();
        let events = chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
        let outcome = events.into_iter().try_for_each(|data| decoder.event("", &data, &mut out));
        (Vec::from(out), outcome.err())
    };
    let words = delta(&json!({"content": "x"}));
    let end = [AnswerPiece::CallsVoid, AnswerPiece::Finish(Finish::Stop)];
    let (pieces, error) = said_and_done(std::slice::from_ref(&words));
    assert_eq!((pieces, error), ([vec![said("x")], end.to_vec()].concat(), None));
    let called = delta(&json!({"tool_calls": [call(0, "i", "a", "{}")]}));
    let (pieces, error) = said_and_done(&[words, called.clone()]);
    assert_eq!((pieces.get(3..), error), (Some(&end[..]), None), "the call is void, whole or not");
    let (_, error) = said_and_done(&[called]);
    assert!(matches!(error, Some(Error::Broken(_))), "calls alone are no answer: {error:?}");
    let (_, error) = said_and_done(&[delta(&json!({"content": " \n"}))]);
    assert!(matches!(error, Some(Error::Broken(_))), "neither is white space: {error:?}");
}

#[test]
fn nothing_follows_the_end() {
    let mut decoder = ChatDecoder::new("m", "test");
    let mut out = VecDeque::new();
    for data in [&finish("stop").to_string(), "", " [DONE] ", "not json", "[DONE]"] {
        assert_eq!(decoder.event("", data, &mut out), Ok(()));
    }
    assert_eq!(decoder.end(&mut out), Ok(()));
    assert_eq!(out, [AnswerPiece::Finish(Finish::Stop)]);
}

#[test]
fn sizes_are_bounded() {
    let big = "x".repeat(MAX_CALL_INPUT_BYTES / 2);
    let arguments =
        |text: &str| delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}));
    let fits = [arguments(&big), arguments(&big), finish("tool_calls")];
    assert_eq!(pieces(&fits).len(), 4);
    let over = [arguments(&big), arguments(&big), arguments("x")];
    assert_eq!(decode(&over).1, Some(Error::Broken("arguments longer than 1048576 bytes".into())));

    let text = delta(&json!({"content": "x".repeat(1 << 20)}));
    let fits = vec![text; MAX_ANSWER_BYTES >> 20];
    assert_eq!(decode(&fits).0.len(), 16);
    let over = [fits, vec![delta(&json!({"reasoning": "x"}))]].concat();
    assert_eq!(decode(&over).1, Some(Error::Broken("an answer longer than 16777216 bytes".into())));
}

#[test]
fn json_that_cannot_be_read() {
    for data in ["{", "{\"choices\": 3}", "{}\n{}", "\u{fffd}", "null x"] {
        let outcome = ChatDecoder::new("m", "test").event("", data, &mut VecDeque::new());
        assert_eq!(outcome, Err(Error::Broken("an event that cannot be read".into())), "{data:?}");
    }
}

#[test]
fn openai_itself_has_its_own_name_for_the_limit() {
    assert_eq!(Quirks::of_host("api.openai.com").token_limit, TokenLimit::MaxCompletionTokens);
    assert_eq!(Quirks::of_host("localhost").token_limit, TokenLimit::MaxTokens);
}
