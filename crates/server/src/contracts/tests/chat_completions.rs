//! Chat Completions over whole logs: chunks byte for byte, and the same answers as one object.

use super::*;

fn encoder() -> ChatCompletionEncoder {
    ChatCompletionEncoder::new("kalito".to_owned(), true)
}

fn given(call: &str) -> Vec<AwaitedAnswer> {
    vec![AwaitedAnswer::Result(call.parse().unwrap())]
}

fn without_deltas(log: Vec<Event>) -> Vec<Event> {
    log.into_iter().filter(|event| !event.kind().is_delta()).collect()
}

/// The answer as one object, or the code of its failure.
fn collected(mut collector: CompletionCollector, log: Vec<Event>) -> Result<Value, String> {
    let outcome = log.into_iter().find_map(|event| collector.read(event)).expect("a log has an end");
    outcome.map(|answer| serde_json::to_value(answer).unwrap()).map_err(|failure| failure.code)
}

fn call_open(id: &str) -> Event {
    let body = json!({
        "callId": id, "name": "locate", "input": { "precise": true }, "expiresAt": "2026-11-16T12:00:00Z",
    });
    event("call:open", &body)
}

/// All text of the chunks.
fn content(chunks: &str) -> String {
    let data = chunks.split("\n\n").filter_map(|block| block.strip_prefix("data: {"));
    let chunks = data.map(|data| serde_json::from_str::<Value>(&format!("{{{data}")).unwrap());
    let deltas: Vec<Value> = chunks.map(|chunk| chunk["choices"][0]["delta"]["content"].clone()).collect();
    deltas.iter().filter_map(Value::as_str).collect()
}

#[test]
fn a_search_as_chunks() {
    insta::assert_snapshot!(bytes(encoder(), a_search()));
}

#[test]
fn a_log_without_its_deltas_has_the_same_answer() {
    let (whole, pruned) = (bytes(encoder(), a_search()), bytes(encoder(), without_deltas(a_search())));
    assert_eq!(content(&whole), "Let me look.\n\nIt is so.");
    assert_eq!(content(&pruned), content(&whole));
    let answer = |log| collected(CompletionCollector::new("kalito".to_owned()), log).unwrap();
    let pruned = answer(without_deltas(a_search()));
    assert_eq!(pruned["choices"][0]["message"]["content"], "Let me look.\n\nIt is so.");
    assert_eq!(pruned["usage"], answer(a_search())["usage"]);
    insta::assert_json_snapshot!(answer(a_search()));
}

#[test]
fn an_answer_is_as_old_as_the_id_of_its_run() {
    let run = "run_019aa0a1c4e27d3a8b5f6c7d8e9fa0b1";
    let start = json!({
        "runId": run, "threadId": "thr_00000000000000000000000000000001",
        "messageId": "msg_00000000000000000000000000000001", "model": "test-model", "appRevision": "1",
    });
    let log = vec![event("run:start", &start), complete("Hi."), run_end("completed")];
    let answer = collected(CompletionCollector::default(), log).unwrap();
    assert_eq!(answer["id"], "chatcmpl-019aa0a1c4e27d3a8b5f6c7d8e9fa0b1");
    assert_eq!(answer["created"], 0x019a_a0a1_c4e2_u64 / 1000);
}

#[test]
fn an_answer_that_no_model_gave_is_whole() {
    for log in [remembering(), without_deltas(remembering())] {
        assert_eq!(content(&bytes(encoder(), log)), "Noted.");
    }
}

#[test]
fn text_that_cannot_be_removed_ends_a_stream_and_is_left_out_of_an_object() {
    insta::assert_snapshot!(bytes(encoder(), begun_again()));
    let answer = collected(CompletionCollector::default(), begun_again()).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "The city.");
    assert_eq!(content(&bytes(encoder(), without_repeats(begun_again()))), "The city.");
}

/// One call of the server and one of the client, which has a result later.
fn waiting() -> Vec<Event> {
    vec![
        run_start(),
        step_start(1),
        text(1, "Let me look."),
        step_end(1, "Let me look.", &[call(CALL), call(OTHER)]),
        call_open(CALL),
        tool_start(OTHER, None),
        tool_complete(OTHER, "complete", &json!("two")),
        tool_complete(CALL, "complete", &json!("here")),
        step_start(2),
        text(2, "It is here."),
        step_end(2, "It is here.", &[]),
        complete("It is here."),
        run_end("completed"),
    ]
}

#[test]
fn an_answer_ends_at_a_call_of_the_client_and_goes_on_after_its_result() {
    insta::assert_snapshot!("chat_completions_waiting", bytes(encoder(), waiting()));
    insta::assert_snapshot!("chat_completions_after", bytes(encoder().after_answers(given(CALL)), waiting()));
    // The end follows from the log alone: it is the same while the run waits, and when it has long ended.
    for end in 7..=waiting().len() {
        let log = waiting().into_iter().take(end).collect();
        assert_eq!(bytes(encoder(), log), bytes(encoder(), waiting()));
    }
    let after = collected(CompletionCollector::default().after_answers(given(CALL)), waiting()).unwrap();
    assert_eq!(after["choices"][0]["message"]["content"], "It is here.");
    assert_eq!(after["usage"]["prompt_tokens"], 10, "{after}");
}

#[test]
fn an_approval_is_asked_for_in_words() {
    let log = vec![
        run_start(),
        step_start(1),
        text(1, "I will."),
        step_end(1, "I will.", &[call(CALL)]),
        proposal_open(),
        proposal_closed("confirmed"),
        tool_complete(CALL, "complete", &json!("done")),
        run_end("completed"),
    ];
    let answer = collected(CompletionCollector::default(), log).unwrap();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    let expected = format!(
        "I will.\n\n{APPROVAL_NOTICE}echo {{}}. Approve it with POST /v1/proposals/{PROPOSAL}/confirm, reject it \
         with POST /v1/proposals/{PROPOSAL}/reject, or decide in the console."
    );
    assert_eq!((text, &answer["choices"][0]["finish_reason"]), (expected.as_str(), &json!("stop")));
}

#[test]
fn failures_have_openai_s_form() {
    let log = || vec![run_start(), step_start(1), text(1, "The ca"), failed("the provider is down")];
    assert_eq!(collected(CompletionCollector::default(), log()), Err("provider_unavailable".to_owned()));
    let sent = bytes(encoder(), log());
    let error = json!({ "error": {
        "message": "the provider is down", "type": "server_error", "param": null, "code": "provider_unavailable",
    }});
    let last: Value = serde_json::from_str(sent.trim_end().rsplit("data: ").next().unwrap()).unwrap();
    assert_eq!(last, error);
    let cancelled = vec![run_start(), run_end("cancelled")];
    assert_eq!(collected(CompletionCollector::default(), cancelled), Err("cancelled".to_owned()));
}
