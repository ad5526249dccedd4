//! Search of past messages over all of a user's threads.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Setup, TestApp};

use crate::support::{RUNS, delete, good, refused, repeating, say, say_in};

const SEARCH: &str = "/v1/apps/test/search";

async fn find(app: &TestApp, query: &str) -> Value {
    good(app.get(&format!("{SEARCH}?{query}")).await)
}

fn texts(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["text"].as_str().unwrap()).collect()
}

fn found(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|hit| hit["message"]["text"].as_str().unwrap()).collect()
}

async fn talked() -> TestApp {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    app
}

#[tokio::test]
async fn a_message_is_found_among_what_was_said_around_it() {
    let app = talked().await;
    let first = say(&app, "Good morning.").await;
    say_in(&app, &first.thread, "The lighthouse at Lindesnes is red.").await;
    say_in(&app, &first.thread, "What is for lunch?").await;
    say(&app, "Nothing of note.").await;
    let page = find(&app, "q=lighthouse").await;
    assert_eq!(page["next"], Value::Null);
    let texts_found = found(&page);
    assert_eq!(texts_found.len(), 2, "{page}");
    let said = "The lighthouse at Lindesnes is red.";
    let hit = page["data"].as_array().unwrap().iter().find(|hit| hit["message"]["text"] == said).unwrap();
    assert_eq!(texts(&hit["before"]), ["Good morning.", "Re: Good morning."]);
    assert_eq!(texts(&hit["after"]), ["Re: The lighthouse at Lindesnes is red.", "What is for lunch?"]);
    assert_eq!(
        (&hit["message"]["role"], &hit["message"]["threadId"]),
        (&json!("user"), &json!(first.thread))
    );
    assert_eq!(hit["message"]["createdAt"], "2026-03-01T12:00:00Z");
    assert!(hit["message"]["id"].as_str().unwrap().starts_with("msg_"));
    assert!((0.0..=1.0).contains(&hit["score"].as_f64().unwrap()));
    assert_eq!(hit["after"][0]["role"], "assistant");
    assert_eq!(found(&find(&app, "q=lighthouse&limit=1").await).len(), 1);
    assert_eq!(find(&app, "q=volcano").await, json!({ "data": [], "next": null }));
}

#[tokio::test]
async fn a_search_can_be_of_a_time() {
    let app = talked().await;
    say(&app, "The lighthouse is red.").await;
    let none = json!({ "data": [], "next": null });
    for (time, is_found) in [
        ("from=2026-03-01", true),
        ("to=2026-03-01", true),
        ("from=2026-03-01&to=2026-03-01", true),
        ("from=2026-03-01T12:00:00Z&to=2026-03-01T12:00:00Z", true),
        ("from=2026-03-01T13:00:00%2B01:00&to=2026-03-01T13:00:00%2B01:00", true),
        ("from=2026-03-02", false),
        ("to=2026-02-28", false),
        ("from=2026-03-01T12:00:01Z", false),
        ("to=2026-03-01T11:59:59Z", false),
    ] {
        let page = find(&app, &format!("q=lighthouse&{time}")).await;
        assert_eq!(page != none, is_found, "{time}: {page}");
    }
}

#[tokio::test]
async fn a_search_asked_for_badly_is_refused() {
    let app = talked().await;
    find(&app, &format!("q={}&limit=100", "x".repeat(1000))).await;
    for wrong in [
        "",
        "q=",
        "q=%20",
        &format!("q={}", "x".repeat(1001)),
        "q=tea&q=milk",
        "q=tea&limit=0",
        "q=tea&limit=101",
        "q=tea&limit=ten",
        "q=tea&limit=-1",
        "q=tea&from=yesterday",
        "q=tea&to=2026-02-30",
        "q=tea&from=2026-03-02&to=2026-03-01",
    ] {
        refused(app.get(&format!("{SEARCH}?{wrong}")).await, 422, "invalid_request");
    }
    refused(app.get("/v1/apps/nobody/search?q=tea").await, 404, "not_found");
}

#[tokio::test]
async fn a_long_message_is_shown_in_part() {
    let app = talked().await;
    say(&app, &format!("lighthouse {}", "é".repeat(4096))).await;
    let page = find(&app, "q=lighthouse&limit=1").await;
    let text = page["data"][0]["message"]["text"].as_str().unwrap();
    assert!(text.len() < 4300 && text.contains("[cut: "), "{} bytes", text.len());
}

#[tokio::test]
async fn what_was_deleted_or_forgotten_is_not_found() {
    let app = TestApp::with(Setup::app("tools = []\n[memory]\nremember = true\n")).await;
    app.upstream.program(repeating);
    let kept = say(&app, "The lighthouse is red.").await;
    let gone = say(&app, "The lighthouse has a keeper.").await;
    assert_eq!(found(&find(&app, "q=lighthouse").await).len(), 4);
    assert_eq!(delete(&app, &gone.thread_path()).await.status, 204);
    let page = find(&app, "q=lighthouse").await;
    assert_eq!(found(&page).len(), 2, "{page}");

    say_in(&app, &kept.thread, "Remember that my locker code is zebra seven.").await;
    let memory = good(app.get("/v1/apps/test/memories").await)["data"][0]["id"].as_str().unwrap().to_owned();
    assert!(!found(&find(&app, "q=zebra").await).is_empty());
    assert_eq!(delete(&app, &format!("/v1/memories/{memory}")).await.status, 204);
    let page = find(&app, "q=zebra").await;
    assert!(!page.to_string().contains("zebra seven"), "{page}");
    good(app.post(&format!("/v1/memories/{memory}/restore"), &json!({})).await);
    assert!(find(&app, "q=zebra").await.to_string().contains("zebra seven"));
}

#[tokio::test]
async fn nobody_finds_what_somebody_else_has_said() {
    let app = talked().await;
    let key = async |user: &str| {
        let key = NewKey { user: user.into(), app: Some("test".into()), admin: false, ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let (ann, bob) = (key("ann").await, key("bob").await);
    let body = json!({ "message": "The lighthouse is red.", "stream": false });
    good(app.send(app.request(Method::POST, RUNS).json(&body).bearer_auth(&ann)).await);
    let search = async |token: &str| {
        good(app.send(app.request(Method::GET, &format!("{SEARCH}?q=lighthouse")).bearer_auth(token)).await)
    };
    assert_eq!(found(&search(&ann).await).len(), 2);
    assert_eq!(search(&bob).await, json!({ "data": [], "next": null }));
}
