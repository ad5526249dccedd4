//! The loop: the model is asked, its tools run, and it is asked again with what they found.

use serde_json::{Value, json};
use testkit::Frame;
use testkit::upstream::{Reply, ScriptedCall};

use super::{asked, object, results, teaches, text, thread_of, tutor};
use crate::product::{calls, of, status};
use crate::world::names;

/// Calculates this, then says that it is done.
fn calculates(expression: &'static str) -> impl Fn(&Value) -> Reply + Send + Sync {
    move |body| match results(body).len() {
        0 => calls(&[("calculate", json!({ "expression": expression }))]),
        _ => Reply::says(&object(&[], "Done.")),
    }
}

/// Calculates something else each time, as long as there are tools.
fn goes_on(body: &Value) -> Reply {
    if body.get("tools").is_none() {
        return Reply::says(&object(&[], "That is as far as I came."));
    }
    calls(&[("calculate", json!({ "expression": format!("{} + 1", results(body).len()) }))])
}

fn place(frames: &[Frame], event: &str) -> usize {
    names(frames).iter().position(|name| *name == event).unwrap_or_else(|| panic!("no {event} came"))
}

#[tokio::test]
async fn each_pass_has_the_tools_and_streams() {
    let (product, server) = tutor().await;
    teaches(&product, calculates("6 * 7"));
    assert_eq!(text(&product.say(&server, "What is 6 times 7?").await), "Done.");
    let requests = asked(&product);
    assert_eq!(requests.len(), 2, "one pass with a call, one with the answer");
    for request in requests {
        assert_eq!(request["stream"], json!(true));
        let tools = request["tools"].as_array().unwrap();
        let offered: Vec<_> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
        for tool in ["current_time", "calculate", "listLessonPlans", "createLessonPlan", "updateLessonPlan"] {
            assert!(offered.contains(&tool), "{tool} is not among {offered:?}");
        }
    }
}

#[tokio::test]
async fn text_and_calls_that_arrive_in_pieces_are_put_together() {
    let (product, server) = tutor().await;
    let arguments = r#"{"expression": "(1/3) + (1/6)"}"#;
    teaches(&product, move |body| match results(body).len() {
        0 => Reply::stream()
            .text("Let me ")
            .text("see.")
            .call(ScriptedCall::new("calculate", arguments).fragments(3)),
        _ => Reply::says(&object(&[], "A half.")),
    });
    let frames = product.say(&server, "What is a third and a sixth?").await;
    let pieces = of(&frames, "tool:input");
    assert_eq!(pieces.iter().map(|piece| piece["delta"].as_str().unwrap()).collect::<String>(), arguments);
    assert_eq!(of(&frames, "step:end")[0]["text"], "Let me see.");
    assert_eq!(of(&frames, "tool:start")[0]["input"], json!({ "expression": "(1/3) + (1/6)" }));
    assert!(results(&asked(&product)[1])[0]["content"].to_string().contains("0.5"));
}

#[tokio::test]
async fn a_call_is_on_record_as_begun_before_it_runs_and_as_complete_after() {
    let (product, server) = tutor().await;
    teaches(&product, calculates("6 * 7"));
    let frames = product.say(&server, "What is 6 times 7?").await;
    let (start, complete) = (of(&frames, "tool:start")[0], of(&frames, "tool:complete")[0]);
    assert_eq!((&start["name"], &start["input"]["expression"]), (&json!("calculate"), &json!("6 * 7")));
    assert_eq!((&complete["callId"], &complete["status"]), (&start["callId"], &json!("complete")));
    assert!(complete["output"].to_string().contains("42"), "{complete}");
    assert!(place(&frames, "tool:start") < place(&frames, "tool:complete"));
    let log = server.log(&thread_of(&frames)).await;
    let stored: Vec<_> =
        log.into_iter().filter(|frame| frames.iter().any(|seen| seen.id == frame.id)).collect();
    assert_eq!(stored, frames, "whatever was told is kept");
}

#[tokio::test]
async fn a_call_is_kept_with_input_output_and_duration() {
    let (product, server) = tutor().await;
    teaches(&product, calculates("6 * 7"));
    let frames = product.say(&server, "What is 6 times 7?").await;
    let run = of(&frames, "run:start")[0]["runId"].as_str().unwrap();
    let (_, page) = server.get(&product.path(&format!("actions?run={run}"))).await;
    let action = &page["data"][0];
    assert_eq!((&action["tool"], &action["status"]), (&json!("calculate"), &json!("complete")), "{page}");
    assert_eq!(action["input"], json!({ "expression": "6 * 7" }));
    assert_eq!(action["output"], of(&frames, "tool:complete")[0]["output"]);
    assert!(action["durationMs"].is_u64() && action["startedAt"].is_string(), "{action}");
    let (_, messages) = server.get(&format!("/v1/threads/{}/messages", thread_of(&frames))).await;
    let answer = &messages["data"][1];
    assert_eq!(
        (&answer["toolCalls"][0]["name"], &answer["toolResults"][0]["success"]),
        (&json!("calculate"), &json!(true))
    );
}

#[tokio::test]
async fn what_a_tool_found_goes_back_to_the_model_after_its_call() {
    let (product, server) = tutor().await;
    teaches(&product, calculates("6 * 7"));
    product.say(&server, "What is 6 times 7?").await;
    let requests = asked(&product);
    let messages = requests[1]["messages"].as_array().unwrap();
    let [.., call, result] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(call["tool_calls"][0]["function"]["name"], "calculate");
    assert_eq!(result["tool_call_id"], call["tool_calls"][0]["id"]);
    assert!(result["content"].to_string().contains("42"), "{result}");
    let before = requests[0]["messages"].as_array().unwrap();
    assert_eq!(messages[..before.len()], before[..], "and nothing before it changes");
}

#[tokio::test]
async fn calls_of_one_pass_run_side_by_side() {
    let (product, server) = tutor().await;
    teaches(&product, |body| match results(body).len() {
        0 => calls(&[
            ("calculate", json!({ "expression": "1 / 4" })),
            ("current_time", json!({})),
            ("calculate", json!({ "expression": "1 / 8" })),
        ]),
        _ => Reply::says(&object(&[], "Done.")),
    });
    let frames = product.say(&server, "Which is larger?").await;
    let order: Vec<_> =
        names(&frames).into_iter().filter(|name| matches!(*name, "tool:start" | "tool:complete")).collect();
    assert_eq!(order[..3], ["tool:start"; 3], "all begin before the first ends");
    assert_eq!(order[3..], ["tool:complete"; 3]);
    let requests = asked(&product);
    assert_eq!((requests.len(), results(&requests[1]).len()), (2, 3), "the next pass has all results");
}

#[tokio::test]
async fn after_ten_passes_the_tutor_answers_with_what_it_has() {
    let (product, server) = tutor().await;
    teaches(&product, goes_on);
    let frames = product.say(&server, "Count for me.").await;
    assert_eq!((text(&frames).as_str(), status(&frames)), ("That is as far as I came.", "completed"));
    let requests = asked(&product);
    let with_tools = requests.iter().filter(|request| request.get("tools").is_some()).count();
    assert_eq!((with_tools, requests.len()), (10, 11));
    assert_eq!(of(&frames, "tool:complete").len(), 10);
    assert!(requests[10].get("response_format").is_some(), "it is an object even then");
}

#[tokio::test]
async fn one_pass_can_build_on_what_the_pass_before_it_found() {
    let (product, server) = tutor().await;
    teaches(&product, |body| match results(body).as_slice() {
        [] => calls(&[("calculate", json!({ "expression": "3 * 4" }))]),
        [.., last] if results(body).len() < 4 => {
            let found: Value = serde_json::from_str(last["content"].as_str().unwrap()).unwrap();
            calls(&[("calculate", json!({ "expression": format!("{} * 2", found["value"]) }))])
        }
        _ => Reply::says(&object(&[], "Ninety-six.")),
    });
    let frames = product.say(&server, "Double it three times.").await;
    assert_eq!((text(&frames).as_str(), status(&frames)), ("Ninety-six.", "completed"));
    let values: Vec<_> =
        of(&frames, "tool:complete").iter().map(|data| data["output"]["value"].clone()).collect();
    assert_eq!(values, [12, 24, 48, 96]);
    assert_eq!(asked(&product).len(), 5);
}

#[tokio::test]
async fn a_lesson_plan_that_was_agreed_on_is_written_down_and_followed() {
    let (product, server) = tutor().await;
    let plan =
        json!({ "subject": "Fractions", "goal": "Add thirds and sixths.", "steps": ["Fold", "Name", "Add"] });
    teaches(&product, move |body| match results(body).as_slice() {
        [] => calls(&[("createLessonPlan", plan.clone())]),
        [made] => {
            let content = made["content"].as_str().unwrap();
            let at = content.find("rec_").unwrap();
            calls(&[("updateLessonPlan", json!({ "id": content[at..at + 36], "done": 1 }))])
        }
        [_, _] => calls(&[("listLessonPlans", json!({ "status": "active" }))]),
        _ => Reply::says(&object(&[], "The first step is done.")),
    });
    let frames = product.say(&server, "Yes, let us do it so.").await;
    let ends: Vec<_> = of(&frames, "tool:complete").iter().map(|data| data["status"].clone()).collect();
    assert_eq!(ends, ["complete", "complete", "complete"], "{frames:?}");
    assert!(of(&frames, "tool:complete")[2]["output"].to_string().contains("Add thirds and sixths."));
    let (_, page) = server.get(&product.path("records/lesson_plan")).await;
    let data = &page["data"][0]["data"];
    assert_eq!(
        (&data["subject"], &data["done"], &data["status"]),
        (&json!("Fractions"), &json!(1), &json!("active"))
    );
}
