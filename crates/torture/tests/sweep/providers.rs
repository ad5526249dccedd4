//! Providers that fail, and what is done about it.

use serde_json::Value;
use testkit::Setup;
use testkit::upstream::Reply;

use crate::model::{Says, repeats};
use crate::stage::{Scenario, sweep};

/// How often a step was asked for when the server died decides how often it is reset; what is left is the same.
async fn failing(name: &'static str, least: usize, model: Says) {
    sweep(Scenario::new(name, Setup::default, least).says(model), async |client| {
        let told = client.turn("send", "Hi").await?;
        let status = client.end(&told).await?;
        client.check(status == "completed", "it is answered in the end");
        Ok(())
    })
    .await;
}

fn unavailable(status: u16) -> Reply {
    Reply::status(status).header("retry-after", "0")
}

#[tokio::test]
async fn a_provider_that_is_unavailable_at_first() {
    let model: Says = |request, before| if before < 2 { unavailable(503) } else { repeats(request, before) };
    failing("503 then well", 21, model).await;
}

#[tokio::test]
async fn a_provider_that_is_too_busy_at_first() {
    let model: Says = |request, before| if before < 1 { unavailable(429) } else { repeats(request, before) };
    failing("429 then well", 18, model).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off() {
    // The pieces of an answer may share a commit, so that one broken answer has too few boundaries now and then.
    failing("cut in mid-stream", 21, |request, before| match before {
        0 | 1 => Reply::stream().text("One ").text("two").without_end(),
        _ => repeats(request, before),
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_reset() {
    failing("reset in mid-stream", 18, |request, before| match before {
        0 => Reply::says("One, two and three").reset_after(120),
        _ => repeats(request, before),
    })
    .await;
}

#[tokio::test]
async fn an_error_in_mid_stream() {
    failing("error in mid-stream", 19, |request, before| match before {
        0 => Reply::stream().text("One ").error("server_error", None, "the server is overloaded"),
        _ => repeats(request, before),
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_refuses_for_good() {
    let scenario = Scenario::new("refused for good", Setup::default, 12)
        .says(|_: &Value, _| Reply::status(401).error("invalid_request_error", None, "no"));
    sweep(scenario, async |client| {
        let told = client.turn("send", "Hi").await?;
        let status = client.end(&told).await?;
        client.check(status == "failed", "it fails, and says so");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn another_model_answers_instead() {
    let setup = || Setup::app("tools = [\"echo\"]\nfallbacks = [\"backup-model\"]");
    let scenario = Scenario::new("fallback", setup, 20).says(|_, before| match before {
        0 => Reply::stream().text("One ").error("server_error", None, "the server is overloaded"),
        _ => Reply::status(401).error("invalid_request_error", None, "no"),
    });
    sweep(scenario, async |client| {
        client.turn("send", "Hi").await?;
        Ok(())
    })
    .await;
}

/// The sum that a call may spend is held before it and given back after it, wherever the server dies: all of the budget
/// would be held by the first call that was never heard of again.
#[tokio::test]
async fn a_budget_is_not_lost_with_a_server() {
    let setup = || Setup::app("tools = [\"echo\"]\n[budget]\nday_tokens = 3000");
    let model: Says = |request, before| if before < 1 { unavailable(503) } else { repeats(request, before) };
    sweep(Scenario::new("budget", setup, 18).says(model), async |client| {
        for (key, message) in [("first", "Hi"), ("second", "And then?")] {
            let told = client.turn(key, message).await?;
            let status = client.end(&told).await?;
            client.check(status == "completed", "there is money for it");
        }
        Ok(())
    })
    .await;
}
