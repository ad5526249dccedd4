//! The records that studio stores of a turn, and their use in the next.

use testkit::upstream::Gate;

use super::*;
use crate::process::within;
use crate::world::names;

#[tokio::test]
async fn a_turn_with_tools_is_stored_with_its_calls_and_their_results() {
    let (_product, server) = studio([calculates("6 * 7"), Reply::says("It is 42.")]).await;
    let frames = say(&server, None, "What is 6 times 7?").await;
    let stored = messages(&server, &session(&frames)).await;
    assert_eq!(stored.len(), 2);
    let (call, result) = (&stored[1]["toolCalls"][0], &stored[1]["toolResults"][0]);
    assert_eq!((&call["name"], &call["input"]), (&json!("calculate"), &json!({ "expression": "6 * 7" })));
    assert_eq!(
        (&result["callId"], &result["name"], &result["success"]),
        (&call["id"], &json!("calculate"), &json!(true))
    );
    assert_eq!(result["result"], of(&frames, "tool:complete")[0]["output"]);
    assert_eq!((&stored[1]["text"], &stored[1]["model"]), (&json!("It is 42."), &json!("gpt-6-luna")));
}

#[tokio::test]
async fn the_next_turn_shows_the_model_messages_calls_and_results_each_in_its_role() {
    let script = [
        Reply::stream()
            .text("Let me see.")
            .call(testkit::upstream::ScriptedCall::new("calculate", r#"{"expression":"6 * 7"}"#)),
        Reply::says("It is 42."),
        Reply::says("You are welcome."),
    ];
    let (product, server) = studio(script).await;
    let id = session(&say(&server, None, "What is 6 times 7?").await);
    say(&server, Some(&id), "Thank you").await;
    let request = product.last_request();
    assert_eq!(roles(&request), ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert_eq!((content(&request, 1), content(&request, 5)), ("What is 6 times 7?", "Thank you"));
    let call = &request["messages"][2]["tool_calls"][0];
    assert_eq!((content(&request, 2), &call["function"]["name"]), ("Let me see.", &json!("calculate")));
    assert_eq!(call["id"], request["messages"][3]["tool_call_id"]);
    assert!(content(&request, 3).contains("42"), "{request}");
    assert_eq!(content(&request, 4), "It is 42.");
}

#[tokio::test]
async fn the_history_comes_from_the_database_also_after_a_restart() {
    let product = Product::new("studio").await;
    product.upstream().program(|_| Reply::says("I see."));
    let server = product.serve().await;
    let id = session(&say(&server, None, "My boat is red").await);
    for message in ["It has two masts", "It leaks", "A little"] {
        say(&server, Some(&id), message).await;
    }
    server.process.kill();
    let server = product.serve().await;
    say(&server, Some(&id), "Which colour has my boat?").await;
    let request = product.last_request();
    assert_eq!((roles(&request).len(), content(&request, 1)), (10, "My boat is red"));
    assert_eq!(messages(&server, &id).await.len(), 10);
}

#[tokio::test]
async fn one_row_that_cannot_be_read_leaves_the_others_as_they_are() {
    let (product, server) = studio([]).await;
    product.upstream().program(|_| Reply::says("I see."));
    let id = session(&say(&server, None, "My boat is red").await);
    for message in ["It has two masts", "It leaks", "A little"] {
        say(&server, Some(&id), message).await;
    }
    let garbled =
        "UPDATE events SET body = '{\"messageId\":7' WHERE kind = 'message:user' AND body LIKE '%two masts%'";
    assert_eq!(unguarded(&product).execute(garbled, []).unwrap(), 1);
    let frames = say(&server, Some(&id), "Which colour has my boat?").await;
    assert_eq!(status(&frames), "completed");
    let request = product.last_request();
    assert_eq!((roles(&request).len(), content(&request, 1)), (10, "My boat is red"));
    assert!(content(&request, 3).contains("could not be read"), "{request}");
    assert_eq!(messages(&server, &id).await.len(), 10);
}

#[tokio::test]
async fn a_turn_has_only_its_own_calls_and_results() {
    let script = [
        calculates("6 * 7"),
        Reply::says("42."),
        calculates("2 + 2"),
        Reply::says("4."),
        Reply::says("Bye."),
    ];
    let (_product, server) = studio(script).await;
    let id = session(&say(&server, None, "6 times 7?").await);
    let second = say(&server, Some(&id), "2 and 2?").await;
    say(&server, Some(&id), "Thanks").await;
    assert_eq!(of(&second, "tool:complete").len(), 1);
    let stored = messages(&server, &id).await;
    let counts: Vec<usize> =
        stored.iter().map(|message| message["toolResults"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [0, 1, 0, 1, 0, 0]);
    let result = |at: usize| stored[at]["toolResults"][0]["result"].to_string();
    assert!(result(1).contains("42") && !result(3).contains("42"), "{} {}", result(1), result(3));
}

#[tokio::test]
async fn turns_at_the_same_time_do_not_mix() {
    let (product, server) = studio([]).await;
    product.upstream().program(|request| {
        let said = |role: &str| {
            let last =
                request["messages"].as_array().unwrap().iter().rfind(|message| message["role"] == role);
            last.map(|message| message["content"].as_str().unwrap().to_owned())
        };
        match said("tool") {
            Some(result) => {
                Reply::says(&serde_json::from_str::<Value>(&result).unwrap()["value"].to_string())
            }
            None => calculates(&said("user").unwrap()),
        }
    });
    let (one, two, three, four) = tokio::join!(
        say(&server, None, "100 + 1"),
        say(&server, None, "200 + 2"),
        say(&server, None, "300 + 3"),
        say(&server, None, "400 + 4")
    );
    for (frames, sum) in [(one, "101"), (two, "202"), (three, "303"), (four, "404")] {
        assert_eq!(answer(&frames), sum);
        let stored = messages(&server, &session(&frames)).await[1]["toolResults"].clone();
        assert_eq!(stored.as_array().unwrap().len(), 1, "{stored}");
        assert!(stored[0]["result"].to_string().contains(sum), "{stored}");
    }
}

#[tokio::test]
async fn later_turns_change_nothing_of_earlier_ones() {
    let (_product, server) = studio([calculates("6 * 7"), Reply::says("42."), Reply::says("Bye.")]).await;
    let id = session(&say(&server, None, "6 times 7?").await);
    let before = messages(&server, &id).await;
    assert_eq!(before[1]["text"], "42.");
    let second = say(&server, Some(&id), "Thanks").await;
    assert_eq!(status(&second), "completed");
    let after = messages(&server, &id).await;
    assert_eq!((after.len(), &after[..2]), (4, &before[..]));
}

#[tokio::test]
async fn a_reader_who_goes_away_loses_nothing() {
    let gate = Gate::new();
    let slow = Reply::stream().text("It is ").wait(&gate).text("42.");
    let (_product, server) = studio([calculates("6 * 7"), slow]).await;
    let mut stream = server.stream(STREAM, &json!({ "message": "What is 6 times 7?" })).await;
    let (run, id) = (stream.header("x-run-id"), stream.header("x-thread-id"));
    let seen = stream.read_until("tool:complete").await;
    assert_eq!(seen.last().unwrap().data["status"], "complete");
    drop(stream);
    within("the answer to begin", gate.reached()).await;
    gate.open();
    let rest = server.follow(&format!("/v1/runs/{run}/events"), seen.last().unwrap().id).await.all().await;
    assert_eq!((status(&rest), answer(&rest)), ("completed", "It is 42."));
    let stored = messages(&server, &id).await;
    assert_eq!((stored.len(), &stored[1]["text"]), (2, &json!("It is 42.")));
    assert_eq!(stored[1]["toolResults"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_dies_between_call_and_answer_stores_each_result_once() {
    let product = Product::new("studio").await;
    let gate = Gate::new();
    let held = gate.clone();
    product.upstream().program(move |request| match roles(request).last() {
        Some(&"tool") => Reply::stream().wait(&held).text("It is 42."),
        _ => calculates("6 * 7"),
    });
    let server = product.serve().await;
    let mut stream = server.stream(STREAM, &json!({ "message": "What is 6 times 7?" })).await;
    let (run, id) = (stream.header("x-run-id"), stream.header("x-thread-id"));
    stream.read_until("tool:complete").await;
    server.process.kill();
    gate.open();
    let server = product.serve().await;
    let whole = server.follow(&format!("/v1/runs/{run}/events"), 0).await.all().await;
    assert_eq!((status(&whole), answer(&whole)), ("completed", "It is 42."));
    assert_eq!(names(&whole).iter().filter(|name| **name == "tool:complete").count(), 1);
    let stored = messages(&server, &id).await;
    assert_eq!((stored.len(), stored[1]["toolResults"].as_array().unwrap().len()), (2, 1));
    assert_eq!(stored[1]["toolResults"][0]["success"], true);
}
