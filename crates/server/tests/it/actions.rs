//! Actions over HTTP: the list, one action, and undo of one or of a whole run. Other users see none of them.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp};

use crate::support::{Names, RUNS, good, problem, refused, told};

const ACTIONS: &str = "/v1/apps/test/actions";
const MISSING: &str = "act_ffffffffffffffffffffffffffffffff";

async fn start() -> TestApp {
    TestApp::with(Setup::app("tools = [\"echo\", \"markdown\", \"risky\", \"gated\", \"undo\"]")).await
}

fn create(path: &str) -> ScriptedCall {
    ScriptedCall::new("createMarkdownFile", &json!({ "path": path, "content": "# One\n" }).to_string())
}

/// A run that makes these calls, one after the other, and ends.
async fn run(app: &TestApp, calls: impl IntoIterator<Item = ScriptedCall>) -> Names {
    let mut replies: Vec<Reply> = calls.into_iter().map(|call| Reply::stream().call(call)).collect();
    replies.push(Reply::says("Done."));
    app.upstream.script(replies);
    told(app, json!({ "message": "Do it" })).await
}

async fn list(app: &TestApp, query: &str) -> Vec<Value> {
    good(app.get(&format!("{ACTIONS}{query}")).await)["data"].as_array().unwrap().clone()
}

fn tools(actions: &[Value]) -> Vec<&str> {
    actions.iter().map(|action| action["tool"].as_str().unwrap()).collect()
}

fn id(action: &Value) -> &str {
    action["id"].as_str().unwrap()
}

async fn undo(app: &TestApp, action: &Value, key: Option<&str>) -> Answer {
    let mut request = app.request(Method::POST, &format!("/v1/actions/{}/undo", id(action)));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    app.send(request).await
}

async fn undo_run(app: &TestApp, names: &Names) -> Answer {
    app.send(app.request(Method::POST, &format!("{}/undo", names.run_path()))).await
}

async fn paths(app: &TestApp) -> Vec<String> {
    let page = good(app.get("/v1/apps/test/files").await);
    page["data"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

/// How long a call took is not for a snapshot to say.
fn timeless(mut actions: Vec<Value>) -> Vec<Value> {
    for action in &mut actions {
        if action["durationMs"].is_number() {
            action["durationMs"] = json!("…");
        }
    }
    actions
}

#[tokio::test]
async fn every_call_of_a_run_is_an_action() {
    let app = start().await;
    let names = run(
        &app,
        [create("a.md"), ScriptedCall::new("echo", r#"{"text":"x"}"#), ScriptedCall::new("echo", "{}")],
    )
    .await;
    let all = list(&app, "").await;
    assert_eq!(tools(&all), ["echo", "echo", "createMarkdownFile"]);
    insta::assert_json_snapshot!("actions_of_a_run", timeless(all.clone()));
    for action in &all {
        assert_eq!(&good(app.get(&format!("/v1/actions/{}", id(action))).await), action);
    }
    let (run, thread) = (format!("?run={}", names.run), format!("?thread={}", names.thread));
    for (query, expected) in [
        (run.as_str(), vec!["echo", "echo", "createMarkdownFile"]),
        (thread.as_str(), vec!["echo", "echo", "createMarkdownFile"]),
        ("?run=run_ffffffffffffffffffffffffffffffff", vec![]),
        ("?tool=createMarkdownFile", vec!["createMarkdownFile"]),
        ("?tool=nothing", vec![]),
        ("?status=failed", vec!["echo"]),
        ("?status=complete&tool=echo", vec!["echo"]),
        ("?effect=reversible", vec!["createMarkdownFile"]),
        ("?undone=true", vec![]),
        ("?undone=false&limit=1", vec!["echo"]),
    ] {
        assert_eq!(tools(&list(&app, query).await), expected, "{query}");
    }
}

#[tokio::test]
async fn a_list_that_means_nothing_is_refused() {
    let app = start().await;
    for wrong in [
        "?run=x",
        "?run=thr_ffffffffffffffffffffffffffffffff",
        "?thread=run_1",
        "?status=done",
        "?effect=bad",
        "?undone=maybe",
        "?cursor=x",
        "?cursor=-1",
        "?limit=1001",
        "?tool=a&tool=b",
    ] {
        refused(app.get(&format!("{ACTIONS}{wrong}")).await, 422, "invalid_request");
    }
    refused(app.get("/v1/apps/nobody/actions").await, 404, "not_found");
    for missing in [MISSING, "act_1", "call_ffffffffffffffffffffffffffffffff"] {
        refused(app.get(&format!("/v1/actions/{missing}")).await, 404, "not_found");
        refused(undo(&app, &json!({ "id": missing }), None).await, 404, "not_found");
    }
}

#[tokio::test]
async fn paging_through_actions_loses_and_doubles_nothing() {
    let app = start().await;
    run(&app, (0..5).map(|n| ScriptedCall::new("echo", &json!({ "text": n.to_string() }).to_string()))).await;
    let whole = list(&app, "").await;
    assert_eq!(whole.len(), 5);
    for limit in [1, 2, 4, 5, 6] {
        let (mut found, mut query) = (Vec::new(), format!("?limit={limit}"));
        for _ in 0..5 {
            let page = good(app.get(&format!("{ACTIONS}{query}")).await);
            found.extend(page["data"].as_array().unwrap().clone());
            let Some(next) = page["next"].as_str() else { break };
            query = format!("?limit={limit}&cursor={next}");
        }
        assert_eq!(found, whole, "pages of {limit}");
    }
}

#[tokio::test]
async fn an_action_is_undone_once() {
    let app = start().await;
    run(&app, [create("a.md"), ScriptedCall::new("echo", r#"{"text":"x"}"#)]).await;
    let all = list(&app, "").await;
    let (read, made) = (&all[0], &all[1]);
    assert_eq!((&made["undoable"], &read["undoable"]), (&json!(true), &json!(false)));
    refused(undo(&app, read, None).await, 409, "cannot_undo");

    let by = good(undo(&app, made, Some("k")).await);
    assert_eq!((&by["tool"], &by["undoOf"]), (&json!("undoAction"), &made["id"]));
    assert_eq!(by["input"], json!({ "actionId": made["id"] }));
    assert_eq!((&by["effect"], &by["undoable"]), (&json!("idempotent"), &json!(false)));
    assert_eq!(paths(&app).await, [""; 0]);
    assert_eq!(good(undo(&app, made, Some("k")).await)["id"], by["id"]);
    refused(undo(&app, read, Some("k")).await, 422, "idempotency_key_reused");
    refused(undo(&app, made, None).await, 409, "cannot_undo");
    refused(undo(&app, &by, None).await, 409, "cannot_undo");

    let now = good(app.get(&format!("/v1/actions/{}", id(made))).await);
    assert_eq!((&now["undone"], &now["undoable"]), (&json!(true), &json!(false)));
    assert_eq!(now["undoneBy"], by["id"]);
    assert_eq!(tools(&list(&app, "?undone=true").await), ["createMarkdownFile"]);
}

#[tokio::test]
async fn what_was_changed_since_is_not_undone() {
    let app = start().await;
    run(&app, [create("a.md")]).await;
    let file = app.request(Method::PUT, "/v1/apps/test/files/a.md").body("mine");
    good(app.send(file).await);
    let made = &list(&app, "").await[0];
    let detail = refused(undo(&app, made, None).await, 409, "cannot_undo");
    assert!(detail.contains("a.md"), "{detail}");
    assert_eq!(paths(&app).await, ["a.md"]);
}

#[tokio::test]
async fn a_run_is_undone_as_a_whole_and_says_what_stays() {
    let app = start().await;
    let section = json!({ "path": "a.md", "heading": "One", "content": "Two.", "mode": "append" });
    let names = run(
        &app,
        [
            create("a.md"),
            create("b.md"),
            create("c.md"),
            ScriptedCall::new("writeMarkdownSection", &section.to_string()),
        ],
    )
    .await;
    let mine = app.request(Method::PUT, "/v1/apps/test/files/b.md").body("mine");
    good(app.send(mine).await);
    let report = good(undo_run(&app, &names).await);
    let undone: Vec<_> = report["undone"].as_array().unwrap().iter().map(|by| by["undoOf"].clone()).collect();
    let all = list(&app, &format!("?run={}", names.run)).await;
    assert_eq!(undone, [all[0]["id"].clone(), all[1]["id"].clone(), all[3]["id"].clone()]);
    assert_eq!(report["refused"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["refused"][0]["actionId"], all[2]["id"]);
    assert_eq!(paths(&app).await, ["b.md"]);
    // Again, nothing more is done and the same is said.
    let before = app.count("SELECT count(*) FROM actions");
    assert_eq!(good(undo_run(&app, &names).await), report);
    assert_eq!(app.count("SELECT count(*) FROM actions"), before);
}

#[tokio::test]
async fn what_cannot_be_undone_is_said_to_stay() {
    let app = start().await;
    app.upstream.script([Reply::stream().call(create("a.md")).call(ScriptedCall::new("risky", "{}"))]);
    let waiting = good(app.post(RUNS, &json!({ "message": "Do it", "stream": false })).await);
    let name = |field: &str| waiting[field].as_str().unwrap().to_owned();
    let names = Names { run: name("runId"), thread: name("threadId") };
    refused(undo_run(&app, &names).await, 409, "run_active");
    app.upstream.script([Reply::says("Done.")]);
    let proposal = waiting["proposals"][0]["id"].as_str().unwrap();
    good(app.post(&format!("/v1/proposals/{proposal}/confirm"), &json!({})).await);
    app.service.idle().await;
    let report = good(undo_run(&app, &names).await);
    assert_eq!(report["undone"].as_array().map(Vec::len), Some(1), "{report}");
    let risky = &list(&app, "?tool=risky").await[0];
    let refusal = json!({ "actionId": risky["id"], "tool": "risky", "reason": "the tool is irreversible, so the action cannot be undone" });
    assert_eq!(report["refused"], json!([refusal]));
    refused(undo(&app, risky, None).await, 409, "cannot_undo");
}

#[tokio::test]
async fn a_run_under_way_is_not_undone() {
    let app = start().await;
    app.upstream.script([
        Reply::stream().call(create("a.md")),
        Reply::stream().call(ScriptedCall::new("gated", "{}")),
    ]);
    let stream = app.stream(RUNS, &json!({ "message": "Do it" })).await;
    let names = Names::of(&stream);
    app.gate.reached().await;
    refused(undo_run(&app, &names).await, 409, "run_active");
    assert_eq!(paths(&app).await, ["a.md"]);
    app.upstream.script([Reply::says("Done.")]);
    app.gate.open();
    stream.all().await;
    assert_eq!(good(undo_run(&app, &names).await)["undone"].as_array().map(Vec::len), Some(1));
    let unknown = Names { run: "run_ffffffffffffffffffffffffffffffff".into(), ..names };
    refused(undo_run(&app, &unknown).await, 404, "not_found");
}

/// An action for another user is answered like one that never was, and stays done.
#[tokio::test]
async fn what_is_not_yours_does_not_exist() {
    let app = start().await;
    let names = run(&app, [create("a.md")]).await;
    let made = list(&app, "").await[0].clone();
    let key = NewKey { user: "bob".into(), app: None, admin: true, ..NewKey::default() };
    let token = app.service.add_key(key, None).await.unwrap().token.unwrap();
    let send =
        async |method: Method, path: &str| app.send(app.request(method, path).bearer_auth(&token)).await;
    for (method, what) in [(Method::GET, ""), (Method::POST, "/undo")] {
        let expected = problem(send(method.clone(), &format!("/v1/actions/{MISSING}{what}")).await);
        assert_eq!(expected["detail"], "there is no such action, or it is not yours");
        assert_eq!(problem(send(method, &format!("/v1/actions/{}{what}", id(&made))).await), expected);
    }
    let missing = problem(send(Method::POST, "/v1/runs/run_ffffffffffffffffffffffffffffffff/undo").await);
    assert_eq!(problem(send(Method::POST, &format!("{}/undo", names.run_path())).await), missing);
    let empty = json!({ "data": [], "next": null });
    assert_eq!(good(send(Method::GET, ACTIONS).await), empty);
    assert_eq!(good(send(Method::GET, &format!("{ACTIONS}?run={}", names.run)).await), empty);
    assert_eq!(app.count("SELECT count(*) FROM files WHERE content IS NOT NULL"), 1);
}

#[tokio::test]
async fn the_ledger_holds_until_somebody_changes_it() {
    let app = start().await;
    run(&app, [create("a.md")]).await;
    good(undo(&app, &list(&app, "").await[0], None).await);
    let report = good(app.get("/v1/admin/ledger").await);
    assert_eq!((&report["scopes"], &report["faults"]), (&json!(1), &json!([])), "{report}");
    assert!(report["entries"].as_u64() >= Some(4), "{report}");
    app.database().execute("UPDATE actions SET tool = 'other' WHERE undo_of IS NULL", []).unwrap();
    app.database().execute("UPDATE ledger_payloads SET payload = '{}' WHERE position = 1", []).unwrap();
    let report = good(app.get("/v1/admin/ledger").await);
    assert_ne!(report["faults"], json!([]), "{report}");
    let token = NewKey { user: "bob".into(), app: None, admin: false, ..NewKey::default() };
    let token = app.service.add_key(token, None).await.unwrap().token.unwrap();
    let request = app.request(Method::GET, "/v1/admin/ledger").bearer_auth(&token);
    refused(app.send(request).await, 403, "admin_only");
}
