//! Streams as servers send them, and the pieces they come to.

mod encode;
mod socket;

use std::collections::VecDeque;

use protocol::{Finish, Usage};
use serde_json::{Value, json};

use super::decode::ResponsesDecoder;
use crate::reading::Decode;
use crate::sse::SseParser;
use crate::tally::{MAX_ANSWER_BYTES, MAX_CALL_INPUT_BYTES};
use crate::{AnswerPiece, Error};

/// An answer with reasoning and a call as OpenAI sends it, but for most fields of the response.
const TOOLS: &str = r#"event: response.created
data: {"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"usage":null},"sequence_number":0}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]},"sequence_number":2}

event: response.reasoning_summary_part.added
data: {"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""},"sequence_number":3}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Think.","sequence_number":4}

event: response.reasoning_summary_text.done
data: {"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"Think.","sequence_number":5}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Think."}],"encrypted_content":"b3BhcXVl","status":null},"sequence_number":7}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_1","name":"get_weather","arguments":""},"sequence_number":8}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{\"city\":","sequence_number":9}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"\"Oslo\"}","sequence_number":10}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":1,"name":"get_weather","arguments":"{\"city\":\"Oslo\"}","sequence_number":11}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":1,"item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Oslo\"}"},"sequence_number":12}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"model":"m","output":[{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Think."}],"encrypted_content":"b3BhcXVl"},{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}],"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":5}},"sequence_number":13}

"#;

/// Decodes events, then the end of the stream: the pieces, and the error if there was one.
fn decode(events: &[Value]) -> (Vec<AnswerPiece>, Option<Error>) {
    let mut decoder = ResponsesDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let outcome = events
        .iter()
        .try_for_each(|event| decoder.event("", &event.to_string(), &mut out))
        .and_then(|()| decoder.end(&mut out));
    (out.into(), outcome.err())
}

fn pieces(events: &[Value]) -> Vec<AnswerPiece> {
    let (pieces, error) = decode(events);
    assert_eq!(error, None);
    pieces
}

fn whole_answer(response: &Value) -> (Vec<AnswerPiece>, Option<Error>) {
    let mut decoder = ResponsesDecoder::new("m", "test");
    let mut out = VecDeque::new();
    let outcome = decoder.whole_answer(&response.to_string(), &mut out).and_then(|()| decoder.end(&mut out));
    (out.into(), outcome.err())
}

fn event(kind: &str, mut fields: Value) -> Value {
    fields["type"] = format!("response.{kind}").into();
    fields
}

fn text(delta: &str) -> Value {
    event("output_text.delta", json!({"delta": delta}))
}

fn added(item: &Value) -> Value {
    event("output_item.added", json!({"item": item}))
}

fn done(item: &Value) -> Value {
    event("output_item.done", json!({"item": item}))
}

fn completed() -> Value {
    event("completed", json!({"response": {}}))
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

fn stop() -> AnswerPiece {
    AnswerPiece::Finish(Finish::Stop)
}

fn called() -> AnswerPiece {
    AnswerPiece::Finish(Finish::ToolCalls)
}

#[test]
fn an_answer_as_the_provider_sends_it() {
    let (mut parser, mut decoder, mut out) =
        (SseParser::default(), ResponsesDecoder::new("m", "test"), VecDeque::new());
    parser.feed(TOOLS.as_bytes(), |event| decoder.event(&event.name, &event.data, &mut out)).unwrap();
    assert!(decoder.is_over());
    let kept = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "b3BhcXVl",
        "summary": [{"type": "summary_text", "text": "Think."}]});
    let usage = Usage {
        input_tokens: 3,
        output_tokens: 2,
        cached_input_tokens: 1,
        reasoning_tokens: 1,
        ..Usage::default()
    };
    let expected = [
        thought("Think."),
        start(0, Some("call_1"), "get_weather"),
        input(0, "{\"city\":"),
        input(0, "\"Oslo\"}"),
        AnswerPiece::Usage(usage),
        AnswerPiece::Provider(json!({"provider": "test", "reasoning": [kept]})),
        called(),
    ];
    assert_eq!(out, expected);
}

#[test]
fn text_without_any_of_the_fields_around_it() {
    let events = [
        json!({"type": "response.created"}),
        json!({}),
        text("Hel"),
        text(""),
        text("lo \"\u{e9}\n🎵"),
        event("output_text.delta", json!({"delta": null})),
        event("output_text.delta", json!({"delta": 5, "output_index": "x", "item_id": 3})),
        event("output_text.done", json!({"text": "Hello!"})),
        event("web_search_call.searching", json!({"delta": {"odd": 1}, "item": 3})),
        completed(),
    ];
    assert_eq!(pieces(&events), [said("Hel"), said("lo \"\u{e9}\n🎵"), stop()]);
}

#[test]
fn a_kind_may_be_told_by_the_name_of_the_event_alone() {
    let mut decoder = ResponsesDecoder::new("m", "test");
    let mut out = VecDeque::new();
    decoder.event("response.output_text.delta", r#"{"delta":"x"}"#, &mut out).unwrap();
    decoder.event("response.completed", "{}", &mut out).unwrap();
    assert_eq!(out, [said("x"), stop()]);
}

#[test]
fn reasoning_has_two_names_and_paragraphs() {
    let part = || event("reasoning_summary_part.added", json!({}));
    let events = [
        part(),
        event("reasoning_summary_text.delta", json!({"delta": "one"})),
        part(),
        event("reasoning_summary_text.delta", json!({"delta": "two"})),
        event("reasoning_text.delta", json!({"delta": "raw"})),
        completed(),
    ];
    let expected = [thought("one"), thought("\n\n"), thought("two"), thought("raw"), stop()];
    assert_eq!(pieces(&events), expected);
}

#[test]
fn reasoning_is_kept_only_if_it_can_come_back() {
    let bare = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let empty = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": ""});
    for item in [bare, empty] {
        assert_eq!(pieces(&[done(&item), completed()]), [stop()]);
    }
    let one = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "eA"});
    let other = json!({"type": "reasoning", "id": "rs_2", "encrypted_content": "eQ", "content": []});
    let kept = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "eQ"},
    ]);
    let expected = AnswerPiece::Provider(json!({"provider": "test", "reasoning": kept}));
    assert_eq!(pieces(&[done(&one), done(&other), completed()]), [expected, stop()]);
}

#[test]
fn parallel_calls_are_told_apart_by_any_mark() {
    let call = |id: Value, call_id: Value| {
        let kind = "function_call";
        json!({"type": kind, "id": id, "call_id": call_id, "name": "a"})
    };
    let by_id = |n: usize| {
        (json!({"item_id": format!("fc_{n}")}), call(format!("fc_{n}").into(), format!("call_{n}").into()))
    };
    let by_call_id =
        |n: usize| (json!({"item_id": format!("fc_{n}")}), call(Value::Null, format!("fc_{n}").into()));
    let by_output = |n: usize| (json!({"output_index": n}), call(format!("odd_{n}").into(), Value::Null));
    for mark in [&by_id as &dyn Fn(usize) -> (Value, Value), &by_call_id, &by_output] {
        let added = |n: usize| event("output_item.added", json!({"item": mark(n).1, "output_index": n}));
        let delta = |n: usize, text: &str| {
            let mut fields = mark(n).0;
            fields["delta"] = text.into();
            event("function_call_arguments.delta", fields)
        };
        let events = [
            added(0),
            delta(0, "{\"x\":"),
            added(1),
            delta(1, "{}"),
            delta(0, "1}"),
            done(&mark(1).1),
            done(&mark(0).1),
            completed(),
        ];
        let found = pieces(&events);
        let inputs: Vec<_> =
            found.iter().filter(|piece| matches!(piece, AnswerPiece::CallInput { .. })).cloned().collect();
        assert_eq!(inputs, [input(0, "{\"x\":"), input(1, "{}"), input(0, "1}")]);
        assert_eq!(found.len(), 6, "{found:?}");
    }
}

#[test]
fn an_item_whose_id_changes_is_the_same_call() {
    let call = |id: &str, call_id: &str| json!({"type": "function_call", "id": id, "call_id": call_id, "name": "a", "arguments": "{}"});
    let delta =
        event("function_call_arguments.delta", json!({"item_id": "y", "output_index": 4, "delta": "{}"}));
    for (output, last) in
        [(json!(4), call("z", "")), (Value::Null, call("z", "c")), (Value::Null, call("z", ""))]
    {
        let added = event("output_item.added", json!({"item": call("x", "c"), "output_index": 4}));
        let done = event("output_item.done", json!({"item": last, "output_index": output}));
        let events = [added, delta.clone(), done, completed()];
        assert_eq!(pieces(&events), [start(0, Some("c"), "a"), input(0, "{}"), called()]);
    }
}

#[test]
fn calls_without_marks_are_told_apart_by_order() {
    let call =
        |name: &str, arguments: &str| json!({"type": "function_call", "name": name, "arguments": arguments});
    let delta = |text: &str| event("function_call_arguments.delta", json!({"delta": text}));
    let events = [
        added(&call("a", "")),
        delta("{"),
        delta("}"),
        added(&call("a", "")),
        delta("{\"x\":1}"),
        added(&call("b", "")),
        done(&call("a", "{}")),
        done(&call("a", "{\"x\":1}")),
        done(&call("b", "{\"y\":2}")),
        done(&call("c", "{\"z\":3}")),
        completed(),
    ];
    let expected = [
        start(0, None, "a"),
        input(0, "{"),
        input(0, "}"),
        start(1, None, "a"),
        input(1, "{\"x\":1}"),
        start(2, None, "b"),
        input(2, "{\"y\":2}"),
        start(3, None, "c"),
        input(3, "{\"z\":3}"),
        called(),
    ];
    assert_eq!(pieces(&events), expected);
}

#[test]
fn arguments_may_come_only_once_they_are_complete() {
    let call = |arguments: Value| json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "a", "arguments": arguments});
    let finished =
        event("function_call_arguments.done", json!({"item_id": "fc_1", "arguments": "{\"x\":1}"}));
    let expected = [start(0, Some("call_1"), "a"), input(0, "{\"x\":1}"), called()];
    for events in [
        vec![added(&call("".into())), finished.clone(), done(&call("{\"x\":1}".into()))],
        vec![added(&call("".into())), done(&call("{\"x\":1}".into()))],
        vec![added(&call("".into())), added(&call("".into())), done(&call(json!({"x": 1})))],
        vec![done(&call("{\"x\":1}".into())), done(&call("{\"x\":1}".into()))],
        vec![finished, done(&call("{\"x\":1}".into()))],
    ] {
        let events = [events, vec![completed()]].concat();
        assert_eq!(pieces(&events), expected, "{events:#?}");
    }
    let none = [done(&call("".into())), completed()];
    assert_eq!(pieces(&none), [start(0, Some("call_1"), "a"), called()]);
}

#[test]
fn a_call_that_never_began_is_not_guessed() {
    let delta = event("function_call_arguments.delta", json!({"delta": "{}", "item_id": "fc_1"}));
    assert_eq!(pieces(&[delta, completed()]), [stop()]);
}

#[test]
fn many_calls_are_passed_on() {
    let call = |n: usize| json!({"type": "function_call", "call_id": format!("c{n}"), "name": "a", "arguments": "{}"});
    let mut events: Vec<Value> = (0..10_000).map(|n| added(&call(n))).collect();
    events.extend((0..10_000).map(|n| done(&call(n))));
    events.push(completed());
    assert_eq!(pieces(&events).len(), 20_001);
}

#[test]
fn a_refusal_is_text_and_ends_as_filtered() {
    let events = [
        event("refusal.delta", json!({"delta": "I "})),
        event("refusal.delta", json!({"delta": "won't."})),
        completed(),
    ];
    assert_eq!(pieces(&events), [said("I "), said("won't."), AnswerPiece::Finish(Finish::ContentFilter)]);
}

#[test]
fn an_answer_that_was_cut_says_why() {
    for (details, expected) in [
        (json!({"reason": "max_output_tokens"}), Finish::Length),
        (json!({"reason": "content_filter"}), Finish::ContentFilter),
        (json!({"reason": null}), Finish::Length),
        (Value::Null, Finish::Length),
    ] {
        let response = json!({"status": "incomplete", "incomplete_details": details});
        let incomplete = event("incomplete", json!({"response": response}));
        assert_eq!(pieces(&[text("x"), incomplete]), [said("x"), AnswerPiece::Finish(expected)]);
        assert_eq!(whole_answer(&response), (vec![AnswerPiece::Finish(expected)], None));
    }
}

#[test]
fn a_whole_answer() {
    let message = json!({"type": "message", "content": [
        {"type": "output_text", "text": "Hel"}, {"type": "output_text", "text": "lo!"}]});
    let call = |n: usize| {
        json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"), "name": "a",
            "arguments": "{}"})
    };
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "eA",
        "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]});
    let response = json!({"status": "completed", "error": null, "model": "m-2026",
        "output": [reasoning, message, {"type": "web_search_call"}, call(1), call(2)],
        "usage": {"input_tokens": 3, "output_tokens": 2}});
    let expected = vec![
        AnswerPiece::Model("m-2026".into()),
        thought("One."),
        thought("\n\n"),
        thought("Two."),
        said("Hel"),
        said("lo!"),
        start(0, Some("call_1"), "a"),
        input(0, "{}"),
        start(1, Some("call_2"), "a"),
        input(1, "{}"),
        AnswerPiece::Usage(Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() }),
        AnswerPiece::Provider(json!({"provider": "test", "reasoning": [reasoning]})),
        called(),
    ];
    assert_eq!(whole_answer(&response), (expected.clone(), None));
    let last = event("completed", json!({"response": response}));
    assert_eq!(pieces(std::slice::from_ref(&last)), expected, "a stream without deltas");
    assert_eq!(
        pieces(&[text("Hello!"), last]).iter().filter(|piece| matches!(piece, AnswerPiece::Text(_))).count(),
        1,
        "what was streamed is not said again"
    );
}

#[test]
fn a_whole_answer_may_lack_its_status_but_not_its_output() {
    let refusal =
        json!({"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]});
    assert_eq!(whole_answer(&refusal), (vec![said("No."), AnswerPiece::Finish(Finish::ContentFilter)], None));
    let broken = Some(Error::Broken("ended without a finish reason".into()));
    for response in
        [json!({}), json!([]), json!({"status": "in_progress", "output": []}), json!({"status": "queued"})]
    {
        assert_eq!(whole_answer(&response), (vec![], broken.clone()), "{response}");
    }
}

#[test]
fn usage_that_cannot_be_true_is_ignored() {
    let with = |usage: &Value| event("completed", json!({"response": {"usage": usage}}));
    for usage in [
        json!({"input_tokens": -1, "output_tokens": 7}),
        json!({"input_tokens": 1, "output_tokens": 18_446_744_073_709_551_615_u64}),
        json!({"input_tokens": "1", "output_tokens": 7}),
        json!({"input_tokens": 1}),
        json!("none"),
        Value::Null,
    ] {
        assert_eq!(pieces(&[with(&usage)]), [stop()], "{usage}");
    }
    let usage = json!({"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 9},
        "output_tokens_details": {"reasoning_tokens": -9}});
    let expected = Usage { input_tokens: 1, output_tokens: 2, cached_input_tokens: 1, ..Usage::default() };
    assert_eq!(pieces(&[with(&usage)])[0], AnswerPiece::Usage(expected));
}

#[test]
fn another_model_is_named_once() {
    let named = |kind: &str, name: &str| event(kind, json!({"response": {"model": name}}));
    let events =
        [named("created", "m-2026"), named("in_progress", "m-2027"), text("x"), named("completed", "m-2026")];
    assert_eq!(pieces(&events), [AnswerPiece::Model("m-2026".into()), said("x"), stop()]);
    assert_eq!(pieces(&[named("created", "m"), named("completed", "m")]), [stop()]);
}

#[test]
fn errors_in_the_stream_before_and_after_content() {
    let unavailable = |reason: &str| Error::Unavailable {
        reason: format!("an error inside the stream{reason}"),
        after: None,
    };
    let failed = |error: Value| event("failed", json!({"response": {"status": "failed", "error": error}}));
    let rejected = Error::Rejected {
        status: 400,
        summary: "the provider found the request invalid, invalid_request_error".into(),
    };
    for (notice, error) in [
        (failed(json!({"code": "server_error", "message": "x"})), unavailable(", server_error")),
        (failed(json!({"code": "rate_limit_exceeded", "message": "x"})), Error::RateLimited { after: None }),
        (failed(Value::Null), unavailable("")),
        (
            json!({"type": "error", "code": "server_error", "message": "x", "param": null}),
            unavailable(", server_error"),
        ),
        (json!({"type": "error", "code": null, "message": "x"}), unavailable("")),
        (json!({"type": "error", "code": "context_length_exceeded", "message": "x"}), Error::ContextLength),
        (json!({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}), rejected),
        (
            json!({"error": {"code": 500, "message": "x"}}),
            Error::Unavailable { reason: "status 500".into(), after: None },
        ),
        (json!({"error": "out of memory"}), unavailable("")),
        (
            event("cancelled", json!({})),
            Error::Unavailable { reason: "it stopped before the end of the answer".into(), after: None },
        ),
    ] {
        assert_eq!(decode(std::slice::from_ref(&notice)), (vec![], Some(error.clone())), "{notice}");
        assert_eq!(decode(&[text("x"), notice]), (vec![said("x")], Some(error)));
    }
    let outcome = ResponsesDecoder::new("m", "test").event("error", "it broke", &mut VecDeque::new());
    assert_eq!(outcome, Err(unavailable("")));
    for refusal in [
        json!({"error": {"type": "server_error", "message": "x"}}),
        json!({"status": "failed", "error": {"code": "server_error"}}),
        json!({"object": "error", "type": "server_error", "message": "x"}),
    ] {
        assert_eq!(whole_answer(&refusal), (vec![], Some(unavailable(", server_error"))));
    }
}

#[test]
fn the_end_needs_an_event_that_ends() {
    let broken = Some(Error::Broken("ended without a finish reason".into()));
    assert_eq!(decode(&[]), (vec![], broken.clone()));
    let full = json!({"type": "message", "content": [{"type": "output_text", "text": "x"}]});
    assert_eq!(decode(&[text("x"), done(&full)]), (vec![said("x")], broken.clone()));
    let outcome = ResponsesDecoder::new("m", "test").event("", "[DONE]", &mut VecDeque::new());
    assert_eq!(outcome.err(), broken);
}

#[test]
fn nothing_follows_the_end() {
    let mut decoder = ResponsesDecoder::new("m", "test");
    let mut out = VecDeque::new();
    for data in ["", &completed().to_string(), &text("x").to_string(), " [DONE] ", "not json"] {
        assert_eq!(decoder.event("", data, &mut out), Ok(()));
    }
    assert_eq!(decoder.end(&mut out), Ok(()));
    assert_eq!(out, [stop()]);
}

#[test]
fn sizes_are_bounded() {
    let big = "x".repeat(MAX_CALL_INPUT_BYTES / 2);
    let call = added(&json!({"type": "function_call", "name": "a"}));
    let delta = |text: &str| event("function_call_arguments.delta", json!({"delta": text}));
    let fits = [call, delta(&big), delta(&big)];
    assert_eq!(decode(&fits).0.len(), 3);
    let over = [&fits[..], &[delta("x")]].concat();
    assert_eq!(decode(&over).1, Some(Error::Broken("arguments longer than 1048576 bytes".into())));

    let too_long = Some(Error::Broken("an answer longer than 16777216 bytes".into()));
    let fits = vec![text(&"x".repeat(1 << 20)); MAX_ANSWER_BYTES >> 20];
    assert_eq!(decode(&fits).0.len(), 16);
    let kept = json!({"type": "reasoning", "encrypted_content": "x"});
    let long_id = json!({"type": "function_call", "id": "x", "name": ""});
    for last in [event("reasoning_text.delta", json!({"delta": "x"})), done(&kept), added(&long_id)] {
        assert_eq!(decode(&[fits.clone(), vec![last]].concat()).1, too_long);
    }
}

#[test]
fn json_that_cannot_be_read() {
    let unreadable = Err(Error::Broken("an event that cannot be read".into()));
    for data in ["{", "3", "\"x\"", "{}\n{}", "\u{fffd}", "null x"] {
        let mut decoder = ResponsesDecoder::new("m", "test");
        assert_eq!(decoder.event("", data, &mut VecDeque::new()), unreadable, "{data:?}");
    }
    assert_eq!(ResponsesDecoder::new("m", "test").whole_answer("<html>", &mut VecDeque::new()), unreadable);
}
