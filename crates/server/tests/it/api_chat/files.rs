//! Files in the messages of a chat: images and documents.

use serde_json::{Value, json};
use testkit::pictures::{data_url, png};
use testkit::upstream::Reply;
use testkit::{Setup, TestApp};

use super::{CHAT, body, sent};
use crate::support::{prompt, refused};

/// With a model that sees images.
async fn seeing() -> TestApp {
    let mut setup = Setup::default();
    setup.capabilities.vision = true;
    let app = TestApp::with(setup).await;
    app.upstream.program(|_| Reply::says("A cat."));
    app
}

fn file(media_type: &str, url: &str, name: &str) -> Value {
    json!({ "type": "file", "mediaType": media_type, "url": url, "filename": name })
}

#[tokio::test]
async fn files_of_the_last_message_are_its_parts() {
    let app = seeing().await;
    let picture = file("image/png", &data_url("image/png", &png(30, 20)), "cat.png");
    let first =
        json!({ "id": "m1", "role": "user", "parts": [picture, { "type": "text", "text": "What is it?" }] });
    let answered = sent(&app, &body("chat-1", std::slice::from_ref(&first))).await;
    let content =
        app.upstream.requests()[0].body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert!(
        content[0]["image_url"]["url"].as_str().unwrap().starts_with("data:image/jpeg;base64,"),
        "{content}"
    );
    assert_eq!(content[1]["text"], "What is it?");
    let messages = app.get(&format!("/v1/threads/{}/messages", answered.thread)).await.body;
    let part = messages["data"][0]["parts"][0].clone();
    assert_eq!((&part["name"], &part["type"]), (&json!("cat.png"), &json!("image")));

    // The client sends everything again; only the last message counts. Its image is one that was uploaded before.
    let answer =
        json!({ "id": answered.run, "role": "assistant", "parts": [{ "type": "text", "text": "A cat." }] });
    for address in [
        format!("/v1/images/{}", part["imageId"].as_str().unwrap()),
        format!("{}/v1/images/{}", app.url, part["imageId"].as_str().unwrap()),
    ] {
        let again = json!({ "id": "m2", "role": "user", "parts": [file("image/jpeg", &address, "cat.png")] });
        let answered = sent(&app, &body("chat-1", &[first.clone(), answer.clone(), again])).await;
        let messages = app.get(&format!("/v1/threads/{}/messages", answered.thread)).await.body;
        let last = messages["data"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .find(|message| message["role"] == "user")
            .unwrap()
            .clone();
        assert_eq!((&last["parts"], &last["text"]), (&json!([part]), &json!("")));
    }
    assert_eq!(app.count("SELECT count(*) FROM images"), 1);
}

#[tokio::test]
async fn a_file_that_is_no_image_is_a_document() {
    let app = seeing().await;
    let notes =
        file("text/markdown", &data_url("text/markdown", b"# Pump\n\nTwelve newton metres.\n"), "notes.md");
    let message = json!({ "id": "m1", "role": "user", "parts": [notes, { "type": "text", "text": "How many newton metres?" }] });
    sent(&app, &body("chat-1", &[message])).await;
    let said = prompt(&app, 0).pop().unwrap();
    assert!(said.contains("Twelve newton metres") && said.contains("[document: notes.md, doc_"), "{said}");
}

#[tokio::test]
async fn files_from_elsewhere_are_refused() {
    let app = seeing().await;
    let other = "img_00000000000070008000000000000bad";
    for (file, status, code) in [
        (file("image/png", "https://example.com/cat.png", "cat.png"), 422, "invalid_request"),
        (
            file("image/png", &format!("https://example.com/v1/images/{other}"), "cat.png"),
            422,
            "invalid_request",
        ),
        (file("image/png", "file:///etc/passwd", "cat.png"), 422, "invalid_request"),
        (file("image/png", &format!("/v1/images/{other}"), "cat.png"), 404, "not_found"),
        (file("application/pdf", "https://example.com/a.pdf", "a.pdf"), 422, "invalid_request"),
        (json!({ "type": "file", "mediaType": "image/png" }), 422, "invalid_request"),
        (file("image/png", &data_url("image/svg+xml", b"<svg/>"), "a.svg"), 415, "image_unsupported"),
    ] {
        let message =
            json!({ "id": "m1", "role": "user", "parts": [file, { "type": "text", "text": "Look" }] });
        refused(app.post(CHAT, &body("chat-1", &[message])).await, status, code);
    }
    assert_eq!(app.count("SELECT count(*) FROM threads"), 0);
}
