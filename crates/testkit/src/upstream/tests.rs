//! The upstream itself, spoken to over a bare socket.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Reply, Upstream};

const GOOD: &str = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;

/// Sends one request and reads until the upstream closes.
async fn post(upstream: &Upstream, json: &str) -> String {
    let mut socket = TcpStream::connect(upstream.address).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length:";
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
    let chunk =
        r#"{"choices":[{"delta":{"content":"x"},"finish_reason":null,"index":0}],"created":1763172000,"#;
    let rest = r#""id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}"#;
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
