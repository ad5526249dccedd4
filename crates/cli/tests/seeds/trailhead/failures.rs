//! When the model fails: another one, or an answer all the same; and somebody can see it.

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
