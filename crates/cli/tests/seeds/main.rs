//! The five products, statement by statement: each test stands for at most three rows of `docs/seeds.md`.
//!
//! The real binary serves a copy of the product's folder, and a scripted upstream plays the model.
//! `cargo xtask seeds --mutate` names a group in `target/seeds/broken`; then the copy is broken as `mutations/` says, and
//! the tests of that group must fail.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "helpers of tests may fail like the tests themselves, and are shared with tests that need more of them"
)]

#[path = "../it/process.rs"]
mod process;
mod product;
#[path = "../it/world.rs"]
mod world;

mod companion;
mod kalito;
mod studio;
mod trailhead;
mod tutor;
