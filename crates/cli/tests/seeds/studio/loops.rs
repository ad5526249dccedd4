//! Studio's loop: calls and results one to one, round after round, up to its bounds.

use testkit::upstream::ScriptedCall;

use super::*;

/// A model that calculates something new in each round, `calls` at a time, as long as it is offered tools.
fn never_ending(product: &Product, at_once: usize) {
    product.upstream().program(move |request| {
        if request.get("tools").is_none() {
            return Reply::says("Enough.");
        }
        let turns = request["messages"].as_array().unwrap().len();
        let call =
            |number: usize| ("calculate", json!({ "expression": format!("{turns} * 1000 + {number}") }));
        calls(&(0..at_once).map(call).collect::<Vec<_>>())
    });
}

/// The ids of all calls of a run, and of all results, in their order.
fn ids(frames: &[Frame]) -> (Vec<String>, Vec<String>) {
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let made = of(frames, "step:end")
        .iter()
        .flat_map(|step| step["calls"].as_array().unwrap().clone())
        .collect::<Vec<_>>();
    let done = of(frames, "tool:complete").iter().map(|end| id(&end["callId"])).collect();
    (made.iter().map(|call| id(&call["id"])).collect(), done)
}

#[tokio::test]
async fn each_call_of_a_step_is_run_and_has_one_result() {
    let step = calls(&[
        ("calculate", json!({ "expression": "6 * 7" })),
        ("current_time", json!({})),
        ("calculate", json!({ "expression": "2 + 2" })),
    ]);
    let (product, server) = studio([step, Reply::says("42, now, 4.")]).await;
    let frames = say(&server, None, "Three things, please").await;
    let (made, mut done) = ids(&frames);
    done.sort();
    assert_eq!((made.len(), &done), (3, &made), "one result for each call, and ids grow");
    assert!(of(&frames, "tool:complete").iter().all(|end| end["status"] == "complete"), "{frames:?}");
    let second = product.last_request();
    assert_eq!(roles(&second), ["system", "user", "assistant", "tool", "tool", "tool"]);
    let called = |at: usize| &second["messages"][2]["tool_calls"][at]["id"];
    assert!((0..3).all(|at| *called(at) == second["messages"][3 + at]["tool_call_id"]), "{second}");
    assert!(content(&second, 3).contains("42") && content(&second, 5).contains('4'), "{second}");
}

#[tokio::test]
async fn calls_under_one_id_of_the_model_are_still_two_calls_with_a_result_each() {
    let twice = Reply::stream()
        .call(ScriptedCall::new("calculate", r#"{"expression":"1 + 1"}"#).id("same"))
        .call(ScriptedCall::new("calculate", r#"{"expression":"2 + 2"}"#).id("same"));
    let (_product, server) = studio([twice, Reply::says("Two and four.")]).await;
    let frames = say(&server, None, "Two sums, please").await;
    let stored = messages(&server, &session(&frames)).await[1].clone();
    let (calls, results) =
        (stored["toolCalls"].as_array().unwrap(), stored["toolResults"].as_array().unwrap());
    assert_eq!((calls.len(), results.len()), (2, 2), "{stored}");
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert!(calls.iter().zip(results).all(|(call, result)| call["id"] == result["callId"]), "{stored}");
    assert!(results.iter().all(|result| result["success"] == true), "{stored}");
}

#[tokio::test]
async fn a_tool_that_fails_has_one_result_too_and_the_loop_goes_on() {
    let wrong = calls(&[
        ("calculate", json!({ "expression": "6 *" })),
        ("calculate", json!({ "expression": "6 * 7" })),
    ]);
    let (product, server) = studio([wrong, Reply::says("One of them is 42.")]).await;
    let frames = say(&server, None, "Two sums, please").await;
    let stored = messages(&server, &session(&frames)).await[1].clone();
    let success: Vec<&Value> =
        stored["toolResults"].as_array().unwrap().iter().map(|result| &result["success"]).collect();
    assert_eq!(success, [false, true]);
    assert!(stored["toolResults"][0]["result"]["error"].is_string(), "{stored}");
    assert!(content(&product.last_request(), 3).contains("error"));
    assert_eq!((status(&frames), answer(&frames)), ("completed", "One of them is 42."));
}

#[tokio::test]
async fn the_loop_goes_on_while_there_are_calls_and_ends_with_the_first_answer_without() {
    let (product, server) = studio([calculates("1 + 1"), calculates("2 + 2"), Reply::says("Four.")]).await;
    let frames = say(&server, None, "And then twice").await;
    let finishes: Vec<&Value> = of(&frames, "step:end").iter().map(|step| &step["finish"]).collect();
    assert_eq!(finishes, ["tool_calls", "tool_calls", "stop"]);
    assert_eq!(asked(&product).len(), 3);
    let results = of(&frames, "tool:complete");
    assert!(results.iter().all(|end| end["status"] == "complete"), "{results:?}");
    assert_eq!(roles(&product.last_request()), ["system", "user", "assistant", "tool", "assistant", "tool"]);
}

#[tokio::test]
async fn after_ten_rounds_of_tools_the_loop_ends() {
    let (product, server) = studio([]).await;
    never_ending(&product, 1);
    let frames = say(&server, None, "Count").await;
    let requests = asked(&product);
    assert_eq!(requests.iter().filter(|request| request.get("tools").is_some()).count(), 10);
    assert_eq!((requests.len(), of(&frames, "tool:complete").len()), (11, 10));
    assert_eq!((status(&frames), answer(&frames)), ("completed", "Enough."));
}

#[tokio::test]
async fn an_app_chooses_another_number_of_rounds() {
    let product = Product::new("studio").await;
    let path = product.world.path("apps/studio/app.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("max_steps = 10"), "the default is written down");
    std::fs::write(&path, text.replace("max_steps = 10", "max_steps = 2")).unwrap();
    never_ending(&product, 1);
    let server = product.serve().await;
    let frames = say(&server, None, "Count").await;
    assert_eq!(of(&frames, "tool:complete").len(), 2);
    assert_eq!(answer(&frames), "Enough.");
}

#[tokio::test]
async fn at_the_limit_the_model_answers_from_what_its_tools_found() {
    let (product, server) = studio([]).await;
    never_ending(&product, 1);
    let frames = say(&server, None, "Count").await;
    let last = product.last_request();
    assert_eq!(roles(&last), ["system", "user"], "{last}");
    for end in of(&frames, "tool:complete") {
        let number = format!("\"value\":{}", end["output"]["value"]);
        assert!(content(&last, 0).contains(&number), "{number} is not in {}", content(&last, 0));
    }
    assert_eq!(answer(&frames), "Enough.");
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_stopped_before_the_limit() {
    let (product, server) = studio([]).await;
    product.upstream().program(|request| match request.get("tools") {
        Some(_) => calculates("6 * 7"),
        None => Reply::says("I was going in circles."),
    });
    let frames = say(&server, None, "Go on").await;
    let statuses: Vec<&Value> = of(&frames, "tool:complete").iter().map(|end| &end["status"]).collect();
    assert_eq!(statuses, ["complete", "complete", "complete", "complete", "denied"]);
    assert_eq!((status(&frames), answer(&frames)), ("completed", "I was going in circles."));
}

#[tokio::test]
async fn ten_rounds_of_twenty_calls_are_two_hundred_results_and_no_more() {
    let (product, server) = studio([]).await;
    never_ending(&product, 20);
    let frames = say(&server, None, "Count").await;
    let (made, mut done) = ids(&frames);
    done.sort();
    done.dedup();
    assert_eq!((made.len(), of(&frames, "tool:complete").len(), done.len()), (200, 200, 200));
    assert!(of(&frames, "tool:complete").iter().all(|end| end["status"] == "complete"));
    assert_eq!((status(&frames), answer(&frames)), ("completed", "Enough."));
    let stored = messages(&server, &session(&frames)).await[1].clone();
    assert_eq!(stored["toolCalls"].as_array().unwrap().len(), 200);
}

#[tokio::test]
async fn calls_beyond_the_bounds_are_not_run_and_the_model_is_told() {
    let (product, server) = studio([]).await;
    never_ending(&product, 40);
    let frames = say(&server, None, "Count").await;
    let second = asked(&product)[1].clone();
    assert_eq!(roles(&second).iter().filter(|role| **role == "tool").count(), 32);
    assert!(second.to_string().contains("[not run, too many calls in one step: calculate"), "{second}");
    let statuses: Vec<&str> =
        of(&frames, "tool:complete").iter().map(|end| end["status"].as_str().unwrap()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == "complete").count(), 200, "of 7 rounds of 32");
    assert_eq!((status(&frames), answer(&frames)), ("completed", "Enough."));
}
