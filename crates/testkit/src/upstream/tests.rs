//! The upstream itself, spoken to over a bare socket.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Observer, Received, Reply, ReplyEnding, ScriptedCall, Upstream};
use crate::listen::Watched;

const CHAT: &str = "/v1/chat/completions";
const GOOD: &str = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}"#;

/// Sends one request and reads until the upstream closes.
async fn post(upstream: &Upstream, json: &str) -> String {
    post_to(upstream, CHAT, json).await
}

async fn post_to(upstream: &Upstream, path: &str, json: &str) -> String {
    let mut socket = TcpStream::connect(upstream.address).await.unwrap();
    let fixed = "Anthropic-Version: 2026-10-21\r\nContent-Type: application/json";
    let head = format!("POST {path} HTTP/1.1\r\n{fixed}\r\nContent-Length:");
    socket.write_all(format!("{head} {}\r\n\r\n{json}", json.len()).as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
#[should_panic(expected = "the upstream saw requests a provider would refuse")]
async fn a_violation_that_is_not_taken_fails_the_test() {
    let upstream = Upstream::start().await;
    post(&upstream, r#"{"model":"m"}"#).await;
}

#[tokio::test]
async fn a_violation_is_answered_and_costs_no_reply() {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("x").without_end().cut_after(usize::MAX)]);
    let refused = post(&upstream, r#"{"model":"m"}"#).await;
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    assert!(refused.contains("Missing required parameter: 'messages'."), "{refused}");
    assert_eq!(upstream.violations(), ["Missing required parameter: 'messages'."]);
    let answered = post(&upstream, GOOD).await;
    let chunk = r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763172000,"model":"m","#;
    let rest = r#""usage":null,"choices":[{"index":0,"finish_reason":null,"delta":{"content":"x"}}]}"#;
    let head = "HTTP/1.1 200 Scripted\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    assert_eq!(answered, format!("{head}data: {chunk}{rest}\n\n"));
    assert_eq!(upstream.closed(1).await.written, answered.len());
}

#[tokio::test]
async fn a_cut_is_exact_to_the_byte() {
    let upstream = Upstream::start().await;
    upstream.program(|_| Reply::sse("0123456789").split_at([2, 4]).cut_after(5));
    assert!(post(&upstream, GOOD).await.ends_with("\r\n\r\n01234"));
    upstream.script([Reply::sse("0123456789").split_at([2, 4])]);
    let whole = post(&upstream, GOOD).await;
    assert!(whole.ends_with("\r\n\r\n2\r\n01\r\n2\r\n23\r\n6\r\n456789\r\n0\r\n\r\n"), "{whole}");
}

/// Returns the outcome of a script on a path: the kind of content, and the body.
async fn answer_at(path: &str, reply: Reply, stream: bool) -> (String, String) {
    let upstream = Upstream::start().await;
    upstream.script([reply.cut_after(usize::MAX)]);
    let mut body = json!({"model": "m", "stream": stream});
    match path {
        "/v1/responses" => body["input"] = json!("x"),
        _ => body["messages"] = json!([{"role": "user", "content": "x"}]),
    }
    if path == "/v1/messages" {
        body["max_tokens"] = json!(10);
    }
    let answer = post_to(&upstream, path, &body.to_string()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
    (kind.to_owned(), body.to_owned())
}

fn script() -> Reply {
    let call = ScriptedCall::new("add", r#"{"a":1}"#).fragments(4);
    Reply::stream().reasoning("Hm.").text("Hel").text("lo").call(call).usage(30, 7)
}

/// The names of the events, each of which must also be in its data, and the data.
fn events(body: &str) -> (Vec<&str>, Vec<Value>) {
    body.split_terminator("\n\n").map(named).unzip()
}

fn named(event: &str) -> (&str, Value) {
    let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["type"], name);
    (name, data)
}

#[tokio::test]
async fn responses_are_written_with_every_event_of_their_life() {
    let (kind, body) = answer_at("/v1/responses", script(), true).await;
    assert_eq!(kind, "text/event-stream");
    let (names, data) = events(&body);
    let short: Vec<&str> = names.iter().map(|name| name.trim_start_matches("response.")).collect();
    assert_eq!(
        short.join(" "),
        "created in_progress \
         output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done \
         reasoning_summary_part.done output_item.done \
         output_item.added content_part.added output_text.delta output_text.delta output_text.done \
         content_part.done output_item.done \
         output_item.added function_call_arguments.delta function_call_arguments.delta \
         function_call_arguments.done output_item.done completed"
    );
    for (at, event) in data.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    let whole = &data.last().unwrap()["response"];
    assert_eq!(whole["output"][0]["encrypted_content"], "sealed_0");
    assert_eq!(whole["output"][1]["content"][0]["text"], "Hello");
    assert_eq!(whole["output"][2]["arguments"], r#"{"a":1}"#);
    assert_eq!((&whole["usage"]["input_tokens"], &whole["usage"]["output_tokens"]), (&json!(30), &json!(7)));
    let (kind, body) = answer_at("/v1/responses", script(), false).await;
    assert_eq!((kind.as_str(), &serde_json::from_str::<Value>(&body).unwrap()), ("application/json", whole));
    for (reason, detail) in [("length", "max_output_tokens"), ("content_filter", "content_filter")] {
        let (_, body) = answer_at("/v1/responses", Reply::says("x").finish(reason), true).await;
        let (names, data) = events(&body);
        let response = &data.last().unwrap()["response"];
        assert_eq!(names.last(), Some(&"response.incomplete"));
        assert_eq!(
            (&response["status"], &response["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!(detail))
        );
    }
}

#[tokio::test]
async fn messages_are_written_in_blocks() {
    let (kind, body) = answer_at("/v1/messages", script(), true).await;
    assert_eq!(kind, "text/event-stream");
    let (names, data) = events(&body);
    let short: Vec<&str> = names.iter().map(|name| name.trim_start_matches("content_block_")).collect();
    assert_eq!(
        short.join(" "),
        "message_start ping start delta delta stop start delta delta stop start delta delta delta stop \
         message_delta message_stop"
    );
    assert_eq!(data[4]["delta"], json!({"type": "signature_delta", "signature": "signature_0"}));
    let kinds: Vec<&Value> = data.iter().filter_map(|event| event.pointer("/content_block/type")).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    let (_, whole) = answer_at("/v1/messages", script(), false).await;
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["content"][2]["input"], json!({"a": 1}));
    assert_eq!(whole["usage"], json!({"input_tokens": 30, "output_tokens": 7}));
    for (reason, stop) in [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("content_filter", "refusal"),
        ("pause_turn", "pause_turn"),
    ] {
        let (_, body) = answer_at("/v1/messages", Reply::says("x").finish(reason), false).await;
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["stop_reason"], stop);
    }
}

#[tokio::test]
async fn ollama_writes_a_line_an_event() {
    let (kind, body) = answer_at("/api/chat", script().finish("length"), true).await;
    assert_eq!(kind, "application/x-ndjson");
    let lines: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["message"], json!({"role": "assistant", "content": "", "thinking": "Hm."}));
    let call = json!({"id": "call_0", "function": {"index": 0, "name": "add", "arguments": {"a": 1}}});
    assert_eq!(lines[3]["message"]["tool_calls"], json!([call]));
    let end = &lines[4];
    assert_eq!((&end["done"], &end["done_reason"]), (&json!(true), &json!("length")));
    assert_eq!((&end["prompt_eval_count"], &end["eval_count"]), (&json!(30), &json!(7)));
    let (_, whole) = answer_at("/api/chat", script(), false).await;
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!((&whole["message"]["content"], &whole["done_reason"]), (&json!("Hello"), &json!("stop")));
}

#[tokio::test]
async fn a_completion_is_written_whole_for_who_wants_no_stream() {
    let (kind, body) = answer_at(CHAT, script(), false).await;
    let whole: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((kind.as_str(), &whole["object"]), ("application/json", &json!("chat.completion")));
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("Hello"), &json!("tool_calls"))
    );
    let function = &choice["message"]["tool_calls"][0]["function"];
    assert_eq!(function, &json!({"name": "add", "arguments": r#"{"a":1}"#}));
}

#[tokio::test]
async fn an_error_has_the_shape_of_its_wire() {
    let refusal = || Reply::status(429).error("rate_limit_error", Some("slow_down"), "wait");
    let openai =
        json!({"error": {"message": "wait", "type": "rate_limit_error", "param": null, "code": "slow_down"}});
    let anthropic = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "wait"}});
    for (path, expected) in [
        (CHAT, openai.clone()),
        ("/v1/responses", openai),
        ("/v1/messages", anthropic),
        ("/api/chat", json!({"error": "wait"})),
    ] {
        let (_, body) = answer_at(path, refusal(), true).await;
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected, "{path}");
        let (_, body) = answer_at(path, Reply::says("x").error("server_error", None, "oh"), true).await;
        let end = body.trim_end().rsplit('\n').next().unwrap().trim_start_matches("data: ");
        assert!(end.contains("\"oh\""), "{path}: {body}");
    }
}

#[tokio::test]
async fn embeddings_need_no_script_and_leave_it_alone() {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("x").cut_after(usize::MAX)]);
    let ask = |input: Value| {
        let (upstream, body) = (&upstream, json!({"model": "e", "input": input}));
        async move {
            let answer = post_to(upstream, "/v1/embeddings", &body.to_string()).await;
            serde_json::from_str::<Value>(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
        }
    };
    let (both, one) = (ask(json!(["a", "b"])).await, ask(json!("b")).await);
    assert_eq!(both["data"][1]["embedding"], one["data"][0]["embedding"]);
    assert_ne!(both["data"][0]["embedding"], both["data"][1]["embedding"]);
    assert_eq!(one["data"][0]["embedding"].as_array().map(Vec::len), Some(8));
    upstream.script_embeddings([Reply::json(&json!({"data": []}))]);
    assert_eq!(ask(json!("b")).await, json!({"data": []}));
    assert!(post(&upstream, GOOD).await.contains("\"x\""));
}

#[tokio::test]
async fn a_key_that_comes_twice_is_a_violation() {
    let upstream = Upstream::start().await;
    let twice = GOOD.replace("{\"model\":\"m\"", "{\"model\":\"m\",\"model\":\"m\"");
    assert!(post(&upstream, &twice).await.contains("a key twice"));
    assert_eq!(upstream.violations().len(), 1);
    // Colons and quotes in strings are no keys.
    upstream.script([Reply::says("x")]);
    post(&upstream, &GOOD.replace("\"x\"", r#""a: \"b\": {\\""#)).await;
    assert_eq!(upstream.violations(), [""; 0]);
}

/// Says hello, cuts, or waits for ever, as the message asks, and remembers how each came out.
#[derive(Default)]
struct Notes {
    written: Watched<Vec<String>>,
}

impl Observer for Notes {
    fn answer(&self, request: &Received) -> (usize, Reply) {
        match request.body["messages"][0]["content"].as_str() {
            Some("cut") => (1, Reply::says("hello").cut_after(20)),
            Some("wait") => (2, Reply::stream().pause(Duration::from_millis(1)).text("hel").stall()),
            _ => (0, Reply::says("hello")),
        }
    }

    fn note_fault(&self, _: &Received, what: &str) {
        self.written.change(|notes| notes.push(what.to_owned()));
    }

    fn note_end(&self, number: usize, ending: ReplyEnding) {
        self.written.change(|notes| notes.push(format!("{number} {ending:?}")));
    }
}

#[tokio::test]
async fn an_observer_answers_and_nothing_is_kept() {
    let notes = Arc::new(Notes::default());
    let observer: Arc<dyn Observer> = Arc::<Notes>::clone(&notes);
    let upstream = Upstream::start_observed(observer).await;
    let said = |word: &str| GOOD.replace("\"x\"", &format!("\"{word}\""));
    assert!(post(&upstream, GOOD).await.contains("\"hello\""));
    post(&upstream, &said("cut")).await;
    post(&upstream, "{}").await;
    let mut leaving = TcpStream::connect(upstream.address).await.unwrap();
    let body = said("wait");
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    leaving.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    leaving.read_u8().await.unwrap();
    drop(leaving);
    let notes = notes.written.wait_until(|notes| (notes.len() == 4).then(|| notes.clone())).await;
    assert_eq!((notes[0].as_str(), notes[1].as_str(), notes[3].as_str()), ("0 Whole", "1 Cut", "2 Left"));
    assert!(notes[2].contains("model"), "{notes:?}");
    assert!(upstream.requests().is_empty() && upstream.violations().is_empty());
}
