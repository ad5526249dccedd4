//! Streams as servers send them and the pieces they come to; requests and the bodies that are sent for them.

mod request;
mod socket;

use std::collections::VecDeque;

use protocol::{Finish, Usage};
use serde_json::{Value, json};

use super::decode::AnthropicDecoder;
use crate::reading::Decode;
use crate::tally::{MAX_ANSWER_BYTES, MAX_CALL_INPUT_BYTES};
use crate::{AnswerPiece, Error};

/// Decodes events, then the end of the stream: the pieces, and the error if there was one.
fn decode(events: &[Value]) -> (Vec<AnswerPiece>, Option<Error>) {
    let mut decoder = AnthropicDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let outcome = events
        .iter()
        .try_for_each(|event| {
            let name = event["type"].as_str().unwrap_or_default();
            decoder.event(name, &event.to_string(), &mut out)
        })
        .and_then(|()| decoder.end(&mut out));
    (out.into(), outcome.err())
}

fn pieces(events: &[Value]) -> Vec<AnswerPiece> {
    let (pieces, error) = decode(events);
    assert_eq!(error, None);
    pieces
}

fn whole_answer(message: &Value) -> (Vec<AnswerPiece>, Option<Error>) {
    let mut decoder = AnthropicDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let outcome = decoder.whole_answer(&message.to_string(), &mut out).and_then(|()| decoder.end(&mut out));
    (out.into(), outcome.err())
}

fn begin(usage: &Value) -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": "m", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}})
}

fn block(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn text(text: &str) -> Value {
    delta(0, &json!({"type": "text_delta", "text": text}))
}

fn arguments(index: u64, json: &str) -> Value {
    delta(index, &json!({"type": "input_json_delta", "partial_json": json}))
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn reason(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}})
}

fn said(text: &str) -> AnswerPiece {
    AnswerPiece::Text(text.into())
}

fn thought(text: &str) -> AnswerPiece {
    AnswerPiece::Reasoning(text.into())
}

fn start(index: usize, id: Option<&str>, name: &str) -> AnswerPiece {
    AnswerPiece::CallStart { index, provider_id: id.map(Into::into), name: name.into() }
}

fn input(index: usize, json: &str) -> AnswerPiece {
    AnswerPiece::CallInput { index, json: json.into() }
}

#[test]
fn thinking_text_and_calls_come_in_order() {
    let events = [
        begin(&json!({"input_tokens": 3, "output_tokens": 1})),
        json!({"type": "ping"}),
        block(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "m."})),
        delta(0, &json!({"type": "signature_delta", "signature": "si"})),
        delta(0, &json!({"type": "signature_delta", "signature": "g"})),
        stop(0),
        block(1, &json!({"type": "redacted_thinking", "data": "c2VjcmV0"})),
        stop(1),
        block(2, &json!({"type": "text", "text": "Hel"})),
        delta(2, &json!({"type": "text_delta", "text": "lo!"})),
        delta(2, &json!({"type": "citations_delta", "citation": {"cited_text": "x"}})),
        stop(2),
        block(3, &call("toolu_1", "weather", &json!({}))),
        arguments(3, ""),
        arguments(3, "{\"city\":"),
        arguments(3, "\"Oslo\"}"),
        stop(3),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}}),
        json!({"type": "message_stop"}),
    ];
    let kept = json!([
        {"type": "thinking", "thinking": "Hmm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
    ]);
    let expected = [
        thought("Hm"),
        thought("m."),
        said("Hel"),
        said("lo!"),
        start(0, Some("toolu_1"), "weather"),
        input(0, "{\"city\":"),
        input(0, "\"Oslo\"}"),
        AnswerPiece::Usage(Usage { input_tokens: 3, output_tokens: 12, ..Usage::default() }),
        AnswerPiece::Provider(json!({"provider": "test", "thinking": kept})),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(pieces(&events), expected);
}

#[test]
fn a_server_that_leaves_much_out_is_understood() {
    // Blocks side by side, nothing stopped, an index or a type missing, and thinking without a signature.
    let events = [
        json!({"type": "message_start", "message": {}}),
        block(0, &json!({"type": "thinking"})),
        delta(0, &json!({"thinking": "Hm."})),
        delta(0, &json!({"type": "signature_delta", "signature": ""})),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "name": "a"}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "name": "b"}}),
        json!({"type": "content_block_delta", "delta": {"partial_json": "{}"}}),
        arguments(1, "{\"x\":1}"),
        delta(9, &json!({"type": "text_delta", "text": "said"})),
        arguments(9, "nobody's"),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": null}),
    ];
    let expected = [
        thought("Hm."),
        start(0, None, "a"),
        start(1, None, "b"),
        input(1, "{}"),
        input(0, "{\"x\":1}"),
        said("said"),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(pieces(&events), expected);
    let mut decoder = AnthropicDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let (said_event, end) = (r#"{"delta": {"text": "x"}}"#, r#"{"delta": {"stop_reason": "end_turn"}}"#);
    for (name, data) in
        [("content_block_delta", said_event), ("ping", ""), ("message_delta", end), ("message_stop", "{}")]
    {
        assert_eq!(decoder.event(name, data, &mut out), Ok(()), "the event's own name is enough");
    }
    assert_eq!(out, [said("x"), AnswerPiece::Finish(Finish::Stop)]);
}

#[test]
fn unknown_events_and_blocks_are_passed_over() {
    let events = [
        json!({"type": "something_new", "index": 0, "delta": {"text": "no"}}),
        json!({}),
        block(
            0,
            &json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}),
        ),
        arguments(0, "{}"),
        stop(0),
        block(1, &json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "x"}]})),
        stop(1),
        stop(7),
        reason("end_turn"),
    ];
    assert_eq!(pieces(&events), [AnswerPiece::Finish(Finish::Stop)]);
}

#[test]
fn arguments_that_come_with_the_call_count_if_no_others_come() {
    let given = json!({"city": "Oslo"});
    let events = [
        block(0, &call("one", "a", &given)),
        stop(0),
        block(1, &call("two", "a", &given)),
        arguments(1, ""),
        arguments(1, "{}"),
        stop(1),
        block(2, &call("three", "a", &json!({}))),
        stop(2),
        block(3, &call("four", "a", &given)),
        block(3, &call("five", "a", &json!(null))),
        block(4, &call("six", "a", &given)),
        reason("tool_use"),
    ];
    let oslo = "{\"city\":\"Oslo\"}";
    let expected = [
        start(0, Some("one"), "a"),
        input(0, oslo),
        start(1, Some("two"), "a"),
        input(1, "{}"),
        start(2, Some("three"), "a"),
        start(3, Some("four"), "a"),
        start(4, Some("five"), "a"),
        input(3, oslo),
        start(5, Some("six"), "a"),
        input(5, oslo),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(pieces(&events), expected);
}

#[test]
fn every_stop_reason() {
    for (word, expected) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("pause_turn", Finish::Stop),
        ("something_new", Finish::Stop),
        ("tool_use", Finish::Stop), // but there are no calls
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::ContentFilter),
    ] {
        assert_eq!(pieces(&[text("x"), reason(word)]), [said("x"), AnswerPiece::Finish(expected)], "{word}");
    }
    for (word, expected) in [
        ("end_turn", Finish::ToolCalls),
        ("tool_use", Finish::ToolCalls),
        ("max_tokens", Finish::Length),
        ("refusal", Finish::ContentFilter),
    ] {
        let events = [block(0, &call("i", "a", &json!({}))), reason(word)];
        assert_eq!(pieces(&events).last(), Some(&AnswerPiece::Finish(expected)), "{word}");
    }
}

#[test]
fn the_tokens_of_the_prompt_are_all_of_them() {
    let first = json!({"input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30,
        "output_tokens": 1});
    let last = |usage: &Value| json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let counted = |usage| [AnswerPiece::Usage(usage), AnswerPiece::Finish(Finish::Stop)];
    let expected =
        Usage { input_tokens: 240, output_tokens: 7, cached_input_tokens: 200, ..Usage::default() };
    assert_eq!(pieces(&[begin(&first), last(&json!({"output_tokens": 7}))]), counted(expected));
    // A later count replaces an earlier one, where there is one.
    let corrected = json!({"output_tokens": 9, "input_tokens": 20, "cache_read_input_tokens": null});
    let expected = Usage { input_tokens: 250, output_tokens: 9, ..expected };
    assert_eq!(pieces(&[begin(&first), last(&corrected)]), counted(expected));
    for (first, end) in [
        (json!({"input_tokens": 1, "output_tokens": 1}), json!(null)),
        (json!({"input_tokens": 1, "output_tokens": 1}), json!({"output_tokens": -7})),
        (json!({"input_tokens": -1}), json!({"output_tokens": 7})),
        (json!({"input_tokens": 1.5}), json!({"output_tokens": 7})),
        (json!(null), json!({"output_tokens": 7})),
        (json!("none"), json!({"input_tokens": u64::MAX, "output_tokens": 7})),
    ] {
        assert_eq!(
            pieces(&[begin(&first), last(&end)]),
            [AnswerPiece::Finish(Finish::Stop)],
            "{first} {end}"
        );
    }
}

#[test]
fn another_model_is_named() {
    let named = |name: &str| json!({"type": "message_start", "message": {"model": name}});
    let expected = [AnswerPiece::Model("m-2026".into()), AnswerPiece::Finish(Finish::Stop)];
    assert_eq!(pieces(&[named(""), named("m-2026"), named("m-2027"), reason("end_turn")]), expected);
    assert_eq!(pieces(&[named("m"), reason("end_turn")]), [AnswerPiece::Finish(Finish::Stop)]);
}

#[test]
fn errors_in_the_stream_before_and_after_content() {
    let unavailable =
        |code: &str| Error::Unavailable { reason: format!("an error inside the stream{code}"), after: None };
    let notice =
        |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    for (event, error) in [
        (notice("overloaded_error", "Overloaded"), unavailable(", overloaded_error")),
        (notice("api_error", "x"), unavailable(", api_error")),
        (notice("rate_limit_error", "x"), Error::RateLimited { after: None }),
        (notice("authentication_error", "x"), Error::Auth { status: 401, provider: "test".into() }),
        (notice("invalid_request_error", "prompt is too long: 9 > 8"), Error::ContextLength),
        (json!({"type": "error"}), unavailable(", error")),
        (json!({"error": "out of memory"}), unavailable("")),
    ] {
        assert_eq!(decode(std::slice::from_ref(&event)), (vec![], Some(error.clone())), "{event}");
        assert_eq!(decode(&[text("x"), event.clone()]), (vec![said("x")], Some(error.clone())));
        if event.get("error").is_some() {
            assert_eq!(whole_answer(&event), (vec![], Some(error)));
        }
    }
    let outcome = AnthropicDecoder::new("m", "test").event("error", "it broke", &mut VecDeque::new());
    assert_eq!(outcome, Err(unavailable("")));
}

#[test]
fn the_end_needs_a_stop_reason() {
    let broken = Some(Error::Broken("ended without a finish reason".into()));
    assert_eq!(decode(&[]), (vec![], broken.clone()));
    assert_eq!(decode(&[text("x")]), (vec![said("x")], broken.clone()));
    let events = [text("x"), stop(0), json!({"type": "message_stop"})];
    assert_eq!(decode(&events), (vec![said("x")], broken));
}

#[test]
fn nothing_follows_the_end() {
    let mut decoder = AnthropicDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let end = json!({"type": "message_stop"}).to_string();
    for data in [&reason("end_turn").to_string(), "", &end, "not json", &text("x").to_string(), &end] {
        assert_eq!(decoder.event("", data, &mut out), Ok(()));
    }
    assert_eq!(decoder.end(&mut out), Ok(()));
    assert_eq!(out, [AnswerPiece::Finish(Finish::Stop)]);
    assert!(decoder.is_over() && decoder.has_finish());
}

#[test]
fn a_whole_answer_is_read_like_a_stream() {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "other",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "text", "text": "Hi"},
            {"type": "something_new", "text": "no"},
            call("toolu_1", "a", &json!({"x": 1})),
            call("toolu_2", "a", &json!({})),
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 3, "output_tokens": 2},
    });
    let kept = json!([{"type": "thinking", "thinking": "Hm.", "signature": "sig"}]);
    let expected = vec![
        AnswerPiece::Model("other".into()),
        thought("Hm."),
        said("Hi"),
        start(0, Some("toolu_1"), "a"),
        input(0, "{\"x\":1}"),
        start(1, Some("toolu_2"), "a"),
        AnswerPiece::Usage(Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() }),
        AnswerPiece::Provider(json!({"provider": "test", "thinking": kept})),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(whole_answer(&message), (expected, None));
    let broken = Some(Error::Broken("ended without a finish reason".into()));
    assert_eq!(whole_answer(&json!({"content": [{"type": "text", "text": "x"}]})), (vec![said("x")], broken));
}

#[test]
fn sizes_are_bounded() {
    let half = "x".repeat(MAX_CALL_INPUT_BYTES / 2);
    let begun = || vec![block(0, &call("i", "a", &json!({}))), arguments(0, &half), arguments(0, &half)];
    assert_eq!(pieces(&[begun(), vec![reason("tool_use")]].concat()).len(), 4);
    let over = [begun(), vec![arguments(0, "x")]].concat();
    assert_eq!(decode(&over).1, Some(Error::Broken("arguments longer than 1048576 bytes".into())));
    let too_long = Some(Error::Broken("an answer longer than 16777216 bytes".into()));
    let full = vec![text(&"x".repeat(1 << 20)); MAX_ANSWER_BYTES >> 20];
    assert_eq!(decode(&full).0.len(), 16);
    for more in [
        text("x"),
        block(1, &json!({"type": "text"})),
        block(1, &json!({"type": "redacted_thinking", "data": "x"})),
        block(1, &json!({"type": "something_new"})),
    ] {
        assert_eq!(decode(&[full.clone(), vec![more]].concat()).1, too_long);
    }
    let signature = delta(0, &json!({"type": "signature_delta", "signature": "x".repeat(1 << 20)}));
    let endless = [vec![block(0, &json!({"type": "thinking"}))], vec![signature; 16]].concat();
    assert_eq!(decode(&endless).1, too_long, "what is kept to be returned counts too");
}

#[test]
fn json_that_cannot_be_read() {
    for data in ["{", "{\"delta\": 3}", "{}\n{}", "\u{fffd}", "null x", "[]"] {
        let outcome = AnthropicDecoder::new("m", "test").event("", data, &mut VecDeque::new());
        assert_eq!(outcome, Err(Error::Broken("an event that cannot be read".into())), "{data:?}");
    }
}
