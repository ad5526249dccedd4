//! OpenAI's Chat Completions, as OpenAI and everybody who copied it speak it.

mod decode;
mod encode;
mod wire;

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};

use self::decode::{Decoder, MAX_ANSWER_BYTES};
use crate::http::{Answer, Body, Client};
use crate::sse::Parser;
use crate::{ChatModel, Endpoint, Error, InvalidEndpoint, Piece, PieceStream, Request};

/// Where servers of this protocol differ in what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    pub token_limit: TokenLimit,
}

/// The name under which the longest answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// `max_completion_tokens`: OpenAI itself, whose newer models refuse the other.
    MaxCompletionTokens,
    /// `max_tokens`: the old name, which compatible servers know.
    MaxTokens,
}

impl Quirks {
    fn of_host(host: &str) -> Self {
        let token_limit =
            if host == "api.openai.com" { TokenLimit::MaxCompletionTokens } else { TokenLimit::MaxTokens };
        Self { token_limit }
    }
}

/// A server that speaks Chat Completions.
#[derive(Debug, Clone)]
pub struct ChatCompletions {
    client: Client,
    provider: String,
    quirks: Quirks,
}

impl ChatCompletions {
    /// What the server takes is guessed from its host; see [`Self::with_quirks`].
    pub fn new(endpoint: &Endpoint) -> Result<Self, InvalidEndpoint> {
        let client = Client::new(endpoint, &["chat", "completions"])?;
        let quirks = Quirks::of_host(client.host());
        Ok(Self { client, provider: endpoint.provider.clone(), quirks })
    }

    #[must_use]
    pub fn with_quirks(self, quirks: Quirks) -> Self {
        Self { quirks, ..self }
    }

    /// The bytes that asking `request` sends.
    pub fn body(&self, request: &Request) -> Vec<u8> {
        encode::body(request, &self.provider, self.quirks)
    }

    async fn ask(&self, request: &Request) -> Result<PieceStream, Error> {
        let answer = self.client.post(self.body(request)).await?;
        let mut decoder = Decoder::new(&request.model, &self.provider);
        match answer {
            Answer::Events(body) => Ok(Reading::new(body, decoder).pieces()),
            Answer::Whole(body) => {
                let text = body.whole(MAX_ANSWER_BYTES).await?;
                let mut ready = VecDeque::new();
                decoder.event("", &String::from_utf8_lossy(&text), &mut ready)?;
                decoder.end(&mut ready)?;
                Ok(stream::iter(ready).map(Ok).boxed())
            }
        }
    }
}

impl ChatModel for ChatCompletions {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }
}

/// A stream being read. Pieces that were decoded before a failure are handed out before it.
struct Reading {
    /// None once nothing more is to be read.
    body: Option<Body>,
    parser: Parser,
    decoder: Decoder,
    ready: VecDeque<Piece>,
    failure: Option<Error>,
}

impl Reading {
    fn new(body: Body, decoder: Decoder) -> Box<Self> {
        Box::new(Self {
            body: Some(body),
            parser: Parser::default(),
            decoder,
            ready: VecDeque::new(),
            failure: None,
        })
    }

    fn pieces(self: Box<Self>) -> PieceStream {
        stream::unfold(self, |mut reading| async {
            let piece = reading.next().await?;
            Some((piece, reading))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Piece, Error>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(Ok(piece));
            }
            if let Some(failure) = self.failure.take() {
                return Some(Err(failure));
            }
            if self.decoder.is_over() {
                self.body.take()?.farewell().await;
                return None;
            }
            let outcome = match self.body.as_mut()?.chunk().await {
                Ok(Some(chunk)) => self.decode(&chunk),
                Ok(None) => self.decoder.end(&mut self.ready),
                // All was said; only the farewell got lost.
                Err(_) if self.decoder.has_finish() => self.decoder.end(&mut self.ready),
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                self.body = None;
                self.failure = Some(error);
            }
        }
    }

    fn decode(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let Self { parser, decoder, ready, .. } = self;
        parser.feed(chunk, |event| decoder.event(&event.name, &event.data, ready))
    }
}

#[cfg(test)]
mod tests;
