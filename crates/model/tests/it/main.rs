//! The clients of all wires against a scripted provider on a real socket.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail like the tests themselves"
)]

mod answer;
mod fault;
mod learned;
mod request;
mod status;
mod support;
