//! Methods for the server and its admin: keys, usage, MCP tools, credentials, and work that crosses scopes.

use std::sync::Arc;

use jiff::Timestamp;
use protocol::{
    AppId, AuditEntryView, CredentialView, JobId, KeyId, KeyView, Principal, RunId, Scope, SessionId,
    SessionView, StatsPoint, ThreadId, Usage, UsageTotal, UsageView, Used, UserLimits,
};
use uuid::Uuid;

use super::Store;
use crate::rules::statistics::{StatsQuery, TooLarge, UsageQuery};
use crate::{
    ActionRow, Error, HeldByUsers, IdempotencyClaim, JobRow, McpOffer, McpToolRow, NewKeyRotation, PageOf,
    PageRows, RevokedKey, RotatedKey, RunFilter, RunRow, ScannedRuns, SessionRow, TimeCursor, Verified,
};

// Keys of users. The store knows the secret of a key by its hash alone.
store_methods! {
    /// Adds a key. Under the key of a request that the scope made before, gives the one made then.
    fn add_key(key: KeyView, hash: [u8; 32], once: Option<(Scope, IdempotencyClaim)>) -> Option<KeyId>;
    /// The key with this hash, also if it is revoked or has expired.
    fn key_by_hash(hash: [u8; 32]) -> Option<KeyView>;
    /// Whether there is any key, revoked ones included.
    fn has_keys() -> bool;
    /// Whether there is a key that is neither revoked nor expired at this moment.
    fn has_good_keys(at: Timestamp) -> bool;
    /// When the access of keys and sessions ends or has ended, by id; those without an end are left out.
    fn access_ends(ids: Vec<Uuid>) -> Vec<(Uuid, Timestamp)>;
    /// Keys, oldest first, revoked ones too. With `apps`, those that are limited to one of these apps.
    fn keys(apps: Option<Vec<AppId>>, page: PageOf<TimeCursor<KeyId>>) -> PageRows<KeyView>;
    /// Revokes a key. Its sessions are no longer good, because they look at their key. None when there is no such key, or it is not limited to one of `only_apps`,
    /// where these are given. A second time changes nothing.
    fn revoke_key(id: KeyId, only_apps: Option<Vec<AppId>>, by: String) -> Option<RevokedKey>;
    /// Makes a key in place of another, which ends later. None as in [`Store::revoke_key`]. [`Error::Changed`] when the
    /// old key is revoked, has expired, or was replaced before.
    fn rotate_key(rotation: NewKeyRotation) -> Option<RotatedKey>;
    /// Notes the last use of a key, unless a later one is noted.
    fn note_key_use(id: KeyId, at: Timestamp) -> ();
    /// Deletes all keys, revoked ones too, ends the sessions that were made with them, and gives the number of keys.
    fn remove_keys(by: String) -> u64;
}

// Sessions of browsers. The store knows the secret of a session by its hash alone.
store_methods! {
    /// Adds a session, and says who speaks in it for the user. A user with [`crate::MAX_SESSIONS_PER_USER`] open sessions
    /// loses the oldest: gives the sessions that ended so.
    fn add_session(session: SessionView, hash: [u8; 32], actor: Option<String>) -> Vec<SessionId>;
    /// The session with this hash, also if it has ended or expired: [`SessionRow::is_good`] decides.
    fn session_by_hash(hash: [u8; 32]) -> Option<SessionRow>;
    /// Ends a session. `by` names the admin if an admin ends it. False when there is no such session, or not all of its
    /// apps are among `only_apps`, where these are given. A second time changes nothing.
    fn end_session(id: SessionId, only_apps: Option<Vec<AppId>>, by: Option<String>) -> bool;
    /// Sessions that have neither ended nor expired at this moment, newest first. With `apps`, those that are limited to
    /// some of these apps.
    fn sessions(apps: Option<Vec<AppId>>, page: PageOf<TimeCursor<SessionId>>, at: Timestamp) -> PageRows<SessionView>;
}

// The audit of admins. An entry is written in the transaction of the change that it tells of.
store_methods! {
    /// Newest first. The cursor is the number of the last one seen. With `apps`, the entries about these apps.
    fn admin_audit(apps: Option<Vec<AppId>>, page: PageOf<u64>) -> PageRows<AuditEntryView>;
}

// Usage. It is written with the events and jobs that caused it. Days are as `store::day` says them.
store_methods! {
    /// Usage of a user from one day to another, both included: newest day first, then by app and model, at most
    /// [`crate::MAX_USAGE_ROWS`].
    fn usage(user: &Principal, from_day: String, to_day: String) -> Vec<UsageView>;
    /// Usage of the scope on a day, over all models.
    fn usage_of_day(scope: &Scope, day: String) -> Usage;
    /// Use of the rate limits by the scope in the minute and the day of a moment, and how many of its runs work now,
    /// as far as these limits are about it.
    fn used(scope: &Scope, limits: UserLimits, at: Timestamp) -> Used;
}

// Reports for admins, over all users.
store_methods! {
    /// Runs by time, or why there is no such report.
    fn run_stats(query: StatsQuery) -> Result<Vec<StatsPoint>, TooLarge>;
    /// Usage by what the query tells apart, or why there is no such report.
    fn usage_totals(query: UsageQuery) -> Result<Vec<UsageTotal>, TooLarge>;
    /// The newest runs that fit. A page may end before it is full, because it looks at a bounded number of runs.
    fn runs_of_all(filter: RunFilter, page: PageOf<TimeCursor<RunId>>) -> ScannedRuns;
    /// Marks a run as to be cancelled, or ends it if it is only queued, as [`Store::cancel`] does. None when there is no
    /// such run, or its app is not one of `only_apps`, where these are given.
    fn cancel_as_admin(id: RunId, only_apps: Option<Vec<AppId>>, by: String) -> Option<RunRow>;
    /// Makes a dead job ready; one that waits or is at work stays as it is. None as in [`Store::cancel_as_admin`].
    /// [`Error::Changed`] when the job is done.
    fn retry_job(id: JobId, only_apps: Option<Vec<AppId>>, by: String) -> Option<JobRow>;
}

// Tools of MCP servers. A definition is used only as it was approved, so that no server can change what a model is told
// behind the operator's back.
store_methods! {
    /// By server, each in the order in which it offers them; those that are gone stay where they were.
    fn mcp_tools(app: &AppId) -> Vec<McpToolRow>;
    /// Puts down all that a server offers now, and gives what is known of it. The tools with which a server is first seen
    /// are approved as they are; later, what is new or has changed waits. [`Error::Changed`] when it is too much. Of
    /// more than [`crate::MAX_MCP_TOOLS_PER_SERVER`], those that are gone are forgotten, the unapproved first.
    fn put_mcp_tools(app: &AppId, server: &str, offered: Vec<McpOffer>) -> Vec<McpToolRow>;
    /// Approves tools, each with the hash of the definition that was looked at. [`Error::Changed`] if one is another by
    /// now, and then none is approved. Gives what is known of the server.
    fn approve_mcp_tools(app: &AppId, server: &str, wanted: Vec<(String, String)>, by: &str) -> Vec<McpToolRow>;
    /// Takes approvals away; what has none stays as it is. [`Error::NotFound`] if a tool is not known, and then none is
    /// taken away.
    fn revoke_mcp_tools(app: &AppId, server: &str, tools: Vec<String>, by: &str) -> ();
}

// Credentials of users, sealed before they come here. Under a key ([`IdempotencyClaim`]) a change happens once.
store_methods! {
    /// By name.
    fn credentials(scope: &Scope) -> Vec<CredentialView>;
    /// As it was sealed.
    fn credential(scope: &Scope, name: &str) -> Option<Vec<u8>>;
    /// Adds it or takes the place of the one of its name. [`Error::Changed`] when it is too long or there is no room.
    fn put_credential(scope: &Scope, name: &str, sealed: Vec<u8>, once: Option<IdempotencyClaim>) -> CredentialView;
    /// [`Error::NotFound`] if there is none of that name.
    fn delete_credential(scope: &Scope, name: &str, once: Option<IdempotencyClaim>) -> ();
}

// Work that crosses scopes.
store_methods! {
    /// Makes this process the owner of every run under way and of every job begun that no node has, and gives back what
    /// their model calls held. Nodes that have been silent for too long lose theirs. Returns the runs, oldest first.
    fn adopt() -> Vec<RunRow>;
    /// Takes in all that other nodes have committed so far.
    fn catch_up() -> ();
    /// Threads with a run of this node that was told to stop. None if no other node shares the database.
    fn told_to_stop() -> Vec<ThreadId>;
    /// The run under way in a thread.
    fn active_run(thread: ThreadId) -> Option<RunRow>;
    /// Whether the thread is deleted and has rows that [`Store::purge`] will remove.
    fn is_deleted(thread: ThreadId) -> bool;
    /// Removes rows of deleted threads that have no run under way, of deleted documents and of those that were not
    /// whole within an hour, and keys of requests and jobs from before `forget_before`, a bounded number at a time. A
    /// job that is dead is kept thirty days longer than one that is done. A session is kept for a day after its end. If
    /// adding a document was interrupted after it was whole, continues there. True when more is left.
    fn purge(deleted_before: Timestamp, forget_before: Timestamp) -> bool;
    /// Removes the deltas of one run that ended at `ended_before` or earlier, all of them together; its facts stay. True
    /// when there may be another.
    fn prune(ended_before: Timestamp) -> bool;
    /// Closes proposals and calls of the client whose time is over, a bounded number at a time. Gives the threads whose
    /// runs can continue.
    fn expire_waiting() -> Vec<ThreadId>;
    /// When the next open proposal or call of the client expires.
    fn next_expiry() -> Option<Timestamp>;
    /// Takes over actions without a run that were begun and not ended, oldest first: their process has died. Actions
    /// with `undo_of` were to undo another.
    fn begun_actions() -> Vec<ActionRow>;
    /// Goes through every chain of the ledger.
    fn verify_ledger() -> Verified;
    /// Scopes after another one, in order, with something to recall that has no vector of this model. It looks at every
    /// item on the way.
    fn scopes_to_embed(model: &str, after: Option<&Scope>, limit: usize) -> Vec<Scope>;
    /// Apps that are missing, and since when. As many as there are apps.
    fn missing_apps() -> Vec<(AppId, Timestamp)>;
    /// Notes that an app is missing. Gives since when it is.
    fn note_missing(app: &AppId) -> Timestamp;
    /// Notes that it is there again.
    fn note_found(app: &AppId) -> ();
    /// Notes that a revision of an app is served from now on. False if it is not kept.
    fn note_served_revision(app: &AppId, revision: &str) -> bool;
    /// Keeps the files of an app's revision, as bytes. Of more than [`crate::MAX_APP_REVISIONS`] of the app, those go that
    /// were not served for longest.
    fn keep_revision(app: &AppId, revision: &str, files: Vec<u8>) -> ();
    /// The files of an app's revision, if they are kept.
    fn files_of_revision(app: &AppId, revision: &str) -> Option<Vec<u8>>;
    /// Random bytes that were drawn when the store was made. Only this store has them.
    fn secret() -> [u8; 32];
}

impl Store {
    /// The number of this server among those that share the database; none if it is alone.
    pub fn node(&self) -> Option<i64> {
        self.database.node_number()
    }

    /// The counts of things that users hold open on all servers that share the database; none if this one is alone.
    pub fn held_by_users(&self) -> Option<Arc<HeldByUsers>> {
        self.database.held_by_users()
    }

    /// False once nothing more can be written, because the disk or the writer itself has failed: only a restart knows what
    /// is on the disk.
    pub fn is_open(&self) -> bool {
        self.database.is_open()
    }

    /// Returns when nothing more can be written.
    pub async fn writing_ended(&self) {
        self.database.writing_ended().await
    }
}
