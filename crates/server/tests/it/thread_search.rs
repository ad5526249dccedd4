//! Threads found by their titles and by what was said in them.

use serde_json::{Value, json};
use testkit::TestApp;

use crate::support::{THREADS, delete, good, patch, refused, repeating, say, say_in};

async fn start() -> TestApp {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    app
}

async fn find(app: &TestApp, query: &str) -> Vec<Value> {
    let page = good(app.get(&format!("{THREADS}/search?{query}")).await);
    assert_eq!(page["next"], Value::Null);
    page["data"].as_array().unwrap().clone()
}

fn threads(hits: &[Value]) -> Vec<&str> {
    hits.iter().map(|hit| hit["thread"]["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_thread_is_found_by_its_title_and_by_its_messages() {
    let app = start().await;
    let said = say(&app, "The lighthouse at Lindesnes is red.").await;
    let named = say(&app, "Nothing of note.").await;
    let none = say(&app, "What is for lunch?").await;
    for (names, title) in [(&said, "Norway"), (&named, "Lighthouses of the north"), (&none, "Lunch")] {
        good(patch(&app, &names.thread_path(), &json!({ "title": title })).await);
    }
    let hits = find(&app, "q=lighthouse").await;
    assert_eq!(threads(&hits), [named.thread.as_str(), said.thread.as_str()], "titles come first");
    assert_eq!((&hits[0]["titleMatch"], &hits[1]["titleMatch"]), (&json!(true), &json!(false)));
    assert_eq!(hits[0]["matches"], json!([]));
    let matches = hits[1]["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 2, "the message and its answer");
    let message = matches.iter().find(|message| message["role"] == "user").unwrap();
    assert_eq!(message["text"], "The lighthouse at Lindesnes is red.");
    assert!(message["messageId"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(message["createdAt"], "2026-03-01T12:00:00Z");
    assert_eq!(threads(&find(&app, "q=lighthouse&limit=1").await), [named.thread.as_str()]);
    assert_eq!(threads(&find(&app, "q=NORTH%20light").await), [named.thread.as_str()]);
    assert_eq!(find(&app, "q=volcano").await, [Value::Null; 0]);

    // An archived thread is found, a deleted one never.
    good(patch(&app, &named.thread_path(), &json!({ "archived": true })).await);
    let hits = find(&app, "q=lighthouse").await;
    assert_eq!((threads(&hits).len(), &hits[0]["thread"]["archived"]), (2, &json!(true)));
    assert_eq!(delete(&app, &named.thread_path()).await.status, 204);
    assert_eq!(delete(&app, &said.thread_path()).await.status, 204);
    assert_eq!(find(&app, "q=lighthouse").await, [Value::Null; 0]);
}

#[tokio::test]
async fn a_thread_shows_few_matches_around_the_word() {
    let app = start().await;
    let first = say(&app, &format!("{} zeppelin {}", "before ".repeat(60), "after ".repeat(60))).await;
    for number in 0..4 {
        say_in(&app, &first.thread, &format!("The zeppelin again, {number}.")).await;
    }
    let hits = find(&app, "q=zeppelin").await;
    assert_eq!(threads(&hits), [first.thread.as_str()]);
    let matches = hits[0]["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 3);
    for found in matches {
        let text = found["text"].as_str().unwrap();
        assert!(text.contains("zeppelin") && text.len() < 320, "{text}");
    }
}

#[tokio::test]
async fn forgotten_words_are_not_found() {
    let app = start().await;
    let names = say(&app, "I keep a tapir at home.").await;
    good(patch(&app, &names.thread_path(), &json!({ "title": "My tapir" })).await);
    assert_eq!(find(&app, "q=tapir").await.len(), 1);
    let memories = "/v1/apps/test/memories";
    let memory = good(app.post(memories, &json!({ "text": "tapir" })).await);
    let memory = format!("/v1/memories/{}", memory["id"].as_str().unwrap());
    assert_eq!(delete(&app, &memory).await.status, 204);
    assert_eq!(find(&app, "q=tapir").await, [Value::Null; 0]);
    let hits = find(&app, "q=home").await;
    assert_eq!(hits.len(), 1);
    assert!(!json!(hits).to_string().contains("tapir"), "{hits:?}");
}

#[tokio::test]
async fn a_search_that_means_nothing_is_refused() {
    let app = start().await;
    let long = format!("q={}", "x".repeat(1001));
    for wrong in ["", "q=", "q=%20", long.as_str(), "q=a&limit=0", "q=a&limit=101", "q=a&limit=x", "q=a&q=b"]
    {
        refused(app.get(&format!("{THREADS}/search?{wrong}")).await, 422, "invalid_request");
    }
    refused(app.get("/v1/apps/nobody/threads/search?q=a").await, 404, "not_found");
}
