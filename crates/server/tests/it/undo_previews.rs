//! Previews of an undo, and the undo that then does as they say.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp};

use crate::support::{Names, RUNS, good, refused, send_as, token, told};

const PARTS: &str = "/v1/apps/test/records/part";
const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    "additionalProperties": false}"#;
const APP: &str = r#"
tools = ["markdown", "memory", "undo", "echo"]

[tool.addPart]
description = "Adds a part."
record = "part"
does = "create"
policy = "allow"
"#;

async fn start() -> TestApp {
    let files = vec![("records/part.json".to_owned(), SCHEMA.to_owned())];
    TestApp::with(Setup { files, ..Setup::app(APP) }).await
}

fn call(tool: &str, input: &Value) -> ScriptedCall {
    ScriptedCall::new(tool, &input.to_string())
}

fn write(content: &str) -> ScriptedCall {
    call("createMarkdownFile", &json!({ "path": "a.md", "content": content }))
}

/// Puts another section below the text of the file.
fn add_section() -> ScriptedCall {
    call(
        "writeMarkdownSection",
        &json!({ "path": "a.md", "heading": "## More", "content": "two", "mode": "replace" }),
    )
}

/// A run that makes these calls, one after the other, and ends.
async fn run(app: &TestApp, calls: impl IntoIterator<Item = ScriptedCall>) -> Names {
    let mut replies: Vec<Reply> = calls.into_iter().map(|call| Reply::stream().call(call)).collect();
    replies.push(Reply::says("Done."));
    app.upstream.script(replies);
    told(app, json!({ "message": "Do it" })).await
}

/// The actions of a run, newest first.
async fn actions(app: &TestApp, names: &Names) -> Vec<Value> {
    good(app.get(&format!("/v1/apps/test/actions?run={}", names.run)).await)["data"]
        .as_array()
        .unwrap()
        .clone()
}

fn undo_path(action: &Value) -> String {
    format!("/v1/actions/{}/undo", action["id"].as_str().unwrap())
}

async fn preview(app: &TestApp, action: &Value) -> Value {
    good(app.get(&undo_path(action)).await)
}

async fn undo(app: &TestApp, path: &str) -> Answer {
    app.send(app.request(Method::POST, path)).await
}

async fn content(app: &TestApp) -> Value {
    let request = app.request(Method::GET, "/v1/apps/test/files/a.md").header("accept", "application/json");
    app.send(request).await.body["content"].clone()
}

/// Undoes what was previewed, and compares.
async fn undo_as_previewed(app: &TestApp, action: &Value) -> Value {
    let preview = preview(app, action).await;
    assert_eq!((&preview["actionId"], &preview["tool"]), (&action["id"], &action["tool"]));
    let answer = undo(app, &undo_path(action)).await;
    if preview["possible"] == true {
        assert_eq!(preview.get("reason"), None);
        good(answer);
    } else {
        assert_eq!(preview["changes"], json!([]));
        assert_eq!(preview["reason"], refused(answer, 409, "cannot_undo"));
    }
    preview
}

#[tokio::test]
async fn a_preview_says_what_the_undo_then_does() {
    let app = start().await;
    let names = run(
        &app,
        [
            write("one"),
            add_section(),
            call("addPart", &json!({ "name": "bolt" })),
            call("save_memory", &json!({ "text": "Likes tea." })),
            call("echo", &json!({ "text": "x" })),
        ],
    )
    .await;
    let all = actions(&app, &names).await;
    let tools: Vec<&str> = all.iter().map(|action| action["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["echo", "save_memory", "addPart", "writeMarkdownSection", "createMarkdownFile"]);
    assert!(all.iter().all(|action| action["status"] == "complete"), "{all:?}");
    let both = content(&app).await;
    assert!(both.as_str().unwrap().contains("## More"), "{both}");

    // A call that only reads has nothing to undo.
    assert_eq!(undo_as_previewed(&app, &all[0]).await["possible"], false);
    let memory = undo_as_previewed(&app, &all[1]).await;
    let change = &memory["changes"][0];
    assert_eq!((&change["kind"], &change["after"]), (&json!("memory"), &Value::Null));
    assert_eq!(change["before"]["text"], "Likes tea.");
    assert_eq!(good(app.get("/v1/apps/test/memories").await)["data"], json!([]));

    let part = undo_as_previewed(&app, &all[2]).await;
    let change = &part["changes"][0];
    assert_eq!((&change["kind"], &change["label"]), (&json!("record"), &json!("part")));
    assert_eq!((&change["before"], &change["after"]), (&json!({ "name": "bolt" }), &Value::Null));
    assert_eq!(good(app.get(PARTS).await)["data"], json!([]));

    // The older change of the file stands below the newer one.
    let blocked = undo_as_previewed(&app, &all[4]).await;
    assert_eq!(blocked["possible"], false);
    assert!(blocked["reason"].as_str().unwrap().contains("was changed since then"), "{blocked}");
    let newer = undo_as_previewed(&app, &all[3]).await;
    let change = json!({ "kind": "file", "id": "a.md", "before": both, "after": "one" });
    assert_eq!(newer["changes"], json!([change]));
    assert_eq!(content(&app).await, "one");
    let older = undo_as_previewed(&app, &all[4]).await;
    assert_eq!(older["changes"], json!([{ "kind": "file", "id": "a.md", "before": "one", "after": null }]));
    assert_eq!(content(&app).await, Value::Null);
    // Nothing is undone twice.
    assert_eq!(undo_as_previewed(&app, &all[4]).await["reason"], "the action was undone already");
}

#[tokio::test]
async fn a_preview_of_a_run_takes_its_actions_together() {
    let app = start().await;
    let names = run(
        &app,
        [
            write("one"),
            add_section(),
            call("echo", &json!({ "text": "x" })),
            call("addPart", &json!({ "name": "bolt" })),
        ],
    )
    .await;
    let path = format!("{}/undo", names.run_path());
    let preview = good(app.get(&path).await);
    assert_eq!((&preview["possible"], preview.get("reason")), (&json!(true), None));
    let tools: Vec<&Value> =
        preview["actions"].as_array().unwrap().iter().map(|action| &action["tool"]).collect();
    assert_eq!(
        tools,
        ["addPart", "writeMarkdownSection", "createMarkdownFile"],
        "what only reads is left out"
    );
    assert!(
        preview["actions"].as_array().unwrap().iter().all(|action| action["possible"] == true),
        "{preview}"
    );
    let change = |action: usize| &preview["actions"][action]["changes"][0];
    let both = content(&app).await;
    assert_eq!((&change(1)["before"], &change(1)["after"]), (&both, &json!("one")));
    assert_eq!((&change(2)["before"], &change(2)["after"]), (&json!("one"), &Value::Null));
    assert!(both.as_str().unwrap().contains("two"), "a preview changes nothing");

    let report = good(undo(&app, &path).await);
    assert_eq!(report["undone"].as_array().map(Vec::len), Some(3), "{report}");
    let after = good(app.get(&path).await);
    assert_eq!(after["possible"], false);
    for action in after["actions"].as_array().unwrap() {
        assert_eq!(action["reason"], "the action was undone already");
    }
}

#[tokio::test]
async fn what_was_changed_by_hand_since_is_said() {
    let app = start().await;
    let names = run(&app, [write("one")]).await;
    let request = app.request(Method::PUT, "/v1/apps/test/files/a.md").body("mine");
    good(app.send(request.header("content-type", "text/markdown")).await);
    let preview = undo_as_previewed(&app, &actions(&app, &names).await[0]).await;
    assert!(preview["reason"].as_str().unwrap().contains("by hand"), "{preview}");
    let of_run = good(app.get(&format!("{}/undo", names.run_path())).await);
    assert_eq!((&of_run["possible"], &of_run["actions"][0]["reason"]), (&json!(false), &preview["reason"]));
}

#[tokio::test]
async fn a_preview_waits_for_the_end_of_the_run_and_is_nobody_elses() {
    let app = start().await;
    let gate = Gate::new();
    app.upstream
        .script([Reply::stream().call(write("one")), Reply::stream().text("Do").wait(&gate).text("ne.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    stream.read_until("text:delta").await;
    let names = Names::of(&stream);
    let path = format!("{}/undo", names.run_path());
    let preview = good(app.get(&path).await);
    assert_eq!((&preview["possible"], &preview["actions"]), (&json!(false), &json!([])));
    assert!(preview["reason"].as_str().unwrap().contains("has not ended"));
    gate.open();
    stream.read_until("run:end").await;
    let action = actions(&app, &names).await.remove(0);
    refused(app.get("/v1/actions/act_ffffffffffffffffffffffffffffffff/undo").await, 404, "not_found");
    let eve = token(&app, "eve").await;
    for path in [path, undo_path(&action)] {
        refused(send_as(&app, &eve, Method::GET, (&path, &Value::Null)).await, 404, "not_found");
    }
}
