//! Runs that are stopped: cancelled at every phase, interrupted, deleted with their thread.

use serde_json::json;
use testkit::Setup;
use testkit::upstream::Reply;

use crate::client::{Client, Lost};
use crate::model::{asked, calls_then, repeats};
use crate::notes::Told;
use crate::stage::{Scenario, sweep};

/// The parts that had arrived when it was stopped depend on what came back first.
const PARTIAL: &[&str] = &["messages", "threads", "facts"];

/// A model that begins to answer `Hi` and never ends.
fn stalls(name: &'static str, least: usize) -> Scenario {
    let scenario = Scenario::new(name, Setup::default, least).says(|request, before| match asked(request) {
        "Hi" => Reply::stream().text("Hel").stall(),
        _ => repeats(request, before),
    });
    Scenario { ignoring: PARTIAL, ..scenario }
}

async fn cancel(client: &Client<'_>, step: &str, told: &Told) -> Result<(), Lost> {
    client.act(step, &format!("/v1/runs/{}/cancel", told.run)).await?;
    let status = client.end(told).await?;
    client.check(status == "cancelled", "what was cancelled under way is cancelled");
    Ok(())
}

#[tokio::test]
async fn a_run_is_cancelled_as_it_begins() {
    sweep(stalls("cancel at the start", 8), async |client| {
        let told = client.say("send", json!({ "message": "Hi" })).await?;
        cancel(client, "cancel", &told).await
    })
    .await;
}

#[tokio::test]
async fn a_run_is_cancelled_while_it_streams() {
    sweep(stalls("cancel while streaming", 14), async |client| {
        let told = client.say("send", json!({ "message": "Hi" })).await?;
        client.wait_for_event(&told, "text:delta").await?;
        cancel(client, "cancel", &told).await?;
        let next = json!({ "message": "Go on", "threadId": told.thread });
        let second = client.say("next", next).await?;
        client.end(&second).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_run_is_cancelled_while_its_tools_work() {
    let setup = || Setup::app("tools = [\"echo\", \"gated\"]");
    let scenario = Scenario::new("cancel during tools", setup, 19).says(|request, _| {
        calls_then(request, &[("echo", r#"{"text":"a"}"#), ("gated", "{}")], "Never said.")
    });
    let ignoring = &["results", "actions", "facts"];
    sweep(Scenario { holds: true, ignoring, ..scenario }, async |client| {
        let told = client.say("send", json!({ "message": "Go" })).await?;
        client.wait_for_event(&told, "tool:start").await?;
        cancel(client, "cancel", &told).await
    })
    .await;
}

#[tokio::test]
async fn a_run_is_cancelled_before_its_turn_comes() {
    sweep(stalls("cancel in the queue", 17), async |client| {
        let first = client.say("first", json!({ "message": "Hi" })).await?;
        client.wait_for_event(&first, "text:delta").await?;
        let body = json!({ "message": "Never mind", "threadId": first.thread });
        let waits = client.say("waits", body).await?;
        cancel(client, "cancel the one that waits", &waits).await?;
        cancel(client, "cancel the first", &first).await
    })
    .await;
}

#[tokio::test]
async fn a_run_that_has_ended_is_cancelled() {
    sweep(Scenario::new("cancel after the end", Setup::default, 15), async |client| {
        let told = client.turn("send", "Hi").await?;
        let run = client.act("cancel", &format!("/v1/runs/{}/cancel", told.run)).await?;
        client.check(run["status"] == "completed", "what has ended stays as it is");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_message_interrupts_a_run() {
    sweep(stalls("interrupt", 28), async |client| {
        let first = client.say("first", json!({ "message": "Hi" })).await?;
        client.wait_for_event(&first, "text:delta").await?;
        let body = json!({ "message": "Now", "threadId": first.thread, "onBusy": "interrupt" });
        let second = client.say("second", body).await?;
        let status = client.end(&first).await?;
        client.check(status == "interrupted", "the run gives way");
        client.end(&second).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_thread_is_deleted_while_it_answers() {
    let scenario = stalls("delete while running", 14);
    sweep(Scenario { deletes: true, ..scenario }, async |client| {
        let told = client.say("send", json!({ "message": "Hi" })).await?;
        client.wait_for_event(&told, "text:delta").await?;
        client.delete("delete", &format!("/v1/threads/{}", told.thread)).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_thread_is_deleted_after_its_answer() {
    let scenario = Scenario::new("delete afterwards", Setup::default, 18);
    sweep(Scenario { deletes: true, ..scenario }, async |client| {
        let told = client.turn("send", "Bye").await?;
        client.delete("delete", &format!("/v1/threads/{}", told.thread)).await?;
        Ok(())
    })
    .await;
}
