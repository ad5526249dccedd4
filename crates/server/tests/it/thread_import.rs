//! Conversations that were held elsewhere: imported whole, once, with their times, and gone on with.

use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::Reply;

const IMPORT: &str = "/v1/apps/test/threads/import";

fn conversation(source: &str) -> Value {
    json!({
        "sourceId": source, "createdAt": "2025-01-02T03:04:05Z", "turns": [
            { "text": "Where is my order?", "at": "2025-01-02T03:04:05Z", "steps": [
                { "text": "I look.", "calls": [
                    { "id": "c1", "name": "find_order", "input": { "number": 7 }, "result": "on its way" }] },
                { "text": "It is on its way." }] },
            { "text": "Thanks", "at": "2025-01-02T03:05:00Z" }],
    })
}

async fn messages(app: &TestApp, thread: &Value) -> Vec<Value> {
    let path = format!("/v1/threads/{}/messages", thread.as_str().unwrap());
    app.get(&path).await.body["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_conversation_is_imported_once_and_goes_on() {
    let app = TestApp::start().await;
    let made = app.post(IMPORT, &conversation("a")).await;
    assert_eq!((made.status, &made.body["alreadyThere"]), (201, &json!(false)), "{made:?}");
    let thread = made.body["threadId"].clone();
    let again = app.post(IMPORT, &conversation("a")).await;
    assert_eq!((again.status, again.body), (200, json!({ "threadId": thread, "alreadyThere": true })));
    let other = app.post(IMPORT, &conversation("b")).await.body;
    assert_ne!(other["threadId"], thread);
    let view = app.get(&format!("/v1/threads/{}", thread.as_str().unwrap())).await.body;
    assert_eq!(view["title"], "Where is my order?");
    assert_eq!(
        (&view["createdAt"], &view["updatedAt"]),
        (&json!("2025-01-02T03:04:05Z"), &json!("2025-01-02T03:05:00Z"))
    );
    let shown = messages(&app, &thread).await;
    let texts: Vec<&Value> = shown.iter().map(|message| &message["text"]).collect();
    assert_eq!(texts, ["Where is my order?", "It is on its way.", "Thanks"]);
    assert_eq!(shown[1]["createdAt"], "2025-01-02T03:04:05Z");
    assert_eq!(shown[1]["toolResults"][0]["result"], "on its way");
    app.upstream.script([Reply::says("You are welcome.")]);
    let body = json!({ "message": "When?", "threadId": thread, "stream": false });
    assert_eq!(app.post("/v1/apps/test/runs", &body).await.body["reply"], "You are welcome.");
    app.service.idle().await;
    let sent = app.upstream.requests()[0].body.to_string();
    assert!(sent.contains("on its way") && sent.contains("find_order"), "{sent}");
    assert_eq!(app.get("/v1/apps/test/actions").await.body["data"], json!([]), "nothing was done here");
    assert_eq!(testkit::audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn a_deleted_import_can_come_again_once_it_is_gone() {
    let app = TestApp::start().await;
    let thread = app.post(IMPORT, &conversation("a")).await.body["threadId"].clone();
    let path = format!("/v1/threads/{}", thread.as_str().unwrap());
    assert_eq!(app.send(app.request(axum::http::Method::DELETE, &path)).await.status, 204);
    app.service.idle().await;
    let again = app.post(IMPORT, &conversation("a")).await;
    assert_eq!((again.status, &again.body["threadId"]), (201, &thread), "{again:?}");
    assert_eq!(messages(&app, &thread).await.len(), 3);
}

#[tokio::test]
async fn what_cannot_be_imported_is_refused_whole() {
    let app = TestApp::start().await;
    let with = |field: &str, value: Value| {
        let mut body = conversation("a");
        body[field] = value;
        body
    };
    for (body, field) in [
        (with("sourceId", json!(" ")), "sourceId"),
        (with("sourceId", json!("x".repeat(257))), "sourceId"),
        (with("turns", json!([])), "turns"),
        (with("turns", json!(vec![json!({ "text": "a" }); 2001])), "turns"),
        (with("title", json!("two\nlines")), "title"),
        (with("user", json!("mallory")), "user"),
    ] {
        let refused = app.post(IMPORT, &body).await;
        assert!((400..500).contains(&refused.status), "{field}: {refused:?}");
        assert!(refused.body.to_string().contains(field), "{field}: {refused:?}");
    }
    let future = json!({ "sourceId": "f", "turns": [{ "text": "a", "at": "2999-01-01T00:00:00Z" }] });
    let thread = app.post(IMPORT, &future).await.body["threadId"].clone();
    assert!(!messages(&app, &thread).await[0]["createdAt"].as_str().unwrap().starts_with("2999"));
    assert_eq!(app.count("SELECT count(*) FROM threads"), 1);
}
