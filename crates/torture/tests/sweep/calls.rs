//! Calls that the client makes.

use serde_json::{Value, json};
use testkit::Setup;

use crate::client::{Client, Lost};
use crate::model::{asked, calls_then, repeats};
use crate::notes::Told;
use crate::stage::{Scenario, sweep};

fn setup() -> Setup {
    Setup::app("tools = [\"echo\"]\n[tool.scan]\nclient = true\ndescription = \"Scans.\"\n")
}

/// A run that leaves one call to the client, and makes another itself.
fn scans(name: &'static str, least: usize) -> Scenario {
    Scenario::new(name, setup, least).says(|request, before| match asked(request) {
        "Scan" => calls_then(request, &[("scan", "{}"), ("echo", r#"{"text":"x"}"#)], "Milk."),
        "Look" => calls_then(request, &[("look", "{}")], "A cat."),
        _ => repeats(request, before),
    })
}

/// A run up to where it waits, and the path of its call.
async fn waiting(client: &Client<'_>, body: Value) -> Result<(Told, String), Lost> {
    let told = client.say("send", body).await?;
    let open = client.wait_for_event(&told, "call:open").await?;
    Ok((told, format!("/v1/calls/{}", open["callId"].as_str().expect("a call"))))
}

#[tokio::test]
async fn a_call_of_the_client_that_is_answered() {
    sweep(scans("client call answered", 24), async |client| {
        let (told, call) = waiting(client, json!({ "message": "Scan" })).await?;
        client.post("result", &format!("{call}/result"), &json!({ "result": "4006381333931" })).await?;
        let status = client.end(&told).await?;
        client.check(status == "completed", "a run goes on with the result of the client");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_of_a_tool_that_the_request_declares() {
    sweep(scans("client tool of a request", 20), async |client| {
        let tools = json!([{ "name": "look", "description": "Looks." }]);
        let (told, call) = waiting(client, json!({ "message": "Look", "tools": tools })).await?;
        client.post("result", &format!("{call}/result"), &json!({ "error": "it is dark" })).await?;
        client.end(&told).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_of_the_client_that_a_new_message_supersedes() {
    sweep(scans("client call superseded", 36), async |client| {
        let (told, _) = waiting(client, json!({ "message": "Scan" })).await?;
        let next = json!({ "message": "Never mind", "threadId": told.thread });
        let second = client.say("next", next).await?;
        client.end(&told).await?;
        client.end(&second).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_of_the_client_whose_run_is_cancelled() {
    sweep(scans("client call cancelled", 17), async |client| {
        let (told, _) = waiting(client, json!({ "message": "Scan" })).await?;
        // The other call has its result by then, also if a process died before.
        client.wait_for_event(&told, "tool:complete").await?;
        client.act("cancel", &format!("/v1/runs/{}/cancel", told.run)).await?;
        let status = client.end(&told).await?;
        client.check(status == "cancelled", "a run that waits for the client is cancelled");
        Ok(())
    })
    .await;
}
