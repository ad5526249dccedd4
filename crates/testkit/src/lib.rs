//! The parts that tests are made of: a scripted upstream on a real socket, and a whole server on another.
//!
//! Never shipped. [`upstream::Upstream`] plays the model and checks every request as strictly as the provider would;
//! [`TestApp`] is the real router over a real database in a folder of its own; [`still`] holds clock and ids still, so
//! that a log can be compared as text.

#![expect(clippy::expect_used, clippy::panic, reason = "what goes wrong here fails the test")]

mod app;
mod audit;
mod boundary;
pub mod database;
pub mod earlier;
pub mod fold;
mod frames;
pub mod issuer;
pub mod listen;
pub mod mcp;
pub mod pictures;
pub mod real;
mod samples;
mod sse;
pub mod still;
pub mod upstream;
mod vectors;
pub mod web;

pub use app::{Answer, Reach, Setup, Stopped, TAVILY_KEY, TestApp, plain_client, registry};
pub use audit::audit;
pub use boundary::Fuse;
pub use frames::{Frame, Frames, script};
pub use reqwest::Method;
pub use samples::{Arrivals, ToolArrival, nested_arrays, nested_text};
pub use sse::{EventDecoder, EventTooLarge, StreamedEvent};
pub use vectors::{StalledVectors, WordVectors};

/// For tests that make requests with certificates of their own.
pub mod client {
    pub use reqwest::{Certificate, Client, ClientBuilder, RequestBuilder, Response, Version};
}

/// For tests that look into a database, or break it.
pub mod sql {
    pub use rusqlite::types::Value as SqlValue;
    pub use rusqlite::{Connection, ToSql, params};
}
