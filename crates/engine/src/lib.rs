//! The agent: takes a message, loads what it needs, runs the loop, writes the log, and lets anyone follow it.
//!
//! [`Engine`] is the whole of it to the outside. Inside, `run` holds the loop, `context` what the model sees, `bus`
//! and `follow` how events reach readers. Everything a run does is in its thread's log first.

mod actions;
mod apps;
mod bus;
mod context;
mod documents;
mod engine;
mod error;
mod files;
mod follow;
mod gate;
mod hiding;
mod jobs;
mod keys;
mod limits;
mod mcp;
mod memories;
mod missing;
mod models;
mod personas;
mod pins;
mod profile;
mod prompts;
mod proposals;
mod records;
mod request;
mod requests;
mod run;
mod sections;
mod spending;
mod summaries;
mod sweep;
mod transcript;
mod undo;
mod usage;
mod vault;
mod views;

pub use actions::ActionQuery;
pub use bus::Bus;
pub use documents::{DEFAULT_DOCUMENT_BYTES, Extractor, InProcess};
pub use engine::{Engine, Parts};
pub use error::Error;
pub use files::FilePlace;
pub use follow::Follower;
pub use gate::CallShares;
pub use keys::{Grant, LOCAL_USER, MadeKey, NewKey};
pub use memories::{Added, ExportFormat, MAX_IMPORT_BYTES, MessageQuery};
pub use models::model_problems;
pub use records::{Edit, RecordPlace, RecordSearch, RecordsPlace, Terms};
pub use request::{MAX_MESSAGE_BYTES, PageQuery};
pub use requests::Submitted;
pub use sections::{
    ExampleVectors, RecordsByType, SaidMessage, SectionRates, choose_sections, chosen as chosen_sections,
    cross_validate, learn_sections,
};
pub use store::Once;
