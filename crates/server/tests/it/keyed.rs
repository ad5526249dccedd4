//! `Idempotency-Key`: what is asked twice under one key happens once (Q3).

use axum::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::{Gate, Reply};
use testkit::{Answer, Frames, TestApp};

use crate::support::{
    Names, RUNS, THREADS, blocks, good, problem, refused, repeating, rows, said, status_of, thread,
};

/// Sends a request under a key.
async fn keyed(app: &TestApp, key: &str, method: Method, (path, body): (&str, &Value)) -> Answer {
    let mut request = app.request(method, path).header("idempotency-key", key);
    if !body.is_null() {
        request = request.json(body);
    }
    app.send(request).await
}

async fn post(app: &TestApp, key: &str, path: &str, body: &Value) -> Answer {
    keyed(app, key, Method::POST, (path, body)).await
}

/// Opens a stream under a key.
async fn stream(app: &TestApp, key: &str, path: &str, body: &Value) -> Frames {
    let request = app.request(Method::POST, path).header("idempotency-key", key).json(body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    Frames::new(response)
}

#[tokio::test]
async fn q3_a_streamed_run_is_replayed_from_its_first_event() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    for (path, key) in [(RUNS, "first"), ("/test/stream", "second")] {
        let body = json!({ "message": "Hi" });
        let first = stream(&app, key, path, &body).await;
        let names = Names::of(&first);
        let frames = first.all().await;
        assert_eq!(status_of(&frames), "completed");
        app.service.idle().await;
        let before = rows(&app);
        let again = stream(&app, key, path, &body).await;
        assert_eq!((again.header("x-run-id"), again.header("x-thread-id")), (names.run, names.thread));
        assert_eq!(again.all().await, frames);
        assert_eq!(rows(&app), before);
    }
    assert_eq!(app.upstream.requests().len(), 2);
}

/// Byte for byte, also when the second request comes while the run is under way.
#[tokio::test]
async fn q3_a_replay_attaches_to_a_run_under_way() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let request = || app.request(Method::POST, RUNS).header("idempotency-key", "k");
    let request = || request().json(&json!({ "message": "Hi" })).send();
    let first = request().await.unwrap();
    gate.reached().await;
    let second = request().await.unwrap();
    gate.open();
    let (first, second) = tokio::join!(first.text(), second.text());
    assert_eq!(blocks(&first.unwrap()), blocks(&second.unwrap()));
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test]
async fn q3_an_answer_in_json_is_replayed() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Once.")]);
    let body = json!({ "message": "Hi", "stream": false });
    let first = good(post(&app, "k", RUNS, &body).await);
    assert_eq!(first["reply"], "Once.");
    assert_eq!(good(post(&app, "k", RUNS, &body).await), first);
    // Also by a server that has been restarted since.
    let app = app.restart().await;
    assert_eq!(good(post(&app, "k", RUNS, &body).await), first);
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn q3_ten_at_once_are_one_run() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Once.")]);
    let thread = thread(&app).await;
    let body = json!({ "message": "Hi", "threadId": thread, "stream": false });
    let answers = join_all((0..10).map(|_| post(&app, "k", RUNS, &body))).await;
    let results: Vec<_> = answers.into_iter().map(good).collect();
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    assert_eq!(said(&app, &thread).await, ["user: Hi", "assistant: Once."]);
    assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
}

/// The key stands for the whole request: its method, its address and its body.
#[tokio::test]
async fn q3_a_key_used_for_something_else_is_refused() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let body = json!({ "message": "Hi", "stream": false });
    let run = good(post(&app, "k", RUNS, &body).await);
    app.service.idle().await;
    let path = format!("/v1/threads/{}", run["threadId"].as_str().unwrap());
    let cancel = format!("/v1/runs/{}/cancel", run["runId"].as_str().unwrap());
    let before = rows(&app);
    for (method, path, body) in [
        (Method::POST, RUNS, json!({ "message": "Ho", "stream": false })),
        (Method::POST, RUNS, json!({ "message": "Hi" })),
        (Method::POST, "/test/stream", json!({ "message": "Hi" })),
        (Method::POST, THREADS, json!({})),
        (Method::PATCH, path.as_str(), json!({ "title": "New" })),
        (Method::DELETE, path.as_str(), Value::Null),
        (Method::POST, cancel.as_str(), Value::Null),
    ] {
        let answer = keyed(&app, "k", method.clone(), (path, &body)).await;
        let problem = problem(answer);
        assert_eq!(problem["code"], "idempotency_key_reused", "{method} {path} {body}: {problem}");
        assert_eq!(problem["status"], 422);
    }
    assert_eq!(rows(&app), before);
    assert_eq!(good(app.get(&path).await)["title"], "Hi");
}

#[tokio::test]
async fn q3_what_is_no_key_is_refused() {
    let app = TestApp::start().await;
    let before = rows(&app);
    for bad in ["", "a b", "\u{e9}", &"k".repeat(256)] {
        let request = app.request(Method::POST, THREADS).header("idempotency-key", bad.as_bytes());
        refused(app.send(request).await, 400, "invalid_idempotency_key");
    }
    assert_eq!(rows(&app), before);
    good(post(&app, &"k".repeat(255), THREADS, &json!({})).await);
}

/// Everything that changes something takes a key.
#[tokio::test]
async fn q3_threads_are_changed_once() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let made = post(&app, "make", THREADS, &json!({ "title": "One" })).await;
    let again = post(&app, "make", THREADS, &json!({ "title": "One" })).await;
    assert_eq!((made.status, again.status), (201, 201));
    let made = good(made);
    assert_eq!(good(again), made);
    let path = format!("/v1/threads/{}", made["id"].as_str().unwrap());

    let named = json!({ "title": "Two" });
    good(keyed(&app, "name", Method::PATCH, (&path, &named)).await);
    good(keyed(&app, "other", Method::PATCH, (&path, &json!({ "title": "Three" }))).await);
    let again = good(keyed(&app, "name", Method::PATCH, (&path, &named)).await);
    assert_eq!(again["title"], "Three", "what was done once is not done again");
    assert_eq!(app.count("SELECT count(*) FROM events WHERE kind = 'thread:named'"), 2);

    for _ in 0..2 {
        let gone = keyed(&app, "delete", Method::DELETE, (&path, &Value::Null)).await;
        assert_eq!(gone.status, 204);
        app.service.idle().await; // its rows are gone as well
    }
    let gone = keyed(&app, "delete again", Method::DELETE, (&path, &Value::Null)).await;
    refused(gone, 400, "invalid_idempotency_key");
    refused(keyed(&app, "delete-2", Method::DELETE, (&path, &Value::Null)).await, 404, "not_found");
}

#[tokio::test]
async fn q3_a_run_is_cancelled_once() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Hel").stall()]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    stream.read_until("text:delta").await;
    let path = format!("{}/cancel", names.run_path());
    assert_eq!(post(&app, "k", &path, &Value::Null).await.status, 202);
    assert_eq!(status_of(&stream.all().await), "cancelled");
    let again = post(&app, "k", &path, &Value::Null).await;
    assert_eq!((again.status, &again.body["status"]), (202, &json!("cancelled")));
}

/// A key belongs to a user in an app.
#[tokio::test]
async fn q3_the_keys_of_others_are_others() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let mut runs = Vec::new();
    for user in ["ann", "bob"] {
        let key = NewKey { user: user.into(), app: None, admin: false, ..NewKey::default() };
        let token = app.service.add_key(key, None).await.unwrap().token.unwrap();
        let request = app.request(Method::POST, RUNS).bearer_auth(token).header("idempotency-key", "k");
        let body = json!({ "message": user, "stream": false });
        runs.push(good(app.send(request.json(&body)).await));
    }
    assert_eq!([&runs[0]["reply"], &runs[1]["reply"]], ["Re: ann", "Re: bob"]);
    assert_ne!(runs[0]["runId"], runs[1]["runId"]);
}

#[tokio::test]
async fn q3_the_same_key_in_another_app_is_another() {
    let app = TestApp::start().await;
    let first = good(post(&app, "k", THREADS, &json!({})).await);
    app.database().execute("UPDATE idempotency SET app = 'other'", []).unwrap();
    let second = good(post(&app, "k", THREADS, &json!({})).await);
    assert_ne!(first["id"], second["id"]);
}

/// Nothing is stored by a request that is refused, its key neither.
#[tokio::test]
async fn q3_a_refused_request_does_not_use_up_its_key() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let mut busy = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    busy.read_until("text:delta").await;
    let thread = busy.header("x-thread-id");
    let unknown = "thr_ffffffffffffffffffffffffffffffff";
    for (body, status, code) in [
        (json!({ "message": "Hi", "settings": { "temperature": 3 } }), 422, "invalid_request"),
        (json!({ "mesage": "Hi" }), 422, "invalid_request"),
        (json!({ "message": "Hi", "threadId": unknown }), 404, "not_found"),
        (json!({ "message": "Hi", "threadId": thread, "onBusy": "reject" }), 409, "thread_busy"),
    ] {
        refused(post(&app, "k", RUNS, &body).await, status, code);
    }
    gate.open();
    busy.all().await;
    let body = json!({ "message": "Good", "stream": false });
    assert_eq!(good(post(&app, "k", RUNS, &body).await)["reply"], "Re: Good");
}

/// Q3: a key of a user is made once too; its token cannot be shown again.
#[tokio::test]
async fn a_users_key_is_made_once() {
    let app = TestApp::start().await;
    let make = |user: &str| {
        let request = app.request(Method::POST, "/v1/admin/keys").header("idempotency-key", "k");
        app.send(request.json(&json!({ "user": user, "admin": true })))
    };
    let first = make("ann").await;
    assert_eq!(first.status, 201);
    let token = first.body["token"].as_str().unwrap().to_owned();
    let again = |user: &str| {
        let request =
            app.request(Method::POST, "/v1/admin/keys").header("idempotency-key", "k").bearer_auth(&token);
        app.send(request.json(&json!({ "user": user, "admin": true })))
    };
    // Until the first key there was the one local user; the user of this key is another one, with idempotency keys of
    // their own.
    let anns = again("ann").await;
    assert_ne!(anns.body["id"], first.body["id"]);
    let replay = again("ann").await;
    assert_eq!(
        (replay.status, &replay.body["id"], &replay.body["token"]),
        (201, &anns.body["id"], &Value::Null)
    );
    assert_eq!(again("bob").await.status, 422);
    assert_eq!(app.count("SELECT count(*) FROM keys"), 2);
}
