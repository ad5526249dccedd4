//! Clients of other APIs are told in their own form that they are at the wrong place.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::{Answer, TestApp};

use crate::support::{refused, rows};

const SENTENCE: &str = "Rondo does not serve this path yet; send the message to POST /v1/apps/{app}/runs, see \
                        /openapi.json";

const OPENAI_ELSEWHERE: &str =
    "OpenAI's API is at another path of this server; set the base URL of your client to {server}/openai/v1";

fn not_found(answer: Answer) -> Value {
    assert_eq!((answer.status, answer.content_type.as_str()), (404, "application/json"), "{answer:?}");
    answer.body
}

#[tokio::test]
async fn a_client_of_openai_reads_a_sentence() {
    let app = TestApp::start().await;
    let expected = json!({ "error": {
        "message": OPENAI_ELSEWHERE, "type": "invalid_request_error", "param": null, "code": "not_found",
    }});
    let body = json!({ "model": "gpt", "messages": [{ "role": "user", "content": "Hi" }] });
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/completions"] {
        assert_eq!(not_found(app.post(path, &body).await), expected, "{path}");
        assert_eq!(not_found(app.get(path).await), expected, "{path}");
    }
    assert!(rows(&app).iter().all(|(_, count)| *count == 0));
}

#[tokio::test]
async fn clients_of_anthropic_and_ollama_read_it_too() {
    let app = TestApp::start().await;
    let body = json!({ "model": "claude", "messages": [] });
    let expected = json!({ "type": "error", "error": { "type": "not_found_error", "message": SENTENCE } });
    assert_eq!(not_found(app.post("/v1/messages", &body).await), expected);
    let expected = json!({ "error": SENTENCE });
    assert_eq!(
        not_found(app.post("/api/generate", &json!({ "model": "x", "prompt": "Hi" })).await),
        expected
    );
    assert_eq!(not_found(app.get("/api/tags").await), expected);
}

#[tokio::test]
async fn ollamas_chat_is_told_whose_endpoint_it_found() {
    let app = TestApp::start().await;
    let body =
        json!({ "model": "llama3", "messages": [{ "role": "user", "content": "Hi" }], "stream": true });
    let detail = refused(app.post("/api/chat", &body).await, 422, "invalid_request");
    assert!(detail.starts_with("id: missing field `id`; this is the endpoint of the AI SDK"), "{detail}");
    assert!(detail.contains("POST /v1/apps/{app}/runs") && detail.ends_with("/openapi.json"), "{detail}");
    let wrong = json!({ "id": 5, "messages": [] });
    let detail = refused(app.post("/api/chat", &wrong).await, 422, "invalid_request");
    assert!(!detail.contains("Ollama"), "{detail}");
    assert!(rows(&app).iter().all(|(_, count)| *count == 0));
}

#[tokio::test]
async fn a_lost_client_reads_a_problem() {
    let app = TestApp::start().await;
    for path in ["/v1/messages/none", "/api/none", "/openai", "/v1/chat"] {
        let answer = app.send(app.request(Method::GET, path)).await;
        assert_eq!(
            refused(answer, 404, "not_found"),
            "there is nothing at this path; /openapi.json lists all paths",
            "{path}"
        );
    }
    let description = app.get("/openapi.json").await.body;
    let paths = description["paths"].as_object().unwrap();
    for path in ["/", "/favicon.ico", "/mcp", "/control/keys", "/v1/chat/completions", "/v1/messages"] {
        assert!(!paths.contains_key(path), "{path} is described");
    }
}
