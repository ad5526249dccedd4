//! Calls that wait for a decision.

use serde_json::json;
use testkit::Setup;

use crate::client::{Client, Lost};
use crate::model::{asked, calls_then, repeats};
use crate::notes::Told;
use crate::stage::{Scenario, sweep};

fn setup() -> Setup {
    Setup::app("tools = [\"risky\", \"act_asked\", \"echo\"]")
}

/// A run with calls that need approval.
fn asks(name: &'static str, least: usize) -> Scenario {
    Scenario::new(name, setup, least).says(|request, before| match asked(request) {
        "Do it" => {
            calls_then(request, &[("risky", r#"{"n":7}"#), ("echo", r#"{"text":"x"}"#)], "As you wish.")
        }
        "Pay" => calls_then(request, &[("act_asked", r#"{"n":7}"#)], "Paid."),
        _ => repeats(request, before),
    })
}

/// A run up to where it waits, and the path of its proposal.
async fn waiting(client: &Client<'_>, message: &str) -> Result<(Told, String), Lost> {
    let told = client.say("send", json!({ "message": message })).await?;
    let open = client.wait_for_event(&told, "proposal:open").await?;
    Ok((told, format!("/v1/proposals/{}", open["proposalId"].as_str().expect("a proposal"))))
}

#[tokio::test]
async fn a_call_that_is_confirmed() {
    sweep(asks("approval confirmed", 26), async |client| {
        let (told, proposal) = waiting(client, "Do it").await?;
        client.post("yes", &format!("{proposal}/confirm"), &json!({})).await?;
        client.end(&told).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_outside_that_is_confirmed() {
    let scenario = asks("approval outside", 30);
    sweep(Scenario { ignoring: &["results", "actions"], ..scenario }, async |client| {
        let (told, proposal) = waiting(client, "Pay").await?;
        client.post("yes", &format!("{proposal}/confirm"), &json!({})).await?;
        client.end(&told).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_rejected() {
    sweep(asks("approval rejected", 27), async |client| {
        let (told, proposal) = waiting(client, "Do it").await?;
        client.post("no", &format!("{proposal}/reject"), &json!({})).await?;
        client.end(&told).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_that_a_new_message_supersedes() {
    sweep(asks("approval superseded", 40), async |client| {
        let (told, _) = waiting(client, "Do it").await?;
        let next = json!({ "message": "Never mind", "threadId": told.thread });
        let second = client.say("next", next).await?;
        client.end(&told).await?;
        client.end(&second).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_run_is_cancelled() {
    sweep(asks("approval cancelled", 19), async |client| {
        let (told, _) = waiting(client, "Pay").await?;
        client.act("cancel", &format!("/v1/runs/{}/cancel", told.run)).await?;
        let status = client.end(&told).await?;
        client.check(status == "cancelled", "a run that waits is cancelled");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_run_is_interrupted() {
    // Whether it asks the model once more before it gives way is not the same each time.
    let ignoring = &["messages", "facts"];
    sweep(Scenario { ignoring, ..asks("approval interrupted", 30) }, async |client| {
        let (told, _) = waiting(client, "Pay").await?;
        let next = json!({ "message": "Instead", "threadId": told.thread, "onBusy": "interrupt" });
        let second = client.say("next", next).await?;
        client.end(&told).await?;
        client.end(&second).await?;
        Ok(())
    })
    .await;
}
