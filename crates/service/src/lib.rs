//! The service: what clients and admins ask for, one file for each noun, each request for a principal.
//!
//! [`Service`] checks a request, asks the store or the agent, and gives the answer as the API shows it. How a run works
//! is the agent's; nothing here has to be known for it.

mod access;
mod actions;
mod allowances;
mod apps;
mod audit;
mod calls;
mod channel;
mod checks;
mod credentials;
mod documents;
mod earlier_turns;
mod embeddings;
mod export;
mod extractor;
mod files;
mod grant;
mod images;
mod jobs;
mod keys;
mod knowledge;
mod knowledge_updates;
mod mcp;
mod memories;
mod messages;
mod models;
mod open_streams;
mod parts;
mod personas;
mod pins;
mod profile;
mod prompts;
mod proposals;
mod records;
mod runs;
mod service;
mod sessions;
mod statistics;
mod summaries;
mod thread_search;
mod threads;
mod undo_previews;
mod usage;
mod vault;
mod views;

pub use actions::ActionQuery;
pub use agent::{
    AcceptedRun, AgentParts, Bus, CallShares, ChannelEvent, Error, Follower, UserFollower, model_problems,
};
pub use apps::default_app;
pub use channel::MAX_FOLLOWED_THREADS;
pub use checks::{MAX_MESSAGE_BYTES, PageQuery};
pub use documents::DEFAULT_DOCUMENT_BYTES;
pub use embeddings::{EmbeddedTexts, MAX_EMBEDDED_BYTES, MAX_EMBEDDED_TEXTS};
pub use export::{ThreadExport, ThreadFormat};
pub use extractor::{Extractor, InProcess};
pub use grant::{Grant, GrantSource, LOCAL_USER};
pub use images::ImageUpload;
pub use keys::{KEY_PREFIX, checked_user};
pub use knowledge::knowledge_problems;
pub use memories::{Added, MAX_IMPORT_BYTES, MessageQuery};
pub use memory::exchange::ExchangeFormat;
pub use messages::SpokenMessage;
pub use open_streams::StreamAccess;
pub use protocol::NewKey;
pub use records::{Edit, RecordPlace, RecordSearch, RecordsPlace, Terms};
pub use service::{Service, ServiceParts};
pub use sessions::{SESSION_HOURS, SessionMade, SessionProof};
pub use statistics::{RunsRequest, StatsRequest, UsageRequest};
pub use store::{HeldByUsers, IdempotencyClaim, NumberedNotice};
pub use threads::ThreadQuery;
