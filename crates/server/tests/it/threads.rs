//! Threads: created, listed newest first, paged without loss, renamed for all readers at once.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::Reply;

use crate::support::{THREADS, good, patch, refused, say, say_in};

async fn create(app: &TestApp, body: &Value) -> String {
    good(app.post(THREADS, body).await)["id"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
}

/// Reads a list page by page, to its end.
async fn walk(app: &TestApp, path: &str, limit: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let mut page = good(app.get(&format!("{path}?limit={limit}")).await);
    loop {
        let entries = page["data"].as_array().unwrap();
        found.extend(entries.iter().cloned());
        let Some(cursor) = page["next"].as_str() else {
            assert!(page["next"].is_null());
            return found;
        };
        assert_eq!(entries.len(), limit, "a page that is not the last is full");
        assert!(found.len() < 100, "the list does not end");
        page = good(app.get(&format!("{path}?limit={limit}&cursor={cursor}")).await);
    }
}

#[tokio::test]
async fn a_thread_is_created_with_or_without_a_title() {
    let app = TestApp::start().await;
    let named = app.post(THREADS, &json!({ "title": "  First steps " })).await;
    assert_eq!(named.status, 201);
    insta::assert_json_snapshot!("a_new_thread_with_a_title", good(named));
    let empty = app.send(app.request(Method::POST, THREADS)).await;
    assert_eq!(empty.status, 201);
    insta::assert_json_snapshot!("a_new_thread_without_a_body", good(empty));
    let messages = good(app.get("/v1/threads/thr_00000000000000000000000000000002/messages").await);
    assert_eq!(messages, json!({ "data": [], "next": null }));
}

#[tokio::test]
async fn the_thread_used_last_comes_first() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Yes."));
    let mut made = Vec::new();
    for title in ["a", "b", "c"] {
        made.push(create(&app, &json!({ "title": title })).await);
    }
    // The clock stands still, so make the past.
    app.database().execute("UPDATE threads SET updated_at = updated_at - 60000", []).unwrap();
    say_in(&app, &made[0], "Hi").await;
    let first = ids(&good(app.get(THREADS).await));
    assert_eq!(first, [made[0].as_str(), &made[2], &made[1]]);

    app.database().execute("UPDATE threads SET updated_at = updated_at - 60000", []).unwrap();
    good(patch(&app, &format!("/v1/threads/{}", made[1]), &json!({ "title": "used" })).await);
    let page = good(app.get(THREADS).await);
    assert_eq!(ids(&page), [made[1].as_str(), &made[0], &made[2]]);
    insta::assert_json_snapshot!(page);
}

#[tokio::test]
async fn paging_through_threads_loses_and_doubles_nothing() {
    let app = TestApp::start().await;
    for number in 0..23 {
        create(&app, &json!({ "title": format!("thread {number}") })).await;
    }
    // Several threads share each moment, so that a page may end between them.
    app.database()
        .execute("UPDATE threads SET updated_at = updated_at - 1000 * (abs(random()) % 5)", [])
        .unwrap();
    let whole = good(app.get(THREADS).await);
    assert_eq!((ids(&whole).len(), &whole["next"]), (23, &Value::Null));
    for limit in [1, 2, 5, 22, 23, 24, 1000] {
        assert_eq!(json!(walk(&app, THREADS, limit).await), whole["data"], "pages of {limit}");
    }
}

#[tokio::test]
async fn a_thread_made_between_two_pages_disturbs_none() {
    let app = TestApp::start().await;
    for _ in 0..5 {
        create(&app, &json!({})).await;
    }
    let whole = ids(&good(app.get(THREADS).await));
    let first = good(app.get(&format!("{THREADS}?limit=2")).await);
    create(&app, &json!({ "title": "late" })).await;
    let rest = format!("{THREADS}?limit=9&cursor={}", first["next"].as_str().unwrap());
    assert_eq!([ids(&first), ids(&good(app.get(&rest).await))].concat(), whole);
}

#[tokio::test]
async fn paging_through_messages_loses_and_doubles_nothing() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Yes."));
    let names = say(&app, "One").await;
    for message in ["Two", "Three", "Four"] {
        say_in(&app, &names.thread, message).await;
    }
    let whole = good(app.get(&names.messages_path()).await);
    assert_eq!(whole["data"].as_array().map(Vec::len), Some(8));
    for limit in 1..=9 {
        let pages = walk(&app, &names.messages_path(), limit).await;
        assert_eq!(json!(pages), whole["data"], "pages of {limit}");
    }
}

#[tokio::test]
async fn a_new_name_is_told_on_the_channel() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Yes.")]);
    let names = say(&app, "Hi").await;
    let before = good(app.get(&names.thread_path()).await);
    let last = before["lastSeq"].as_u64().unwrap();
    let mut channel = app.follow(&names.channel_path(), Some(last)).await;
    let after = good(patch(&app, &names.thread_path(), &json!({ "title": " Second thoughts\n" })).await);
    let told = channel.next().await.unwrap();
    assert_eq!((told.id, told.event.as_str()), (last + 1, "thread:named"));
    assert_eq!(told.data, json!({ "title": "Second thoughts" }));
    let mut expected = before;
    expected["title"] = json!("Second thoughts");
    expected["lastSeq"] = json!(last + 1);
    assert_eq!(after, expected);
    assert_eq!(good(app.get(&names.thread_path()).await), expected);
}

/// A thread of another user is answered exactly like one that does not exist.
#[tokio::test]
async fn what_is_not_yours_does_not_exist() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Yes.")]);
    let names = say(&app, "Hi").await;
    let sql = "PRAGMA foreign_keys = OFF; DROP TRIGGER runs_absorb;
        UPDATE runs SET user = 'ann'; UPDATE threads SET user = 'ann'";
    app.database().execute_batch(sql).unwrap();
    let unknown = "thr_ffffffffffffffffffffffffffffffff";
    for end in ["", "/messages", "/events"] {
        let foreign = crate::support::problem(app.get(&format!("{}{end}", names.thread_path())).await);
        let missing = crate::support::problem(app.get(&format!("/v1/threads/{unknown}{end}")).await);
        assert_eq!(foreign, missing);
        assert_eq!(foreign["detail"], "there is no such thread, or it is not yours");
    }
    for thread in [names.thread.as_str(), unknown] {
        let path = format!("/v1/threads/{thread}");
        refused(patch(&app, &path, &json!({ "title": "mine" })).await, 404, "not_found");
        refused(crate::support::delete(&app, &path).await, 404, "not_found");
        let body = json!({ "message": "Hi", "threadId": thread });
        refused(app.post(crate::support::RUNS, &body).await, 404, "not_found");
    }
    assert_eq!(good(app.get(THREADS).await), json!({ "data": [], "next": null }));
    assert_eq!(app.count("SELECT count(*) FROM threads WHERE user = 'ann' AND deleted_at IS NULL"), 1);
}
