//! Vectors of texts over OpenAI's embeddings.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::{Answer, Setup, TestApp, WordVectors};

use super::error;

const PATH: &str = "/openai/v1/embeddings";

async fn start() -> TestApp {
    TestApp::with(Setup { embedder: Some(Arc::new(WordVectors("words"))), ..Setup::default() }).await
}

async fn embed(app: &TestApp, fields: &Value) -> Answer {
    app.post(PATH, &super::with(json!({ "model": "words" }), fields)).await
}

#[tokio::test]
async fn texts_become_vectors_in_both_encodings() {
    let app = start().await;
    let fields = json!({ "input": ["one word", "two"], "user": 5, "dimensions": 64 });
    let floats = embed(&app, &fields).await;
    assert_eq!(floats.status, 200, "{floats:?}");
    assert_eq!((&floats.body["object"], &floats.body["model"]), (&json!("list"), &json!("words")));
    let tokens = floats.body["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens > 0 && floats.body["usage"]["total_tokens"] == tokens);
    let encoded = embed(&app, &super::with(fields, &json!({ "encoding_format": "base64" }))).await;
    for index in [0, 1] {
        let (list, text) = (&floats.body["data"][index], &encoded.body["data"][index]);
        for item in [list, text] {
            assert_eq!((&item["object"], &item["index"]), (&json!("embedding"), &json!(index)));
        }
        let bytes = STANDARD.decode(text["embedding"].as_str().unwrap()).unwrap();
        let numbers: Vec<f32> =
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        let expected: Vec<f32> = serde_json::from_value(list["embedding"].clone()).unwrap();
        assert_eq!((numbers.len(), numbers), (64, expected));
    }
    let by_app = app.post(PATH, &json!({ "model": "test", "input": "one word" })).await;
    assert_eq!(by_app.body["data"][0], floats.body["data"][0]);
    let listed = app.get("/openai/v1/models/words").await;
    assert_eq!(listed.body["id"], "words");
}

#[tokio::test]
async fn what_cannot_be_embedded_is_refused() {
    let app = start().await;
    for (fields, param) in [
        (json!({ "input": [[1, 2]] }), "input[0]"),
        (json!({ "input": [1, 2] }), "input[0]"),
        (json!({ "input": ["a", null] }), "input[1]"),
        (json!({ "input": {} }), "input"),
        (json!({ "input": 5 }), "input"),
        (json!({ "input": "" }), "input"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": vec!["a"; 2_049] }), "input"),
        (json!({}), "input"),
        (json!({ "input": "a", "encoding_format": "int8" }), "encoding_format"),
        (json!({ "input": "a", "encoding_format": 5 }), "encoding_format"),
        (json!({ "input": "a", "dimensions": 3 }), "dimensions"),
        (json!({ "input": "a", "model": 5 }), "model"),
    ] {
        let refused = error(embed(&app, &fields).await, 400, "invalid_request");
        assert_eq!((&refused["param"], &refused["type"]), (&json!(param), &json!("invalid_request_error")));
    }
    error(embed(&app, &json!({ "input": "x".repeat(1024 * 1024 + 1) })).await, 413, "too_large");
    error(embed(&app, &json!({ "input": "a", "model": "ada" })).await, 404, "model_not_found");
    let without = TestApp::start().await;
    error(without.post(PATH, &json!({ "model": "test", "input": "a" })).await, 404, "model_not_found");
}
