//! `docs/tutorial.md`, followed to the letter: every file it shows is written, every command it shows is run.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};

use crate::process::Process;
use crate::world::{Server, World};

const PAGE: &str = include_str!("../../../../docs/tutorial.md");

/// A block of the page: what stands after its backticks, and its text.
struct Block<'a> {
    kind: &'a str,
    text: String,
}

fn blocks() -> Vec<Block<'static>> {
    let mut blocks = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let text =
                lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
            blocks.push(Block { kind, text });
        }
    }
    blocks
}

/// The answer of the model once a plant is in the journal, and only then.
const WRITTEN: &str = "It is in your journal.";

/// The answer that the reader types when the chat asks for an approval.
const APPROVAL: &str = "printf 'yes\\n' | ";

/// Plays the model: writes down what was planted, and answers everything else.
fn model(request: &Value) -> Reply {
    let messages = request["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let said = last["content"].to_string();
    let plant = match (said.contains("planted tomatoes"), said.contains("planted beans")) {
        (true, _) => json!({ "name": "Tomatoes", "place": "behind the shed" }),
        (_, true) => json!({ "name": "Beans", "place": "along the fence" }),
        _ => Value::Null,
    };
    if last["role"] == "user" && !plant.is_null() {
        Reply::stream().call(ScriptedCall::new("addPlant", &plant.to_string()))
    } else if last["role"] == "tool" {
        Reply::says(WRITTEN)
    } else {
        Reply::says("Noted. Water them.")
    }
}

/// Runs commands as a reader would, and gives what they print.
async fn run(world: &World, url: &str, text: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_rondo")).parent().unwrap().to_str().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &text.replace("http://127.0.0.1:8787", url)]).current_dir(world.path(""));
    shell.env_clear().env("PATH", format!("{binary}:{}", env!("PATH")));
    let ended = Process::start(&mut shell).ended().await;
    assert_eq!(ended.code, Some(0), "{text}\n{ended:?}");
    ended.output
}

#[tokio::test]
async fn a_newcomer_has_an_app_of_their_own() {
    let world = World::with(&[]).await;
    world.upstream.program(model);
    let mut server: Option<Server> = None;
    let mut said = String::new();
    for Block { kind, text } in blocks() {
        let url = server.as_ref().map_or("", |server| &server.url);
        match kind.split_once(' ') {
            None => said.push_str(&run(&world, url, &text).await),
            Some(("sh", "chat")) => {
                let answer = run(&world, url, &format!("{APPROVAL}{text}")).await;
                assert!(answer.contains(WRITTEN), "the approved call is made: {answer}");
            }
            Some(("sh", "serve")) => {
                assert_eq!(text, "rondo serve\n");
                let mut command = world.rondo(&["serve"]);
                server = Some(Server::start(command.env_remove("RONDO_APPS").env_remove("RONDO_DATA")).await);
            }
            Some((_, file)) => world.write(file, &text),
        }
    }
    let parts = [
        "\"status\":\"waiting\"",
        "event: stream:complete",
        WRITTEN,
        "Tomatoes",
        "Beans",
        "heavy clay",
        "\"undoOf\"",
        "event: run:end",
    ];
    for part in parts {
        assert!(said.contains(part), "{part} is not in what the commands print: {said}");
    }
    assert!(!world.path("apps/garden/records/task.json").exists(), "nothing of the first app is left");
    let (_, plants) = server.unwrap().get("/v1/apps/garden/records/plant").await;
    let names: Vec<&Value> =
        plants["data"].as_array().unwrap().iter().map(|plant| &plant["data"]["name"]).collect();
    assert_eq!(names, ["Tomatoes"], "the beans are undone");
    let requests = world.upstream.requests();
    let last = requests.last().unwrap().body.to_string();
    assert!(last.contains("earth on your hands"), "the persona answers: {last}");
    assert!(last.contains("heavy clay"), "and knows what it was told: {last}");
}
