//! What every test here needs.

use std::time::Duration;

use futures_util::StreamExt;
use model::openai::ChatCompletions;
use model::{ChatModel, Endpoint, Error, Message, Piece, PieceStream, Request, Secret, Timeouts};
use protocol::Settings;
use testkit::upstream::{Reply, Upstream};

/// Short enough not to be waited for, long enough for what is expected to arrive.
pub(crate) const SHORT: Duration = Duration::from_millis(50);
/// A bound that no test is meant to meet.
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const PATIENT: Timeouts = Timeouts { connect: LONG, first_byte: LONG, idle: LONG, total: LONG };

pub(crate) fn endpoint(upstream: &Upstream, timeouts: Timeouts) -> Endpoint {
    Endpoint {
        provider: "scripted".into(),
        base_url: upstream.base_url(),
        key: Some(Secret::new("sk-planted")),
        timeouts,
    }
}

pub(crate) fn client(upstream: &Upstream, timeouts: Timeouts) -> ChatCompletions {
    upstream.require_key("sk-planted");
    ChatCompletions::new(&endpoint(upstream, timeouts)).unwrap()
}

pub(crate) fn hello() -> Request {
    Request {
        model: "m".into(),
        system: String::new(),
        messages: vec![Message::User("hello".into())],
        tools: [].into(),
        settings: Settings::default(),
    }
}

/// Everything a stream yields, and the error that ended it.
pub(crate) async fn drain(mut stream: PieceStream) -> (Vec<Piece>, Option<Error>) {
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

/// Asks one question and takes the whole answer, or the error it met before or in the stream.
pub(crate) async fn ask(client: &ChatCompletions) -> (Vec<Piece>, Option<Error>) {
    match client.stream(&hello()).await {
        Ok(stream) => drain(stream).await,
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// What a fresh client makes of one reply.
pub(crate) async fn answer_to(reply: Reply, timeouts: Timeouts) -> (Vec<Piece>, Option<Error>) {
    let upstream = Upstream::start().await;
    upstream.script([reply]);
    let answer = ask(&client(&upstream, timeouts)).await;
    assert!(upstream.requests().len() <= 1, "retrying is the caller's business");
    answer
}

pub(crate) fn said(text: &str) -> Piece {
    Piece::Text(text.into())
}
