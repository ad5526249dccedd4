//! Writes of tools, the changes they come to, and the rows of actions, proposals, records and files.

use jiff::Timestamp;
use protocol::{
    ActionId, CallId, ClientCallStatus, Decision, Effect, MemoryId, ProposalId, RecordId, RunId, Scope,
    ThreadId, ToolStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::{NewPinRow, NewText, ProfileRow};
use crate::{ActionStatus, NewMemoryRow};

/// One change that a call makes, committed together with its outcome. It names the version it was made for: if the thing
/// has changed meanwhile, nothing of the call is committed.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Makes, changes or (without data) deletes a record. `expected` is 0 for one that is not there yet.
    Record { id: RecordId, kind: String, data: Option<Value>, expected: u64 },
    /// Makes, changes or (without content) deletes a file, by its path.
    File { path: String, content: Option<String>, expected: u64 },
    /// Proposes a call that outlives its run.
    Propose(NewProposal),
    /// Changes what is proposed, or its note; it must still be open.
    Reword { id: ProposalId, input: Option<Value>, note: Option<String> },
    /// Withdraws a proposal that is still open.
    Withdraw { id: ProposalId },
    /// Undoes the changes of another action.
    Undo { action: ActionId },
    /// Adds a memory. It needs no call: what the user asks to be remembered is written with `context:loaded`.
    Remember(NewMemoryRow),
    /// Forgets a memory, because the user has said so in a message; not for calls. One that is gone is left alone.
    Forget { memory: MemoryId },
    /// Puts what the user says of themselves to this app in the place of the profile of that version.
    Profile(ProfileRow),
    /// Keeps a text beside the log, with the `context:loaded` that names it; not for calls.
    Keep(NewText),
    /// Adds a pin, with the `context:loaded` that says so; not for calls.
    Pin(NewPinRow),
}

/// The change that a write has made, kept with its action so that it can be put back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum AppliedChange {
    /// `before` is null for a record that was not there. `version` is the one the write has made, `was` the one that
    /// first had what is in `before`: an undo brings that state back under a new version.
    Record {
        id: RecordId,
        kind: String,
        before: Option<Value>,
        was: u64,
        version: u64,
    },
    File {
        path: String,
        before: Option<String>,
        was: u64,
        version: u64,
    },
    /// A memory that was not there, and that is removed when it is put back.
    Memory {
        id: MemoryId,
        version: u64,
    },
    /// The profile of the user in the app; `before` is what stood there, as an object of its fields.
    Profile {
        before: Value,
        version: u64,
    },
}

/// A proposal to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewProposal {
    pub id: ProposalId,
    pub tool: String,
    pub input: Value,
    pub note: Option<String>,
    pub expires_at: Timestamp,
}

/// An action as its entries in the ledger tell it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionRow {
    pub id: ActionId,
    pub scope: Scope,
    /// The actor who spoke for the user, if it was not the user.
    pub actor: Option<String>,
    pub thread: Option<ThreadId>,
    pub run: Option<RunId>,
    pub step: Option<u32>,
    pub tool: String,
    pub effect: Effect,
    pub status: ActionStatus,
    pub input: Value,
    pub output: Value,
    /// The changes that can be put back; empty when nothing can.
    pub changes: Vec<AppliedChange>,
    pub started_at: Timestamp,
    pub duration_ms: Option<u64>,
    pub undone_by: Option<ActionId>,
    pub undo_of: Option<ActionId>,
    /// Another action undoes this one, or may have undone it: the result of that action is unknown.
    pub undo_under_way: bool,
    /// Its place among the scope's actions.
    pub position: u64,
}

/// Which actions to list. An absent field does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionFilter {
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    pub tool: Option<String>,
    pub status: Option<ActionStatus>,
    pub effect: Option<Effect>,
    pub undone: Option<bool>,
}

/// An action that no run calls: an undo by the user, or a proposal that was confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAction {
    pub id: ActionId,
    pub tool: String,
    pub effect: Effect,
    pub input: Value,
    /// The actor who speaks for the user, if it is not the user.
    pub actor: Option<String>,
}

/// How an action without a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionEnd {
    pub status: ToolStatus,
    pub output: Value,
    pub duration_ms: u64,
    pub writes: Vec<Write>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProposalRow {
    pub id: ProposalId,
    pub scope: Scope,
    pub thread: Option<ThreadId>,
    /// The run that waits for it, with the call it is about; none for one that outlives its run.
    pub run: Option<RunId>,
    pub call: Option<CallId>,
    pub tool: String,
    pub input: Value,
    /// Of tool and input: what is confirmed is what was shown.
    pub hash: [u8; 32],
    pub note: Option<String>,
    /// None while it is open.
    pub decision: Option<Decision>,
    /// The action that a confirmed proposal became.
    pub action: Option<ActionId>,
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
    pub decided_at: Option<Timestamp>,
}

/// A call that the client makes.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientCallRow {
    pub id: CallId,
    pub scope: Scope,
    pub thread: ThreadId,
    pub run: RunId,
    pub tool: String,
    /// Null once erased.
    pub input: Value,
    pub effect: Effect,
    pub status: ClientCallStatus,
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
    pub answered_at: Option<Timestamp>,
}

/// The client's result for a call, as the model gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    pub status: ToolStatus,
    pub output: Value,
    pub outside: bool,
    pub suspicious: bool,
}

/// Which records to list: newest change first, or by how well they match the words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordQuery {
    /// Words that must occur in the record.
    pub text: Option<String>,
    /// Fields at the top level that must have exactly this value; for a list, that must hold it.
    pub fields: Vec<(String, Value)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    pub path: String,
    pub version: u64,
    pub content: String,
    pub updated_at: Timestamp,
}

/// A version of a record or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThingVersion {
    pub version: u64,
    /// The text of a file, or the data of a record as JSON; none if it was deleted.
    pub contents: Option<String>,
    pub updated_at: Timestamp,
    /// The action that made it; none if the user did.
    pub action: Option<ActionId>,
}

/// The place at which an action would be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoPlace {
    /// Its changes in the store are put back.
    Store,
    /// Its tool makes another call.
    Outside,
}

/// The changes that an undo of an action would make.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UndoPlan {
    /// Why it is not possible.
    pub refusal: Option<String>,
    /// In the order in which they would be made; none outside the store.
    pub changes: Vec<PlannedChange>,
}

/// A change that an undo would make.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedChange {
    /// The change that would be put back.
    pub change: AppliedChange,
    /// The contents now, and after the undo.
    pub now: Option<Value>,
    pub then: Option<Value>,
    /// Whether these contents are left out, because all of them together are too large.
    pub left_out: bool,
}

/// A place in a list that is sorted by time, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeCursor<I> {
    pub at: Timestamp,
    pub id: I,
}

/// The result of verifying the whole ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    pub scopes: u64,
    pub entries: u64,
    /// Entries whose payload was erased: their chain holds, and what they said is gone.
    pub erased: u64,
    /// Faults in words, at most [`Verified::MAX_FAULTS`].
    pub faults: Vec<String>,
}

impl Verified {
    pub const MAX_FAULTS: usize = 100;
}
