//! The words of Rondo as types: ids, scopes, events, and what the API sends and receives.
//!
//! Data only. Nothing here does IO, waits, or knows a database or a provider; every other crate may use it.

mod api;
mod clock;
mod event;
mod id;
mod scope;

pub use api::{
    AppView, JobView, KeyMade, KeyRequest, KeyView, Message, NewRun, NewThread, OnBusy, Page, Regenerate,
    Role, RunResult, RunView, Settings, ThreadChange, ThreadView, ToolCallView, ToolResultView,
};
pub use clock::{Clock, Ids, SystemClock, TimeOrderedIds};
pub use event::{
    Call, ContextLoaded, Delta, Event, Failure, Finish, Kind, MessageUser, ReasoningDelta, RunEnd, RunStart,
    RunStatus, Snapshot, StepEnd, StepReset, StepRetry, StepStart, Stored, StreamComplete, TextDelta,
    ThreadNamed, ToolComplete, ToolInput, ToolStart, ToolStatus, Unreadable, Usage,
};
pub use id::{CallId, JobId, KeyId, MessageId, ParseIdError, RunId, Seq, ThreadId};
pub use scope::{AppId, Principal, Scope, UserId};
