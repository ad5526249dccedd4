//! Talk to a language model: one [`Request`] in, one stream of [`Piece`]s out, one [`Error`].
//!
//! Each provider is a folder of `wire` (its JSON as types), `encode` (request to wire) and `decode` (wire to pieces),
//! all pure; `http` is the only part that opens a socket. Retrying is the caller's business, because only the caller
//! can tell its readers that text they have seen is void; an [`Error`] says what may be done.

mod error;
mod http;
pub mod openai;
mod refusal;
mod request;
pub mod sse;
mod stream;

pub use error::{Error, Phase};
pub use http::{Endpoint, InvalidEndpoint, Secret, Timeouts};
pub use request::{Answered, Exchange, Message, Request, ToolSpec};
pub use stream::{ChatModel, Piece, PieceStream};
