//! The rules of the product about stored data: pure functions over typed rows.
//!
//! A back end reads rows inside its transaction, asks a rule, and writes the answer. Rules do no I/O and know no
//! database, so a synchronous and an asynchronous back end share them.

pub mod actions;
pub mod admin_audit;
pub mod client_calls;
pub mod credentials;
pub mod documents;
pub mod earlier_runs;
pub mod erasure;
pub mod idempotency;
pub mod images;
pub mod jobs;
pub mod keys;
pub mod knowledge;
pub mod ledger;
pub mod mcp;
pub mod memories;
pub mod memory_changes;
pub mod notices;
pub mod packed_deltas;
pub mod personas;
pub mod pins;
pub mod profiles;
pub mod proposals;
pub mod rate_limits;
pub mod records;
pub mod run_end;
pub mod run_log;
pub mod spending;
pub mod statistics;
pub mod stored_text;
pub mod submit;
pub mod undo;
pub mod versions;
pub mod webhooks;
