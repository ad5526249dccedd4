//! Earlier versions of records and files: kept within bounds, and gone with what they are of.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp, audit};

use crate::support::{delete, good, patch, refused, told};

const PARTS: &str = "/v1/apps/test/records/part";
const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    "additionalProperties": false}"#;

const APP: &str = r#"
tools = ["markdown", "undo"]

[tool.removePart]
description = "Removes a part."
record = "part"
does = "delete"
policy = "allow"
"#;

async fn start() -> TestApp {
    let files = vec![("records/part.json".to_owned(), SCHEMA.to_owned())];
    TestApp::with(Setup { files, ..Setup::app(APP) }).await
}

async fn put(app: &TestApp, path: &str, content: &str) {
    let request = app.request(Method::PUT, &format!("/v1/apps/test/files/{path}")).body(content.to_owned());
    good(app.send(request.header("content-type", "text/markdown")).await);
}

async fn versions(app: &TestApp, path: &str) -> Vec<Value> {
    let page = good(app.get(path).await);
    assert_eq!(page["next"], Value::Null);
    page["data"].as_array().unwrap().clone()
}

fn of_file(path: &str) -> String {
    format!("/v1/apps/test/file-versions/{path}")
}

/// The number and the content of each.
fn contents<'v>(versions: &'v [Value], field: &str) -> Vec<(u64, &'v Value)> {
    versions.iter().map(|version| (version["version"].as_u64().unwrap(), &version[field])).collect()
}

/// A run that makes one call, and the action of it.
async fn call(app: &TestApp, tool: &str, input: Value) -> Value {
    app.upstream
        .script([Reply::stream().call(ScriptedCall::new(tool, &input.to_string())), Reply::says("Done.")]);
    let names = told(app, json!({ "message": "Do it" })).await;
    good(app.get(&format!("/v1/apps/test/actions?run={}", names.run)).await)["data"][0].clone()
}

#[tokio::test]
async fn a_record_shows_what_it_was() {
    let app = start().await;
    let record = good(app.post(PARTS, &json!({ "name": "one" })).await);
    let path = format!("{PARTS}/{}", record["id"].as_str().unwrap());
    let history = format!("{path}/versions");
    let first = json!({ "version": 1, "data": { "name": "one" }, "deleted": false, "updatedAt": "2026-03-01T12:00:00Z" });
    assert_eq!(versions(&app, &history).await, std::slice::from_ref(&first));
    good(patch(&app, &path, &json!({ "name": "two" })).await);
    let shown = versions(&app, &history).await;
    assert_eq!(contents(&shown, "data"), [(2, &json!({ "name": "two" })), (1, &json!({ "name": "one" }))]);
    assert_eq!(shown[1], first);
    assert_eq!(delete(&app, &path).await.status, 204);
    refused(app.get(&history).await, 404, "not_found");
    assert_eq!(app.count("SELECT count(*) FROM thing_versions"), 0, "nothing of it is left");
    refused(
        app.get(&format!("{PARTS}/rec_ffffffffffffffffffffffffffffffff/versions")).await,
        404,
        "not_found",
    );
    refused(app.get(&history.replace("/part/", "/nothing/")).await, 404, "not_found");
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn a_version_says_which_action_made_it() {
    let app = start().await;
    let made = call(&app, "createMarkdownFile", json!({ "path": "a.md", "content": "one" })).await;
    put(&app, "a.md", "two").await;
    let shown = versions(&app, &of_file("a.md")).await;
    assert_eq!(contents(&shown, "content"), [(2, &json!("two")), (1, &json!("one"))]);
    assert_eq!((shown[0].get("actionId"), &shown[1]["actionId"]), (None, &made["id"]));
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn what_a_tool_deleted_is_shown_until_its_time_is_over() {
    let app = start().await;
    let record = good(app.post(PARTS, &json!({ "name": "one" })).await);
    let (id, path) = (&record["id"], format!("{PARTS}/{}", record["id"].as_str().unwrap()));
    let history = format!("{path}/versions");
    good(patch(&app, &path, &json!({ "name": "two" })).await);
    let (one, two) = (json!({ "name": "one" }), json!({ "name": "two" }));
    let deleted = call(&app, "removePart", json!({ "id": id })).await;
    assert_eq!(deleted["status"], "complete", "{deleted}");
    let shown = versions(&app, &history).await;
    assert_eq!(contents(&shown, "data"), [(3, &Value::Null), (2, &two), (1, &one)]);
    assert_eq!((&shown[0]["deleted"], &shown[0]["actionId"]), (&json!(true), &deleted["id"]));
    // An undo is a version of its own.
    let undo = format!("/v1/actions/{}/undo", deleted["id"].as_str().unwrap());
    let undone = good(app.send(app.request(Method::POST, &undo)).await);
    let shown = versions(&app, &history).await;
    assert_eq!((shown.len(), &shown[0]["data"], &shown[0]["actionId"]), (4, &two, &undone["id"]));
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn so_many_versions_are_kept_and_no_more_bytes_than_that() {
    let app = start().await;
    for number in 0..60 {
        put(&app, "a.md", &format!("version {number}")).await;
    }
    let shown = versions(&app, &of_file("a.md")).await;
    assert_eq!(shown.len(), 51, "the present one and fifty before it");
    assert_eq!((&shown[0]["content"], &shown[50]["content"]), (&json!("version 59"), &json!("version 9")));
    let large = "x".repeat(200 * 1024);
    for _ in 0..5 {
        put(&app, "large.md", &large).await;
    }
    assert_eq!(versions(&app, &of_file("large.md")).await.len(), 3, "two of them have less than 512 KiB");
    refused(app.get(&of_file("b.md")).await, 404, "not_found");
    refused(app.get(&of_file("b.txt")).await, 422, "invalid_request");
    assert_eq!(delete(&app, "/v1/apps/test/files/a.md").await.status, 204);
    refused(app.get(&of_file("a.md")).await, 404, "not_found");
    assert_eq!(app.count("SELECT count(*) FROM thing_versions WHERE thing = 'file:a.md'"), 0);
}
