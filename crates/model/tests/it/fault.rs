//! Everything a provider can do wrong. Each fault ends in a typed error, none in a hang.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use model::openai::ChatCompletions;
use model::{ChatModel, Endpoint, Error, Phase, Piece, Timeouts};
use protocol::Finish;
use serde_json::json;
use testkit::upstream::{Call, Gate, Reply, Upstream};

use crate::support::{PATIENT, SHORT, answer_to, ask, client, endpoint, hello, said};

async fn error(reply: Reply, timeouts: Timeouts) -> Error {
    let (pieces, error) = answer_to(reply, timeouts).await;
    assert_eq!(pieces, []);
    error.unwrap()
}

fn broken(reason: &str) -> Error {
    Error::Broken(reason.into())
}

#[tokio::test]
async fn statuses_are_mapped() {
    let html = |status| Reply::status(status).header("content-type", "text/html").body("<h1>no</h1>");
    let unavailable = |reason: &str, after| Error::Unavailable { reason: reason.into(), after };
    let seconds = |n| Some(Duration::from_secs(n));
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (reply, expected) in [
        (Reply::status(429), Error::RateLimited { after: None }),
        (Reply::status(429).header("retry-after", "2"), Error::RateLimited { after: seconds(2) }),
        (
            Reply::status(429).header("retry-after", "9").header("retry-after-ms", "300"),
            Error::RateLimited { after: Some(Duration::from_millis(300)) },
        ),
        (
            Reply::status(429).header("date", date).header("Retry-After", "Sun, 06 Nov 1994 08:49:57 GMT"),
            Error::RateLimited { after: seconds(20) },
        ),
        (Reply::status(429).error("insufficient_quota", Some("insufficient_quota"), "x"), Error::Quota),
        (Reply::status(429).error("rate_limit_error", None, "monthly spend limit reached"), Error::Quota),
        (html(500), unavailable("status 500", None)),
        (html(502), unavailable("status 502", None)),
        (html(503).header("retry-after", "4"), unavailable("status 503", seconds(4))),
        (
            Reply::status(529).error("overloaded_error", None, "x"),
            unavailable("status 529, overloaded_error", None),
        ),
        (Reply::status(401), Error::Auth { status: 401, provider: "scripted".into() }),
        (Reply::status(403), Error::Auth { status: 403, provider: "scripted".into() }),
        (
            Reply::status(400).error("invalid_request_error", Some("context_length_exceeded"), "x"),
            Error::ContextLength,
        ),
        (
            Reply::status(400).error("invalid_request_error", Some("unsupported_value"), "secret sk-planted"),
            Error::Rejected {
                status: 400,
                summary: "it found the request invalid, unsupported_value".into(),
            },
        ),
        (Reply::status(204), Error::Rejected { status: 204, summary: "it found the request invalid".into() }),
    ] {
        assert_eq!(error(reply, PATIENT).await, expected);
    }
}

#[tokio::test]
async fn a_refusal_is_read_only_so_far_and_only_so_long() {
    let endless = Reply::status(500).body("x".repeat(1 << 20)).stall();
    let unavailable = Error::Unavailable { reason: "status 500".into(), after: None };
    assert_eq!(error(endless, PATIENT).await, unavailable);
    let stalled = Reply::status(500).head().stall().body("never sent");
    assert_eq!(error(stalled, Timeouts { idle: SHORT, ..PATIENT }).await, unavailable);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Upstream::start().await;
    for status in [301, 302, 303, 307, 308] {
        let reply = Reply::status(status).header("location", &elsewhere.base_url());
        let summary = "it redirects elsewhere; check the base URL".into();
        assert_eq!(error(reply, PATIENT).await, Error::Rejected { status, summary });
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_page_is_not_an_answer() {
    let page = |kind| Reply::status(200).header("content-type", kind).body("<html>Log in</html>");
    let neither = broken("neither an event stream nor JSON");
    assert_eq!(error(page("text/html; charset=utf-8"), PATIENT).await, neither);
    assert_eq!(error(page("text/plain"), PATIENT).await, neither);
    assert_eq!(error(page("text/event-stream"), PATIENT).await, broken("ended without a finish reason"));
    assert_eq!(error(page("application/json"), PATIENT).await, broken("an event that cannot be read"));
    let zipped = Reply::says("x").header("content-encoding", "gzip");
    assert_eq!(error(zipped, PATIENT).await, broken("a compressed answer, which was not asked for"));
    let refusal = Reply::json(&json!({"error": {"message": "x", "type": "server_error"}}));
    let reason = "an error inside the stream, server_error".into();
    assert_eq!(error(refusal, PATIENT).await, Error::Unavailable { reason, after: None });
}

#[tokio::test]
async fn nobody_listens() {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let base_url = format!("http://{free}/v1");
    let endpoint = Endpoint { provider: "none".into(), base_url, key: None, timeouts: PATIENT };
    let client = ChatCompletions::new(&endpoint).unwrap();
    let refused = Error::Unavailable { reason: "connection refused".into(), after: None };
    assert_eq!(ask(&client).await, (vec![], Some(refused)));
}

#[tokio::test]
async fn hung_up_before_an_answer() {
    let lost = Error::Unavailable { reason: "the connection was lost before an answer".into(), after: None };
    assert_eq!(error(Reply::raw(""), PATIENT).await, lost);
    assert_eq!(error(Reply::raw("HTTP/1.1 200 OK\r\ncontent-"), PATIENT).await, lost);
    let garbage = error(Reply::raw("SSH-2.0-OpenSSH_9\r\n"), PATIENT).await;
    assert!(matches!(garbage, Error::Unavailable { .. }), "{garbage:?}");
}

#[tokio::test]
async fn each_wait_is_bounded() {
    let late = |phase| (vec![], Some(Error::Timeout(phase)));
    let first_byte = Timeouts { first_byte: SHORT, ..PATIENT };
    assert_eq!(answer_to(Reply::silence(), first_byte).await, late(Phase::FirstByte));
    let head_only = Reply::stream().head().stall();
    assert_eq!(answer_to(head_only, first_byte).await, late(Phase::FirstByte));

    let stall = Reply::stream().text("x").stall();
    let idle = Timeouts { idle: SHORT, ..PATIENT };
    assert_eq!(answer_to(stall.clone(), idle).await, (vec![said("x")], Some(Error::Timeout(Phase::Idle))));

    let total = Timeouts { total: SHORT, ..PATIENT };
    assert_eq!(answer_to(stall, total).await.1, Some(Error::Timeout(Phase::Total)));
    assert_eq!(answer_to(Reply::silence(), total).await, late(Phase::Total));
    let body = Reply::status(200).header("content-type", "application/json").body("{").stall().body("}");
    assert_eq!(answer_to(body, total).await, late(Phase::Total));
}

#[tokio::test]
async fn a_handshake_that_is_not_answered() {
    // The listener takes the connection and says nothing, so encryption is never agreed on.
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = Endpoint {
        provider: "mute".into(),
        base_url: format!("https://{}/v1", listener.local_addr().unwrap()),
        key: None,
        timeouts: Timeouts { connect: SHORT, ..PATIENT },
    };
    let client = ChatCompletions::new(&endpoint).unwrap();
    assert_eq!(ask(&client).await, (vec![], Some(Error::Timeout(Phase::Connect))));
}

#[tokio::test]
async fn a_cut_is_never_a_finish() {
    let reply = || Reply::stream().text("é🎵").call(Call::new("a", r#"{"x":1}"#));
    let upstream = Upstream::start().await;
    let client = client(&upstream, PATIENT);
    // The event that holds the finish reason is followed by usage and `[DONE]`; find where it ends.
    upstream.script([reply().cut_after(usize::MAX)]);
    assert_eq!(ask(&client).await.0.last(), Some(&Piece::Finish(Finish::ToolCalls)));
    let body = body_of(reply()).await;
    let reason = body.find("\"finish_reason\":\"tool_calls\"").unwrap();
    let known = reason + body[reason..].find("\n\n").unwrap() + 2;
    for cut in 0..=body.len() {
        upstream.script([reply().cut_after(cut)]);
        let (pieces, error) = ask(&client).await;
        let finished = pieces.iter().any(|piece| matches!(piece, Piece::Finish(_)));
        assert_eq!((finished, error.is_none()), (cut >= known, cut >= known), "cut at {cut}: {error:?}");
    }
}

/// The body as it is on the wire, taken with a client that knows nothing.
async fn body_of(reply: Reply) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let upstream = Upstream::start().await;
    upstream.script([reply.cut_after(usize::MAX)]);
    let authority = upstream.base_url().replace("http://", "").replace("/v1", "");
    let mut socket = tokio::net::TcpStream::connect(authority).await.unwrap();
    let json = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
    let length = json.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {length}"
    );
    socket.write_all(format!("{head}\r\n\r\n{json}").as_bytes()).await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_reset_is_a_broken_stream() {
    let gate = Gate::new();
    let upstream = Upstream::start().await;
    let reply = Reply::stream().text("a").wait(&gate).text("b");
    let first = body_of(Reply::stream().text("a").without_end()).await.len();
    upstream.script([reply.reset_after(first + 10)]);
    let mut stream = client(&upstream, PATIENT).stream(&hello()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(said("a"))));
    gate.open();
    assert_eq!(stream.next().await, Some(Err(broken("the connection was lost"))));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_chunked_body_that_ends_early() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let reply = Reply::raw(format!("{head}40\r\ndata: {{\"choices\""));
    assert_eq!(error(reply, PATIENT).await, broken("the connection was lost"));
}

#[tokio::test]
async fn malformed_events() {
    let chunk = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    let good = (vec![said("x"), Piece::Finish(Finish::Stop)], None);
    for body in [
        format!("data: {chunk}\r\rdata: [DONE]\r\r"),
        format!("\u{feff}data:{chunk}\r\n\r\n"),
        format!(": OPENROUTER PROCESSING\n\nid: 1\nretry: 5\ndata: {chunk}\n\ndata: [DONE]\n\n"),
        format!("data: {chunk}\n\n\n\n\ndata\n\ndata: [DONE]"),
        format!("data: {}\n\n", chunk.replace(",\"finish", "\ndata: ,\"finish")),
    ] {
        assert_eq!(answer_to(Reply::sse(body.as_str()), PATIENT).await, good, "{body:?}");
    }
    let unreadable = broken("an event that cannot be read");
    assert_eq!(error(Reply::sse(format!("data: {chunk}\ndata: {chunk}\n\n")), PATIENT).await, unreadable);
    assert_eq!(error(Reply::sse("data: {\"choices\": [}\n\n"), PATIENT).await, unreadable);
}

#[tokio::test]
async fn invalid_utf8_is_replaced() {
    let body =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xff\xe2\x82b\"},\"finish_reason\":\"stop\"}]}\n\n";
    let expected = vec![said("a\u{fffd}\u{fffd}b"), Piece::Finish(Finish::Stop)];
    assert_eq!(answer_to(Reply::sse(&body[..]), PATIENT).await, (expected, None));
}

#[tokio::test]
async fn a_giant_line_is_cut_and_the_connection_dropped() {
    let upstream = Upstream::start().await;
    let giant = [b"data: {\"choices\":[{\"delta\":{\"content\":\"".to_vec(), vec![b'x'; 64 << 20]].concat();
    upstream.script([Reply::sse(giant).split_at((0..1024).map(|n| n << 16)).stall()]);
    let (pieces, error) = ask(&client(&upstream, PATIENT)).await;
    assert_eq!((pieces, error), (vec![], Some(broken("a line longer than 1048576 bytes"))));
    let written = upstream.closed(0).await.written;
    assert!(written < 16 << 20, "{written} bytes were taken");
}

#[tokio::test]
async fn errors_inside_a_stream() {
    let overloaded = json!({"error": {"message": "x", "type": "overloaded_error"}});
    let reason = "an error inside the stream, overloaded_error".to_owned();
    let unavailable = Error::Unavailable { reason, after: None };
    assert_eq!(error(Reply::stream().chunk(overloaded.clone()), PATIENT).await, unavailable);
    let after = Reply::says("x").chunk(overloaded);
    assert_eq!(answer_to(after, PATIENT).await, (vec![said("x")], Some(unavailable)));
    let named = Reply::sse("event: error\ndata: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n");
    assert_eq!(error(named, PATIENT).await, Error::RateLimited { after: None });
}

#[tokio::test]
async fn dropping_the_stream_closes_the_socket() {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("x").stall(), Reply::silence()]);
    let client = client(&upstream, PATIENT);
    let mut stream = client.stream(&hello()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(said("x"))));
    let dropped = Instant::now();
    drop(stream);
    let closed = upstream.closed(0).await;
    assert!(closed.at.duration_since(dropped) < Duration::from_secs(1));
    assert_eq!(closed.written, upstream.written(0));

    // So does giving up before the answer began.
    let request = hello();
    tokio::select! {
        _ = client.stream(&request) => unreachable!("the upstream is silent"),
        _ = upstream.wait_for_requests(2) => {}
    }
    assert_eq!(upstream.closed(1).await.written, 0);
}

#[tokio::test]
async fn nothing_of_the_provider_or_the_key_is_shown() {
    let upstream = Upstream::start().await;
    upstream.script([
        Reply::status(401).error("invalid_api_key", None, "Incorrect API key provided: sk-planted"),
        Reply::status(400).error("sk-planted is WRONG", Some("sk-planted!"), "sk-planted"),
        Reply::stream().chunk(json!({"error": {"message": "sk-planted", "type": "Key sk-planted"}})),
    ]);
    let client = client(&upstream, PATIENT);
    for _ in 0..3 {
        let error = ask(&client).await.1.unwrap();
        let shown = format!("{error} {error:?} {client:?} {:?}", endpoint(&upstream, PATIENT));
        assert!(!shown.contains("planted"), "{shown}");
    }
}

#[tokio::test]
async fn the_upstream_tells_on_a_client() {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("x")]);
    let mut request = hello();
    request.messages.clear();
    let rejected = client(&upstream, PATIENT).stream(&request).await.err();
    let summary = "it found the request invalid, invalid_request_error".into();
    assert_eq!(rejected, Some(Error::Rejected { status: 400, summary }));
    let expected = ["Invalid 'messages': empty array. Expected an array with minimum length 1."];
    assert_eq!(upstream.violations(), expected);
    assert_eq!(ask(&client(&upstream, PATIENT)).await.1, None);
    let unexpected = Error::Unavailable { reason: "status 500".into(), after: None };
    assert_eq!(ask(&client(&upstream, PATIENT)).await.1, Some(unexpected));
    assert_eq!(upstream.violations(), ["unexpected request: the script is empty"]);
}
