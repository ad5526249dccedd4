//! Older stretches of a conversation in short.

use super::*;

fn is_summary(request: &Value) -> bool {
    request["messages"][0]["content"].as_str().unwrap_or_default().contains("notes that an assistant keeps")
}

/// A thread with this number of exchanges of about forty tokens.
async fn long(app: &TestApp, exchanges: usize) -> String {
    let mut thread = String::new();
    for number in 0..exchanges {
        let message =
            format!("Note {number}: {}", "the garden needs water and the roses need light ".repeat(3));
        let log = match thread.as_str() {
            "" => run(app, json!({ "message": message })).await,
            thread => say_in(app, thread, &message).await,
        };
        thread = thread_of(&log);
        app.service.idle().await;
    }
    thread
}

async fn summarising(app: &str) -> TestApp {
    let app = start(app, &[]).await;
    app.upstream.program(|request| match is_summary(request) {
        true => Reply::says("They spoke of the garden."),
        false => Reply::says("I see."),
    });
    app
}

#[tokio::test]
async fn an_older_stretch_is_summarised_once_and_shown_in_its_place() {
    let app = summarising("[history]\nbudget = 600\nsummarise_after = 300\n").await;
    let thread = long(&app, 10).await;
    let summaries = app.get(&format!("/v1/threads/{thread}/summaries")).await.body;
    let first = &summaries["data"][0];
    assert_eq!(
        (&first["text"], &first["level"]),
        (&json!("They spoke of the garden."), &json!(0)),
        "{summaries}"
    );
    let events = app.count("SELECT count(*) FROM events WHERE kind = 'summary'");
    assert!((1..=4).contains(&events), "{events} summaries of ten exchanges");
    let log = say_in(&app, &thread, "What did we speak of?").await;
    let loaded = event(&log, "context:loaded");
    assert!(!loaded["summaries"].as_array().unwrap().is_empty(), "{loaded}");
    let shown = said(app.upstream.requests().last().unwrap());
    assert!(shown[0].1.contains("They spoke of the garden."));
    let all: String = shown.iter().map(|(_, text)| text.as_str()).collect();
    assert!(!all.contains("Note 0:") && all.contains("Note 9:"), "{all}");
    assert_eq!(app.upstream.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn many_summaries_become_one_of_the_next_level_and_a_prompt_stays_small() {
    let app = summarising("[history]\nbudget = 600\nsummarise_after = 256\n").await;
    let thread = long(&app, 60).await;
    let all = app.get(&format!("/v1/threads/{thread}/summaries?all=true")).await.body;
    let all = all["data"].as_array().unwrap();
    assert!(all.iter().any(|summary| summary["level"] == 1), "{}", all.len());
    let now = app.get(&format!("/v1/threads/{thread}/summaries")).await.body;
    assert!(now["data"].as_array().unwrap().len() <= 12, "{now}");
    let covered: u64 =
        now["data"].as_array().unwrap().iter().map(|one| one["messages"].as_u64().unwrap()).sum();
    assert!(covered > 80, "{covered} of 120 messages");
    let log = say_in(&app, &thread, "And?").await;
    let tokens = event(&log, "step:end")["prompt"]["tokens"].as_u64().unwrap();
    assert!(tokens < 1_000, "{tokens}");
}

#[tokio::test]
async fn a_summary_of_another_branch_is_not_shown() {
    let app = summarising("[history]\nbudget = 600\nsummarise_after = 300\n").await;
    let thread = long(&app, 10).await;
    let messages = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    let second = messages["data"][1]["id"].clone();
    let log = run(&app, json!({ "message": "Another way", "threadId": thread, "parentId": second })).await;
    assert_eq!(event(&log, "context:loaded")["summaries"], json!([]));
    let shown = said(app.upstream.requests().last().unwrap());
    assert_eq!(shown.len(), 4, "{shown:?}");
}

#[tokio::test]
async fn a_summary_that_lost_its_text_is_left_out_with_a_warning() {
    let app = summarising("[history]\nbudget = 600\nsummarise_after = 300\n").await;
    let thread = long(&app, 10).await;
    let changed =
        app.database().execute("DELETE FROM texts WHERE body = 'They spoke of the garden.'", []).unwrap();
    assert!(changed > 0);
    let log = say_in(&app, &thread, "And?").await;
    assert_eq!(event(&log, "context:loaded")["warnings"][0]["code"], "summary_lost");
    assert_eq!(event(&log, "run:end")["status"], "completed");
}
