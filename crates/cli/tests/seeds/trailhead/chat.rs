//! `POST /api/chat`: the same conversation for a front end that speaks the AI SDK's stream.

use reqwest::Method;
use serde_json::json;

use super::*;

fn user(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// The chunks of an answer, and the thread it belongs to.
async fn chat(server: &Server, chat: &str, messages: &[Value]) -> (Vec<Value>, String) {
    let body = json!({ "id": chat, "messages": messages, "trigger": "submit-message" });
    let response = server.request(Method::POST, "/api/chat").json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-vercel-ai-ui-message-stream"], "v1");
    let thread = response.headers()["x-thread-id"].to_str().unwrap().to_owned();
    let text = response.text().await.unwrap();
    let rest = text.strip_suffix("data: [DONE]\n\n").expect("a stream ends with its farewell");
    let data = rest.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    (data.map(|data| serde_json::from_str(data).unwrap()).collect(), thread)
}

fn said(chunks: &[Value]) -> String {
    let deltas = chunks.iter().filter(|chunk| chunk["type"] == "text-delta");
    deltas.map(|chunk| chunk["delta"].as_str().unwrap()).collect()
}

fn the<'a>(chunks: &'a [Value], kind: &str) -> &'a Value {
    chunks.iter().find(|chunk| chunk["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {chunks:?}"))
}

#[tokio::test]
async fn a_chat_front_end_sends_a_message_and_gets_the_words_as_a_stream() {
    let (product, server) = with_sample().await;
    plays(&product, |_, _| Reply::stream().text("What do ").text("you notice?"));
    let (chunks, thread) = chat(&server, "first", &[user("It is here again.")]).await;
    assert_eq!((said(&chunks).as_str(), &chunks[0]["type"]), ("What do you notice?", &json!("start")));
    assert_eq!(chunks.last().unwrap()["type"], "finish");
    let (_, view) = server.get(&format!("/v1/threads/{thread}")).await;
    assert_eq!((&view["appId"], &view["messageCount"]), (&json!(APP), &json!(2)), "{view}");
}

#[tokio::test]
async fn a_chat_front_end_sees_the_tools_at_work() {
    let (product, server) = with_sample().await;
    plays_calls(&product, &[("searchParts", json!({ "query": "proofreader" }))]);
    let (chunks, _) = chat(&server, "first", &[user("Who is it?")]).await;
    let input = the(&chunks, "tool-input-available");
    assert_eq!(
        (&input["toolName"], &input["input"]["query"]),
        (&json!("searchParts"), &json!("proofreader"))
    );
    let output = the(&chunks, "tool-output-available");
    assert_eq!(output["toolCallId"], input["toolCallId"]);
    assert!(output["output"].to_string().contains("The Proofreader"), "{output}");
    assert_eq!(said(&chunks), "Done.");
}

#[tokio::test]
async fn a_chat_front_end_goes_on_with_what_was_said_before() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("I hear you."));
    let (first, thread) = chat(&server, "first", &[user("It began at school.")]).await;
    let answer = json!({ "role": "assistant", "parts": [{ "type": "text", "text": said(&first) }] });
    let (_, same) = chat(&server, "first", &[user("It began at school."), answer, user("And now?")]).await;
    assert_eq!(same, thread);
    let body = asked(&product).pop().unwrap();
    let spoken = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system");
    let texts: Vec<&str> = spoken.map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["It began at school.", "I hear you.", "And now?"]);
}
