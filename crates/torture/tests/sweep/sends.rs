//! Messages sent twice, at once, or to a thread that still answers.

use serde_json::json;
use testkit::upstream::Reply;
use testkit::{Method, Setup};

use crate::client::{Client, Lost, RUNS};
use crate::model::{asked, repeats};
use crate::stage::{Scenario, sweep};

const THREADS: &str = "/v1/apps/test/threads";

async fn thread(client: &Client<'_>) -> Result<String, Lost> {
    let made = client.post("thread", THREADS, &json!({})).await?;
    Ok(made["id"].as_str().expect("a thread").to_owned())
}

#[tokio::test]
async fn the_same_message_is_sent_twice_at_once() {
    sweep(Scenario::new("double send", Setup::default, 18), async |client| {
        let body = json!({ "message": "Hi" });
        let (one, two) = tokio::join!(client.say("send", body.clone()), client.say("send", body.clone()));
        let (one, two) = (one?, two?);
        client.check(one == two, "one key is one run");
        client.end(&one).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_imported_conversation_goes_on() {
    sweep(Scenario::new("import", Setup::default, 16), async |client| {
        let call = json!({ "id": "c", "name": "look", "input": {}, "result": "found" });
        let steps = json!([{ "text": "I look.", "calls": [call] }, { "text": "There." }]);
        let turns = json!([{ "text": "", "steps": [{ "text": "Welcome!" }] }, { "text": "Where?", "steps": steps },
            { "text": "Nobody answers" }]);
        let import = json!({ "sourceId": "elsewhere", "turns": turns });
        let made = client.post("import", "/v1/apps/test/threads/import", &import).await?;
        let told = client.say("send", json!({ "message": "Hi", "threadId": made["threadId"] })).await?;
        client.check(client.end(&told).await? == "completed", "it is answered");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_key_is_used_for_something_else() {
    sweep(Scenario::new("key reused", Setup::default, 16), async |client| {
        client.turn("send", "Hi").await?;
        let other = client.request(Method::POST, RUNS).json(&json!({ "message": "Ho" }));
        let answer = client.ask_as("other", "send", other).await?;
        client.check(answer.status == 422, "a key stands for one body");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn two_messages_at_once() {
    let scenario = Scenario::new("two sends at once", Setup::default, 30);
    sweep(Scenario { ignoring: &["messages", "threads"], ..scenario }, async |client| {
        let thread = thread(client).await?;
        let send = async |message: &str| {
            let told = client.say(message, json!({ "message": message, "threadId": thread })).await?;
            client.end(&told).await
        };
        let (one, two) = tokio::join!(send("one"), send("two"));
        client.check(one? == "completed" && two? == "completed", "both are answered");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn three_messages_wait_for_their_turns() {
    sweep(Scenario::new("queue of three", Setup::default, 39), async |client| {
        let thread = thread(client).await?;
        let mut runs = Vec::new();
        for message in ["one", "two", "three"] {
            runs.push(client.say(message, json!({ "message": message, "threadId": thread })).await?);
        }
        for told in &runs {
            client.end(told).await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_message_to_a_busy_thread_is_refused() {
    let scenario =
        Scenario::new("reject when busy", Setup::default, 14).says(|request, before| match asked(request) {
            "Hi" => Reply::stream().text("Hel").stall(),
            _ => repeats(request, before),
        });
    let ignoring = &["messages", "threads", "facts"];
    sweep(Scenario { ignoring, ..scenario }, async |client| {
        let first = client.say("first", json!({ "message": "Hi" })).await?;
        client.wait_for_event(&first, "text:delta").await?;
        let body = json!({ "message": "Now", "threadId": first.thread, "onBusy": "reject" });
        let refused = client.try_say("second", body).await?;
        client.check(refused.is_err_and(|answer| answer.status == 409), "it is refused");
        client.act("cancel", &format!("/v1/runs/{}/cancel", first.run)).await?;
        client.end(&first).await?;
        Ok(())
    })
    .await;
}
