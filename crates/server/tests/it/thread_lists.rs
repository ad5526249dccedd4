//! Lists of threads: pinned and archived ones, and those of all apps.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use service::NewKey;
use testkit::{Setup, TestApp};

use crate::support::{Names, THREADS, good, patch, refused, repeating, say, say_in};

const ALL: &str = "/v1/threads";

async fn start() -> TestApp {
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let app = TestApp::with(Setup { files, ..Setup::default() }).await;
    app.upstream.program(repeating);
    app
}

async fn made(app: &TestApp, of: &str, title: &str) -> String {
    // The clock stands still, so make the past.
    app.database().execute("UPDATE threads SET updated_at = updated_at - 60000", []).unwrap();
    let path = format!("/v1/apps/{of}/threads");
    good(app.post(&path, &json!({ "title": title })).await)["id"].as_str().unwrap().to_owned()
}

async fn titles(app: &TestApp, path: &str) -> Vec<String> {
    let page = good(app.get(path).await);
    let title = |thread: &Value| thread["title"].as_str().unwrap().to_owned();
    page["data"].as_array().unwrap().iter().map(title).collect()
}

async fn mark(app: &TestApp, thread: &str, body: Value) -> Value {
    good(patch(app, &format!("/v1/threads/{thread}"), &body).await)
}

#[tokio::test]
async fn a_list_shows_what_it_is_asked_for() {
    let app = start().await;
    let mut threads = Vec::new();
    for title in ["a", "b", "c", "d"] {
        threads.push(made(&app, "test", title).await);
    }
    let before = good(app.get(&format!("/v1/threads/{}", threads[0])).await);
    assert_eq!((&before["pinned"], &before["archived"]), (&json!(false), &json!(false)));
    let pinned = mark(&app, &threads[0], json!({ "pinned": true })).await;
    assert_eq!((&pinned["pinned"], &pinned["updatedAt"]), (&json!(true), &before["updatedAt"]));
    mark(&app, &threads[1], json!({ "archived": true })).await;
    mark(&app, &threads[2], json!({ "archived": true, "pinned": true })).await;
    for (query, expected) in [
        ("", vec!["d", "a"]),
        ("?archived=false", vec!["d", "a"]),
        ("?archived=true", vec!["c", "b"]),
        ("?archived=all", vec!["d", "c", "b", "a"]),
        ("?pinned=true", vec!["a"]),
        ("?pinned=false", vec!["d"]),
        ("?pinned=true&archived=all", vec!["c", "a"]),
        ("?pinned=false&archived=true", vec!["b"]),
    ] {
        assert_eq!(titles(&app, &format!("{THREADS}{query}")).await, expected, "{query}");
        assert_eq!(titles(&app, &format!("{ALL}{query}")).await, expected, "{query}");
    }
    for wrong in ["?archived=maybe", "?pinned=1", "?archived=", "?archived=true&archived=false"] {
        refused(app.get(&format!("{THREADS}{wrong}")).await, 422, "invalid_request");
        refused(app.get(&format!("{ALL}{wrong}")).await, 422, "invalid_request");
    }
    let one_by_one = async |path: &str| {
        let (mut found, mut next) = (Vec::new(), String::new());
        for _ in 0..9 {
            let page = good(app.get(&format!("{path}?archived=all&limit=1{next}")).await);
            found.extend(page["data"].as_array().unwrap().iter().map(|thread| thread["title"].clone()));
            let Some(cursor) = page["next"].as_str() else { break };
            next = format!("&cursor={cursor}");
        }
        found
    };
    assert_eq!(one_by_one(THREADS).await, ["d", "c", "b", "a"]);
    assert_eq!(one_by_one(ALL).await, ["d", "c", "b", "a"]);
}

#[tokio::test]
async fn all_apps_are_those_of_the_key_and_nobody_elses_threads() {
    let app = start().await;
    for (of, title) in [("test", "a"), ("other", "b"), ("test", "c"), ("other", "d")] {
        made(&app, of, title).await;
    }
    assert_eq!(titles(&app, ALL).await, ["d", "c", "b", "a"]);
    assert_eq!(titles(&app, &format!("{ALL}?limit=3")).await, ["d", "c", "b"]);
    app.database().execute("UPDATE threads SET user = 'ann'", []).unwrap();
    assert_eq!(titles(&app, ALL).await, [""; 0]);
    let key = async |app_of_key: Option<&str>, user: &str| {
        let key = NewKey { user: user.into(), app: app_of_key.map(Into::into), ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let (all, one, other) = (key(None, "ann").await, key(Some("other"), "ann").await, key(None, "bob").await);
    for (token, expected) in [(all, vec!["d", "c", "b", "a"]), (one, vec!["d", "b"]), (other, vec![])] {
        let page = good(app.send(app.request(axum::http::Method::GET, ALL).bearer_auth(token)).await);
        let found: Vec<&str> =
            page["data"].as_array().unwrap().iter().map(|thread| thread["title"].as_str().unwrap()).collect();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_mark_is_told_on_the_channel_once() {
    let app = start().await;
    let names = say(&app, "Hi").await;
    let last = good(app.get(&names.thread_path()).await)["lastSeq"].as_u64().unwrap();
    let mut channel = app.follow(&names.channel_path(), Some(last)).await;
    let body = json!({ "title": "Kept", "pinned": true });
    let after = good(patch(&app, &names.thread_path(), &body).await);
    assert_eq!(after["lastSeq"], json!(last + 2));
    assert_eq!(channel.next().await.unwrap().event, "thread:named");
    let told = channel.next().await.unwrap();
    assert_eq!(
        (told.event.as_str(), told.data),
        ("thread:changed", json!({ "pinned": true, "archived": false }))
    );
    // A mark that is set already is no event.
    let again = good(patch(&app, &names.thread_path(), &json!({ "pinned": true })).await);
    assert_eq!(again["lastSeq"], json!(last + 2));
    refused(patch(&app, &names.thread_path(), &json!({})).await, 422, "invalid_request");
    refused(patch(&app, &names.thread_path(), &json!({ "pinned": "yes" })).await, 422, "invalid_request");
}

#[tokio::test]
async fn a_new_message_brings_an_archived_thread_back() {
    let app = start().await;
    let names = say(&app, "Hi").await;
    mark(&app, &names.thread, json!({ "archived": true, "pinned": true })).await;
    assert_eq!(titles(&app, THREADS).await, [""; 0]);
    let last = good(app.get(&names.thread_path()).await)["lastSeq"].as_u64().unwrap();
    let again: Names = say_in(&app, &names.thread, "Hi again").await;
    let thread = good(app.get(&again.thread_path()).await);
    assert_eq!((&thread["archived"], &thread["pinned"]), (&json!(false), &json!(true)));
    let mut channel = app.follow(&names.channel_path(), Some(last)).await;
    let told = channel.next().await.unwrap();
    assert_eq!(
        (told.event.as_str(), told.data),
        ("thread:changed", json!({ "pinned": true, "archived": false }))
    );
    assert_eq!(channel.next().await.unwrap().event, "message:user");
}

/// The time is generous, because tests share the machine; a list that goes through the table takes longer.
#[tokio::test]
async fn ten_thousand_threads_are_listed_quickly() {
    let app = start().await;
    let first = made(&app, "test", "first").await;
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
        INSERT INTO threads (id, app, user, title, created_at, updated_at, archived, pinned)
            SELECT unhex(printf('%032x', i + 1000000)), 'test', 'local', 'thread ' || i, i, i, i % 2, i = 2 FROM n";
    app.database().execute(many, []).unwrap();
    mark(&app, &first, json!({ "pinned": true })).await;
    for (query, expected) in [
        ("", 100),
        ("?archived=all&limit=1000", 1000),
        ("?pinned=true", 2),
        ("?archived=true&pinned=true", 0),
    ] {
        let begun = Instant::now();
        for path in [THREADS, ALL] {
            let found = titles(&app, &format!("{path}{query}")).await;
            assert_eq!(found.len(), expected, "{query}");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{query}: {:?}", begun.elapsed());
    }
}
