//! Runs and the channel of the user over connections that break: nothing is lost, and nothing comes twice.

use serde_json::{Value, json};
use testkit::Frame;
use testkit::upstream::{Gate, Reply, ScriptedCall};

use crate::world::Server;
use crate::{ScenarioClient, serve, shown, start, write_app};

/// The events of a run as the server has them.
async fn stored(server: &Server, run: &str) -> Vec<Value> {
    let frames: Vec<Frame> = server.follow(&format!("/v1/runs/{run}/events"), 0).await.all().await;
    frames.iter().map(|frame| json!({ "seq": frame.id, "type": frame.event, "data": frame.data })).collect()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) async fn check_death(tested: ScenarioClient) {
    let world = crate::World::new().await;
    write_app(&world, "tools = [\"calculate\"]");
    let (port, gate) = (free_port(), Gate::new());
    let held = gate.clone();
    world.upstream.program(move |body| match body["messages"].as_array().and_then(|all| all.last()) {
        Some(last) if last["role"] == "tool" => {
            Reply::stream().text("It ").text("is ").wait(&held).text("42.")
        }
        _ => Reply::stream()
            .text("Let me see.")
            .call(ScriptedCall::new("calculate", r#"{"expression":"6*7"}"#)),
    });
    let server = serve(&world, port).await;
    let client = tested.scenario(&server, "stream");
    client.errors.line("said: It is ").await;
    server.process.kill();
    gate.open();

    let server = serve(&world, port).await;
    let seen = shown(client).await;
    assert_eq!((&seen["text"], &seen["status"]), (&json!("It is 42."), &json!("completed")), "{seen}");
    let run = seen["runId"].as_str().unwrap();
    assert_eq!(seen["events"].as_array().unwrap(), &stored(&server, run).await, "no gap, and nothing twice");
    let types: Vec<&str> =
        seen["events"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert!(types.contains(&"step:reset"), "the step began again: {types:?}");
    let (_, messages) =
        server.get(&format!("/v1/threads/{}/messages", seen["threadId"].as_str().unwrap())).await;
    assert_eq!(messages["data"].as_array().unwrap().len(), 2, "{messages}");
    assert_eq!(seen["answer"]["id"], messages["data"][1]["id"]);
    tested.note("stream");
}

pub(crate) async fn check_cancel(tested: ScenarioClient) {
    let (world, server) = start("").await;
    world.upstream.script([Reply::stream().text("I will never").stall()]);
    let seen = shown(tested.scenario(&server, "cancel")).await;
    assert_eq!((&seen["status"], &seen["text"]), (&json!("cancelled"), &json!("I will never")), "{seen}");
    tested.note("cancel");
}

pub(crate) async fn check_approvals(tested: ScenarioClient) {
    let (world, server) = start("tools = [\"current_time\"]\n[tool.current_time]\nconfirm = true").await;
    let call = || ScriptedCall::new("current_time", "{}");
    world.upstream.script([Reply::stream().text("May I?").call(call()).call(call()), Reply::says("Well.")]);
    let seen = shown(tested.scenario(&server, "approval")).await;
    assert_eq!((&seen["status"], &seen["text"]), (&json!("completed"), &json!("Well.")), "{seen}");
    assert_eq!(seen["waited"], json!(2), "{seen}");
    let calls = seen["steps"][0]["calls"].as_array().unwrap();
    let mut statuses: Vec<&str> = calls.iter().map(|call| call["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["complete", "denied"], "{seen}");
    tested.note("approval");
}

pub(crate) async fn check_tools(tested: ScenarioClient) {
    let (world, server) = start("tools = [\"ask_user\"]").await;
    world.upstream.script([
        Reply::stream()
            .call(ScriptedCall::new("where_is", r#"{"exact":true}"#))
            .call(ScriptedCall::new("breaks", "{}"))
            .call(ScriptedCall::new("ask_user", r#"{"question":"Which?","choices":["red","blue"]}"#)),
        Reply::says("You are in Oslo."),
    ]);
    let seen = shown(tested.scenario(&server, "tools")).await;
    assert_eq!((&seen["status"], &seen["text"]), (&json!("completed"), &json!("You are in Oslo.")), "{seen}");
    let calls = seen["steps"][0]["calls"].as_array().unwrap();
    let of = |name: &str| calls.iter().find(|call| call["name"] == name).unwrap_or_else(|| panic!("{seen}"));
    assert_eq!(
        (&of("where_is")["status"], of("where_is")["output"].to_string().contains("Oslo")),
        (&json!("complete"), true),
        "{seen}"
    );
    assert!(of("breaks")["output"].to_string().contains("no permission"), "{seen}");
    assert!(of("ask_user")["output"].to_string().contains("red"), "{seen}");
    assert_eq!(seen["again"], json!(0), "a run that is read again makes no call again");
    tested.note("tools");
}

/// Two tabs: one watches everything, the other one works. The server dies in between.
pub(crate) async fn check_channel(tested: ScenarioClient) {
    let world = crate::World::new().await;
    write_app(&world, "");
    let port = free_port();
    world.upstream.program(|_| Reply::stream().text("One ").text("answer."));
    let server = serve(&world, port).await;
    let mut client = tested.scenario(&server, "channel");
    client.errors.line("first").await;
    server.process.kill();
    let server = serve(&world, port).await;
    client.write("go\n");
    let seen = shown(client).await;
    let log = server.log(seen["threadId"].as_str().unwrap()).await;
    let numbers: Vec<u64> = log.iter().map(|frame| frame.id).filter(|id| *id > 0).collect();
    let followed: Vec<u64> = serde_json::from_value(seen["followed"].clone()).unwrap();
    assert_eq!(followed, numbers[..followed.len()], "no gap, and nothing twice");
    assert_eq!(seen["ends"], json!(2), "{seen}");
    let notices: Vec<u64> = serde_json::from_value(seen["notices"].clone()).unwrap();
    assert!(notices.windows(2).all(|pair| pair[0] < pair[1]), "{notices:?}");
    assert_eq!(seen["resyncs"], json!(0), "{seen}");
    assert_eq!(seen["finished"], json!(["run_1 completed", "run_2 completed"]), "{seen}");
    tested.note("channel");
}

#[tokio::test]
async fn a_stream_survives_the_death_of_its_server() {
    check_death(ScenarioClient::TypeScript).await;
}

#[tokio::test]
async fn a_run_is_cancelled_and_keeps_its_words() {
    check_cancel(ScenarioClient::TypeScript).await;
}

#[tokio::test]
async fn calls_are_approved_and_rejected() {
    check_approvals(ScenarioClient::TypeScript).await;
}

#[tokio::test]
async fn tools_of_the_client_are_run_there() {
    check_tools(ScenarioClient::TypeScript).await;
}

#[tokio::test]
async fn the_channel_of_the_user_goes_on_after_a_restart() {
    check_channel(ScenarioClient::TypeScript).await;
}
