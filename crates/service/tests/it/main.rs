//! The service from the outside: runs over a real socket, a real database and a scripted model.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

mod apps;
mod choices;
mod context;
mod corrupt;
mod cut;
mod earlier;
mod effects;
mod fallback;
mod faults;
mod full;
mod gone;
mod images;
mod jobs;
mod keys;
mod limits;
mod memory;
mod missing;
mod models;
mod obstacles;
mod proposals;
mod recovery;
mod runs;
mod spending;
mod stopping;
mod structured;
mod sweep;
