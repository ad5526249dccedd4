//! Actions with their ledger, proposals, and the records and files that tools change.

use protocol::{
    ActionId, CallId, Decision, FileView, Principal, ProposalId, RecordId, RecordView, RunId, Scope,
};

use super::Store;
use crate::rules::undo::UndoneThings;
use crate::{
    ActionEnd, ActionFilter, ActionRow, CallAnswer, ClientCallRow, Error, FileRow, IdempotencyClaim,
    NewAction, PageOf, PageRows, ProposalRow, RecordQuery, ThingVersion, TimeCursor, UndoPlace, UndoPlan,
    Write,
};

// The ledger of what tools did. Actions of runs are written with the events that tell of them.
store_methods! {
    /// Newest first. The cursor is the position of the last one seen.
    fn actions(scope: &Scope, filter: ActionFilter, page: PageOf<u64>) -> PageRows<ActionRow>;
    /// The action if it is this principal's.
    fn action(principal: &Principal, id: ActionId) -> ActionRow;
    /// The action if it is this scope's.
    fn action_of(scope: &Scope, id: ActionId) -> ActionRow;
    /// Undoes the changes of an action, as the new action `by`, in one transaction. [`Error::Changed`] says why it
    /// cannot be undone. Under the key of an earlier request, gives what that one made.
    fn undo(principal: &Principal, id: ActionId, by: NewAction, once: Option<IdempotencyClaim>) -> ActionRow;
    /// Begins to undo an action that acted outside: commits the intent of `by`, which is to be ended with
    /// [`Store::end_action`]. If `by` is complete, the action is undone; if it failed, another undo may try; if its
    /// result is unknown, none may. [`Error::Changed`] says why the action cannot be undone. Under the key of an
    /// earlier request, gives what that one began, as it is now.
    fn begin_undo(principal: &Principal, id: ActionId, by: NewAction, once: Option<IdempotencyClaim>) -> ActionRow;
    /// Returns the changes that an undo of each of these actions of the scope would make, one after the other in this
    /// order. `undone` has the things that earlier ones would have put back, and gets those of these.
    fn undo_plans(actions: Vec<(ActionRow, UndoPlace)>, undone: UndoneThings) -> (Vec<UndoPlan>, UndoneThings);
    /// Confirms an open proposal that outlives its run, and commits the intent of the action it becomes. Under the key
    /// of an earlier request, gives the action that one made. [`Error::Decided`] if it is decided already or too late.
    fn begin_action(scope: &Scope, proposal: ProposalId, action: NewAction, once: Option<IdempotencyClaim>) -> ActionRow;
    /// Commits its outcome with its writes.
    fn end_action(scope: &Scope, id: ActionId, end: ActionEnd) -> ActionRow;
}

// Calls that wait for a decision.
store_methods! {
    /// Newest first; only the open ones if so asked.
    fn proposals(scope: &Scope, open: bool, page: PageOf<TimeCursor<ProposalId>>) -> PageRows<ProposalRow>;
    fn proposal(principal: &Principal, id: ProposalId) -> ProposalRow;
    /// The proposal if it is this scope's.
    fn proposal_of(scope: &Scope, id: ProposalId) -> ProposalRow;
    /// The open ones of a run.
    fn proposals_of(run: RunId) -> Vec<ProposalRow>;
    /// Decides an open proposal. For one of a run, `proposal:closed` is recorded, and the call's denied result unless
    /// it is confirmed. [`Error::Decided`] if it is decided already or too late; one of a run whose time is over is
    /// closed by [`Store::expire_waiting`], which says which threads continue. Under the key of an earlier request,
    /// gives it as it is now.
    fn decide(principal: &Principal, id: ProposalId, decision: Decision, once: Option<IdempotencyClaim>) -> ProposalRow;
}

// Calls that the client makes.
store_methods! {
    /// Newest first; only the open ones if so asked.
    fn client_calls(scope: &Scope, open: bool, page: PageOf<TimeCursor<CallId>>) -> PageRows<ClientCallRow>;
    /// The call if it is this principal's.
    fn client_call(principal: &Principal, id: CallId) -> ClientCallRow;
    /// The open ones of a run.
    fn client_calls_of(run: RunId) -> Vec<ClientCallRow>;
    /// Records the result of an open call. [`Error::CallClosed`] if it has one already or its time is over; what is
    /// over is closed by [`Store::expire_waiting`], which says which threads continue. Under the key of an earlier
    /// request, gives the call as it is now.
    fn answer_call(principal: &Principal, id: CallId, answer: CallAnswer, once: Option<IdempotencyClaim>) -> ClientCallRow;
}

// Typed objects of apps.
store_methods! {
    fn record_of(scope: &Scope, kind: &str, id: RecordId) -> RecordView;
    /// Newest change first, or best match first where words are asked for.
    fn records(scope: &Scope, kind: &str, query: RecordQuery, page: PageOf<TimeCursor<RecordId>>) -> PageRows<RecordView>;
    /// How many of these are records of this kind in the scope.
    fn count_records(scope: &Scope, kind: &str, ids: &[RecordId]) -> usize;
    /// Makes, changes or deletes a record by the user's own hand. None when it was deleted.
    fn put_record(scope: &Scope, write: Write, once: Option<IdempotencyClaim>) -> Option<RecordView>;
    /// The versions of a record, the present one first. [`Error::NotFound`] once nothing of it is left.
    fn record_versions(scope: &Scope, kind: &str, id: RecordId) -> Vec<ThingVersion>;
}

// Markdown files of users, by path.
store_methods! {
    /// By path.
    fn files(scope: &Scope) -> Vec<FileRow>;
    /// The sizes of files, by path. Contents are not read.
    fn file_sizes(scope: &Scope) -> Vec<FileView>;
    fn file(scope: &Scope, path: &str) -> FileRow;
    /// The version a path has or had; 0 if there never was a file.
    fn file_version(scope: &Scope, path: &str) -> u64;
    /// Makes, changes or deletes a file by the user's own hand. None when it was deleted.
    fn put_file(scope: &Scope, write: Write, once: Option<IdempotencyClaim>) -> Option<FileRow>;
    /// The versions of a file, the present one first. [`Error::NotFound`] once nothing of it is left.
    fn file_versions(scope: &Scope, path: &str) -> Vec<ThingVersion>;
}
