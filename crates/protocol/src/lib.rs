//! The words of Rondo as types: ids, scopes, events, and what the API sends and receives.
//!
//! Data only. Nothing here does IO, waits, or knows a database or a provider; every other crate may use it.

mod action;
mod api;
mod canonical;
mod clock;
mod event;
mod id;
mod memory;
mod scope;
mod settings;
mod usage;

pub use action::{ActionView, Decision, Effect, FileView, ProposalView, RecordView, UndoRefused, UndoReport};
pub use api::{
    AppView, JobView, KeyMade, KeyRequest, KeyView, Message, ModelView, NewRun, NewThread, OnBusy, Page,
    PriceView, Regenerate, Role, RunResult, RunView, ThreadChange, ThreadView, ToolCallView, ToolResultView,
    UsageReport, UsageView,
};
pub use canonical::canonical;
pub use clock::{Clock, Ids, SystemClock, TimeOrderedIds};
pub use event::{
    Call, ContextLoaded, Delta, Event, Failure, Finish, Kind, MemoryUpdate, MessageUser, ProposalClosed,
    ProposalOpen, ReasoningDelta, Remembered, RememberedOutcome, RunEnd, RunStart, RunStatus, Snapshot,
    StepEnd, StepReset, StepRetry, StepStart, Stored, StreamComplete, Structured, TextDelta, ThreadNamed,
    ToolComplete, ToolInput, ToolStart, ToolStatus, Unreadable,
};
pub use id::{
    ActionId, CallId, JobId, KeyId, MemoryId, MessageId, ParseIdError, ProposalId, RecordId, RunId, Seq,
    ThreadId,
};
pub use memory::{
    FoundMessage, ImportRefused, ImportReport, MemoryHistoryView, MemoryHit, MemoryPatch, MemoryQuery,
    MemorySettings, MemorySource, MemoryVersionView, MemoryView, MessageHit, NewMemory, SaidView,
};
pub use scope::{AppId, Principal, Scope, UserId};
pub use settings::{Effort, OutputFormat, Settings};
pub use usage::{Cost, Usage};
