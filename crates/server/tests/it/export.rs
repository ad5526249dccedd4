//! A thread as a file.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use crate::support::{Names, good, patch, refused, repeating, say, say_in, told};

struct ExportedFile {
    kind: String,
    disposition: String,
    text: String,
}

async fn export(app: &TestApp, names: &Names, format: &str) -> ExportedFile {
    let path = format!("{}/export{format}", names.thread_path());
    let response = app.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("x-content-type-options"), "nosniff");
    let (kind, disposition) = (header("content-type"), header("content-disposition"));
    ExportedFile { kind, disposition, text: response.text().await.unwrap() }
}

/// A thread whose first answer called a tool, and that has two branches.
async fn branched() -> (TestApp, Names) {
    let app = TestApp::with(Setup::app("tools = [\"echo\"]")).await;
    app.upstream.script([
        Reply::stream().reasoning("Hm.").call(ScriptedCall::new("echo", r#"{"text":"one\ntwo"}"#)),
        Reply::says("# Done\n\nAs you see."),
        Reply::says("Later."),
        Reply::says("Other."),
    ]);
    let names = say(&app, "Use your tool").await;
    say_in(&app, &names.thread, "And then?").await;
    let page = good(app.get(&names.messages_path()).await);
    let body = json!({ "message": "Or else?", "threadId": names.thread, "parentId": page["data"][1]["id"] });
    told(&app, body).await;
    (app, names)
}

#[tokio::test]
async fn markdown_has_the_branch_that_is_shown() {
    let (app, names) = branched().await;
    good(patch(&app, &names.thread_path(), &json!({ "title": "First \"steps\"; a=\"b" })).await);
    let file = export(&app, &names, "?format=markdown").await;
    assert_eq!(file.kind, "text/markdown; charset=utf-8");
    assert_eq!(file.disposition, "attachment; filename=\"first-steps-a-b.md\"");
    assert!(!file.text.contains("And then?"), "the other branch is left out");
    insta::assert_snapshot!(file.text);
}

#[tokio::test]
async fn json_has_all_that_was_said() {
    let (app, names) = branched().await;
    let file = export(&app, &names, "").await;
    assert_eq!((file.kind.as_str(), file.disposition.contains(".json")), ("application/json", true));
    let whole: Value = serde_json::from_str(&file.text).unwrap();
    assert_eq!(whole["thread"], good(app.get(&names.thread_path()).await));
    let messages = whole["messages"].as_array().unwrap();
    let texts: Vec<&str> = messages.iter().map(|message| message["text"].as_str().unwrap()).collect();
    let done = "# Done\n\nAs you see.";
    assert_eq!(texts, ["Use your tool", done, "And then?", "Later.", "Or else?", "Other."]);
    assert_eq!(messages[1]["toolCalls"][0]["name"], "echo");
    assert_eq!(messages[1]["toolResults"][0]["status"], "complete");
    assert_eq!(messages[1]["reasoning"], "Hm.");
    assert!(messages[1]["usage"].is_object());
    assert_eq!(messages[4]["parentId"], messages[1]["id"]);
}

#[tokio::test]
async fn a_long_thread_comes_in_parts_and_whole() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let names = say(&app, "0").await;
    for number in 1..60 {
        say_in(&app, &names.thread, &number.to_string()).await;
    }
    let whole: Value = serde_json::from_str(&export(&app, &names, "?format=json").await.text).unwrap();
    assert_eq!(whole["messages"].as_array().unwrap().len(), 120);
    let text = export(&app, &names, "?format=markdown").await.text;
    assert_eq!(text.matches("\n## User, ").count(), 60);
    assert!(text.contains("Re: 59"));
}

#[tokio::test]
async fn an_empty_thread_is_a_file_and_a_strange_format_is_not() {
    let app = TestApp::start().await;
    let thread = crate::support::thread(&app).await;
    let names = Names { run: String::new(), thread };
    let file = export(&app, &names, "").await;
    let whole: Value = serde_json::from_str(&file.text).unwrap();
    assert_eq!(whole["messages"], json!([]));
    assert_eq!(file.disposition, "attachment; filename=\"conversation.json\"");
    assert!(export(&app, &names, "?format=markdown").await.text.starts_with("# Conversation\n"));
    refused(app.get(&format!("{}/export?format=pdf", names.thread_path())).await, 422, "invalid_request");
    refused(app.get("/v1/threads/thr_ffffffffffffffffffffffffffffffff/export").await, 404, "not_found");
}
