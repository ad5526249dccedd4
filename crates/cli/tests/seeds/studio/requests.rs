//! Requests to studio: a message, and perhaps a session, a model and a temperature; and how it streams.

use testkit::upstream::{Gate, ScriptedCall};

use super::*;
use crate::process::within;
use crate::world::{names, read_text};

#[tokio::test]
async fn a_message_alone_begins_a_session_and_its_id_goes_on_with_it() {
    let (_product, server) =
        studio([Reply::says("Hello."), Reply::says("Again."), Reply::says("New.")]).await;
    let stream = server.stream(STREAM, &json!({ "message": "Hello" })).await;
    assert!(stream.header("content-type").starts_with("text/event-stream"));
    let id = stream.header("x-thread-id");
    let first = stream.all().await;
    assert_eq!((session(&first), answer(&first)), (id.clone(), "Hello."));
    assert_eq!(session(&say(&server, Some(&id), "Hello again").await), id);
    assert_ne!(session(&say(&server, None, "Somebody else").await), id);
    assert_eq!(messages(&server, &id).await.len(), 4);
}

#[tokio::test]
async fn a_model_and_a_temperature_are_taken_from_the_request() {
    let (product, server) = studio([Reply::says("Hello.")]).await;
    let body = json!({ "message": "Hello", "model": "gpt-6.1-sol", "temperature": 0.7 });
    let frames = server.stream(STREAM, &body).await.all().await;
    let request = product.last_request();
    assert_eq!((&request["model"], &request["temperature"]), (&json!("gpt-6.1-sol"), &json!(0.7)));
    assert_eq!(of(&frames, "run:start")[0]["model"], "gpt-6.1-sol");
    assert_eq!(messages(&server, &session(&frames)).await[1]["model"], "gpt-6.1-sol");
}

#[tokio::test]
async fn without_them_the_servers_model_answers_as_its_provider_likes() {
    let (product, server) = studio([calculates("1 + 1"), Reply::says("Two.")]).await;
    let frames = say(&server, None, "What is 1 and 1?").await;
    let requests = asked(&product);
    assert!(
        requests
            .iter()
            .all(|request| request["model"] == "gpt-6-luna" && request.get("temperature").is_none())
    );
    assert_eq!(requests[0]["tools"].as_array().unwrap().len(), 2, "its two tools are offered");
    assert_eq!(answer(&frames), "Two.");
}

#[tokio::test]
async fn a_temperature_out_of_range_is_refused_with_the_range() {
    let (_product, server) = studio([Reply::says("Hello.")]).await;
    for temperature in [-0.1, 2.1] {
        let (status, problem) =
            server.post(STREAM, &json!({ "message": "Hi", "temperature": temperature })).await;
        assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!("temperature")), "{problem}");
        assert_eq!(problem["errors"][0]["message"], "must be from 0 to 2");
    }
    let warm = server.stream(STREAM, &json!({ "message": "Hi", "temperature": 2 })).await;
    assert_eq!(status(&warm.all().await), "completed");
}

#[tokio::test]
async fn nothing_else_is_taken_least_of_all_results_of_tools() {
    let (product, server) = studio([Reply::says("Hello."), Reply::says("Hello.")]).await;
    let results = json!([{ "callId": "x", "name": "calculate", "result": 1, "success": true }]);
    for (field, value) in
        [("toolResults", results), ("toolCalls", json!([])), ("history", json!([])), ("user", json!("me"))]
    {
        let mut body = json!({ "message": "Hello" });
        body[field] = value;
        let (status, problem) = server.post(STREAM, &body).await;
        assert_eq!((status, &problem["code"]), (422, &json!("invalid_request")), "{problem}");
        assert!(problem.to_string().contains(field), "{problem}");
    }
    assert_eq!(asked(&product).len(), 0);
    for message in ["Hello", "Hello again"] {
        assert_eq!(status(&say(&server, None, message).await), "completed");
    }
}

#[tokio::test]
async fn a_message_is_required_and_a_session_must_exist() {
    let (product, server) = studio([Reply::says("Hello."), Reply::says("Hello.")]).await;
    for (body, expected) in [
        (json!({}), 422),
        (json!({ "message": "" }), 422),
        (json!({ "message": ["Hello"] }), 422),
        (json!({ "message": "Hello", "sessionId": "thr_00000000000000000000000000000001" }), 404),
        (json!({ "message": "x".repeat(256 * 1024 + 1) }), 413),
    ] {
        assert_eq!(server.post(STREAM, &body).await.0, expected);
    }
    assert_eq!(server.get(&product.path("threads")).await.1["data"], json!([]), "nothing is stored");
    for message in ["Hello", "Hello again"] {
        assert_eq!(status(&say(&server, None, message).await), "completed");
    }
}

#[tokio::test]
async fn text_calls_and_results_stream_as_they_come() {
    let gate = Gate::new();
    let call = ScriptedCall::new("calculate", r#"{"expression":"6 * 7"}"#);
    let slow = Reply::stream().text("Let me ").text("see. ").wait(&gate).call(call);
    let (_product, server) = studio([slow, Reply::says("It is 42.")]).await;
    let mut stream = server.stream(STREAM, &json!({ "message": "What is 6 times 7?" })).await;
    within("the first words", gate.reached()).await;
    let mut frames = read_text(&mut stream, "Let me see. ").await;
    gate.open();
    frames.extend(stream.all().await);
    let order = names(&frames);
    let after = order.iter().skip_while(|name| **name != "text:delta").copied().collect::<Vec<_>>();
    let expected = [
        "text:delta",
        "tool:input",
        "step:end",
        "tool:start",
        "tool:complete",
        "step:start",
        "text:delta",
        "step:end",
        "stream:complete",
        "run:end",
    ];
    assert_eq!(after, expected);
    assert_eq!(of(&frames, "tool:complete")[0]["output"].to_string().matches("42").count(), 1);
}

#[tokio::test]
async fn without_a_stream_the_answer_is_one_object_with_calls_results_and_tokens() {
    let (product, server) =
        studio([calculates("6 * 7").usage(100, 20), Reply::says("It is 42.").usage(130, 5)]).await;
    let answer = product.answer(&server, json!({ "message": "What is 6 times 7?" })).await;
    assert_eq!((&answer["reply"], &answer["tokenUsage"]), (&json!("It is 42."), &json!(255)), "{answer}");
    assert_eq!(answer["toolCalls"][0]["id"], answer["toolResults"][0]["callId"]);
    assert_eq!(answer["toolResults"][0]["success"], true);
    let (_, usage) = server.get("/v1/usage").await;
    assert_eq!(
        (&usage["total"]["inputTokens"], &usage["total"]["outputTokens"]),
        (&json!(230), &json!(25)),
        "{usage}"
    );
}

#[tokio::test]
async fn after_a_fallback_message_session_and_run_name_the_model_that_answered() {
    let product = Product::new("studio").await;
    let path = product.world.path("apps/studio/app.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let models = "models = [\"*\"]";
    assert!(text.contains(models));
    std::fs::write(&path, text.replace(models, &format!("{models}\nfallbacks = [\"gpt-6.1-sol\"]"))).unwrap();
    product.upstream().program(|request| match request["model"].as_str() {
        Some("gpt-6.1-sol") => Reply::says("I stand in."),
        _ => Reply::status(401).error("invalid_api_key", None, "no"),
    });
    let server = product.serve().await;
    let frames = say(&server, None, "Hello").await;
    assert_eq!(answer(&frames), "I stand in.");
    assert_eq!(of(&frames, "run:start")[0]["model"], "gpt-6-luna", "this one was asked for");
    let id = session(&frames);
    assert_eq!(messages(&server, &id).await[1]["model"], "gpt-6.1-sol");
    let run = of(&frames, "run:start")[0]["runId"].as_str().unwrap();
    assert_eq!(server.get(&format!("/v1/runs/{run}")).await.1["model"], "gpt-6.1-sol");
    assert_eq!(server.get(&format!("/v1/threads/{id}")).await.1["model"], "gpt-6.1-sol");
    let (_, prompt) = server.get(&format!("/v1/runs/{run}/prompt")).await;
    assert_eq!(prompt["model"], "gpt-6.1-sol", "{prompt}");
}
