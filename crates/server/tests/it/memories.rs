//! Memories: added, listed newest first, looked at, edited, forgotten, restored. Other users do not see them.

mod files;
mod past;
mod search;
mod settings;

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Answer, TestApp};

use crate::support::{delete, good, patch, problem, refused};

const MEMORIES: &str = "/v1/apps/test/memories";
const KIB: usize = 1024;
const CARD: &str = "My card is 4111 1111 1111 1111.";

async fn add(app: &TestApp, text: &str) -> Value {
    good(app.post(MEMORIES, &json!({ "text": text })).await)
}

fn path(memory: &Value) -> String {
    format!("/v1/memories/{}", memory["id"].as_str().unwrap())
}

fn texts(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap()).collect()
}

/// A key of a user, for the app `test` alone.
async fn key(app: &TestApp, user: &str) -> String {
    let key = NewKey { user: user.into(), app: Some("test".into()), admin: false, ..NewKey::default() };
    app.service.add_key(key, None).await.unwrap().token.unwrap()
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
        (json!({ "text": CARD }), 422, "secret"),
        (json!([]), 422, "invalid_request"),
    ] {
        let detail = refused(app.post(MEMORIES, &body).await, status, code);
        assert!(!detail.is_empty());
    }
    refused(app.post("/v1/apps/nobody/memories", &json!({ "text": "x" })).await, 404, "not_found");
    refused(app.get("/v1/apps/nobody/memories").await, 404, "not_found");
    for wrong in [
        "?cursor=x",
        "?cursor=5.thr_00000000000000000000000000000001",
        "?limit=0",
        "?status=",
        "?status=gone",
        "?status=all&status=all",
    ] {
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
async fn a_list_is_of_one_status_or_of_all() {
    let app = TestApp::start().await;
    for text in ["Stays.", "Goes.", "Was so.", "Is old.", "Is said elsewhere."] {
        add(&app, text).await;
    }
    let sql = "UPDATE memories SET version = 2, status = CASE text WHEN 'Goes.' THEN 'forgotten'
        WHEN 'Was so.' THEN 'removed' WHEN 'Is old.' THEN 'expired' ELSE 'superseded' END WHERE text <> 'Stays.'";
    app.database().execute(sql, []).unwrap();
    for (status, expected) in [
        ("active", "Stays."),
        ("forgotten", "Goes."),
        ("removed", "Was so."),
        ("expired", "Is old."),
        ("superseded", "Is said elsewhere."),
    ] {
        let page = good(app.get(&format!("{MEMORIES}?status={status}")).await);
        assert_eq!((texts(&page), &page["data"][0]["status"]), (vec![expected], &json!(status)));
    }
    let all = good(app.get(&format!("{MEMORIES}?status=all&limit=3")).await);
    assert_eq!(texts(&all), ["Is said elsewhere.", "Is old.", "Was so."]);
    let rest = format!("{MEMORIES}?status=all&limit=3&cursor={}", all["next"].as_str().unwrap());
    assert_eq!(texts(&good(app.get(&rest).await)), ["Goes.", "Stays."]);
}

#[tokio::test]
async fn what_is_known_is_not_added_again() {
    let app = TestApp::start().await;
    let first = add(&app, "Likes green tea.").await;
    for same in ["Likes green tea.", "  likes GREEN tea", "Likes green, tea!"] {
        let answer = app.post(MEMORIES, &json!({ "text": same, "kind": "taste" })).await;
        assert_eq!((answer.status, good(answer)), (200, first.clone()), "{same}");
    }
    assert_eq!(app.post(MEMORIES, &json!({ "text": "Likes black tea." })).await.status, 201);
    assert_eq!(delete(&app, &path(&first)).await.status, 204);
    let again = app.post(MEMORIES, &json!({ "text": "Likes green tea." })).await;
    assert_eq!(again.status, 201, "what was forgotten can be said anew");
    assert_ne!(good(again)["id"], first["id"]);
}

#[tokio::test]
async fn a_memory_is_edited_as_a_new_version() {
    let app = TestApp::start().await;
    let made = add(&app, "Lives in Oslo.").await;
    let edited = good(patch(&app, &path(&made), &json!({ "text": " Lives in Bergen. " })).await);
    assert_eq!((&edited["text"], &edited["version"]), (&json!("Lives in Bergen."), &json!(2)));
    let edited = good(patch(&app, &path(&made), &json!({ "kind": "place" })).await);
    assert_eq!((&edited["kind"], &edited["version"]), (&json!("place"), &json!(3)));
    let same = good(patch(&app, &path(&made), &json!({ "text": "Lives in Bergen.", "kind": "place" })).await);
    assert_eq!(same, edited, "nothing has changed");
    for (body, status, code) in [
        (json!({}), 422, "invalid_request"),
        (json!({ "text": null }), 422, "invalid_request"),
        (json!({ "text": " " }), 422, "invalid_request"),
        (json!({ "kind": "Two words" }), 422, "invalid_request"),
        (json!({ "status": "active" }), 422, "invalid_request"),
        (json!({ "text": "x".repeat(4 * KIB + 1) }), 413, "too_large"),
        (json!({ "text": CARD }), 422, "secret"),
    ] {
        refused(patch(&app, &path(&made), &body).await, status, code);
    }
    assert_eq!(good(app.get(&path(&made)).await), edited);
    delete(&app, &path(&made)).await;
    let late = refused(patch(&app, &path(&made), &json!({ "text": "Moved." })).await, 409, "changed");
    assert!(late.contains("restore it first"), "{late}");
}

#[tokio::test]
async fn a_secret_is_named_by_what_it_looks_like_and_kept_nowhere() {
    let app = TestApp::start().await;
    let problem = problem(app.post(MEMORIES, &json!({ "text": CARD })).await);
    assert_eq!(problem["detail"], "text: looks like a card number; secrets are not remembered");
    assert_eq!(problem["errors"][0]["field"], "text");
    assert_eq!(app.count("SELECT count(*) FROM memories"), 0);
}

#[tokio::test]
async fn under_a_key_what_is_known_is_known_once() {
    let app = TestApp::start().await;
    let first = add(&app, "Has a dog.").await;
    let body = json!({ "text": "has a dog" });
    let known = keyed(&app, Method::POST, MEMORIES, &body).await;
    assert_eq!((known.status, &known.body), (200, &first));
    refused(
        keyed(&app, Method::POST, MEMORIES, &json!({ "text": "Has a dog." })).await,
        422,
        "idempotency_key_reused",
    );
    delete(&app, &path(&first)).await;
    let again = good(keyed(&app, Method::POST, MEMORIES, &body).await);
    assert_eq!((&again["id"], &again["status"]), (&first["id"], &json!("forgotten")));
    assert_eq!(app.count("SELECT count(*) FROM memories"), 1);
}

#[tokio::test]
async fn under_a_key_a_memory_is_edited_once_and_restored_once() {
    let app = TestApp::start().await;
    let made = add(&app, "Lives in Oslo.").await;
    let body = json!({ "text": "Lives in Bergen." });
    good(keyed(&app, Method::PATCH, &path(&made), &body).await);
    good(patch(&app, &path(&made), &json!({ "text": "Lives in Paris." })).await);
    assert_eq!(good(keyed(&app, Method::PATCH, &path(&made), &body).await)["text"], "Lives in Paris.");
    delete(&app, &path(&made)).await;
    let restore = format!("{}/restore", path(&made));
    refused(keyed(&app, Method::POST, &restore, &Value::Null).await, 422, "idempotency_key_reused");
    let with = |key: &str| app.request(Method::POST, &restore).header("idempotency-key", key.to_owned());
    assert_eq!(good(app.send(with("another")).await)["status"], "active");
    delete(&app, &path(&made)).await;
    assert_eq!(good(app.send(with("another")).await)["status"], "forgotten", "it was restored once");
    assert_eq!(good(app.send(with("third")).await)["status"], "active");
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
    app.database().execute("UPDATE memory_counts SET active = 200000", []).unwrap();
    refused(app.post(MEMORIES, &json!({ "text": "One more." })).await, 409, "memories_full");
    assert_eq!(delete(&app, &path(&last)).await.status, 204);
    add(&app, "One more.").await;
    let back = app.post(&format!("{}/restore", path(&last)), &json!({})).await;
    refused(back, 409, "memories_full");
}

/// A memory of another user, or of an app that the key is not for, is answered like one that does not exist.
#[tokio::test]
async fn what_is_not_yours_does_not_exist() {
    let app = TestApp::start().await;
    let (foreign, elsewhere) = (add(&app, "Ann's.").await, add(&app, "Elsewhere.").await);
    let token = key(&app, "bob").await;
    let sql = "DROP TRIGGER memories_stay; UPDATE memories SET user = 'ann' WHERE text = 'Ann''s.';
        UPDATE memories SET user = 'bob', app = 'other' WHERE text = 'Elsewhere.'";
    app.database().execute_batch(sql).unwrap();
    let send = async |method: Method, path: &str| {
        let request = app.request(method.clone(), path).bearer_auth(&token);
        let is_edit = method == Method::PATCH;
        app.send(if is_edit { request.json(&json!({ "text": "Mine." })) } else { request }).await
    };
    let missing = json!({ "id": "mem_ffffffffffffffffffffffffffffffff" });
    for (method, rest) in [
        (Method::GET, ""),
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/restore"),
        (Method::GET, "/history"),
    ] {
        let at = |memory: &Value| format!("{}{rest}", path(memory));
        let expected = problem(send(method.clone(), &at(&missing)).await);
        assert_eq!(expected["detail"], "there is no such memory, or it is not yours");
        for memory in [&foreign, &elsewhere] {
            assert_eq!(problem(send(method.clone(), &at(memory)).await), expected);
        }
    }
    refused(send(Method::GET, "/v1/memories/mem_1").await, 404, "not_found");
    assert_eq!(good(send(Method::GET, MEMORIES).await), json!({ "data": [], "next": null }));
    assert_eq!(app.count("SELECT count(*) FROM memories WHERE status = 'active'"), 2);
}
