//! Talk to a language model: one [`ModelRequest`] in, one stream of [`AnswerPiece`]s out, one [`Error`].
//!
//! Each wire is a folder of `wire` (its JSON as types), `encode` (request to wire) and `decode` (wire to pieces), all
//! pure; `http` is the only part that opens a socket and `reading` the only one that reads from it. `registry` knows
//! which models there are and what each can do; `tokens` counts what a request costs before it is sent. Retrying is the caller's business, because only the caller can tell its
//! readers that text they have seen is void; an [`Error`] says what may be done.

pub mod anthropic;
mod capabilities;
pub mod chat;
mod circuit_breaker;
mod connect;
mod embeddings;
mod error;
mod health;
mod http;
pub mod known_models;
mod lines;
mod model_list;
pub mod ollama;
mod prices;
mod reading;
mod refusal;
mod refused_settings;
mod registry;
mod request;
mod rescue;
pub mod responses;
mod retry_without_setting;
mod setting;
pub mod sse;
mod stream;
mod strict_schema;
mod tally;
mod tokens;
mod tool_fit;

pub use anthropic::AnthropicVersion;
pub use capabilities::{Capabilities, LongPrice, Price, ProviderKind, SchemaSupport};
pub use circuit_breaker::{BreakerRules, CircuitBreaker};
pub use connect::{ProviderWire, connect};
pub use embeddings::{CachedEmbeddings, Embedder, HttpEmbeddings};
pub use error::{Error, Phase};
pub use health::ProviderHealth;
pub use http::{Endpoint, InvalidEndpoint, ProviderKey, Timeouts};
pub use known_models::Catalogue;
pub use prices::Prices;
pub use registry::{Listing, MODEL_CHOICES, Model, ModelProvider, ModelRegistry};
pub use request::{
    AnswerFormat, CallResult, Exchange, ModelRequest, PromptImage, PromptMessage, Schema, ToolSpec, UserTurn,
};
pub use setting::{ModelSetting, Unsupported};
pub use stream::{AnswerPiece, ChatModel, PieceStream};
pub use strict_schema::is_strict_schema;
pub use tokens::{Counter, Tokens};
pub use tool_fit::{ToolFit, fitting_tools};
