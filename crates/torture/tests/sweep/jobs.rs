//! Work in the background.

use serde_json::json;
use testkit::upstream::Reply;
use testkit::{Setup, TestApp};

use crate::client::RUNS;
use crate::model::repeats;
use crate::stage::{Scenario, sweep, sweep_after};

#[tokio::test]
async fn a_thread_is_named_by_the_model() {
    let setup = || Setup { title: Some("Name this.".into()), ..Setup::default() };
    let scenario = Scenario::new("naming", setup, 16).says(|request, before| {
        match request["messages"][0]["content"].as_str() {
            Some(system) if system.contains("Name this.") => Reply::says("\"Tides\"\nor so"),
            _ => repeats(request, before),
        }
    });
    sweep(scenario, async |client| {
        client.turn("send", "What is a tide?").await?;
        Ok(())
    })
    .await;
}

fn note(number: usize) -> String {
    format!("Note {number}: {}", "the garden needs water and the roses need light ".repeat(3))
}

#[tokio::test]
async fn an_older_stretch_is_summarised() {
    let setup = || Setup::app("[history]\nbudget = 600\nsummarise_after = 300\n");
    let scenario = Scenario::new("summary", setup, 26).says(|request, _| {
        let system = request["messages"][0]["content"].as_str().unwrap_or_default();
        let summary = system.contains("notes that an assistant keeps");
        Reply::says(if summary { "They spoke of the garden." } else { "I see." })
    });
    let prepare = async |app: &TestApp| {
        let mut thread = json!(null);
        for number in 0..5 {
            let frames = app.stream(RUNS, &json!({ "message": note(number), "threadId": thread })).await;
            thread = json!(frames.header("x-thread-id"));
            frames.all().await;
            app.service.idle().await;
        }
    };
    sweep_after(scenario, prepare, async |client| {
        let thread = client.get("/v1/apps/test/threads").await?["data"][0]["id"].clone();
        for number in 5..7 {
            let body = json!({ "message": note(number), "threadId": thread });
            let told = client.say(&format!("note-{number}"), body).await?;
            client.end(&told).await?;
        }
        Ok(())
    })
    .await;
}
