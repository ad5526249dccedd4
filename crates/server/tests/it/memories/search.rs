//! Looking for memories by words and by meaning.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use testkit::{Setup, TestApp, WordVectors};

use super::{MEMORIES, add, key, path};
use crate::support::{delete, good, refused};

const SEARCH: &str = "/v1/apps/test/memories/search";

async fn search(app: &TestApp, query: Value) -> Value {
    good(app.post(SEARCH, &query).await)
}

fn found(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|hit| hit["memory"]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_nearest_comes_first_with_its_score() {
    for embedder in [None, Some(Arc::new(WordVectors("words")) as _)] {
        let app = TestApp::with(Setup { embedder, ..Setup::app("[memory]\ninject = \"top\"") }).await;
        for text in ["Likes green tea.", "Has a sister called Ingrid.", "Drinks tea with milk at breakfast."]
        {
            add(&app, text).await;
        }
        app.service.idle().await;
        let page = search(&app, json!({ "query": "What is my sister called?" })).await;
        assert_eq!(found(&page).first(), Some(&"Has a sister called Ingrid."), "{page}");
        assert_eq!(page["next"], Value::Null);
        let memory = &page["data"][0]["memory"];
        assert_eq!(&good(app.get(&path(memory)).await), memory, "a hit is the memory as it is");
        let scores: Vec<f64> =
            page["data"].as_array().unwrap().iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b) && scores.iter().all(|s| (0.0..=1.0).contains(s)));
        let one = search(&app, json!({ "query": "tea", "limit": 1 })).await;
        assert_eq!(found(&one).len(), 1);
    }
}

#[tokio::test]
async fn only_what_is_active_is_found() {
    let app = TestApp::start().await;
    let made = add(&app, "Has a sister called Ingrid.").await;
    let query = json!({ "query": "Ingrid" });
    assert_eq!(found(&search(&app, query.clone()).await).len(), 1);
    delete(&app, &path(&made)).await;
    assert_eq!(search(&app, query.clone()).await, json!({ "data": [], "next": null }));
    good(app.post(&format!("{}/restore", path(&made)), &json!({})).await);
    assert_eq!(found(&search(&app, query).await).len(), 1);
}

#[tokio::test]
async fn a_question_asked_badly_is_refused() {
    let app = TestApp::start().await;
    add(&app, "Likes tea.").await;
    search(&app, json!({ "query": "é".repeat(1000), "limit": 100 })).await;
    for wrong in [
        json!({}),
        json!({ "query": "" }),
        json!({ "query": " \n" }),
        json!({ "query": "é".repeat(1001) }),
        json!({ "query": "tea", "limit": 0 }),
        json!({ "query": "tea", "limit": 101 }),
        json!({ "query": "tea", "limit": "5" }),
        json!({ "query": "tea", "threshold": 1 }),
    ] {
        refused(app.post(SEARCH, &wrong).await, 422, "invalid_request");
    }
    let nowhere = app.post("/v1/apps/nobody/memories/search", &json!({ "query": "tea" })).await;
    refused(nowhere, 404, "not_found");
}

#[tokio::test]
async fn nobody_finds_what_is_somebody_else_s() {
    let app = TestApp::start().await;
    let (ann, bob) = (key(&app, "ann").await, key(&app, "bob").await);
    let send = async |token: &str, path: &str, body: Value| {
        good(app.send(app.request(Method::POST, path).json(&body).bearer_auth(token)).await)
    };
    send(&ann, MEMORIES, json!({ "text": "Ann has a sister called Ingrid." })).await;
    let query = json!({ "query": "Ingrid" });
    assert_eq!(found(&send(&ann, SEARCH, query.clone()).await).len(), 1);
    assert_eq!(send(&bob, SEARCH, query).await, json!({ "data": [], "next": null }));
    // Nor is it a duplicate of theirs.
    let own = send(&bob, MEMORIES, json!({ "text": "Ann has a sister called Ingrid." })).await;
    assert_eq!(own["version"], 1);
    assert_eq!(app.count("SELECT count(*) FROM memories"), 2);
}
