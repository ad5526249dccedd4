//! The model's answers to requests, without a socket.

use serde_json::{Value, json};

use super::background::{MEMORY_PROMPT, SUMMARY_PROMPT, TITLE_PROMPT, memories, summary, title};
use super::reading::{Wish, wish};
use super::*;

fn program() -> MessageProgram {
    MessageProgram {
        tag: "a1n7".into(),
        canary: "canaryadda".into(),
        steps: vec![
            ProgramStep { say: 9, calls: vec![("look".into(), json!({"tag": "a1n7", "n": 1}))] },
            ProgramStep { say: 3, calls: Vec::new() },
        ],
        fault: None,
        pace: 0,
    }
}

fn request(system: &str, rest: &[Value], tools: bool) -> Value {
    let mut messages = vec![json!({"role": "system", "content": system})];
    messages.extend_from_slice(rest);
    let mut body = json!({"model": "m", "messages": messages});
    if tools {
        body["tools"] = json!([]);
    }
    body
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[test]
fn the_step_is_the_number_of_answers_after_the_newest_message() {
    let earlier = MessageProgram { tag: "earlier".into(), ..program() };
    let answer = json!({"role": "assistant", "content": "x"});
    let said = format!("What is known of the user:\n\nsomething\n\n{}", program().text());
    let history = [user(&earlier.text()), answer.clone(), user(&said)];
    let step = |step, tools| Wish::Step { program: program(), step, tools };
    assert_eq!(wish(&request("You", &history, true)), step(0, true));
    let further = [&history[..], &[answer, json!({"role": "tool", "content": "found"})]].concat();
    assert_eq!(wish(&request("You", &further, true)), step(1, true));
    assert_eq!(wish(&request("You", &history, false)), step(2, false), "the last word");
    assert_eq!(wish(&request("You", &[user("hello")], true)), Wish::Unreadable);
    assert_eq!(wish(&json!({})), Wish::Unreadable);
}

#[test]
fn background_work_is_known_by_its_prompt() {
    let text = program().text();
    let asked = |system: &str| wish(&request(system.trim(), &[user(&text)], false));
    assert_eq!(asked(TITLE_PROMPT), Wish::Title(text.clone()));
    assert_eq!(asked(MEMORY_PROMPT), Wish::Memories(text.clone()));
    assert_eq!(asked(SUMMARY_PROMPT), Wish::Summary(text.clone()));
}

#[test]
fn every_program_of_a_batch_becomes_a_memory() {
    let quoted = Value::from(program().text());
    let batch = format!(
        "Today is Sunday.\n\nKnown memories:\nm1 (fact): \"x\"\n\nThe conversation:\n\
         u1 (user, Sunday, 2026-02-01): {quoted}\nassistant, not citable: {quoted}\n\
         u2 (user, Sunday, 2026-02-01): \"hello\"\n"
    );
    let result: Value = serde_json::from_str(&memories(&batch)).unwrap();
    let expected = json!({"changes": [{
        "action": "create", "ids": [], "message": "u1", "quote": "a1n7", "text": "canaryadda said a1n7", "kind": "fact",
    }]});
    assert_eq!(result, expected);
}

#[test]
fn titles_and_summaries_say_whose_they_are() {
    let text = program().text();
    assert_eq!(title(&text), "a1n7 of canaryadda");
    assert_eq!(title(&text[..30]), "a1n7 in part");
    let turns = format!("<data-1>\nUSER: {text}\n\nASSISTANT: done\n\nUSER: {text}\n</data-1>");
    assert_eq!(summary(&turns), "canaryadda asked for 2 programs, from a1n7 to a1n7");
    assert_eq!(summary(""), "Earlier programs were carried out");
}

#[test]
fn each_attempt_says_something_else_and_costs_the_same() {
    let [first, second] = [0, 1].map(|attempt| perform(&program(), 0, attempt, true));
    assert_eq!(first.text, "a1n7 step 0 #0 the tide comes in #0 and goes out while #0 nobody #0 ");
    assert_ne!(first.text, second.text);
    assert_eq!(first.tokens, second.tokens);
    assert!(first.calls);
    let words = perform(&program(), 0, 0, false);
    assert!(!words.calls, "no calls where no tools are offered");
    assert_ne!(first.tokens, perform(&program(), 1, 0, true).tokens);
}

#[test]
fn only_the_first_attempt_fails() {
    for kind in [FaultKind::RateLimited, FaultKind::Unavailable, FaultKind::Cut, FaultKind::ErrorEvent] {
        let program = MessageProgram { fault: Some(Fault { step: 1, kind }), ..program() };
        assert_eq!(perform(&program, 1, 0, true).tokens, (0, 0), "{kind:?}");
        assert_ne!(perform(&program, 1, 1, true).tokens, (0, 0), "{kind:?}");
        assert_ne!(perform(&program, 0, 0, true).tokens, (0, 0), "{kind:?}");
    }
}
