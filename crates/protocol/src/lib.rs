//! The words of Rondo as types: ids, scopes, events, and the requests and responses of the API.
//!
//! Data only. Nothing here does IO, waits, or knows a database or a provider; every other crate may use it.

mod access;
mod action;
mod answer_schema;
mod api;
mod branches;
mod canonical;
mod client_call;
mod clock;
mod context;
mod depth;
mod earlier_turns;
mod event;
mod id;
mod json_fields;
mod limits;
mod mcp;
mod memory;
mod notice;
mod parts;
mod past_states;
mod scope;
mod settings;
mod spending;
mod statistics;
mod status;
mod usage;
mod webhook;

pub use access::{
    ActsFor, AuditEntryView, AuditKind, KeyMade, KeyRotation, KeyView, KeysRemoved, NewKey, Right, Rights,
    SessionView,
};
pub use action::{
    ActionView, Effect, FileView, ProposalView, RecordToolView, RecordTypeView, RecordView, UndoRefused,
    UndoReport,
};
pub use answer_schema::AnswerSchema;
pub use api::{
    AppView, JobView, Message, ModelView, NewRun, NewThread, OnBusy, Page, PriceView, QueuedMessage,
    Regenerate, Role, RunResult, RunView, Siblings, ThreadChange, ThreadView, ToolCallView, ToolResultView,
    UsageReport, UsageView,
};
pub use branches::{HeadChoice, MessageMatch, ThreadHit, ThreadTree, TreeMessage};
pub use canonical::canonical;
pub use client_call::{ClientCallStatus, ClientCallView, ClientTool, NewCallResult};
pub use clock::{Clock, Ids, SystemClock, TimeOrderedIds};
pub use context::{
    DocumentHit, DocumentProgress, DocumentQuery, DocumentText, DocumentView, FragmentView, NewPersona,
    NewPin, PersonaPatch, PersonaSettings, PersonaView, PinView, ProfilePatch, ProfileView, PromptView,
    SummaryView,
};
pub use depth::{JsonScanner, MAX_JSON_DEPTH, MAX_STORED_DEPTH, json_depth, value_depth};
pub use earlier_turns::{
    EarlierCall, EarlierStep, EarlierTurn, ImportedCall, ImportedStep, ImportedThread, ImportedTurn,
    MAX_EARLIER_TURNS, ThreadToImport,
};
pub use event::{
    Call, CallOpen, ContextLoaded, Delta, Event, Failure, Finish, Forgetting, ForgettingOutcome,
    FragmentCost, Kind, LeftOut, MemoryUpdate, MessageUser, Part, Pinned, PromptLedger, ProposalClosed,
    ProposalOpen, ReasoningDelta, Remembered, RememberedOutcome, RunEnd, RunStart, RunStatus, Snapshot,
    Source, StepEnd, StepReset, StepRetry, StepStart, Stored, StreamComplete, Stretch, Structured, Summary,
    TextDelta, ThreadChanged, ThreadHead, ThreadNamed, ToolComplete, ToolInput, ToolStart, Unreadable,
    Warning,
};
pub use id::{
    ActionId, CallId, ChunkId, DocumentId, ImageId, JobId, KeyId, MemoryId, MessageId, ParseIdError, PinId,
    ProposalId, RecordId, RunId, Seq, SessionId, SummaryId, ThreadId,
};
pub use limits::{Allowance, DAY_SECONDS, MINUTE_SECONDS, Quota, Used, UserLimits};
pub use mcp::{
    CredentialRequest, CredentialView, McpApproval, McpApprovalOf, McpServerView, McpState, McpToolState,
    McpToolView, McpTransport,
};
pub use memory::{
    FoundMessage, ImportRefused, ImportReport, MAX_KIND_BYTES, MemoryHistoryView, MemoryHit, MemoryPatch,
    MemoryQuery, MemorySettings, MemorySource, MemoryVersionView, MemoryView, MessageHit, NewMemory,
    SaidView, is_kind, kind_within_subject,
};
pub use notice::{
    CallNotice, DocumentChange, DocumentNotice, MemoryNotice, Notice, NoticeChange, ProposalNotice,
    RunNotice, ThreadNotice,
};
pub use parts::{
    ImageView, MAX_DOCUMENTS_PER_MESSAGE, MAX_IMAGE_BYTES, MAX_IMAGES_PER_MESSAGE, MessagePart, NewPart,
};
pub use past_states::{FileVersionView, RecordVersionView, RunUndoPreview, UndoChange, UndoPreview};
pub use scope::{AppId, Principal, Scope, UserId};
pub use settings::{Effort, OutputFormat, Settings};
pub use spending::{LEAST_OUTPUT_TOKENS, Outlay, PlannedCall, SpendBound, SpendBounds, SpendGrant, Spending};
pub use statistics::{AdminRunView, Latencies, StatsPoint, StatsReport, UsageTotal, UsageTotals};
pub use status::{
    ActionStatus, Decision, DocumentStatus, JobStatus, MemoryStatus, MemoryVersionReason, ProposalStatus,
    ToolStatus,
};
pub use usage::{Cost, Usage};
pub use webhook::WebhookEvent;
