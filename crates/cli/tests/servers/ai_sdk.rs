//! The AI SDK's own client, in three major versions, against `/api/chat` of the real binary.

use std::process::Command;

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};

use crate::process::Process;
use crate::results::FeatureResult;
use crate::world::{Server, World};
use crate::{package, rondo, script, write_app};

const MAJORS: [u32; 3] = [5, 6, 7];

/// The first version that can ask the user.
const ASKING: u32 = 6;

/// The first version that can take a step back.
const RESETTING: u32 = 7;

async fn start() -> (World, Server) {
    let world = World::new().await;
    let tools = "tools = [\"calculate\", \"current_time\"]\n[tool.current_time]\nconfirm = true\n\
        [tool.locate]\nclient = true\ndescription = \"Tells where the user is.\"\n\
        parameters = { type = \"object\", properties = { precise = { type = \"boolean\" } } }";
    write_app(&world, tools);
    world.write("rondo.toml", "[models.gpt-6-luna]\nvision = true\n");
    let server = Server::start(&mut rondo(&world, &["serve"])).await;
    (world, server)
}

/// A feature of one version of the SDK.
fn feature(major: u32, name: &str) -> FeatureResult {
    let manifest = std::fs::read_to_string(package(&format!("ai{major}/package.json"))).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    FeatureResult::works("Vercel AI SDK", ("ai", manifest["version"].as_str().unwrap()), name)
}

fn client(server: &Server, major: u32, (chat, what): (&str, &str)) -> Process {
    package(&format!("ai{major}/package.json"));
    let script = script("ai_sdk.mjs", include_str!("ai_sdk.mjs"));
    let mut node = Command::new("node");
    node.arg(&script).args([&major.to_string(), &server.url, chat, what, "Hi there"]);
    Process::start(&mut node)
}

/// Returns what the user sees in the end.
async fn seen(client: Process) -> Value {
    let ended = client.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.output).unwrap_or_else(|_| panic!("{ended:?}"))
}

async fn says(server: &Server, major: u32, what: &str) -> Value {
    seen(client(server, major, (&format!("chat {major}/{what}"), what))).await
}

/// The texts of the last message.
fn texts(seen: &Value) -> Vec<&str> {
    let parts = seen["messages"].as_array().unwrap().last().unwrap()["parts"].as_array().unwrap().iter();
    parts.filter(|part| part["type"] == "text").map(|part| part["text"].as_str().unwrap()).collect()
}

/// Returns the only call of the last message.
fn tool(seen: &Value) -> &Value {
    let parts = seen["messages"].as_array().unwrap().last().unwrap()["parts"].as_array().unwrap();
    parts.iter().find(|part| part["type"] == "dynamic-tool").unwrap_or_else(|| panic!("{seen}"))
}

#[tokio::test]
async fn text_and_tools_reach_every_version() {
    let (world, server) = start().await;
    for major in MAJORS {
        let calculate = ScriptedCall::new("calculate", r#"{"expression":"6*7"}"#).fragments(4);
        world.upstream.script([
            Reply::stream().reasoning("A sum.").text("Let me see.").call(calculate),
            Reply::stream().text("It is ").text("42."),
            Reply::says("Still 42."),
        ]);
        let seen = says(&server, major, "twice").await;
        assert_eq!((&seen["status"], &seen["error"]), (&json!("ready"), &Value::Null), "{major}: {seen}");
        assert_eq!(seen["messages"].as_array().unwrap().len(), 4, "{major}: {seen}");
        assert_eq!(texts(&seen), ["Still 42."], "{major}");
        let answer = &seen["messages"][1];
        assert!(answer["metadata"]["threadId"].as_str().unwrap().starts_with("thr_"), "{answer}");
        assert!(answer["metadata"]["usage"]["inputTokens"].is_u64(), "{answer}");
        let first = json!({ "messages": [answer] });
        assert_eq!(texts(&first), ["Let me see.", "It is 42."], "{major}");
        assert_eq!(
            (&tool(&first)["state"], &tool(&first)["toolName"]),
            (&json!("output-available"), &json!("calculate"))
        );
        // The thread remembers what the client sends again.
        let told = world.upstream.requests().last().unwrap().body["messages"].to_string();
        assert_eq!(told.matches("Hi there").count(), 1, "{told}");
        feature(major, "text").note();
    }
}

#[tokio::test]
async fn an_answer_is_given_again_and_a_failure_is_told() {
    let (world, server) = start().await;
    for major in MAJORS {
        world.upstream.script([Reply::says("One."), Reply::says("Two.")]);
        let seen = says(&server, major, "regenerate").await;
        assert_eq!(
            (texts(&seen), seen["messages"].as_array().unwrap().len()),
            (vec!["Two."], 2),
            "{major}: {seen}"
        );
        world.upstream.script([Reply::status(401).error("invalid_request_error", None, "sk-canary")]);
        let failed = says(&server, major, "say").await;
        assert_eq!(failed["status"], "error", "{major}: {failed}");
        let words = failed["error"].as_str().unwrap();
        assert!(!words.is_empty() && !words.contains("canary"), "{words}");
        feature(major, "regenerate").note();
        feature(major, "errors").note();
    }
}

#[tokio::test]
async fn a_client_that_comes_back_reads_the_answer_under_way() {
    let (world, server) = start().await;
    for major in MAJORS {
        let chat = format!("resumed {major}");
        let nothing = seen(client(&server, major, (&chat, "resume"))).await;
        assert_eq!((&nothing["status"], &nothing["messages"]), (&json!("ready"), &json!([])), "{major}");
        let gate = Gate::new();
        world.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
        let first = client(&server, major, (&chat, "say"));
        gate.reached().await;
        let second = client(&server, major, (&chat, "resume"));
        // Both have what there is before the rest comes.
        for client in [&first, &second] {
            client.errors.line("words").await;
        }
        gate.open();
        for client in [first, second] {
            let seen = seen(client).await;
            assert_eq!((&seen["error"], texts(&seen)), (&Value::Null, vec!["Hello."]), "{major}: {seen}");
        }
        feature(major, "resume").note();
    }
}

#[tokio::test]
async fn the_user_is_asked_and_the_answer_goes_on() {
    let (world, server) = start().await;
    for major in MAJORS.into_iter().filter(|major| *major >= ASKING) {
        for (word, state) in [("approve", "output-available"), ("deny", "output-denied")] {
            world.upstream.script([
                Reply::stream().text("May I?").call(ScriptedCall::new("current_time", "{}")),
                Reply::says("Well."),
            ]);
            let seen = says(&server, major, word).await;
            assert_eq!((&seen["status"], &seen["error"]), (&json!("ready"), &Value::Null), "{major}: {seen}");
            assert_eq!(texts(&seen), ["May I?", "Well."], "{major} {word}: {seen}");
            assert_eq!(tool(&seen)["state"], state, "{major}: {seen}");
            assert_eq!(seen["messages"].as_array().unwrap().len(), 2, "{major}: {seen}");
        }
        feature(major, "approval").note();
    }
    for major in MAJORS.into_iter().filter(|major| *major < ASKING) {
        feature(major, "approval").absent("this version has no approvals").note();
    }
}

#[tokio::test]
async fn a_tool_of_the_client_is_answered_with_add_tool_result_and_the_answer_goes_on() {
    let (world, server) = start().await;
    for major in MAJORS {
        let locate = ScriptedCall::new("locate", r#"{"precise":true}"#).fragments(4);
        let calculate = ScriptedCall::new("calculate", r#"{"expression":"6*7"}"#);
        world.upstream.script([
            Reply::stream().text("Where are you?").call(locate).call(calculate),
            Reply::says("You are in Oslo."),
        ]);
        let seen = says(&server, major, "locate").await;
        assert_eq!((&seen["status"], &seen["error"]), (&json!("ready"), &Value::Null), "{major}: {seen}");
        assert_eq!(texts(&seen), ["Where are you?", "You are in Oslo."], "{major}: {seen}");
        assert_eq!(seen["messages"].as_array().unwrap().len(), 2, "{major}: {seen}");
        let parts = seen["messages"][1]["parts"].as_array().unwrap();
        let located: Vec<&Value> = parts.iter().filter(|part| part["type"] == "tool-locate").collect();
        assert_eq!(located.len(), 1, "{major}: {seen}");
        assert_eq!(
            (&located[0]["state"], &located[0]["output"]),
            (&json!("output-available"), &json!({ "city": "Oslo" })),
            "{major}"
        );
        assert_eq!(tool(&seen)["toolName"], "calculate", "the server's own tool is told beside it: {seen}");
        let told = world.upstream.requests().last().unwrap().body["messages"].to_string();
        assert!(told.contains("Oslo"), "{major}: {told}");
        feature(major, "tools").note();
    }
}

#[tokio::test]
async fn a_step_that_begins_again_is_an_error_or_is_removed() {
    let (world, server) = start().await;
    for major in MAJORS {
        let gate = Gate::new();
        let cut = Reply::stream().text("The ca").wait(&gate).text("t").without_end();
        world.upstream.script([cut, Reply::says("The city.")]);
        let client = client(&server, major, (&format!("reset {major}"), "say"));
        client.errors.line("words").await;
        gate.open();
        let seen = seen(client).await;
        if major >= RESETTING {
            assert_eq!((&seen["error"], texts(&seen)), (&Value::Null, vec!["The city."]), "{major}: {seen}");
            feature(major, "reset").note();
        } else {
            assert!(seen["error"].as_str().unwrap().contains("the answer starts again"), "{major}: {seen}");
            feature(major, "reset")
                .absent("this version can take nothing back; the client shows an error")
                .note();
        }
    }
}

/// An image as `useChat` sends files: a part with a data URL. The next turn sends it again, and it is stored once.
#[tokio::test]
async fn an_image_reaches_the_model_as_a_file_part() {
    let (world, server) = start().await;
    let sees_image = |body: &Value| {
        let messages = body["messages"].as_array().unwrap().iter();
        let parts = messages.filter_map(|message| message["content"].as_array()).flatten();
        parts
            .filter(|part| {
                part["image_url"]["url"].as_str().is_some_and(|url| url.starts_with("data:image/"))
            })
            .count()
    };
    world.upstream.program(move |body| Reply::says(&format!("I see {} picture.", sees_image(body))));
    for major in MAJORS {
        let seen = says(&server, major, "file").await;
        assert_eq!((&seen["status"], &seen["error"]), (&json!("ready"), &Value::Null), "{major}: {seen}");
        assert_eq!(seen["messages"].as_array().unwrap().len(), 4, "{major}: {seen}");
        let first = json!({ "messages": [seen["messages"][1]] });
        assert_eq!(texts(&first), ["I see 1 picture."], "{major}: {seen}");
        assert_eq!(texts(&seen), ["I see 1 picture."], "{major}: the thread keeps it: {seen}");
        feature(major, "file").note();
    }
    let (_, images) = server.get("/v1/apps/demo/images").await;
    assert_eq!(images["data"].as_array().unwrap().len(), 1, "the same image is stored once: {images}");
}
