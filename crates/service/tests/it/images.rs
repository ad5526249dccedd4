//! Images of messages in the form of each provider's own API.

use model::{AnthropicVersion, ProviderWire};
use serde_json::{Value, json};
use testkit::pictures::{data_url, png};
use testkit::upstream::{Reply, complaint, complaint_at};
use testkit::{Setup, TestApp};

const RUNS: &str = "/v1/apps/test/runs";

/// The first message of the user in request `index`, as the provider got it.
fn said(app: &TestApp, index: usize) -> Value {
    let body = &app.upstream.requests()[index].body;
    let messages = body["messages"].as_array().or(body["input"].as_array()).unwrap();
    messages.iter().find(|message| message["role"] == "user").unwrap().clone()
}

#[tokio::test]
async fn every_provider_gets_images_in_its_own_form() {
    let wires = [
        ProviderWire::Chat,
        ProviderWire::Responses,
        ProviderWire::Anthropic(AnthropicVersion::V2023),
        ProviderWire::Ollama,
    ];
    for wire in wires {
        let mut setup = Setup { wire, ..Setup::default() };
        setup.capabilities.vision = true;
        let app = TestApp::with(setup).await;
        app.upstream.program(|_| Reply::says("A cat."));
        let part = json!({ "type": "image", "url": data_url("image/png", &png(40, 20)) });
        let body = json!({ "message": "What is it?", "parts": [part], "stream": false });
        let result = app.post(RUNS, &body).await.body;
        assert_eq!(result["status"], "completed", "{wire:?}: {result}");
        let body = json!({ "message": "Sure?", "threadId": result["threadId"], "stream": false });
        assert_eq!(app.post(RUNS, &body).await.body["status"], "completed");
        assert_eq!(app.upstream.violations(), Vec::<String>::new(), "{wire:?}");
        for index in [0, 1] {
            let message = &said(&app, index);
            let content = &message["content"];
            let data = match wire {
                ProviderWire::Chat => content[0]["image_url"]["url"].clone(),
                ProviderWire::Responses => {
                    assert_eq!(content[0]["type"], "input_image");
                    assert_eq!(content[1], json!({ "type": "input_text", "text": "What is it?" }));
                    content[0]["image_url"].clone()
                }
                ProviderWire::Anthropic(_) => {
                    let source = &content[0]["source"];
                    assert_eq!(
                        (&source["type"], &source["media_type"]),
                        (&json!("base64"), &json!("image/jpeg"))
                    );
                    source["data"].clone()
                }
                ProviderWire::Ollama => {
                    assert_eq!(content, "What is it?");
                    message["images"][0].clone()
                }
            };
            assert!(data.as_str().unwrap().contains("/9j/"), "{wire:?}: {message}");
        }
    }
}

#[test]
fn scripted_providers_refuse_images_of_a_wrong_form() {
    let url = data_url("image/png", &png(4, 4));
    let data = url.rsplit_once(',').unwrap().1;
    let chat = |part: Value| json!({ "model": "m", "messages": [{ "role": "user", "content": [part] }] });
    assert_eq!(complaint(chat(json!({ "type": "image_url", "image_url": { "url": url } }))), None);
    for part in [
        json!({ "type": "image_url", "image_url": url }),
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } }),
        json!({ "type": "image_url", "image_url": { "url": data } }),
        json!({ "type": "image_url", "image_url": { "url": url.replace("png", "jpeg") } }),
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }),
    ] {
        assert!(complaint(chat(part.clone())).is_some(), "{part}");
    }
    let ollama = |images: Value| {
        let message = json!({ "role": "user", "content": "hi", "images": images });
        complaint_at("/api/chat", &[], json!({ "model": "m", "messages": [message] }))
    };
    assert_eq!(ollama(json!([data])), None);
    assert!(ollama(json!([url])).is_some(), "no data URL");
    let responses = |part: Value| {
        let input = json!([{ "role": "user", "content": [part] }]);
        complaint_at("/v1/responses", &[], json!({ "model": "m", "input": input }))
    };
    assert_eq!(responses(json!({ "type": "input_image", "image_url": url })), None);
    assert!(responses(json!({ "type": "input_image", "image_url": { "url": url } })).is_some());
    assert!(responses(json!({ "type": "image_url", "image_url": { "url": url } })).is_some());
}
