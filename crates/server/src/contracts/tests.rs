//! Encoders over whole logs, byte for byte.

mod chat_completions;

use protocol::Event;
use serde_json::{Value, json};

use super::*;

const RUN: &str = "run_00000000000000000000000000000001";
const CALL: &str = "call_00000000000000000000000000000001";
const OTHER: &str = "call_00000000000000000000000000000002";
const PROPOSAL: &str = "prop_00000000000000000000000000000001";
const ANSWER: &str = "msg_00000000000000000000000000000002";

fn event(kind: &str, body: &Value) -> Event {
    Event::read(kind, &body.to_string()).unwrap_or_else(|_| panic!("{kind} {body}"))
}

fn run_start() -> Event {
    let body = json!({
        "runId": RUN, "threadId": "thr_00000000000000000000000000000001",
        "messageId": "msg_00000000000000000000000000000001", "model": "test-model", "appRevision": "1",
    });
    event("run:start", &body)
}

fn step_start(step: u32) -> Event {
    event("step:start", &json!({ "step": step, "model": "test-model" }))
}

fn text(step: u32, delta: &str) -> Event {
    event("text:delta", &json!({ "step": step, "delta": delta }))
}

fn reasoning(delta: &str) -> Event {
    event("reasoning:delta", &json!({ "step": 1, "delta": delta }))
}

fn input(call: &str, delta: &str) -> Event {
    event("tool:input", &json!({ "step": 1, "callId": call, "name": "echo", "delta": delta }))
}

fn call(id: &str) -> Value {
    json!({ "id": id, "name": "echo", "input": { "text": "hi" } })
}

fn step_end(step: u32, said: &str, calls: &[Value]) -> Event {
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let usage = json!({ "inputTokens": 10, "outputTokens": 5 });
    event(
        "step:end",
        &json!({ "step": step, "text": said, "calls": calls, "usage": usage, "finish": finish }),
    )
}

fn step_reset(step: u32) -> Event {
    event("step:reset", &json!({ "step": step, "reason": "the stream was cut" }))
}

fn tool_start(id: &str, marker: Option<&str>) -> Event {
    event("tool:start", &json!({ "callId": id, "name": "echo", "input": {}, "marker": marker }))
}

fn tool_complete(id: &str, status: &str, output: &Value) -> Event {
    let body = json!({ "callId": id, "name": "echo", "status": status, "output": output, "durationMs": 1 });
    event("tool:complete", &body)
}

fn proposal_open() -> Event {
    let body = json!({
        "proposalId": PROPOSAL, "callId": CALL, "name": "echo", "input": {},
        "expiresAt": "2026-11-16T12:00:00Z",
    });
    event("proposal:open", &body)
}

fn proposal_closed(decision: &str) -> Event {
    event("proposal:closed", &json!({ "proposalId": PROPOSAL, "callId": CALL, "decision": decision }))
}

fn complete(said: &str) -> Event {
    let usage = json!({ "inputTokens": 30, "outputTokens": 12 });
    let body = json!({ "messageId": ANSWER, "text": said, "memoriesReferenced": [], "usage": usage });
    event("stream:complete", &body)
}

fn run_end(status: &str) -> Event {
    event("run:end", &json!({ "runId": RUN, "status": status }))
}

fn failed(message: &str) -> Event {
    let error = json!({ "code": "provider_unavailable", "message": message });
    event("run:end", &json!({ "runId": RUN, "status": "failed", "error": error }))
}

/// All that an encoder makes of a log; what comes after its end must not be there.
fn bytes(mut encoder: impl Encoder, log: Vec<Event>) -> String {
    let (mut out, mut flow) = (Vec::new(), StreamState::Open);
    for event in log {
        if flow == StreamState::Open {
            flow = encoder.write(event, &mut out);
        }
    }
    String::from_utf8(out).unwrap()
}

/// A search between two texts, the second of them in two pieces.
fn a_search() -> Vec<Event> {
    vec![
        run_start(),
        step_start(1),
        reasoning("They want news."),
        text(1, "Let me look."),
        input(CALL, "{\"text\":"),
        input(CALL, "\"hi\"}"),
        step_end(1, "Let me look.", &[call(CALL), call(OTHER)]),
        tool_start(CALL, Some("[SEARCHING_ONLINE]")),
        tool_start(OTHER, Some("[SEARCHING_ONLINE]")),
        tool_complete(OTHER, "complete", &json!("two")),
        tool_complete(CALL, "failed", &json!({ "error": "busy", "message": "try later" })),
        event(
            "source",
            &json!({ "kind": "web", "id": "https://a.example", "title": "A", "place": "https://a.example" }),
        ),
        event("source", &json!({ "kind": "document", "id": "doc_1", "title": "plan.md", "place": "page 2" })),
        event("source", &json!({ "kind": "document", "id": "doc_1", "title": "plan.md", "place": "page 3" })),
        step_start(2),
        text(2, "It is "),
        text(2, "so."),
        step_end(2, "It is so.", &[]),
        complete("It is so."),
        run_end("completed"),
    ]
}

#[test]
fn a_search_as_deltas() {
    insta::assert_snapshot!(bytes(DeltaEncoder::default(), a_search()));
}

#[test]
fn a_search_as_ui_messages() {
    insta::assert_snapshot!(bytes(UiMessageEncoder::new(false), a_search()));
}

/// Deltas of old runs are pruned; a stream that is read again has the same parts, each in one piece.
#[test]
fn a_log_without_its_deltas_says_the_same() {
    let log: Vec<Event> = a_search().into_iter().filter(|event| !event.kind().is_delta()).collect();
    insta::assert_snapshot!("pruned_deltas", bytes(DeltaEncoder::default(), log.clone()));
    insta::assert_snapshot!("pruned_ui_messages", bytes(UiMessageEncoder::new(false), log));
}

fn remembering() -> Vec<Event> {
    let memory = "mem_00000000000000000000000000000001";
    let remembered =
        json!({ "outcome": "saved", "memoryId": memory, "text": "Lives in Oslo.", "reply": "Noted." });
    let loaded = json!({ "memories": [memory], "summaries": [], "date": "", "remembered": remembered });
    vec![
        run_start(),
        event("context:loaded", &loaded),
        text(1, "Noted."),
        complete("Noted."),
        run_end("completed"),
    ]
}

#[test]
fn an_answer_that_no_model_gave_is_sent_whole() {
    insta::assert_snapshot!("remembering_deltas", bytes(DeltaEncoder::default(), remembering()));
    insta::assert_snapshot!("remembering_ui_messages", bytes(UiMessageEncoder::new(false), remembering()));
    // The stream is equal once its piece is gone.
    let pruned = || remembering().into_iter().filter(|event| !event.kind().is_delta()).collect();
    insta::assert_snapshot!("remembering_deltas", bytes(DeltaEncoder::default(), pruned()));
    insta::assert_snapshot!("remembering_ui_messages", bytes(UiMessageEncoder::new(false), pruned()));
}

fn begun_again() -> Vec<Event> {
    let start = vec![run_start(), step_start(1), text(1, "The ca"), step_reset(1), step_start(1)];
    let rest =
        [text(1, "The city."), step_end(1, "The city.", &[]), complete("The city."), run_end("completed")];
    start.into_iter().chain(rest).collect()
}

#[test]
fn text_that_cannot_be_removed_ends_the_stream() {
    insta::assert_snapshot!("reset_deltas", bytes(DeltaEncoder::default(), begun_again()));
    insta::assert_snapshot!("reset_ui_messages", bytes(UiMessageEncoder::new(false), begun_again()));
}

#[test]
fn a_client_that_can_drop_a_step_goes_on() {
    insta::assert_snapshot!(bytes(UiMessageEncoder::new(true), begun_again()));
}

/// A reader that comes late to the log has seen no text that is void.
#[test]
fn what_is_void_already_is_not_sent() {
    for sent in [
        bytes(DeltaEncoder::default(), without_repeats(begun_again())),
        bytes(UiMessageEncoder::new(false), without_repeats(begun_again())),
    ] {
        assert!(
            sent.contains("The city.") && !sent.contains("The ca\"") && !sent.contains("error"),
            "{sent}"
        );
    }
    assert_eq!(without_repeats(a_search()), a_search());
}

#[test]
fn a_step_that_begins_again_before_it_said_anything_is_no_matter() {
    let log = || {
        vec![
            run_start(),
            step_start(1),
            step_reset(1),
            text(1, "Hi."),
            step_end(1, "Hi.", &[]),
            complete("Hi."),
            run_end("completed"),
        ]
    };
    let plain =
        |encoder: String| !encoder.contains("error") && !encoder.contains("reset") && encoder.contains("Hi.");
    assert!(plain(bytes(DeltaEncoder::default(), log())));
    assert!(plain(bytes(UiMessageEncoder::new(false), log())));
    // Thoughts are not part of this text, so they may come twice.
    let thinking = vec![
        run_start(),
        step_start(1),
        reasoning("Hm."),
        step_reset(1),
        text(1, "Hi."),
        complete("Hi."),
        run_end("completed"),
    ];
    assert!(plain(bytes(DeltaEncoder::default(), thinking.clone())));
    assert!(bytes(UiMessageEncoder::new(false), thinking).contains("\"type\":\"error\""));
}

#[test]
fn a_run_that_does_not_complete_says_so() {
    let cut = |end: Event| vec![run_start(), step_start(1), text(1, "Hel"), end];
    for (name, end) in [
        ("failed", failed("nobody answers")),
        ("cancelled", run_end("cancelled")),
        ("interrupted", run_end("interrupted")),
    ] {
        insta::assert_snapshot!(format!("{name}_deltas"), bytes(DeltaEncoder::default(), cut(end.clone())));
        insta::assert_snapshot!(format!("{name}_ui_messages"), bytes(UiMessageEncoder::new(false), cut(end)));
    }
    // One that was cancelled in the queue has no other event.
    assert_eq!(
        bytes(UiMessageEncoder::new(false), vec![run_end("cancelled")]),
        "data: {\"type\":\"abort\"}\n\ndata: [DONE]\n\n"
    );
}

fn asking() -> Vec<Event> {
    vec![run_start(), step_start(1), text(1, "May I?"), step_end(1, "May I?", &[call(CALL)]), proposal_open()]
}

#[test]
fn a_run_that_waits_ends_the_stream_and_its_decision_begins_the_next() {
    let id: ProposalId = PROPOSAL.parse().unwrap();
    let mut waiting = UiMessageEncoder::new(false);
    let mut out = Vec::new();
    for event in asking() {
        assert_eq!(waiting.waits_for(), []);
        assert_eq!(waiting.write(event, &mut out), StreamState::Open);
    }
    assert_eq!(waiting.waits_for(), [AwaitedAnswer::Decision(id)]);
    waiting.park(&mut out);
    insta::assert_snapshot!("waiting_ui_messages", String::from_utf8(out).unwrap());

    for (decision, status) in [("confirmed", "complete"), ("rejected", "denied")] {
        let answered = [
            proposal_closed(decision),
            tool_complete(CALL, status, &json!("done")),
            step_start(2),
            text(2, "Well."),
            step_end(2, "Well.", &[]),
            complete("Well."),
            run_end("completed"),
        ];
        let log: Vec<Event> = asking().into_iter().chain(answered).collect();
        let after = UiMessageEncoder::new(false).after_answers(vec![AwaitedAnswer::Decision(id)]);
        insta::assert_snapshot!(format!("{decision}_ui_messages"), bytes(after, log.clone()));
        assert_eq!(bytes(UiMessageEncoder::new(false), log.clone()).matches("[DONE]").count(), 1);
        assert!(bytes(DeltaEncoder::default(), log).contains("Well."));
    }
}

/// A call that the client makes after an approval is told again, as one of its own.
#[test]
fn a_call_of_the_client_waits_for_its_result_after_its_approval() {
    let call_id = CALL.parse().unwrap();
    let open = json!({ "callId": CALL, "name": "echo", "input": { "text": "hi" }, "expiresAt": "2026-11-16T12:00:00Z" });
    let confirmed = [proposal_closed("confirmed"), event("call:open", &open)];
    let log: Vec<Event> = asking().into_iter().chain(confirmed).collect();
    let given = AwaitedAnswer::Decision(PROPOSAL.parse().unwrap());
    let (mut encoder, mut out) = (UiMessageEncoder::new(false).after_answers(vec![given]), Vec::new());
    for event in log.clone() {
        encoder.write(event, &mut out);
    }
    assert_eq!(encoder.waits_for(), [AwaitedAnswer::Result(call_id)]);
    let told = String::from_utf8(out).unwrap();
    let own = format!(
        "{{\"type\":\"tool-input-available\",\"toolCallId\":\"{CALL}\",\"toolName\":\"echo\",\"input\":{{\"text\":\"hi\"}}}}"
    );
    assert!(told.contains(&own), "{told}");
    let ended = [tool_complete(CALL, "complete", &json!("done")), run_end("completed")];
    let after = UiMessageEncoder::new(false).after_answers(vec![AwaitedAnswer::Result(call_id)]);
    let rest = bytes(after, log.into_iter().chain(ended).collect());
    assert!(!rest.contains("May I?") && rest.contains("\"output\":\"done\"}"), "{rest}");
}

#[test]
fn a_sibling_call_under_way_keeps_the_stream_open() {
    let mut encoder = UiMessageEncoder::new(false);
    let mut out = Vec::new();
    for event in [run_start(), step_start(1), step_end(1, "", &[call(CALL), call(OTHER)]), proposal_open()] {
        encoder.write(event, &mut out);
    }
    assert_eq!(encoder.waits_for(), []);
    encoder.write(tool_complete(OTHER, "complete", &json!(1)), &mut out);
    assert_eq!(encoder.waits_for(), [AwaitedAnswer::Decision(PROPOSAL.parse().unwrap())]);
}

#[test]
fn a_call_that_is_begun_and_not_made_is_closed() {
    let arguments = json!({ "id": CALL, "name": "echo", "input": null, "raw": "{\"text\":" });
    let log = vec![
        run_start(),
        step_start(1),
        input(CALL, "{\"text\":"),
        input(OTHER, "{"),
        step_end(1, "", &[arguments]),
        tool_complete(CALL, "denied", &json!("no")),
        run_end("cancelled"),
    ];
    insta::assert_snapshot!(bytes(UiMessageEncoder::new(false), log));
}

#[test]
fn a_stream_that_is_cut_closes_what_is_open() {
    let mut encoder = UiMessageEncoder::new(false);
    let mut out = Vec::new();
    for event in [run_start(), step_start(1), reasoning("Hm.")] {
        encoder.write(event, &mut out);
    }
    out.clear();
    encoder.cut("why", &mut out);
    let expected = [
        r#"{"type":"reasoning-end","id":"part-1"}"#,
        r#"{"type":"finish-step"}"#,
        r#"{"type":"error","errorText":"why"}"#,
        "[DONE]",
    ];
    let expected: String = expected.iter().map(|line| format!("data: {line}\n\n")).collect();
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let mut out = Vec::new();
    DeltaEncoder::default().cut("why", &mut out);
    let expected =
        "data: {\"delta\":\"\",\"done\":true,\"error\":{\"code\":\"stream_cut\",\"message\":\"why\"}}\n\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// No text can pass for another event, since JSON has no line breaks of its own.
#[test]
fn odd_text_stays_in_its_line() {
    let odd = "\r\n\r\ndata: [DONE]\n\n\u{2028}\u{0}";
    let log = || {
        vec![
            run_start(),
            step_start(1),
            text(1, odd),
            step_end(1, odd, &[]),
            complete(odd),
            run_end("completed"),
        ]
    };
    for sent in [bytes(DeltaEncoder::default(), log()), bytes(UiMessageEncoder::new(false), log())] {
        let lines = sent.split_terminator("\n\n").map(|block| block.strip_prefix("data: ").unwrap());
        let parsed: Vec<Value> =
            lines.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect();
        let texts: String = parsed.iter().filter_map(|chunk| chunk["delta"].as_str()).collect();
        assert_eq!(texts, odd);
    }
}
