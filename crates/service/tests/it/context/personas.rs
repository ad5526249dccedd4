//! Personas: who speaks, with which settings, and what happens when there is no persona of a name.

use super::*;

const NURSE: &str =
    "---\nname: Nurse\ntemperature: 0.7\nmaxTokens: 900\nrepeatPenalty: 0.5\n---\nYou are a nurse.";

async fn with_nurse() -> TestApp {
    start("[settings]\ntemperature = 0.1\n", &[("personas/nurse.md", NURSE)]).await
}

#[tokio::test]
async fn a_persona_brings_its_prompt_and_settings_and_the_request_beats_them() {
    let app = with_nurse().await;
    let log =
        run(&app, json!({ "message": "Hi", "personaId": "nurse", "settings": { "maxTokens": 50 } })).await;
    let request = &app.upstream.requests()[0];
    assert!(system(request).contains("You are a nurse."));
    assert_eq!(request.body["temperature"], 0.7);
    assert_eq!(request.body["frequency_penalty"], 0.5, "where there is no repeat penalty");
    let tokens = request.body.get("max_completion_tokens").or(request.body.get("max_tokens"));
    assert_eq!(tokens, Some(&json!(50)));
    assert_eq!(event(&log, "context:loaded")["persona"], "nurse");
    assert_eq!(event(&log, "run:start")["personaId"], "nurse");
}

#[tokio::test]
async fn an_unknown_persona_is_left_out_with_a_warning() {
    let app = with_nurse().await;
    let log = run(&app, json!({ "message": "Hi", "personaId": "nobody" })).await;
    assert_eq!(event(&log, "run:end")["status"], "completed");
    let loaded = event(&log, "context:loaded");
    assert_eq!(loaded["warnings"][0]["code"], "persona_unknown", "{loaded}");
    assert_eq!(loaded.get("persona"), None);
    assert_eq!(app.upstream.requests()[0].body["temperature"], 0.1, "the app's own");

    let asked = json!({ "message": "Hi", "personaId": "nobody", "stream": false });
    let answer = app.post("/v1/apps/test/runs", &asked).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("completed")));
    assert_eq!(answer.body["warnings"], loaded["warnings"], "one JSON answer says so too");
    let asked = json!({ "message": "Hi", "personaId": "nurse", "stream": false });
    assert_eq!(app.post("/v1/apps/test/runs", &asked).await.body.get("warnings"), None);
}

#[tokio::test]
async fn a_stored_persona_that_broke_is_left_out_with_a_warning() {
    let app = start("", &[]).await;
    let made = json!({ "id": "coach", "prompt": "You are a coach.", "settings": { "temperature": 1.0 } });
    assert_eq!(app.post("/v1/apps/test/personas", &made).await.status, 201);
    run(&app, json!({ "message": "Hi", "personaId": "coach" })).await;
    assert!(system(&app.upstream.requests()[0]).contains("You are a coach."));
    app.database().execute("UPDATE personas SET settings = '[]'", []).unwrap();
    let log = run(&app, json!({ "message": "Hi", "personaId": "coach" })).await;
    assert_eq!(event(&log, "context:loaded")["warnings"][0]["code"], "persona_unusable");
    assert_eq!(event(&log, "run:end")["status"], "completed");
}

#[tokio::test]
async fn a_thread_has_a_persona_of_its_own_until_a_run_or_a_change_says_otherwise() {
    let app = start("", &[("personas/a.md", "I am A."), ("personas/b.md", "I am B.")]).await;
    let thread = thread_of(&run(&app, json!({ "message": "Hi", "personaId": "b" })).await);
    say_in(&app, &thread, "Alone").await;
    assert_eq!(app.get(&format!("/v1/threads/{thread}")).await.body.get("personaId"), Some(&json!(null)));
    let own = json!({ "personaId": "a" });
    assert_eq!(patch(&app, &format!("/v1/threads/{thread}"), &own).await.status, 200);
    say_in(&app, &thread, "Again").await;
    run(&app, json!({ "message": "Other", "threadId": thread, "personaId": "b" })).await;
    say_in(&app, &thread, "And again").await;
    let shown = app.get(&format!("/v1/threads/{thread}")).await.body;
    assert_eq!(shown["personaId"], "a");
    assert_eq!(
        patch(&app, &format!("/v1/threads/{thread}"), &json!({ "personaId": null })).await.status,
        200
    );
    say_in(&app, &thread, "Bye").await;
    let who: Vec<&str> = app
        .upstream
        .requests()
        .iter()
        .map(|request| match system(request) {
            text if text.contains("I am A.") => "a",
            text if text.contains("I am B.") => "b",
            _ => "nobody",
        })
        .collect();
    assert_eq!(who, ["b", "nobody", "a", "b", "a", "nobody"]);
}
