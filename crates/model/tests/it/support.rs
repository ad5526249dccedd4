//! The helpers that every test here needs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use model::{
    AnswerPiece, ChatModel, Endpoint, Error, ModelRequest, PieceStream, PromptMessage, ProviderKey,
    ProviderWire, Timeouts, connect,
};
use protocol::Usage;
use serde_json::{Value, json};
use testkit::upstream::{Reply, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Short enough not to be waited for, long enough for what is expected to arrive.
pub(crate) const SHORT: Duration = Duration::from_millis(50);
/// A bound that no test is meant to meet.
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const PATIENT: Timeouts = Timeouts { connect: LONG, first_byte: LONG, idle: LONG, total: LONG };

pub(crate) fn endpoint(wire: ProviderWire, upstream: &Upstream, timeouts: Timeouts) -> Endpoint {
    let base_url = match wire {
        ProviderWire::Chat | ProviderWire::Responses | ProviderWire::Anthropic(_) => upstream.base_url(),
        ProviderWire::Ollama => upstream.root_url(),
    };
    Endpoint { provider: "scripted".into(), base_url, key: Some(ProviderKey::new("sk-planted")), timeouts }
}

pub(crate) fn client(wire: ProviderWire, upstream: &Upstream, timeouts: Timeouts) -> Arc<dyn ChatModel> {
    upstream.require_key("sk-planted");
    connect(wire, &endpoint(wire, upstream, timeouts)).unwrap()
}

pub(crate) fn hello() -> ModelRequest {
    ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())])
}

/// Everything a stream yields, and the error that ended it.
pub(crate) async fn drain(mut stream: PieceStream) -> (Vec<AnswerPiece>, Option<Error>) {
    let mut pieces = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => pieces.push(piece),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (pieces, Some(error));
            }
        }
    }
    (pieces, None)
}

/// Takes the whole answer, or the error it met before or in the stream.
pub(crate) async fn ask_for(
    client: &dyn ChatModel,
    request: &ModelRequest,
) -> (Vec<AnswerPiece>, Option<Error>) {
    match client.stream(request).await {
        Ok(stream) => drain(stream).await,
        Err(error) => (Vec::new(), Some(error)),
    }
}

pub(crate) async fn ask(client: &dyn ChatModel) -> (Vec<AnswerPiece>, Option<Error>) {
    ask_for(client, &hello()).await
}

/// Returns the outcome of one reply for a fresh client.
pub(crate) async fn answer_to(
    wire: ProviderWire,
    reply: Reply,
    timeouts: Timeouts,
) -> (Vec<AnswerPiece>, Option<Error>) {
    let upstream = Upstream::start().await;
    upstream.script([reply]);
    let answer = ask(&*client(wire, &upstream, timeouts)).await;
    assert!(upstream.requests().len() <= 1, "retrying is the caller's business");
    answer
}

/// A stream of exactly these bytes, in the content type of the wire.
pub(crate) fn stream_of(wire: ProviderWire, body: impl Into<Vec<u8>>) -> Reply {
    match wire {
        ProviderWire::Chat | ProviderWire::Responses | ProviderWire::Anthropic(_) => Reply::sse(body),
        ProviderWire::Ollama => Reply::ndjson(body),
    }
}

/// The body of a reply as it is on the wire, taken with a client that knows nothing.
pub(crate) async fn body_of(wire: ProviderWire, reply: Reply, stream: bool) -> String {
    let upstream = Upstream::start().await;
    upstream.script([reply.cut_after(usize::MAX)]);
    let messages = json!([{"role": "user", "content": "x"}]);
    let (path, body) = match wire {
        ProviderWire::Chat => ("/v1/chat/completions", json!({"messages": messages})),
        ProviderWire::Responses => ("/v1/responses", json!({"input": messages})),
        ProviderWire::Anthropic(_) => ("/v1/messages", json!({"messages": messages, "max_tokens": 1})),
        ProviderWire::Ollama => ("/api/chat", json!({"messages": messages})),
    };
    let body = with(&with(&body, "model", "m".into()), "stream", stream.into()).to_string();
    let authority = upstream.root_url().replace("http://", "");
    let mut socket = tokio::net::TcpStream::connect(authority).await.unwrap();
    let fixed = "anthropic-version: 2026-10-21\r\ncontent-type: application/json";
    let head = format!("POST {path} HTTP/1.1\r\n{fixed}\r\ncontent-length: {}", body.len());
    socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[name] = value;
    body
}

/// The pieces without what only the provider can read.
pub(crate) fn readable(pieces: Vec<AnswerPiece>) -> Vec<AnswerPiece> {
    pieces.into_iter().filter(|piece| !matches!(piece, AnswerPiece::Provider(_))).collect()
}

/// Returns the part of an answer that only the provider can read.
pub(crate) fn opaque(pieces: &[AnswerPiece]) -> Option<Value> {
    pieces
        .iter()
        .find_map(|piece| if let AnswerPiece::Provider(opaque) = piece { Some(opaque.clone()) } else { None })
}

pub(crate) fn said(text: &str) -> AnswerPiece {
    AnswerPiece::Text(text.into())
}

pub(crate) fn usage(input_tokens: u64, output_tokens: u64) -> AnswerPiece {
    AnswerPiece::Usage(Usage { input_tokens, output_tokens, ..Usage::default() })
}

pub(crate) fn start(index: usize, id: Option<&str>, name: &str) -> AnswerPiece {
    AnswerPiece::CallStart { index, provider_id: id.map(Into::into), name: name.into() }
}

pub(crate) fn input(index: usize, json: &str) -> AnswerPiece {
    AnswerPiece::CallInput { index, json: json.into() }
}
