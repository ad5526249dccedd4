//! Answers as they come: deltas, their end, a stop in the middle, and what happens when the model fails.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply};

use super::{MARKER, answers, asked, kalito, results, searching, sunny};
use crate::product::{Product, calls, of, status};
use crate::world::Server;

/// The key that the provider takes.
const KEY: &str = "sk-kalito";

/// An open stream of deltas.
async fn deltas(product: &Product, server: &Server, message: &str) -> reqwest::Response {
    let path = product.path("runs?format=delta");
    let response =
        server.request(Method::POST, &path).json(&json!({ "message": message })).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

fn chunks(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_model_that_fails_is_excused_and_its_error_is_kept_from_the_user() {
    let product = kalito().await;
    answers(&product, |_| {
        Reply::status(401).error("invalid_request_error", None, "bad key sk-canary at /srv/app.ts")
    });
    let server = product.serve().await;
    let frames = product.say(&server, "Hello").await;
    let text = of(&frames, "stream:complete")[0]["text"].as_str().unwrap();
    assert!(text.starts_with("My model does not let me in"), "{text}");
    assert_eq!(status(&frames), "completed");
    assert!(!format!("{frames:?}").contains("canary"), "{frames:?}");
    let thread = of(&frames, "run:start")[0]["threadId"].as_str().unwrap();
    let (_, messages) = server.get(&format!("/v1/threads/{thread}/messages")).await;
    assert_eq!(messages["data"][0]["text"], "Hello", "what was said is not lost");
}

#[tokio::test]
async fn text_comes_as_the_model_writes_it_and_the_last_chunk_says_so() {
    let product = kalito().await.env("OPENAI_API_KEY", KEY);
    product.upstream().require_key(KEY);
    let gate = Gate::new();
    let held = gate.clone();
    answers(&product, move |_| Reply::stream().text("Two").wait(&held).text(" pills.").usage(40, 5));
    let server = product.serve().await;
    let mut response = deltas(&product, &server, "How many?").await;
    let begun = response.chunk().await.unwrap().unwrap();
    assert_eq!(begun, "data: {\"delta\":\"Two\"}\n\n", "the model has not ended yet");
    gate.open();
    let rest = chunks(&response.text().await.unwrap());
    let (last, texts) = rest.split_last().unwrap();
    let text: String = texts.iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect();
    assert_eq!(text, " pills.");
    assert!(texts.iter().all(|chunk| chunk.get("done").is_none() && chunk.get("tokenUsage").is_none()));
    assert_eq!(last, &json!({ "delta": "", "done": true, "tokenUsage": 45 }));
}

#[tokio::test]
async fn a_stream_needs_one_call_where_no_tool_is_wanted() {
    let product = kalito().await.env("OPENAI_API_KEY", KEY);
    product.upstream().require_key(KEY);
    let server = product.serve().await;
    let streamed = chunks(&deltas(&product, &server, "Hello").await.text().await.unwrap());
    assert_eq!(streamed[0]["delta"], "So it is.", "no marker without a search");
    assert_eq!(asked(&product).len(), 1);
    let body = &asked(&product)[0];
    assert_eq!(body["stream"], true);
    assert!(!body["tools"].as_array().unwrap().is_empty(), "tools are on offer in the stream itself");
}

#[tokio::test]
async fn a_search_is_announced_in_the_stream_before_anything_is_found() {
    let gate = Gate::new();
    let (web, product, server) = searching([sunny().wait(&gate)]).await;
    answers(&product, |body| match results(body).len() {
        0 => calls(&[("tavily_search", json!({ "query": "bitcoin price" }))]),
        _ => Reply::stream().text("It is").text(" $43,250.").usage(40, 5),
    });
    let mut response = deltas(&product, &server, "What's the current Bitcoin price?").await;
    let begun = response.chunk().await.unwrap().unwrap();
    assert_eq!(chunks(std::str::from_utf8(&begun).unwrap()), [json!({ "delta": MARKER })]);
    web.wait_for(1).await;
    gate.open();
    let rest = chunks(&response.text().await.unwrap());
    let text: String = rest.iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "It is $43,250.");
    assert_eq!(rest.last().unwrap(), &json!({ "delta": "", "done": true, "tokenUsage": 60 }));
    assert_eq!(asked(&product).len(), 2, "nothing was asked only to see whether a tool is wanted");
}

#[tokio::test]
async fn a_stream_and_a_whole_answer_say_the_same() {
    let (_web, product, server) = searching([sunny(), sunny()]).await;
    answers(&product, |body| match results(body).len() {
        0 => calls(&[("tavily_search", json!({ "query": "weather" }))]),
        _ => Reply::says("It is 65°F."),
    });
    let streamed = chunks(&deltas(&product, &server, "What's the weather?").await.text().await.unwrap());
    let text: String = streamed.iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect();
    let whole = product.answer(&server, json!({ "message": "What's the weather?" })).await;
    assert_eq!(whole["reply"], text);
    assert!(text.starts_with(MARKER), "{text}");
    assert_eq!(whole["tokenUsage"], streamed.last().unwrap()["tokenUsage"]);
}

#[tokio::test]
async fn an_answer_can_be_stopped_in_the_middle_and_what_was_said_is_kept() {
    let product = kalito().await.env("OPENAI_API_KEY", KEY);
    product.upstream().require_key(KEY);
    let gate = Gate::new();
    let held = gate.clone();
    answers(&product, move |_| Reply::stream().text("Two").wait(&held).text(" pills."));
    let server = product.serve().await;
    let mut response = deltas(&product, &server, "How many?").await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let (run, thread) = (header("x-run-id"), header("x-thread-id"));
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: {\"delta\":\"Two\"}\n\n");
    assert_eq!(server.post(&format!("/v1/runs/{run}/cancel"), &Value::Null).await.0, 202);
    let last = chunks(&response.text().await.unwrap()).pop().unwrap();
    assert_eq!((&last["done"], &last["error"]["code"]), (&json!(true), &json!("cancelled")), "{last}");
    let (_, messages) = server.get(&format!("/v1/threads/{thread}/messages")).await;
    assert_eq!(messages["data"][1]["text"], "Two", "{messages}");
    gate.open();
}

#[tokio::test]
async fn a_provider_that_is_busy_is_asked_again_within_the_stream() {
    let product = kalito().await.env("OPENAI_API_KEY", KEY);
    product.upstream().require_key(KEY);
    product.upstream().script([Reply::status(429).header("retry-after", "0")]);
    let server = product.serve().await;
    let streamed = chunks(&deltas(&product, &server, "Hello").await.text().await.unwrap());
    let text: String = streamed.iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect();
    assert_eq!((text.as_str(), asked(&product).len()), ("So it is.", 2));
    assert_eq!(streamed.last().unwrap()["done"], true);
}

#[tokio::test]
async fn what_the_user_reads_after_a_failure_depends_on_why() {
    let product = kalito().await;
    let server = product.serve().await;
    let error = |status: u16, code: &str| Reply::status(status).error("error", Some(code), "no");
    for (reply, code, begins) in [
        (
            error(404, "model_not_found"),
            "provider_model_not_found",
            "The model that was chosen does not exist.",
        ),
        (error(401, "invalid_api_key"), "provider_auth", "My model does not let me in"),
        (error(429, "insufficient_quota"), "provider_quota", "What I may spend is used up"),
        (error(400, "odd"), "provider_rejected", "I could not reach my model just now."),
    ] {
        answers(&product, move |_| reply.clone());
        let frames = product.say(&server, "Hello").await;
        let text = of(&frames, "stream:complete")[0]["text"].as_str().unwrap();
        assert!(text.starts_with(begins) && text.contains("emergency"), "{code}: {text}");
        let ended = of(&frames, "step:end")[0];
        assert_eq!(ended["error"]["code"], code);
        let named = ended["error"]["message"].as_str().unwrap().contains("\"gpt-6-luna\"");
        assert_eq!(
            named,
            code == "provider_model_not_found",
            "who is told that there is none learns which: {ended}"
        );
    }
}
