//! An action is undone, once.

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use crate::client::{Client, Lost};
use crate::model::step;
use crate::stage::{Scenario, sweep_after};

const FILE: &str = r##"{"path":"a.md","content":"# One\n"}"##;
const SECTION: &str = r#"{"path":"a.md","heading":"One","content":"Two.","mode":"append"}"#;

/// Writes a file, then adds to it.
fn writes(request: &Value, _: usize) -> Reply {
    match step(request) {
        0 => Reply::stream().call(ScriptedCall::new("createMarkdownFile", FILE)),
        1 => Reply::stream().call(ScriptedCall::new("writeMarkdownSection", SECTION)),
        _ => Reply::says("Written."),
    }
}

fn markdown(name: &'static str, least: usize) -> Scenario {
    Scenario::new(name, || Setup::app("tools = [\"markdown\", \"undo\"]"), least).says(writes)
}

async fn told(app: &TestApp) {
    let frames = app.say("Do it").await;
    assert_eq!(frames.last().map(|frame| &frame.data["status"]), Some(&json!("completed")));
}

/// The path of the newest action of a tool, and of its run.
async fn action(client: &Client<'_>, tool: &str) -> Result<(String, String), Lost> {
    let page = client.get(&format!("/v1/apps/test/actions?tool={tool}")).await?;
    let found = &page["data"][0];
    let path = |kind: &str, id: &Value| format!("/v1/{kind}/{}", id.as_str().expect("an id"));
    Ok((path("actions", &found["id"]), path("runs", &found["runId"])))
}

#[tokio::test]
async fn one_action_is_taken_back() {
    sweep_after(markdown("undo an action", 2), told, async |client| {
        let (path, _) = action(client, "writeMarkdownSection").await?;
        client.act("undo", &format!("{path}/undo")).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_whole_run_is_taken_back() {
    sweep_after(markdown("undo a run", 4), told, async |client| {
        let (_, run) = action(client, "createMarkdownFile").await?;
        let report = client.act("undo", &format!("{run}/undo")).await?;
        let undone = report["undone"].as_array().map(Vec::len);
        client.check(undone == Some(2), "everything is said to be undone");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_action_is_taken_back_by_the_model() {
    let scenario = markdown("undo by the model", 20).says(|request, before| {
        let said = request["messages"].to_string();
        match (said.contains("Take it back"), step(request)) {
            (true, 0) => Reply::stream().call(ScriptedCall::new("listRecentActions", "{}")),
            (true, 1) => {
                let id = said.split("act_").nth(1).map(|rest| &rest[..32]).unwrap_or_default();
                let input = json!({ "actionId": format!("act_{id}") }).to_string();
                Reply::stream().call(ScriptedCall::new("undoAction", &input))
            }
            (true, _) => Reply::says("Taken back."),
            (false, _) => writes(request, before),
        }
    });
    sweep_after(scenario, told, async |client| {
        client.turn("send", "Take it back").await?;
        Ok(())
    })
    .await;
}

fn outside(name: &'static str, tool: &'static str, says: crate::model::Says) -> Scenario {
    let setup = match tool {
        "act_undone" => || Setup::app("tools = [\"act_undone\"]"),
        _ => || Setup::app("tools = [\"act_undone_once\"]"),
    };
    Scenario::new(name, setup, 6).says(says)
}

#[tokio::test]
async fn an_action_outside_is_taken_back_by_what_can_be_repeated() {
    let scenario = outside("undo outside", "act_undone", |request, _| {
        crate::model::calls_then(request, &[("act_undone", r#"{"n":1}"#)], "Done.")
    });
    sweep_after(scenario, told, async |client| {
        let (path, _) = action(client, "act_undone").await?;
        client.act("undo", &format!("{path}/undo")).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_action_outside_is_taken_back_by_what_cannot_be_repeated() {
    let scenario = outside("undo outside once", "act_undone_once", |request, _| {
        crate::model::calls_then(request, &[("act_undone_once", r#"{"n":1}"#)], "Done.")
    });
    // It is unknown whether an interrupted undo was made, and a client that asks again is told so.
    sweep_after(Scenario { ignoring: &["actions", "keys"], ..scenario }, told, async |client| {
        let (path, _) = action(client, "act_undone_once").await?;
        let undo = client.request(testkit::Method::POST, &format!("{path}/undo"));
        client.ask("undo", undo).await?;
        Ok(())
    })
    .await;
}
