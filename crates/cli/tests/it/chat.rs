//! `rondo chat`, through a running server and through its own.

use testkit::upstream::{Gate, Reply, ScriptedCall};

use crate::process::{Process, connection_refused, within};
use crate::world::{Server, World};

#[tokio::test]
async fn one_message_through_its_own_server() {
    let world = World::new().await;
    world.upstream.script([
        Reply::stream()
            .text("Let me see.")
            .call(ScriptedCall::new("calculate", r#"{"expression": "6 * 7"}"#))
            .call(ScriptedCall::new("calculate", r#"{"expression": "six"}"#)),
        Reply::stream().text("It is ").text("42.\n").text("\u{1b}[2JQuite sure."),
    ]);
    let ended = world.run(&["chat", "What is 6 times 7?"]).await;
    assert_eq!((ended.code, ended.output.as_str()), (Some(0), "Let me see.\nIt is 42.\n[2JQuite sure.\n"));
    for note in ["[calculate {\"expression\":\"6 * 7\"}]\n", "[calculate failed: {\"error\":"] {
        assert!(ended.errors.contains(note), "{}", ended.errors);
    }
    assert_eq!(world.upstream.requests()[0].body["messages"][1]["content"], "What is 6 times 7?");
    world.audit();
}

#[tokio::test]
async fn without_a_name_it_is_the_only_app_or_studio() {
    for (apps, expected) in [
        (["tutor"].as_slice(), Ok("tutor")),
        (&["studio", "tutor"], Ok("studio")),
        (&["trailhead", "tutor"], Err("rondo: which app? choose with --app: trailhead, tutor\n")),
        (&[], Err("rondo: the server has no app; make one with `rondo init NAME` in its folder of apps\n")),
    ] {
        let world = World::with(apps).await;
        world.upstream.program(|_| Reply::says(r#"{"memoriesReferenced": [], "response": "Hello."}"#));
        let ended = world.run(&["chat", "Hello"]).await;
        match expected {
            Ok(app) => {
                assert_eq!(ended.code, Some(0), "{apps:?}: {}", ended.errors);
                let server = world.serve().await;
                let (_, threads) = server.get(&format!("/v1/apps/{app}/threads")).await;
                assert_eq!(threads["data"].as_array().unwrap().len(), 1, "{apps:?}");
            }
            Err(errors) => assert_eq!((ended.code, ended.errors.as_str()), (Some(1), errors), "{apps:?}"),
        }
    }
}

#[tokio::test]
async fn lines_of_the_input_are_one_conversation() {
    let world = World::new().await;
    world.upstream.script([Reply::says("Hello, Ada."), Reply::says("Your name is Ada.\n")]);
    let mut chat = Process::start(&mut world.rondo(&["chat", "--app", "studio"]));
    chat.write("I am Ada.\n\n   \nWho am I?"); // the last line has no end
    let ended = chat.ended().await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""));
    assert_eq!(ended.output, "Hello, Ada.\nYour name is Ada.\n");
    let messages = world.upstream.requests()[1].body["messages"].clone();
    let said: Vec<&str> =
        messages.as_array().unwrap()[1..].iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["I am Ada.", "Hello, Ada.", "Who am I?"]);
}

#[tokio::test]
async fn through_a_running_server_text_is_shown_as_it_comes() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([Reply::stream().text("Half").wait(&gate).text(" and half"), Reply::says("Yes.")]);
    let server = world.serve().await;
    let chat = Process::start(world.rondo(&["chat", "Hello"]).env("RONDO_LISTEN", server.address()));
    assert_eq!(chat.output.contains("Half").await, "Half");
    gate.open();
    let ended = chat.ended().await;
    assert_eq!((ended.code, ended.output.as_str(), ended.errors.as_str()), (Some(0), "Half and half\n", ""));

    let (_, threads) = server.get("/v1/apps/studio/threads").await;
    let thread = threads["data"][0]["id"].as_str().unwrap();
    let ended = world.run(&["chat", "--url", &server.url, "--thread", thread, "Still there?"]).await;
    assert_eq!((ended.code, ended.output.as_str()), (Some(0), "Yes.\n"));
    assert_eq!(world.upstream.requests()[1].body["messages"].as_array().unwrap().len(), 4);
}

/// A chat comes back by itself to a server that was killed under it.
#[tokio::test]
async fn a_server_that_dies_is_waited_for() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([Reply::stream().text("Half").wait(&gate), Reply::says("Whole.")]);
    let server = world.serve().await;
    let address = server.address().to_owned();
    let chat = Process::start(world.rondo(&["chat", "Hello"]).env("RONDO_LISTEN", &address));
    chat.output.contains("Half").await;
    server.process.kill();
    chat.errors.contains("[the connection is lost; reconnecting]").await;
    let _server = Server::start(world.rondo(&["serve"]).env("RONDO_LISTEN", &address)).await;
    let ended = chat.ended().await;
    assert_eq!((ended.code, ended.output.as_str()), (Some(0), "Half\nWhole.\n"));
    assert!(ended.errors.contains("the answer starts again]"), "{}", ended.errors);
}

#[tokio::test]
async fn ctrl_c_cancels_the_answer() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([Reply::stream().text("I will never").wait(&gate).text(" stop")]);
    let chat = Process::start(&mut world.rondo(&["chat", "Go on"]));
    chat.output.contains("I will never").await;
    chat.signal("INT");
    let ended = chat.ended().await;
    let expected = (Some(1), "I will never\n", "rondo: cancelled\n");
    assert_eq!((ended.code, ended.output.as_str(), ended.errors.as_str()), expected);
    within("the upstream's connection to be closed", world.upstream.closed(0)).await;
    world.audit();
}

#[tokio::test]
async fn what_goes_wrong_is_said_in_a_line() {
    let world = World::new().await;
    let denied = Reply::status(401).error("invalid_request_error", Some("invalid_api_key"), "no");
    world.upstream.script([denied.clone(), denied]);
    let ended = world.run(&["chat", "Hello"]).await;
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""));
    assert!(
        ended.errors.starts_with("rondo: ") && ended.errors.ends_with("(provider_auth)\n"),
        "{}",
        ended.errors
    );
    let mut chat = Process::start(&mut world.rondo(&["chat"]));
    chat.write("One\nTwo\n");
    assert_eq!(chat.ended().await.code, Some(1));
    assert_eq!(world.upstream.requests().len(), 2, "the first line that fails ends it");

    let ended = Process::start(world.rondo(&["chat", "Hello"]).env_remove("OPENAI_BASE_URL")).ended().await;
    assert_eq!(ended.code, Some(1));
    for part in ["rondo: no model is configured: set OPENAI_API_KEY", "Ollama", "`rondo models pull "] {
        assert!(ended.errors.contains(part), "{}", ended.errors);
    }
    let server = world.serve().await;
    for (args, expected) in [
        (["--url", &server.url, "--app", "other"], "there is no app \"other\"; there is studio"),
        (
            ["--url", "http://127.0.0.1:1", "--app", "studio"],
            "cannot reach http://127.0.0.1:1: {refused}; is the server running there?",
        ),
        (["--url", "127.0.0.1:1", "--app", "studio"], "127.0.0.1:1 is not a URL; write http://127.0.0.1:1"),
    ] {
        let expected = expected.replace("{refused}", &connection_refused());
        let ended = world.run(&[["chat"].as_slice(), &args, &["Hello"]].concat()).await;
        assert_eq!((ended.code, ended.errors), (Some(1), format!("rondo: {expected}\n")));
    }
    let ended = world.run(&["chat", "--thread", "thr_1", "Hello"]).await;
    assert_eq!(ended.code, Some(2), "{}", ended.errors);
    let nobody = format!("thr_{}", "0".repeat(32));
    let ended = world.run(&["chat", "--url", &server.url, "--thread", &nobody, "Hello"]).await;
    let expected = format!(
        "rondo: {} answered 404 Not Found: there is no such thread, or it is not yours\n",
        server.url
    );
    assert_eq!((ended.code, ended.errors), (Some(1), expected));
}
