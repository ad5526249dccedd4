//! The store's contract: one function a property, so that every back end can be held to it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

mod actions;
mod actors;
mod admin_audit;
mod app_revisions;
mod backup;
mod client_calls;
mod constraints;
mod context;
mod credentials;
mod deltas;
mod documents;
mod durability;
mod erasure;
mod files;
mod jobs;
mod keys;
mod knowledge;
mod ledger;
mod limits;
mod lists;
mod log;
mod mcp;
mod memories;
mod migration;
mod proposals;
mod prune;
mod queue;
mod records;
mod reserve;
mod sessions;
mod stopping;
mod summaries;
mod support;
mod undo;
mod usage;
