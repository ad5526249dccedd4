//! The agent: takes a message, loads what it needs, runs the loop, writes the log, and lets anyone follow it.
//!
//! [`Agent`] starts, stops and resumes runs over one [`World`] of handles. `state` is what a run has done, `context` is
//! what the model sees, `decide` is the policy, `run` performs it, `live` brings events to readers, `readers` finds where
//! each of them begins, and `jobs` is work in the background. Everything a run does is in its thread's log first.

mod access;
mod agent;
mod app_revisions;
mod apps;
mod context;
mod decide;
mod error;
mod gate;
mod hiding;
mod jobs;
mod live;
mod mcp;
mod models;
mod personas;
mod profile;
mod prompt;
mod readers;
mod run;
mod sections;
mod spending;
mod spoken_requests;
mod state;
mod sweep;
mod tasks;
mod transcript;
mod unseen_images;
mod world;

pub use access::{run_row, thread_row};
pub use agent::{AcceptedRun, AcceptedStart, Agent, CANNOT_UNDO, OutsideEffect, RunCanceller, describe_undo};
pub use apps::{ServedApp, ServedApps};
pub use context::{cap_text, most_pin_tokens};
pub use decide::{DAY_SPENT, day_spent, has_day};
pub use error::Error;
pub use gate::CallShares;
pub use hiding::hide_in_action;
pub use jobs::{embed_soon, of_message as jobs_of_message};
pub use live::{Bus, ChannelEvent, Follower, UserFollower, run_result, tool_result_view};
pub use mcp::{look_at_personal_servers, look_at_server, offer_again};
pub use models::{check_price, model_problems};
pub use personas::{find as find_persona, usable_persona};
pub use profile::ALL_APPS;
pub use prompt::prompt_of_step;
pub use readers::{follow_run, follow_thread, follow_user, streamed_text, submit_and_follow, wait_for_run};
pub use run::earlier_result;
pub use sections::{
    ExampleVectors, RecordsByType, SaidMessage, SectionRates, choose_sections, chosen_sections,
    cross_validate, learn_sections,
};
pub use sweep::Sweeper;
pub use tasks::Tasks;
pub use transcript::{MessageTurn, UNREADABLE, read as read_message};
pub use world::{AgentParts, World};
