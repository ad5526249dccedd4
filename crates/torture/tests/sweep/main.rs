//! The crash-boundary sweep: each scenario is played to the end once for every moment at which the server could die,
//! dying there, coming back on the same data and healing; then everything that must hold is looked at.
//!
//! A moment is the time before or after a commit, or around a request to the model or to a tool that acts outside. A
//! sweep ends when five plays have not reached their moment. `cargo nextest run -p torture --test sweep --no-capture` shows
//! how many there were.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests may fail like the tests themselves, and say how far they came"
)]

mod approvals;
mod calls;
mod client;
mod jobs;
mod judge;
mod memories;
mod model;
mod notes;
mod providers;
mod sends;
mod stage;
mod stops;
mod things;
mod tools;
mod turns;
mod undo;
