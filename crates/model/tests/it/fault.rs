//! Everything that can go wrong with a connection or a stream, by every wire. Each fault ends in a typed error, none in a
//! hang.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use model::{AnswerPiece, ChatModel, Endpoint, Error, Phase, ProviderWire, Timeouts, connect};
use protocol::Finish;
use serde_json::Value;
use testkit::upstream::{Gate, Reply, ScriptedCall, Upstream};

use crate::status::{error, unavailable, with_code};
use crate::support::{
    PATIENT, SHORT, answer_to, ask, body_of, client, hello, input, said, start, stream_of, usage,
};

fn broken(reason: &str) -> Error {
    Error::Broken(reason.into())
}

/// A client of an address that is no upstream's.
fn client_of(wire: ProviderWire, base_url: String, timeouts: Timeouts) -> std::sync::Arc<dyn ChatModel> {
    connect(wire, &Endpoint { provider: "none".into(), base_url, key: None, timeouts }).unwrap()
}

#[tokio::test]
async fn nobody_listens() {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    for wire in ProviderWire::ALL {
        let client = client_of(wire, format!("http://{free}/v1"), PATIENT);
        let refused = unavailable("connection refused");
        assert_eq!(ask(&*client).await, (vec![], Some(refused)), "{wire:?}");
    }
}

#[tokio::test]
async fn hung_up_before_an_answer() {
    let lost = unavailable("the connection was lost before an answer");
    for wire in ProviderWire::ALL {
        assert_eq!(error(wire, Reply::raw(""), PATIENT).await, lost, "{wire:?}");
        assert_eq!(error(wire, Reply::raw("HTTP/1.1 200 OK\r\ncontent-"), PATIENT).await, lost, "{wire:?}");
        let garbage = error(wire, Reply::raw("SSH-2.0-OpenSSH_9\r\n"), PATIENT).await;
        assert!(matches!(garbage, Error::Unavailable { .. }), "{wire:?}: {garbage:?}");
    }
}

#[tokio::test]
async fn each_wait_is_bounded() {
    let late = |phase| (vec![], Some(Error::Timeout(phase)));
    for wire in ProviderWire::ALL {
        let first_byte = Timeouts { first_byte: SHORT, ..PATIENT };
        assert_eq!(answer_to(wire, Reply::silence(), first_byte).await, late(Phase::FirstByte), "{wire:?}");
        let head_only = Reply::stream().head().stall();
        assert_eq!(answer_to(wire, head_only, first_byte).await, late(Phase::FirstByte), "{wire:?}");

        let stall = Reply::stream().text("x").stall();
        let idle = Timeouts { idle: SHORT, ..PATIENT };
        let expected = (vec![said("x")], Some(Error::Timeout(Phase::Idle)));
        assert_eq!(answer_to(wire, stall.clone(), idle).await, expected, "{wire:?}");

        let total = Timeouts { total: SHORT, ..PATIENT };
        assert_eq!(answer_to(wire, stall, total).await.1, Some(Error::Timeout(Phase::Total)), "{wire:?}");
        assert_eq!(answer_to(wire, Reply::silence(), total).await, late(Phase::Total), "{wire:?}");
        let body = Reply::status(200).header("content-type", "application/json").body("{").stall().body("}");
        assert_eq!(answer_to(wire, body, total).await, late(Phase::Total), "{wire:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_is_not_answered() {
    // The listener takes the connection and says nothing, so encryption is never agreed on.
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base_url = format!("https://{}/v1", listener.local_addr().unwrap());
    for wire in ProviderWire::ALL {
        let client = client_of(wire, base_url.clone(), Timeouts { connect: SHORT, ..PATIENT });
        let expected = (vec![], Some(Error::Timeout(Phase::Connect)));
        assert_eq!(ask(&*client).await, expected, "{wire:?}");
    }
}

/// Returns the place in this body at which the answer is known to be over: after the event that gives the reason, which
/// usage and `[DONE]` may follow. A line needs no end to be one.
fn known_over(wire: ProviderWire, body: &str) -> usize {
    let end_of = |mark: &str| {
        let at = body.find(mark).unwrap();
        at + body[at..].find("\n\n").unwrap() + 2
    };
    match wire {
        ProviderWire::Chat => end_of("\"finish_reason\":\"tool_calls\""),
        ProviderWire::Anthropic(_) => end_of("\"stop_reason\":\"tool_use\""),
        ProviderWire::Responses => end_of("event: response.completed"),
        ProviderWire::Ollama => body.trim_end().len(),
    }
}

/// Returns the events with nothing in them but what matters, so that there are fewer places to cut them at.
fn slim(body: &str) -> String {
    let slim = |line: &str| match line.strip_prefix("data: ").map(serde_json::from_str::<Value>) {
        Some(Ok(mut data)) => {
            if let Some(response) = data.get_mut("response").and_then(Value::as_object_mut) {
                response.retain(|name, _| ["status", "output", "usage"].contains(&name.as_str()));
            }
            format!("data: {data}\n")
        }
        Some(Err(_)) | None => format!("{line}\n"),
    };
    body.lines().map(slim).collect()
}

async fn a_cut_is_never_a_finish(wire: ProviderWire) {
    let reply = Reply::stream().text("é🎵").call(ScriptedCall::new("a", r#"{"x":1}"#));
    let upstream = Upstream::start().await;
    let client = client(wire, &upstream, PATIENT);
    let body = slim(&body_of(wire, reply, true).await);
    let known = known_over(wire, &body);
    for cut in 0..=body.len() {
        upstream.script([stream_of(wire, body.as_str()).cut_after(cut)]);
        let (pieces, error) = ask(&*client).await;
        let finished = matches!(pieces.last(), Some(AnswerPiece::Finish(Finish::ToolCalls)));
        assert_eq!(
            (finished, error.is_none()),
            (cut >= known, cut >= known),
            "{wire:?} cut at {cut}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_cut_is_never_a_finish_of_chat_completions() {
    a_cut_is_never_a_finish(ProviderWire::Chat).await;
}

#[tokio::test]
async fn a_cut_is_never_a_finish_of_responses() {
    a_cut_is_never_a_finish(ProviderWire::Responses).await;
}

#[tokio::test]
async fn a_cut_is_never_a_finish_of_messages() {
    a_cut_is_never_a_finish(ProviderWire::Anthropic(model::AnthropicVersion::V2026)).await;
}

#[tokio::test]
async fn a_cut_is_never_a_finish_of_ollama() {
    a_cut_is_never_a_finish(ProviderWire::Ollama).await;
}

#[tokio::test]
async fn a_reset_is_a_broken_stream() {
    for wire in ProviderWire::ALL {
        let gate = Gate::new();
        let upstream = Upstream::start().await;
        let reply = Reply::stream().text("a").wait(&gate).text("b");
        let first = body_of(wire, Reply::stream().text("a").without_end(), true).await.len();
        upstream.script([reply.reset_after(first + 10)]);
        let mut stream = client(wire, &upstream, PATIENT).stream(&hello()).await.unwrap();
        assert_eq!(stream.next().await, Some(Ok(said("a"))), "{wire:?}");
        gate.open();
        assert_eq!(stream.next().await, Some(Err(broken("the connection was lost"))), "{wire:?}");
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test]
async fn a_chunked_body_that_ends_early() {
    for wire in ProviderWire::ALL {
        let kind = if wire == ProviderWire::Ollama { "application/x-ndjson" } else { "text/event-stream" };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
        let reply = Reply::raw(format!("{head}40\r\ndata: {{\"choices\""));
        assert_eq!(error(wire, reply, PATIENT).await, broken("the connection was lost"), "{wire:?}");
    }
}

#[tokio::test]
async fn events_are_read_however_they_are_laid_out() {
    for wire in ProviderWire::ALL {
        let reply = || Reply::stream().text("x").call(ScriptedCall::new("a", r#"{"b":"c"}"#));
        let plain = body_of(wire, reply(), true).await;
        let expected = answer_to(wire, reply(), PATIENT).await;
        assert_eq!(expected.1, None, "{wire:?}");
        let lines = [plain.replace('\n', "\r\n"), plain.replace('\n', "\n\n"), plain.trim_end().to_owned()];
        let events = [
            plain.replace('\n', "\r\n"),
            plain.replace('\n', "\r"),
            plain.replace("\n\n", "\n\n\n\n"),
            plain.replace("data: {", "data: {\ndata: "),
            plain.replace("data: ", "data:").replace("event: ", "event:"),
            plain.replace("data: {", ": OPENROUTER PROCESSING\nid: 1\nretry: 5\ndata: {"),
            format!("\u{feff}: keep-alive\n\n{plain}"),
            format!("{plain}data\n\nevent: odd\n\n"),
        ];
        for body in if wire == ProviderWire::Ollama { lines.to_vec() } else { events.to_vec() } {
            assert_eq!(answer_to(wire, stream_of(wire, body.as_str()), PATIENT).await, expected, "{body:?}");
        }
    }
}

#[tokio::test]
async fn events_that_cannot_be_read() {
    let unreadable = broken("an event that cannot be read");
    for wire in ProviderWire::ALL {
        let first = body_of(wire, Reply::says("x").without_end(), true).await;
        let bodies = match wire {
            ProviderWire::Chat => ["data: {\"choices\": [}\n\n", "data: {}\ndata: {}\n\n"],
            ProviderWire::Responses => {
                ["event: response.created\ndata: {\"response\": [}\n\n", "data: {}\ndata: {}\n\n"]
            }
            ProviderWire::Anthropic(_) => {
                ["event: message_stop\ndata: {\n\n", "event: ping\ndata: {}\ndata: {}\n\n"]
            }
            ProviderWire::Ollama => ["{\"message\": [}\n", "{}{}\n"],
        };
        for body in bodies {
            let answer = answer_to(wire, stream_of(wire, format!("{first}{body}")), PATIENT).await;
            assert_eq!(answer, (vec![said("x")], Some(unreadable.clone())), "{wire:?}: {body}");
        }
    }
}

#[tokio::test]
async fn invalid_utf8_is_replaced() {
    for wire in ProviderWire::ALL {
        let body = body_of(wire, Reply::says("a#b").without_usage(), true).await;
        let parts: Vec<&[u8]> = body.split('#').map(str::as_bytes).collect();
        let reply = stream_of(wire, parts.join(&b"\xff\xe2\x82"[..]));
        let expected = vec![said("a\u{fffd}\u{fffd}b"), AnswerPiece::Finish(Finish::Stop)];
        assert_eq!(answer_to(wire, reply, PATIENT).await, (expected, None), "{wire:?}");
    }
}

#[tokio::test]
async fn a_giant_line_is_cut_and_the_connection_dropped() {
    for wire in ProviderWire::ALL {
        let upstream = Upstream::start().await;
        let body = body_of(wire, Reply::says("#"), true).await;
        let giant = [body.split('#').next().unwrap().as_bytes(), &vec![b'x'; 32 << 20]].concat();
        upstream.script([stream_of(wire, giant).split_at((0..512).map(|n| n << 16)).stall()]);
        let (pieces, error) = ask(&*client(wire, &upstream, PATIENT)).await;
        assert_eq!(pieces, [], "{wire:?}");
        let Some(Error::Broken(reason)) = error else { panic!("{wire:?}: {error:?}") };
        assert!(reason.starts_with("a line longer than "), "{wire:?}: {reason}");
        let written = upstream.closed(0).await.written;
        assert!(written < 16 << 20, "{wire:?}: {written} bytes were taken");
    }
}

#[tokio::test]
async fn errors_inside_a_stream() {
    for wire in ProviderWire::ALL {
        let failed = unavailable(&with_code(wire, "an error inside the stream", "overloaded_error"));
        let before = Reply::stream().error("overloaded_error", None, "x");
        assert_eq!(error(wire, before, PATIENT).await, failed, "{wire:?}");
        let after = Reply::says("x").error("overloaded_error", None, "x");
        assert_eq!(answer_to(wire, after, PATIENT).await, (vec![said("x")], Some(failed)), "{wire:?}");
    }
    for wire in ProviderWire::ALL.into_iter().filter(|wire| *wire != ProviderWire::Ollama) {
        let limited = Reply::stream().error("rate_limit_error", Some("rate_limit_exceeded"), "x");
        assert_eq!(error(wire, limited, PATIENT).await, Error::RateLimited { after: None }, "{wire:?}");
    }
    let failed = unavailable("an error inside the stream, server_error");
    let answer = answer_to(ProviderWire::Responses, Reply::says("x").finish("error"), PATIENT).await;
    assert_eq!(answer, (vec![said("x")], Some(failed)));
    let gave_up = unavailable("it stopped before the end of the answer");
    let answer = answer_to(ProviderWire::Chat, Reply::says("x").finish("error"), PATIENT).await;
    assert_eq!(answer, (vec![said("x")], Some(gave_up)));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_socket() {
    for wire in ProviderWire::ALL {
        let upstream = Upstream::start().await;
        upstream.script([Reply::says("x").stall(), Reply::silence()]);
        let client = client(wire, &upstream, PATIENT);
        let mut stream = client.stream(&hello()).await.unwrap();
        assert_eq!(stream.next().await, Some(Ok(said("x"))), "{wire:?}");
        let dropped = Instant::now();
        drop(stream);
        let closed = upstream.closed(0).await;
        assert!(closed.at.duration_since(dropped) < Duration::from_secs(1), "{wire:?}");
        assert_eq!(closed.written, upstream.written_bytes(0));

        // So does giving up before the answer began.
        let request = hello();
        tokio::select! {
            _ = client.stream(&request) => unreachable!("the upstream is silent"),
            _ = upstream.wait_for_requests(2) => {}
        }
        assert_eq!(upstream.closed(1).await.written, 0, "{wire:?}");
    }
}

/// The caller sees that they are not JSON, or why they are not whole.
#[tokio::test]
async fn arguments_that_are_cut_are_handed_on_as_they_are() {
    for wire in ProviderWire::ALL {
        let pieces = |finish| {
            vec![
                start(0, Some("call_0"), "a"),
                input(0, r#"{"x":"#),
                usage(10, 5),
                AnswerPiece::Finish(finish),
            ]
        };
        let reply = || Reply::stream().call(ScriptedCall::new("a", r#"{"x":"#));
        assert_eq!(answer_to(wire, reply(), PATIENT).await, (pieces(Finish::ToolCalls), None), "{wire:?}");
        let cut = answer_to(wire, reply().finish("length"), PATIENT).await;
        assert_eq!(cut, (pieces(Finish::Length), None), "{wire:?}");
    }
}

#[tokio::test]
async fn ten_thousand_calls() {
    const CALLS: usize = 10_000;
    for wire in ProviderWire::ALL {
        let reply = (0..CALLS).fold(Reply::stream(), |reply, _| reply.call(ScriptedCall::new("a", "{}")));
        let body = body_of(wire, reply, true).await;
        let (pieces, error) = answer_to(wire, stream_of(wire, body), PATIENT).await;
        assert_eq!(error, None, "{wire:?}");
        let starts = pieces.iter().filter(|piece| matches!(piece, AnswerPiece::CallStart { .. })).count();
        assert_eq!(
            (starts, pieces.last()),
            (CALLS, Some(&AnswerPiece::Finish(Finish::ToolCalls))),
            "{wire:?}"
        );
    }
}
