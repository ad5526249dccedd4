//! The answer of a model, piece by piece.

use std::collections::VecDeque;
use std::pin::Pin;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use protocol::{Finish, Usage};
use serde_json::Value;

use crate::{Error, ModelRequest};

/// One piece of an answer, in the order it arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerPiece {
    Text(String),
    Reasoning(String),
    /// A tool call begins. `index` tells the calls of one answer apart, in the order they began, from 0.
    CallStart {
        index: usize,
        provider_id: Option<String>,
        name: String,
    },
    /// More of the arguments of call `index`, as JSON text.
    CallInput {
        index: usize,
        json: String,
    },
    /// No call of this answer is to be made: it ended without a word on whether they are whole.
    CallsVoid,
    /// The model's name as the provider reports it, where it differs from what was asked.
    Model(String),
    /// Tokens so far; a later one replaces an earlier one.
    Usage(Usage),
    /// Opaque items to be returned with this turn.
    Provider(Value),
    /// The provider said that the answer is over. The last piece of a good stream; a stream without it was cut.
    Finish(Finish),
}

/// Pieces that were decoded and wait to be handed out.
pub(crate) type Pieces = VecDeque<AnswerPiece>;

/// An answer on its way. Dropping it closes the connection.
pub type PieceStream = Pin<Box<dyn Stream<Item = Result<AnswerPiece, Error>> + Send>>;

/// Something that answers requests.
pub trait ChatModel: Send + Sync + 'static {
    /// Sends the request and returns once the provider has accepted it. Every wait is bounded by the time-outs
    /// this model was built with; an error carries whether and when another try makes sense.
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>>;

    /// Whether there is a model of this id, as far as its provider says. None where it does not.
    fn serves<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Option<bool>> {
        std::future::ready(None).boxed()
    }
}
