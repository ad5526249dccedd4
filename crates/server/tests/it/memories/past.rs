//! Why something is known: the versions of a memory and the words it rests on.

use serde_json::{Value, json};
use testkit::{Setup, TestApp};

use super::{MEMORIES, add, path};
use crate::support::{delete, good, patch, say};

const REMEMBERING: &str = "tools = []\n[memory]\nremember = true\n";

async fn history(app: &TestApp, memory: &Value) -> Value {
    good(app.get(&format!("{}/history", path(memory))).await)
}

/// Returns the memory that a conversation has left, and the names of that conversation.
async fn asked_for() -> (TestApp, crate::support::Names, Value) {
    let app = TestApp::with(Setup::app(REMEMBERING)).await;
    let names = say(&app, "Remember that my cat is called Miso.").await;
    let memory = good(app.get(MEMORIES).await)["data"][0].clone();
    assert!(memory.is_object(), "something is remembered");
    (app, names, memory)
}

#[tokio::test]
async fn every_change_is_a_version_with_its_reason() {
    let app = TestApp::start().await;
    let made = add(&app, "Lives in Oslo.").await;
    good(patch(&app, &path(&made), &json!({ "text": "Lives in Bergen.", "kind": "place" })).await);
    delete(&app, &path(&made)).await;
    delete(&app, &path(&made)).await;
    let restored = good(app.post(&format!("{}/restore", path(&made)), &json!({})).await);
    good(app.post(&format!("{}/restore", path(&made)), &json!({})).await);
    let history = history(&app, &made).await;
    assert_eq!(history["memory"], restored);
    assert_eq!(history["sources"], json!([]));
    insta::assert_json_snapshot!("the_versions_of_a_memory", history["versions"]);
}

#[tokio::test]
async fn what_was_asked_for_names_its_words_and_where_they_were_said() {
    let (app, names, memory) = asked_for().await;
    assert_eq!(memory["source"]["by"], "asked");
    assert_eq!(memory["source"]["threadId"], json!(names.thread));
    assert!(memory["source"]["messageId"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(memory["source"].get("note"), None);
    let words = memory["source"]["words"].as_str().unwrap();
    assert!(words.contains("Miso"), "{words}");
    let mut source = memory["source"].clone();
    source.as_object_mut().unwrap().remove("by");
    assert_eq!(history(&app, &memory).await["sources"], json!([source]));
}

#[tokio::test]
async fn a_forgotten_memory_can_still_be_read_but_the_words_it_rests_on_cannot() {
    let (app, _, memory) = asked_for().await;
    delete(&app, &path(&memory)).await;
    let forgotten = history(&app, &memory).await;
    assert_eq!(forgotten["memory"]["text"], memory["text"]);
    assert_eq!(forgotten["memory"]["source"]["words"], Value::Null);
    assert_eq!(forgotten["sources"][0]["words"], Value::Null);
    assert_eq!(forgotten["sources"][0]["threadId"], memory["source"]["threadId"]);
    assert_eq!(forgotten["versions"][0]["text"], memory["text"]);
    good(app.post(&format!("{}/restore", path(&memory)), &json!({})).await);
    assert_eq!(history(&app, &memory).await["memory"]["source"], memory["source"]);
}

#[tokio::test]
async fn a_memory_outlives_the_conversation_it_comes_from() {
    let (app, names, memory) = asked_for().await;
    assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
    app.service.idle().await;
    let expected = json!({
        "threadId": null,
        "messageId": null,
        "words": null,
        "at": memory["source"]["at"],
        "note": "deleted conversation",
    });
    let history = history(&app, &memory).await;
    assert_eq!(history["sources"], json!([expected]));
    let mut source = history["memory"]["source"].clone();
    assert_eq!(source.as_object_mut().unwrap().remove("by"), Some(json!("asked")));
    assert_eq!((source, &history["memory"]["status"]), (expected, &json!("active")));
}
