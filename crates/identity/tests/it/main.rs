//! Tokens and key sets of issuers on real sockets, most of them made to deceive.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests may fail like the tests themselves"
)]

mod discovery;
mod files;
mod forgeries;
mod loads;
mod mutations;
mod remembering;
mod rotation;
mod support;
mod users;
