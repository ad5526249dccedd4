//! The real binary, from the outside: started, spoken to, killed and started again.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail like the tests themselves"
)]

mod actions;
mod apps;
mod backlog;
mod backup;
mod border;
mod calls;
mod catalogue;
mod chat;
mod config;
mod copy;
mod crash;
mod cut;
mod docs;
mod doctor;
mod drain;
mod full;
mod import;
mod init;
mod kalito;
mod keys;
mod mcp;
mod memories;
mod migrate;
mod model_limits;
mod models;
mod openapi;
mod privacy;
mod process;
mod pull;
mod recovery;
mod secrets;
mod serve;
mod stop;
mod terminal;
mod tls;
mod tools;
mod trailhead;
mod tutorial;
mod world;
