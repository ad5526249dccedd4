//! The prompt that the model saw, shown afterwards, and the same again after a restart.

use testkit::upstream::{Gate, ScriptedCall};

use super::*;

#[tokio::test]
async fn the_prompt_is_shown_as_it_was_sent() {
    let files = [("personas/nurse.md", "You are a nurse.")];
    let app = start("tools = [\"echo\"]\n[memory]\ninject = \"top\"\n", &files).await;
    app.upstream.script([
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text": "hello"}"#)).finish("tool_calls"),
        Reply::says("Done."),
    ]);
    app.post("/v1/apps/test/memories", &json!({ "text": "Drinks green tea" })).await;
    let log =
        run(&app, json!({ "message": "Which tea?", "personaId": "nurse", "systemPrompt": "Be brief." }))
            .await;
    let run = event(&log, "run:start")["runId"].as_str().unwrap().to_owned();
    let requests = app.upstream.requests();
    for (step, request) in [(1, &requests[0]), (2, &requests[1])] {
        let prompt = app.get(&format!("/v1/runs/{run}/prompt?step={step}")).await;
        assert_eq!(prompt.status, 200, "{prompt:?}");
        let shown = prompt.body["messages"].as_array().unwrap();
        let sent = said(request);
        assert_eq!(shown.len(), sent.len());
        for (shown, (role, text)) in shown.iter().zip(&sent) {
            assert_eq!((shown["role"].as_str(), shown["content"].as_str()), (Some(&**role), Some(&**text)));
        }
        let names: Vec<&str> = prompt.body["fragments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert!(
            names.starts_with(&["instructions", "persona", "custom", "date", "recalled", "message"]),
            "{names:?}"
        );
        assert_eq!(
            prompt.body["ledger"],
            log.iter().filter(|one| one.event == "step:end").nth(step - 1).unwrap().data["prompt"]
        );
        assert_eq!(prompt.body["tools"], json!(["echo"]));
    }
    assert_eq!(app.get(&format!("/v1/runs/{run}/prompt?step=9")).await.status, 404);
    assert_eq!(said(&requests[0])[0], said(&requests[1])[0], "the beginning stays the same");
}

#[tokio::test]
async fn a_long_message_is_as_short_when_the_prompt_is_shown_as_when_it_was_sent() {
    let app = start("[history]\nbudget = 400\nsummarise = false\n", &[]).await;
    let long = format!("Begin {}", "word and word ".repeat(2_000));
    let thread = thread_of(&run(&app, json!({ "message": long })).await);
    let log = say_in(&app, &thread, "And then?").await;
    let run = event(&log, "run:start")["runId"].as_str().unwrap().to_owned();
    let sent = said(app.upstream.requests().last().unwrap());
    assert!(sent[1].1.starts_with("Begin word") && sent[1].1.contains("read_rest from"), "{sent:?}");
    assert_eq!((sent[2].1.as_str(), sent.len()), ("Fine.", 4), "and its answer stays: {sent:?}");
    let prompt = app.get(&format!("/v1/runs/{run}/prompt")).await;
    assert_eq!(prompt.body["messages"][1]["content"], sent[1].1);
    assert_eq!(event(&log, "context:loaded").get("leftOut"), None, "{log:?}");
}

#[tokio::test]
async fn what_is_forgotten_is_gone_from_the_prompt_that_is_shown() {
    let app = start("[memory]\ninject = \"all\"\n", &[]).await;
    let memory = app.post("/v1/apps/test/memories", &json!({ "text": "Drinks green tea" })).await.body;
    let log = run(&app, json!({ "message": "Hi" })).await;
    let path = format!("/v1/runs/{}/prompt", event(&log, "run:start")["runId"].as_str().unwrap());
    assert!(app.get(&path).await.body.to_string().contains("green tea"));
    let memory = format!("/v1/memories/{}", memory["id"].as_str().unwrap());
    assert_eq!(app.send(app.request(Method::DELETE, &memory)).await.status, 204);
    assert!(!app.get(&path).await.body.to_string().contains("green tea"));
    assert_eq!(app.count("SELECT count(*) FROM texts WHERE body LIKE '%green tea%'"), 0);
}

#[tokio::test]
async fn a_run_that_goes_on_after_a_restart_sees_what_it_saw_before() {
    let files = [("personas/nurse.md", "You are a nurse.")];
    let app = start("[memory]\ninject = \"all\"\n", &files).await;
    app.post("/v1/apps/test/memories", &json!({ "text": "Drinks green tea" })).await;
    let gate = Gate::new();
    app.upstream
        .script([Reply::stream().text("The first ").wait(&gate).text("half"), Reply::says("All of it.")]);
    let mut stream =
        app.stream("/v1/apps/test/runs", &json!({ "message": "Hi", "personaId": "nurse" })).await;
    stream.read_until("text:delta").await;
    app.post("/v1/apps/test/memories", &json!({ "text": "Plays the cello" })).await;
    drop(stream);
    let app = app.restart().await;
    let requests = app.upstream.wait_for_requests(2).await;
    assert_eq!(requests[0].body["messages"], requests[1].body["messages"]);
}

#[tokio::test]
async fn a_provider_that_finds_a_prompt_too_long_is_asked_with_half_of_it() {
    let app = start("", &[]).await;
    let thread = thread_of(&run(&app, json!({ "message": "one ".repeat(150) })).await);
    say_in(&app, &thread, &"two ".repeat(150)).await;
    let too_long =
        Reply::status(400).error("invalid_request_error", Some("context_length_exceeded"), "too long");
    app.upstream.script([too_long, Reply::says("Fits.")]);
    let log = say_in(&app, &thread, "three").await;
    assert_eq!(event(&log, "stream:complete")["text"], "Fits.");
    let ledger = &event(&log, "step:end")["prompt"];
    assert!(ledger["droppedExchanges"].as_u64().unwrap() >= 1, "{ledger}");
}

#[tokio::test]
async fn what_is_forgotten_is_gone_from_what_a_prompt_kept_of_other_conversations_and_of_summaries() {
    let app = start("[memory]\ninject = \"none\"\nhistory = true\nremember = true\n", &[]).await;
    run(&app, json!({ "message": "Remember that my locker at the gym is number 47, please." })).await;
    let log = run(&app, json!({ "message": "Which number has my locker at the gym?" })).await;
    let path = format!("/v1/runs/{}/prompt", event(&log, "run:start")["runId"].as_str().unwrap());
    let prompt = app.get(&path).await.body.to_string();
    assert!(prompt.contains("number 47"), "{prompt}");
    let memories = app.get("/v1/apps/test/memories").await.body;
    let memory = format!("/v1/memories/{}", memories["data"][0]["id"].as_str().unwrap());
    assert_eq!(app.send(app.request(Method::DELETE, &memory)).await.status, 204);
    let prompt = app.get(&path).await.body.to_string();
    assert!(!prompt.contains("number 47"), "{prompt}");
}
