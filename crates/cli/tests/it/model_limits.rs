//! Limits of a model are named before a person waits for it, with the way to a better model.

use serde_json::json;
use testkit::upstream::Reply;

use crate::process::Process;
use crate::world::{Server, World};

/// A model of the scripted upstream that is not offered tools.
const SMALL: &str = "model = 'small'\n[models.small]\nprovider = 'openai'\ntools = false\n";

const STUDIO_NOTE: &str = "small is not offered tools, so these are off: current_time, calculate; use another model (set \
    OPENAI_API_KEY or ANTHROPIC_API_KEY), or, if small can call tools, write tools = true into [models.\"small\"] of \
    rondo.toml";

/// A world whose only model runs in the process. Its weights are good enough to be listed.
async fn with_pulled_model() -> World {
    let world = World::new().await;
    let bytes: Vec<u8> = b"GGUF\x03\0\0\0".iter().copied().chain([7; 992]).collect();
    std::fs::write(world.path("Tiny-F16.gguf"), bytes).unwrap();
    let pulled = world.run(&["models", "pull", "Tiny-F16.gguf", "--name", "tiny"]).await;
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    world
}

#[tokio::test]
async fn the_server_names_the_tools_that_are_off_in_its_log_and_in_its_lists() {
    let world = World::with(&["studio", "tutor"]).await;
    world.write("rondo.toml", SMALL);
    let server = world.serve().await;
    let log = server.process.errors.text();
    assert_eq!(
        log.matches(" is not offered tools, so these are off: ").count(),
        2,
        "a line for each app: {log}"
    );
    assert!(log.contains(&format!("app studio: {STUDIO_NOTE}")), "{log}");
    assert!(!log.contains("are often wrong"), "nobody knows how large it is: {log}");
    let (_, models) = server.get("/v1/models").await;
    let small = models["data"].as_array().unwrap().iter().find(|model| model["id"] == "small").unwrap();
    assert_eq!(small["tools"], json!(false));
    let (_, apps) = server.get("/v1/apps").await;
    let studio = &apps["data"][0];
    assert_eq!(
        (&studio["model"], &studio["tools"]),
        (&json!("small"), &json!(["current_time", "calculate"]))
    );
    server.process.kill();

    world.write("rondo.toml", &SMALL.replace("false", "true"));
    let server = world.serve().await;
    assert!(!server.process.errors.text().contains("is not offered tools"));
}

#[tokio::test]
async fn doctor_and_init_name_the_tools_that_are_off() {
    let world = World::new().await;
    world.write("rondo.toml", SMALL);
    let doctor = world.run(&["doctor"]).await;
    let note = format!("note  app studio: {STUDIO_NOTE}");
    assert!(doctor.output.lines().any(|line| line == note), "{doctor:?}");
    let mut command = world.rondo(&["doctor"]);
    let doctor = Process::start(command.env_remove("RONDO_APPS")).ended().await;
    let note =
        "note  model: small is not offered tools, so these are off: the tools of the built-in apps; use ";
    assert!(doctor.output.contains(note), "{doctor:?}");

    let made = world.run(&["init", "garden", "--apps", "mine"]).await;
    assert_eq!((made.code, made.errors.as_str()), (Some(0), ""), "{made:?}");
    let (before, note) =
        made.output.split_once("\nNote: small is not offered tools, so these are off: ").unwrap();
    assert!(before.contains("\nTry this:\n"), "{made:?}");
    for tool in ["current_time", "addTask", "rondo.toml.\nThen change instructions.md"] {
        assert!(note.contains(tool), "{tool}: {made:?}");
    }
    world.write("rondo.toml", &SMALL.replace("false", "true"));
    let made = world.run(&["init", "forest", "--apps", "mine"]).await;
    assert!(made.code == Some(0) && !made.output.contains("Note:"), "{made:?}");
    std::fs::remove_file(world.path("rondo.toml")).unwrap();
    let mut init = world.rondo(&["init", "meadow", "--apps", "mine"]);
    let made = Process::start(init.env_remove("OPENAI_BASE_URL")).ended().await;
    assert!(made.output.contains("\nNote: no model is configured yet: set OPENAI_API_KEY or "), "{made:?}");
    world.upstream.violations(); // it does not list its models
}

#[tokio::test]
async fn one_question_on_a_terminal_is_answered_after_the_same_note() {
    let world = World::new().await;
    world.write("rondo.toml", SMALL);
    world.upstream.program(|_| Reply::says("Hello there."));
    let shown = Process::on_a_terminal(&world.rondo(&["chat", "Hello"])).ended().await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let (before, _) = shown.output.split_once("Hello there.").unwrap();
    assert!(
        before.contains("[small is not offered tools, so these are off: current_time, calculate; "),
        "{shown:?}"
    );
    let piped = world.run(&["chat", "Hello"]).await;
    assert_eq!(
        (piped.output.as_str(), piped.errors.as_str()),
        ("Hello there.\n", ""),
        "a program is told nothing"
    );
}

#[tokio::test]
async fn answers_of_a_small_model_in_the_process_are_said_to_be_often_wrong() {
    let world = with_pulled_model().await;
    let note = "answers of tiny are often wrong, because the model is small; for better answers set OPENAI_API_KEY or \
                ANTHROPIC_API_KEY, or start Ollama, or pull a larger model with `rondo models pull qwen2.5-coder-1.5b`";
    let server = Server::start(world.rondo(&["serve"]).env_remove("OPENAI_BASE_URL")).await;
    let log = server.process.errors.text();
    assert!(log.contains(note) && log.contains("app studio: tiny is not offered tools"), "{log}");
    let mut chat = world.rondo(&["chat", "--url", &server.url]);
    let chat = Process::on_a_terminal(chat.env_remove("OPENAI_BASE_URL").env("TERM", "dumb"));
    chat.output.contains(&format!("[{note}]")).await;
    assert!(
        chat.output.text().contains("[tiny is not offered tools, so these are off: "),
        "{}",
        chat.output.text()
    );
    chat.output
        .contains("[tiny computes on the processor of the server: the first answer of an app can")
        .await;
    chat.kill();
    server.process.kill();

    let doctor = Process::start(world.rondo(&["doctor"]).env_remove("OPENAI_BASE_URL")).ended().await;
    assert!(doctor.output.contains(&format!("note  model: {note}\n")), "{doctor:?}");
    let server = world.serve().await; // with a provider beside it, it is not the default
    assert!(!server.process.errors.text().contains("are often wrong"));
}

/// The terminal and the AI SDK's front end talk to one app when the user names no other.
#[tokio::test]
async fn a_chat_and_a_chat_front_end_have_one_default_app() {
    for (configured, expected) in [(None, "studio"), (Some("tutor"), "tutor")] {
        let world = World::with(&["studio", "trailhead", "tutor"]).await;
        world.upstream.program(|_| Reply::says(r#"{"memoriesReferenced": [], "response": "Hello."}"#));
        let rondo = |args: &[&str]| {
            let mut command = world.rondo(args);
            command.envs(configured.map(|app| ("RONDO_CHAT_APP", app)));
            command
        };
        let ended = Process::start(&mut rondo(&["chat", "Hello"])).ended().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let server = Server::start(&mut rondo(&["serve"])).await;
        let message = json!({ "role": "user", "parts": [{ "type": "text", "text": "Hello" }] });
        let body = json!({ "id": "first", "messages": [message], "trigger": "submit-message" });
        let (status, _) = server.post("/api/chat", &body).await;
        assert_eq!(status, 200);
        let (_, threads) = server.get(&format!("/v1/apps/{expected}/threads")).await;
        assert_eq!(threads["data"].as_array().map(Vec::len), Some(2), "{configured:?}: {threads}");
    }
    let world = World::with(&["studio", "tutor"]).await;
    let ended = Process::start(world.rondo(&["chat", "Hello"]).env("RONDO_CHAT_APP", "gone")).ended().await;
    let expected = "rondo: there is no app \"gone\"; there is studio, tutor\n";
    assert_eq!((ended.code, ended.errors.as_str()), (Some(1), expected));
}
