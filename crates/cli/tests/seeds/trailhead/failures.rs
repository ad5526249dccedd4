//! When the model fails, another one answers, or the answer is a fixed text; and the operator can see it.

use serde_json::json;

use super::*;
use crate::product::status;

fn refused() -> Reply {
    Reply::status(401).error("invalid_api_key", None, "no")
}

/// The product as its file shows it, with the model and the fallbacks that are only suggested there.
async fn with_suggested_models() -> Product {
    let product = Product::new(APP).await;
    let file = product.world.path("apps").join(APP).join("app.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("# model =", "model =").replace("# fallbacks =", "fallbacks ="))
        .unwrap();
    let url = product.upstream().base_url();
    product.env("OPENROUTER_API_KEY", "key").env("OPENROUTER_BASE_URL", &url)
}

#[tokio::test]
async fn the_app_names_its_model_and_simpler_ones_stand_in() {
    let product = with_suggested_models().await;
    let server = product.serve().await;
    plays(&product, |_, body| match body["model"].as_str().unwrap() {
        "gpt-6-luna" => Reply::says("I am here."),
        _ => refused(),
    });
    let frames = product.say(&server, "Hi").await;
    assert_eq!((status(&frames), reply(&frames)), ("completed", "I am here."));
    let models: Vec<String> =
        asked(&product).iter().map(|body| body["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(models, ["anthropic/claude-sonnet-5.5", "gpt-6.1-sol", "gpt-6-luna"]);
}

#[tokio::test]
async fn without_any_model_the_user_still_gets_an_answer() {
    let (product, server) = empty().await;
    plays(&product, |_, _| refused());
    let frames = product.say(&server, "Hi").await;
    assert_eq!(status(&frames), "completed");
    assert!(reply(&frames).starts_with("I could not reach my model just now."), "{}", reply(&frames));
    let (_, page) = server
        .get(&format!("/v1/threads/{}/messages", of(&frames, "run:start")[0]["threadId"].as_str().unwrap()))
        .await;
    assert_eq!(page["data"][1]["text"], reply(&frames), "and it is in the conversation");
}

/// A stream of Chat Completions that ends with `[DONE]` and without a finish reason.
fn without_a_reason(deltas: &[Value]) -> Reply {
    let chunk =
        |delta: &Value| format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }));
    Reply::sse(deltas.iter().map(chunk).collect::<String>() + "data: [DONE]\n\n")
}

#[tokio::test]
async fn an_answer_is_complete_when_the_provider_says_done_and_not_why() {
    let (product, server) = empty().await;
    plays(&product, |_, _| without_a_reason(&[json!({ "content": "I am" }), json!({ "content": " here." })]));
    let frames = product.say(&server, "Hi").await;
    assert_eq!((status(&frames), reply(&frames)), ("completed", "I am here."));
    assert_eq!(asked(&product).len(), 1, "it is not asked again");
    assert_eq!(of(&frames, "step:end")[0]["finish"], "stop");
}

#[tokio::test]
async fn calls_of_an_answer_that_never_said_why_it_ended_are_not_made() {
    let (product, server) = empty().await;
    let whole = json!({ "path": "a.md", "content": "A note." }).to_string();
    for arguments in ["{\"path\": \"a.md\", \"cont", &whole] {
        let function = json!({ "name": "createMarkdownFile", "arguments": arguments });
        let called = json!({ "tool_calls": [{ "index": 0, "id": "call_0", "type": "function", "function": function }] });
        plays(&product, move |_, _| without_a_reason(&[json!({ "content": "One moment." }), called.clone()]));
        let frames = product.say(&server, "Write that down.").await;
        assert_eq!((status(&frames), reply(&frames)), ("completed", "One moment."), "{arguments}");
        assert!(
            of(&frames, "tool:start").is_empty() && of(&frames, "tool:complete").is_empty(),
            "{arguments}"
        );
    }
    assert!(list(&server, "files").await.is_empty(), "nothing was written");
}

#[tokio::test]
async fn a_failure_of_the_model_is_told_to_whoever_watches() {
    let (product, server) = empty().await;
    plays(&product, |_, _| refused());
    let frames = product.say(&server, "Hi").await;
    let ended = of(&frames, "step:end")[0];
    assert_eq!(
        (&ended["finish"], &ended["error"]["code"]),
        (&json!("failed"), &json!("provider_auth")),
        "{ended}"
    );
    assert_eq!(status(&frames), "completed", "and the user has an answer");
    server.process.errors.line("a model call failed").await;
}
