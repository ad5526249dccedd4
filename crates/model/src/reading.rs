//! An answer on its way: bytes in, pieces out, for every wire.

use std::collections::VecDeque;

use futures_util::{StreamExt, stream};
use serde::Deserialize;

use crate::http::{AnswerBody, HttpAnswer};
use crate::lines::LineSplitter;
use crate::sse::SseParser;
use crate::stream::Pieces;
use crate::tally::MAX_ANSWER_BYTES;
use crate::{AnswerPiece, Error, PieceStream};

/// A provider's events as pieces. Pure; errors are final.
pub(crate) trait Decode: Send + 'static {
    /// Decodes one event. A wire without names gives an empty one.
    fn event(&mut self, name: &str, data: &str, out: &mut Pieces) -> Result<(), Error>;
    /// Decodes an answer that came as one JSON text.
    fn whole_answer(&mut self, text: &str, out: &mut Pieces) -> Result<(), Error> {
        self.event("", text, out)
    }
    /// The bytes have ended. Hands out the last piece, or says that the answer was cut.
    fn end(&mut self, _: &mut Pieces) -> Result<(), Error> {
        if self.is_over() { Ok(()) } else { Err(cut_short()) }
    }
    /// All was said, even if nothing more arrives.
    fn has_finish(&self) -> bool {
        self.is_over()
    }
    /// The last piece was handed out.
    fn is_over(&self) -> bool;
}

/// An answer ended without a finish reason.
pub(crate) fn cut_short() -> Error {
    Error::Broken("ended without a finish reason".into())
}

/// An event's JSON as a type of its wire.
pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Error> {
    serde_json::from_str(data).map_err(|_| Error::Broken("an event that cannot be read".into()))
}

/// How events are told apart.
enum Framing {
    Events(SseParser),
    Lines(LineSplitter),
}

/// The pieces of an answer.
pub(crate) async fn pieces(answer: HttpAnswer, mut decoder: impl Decode) -> Result<PieceStream, Error> {
    let (body, framing) = match answer {
        HttpAnswer::Events(body) => (body, Framing::Events(SseParser::default())),
        HttpAnswer::Lines(body) => (body, Framing::Lines(LineSplitter::default())),
        HttpAnswer::Whole(body) => {
            let text = body.read_all(MAX_ANSWER_BYTES).await?;
            let mut ready = VecDeque::new();
            decoder.whole_answer(&String::from_utf8_lossy(&text), &mut ready)?;
            decoder.end(&mut ready)?;
            return Ok(stream::iter(ready).map(Ok).boxed());
        }
    };
    let reading = BodyReading { body: Some(body), framing, decoder, ready: VecDeque::new(), failure: None };
    Ok(stream::unfold(Box::new(reading), |mut reading| async {
        let piece = reading.next().await?;
        Some((piece, reading))
    })
    .boxed())
}

/// A stream being read. Pieces that were decoded before a failure are handed out before it.
struct BodyReading<D> {
    /// None once nothing more is to be read.
    body: Option<AnswerBody>,
    framing: Framing,
    decoder: D,
    ready: Pieces,
    failure: Option<Error>,
}

impl<D: Decode> BodyReading<D> {
    async fn next(&mut self) -> Option<Result<AnswerPiece, Error>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(Ok(piece));
            }
            if let Some(failure) = self.failure.take() {
                return Some(Err(failure));
            }
            if self.decoder.is_over() {
                self.body.take()?.drain().await;
                return None;
            }
            let outcome = match self.body.as_mut()?.chunk().await {
                Ok(Some(chunk)) => self.decode(&chunk),
                Ok(None) => self.finish(),
                // The answer is complete; only the end of the stream got lost.
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
        let Self { framing, decoder, ready, .. } = self;
        match framing {
            Framing::Events(parser) => {
                parser.feed(chunk, |event| decoder.event(&event.name, &event.data, ready))
            }
            Framing::Lines(lines) => lines.feed(chunk, |line| decoder.event("", line, ready)),
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        let Self { framing, decoder, ready, .. } = self;
        if let Framing::Lines(lines) = framing {
            lines.end(|line| decoder.event("", line, ready))?;
        }
        decoder.end(ready)
    }
}
