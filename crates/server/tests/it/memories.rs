//! Memories: added, listed newest first, looked at, forgotten, and nobody else's.

use axum::http::Method;
use engine::NewKey;
use serde_json::{Value, json};
use testkit::{Answer, TestApp};

use crate::support::{delete, good, problem, refused};

const MEMORIES: &str = "/v1/apps/test/memories";
const KIB: usize = 1024;

async fn add(app: &TestApp, text: &str) -> Value {
    good(app.post(MEMORIES, &json!({ "text": text })).await)
}

fn path(memory: &Value) -> String {
    format!("/v1/memories/{}", memory["id"].as_str().unwrap())
}

fn texts(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap()).collect()
}

async fn keyed(app: &TestApp, method: Method, path: &str, body: &Value) -> Answer {
    let mut request = app.request(method, path).header("idempotency-key", "k");
    if !body.is_null() {
        request = request.json(body);
    }
    app.send(request).await
}

#[tokio::test]
async fn a_memory_is_added_read_and_forgotten() {
    let app = TestApp::start().await;
    let body = json!({ "text": "  Lives in Oslo.\n", "kind": "place" });
    let made = app.post(MEMORIES, &body).await;
    assert_eq!(made.status, 201);
    let made = good(made);
    insta::assert_json_snapshot!("a_new_memory", made);
    assert_eq!(add(&app, "Has a dog.").await["kind"], "fact");
    assert_eq!(good(app.get(&path(&made)).await), made);
    assert_eq!(texts(&good(app.get(MEMORIES).await)), ["Has a dog.", "Lives in Oslo."]);
    for _ in 0..2 {
        assert_eq!(delete(&app, &path(&made)).await.status, 204);
        assert_eq!(texts(&good(app.get(MEMORIES).await)), ["Has a dog."]);
        assert_eq!(good(app.get(&path(&made)).await)["status"], "forgotten");
    }
}

#[tokio::test]
async fn a_memory_described_badly_is_refused() {
    let app = TestApp::start().await;
    let longest = "x".repeat(4 * KIB);
    good(app.post(MEMORIES, &json!({ "text": longest, "kind": "a".repeat(32) })).await);
    for (body, status, code) in [
        (json!({}), 422, "invalid_request"),
        (json!({ "text": "" }), 422, "invalid_request"),
        (json!({ "text": " \n\t" }), 422, "invalid_request"),
        (json!({ "text": 5 }), 422, "invalid_request"),
        (json!({ "text": format!("{longest}x") }), 413, "too_large"),
        (json!({ "text": "x", "kind": "" }), 422, "invalid_request"),
        (json!({ "text": "x", "kind": "two words" }), 422, "invalid_request"),
        (json!({ "text": "x", "kind": "a".repeat(33) }), 422, "invalid_request"),
        (json!({ "text": "x", "source": "model" }), 422, "invalid_request"),
        (json!([]), 422, "invalid_request"),
    ] {
        let detail = refused(app.post(MEMORIES, &body).await, status, code);
        assert!(!detail.is_empty());
    }
    refused(app.post("/v1/apps/nobody/memories", &json!({ "text": "x" })).await, 404, "not_found");
    refused(app.get("/v1/apps/nobody/memories").await, 404, "not_found");
    for wrong in ["?cursor=x", "?cursor=5.thr_00000000000000000000000000000001", "?limit=0"] {
        refused(app.get(&format!("{MEMORIES}{wrong}")).await, 422, "invalid_request");
    }
    assert_eq!(app.count("SELECT count(*) FROM memories"), 1);
}

#[tokio::test]
async fn paging_through_memories_loses_and_doubles_nothing() {
    let app = TestApp::start().await;
    for number in 0..7 {
        add(&app, &format!("memory {number}")).await;
    }
    let sql = "UPDATE memories SET created_at = created_at - 1000 * (abs(random()) % 3)";
    app.database().execute(sql, []).unwrap();
    let whole = good(app.get(MEMORIES).await);
    assert_eq!((texts(&whole).len(), &whole["next"]), (7, &Value::Null));
    for limit in [1, 3, 6, 7, 8] {
        let (mut found, mut query) = (Vec::new(), format!("?limit={limit}"));
        for _ in 0..7 {
            let page = good(app.get(&format!("{MEMORIES}{query}")).await);
            found.extend(page["data"].as_array().unwrap().clone());
            let Some(next) = page["next"].as_str() else { break };
            query = format!("?limit={limit}&cursor={next}");
        }
        assert_eq!(json!(found), whole["data"], "pages of {limit}");
    }
}

#[tokio::test]
async fn under_a_key_a_memory_is_added_once_and_forgotten_once() {
    let app = TestApp::start().await;
    let body = json!({ "text": "Once." });
    let first = good(keyed(&app, Method::POST, MEMORIES, &body).await);
    assert_eq!(good(keyed(&app, Method::POST, MEMORIES, &body).await), first);
    let other = json!({ "text": "Twice." });
    refused(keyed(&app, Method::POST, MEMORIES, &other).await, 422, "idempotency_key_reused");
    let forget = keyed(&app, Method::DELETE, &path(&first), &Value::Null).await;
    refused(forget, 422, "idempotency_key_reused");
    assert_eq!(texts(&good(app.get(MEMORIES).await)), ["Once."]);
    for _ in 0..2 {
        let request = app.request(Method::DELETE, &path(&first)).header("idempotency-key", "another");
        assert_eq!(app.send(request).await.status, 204);
    }
}

#[tokio::test]
async fn a_full_memory_takes_no_more_until_something_is_forgotten() {
    let app = TestApp::start().await;
    let last = add(&app, "The last.").await;
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
        INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
            SELECT randomblob(16), 'test', 'local', 'x', 'fact', 'active', 'user', 0, 0 FROM n";
    app.database().execute(fill, []).unwrap();
    refused(app.post(MEMORIES, &json!({ "text": "One more." })).await, 409, "memories_full");
    assert_eq!(delete(&app, &path(&last)).await.status, 204);
    add(&app, "One more.").await;
}

/// A memory of somebody else, or of an app that the key is not for, is answered like one that does not exist.
#[tokio::test]
async fn what_is_not_yours_does_not_exist() {
    let app = TestApp::start().await;
    let (foreign, elsewhere) = (add(&app, "Ann's.").await, add(&app, "Elsewhere.").await);
    let key = NewKey { user: "bob".into(), app: Some("test".into()), admin: false };
    let token = app.engine.add_key(key, None).await.unwrap().token.unwrap();
    let sql = "DROP TRIGGER memories_stay; UPDATE memories SET user = 'ann' WHERE text = 'Ann''s.';
        UPDATE memories SET user = 'bob', app = 'other' WHERE text = 'Elsewhere.'";
    app.database().execute_batch(sql).unwrap();
    let send =
        async |method: Method, path: &str| app.send(app.request(method, path).bearer_auth(&token)).await;
    let missing = json!({ "id": "mem_ffffffffffffffffffffffffffffffff" });
    for method in [Method::GET, Method::DELETE] {
        let expected = problem(send(method.clone(), &path(&missing)).await);
        assert_eq!(expected["detail"], "there is no such memory, or it is not yours");
        for memory in [&foreign, &elsewhere] {
            assert_eq!(problem(send(method.clone(), &path(memory)).await), expected);
        }
    }
    refused(send(Method::GET, "/v1/memories/mem_1").await, 404, "not_found");
    assert_eq!(good(send(Method::GET, MEMORIES).await), json!({ "data": [], "next": null }));
    assert_eq!(app.count("SELECT count(*) FROM memories WHERE status = 'active'"), 2);
}
