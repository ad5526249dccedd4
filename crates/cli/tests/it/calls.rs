//! Calls that the client makes: over a kill of the server, and by `rondo chat`.

use std::process::Command;

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};

use crate::process::Process;
use crate::world::{Server, World, names};

const APP: &str = r#"name = "Shop"
tools = ["ask_user"]
[tool.scan]
client = true
description = "Reads the barcode in front of the camera."
"#;

async fn shop() -> World {
    let world = World::with(&[]).await;
    world.write("apps/shop/app.toml", APP);
    world.write("apps/shop/instructions.md", "Help.");
    world
}

fn rondo(world: &World, args: &[&str]) -> Command {
    let mut command = world.rondo(args);
    command.env("RONDO_APPS", world.path("apps"));
    command
}

async fn serve(world: &World) -> Server {
    Server::start(&mut rondo(world, &["serve"])).await
}

/// The run that waits for the client, and the path of its call.
async fn waiting(server: &Server) -> (Value, String) {
    let (status, run) = server.post("/v1/apps/shop/runs", &json!({ "message": "Go", "stream": false })).await;
    assert_eq!((status, &run["status"]), (200, &json!("waiting")), "{run}");
    let call = format!("/v1/calls/{}", run["clientCalls"][0]["id"].as_str().unwrap());
    (run, call)
}

#[tokio::test]
async fn a_call_is_answered_after_the_server_was_killed() {
    let world = shop().await;
    world.upstream.script([Reply::stream().call(ScriptedCall::new("scan", "{}"))]);
    let server = serve(&world).await;
    let (run, call) = waiting(&server).await;
    server.process.kill();

    let server = serve(&world).await;
    let (_, view) = server.get(&call).await;
    assert_eq!(view["status"], "open", "{view}");
    world.upstream.script([Reply::says("Milk.")]);
    let (status, answered) =
        server.post(&format!("{call}/result"), &json!({ "result": "4006381333931" })).await;
    assert_eq!((status, &answered["status"]), (200, &json!("answered")), "{answered}");
    let events = format!("/v1/runs/{}/events", run["runId"].as_str().unwrap());
    let frames = server.follow(&events, 0).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "completed", "{:?}", names(&frames));
    assert_eq!(names(&frames).iter().filter(|name| **name == "tool:complete").count(), 1);
    world.audit();
}

#[tokio::test]
async fn a_result_that_was_taken_survives_the_death_of_the_server() {
    for _ in 0..5 {
        let world = shop().await;
        world.upstream.program(|body| match body.to_string().contains("4006381333931") {
            true => Reply::says("Milk."),
            false => Reply::stream().call(ScriptedCall::new("scan", "{}")),
        });
        let server = serve(&world).await;
        let (run, call) = waiting(&server).await;
        let (status, _) = server.post(&format!("{call}/result"), &json!({ "result": "4006381333931" })).await;
        assert_eq!(status, 200);
        server.process.kill(); // the run may not have gone on yet, or have ended

        let server = serve(&world).await;
        let events = format!("/v1/runs/{}/events", run["runId"].as_str().unwrap());
        let frames = server.follow(&events, 0).await.all().await;
        assert_eq!(frames.last().unwrap().data["status"], "completed", "{:?}", names(&frames));
        let (status, refused) = server.post(&format!("{call}/result"), &json!({ "result": "other" })).await;
        assert_eq!((status, &refused["code"]), (409, &json!("call_answered")), "{refused}");
        world.audit();
    }
}

#[tokio::test]
async fn a_chat_asks_the_person_and_says_what_it_cannot_run() {
    let world = shop().await;
    let question = r#"{"question":"Which size?","choices":["small","large"]}"#;
    world.upstream.script([
        Reply::stream().call(ScriptedCall::new("scan", "{}")),
        Reply::stream().call(ScriptedCall::new("ask_user", question)),
        Reply::says("A large one."),
    ]);
    let mut chat = Process::start(&mut rondo(&world, &["chat", "--app", "shop"]));
    chat.write("Order a coffee\n5\n2\n");
    let ended = chat.ended().await;
    assert_eq!((ended.code, ended.output.contains("A large one.")), (Some(0), true), "{ended:?}");
    for shown in [
        "[scan can only be run by another client",
        "Which size?\n  1. small\n  2. large",
        "[there is no choice 5]",
    ] {
        assert!(ended.errors.contains(shown), "{shown}: {}", ended.errors);
    }
    let told = |index: usize| world.upstream.requests()[index].body["messages"].to_string();
    assert!(told(1).contains("this client is a terminal"), "{}", told(1));
    assert!(told(2).contains("large"), "{}", told(2));
    world.audit();
}
