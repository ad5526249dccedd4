//! The loop: from a message over tools to an answer, how it ends, and what can be seen of it meanwhile.

use serde_json::json;
use testkit::upstream::Gate;

use super::*;
use crate::product::status;

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

/// How many steps of a run the app allows; after them comes the answer.
const STEPS: usize = 12;

#[tokio::test]
async fn a_result_goes_back_to_the_model_until_it_answers_in_words() {
    let (product, server) = with_sample().await;
    let part = id(&part_called(&server, "The Proofreader").await);
    plays(&product, move |seen, _| match seen {
        0 => calls(&[("searchParts", json!({ "query": "proofreader" }))]),
        1 => calls(&[("getPartDetails", json!({ "id": part }))]),
        _ => Reply::says("It checks everything."),
    });
    let frames = product.say(&server, "What do we know of the Proofreader?").await;
    assert_eq!((status(&frames), reply(&frames)), ("completed", "It checks everything."));
    let asked = asked(&product);
    assert_eq!(asked.len(), 3, "and no more: words end it");
    assert!(results(&asked[1])[0].to_string().contains("The Proofreader"));
    assert!(results(&asked[2])[1].to_string().contains("Tight shoulders"));
}

#[tokio::test]
async fn a_model_that_goes_on_and_on_must_answer_with_what_it_has() {
    let (product, server) = with_sample().await;
    plays(&product, |seen, body| match body["tools"].is_array() {
        true => calls(&[("searchParts", json!({ "query": format!("try {seen}") }))]),
        false => Reply::says("That is what I found."),
    });
    let frames = product.say(&server, "Search.").await;
    assert_eq!((status(&frames), reply(&frames)), ("completed", "That is what I found."));
    assert_eq!(of(&frames, "tool:complete").len(), STEPS);
    assert_eq!(asked(&product).len(), STEPS + 1);
}

#[tokio::test]
async fn words_arrive_while_the_model_still_speaks_before_and_after_a_tool() {
    let (product, server) = with_sample().await;
    let (before, after) = (Gate::new(), Gate::new());
    let (first, second) = (before.clone(), after.clone());
    plays(&product, move |seen, _| match seen {
        0 => Reply::stream()
            .text("Let me look. ")
            .wait(&first)
            .call(testkit::upstream::ScriptedCall::new("searchParts", r#"{"query":"proofreader"}"#)),
        _ => Reply::stream().text("It ").wait(&second).text("checks."),
    });
    let mut stream = product.ask(&server, json!({ "message": "Who is it?" })).await;
    let said = stream.read_until("text:delta").await.pop().unwrap();
    assert_eq!(said.data["delta"], "Let me look. ");
    before.open();
    assert_eq!(stream.read_until("text:delta").await.pop().unwrap().data["delta"], "It ");
    after.open();
    let rest = stream.all().await;
    assert_eq!((names(&rest)[0], reply(&rest)), ("text:delta", "It checks."));
}

#[tokio::test]
async fn calls_that_do_not_depend_on_each_other_run_side_by_side() {
    let (product, server) = with_sample().await;
    let wanted: Vec<(&str, Value)> =
        (0..8).map(|n| ("searchParts", json!({ "query": format!("word {n}") }))).collect();
    plays_calls(&product, &wanted);
    let frames = product.say(&server, "Search.").await;
    let (mut under_way, mut most) = (0, 0);
    for name in names(&frames) {
        match name {
            "tool:start" => under_way += 1,
            "tool:complete" => under_way -= 1,
            _ => {}
        }
        most = most.max(under_way);
    }
    assert!(most > 1, "{:?}", names(&frames));
    assert_eq!(of(&frames, "tool:complete").len(), wanted.len());
}

#[tokio::test]
async fn the_user_stops_an_answer_and_what_was_said_is_kept() {
    let (product, server) = with_sample().await;
    plays(&product, |seen, _| match seen {
        0 => calls(&[("searchParts", json!({ "query": "proofreader" }))]),
        _ => Reply::stream().text("It is").stall(),
    });
    let mut stream = product.ask(&server, json!({ "message": "Who is it?" })).await;
    let (run, thread) = (stream.header("x-run-id"), stream.header("x-thread-id"));
    stream.read_until("text:delta").await;
    assert_eq!(act(&server, &format!("/v1/runs/{run}/cancel")).await.0, 202);
    assert_eq!(status(&stream.all().await), "cancelled");
    let (_, page) = server.get(&format!("/v1/threads/{thread}/messages")).await;
    assert_eq!(page["data"][1]["text"], "It is", "{page}");
}

#[tokio::test]
async fn a_failed_call_does_not_end_the_answer_and_is_tried_again_otherwise() {
    let (product, server) = with_sample().await;
    let part = id(&part_called(&server, "The Proofreader").await);
    plays(&product, move |seen, body| match seen {
        0 => calls(&[("getPartDetails", json!({ "id": "rec_00000000000000000000000000000000" }))]),
        1 if results(body)[0].to_string().contains("not_found") => {
            calls(&[("getPartDetails", json!({ "id": part }))])
        }
        _ => Reply::says("There it is."),
    });
    let frames = product.say(&server, "Who is it?").await;
    let statuses: Vec<&Value> =
        of(&frames, "tool:complete").into_iter().map(|data| &data["status"]).collect();
    assert_eq!(statuses, [&json!("failed"), &json!("complete")]);
    assert_eq!((status(&frames), reply(&frames)), ("completed", "There it is."));
}

#[tokio::test]
async fn a_failed_call_is_kept_with_its_reason_and_the_user_hears_of_it() {
    let (product, server) = with_sample().await;
    plays(&product, |seen, body| match seen {
        0 => calls(&[("undoAction", json!({ "actionId": "act_00000000000000000000000000000000" }))]),
        _ if results(body)[0].to_string().contains("not_found") => Reply::says("I could not take that back."),
        _ => Reply::says("It is gone."),
    });
    let frames = product.say(&server, "Take it back.").await;
    assert_eq!(reply(&frames), "I could not take that back.");
    let action = list(&server, "actions?status=failed").await[0].clone();
    assert_eq!((&action["tool"], &action["output"]["error"]), (&json!("undoAction"), &json!("not_found")));
    assert!(action["output"]["message"].is_string(), "{action}");
}
