//! Statistics of all users for admins, and the runs and jobs that they can end and try again.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::{Gate, Reply};
use testkit::{Answer, Setup, TestApp};

use crate::support::{good, refused, send_as, status_of};

const STATS: &str = "/v1/admin/stats";
const USAGE: &str = "/v1/admin/usage";
const ALL_RUNS: &str = "/v1/admin/runs";

async fn with_two_apps() -> TestApp {
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    TestApp::with(Setup { files, ..Setup::default() }).await
}

async fn token(app: &TestApp, user: &str, only: Option<&str>, admin: bool) -> String {
    let key = NewKey { user: user.into(), app: only.map(Into::into), admin, ..NewKey::default() };
    app.service.add_key(key, None).await.unwrap().token.unwrap()
}

async fn get(app: &TestApp, token: &str, path: &str) -> Answer {
    send_as(app, token, Method::GET, (path, &Value::Null)).await
}

/// Says something in a thread that has a title, so that no job names it in the background.
async fn say(app: &TestApp, token: &str, of: &str) -> Value {
    let titled = json!({ "title": "T" });
    let thread = good(send_as(app, token, Method::POST, (&format!("/v1/apps/{of}/threads"), &titled)).await);
    let body = json!({ "message": "Hi", "threadId": thread["id"], "stream": false });
    send_as(app, token, Method::POST, (&format!("/v1/apps/{of}/runs"), &body)).await.body
}

fn counts(point: &Value) -> Vec<u64> {
    ["runs", "completed", "failed", "cancelled", "interrupted"]
        .map(|name| point[name].as_u64().unwrap())
        .to_vec()
}

#[tokio::test]
async fn runs_are_counted_by_time_and_by_what_is_asked_for() {
    let app = with_two_apps().await;
    let (root, warden) =
        (token(&app, "root", None, true).await, token(&app, "warden", Some("other"), true).await);
    let (ann, bob) = (token(&app, "ann", None, false).await, token(&app, "bob", None, false).await);
    app.upstream.script([
        Reply::says("One."),
        Reply::status(401).error("invalid_request_error", None, "no"),
        Reply::says("Three."),
    ]);
    say(&app, &ann, "test").await;
    say(&app, &ann, "test").await;
    app.setup().clock.advance(Duration::from_secs(120));
    say(&app, &bob, "other").await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Slow").wait(&gate).text(".")]);
    let slow = app.request(Method::POST, "/v1/apps/test/runs").bearer_auth(&bob);
    let slow = slow.json(&json!({ "message": "Hi" })).send().await.unwrap();
    app.setup().clock.advance(Duration::from_secs(3));
    gate.open();
    slow.text().await.unwrap();
    app.service.idle().await;

    let report = good(get(&app, &root, &format!("{STATS}?from=2026-03-01&to=2026-03-02&step=60")).await);
    let points = report["data"].as_array().unwrap();
    assert_eq!(report["next"], Value::Null);
    assert_eq!(points.len(), 2, "{report}");
    assert_eq!(points[0]["at"], "2026-03-01T12:00:00Z");
    assert_eq!(points[1]["at"], "2026-03-01T12:02:00Z");
    assert_eq!(counts(&points[0]), [2, 1, 1, 0, 0]);
    assert_eq!(counts(&points[1]), [2, 2, 0, 0, 0]);
    let errors = points[0]["errors"].as_object().unwrap();
    assert_eq!(errors.values().cloned().collect::<Vec<_>>(), [json!(1)], "{errors:?}");
    assert_eq!(points[1]["latencyMs"], json!({ "p50": 0, "p95": 3000, "p99": 3000 }));
    assert!(points[0]["inputTokens"].as_u64().unwrap() > 0, "{report}");

    let by = async |by: &str, token: &str| {
        let path = format!("{STATS}?from=2026-03-01&to=2026-03-02&step=86400&by={by}");
        let report = good(get(&app, token, &path).await);
        let points = report["data"].as_array().unwrap().iter();
        points
            .map(|point| (point["key"].as_str().unwrap().to_owned(), point["runs"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(by("app", &root).await, [("other".to_owned(), 1), ("test".to_owned(), 3)]);
    assert_eq!(by("user", &root).await, [("ann".to_owned(), 2), ("bob".to_owned(), 2)]);
    assert_eq!(by("model", &root).await, [("test-model".to_owned(), 4)]);
    assert_eq!(by("user", &warden).await, [("bob".to_owned(), 1)]);

    // A day ends before its next.
    let none = good(get(&app, &root, &format!("{STATS}?from=2026-02-28&to=2026-03-01")).await);
    assert_eq!(none["data"], json!([]));
    for (query, field) in [
        ("step=59", "step"),
        ("step=x", "step"),
        ("from=2026-01-01&to=2026-03-01&step=60", "step"),
        ("from=tomorrow", "from"),
        ("from=2026-03-02&to=2026-03-01", "from"),
        ("by=thread", "by"),
    ] {
        let answer = get(&app, &root, &format!("{STATS}?{query}")).await;
        assert_eq!(answer.body["errors"][0]["field"], field, "{query}: {answer:?}");
        refused(answer, 422, "invalid_request");
    }
    refused(get(&app, &ann, STATS).await, 403, "admin_only");
}

#[tokio::test]
async fn usage_of_all_users_is_added_up() {
    let app = with_two_apps().await;
    let (root, warden) =
        (token(&app, "root", None, true).await, token(&app, "warden", Some("other"), true).await);
    let (ann, bob) = (token(&app, "ann", None, false).await, token(&app, "bob", None, false).await);
    app.upstream.program(|_| Reply::says("Fine."));
    for (token, of) in [(&ann, "test"), (&ann, "test"), (&ann, "other"), (&bob, "other")] {
        say(&app, token, of).await;
    }
    let report = good(get(&app, &root, &format!("{USAGE}?by=app,user")).await);
    let calls = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        (text("appId"), text("userId"), row["calls"].as_u64().unwrap())
    };
    let rows: Vec<_> = report["data"].as_array().unwrap().iter().map(calls).collect();
    let row = |app: &str, user: &str, calls: u64| (app.to_owned(), user.to_owned(), calls);
    assert_eq!(rows, [row("other", "ann", 1), row("other", "bob", 1), row("test", "ann", 2)]);
    let whole: u64 =
        report["data"].as_array().unwrap().iter().map(|row| row["inputTokens"].as_u64().unwrap()).sum();
    assert_eq!(report["total"]["inputTokens"], whole);
    let report = good(get(&app, &warden, USAGE).await);
    let rows: Vec<_> = report["data"].as_array().unwrap().iter().map(calls).collect();
    assert_eq!(rows, [row("other", "-", 2)]);
    let by_day = good(get(&app, &root, &format!("{USAGE}?by=day,model&from=2026-03-01&to=2026-03-01")).await);
    let only = &by_day["data"][0];
    assert_eq!(
        (&only["date"], &only["model"], &only["calls"]),
        (&json!("2026-03-01"), &json!("test-model"), &json!(4))
    );
    for query in ["by=hour", "by=", "from=2026-03-02&to=2026-03-01", "from=2024-01-01&to=2026-03-01"] {
        refused(get(&app, &root, &format!("{USAGE}?{query}")).await, 422, "invalid_request");
    }
}

#[tokio::test]
async fn an_admin_lists_the_runs_of_their_apps() {
    let app = with_two_apps().await;
    let (root, warden) =
        (token(&app, "root", None, true).await, token(&app, "warden", Some("other"), true).await);
    let ann = token(&app, "ann", None, false).await;
    app.upstream.program(|_| Reply::says("Fine."));
    for of in ["test", "other", "test"] {
        say(&app, &ann, of).await;
        app.setup().clock.advance(Duration::from_secs(1));
    }
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Slow").wait(&gate).text(".")]);
    let stream = app.request(Method::POST, "/v1/apps/test/runs").bearer_auth(&ann);
    let mut stream = testkit::Frames::new(stream.json(&json!({ "message": "Hi" })).send().await.unwrap());
    let run = stream.header("x-run-id");
    stream.read_until("text:delta").await;

    let list = async |token: &str, query: &str| {
        let page = good(get(&app, token, &format!("{ALL_RUNS}{query}")).await);
        let ids: Vec<String> = page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["id"].as_str().unwrap().to_owned())
            .collect();
        (ids, page["next"].as_str().map(str::to_owned), page)
    };
    let (all, next, page) = list(&root, "").await;
    assert_eq!((all.len(), next), (4, None));
    assert_eq!(all[0], run);
    let first = &page["data"][0];
    assert_eq!(
        (&first["userId"], &first["appId"], &first["status"]),
        (&json!("ann"), &json!("test"), &json!("running"))
    );
    assert!(first.get("messageId").is_none(), "{first}");
    // Page by page it is the same list.
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let (ids, next, _) = list(&root, &format!("?limit=1{cursor}")).await;
        paged.extend(ids);
        let Some(next) = next else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, all);
    assert_eq!(list(&root, "?status=active").await.0, [run.as_str()]);
    assert_eq!(list(&root, "?status=completed&app=test").await.0, [all[1].as_str(), all[3].as_str()]);
    assert_eq!(list(&warden, "").await.0, [all[2].as_str()]);
    assert_eq!(list(&warden, "?app=test").await.0, [""; 0]);
    refused(get(&app, &root, &format!("{ALL_RUNS}?status=slow")).await, 422, "invalid_request");
    gate.open();
}

#[tokio::test]
async fn an_admin_ends_a_run_and_the_audit_says_so() {
    let app = with_two_apps().await;
    let (root, warden) =
        (token(&app, "root", None, true).await, token(&app, "warden", Some("other"), true).await);
    let ann = token(&app, "ann", None, false).await;
    app.upstream.program(|_| Reply::says("Fine."));
    say(&app, &ann, "test").await;
    let ended = good(get(&app, &root, ALL_RUNS).await)["data"][0]["id"].as_str().unwrap().to_owned();
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Slow").wait(&gate).text(".")]);
    let stream = app.request(Method::POST, "/v1/apps/test/runs").bearer_auth(&ann);
    let mut stream = testkit::Frames::new(stream.json(&json!({ "message": "Hi" })).send().await.unwrap());
    let run = stream.header("x-run-id");
    stream.read_until("text:delta").await;
    let cancel = async |token: &str, run: &str| {
        send_as(&app, token, Method::POST, (&format!("{ALL_RUNS}/{run}/cancel"), &Value::Null)).await
    };
    refused(cancel(&warden, &run).await, 404, "not_found");
    refused(cancel(&ann, &run).await, 403, "admin_only");
    let told = cancel(&root, &run).await;
    assert_eq!((told.status, &told.body["cancelRequested"]), (202, &json!(true)));
    assert_eq!(status_of(&stream.all().await), "cancelled");
    gate.open();
    // A second time changes nothing, and one that has ended stays as it is.
    assert_eq!(cancel(&root, &run).await.body["status"], "cancelled");
    assert_eq!(cancel(&root, &ended).await.body["status"], "completed");
    let audit = good(get(&app, &root, "/v1/admin/audit").await);
    let entries: Vec<_> =
        audit["data"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "run_cancelled").collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0]["by"], &entries[0]["app"], &entries[0]["target"]),
        (&json!("root"), &json!("test"), &json!(run))
    );
    assert_eq!(entries[0]["detail"]["user"], "ann");
}

#[tokio::test]
async fn a_dead_job_is_tried_again_and_the_audit_says_who_wanted_it() {
    let app = with_two_apps().await;
    let (root, warden) =
        (token(&app, "root", None, true).await, token(&app, "warden", Some("other"), true).await);
    let ann = token(&app, "ann", None, false).await;
    app.upstream.program(|_| Reply::says("Fine."));
    let thread =
        say(&app, &ann, "test").await["threadId"].as_str().unwrap().trim_start_matches("thr_").to_owned();
    app.service.idle().await;
    let sql = format!(
        "INSERT INTO jobs (id, kind, key, app, user, thread, status, attempts, run_at, error, created_at, updated_at)
            VALUES (x'00000000000000000000000000000abc', 'sweep', 'again', 'test', 'ann', x'{thread}', 'dead', 5, 0,
                'the disk was full', 0, 0)"
    );
    app.database().execute_batch(&sql).unwrap();
    let path = format!("/v1/admin/jobs/job_{}/retry", "0".repeat(29) + "abc");
    let retry = async |token: &str| send_as(&app, token, Method::POST, (&path, &Value::Null)).await;
    refused(retry(&warden).await, 404, "not_found");
    refused(retry(&ann).await, 403, "admin_only");
    let job = good(retry(&root).await);
    assert_eq!((&job["status"], &job["attempts"]), (&json!("ready"), &json!(0)));
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE key = 'again' AND status = 'done'"), 1);
    let detail = refused(retry(&root).await, 409, "changed");
    assert!(detail.contains("only a dead job"), "{detail}");
    let audit = good(get(&app, &root, "/v1/admin/audit").await);
    let entry = &audit["data"][0];
    assert_eq!(
        (&entry["kind"], &entry["by"], &entry["app"]),
        (&json!("job_retried"), &json!("root"), &json!("test"))
    );
    assert_eq!(entry["detail"], json!({ "kind": "sweep", "user": "ann" }));
    assert_eq!(app.count("SELECT count(*) FROM admin_audit WHERE kind = 'job_retried'"), 1);
}
