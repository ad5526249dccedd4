//! The store's contract: one function a property, so that every back end can be held to it.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what goes wrong fails the test")]

mod constraints;
mod jobs;
mod log;
mod memories;
mod migration;
mod queue;
mod support;
mod usage;
