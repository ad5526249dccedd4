//! A real language model answers: what is promised of the scripted one holds on the wires of a server of other authors.
//!
//! One test, because the model is one: loading it again for each would take longer than asking it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use model::{AnthropicVersion, Capabilities, ProviderKind, ProviderWire, SchemaSupport};
use serde_json::{Value, json};
use testkit::real::{CONTEXT_WINDOW, RealModel};
use testkit::{Frame, Setup, TestApp};

/// The protocols that the model's server speaks.
const WIRES: [ProviderWire; 4] = [
    ProviderWire::Chat,
    ProviderWire::Responses,
    ProviderWire::Anthropic(AnthropicVersion::V2023),
    ProviderWire::Anthropic(AnthropicVersion::V2026),
];

/// Tokens of an answer: enough to stream, and soon over.
const SHORT: u32 = 24;

/// Tokens of an answer that lasts long enough to be cut.
const LONG: u32 = 1000;

/// Tokens of an object.
const OBJECT: u32 = 200;

const RUNS: &str = "/v1/apps/test/runs";
const TUTOR: &str = "answer = \"structured\"\n[memory]\ninject = \"all\"";

async fn start(real: &RealModel, wire: ProviderWire, app: &str) -> TestApp {
    let capabilities =
        Capabilities { structured: SchemaSupport::Alone, ..Capabilities::of_kind(ProviderKind::Local) };
    TestApp::with(Setup { wire, base_url: Some(real.base_url()), capabilities, ..Setup::app(app) }).await
}

fn ask(message: &str, max_tokens: u32) -> Value {
    json!({ "message": message, "settings": { "temperature": 0, "maxTokens": max_tokens } })
}

async fn answered(app: &TestApp, message: &str) -> Vec<Frame> {
    app.stream(RUNS, &ask(message, SHORT)).await.all().await
}

fn deltas(frames: &[Frame]) -> Vec<&str> {
    let deltas = frames.iter().filter(|frame| frame.event == "text:delta");
    deltas.map(|frame| frame.data["delta"].as_str().unwrap()).collect()
}

fn first<'a>(frames: &'a [Frame], event: &str) -> &'a Value {
    let found = frames.iter().find(|frame| frame.event == event);
    &found.unwrap_or_else(|| panic!("there is no {event}: {frames:#?}")).data
}

fn end(frames: &[Frame]) -> &Value {
    let last = frames.last().unwrap();
    assert_eq!(last.event, "run:end", "{frames:#?}");
    &last.data
}

fn thread(frames: &[Frame]) -> &str {
    first(frames, "run:start")["threadId"].as_str().unwrap()
}

/// The text of the thread's last message, which must be the model's.
async fn stored(app: &TestApp, thread: &str) -> String {
    let messages = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    let last = messages["data"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "assistant", "{messages:#}");
    last["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_real_model_answers_on_every_wire() {
    let real = RealModel::start().await;
    for wire in WIRES {
        let app = start(&real, wire, "").await;
        its_answer_streams_is_stored_and_is_counted(&app, wire).await;
        a_cancel_keeps_what_was_said(&app, wire).await;
        a_prompt_beyond_its_window_is_shortened(&real, wire).await;
    }
    the_same_question_has_the_same_answer(&start(&real, ProviderWire::Chat, "").await).await;
    an_object_is_whole_and_its_text_streams(&start(&real, ProviderWire::Chat, TUTOR).await).await;
    memories_are_named_by_their_ids_only(&start(&real, ProviderWire::Chat, TUTOR).await).await;
    for wire in WIRES.into_iter().filter(|wire| *wire != ProviderWire::Chat) {
        a_schema_that_the_server_ignores_costs_no_answer(&start(&real, wire, TUTOR).await, wire).await;
    }
}

async fn its_answer_streams_is_stored_and_is_counted(app: &TestApp, wire: ProviderWire) {
    let frames = answered(app, "Name three animals.").await;
    assert_eq!(end(&frames)["status"], "completed", "{wire:?}: {frames:#?}");
    let parts = deltas(&frames);
    assert!(parts.len() > 1, "{wire:?}: the answer came in one piece: {parts:?}");
    let text = parts.concat();
    let complete = first(&frames, "stream:complete");
    assert_eq!(complete["text"], text, "{wire:?}: the parts are the whole");
    assert_eq!(stored(app, thread(&frames)).await, text, "{wire:?}: the whole is what is stored");
    let usage = &complete["usage"];
    assert_eq!(usage.get("estimated"), None, "{wire:?}: this server counts: {usage}");
    let output = usage["outputTokens"].as_u64().unwrap();
    assert!(usage["inputTokens"].as_u64().unwrap() > 0, "{wire:?}: {usage}");
    assert!((2..=u64::from(SHORT)).contains(&output), "{wire:?}: {usage}");
}

async fn a_cancel_keeps_what_was_said(app: &TestApp, wire: ProviderWire) {
    let mut stream = app.stream(RUNS, &ask("Tell me a very long story about the sea.", LONG)).await;
    let mut frames = stream.read_until("text:delta").await;
    frames.extend(stream.read_until("text:delta").await);
    let run = first(&frames, "run:start")["runId"].as_str().unwrap();
    assert_eq!(app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await.status, 202);
    frames.extend(stream.all().await);
    assert_eq!(end(&frames)["status"], "cancelled", "{wire:?}: {frames:#?}");
    let text = deltas(&frames).concat();
    assert_eq!(stored(app, thread(&frames)).await, text, "{wire:?}: what was said before is kept");
    let usage = &first(&frames, "step:end")["usage"];
    assert_eq!(usage["estimated"], true, "{wire:?}: nobody counts an answer that was cut: {usage}");
}

/// The registry believes in a larger window than the server has, so only the server's refusal tells.
async fn a_prompt_beyond_its_window_is_shortened(real: &RealModel, wire: ProviderWire) {
    let capabilities = Capabilities { context_window: 100_000, ..Capabilities::of_kind(ProviderKind::Local) };
    let base_url = Some(real.base_url());
    let app = TestApp::with(Setup { wire, base_url, capabilities, ..Setup::app("") }).await;
    let retries = |frames: &[Frame]| frames.iter().filter(|frame| frame.event == "step:retry").count();
    if wire == ProviderWire::Chat {
        // Half of it fits; reading that much takes a while, so one wire is enough.
        let frames = answered(&app, &"word ".repeat(CONTEXT_WINDOW as usize + 1000)).await;
        assert_eq!((&end(&frames)["status"], retries(&frames)), (&json!("completed"), 1), "{frames:#?}");
        assert!(first(&frames, "step:end")["prompt"]["messageBytes"].is_number(), "{frames:#?}");
    }
    let frames = answered(&app, &"word ".repeat(CONTEXT_WINDOW as usize * 4)).await;
    assert_eq!(end(&frames)["error"]["code"], "context_too_long", "{wire:?}: {frames:#?}");
    assert_eq!(retries(&frames), 1, "{wire:?}: one try with less: {frames:#?}");

    let body = json!({
        "message": "Say hello.", "threadId": thread(&frames),
        "settings": { "temperature": 0, "maxTokens": SHORT },
    });
    let frames = app.stream(RUNS, &body).await.all().await;
    assert_eq!(end(&frames)["status"], "completed", "{wire:?}: the long message is left out: {frames:#?}");
    assert_eq!(retries(&frames), 0, "{wire:?}: {frames:#?}");
}

async fn the_same_question_has_the_same_answer(app: &TestApp) {
    // The first time the server works out the whole prompt, and later it remembers most of it.
    answered(app, "What is the sea?").await;
    let (one, other) = (answered(app, "What is the sea?").await, answered(app, "What is the sea?").await);
    assert_eq!(deltas(&one).concat(), deltas(&other).concat());
}

async fn an_object_is_whole_and_its_text_streams(app: &TestApp) {
    let mut whole = 0;
    for question in ["Say hello.", "Name an animal.", "What is the sea?"] {
        let frames = app.stream(RUNS, &ask(question, OBJECT)).await.all().await;
        whole += usize::from(is_whole_object(app, &frames, &[]).await);
    }
    assert!(whole > 0, "none of the answers was an object with a text");
}

async fn memories_are_named_by_their_ids_only(app: &TestApp) {
    let made = app.post("/v1/apps/test/memories", &json!({ "text": "likes trains" })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let frames = app.stream(RUNS, &ask("Say hello.", OBJECT)).await.all().await;
    assert!(is_whole_object(app, &frames, &[&made.body["id"]]).await, "{frames:#?}");
}

/// Whether the answer was an object with a text that came in parts. A small model does not always find the end of one,
/// and then only the run has to end well.
async fn is_whole_object(app: &TestApp, frames: &[Frame], memories: &[&Value]) -> bool {
    assert_eq!(end(frames)["status"], "completed", "{frames:#?}");
    let (step, complete) = (first(frames, "step:end"), first(frames, "stream:complete"));
    let named = complete["memoriesReferenced"].as_array().unwrap();
    assert!(named.iter().all(|id| memories.contains(&id)), "{named:?}");
    if step["finish"] != "stop" {
        return false;
    }
    let (parts, text) = (deltas(frames), complete["text"].as_str().unwrap());
    assert!(step["structured"].is_object(), "an answer that ends is an object: {step}");
    assert_eq!(step["structured"].get("dropped"), None, "the schema lists the memories: {step}");
    assert!(!text.contains("memoriesReferenced"), "people read the text and not the object: {text}");
    assert_eq!(parts.concat(), text, "{frames:#?}");
    assert_eq!(stored(app, thread(frames)).await, text);
    parts.len() > 1
}

/// A server that does not know of schemas answers in words, and these are the answer.
async fn a_schema_that_the_server_ignores_costs_no_answer(app: &TestApp, wire: ProviderWire) {
    let frames = answered(app, "Say hello.").await;
    assert_eq!(end(&frames)["status"], "completed", "{wire:?}: {frames:#?}");
    let text = deltas(&frames).concat();
    assert!(!text.is_empty(), "{wire:?}: {frames:#?}");
    assert_eq!(stored(app, thread(&frames)).await, text, "{wire:?}");
}
