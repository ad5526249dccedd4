//! Three methods of a store on PostgreSQL: submitting a message, recording a tool call, and claiming a job.
//!
//! Each is an asynchronous transaction that reads rows, asks the rules that SQLite asks, and writes rows. Locks on rows
//! take the place of SQLite's one writer: of the thread for its log, of the ledger's scope for its chain.

use jiff::Timestamp;
use protocol::{
    ActionId, Effect, Event, MessageId, RunId, Scope, Seq, ThreadId, ToolComplete, ToolStart, Used,
};
use store::rules::actions::{
    AppliedWrites, call_end, ended_action, new_action, started_action, stored_changes,
};
use store::rules::idempotency::{UsedKey, replayed};
use store::rules::jobs::{MAX_WORKING_PER_USER, due_at};
use store::rules::ledger::{
    LedgerEntry, LedgerHead, LedgerPayload, LedgerRow, NewLedgerEntry, OutputPlace, next_entry, payload_text,
};
use store::rules::rate_limits::{self, MinuteRow, add_minute, day_of, minute_of};
use store::rules::records::{StandingVersion, record_name};
use store::rules::submit::{
    RunAdmission, RunBeginning, admission, beginning, check_queue_room, is_urgent, job_delay,
};
use store::{
    ActionRow, ActionStatus, Admitted, AppliedChange, Error, LedgerKind, MessageRole, Once, RunInput,
    RunRequest, Stop, Submission, SubmittedRun, Target, Write,
};
use tokio_postgres::{Client, Row, Transaction};
use uuid::Uuid;

/// A failure of the database, or a refusal by a rule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the database failed: {0}")]
    Database(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Refused(#[from] Error),
}

/// A store on PostgreSQL, as far as this proof goes.
pub(crate) struct Postgres {
    pub(crate) client: Client,
    /// The moment of every transaction, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// A call of a run, and where it is recorded.
#[derive(Clone, Copy)]
pub(crate) struct CallPlace<'a> {
    pub(crate) scope: &'a Scope,
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
}

impl Postgres {
    pub(crate) async fn submit(&mut self, submission: Submission) -> Result<SubmittedRun, Failure> {
        let at = self.at;
        let tx = self.client.transaction().await?;
        let submitted = submit(&Batch { tx: &tx, at }, submission).await?;
        tx.commit().await?;
        Ok(submitted)
    }

    /// Records `tool:start`, with the intent in the ledger.
    pub(crate) async fn start_call(&mut self, place: CallPlace<'_>, start: ToolStart) -> Result<(), Failure> {
        let at = self.at;
        let tx = self.client.transaction().await?;
        let batch = Batch { tx: &tx, at };
        batch.append(place.thread, Some(place.run), &Event::ToolStart(start.clone())).await?;
        let new = new_action(start.call_id.into(), place.scope.clone(), start.name.clone(), batch.now());
        let new = ActionRow { thread: Some(place.thread), run: Some(place.run), ..new };
        let mut action = started_action(new, &start);
        let payload = LedgerPayload::intent(&action);
        action.position = batch.chain(&action, LedgerKind::Intent, &payload).await?;
        batch.insert_action(&action).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Records `tool:complete` with the writes of the call. False when the call has a result already: that one stays.
    pub(crate) async fn end_call(
        &mut self,
        place: CallPlace<'_>,
        result: ToolComplete,
        writes: Vec<Write>,
    ) -> Result<bool, Failure> {
        let at = self.at;
        let tx = self.client.transaction().await?;
        let recorded = end_call(&Batch { tx: &tx, at }, place, result, &writes).await?;
        tx.commit().await?;
        Ok(recorded)
    }

    /// Claims the job that is due longest, of a user who has few enough at work. Two workers never get the same one.
    pub(crate) async fn claim(&mut self) -> Result<Option<(Vec<u8>, i64)>, Failure> {
        let statement =
            "UPDATE jobs SET status = 'running', attempts = attempts + 1, epoch = epoch + 1, updated_at = $1
            WHERE id = (SELECT j.id FROM jobs j WHERE j.status = 'ready' AND j.run_at <= $1
                AND (SELECT count(*) FROM jobs w WHERE w.\"user\" = j.\"user\" AND w.status = 'running') < $2
                ORDER BY j.run_at, j.id LIMIT 1 FOR UPDATE)
            RETURNING id, epoch";
        let tx = self.client.transaction().await?;
        // Claims take turns: of two at once, each could give a user the last job that it may have at work.
        tx.execute("SELECT pg_advisory_xact_lock(1)", &[]).await?;
        let claimed = tx.query_opt(statement, &[&self.at, &count(MAX_WORKING_PER_USER)]).await?;
        tx.commit().await?;
        Ok(claimed.map(|row| (row.get(0), row.get(1))))
    }

    /// The chain of a scope, oldest entry first.
    pub(crate) async fn ledger(&self, scope: &Scope) -> Result<Vec<LedgerRow>, Failure> {
        let statement = "SELECT position, action, kind, at, digest, hash, salt, payload FROM ledger
            WHERE app = $1 AND \"user\" = $2 ORDER BY position";
        let rows = self.client.query(statement, &[&scope.app.as_str(), &scope.user.as_str()]).await?;
        Ok(rows.iter().map(|row| ledger_row(scope, row)).collect())
    }
}

/// A transaction under way.
struct Batch<'a> {
    tx: &'a Transaction<'a>,
    at: i64,
}

async fn submit(batch: &Batch<'_>, submission: Submission) -> Result<SubmittedRun, Failure> {
    let Submission { scope, thread, run, on_busy, once, replay_only, limits, request } = submission;
    if let Some(earlier) = batch.replayed(&scope, once.as_ref()).await? {
        let run = RunId::new(earlier);
        let statement = "SELECT thread FROM runs WHERE id = $1";
        let row = batch.tx.query_one(statement, &[&bytes(run.bytes())]).await?;
        return Ok(SubmittedRun { thread: thread_id(&row, 0), run, admitted: Admitted::Replayed });
    }
    if replay_only {
        return Err(Error::NotFound("run").into());
    }
    let thread = match thread {
        Target::New(id) | Target::Ensured(id) => batch.ensure_thread(&scope, id).await?,
        Target::Existing(id) => id,
    };
    let active = batch.active(&scope, thread).await?;
    if !limits.is_none() {
        let used = batch.used(&scope).await?;
        rate_limits::check(&limits, &used, batch.now(), active.is_none())?;
    }
    let admitted = match admission(active, on_busy)? {
        RunAdmission::Begin => {
            batch.insert_run(&scope, thread, run, &request).await?;
            begin(batch, thread, run, request).await?;
            Admitted::Running
        }
        RunAdmission::Wait { active, interrupts } => {
            let interrupted = interrupts.then_some(active);
            if interrupts {
                let stop = "UPDATE runs SET stop = $2 WHERE id = $1 AND stop IS NULL";
                batch.tx.execute(stop, &[&bytes(active.bytes()), &Stop::Interrupted.name()]).await?;
            }
            batch.insert_run(&scope, thread, run, &request).await?;
            batch.enqueue(thread, run, &request, is_urgent(on_busy)).await?;
            Admitted::Queued { interrupted, resumed: false }
        }
    };
    batch.count_run(&scope).await?;
    batch.remember(&scope, once.as_ref(), run.uuid()).await?;
    Ok(SubmittedRun { thread, run, admitted })
}

async fn begin(batch: &Batch<'_>, thread: ThreadId, run: RunId, request: RunRequest) -> Result<(), Failure> {
    let head =
        batch.tx.query_one("SELECT head FROM threads WHERE id = $1", &[&bytes(thread.bytes())]).await?;
    let head = head.get::<_, Option<Vec<u8>>>(0).map(|head| MessageId::new(uuid(&head)));
    let RunBeginning { message, user_message, start, jobs } = beginning(thread, run, request, head, None)?;
    let seq = batch.next_seq(thread).await?;
    let running = "UPDATE runs SET status = 'running', start_seq = $2, message = $3 WHERE id = $1";
    batch.tx.execute(running, &[&bytes(run.bytes()), &count(seq), &bytes(message.bytes())]).await?;
    if let Some(said) = user_message {
        let parent = said.parent_id;
        let seq = batch.append(thread, Some(run), &Event::MessageUser(said)).await?;
        batch.insert_message(thread, run, (message, parent), seq).await?;
    }
    for job in &jobs {
        let statement =
            "INSERT INTO jobs (id, kind, key, app, \"user\", thread, status, run_at, created_at, updated_at)
            SELECT $1::BYTEA, $2::TEXT, $3::TEXT, app, \"user\", thread, 'ready', $4::BIGINT, $5::BIGINT, $5::BIGINT
            FROM runs WHERE id = $6
            ON CONFLICT (kind, key) DO NOTHING";
        let due = due_at(batch.at, job_delay(job));
        let (id, key) = (bytes(job.id.bytes()), message.to_string());
        batch.tx.execute(statement, &[&id, &job.kind, &key, &due, &batch.at, &bytes(run.bytes())]).await?;
    }
    batch.append(thread, Some(run), &Event::RunStart(start)).await?;
    Ok(())
}

async fn end_call(
    batch: &Batch<'_>,
    place: CallPlace<'_>,
    result: ToolComplete,
    writes: &[Write],
) -> Result<bool, Failure> {
    let call = ActionId::from(result.call_id);
    let action = batch.action(place.scope, call).await?;
    let known = "SELECT 1 FROM tool_results WHERE call = $1";
    if batch.tx.query_opt(known, &[&bytes(call.bytes())]).await?.is_some() {
        let payload = LedgerPayload::late(result.status, &result.output);
        batch.chain(&action, LedgerKind::Late, &payload).await?;
        return Ok(false);
    }
    let event = Event::ToolComplete(result.clone());
    let seq = batch.append(place.thread, Some(place.run), &event).await?;
    let told = "INSERT INTO tool_results (call, run, status, seq) VALUES ($1, $2, $3, $4)";
    let run = bytes(place.run.bytes());
    batch.tx.execute(told, &[&bytes(call.bytes()), &run, &result.status.name(), &count(seq)]).await?;
    let mut applied = AppliedWrites::default();
    for write in writes {
        applied.changes.push(batch.write(place.scope, write).await?);
    }
    let (action, _) = ended_action(action, call_end(&result, writes), applied)?;
    let output = OutputPlace::of(seq, &event.body());
    let payload = LedgerPayload::outcome(&action, true, Some(output));
    batch.chain(&action, LedgerKind::Outcome, &payload).await?;
    let ended = "UPDATE actions SET status = $2, changes = $3, duration_ms = $4 WHERE id = $1";
    let duration = action.duration_ms.map(count);
    let changes = stored_changes(&action)?;
    batch.tx.execute(ended, &[&bytes(call.bytes()), &action.status.name(), &changes, &duration]).await?;
    Ok(true)
}

impl Batch<'_> {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.at).unwrap_or_default()
    }

    /// Locks the thread, whose log has one writer at a time, and gives the number of its next event.
    async fn next_seq(&self, thread: ThreadId) -> Result<Seq, Failure> {
        let statement = "SELECT next_seq FROM threads WHERE id = $1 FOR UPDATE";
        let row = self.tx.query_opt(statement, &[&bytes(thread.bytes())]).await?;
        let row = row.ok_or(Error::NotFound("thread"))?;
        Ok(number(row.get(0)))
    }

    async fn append(&self, thread: ThreadId, run: Option<RunId>, event: &Event) -> Result<Seq, Failure> {
        let seq = self.next_seq(thread).await?;
        let statement =
            "INSERT INTO events (thread, seq, run, kind, at, body) VALUES ($1, $2, $3, $4, $5, $6)";
        let (thread, run) = (bytes(thread.bytes()), run.map(|run| bytes(run.bytes())));
        let (kind, body) = (event.kind().name(), event.body());
        self.tx.execute(statement, &[&thread, &count(seq), &run, &kind, &self.at, &body]).await?;
        self.tx.execute("UPDATE threads SET next_seq = next_seq + 1 WHERE id = $1", &[&thread]).await?;
        Ok(seq)
    }

    async fn ensure_thread(&self, scope: &Scope, id: ThreadId) -> Result<ThreadId, Failure> {
        let statement = "INSERT INTO threads (id, app, \"user\", created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        self.tx.execute(statement, &[&bytes(id.bytes()), &app, &user, &self.at]).await?;
        Ok(id)
    }

    /// The run under way in the thread, which stays locked until the end of the transaction.
    async fn active(&self, scope: &Scope, thread: ThreadId) -> Result<Option<RunId>, Failure> {
        let statement = "SELECT (SELECT r.id FROM runs r WHERE r.thread = t.id AND r.status IN ('running', 'waiting'))
            FROM threads t WHERE t.id = $1 AND t.app = $2 AND t.\"user\" = $3 AND t.deleted_at IS NULL FOR UPDATE OF t";
        let key = bytes(thread.bytes());
        let row = self.tx.query_opt(statement, &[&key, &scope.app.as_str(), &scope.user.as_str()]).await?;
        let row = row.ok_or(Error::NotFound("thread"))?;
        Ok(row.get::<_, Option<Vec<u8>>>(0).map(|run| RunId::new(uuid(&run))))
    }

    async fn insert_run(
        &self,
        scope: &Scope,
        thread: ThreadId,
        run: RunId,
        request: &RunRequest,
    ) -> Result<(), Failure> {
        let RunInput::Say { id: message, .. } = &request.ask else {
            return Err(Error::NothingToAnswer.into());
        };
        let statement = "INSERT INTO runs (id, thread, app, \"user\", message, status, model, created_at)
            VALUES ($1, $2, $3, $4, $5, 'queued', $6, $7)";
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        let (run, thread, message) = (bytes(run.bytes()), bytes(thread.bytes()), bytes(message.bytes()));
        self.tx.execute(statement, &[&run, &thread, &app, &user, &message, &request.model, &self.at]).await?;
        Ok(())
    }

    async fn enqueue(
        &self,
        thread: ThreadId,
        run: RunId,
        request: &RunRequest,
        urgent: bool,
    ) -> Result<(), Failure> {
        let key = bytes(thread.bytes());
        let waiting = self.tx.query_one("SELECT count(*) FROM queue WHERE thread = $1", &[&key]).await?;
        check_queue_room(number(waiting.get(0)))?;
        let request = serde_json::to_string(request).map_err(|_| Error::Aborted)?;
        let statement = "INSERT INTO queue (thread, run, urgent, submission) VALUES ($1, $2, $3, $4)";
        self.tx.execute(statement, &[&key, &bytes(run.bytes()), &urgent, &request]).await?;
        Ok(())
    }

    async fn insert_message(
        &self,
        thread: ThreadId,
        run: RunId,
        (message, parent): (MessageId, Option<MessageId>),
        seq: Seq,
    ) -> Result<(), Failure> {
        let statement = "INSERT INTO messages (id, thread, parent, role, run, seq, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let (id, thread, run) = (bytes(message.bytes()), bytes(thread.bytes()), bytes(run.bytes()));
        let parent = parent.map(|parent| bytes(parent.bytes()));
        let role = MessageRole::User;
        self.tx
            .execute(statement, &[&id, &thread, &parent, &role.name(), &run, &count(seq), &self.at])
            .await?;
        self.tx.execute("UPDATE threads SET head = $2 WHERE id = $1", &[&thread, &id]).await?;
        Ok(())
    }

    async fn replayed(&self, scope: &Scope, once: Option<&Once>) -> Result<Option<Uuid>, Failure> {
        let Some(once) = once else { return Ok(None) };
        let statement =
            "SELECT fingerprint, target FROM idempotency WHERE app = $1 AND \"user\" = $2 AND key = $3";
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        let used = self.tx.query_opt(statement, &[&app, &user, &once.key]).await?;
        let used = used.map(|row| {
            let target: Vec<u8> = row.get(1);
            UsedKey { fingerprint: row.get(0), target: uuid(&target) }
        });
        Ok(replayed(used, once)?)
    }

    async fn remember(&self, scope: &Scope, once: Option<&Once>, target: Uuid) -> Result<(), Failure> {
        let Some(once) = once else { return Ok(()) };
        let statement = "INSERT INTO idempotency (app, \"user\", key, fingerprint, target, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)";
        let (app, user, target) = (scope.app.as_str(), scope.user.as_str(), bytes(target.as_bytes()));
        let fingerprint = once.fingerprint.to_vec();
        self.tx.execute(statement, &[&app, &user, &once.key, &fingerprint, &target, &self.at]).await?;
        Ok(())
    }

    async fn used(&self, scope: &Scope) -> Result<Used, Failure> {
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        let running = "SELECT count(*) FROM runs WHERE app = $1 AND \"user\" = $2 AND status = 'running'";
        let running = number(self.tx.query_one(running, &[&app, &user]).await?.get(0));
        let mut used = Used { running, ..Used::default() };
        let (day, next_day) = day_of(self.at);
        let minutes = "SELECT minute, runs, tokens FROM minutes
            WHERE app = $1 AND \"user\" = $2 AND minute >= $3 AND minute < $4";
        for row in self.tx.query(minutes, &[&app, &user, &day, &next_day]).await? {
            let row = MinuteRow { minute: row.get(0), runs: number(row.get(1)), tokens: number(row.get(2)) };
            add_minute(&mut used, row, self.at);
        }
        Ok(used)
    }

    async fn count_run(&self, scope: &Scope) -> Result<(), Failure> {
        let statement = "INSERT INTO minutes (app, \"user\", minute, runs, tokens) VALUES ($1, $2, $3, 1, 0)
            ON CONFLICT (app, \"user\", minute) DO UPDATE SET runs = minutes.runs + 1";
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        self.tx.execute(statement, &[&app, &user, &minute_of(self.at)]).await?;
        Ok(())
    }

    async fn insert_action(&self, action: &ActionRow) -> Result<(), Failure> {
        let statement =
            "INSERT INTO actions (id, app, \"user\", thread, run, tool, effect, status, input, started_at,
            position) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let (app, user) = (action.scope.app.as_str(), action.scope.user.as_str());
        let thread = action.thread.map(|thread| bytes(thread.bytes()));
        let run = action.run.map(|run| bytes(run.bytes()));
        let (id, input) = (bytes(action.id.bytes()), protocol::canonical(&action.input));
        let (effect, status) = (action.effect.name(), action.status.name());
        let (at, position) = (action.started_at.as_millisecond(), count(action.position));
        self.tx
            .execute(
                statement,
                &[&id, &app, &user, &thread, &run, &action.tool, &effect, &status, &input, &at, &position],
            )
            .await?;
        Ok(())
    }

    async fn action(&self, scope: &Scope, id: ActionId) -> Result<ActionRow, Failure> {
        let statement = "SELECT tool, effect, status, input, started_at, position, thread, run FROM actions
            WHERE id = $1 AND app = $2 AND \"user\" = $3 FOR UPDATE";
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        let row = self.tx.query_opt(statement, &[&bytes(id.bytes()), &app, &user]).await?;
        let row = row.ok_or(Error::NotFound("action"))?;
        let started_at = Timestamp::from_millisecond(row.get(4)).unwrap_or_default();
        let run = row.get::<_, Option<Vec<u8>>>(7).map(|run| RunId::new(uuid(&run)));
        Ok(ActionRow {
            effect: Effect::parse(row.get(1)).unwrap_or(Effect::Irreversible),
            status: ActionStatus::parse(row.get(2)).ok_or(Error::Aborted)?,
            input: serde_json::from_str(row.get(3)).unwrap_or_default(),
            position: number(row.get(5)),
            thread: Some(thread_id(&row, 6)),
            run,
            ..new_action(id, scope.clone(), row.get(0), started_at)
        })
    }

    /// Adds an entry to the chain of the action's scope.
    async fn chain(
        &self,
        action: &ActionRow,
        kind: LedgerKind,
        payload: &LedgerPayload,
    ) -> Result<u64, Failure> {
        let scope = &action.scope;
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        // A chain has one writer at a time, even while it has no entry that could be locked.
        let key = format!("{app}/{user}");
        self.tx.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&key]).await?;
        let last = "SELECT position, hash FROM ledger WHERE app = $1 AND \"user\" = $2 ORDER BY position DESC LIMIT 1";
        let head = self.tx.query_opt(last, &[&app, &user]).await?.map_or_else(
            || LedgerHead::origin(scope),
            |row| LedgerHead { position: number(row.get(0)), hash: hash(&row, 1) },
        );
        let text = payload_text(payload)?;
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|_| Error::Aborted)?;
        let new = NewLedgerEntry { action: action.id, kind, at: self.at, salt, payload: &text };
        let (entry, hash) = next_entry(&head, &new);
        let insert =
            "INSERT INTO ledger (app, \"user\", position, action, kind, at, digest, hash, salt, payload)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let (position, id) = (count(entry.position), bytes(&entry.action));
        let (digest, hash, salt) = (entry.digest.to_vec(), hash.to_vec(), salt.to_vec());
        self.tx
            .execute(
                insert,
                &[&app, &user, &position, &id, &kind.name(), &self.at, &digest, &hash, &salt, &text],
            )
            .await?;
        Ok(entry.position)
    }

    /// Applies a write of a call; here only records are written.
    async fn write(&self, scope: &Scope, write: &Write) -> Result<AppliedChange, Failure> {
        let Write::Record { id, kind, data, expected } = write else { return Err(Error::Aborted.into()) };
        let key = bytes(id.bytes());
        let find = "SELECT version, state, data FROM records WHERE id = $1 FOR UPDATE";
        let standing = self.tx.query_opt(find, &[&key]).await?.map_or_else(StandingVersion::default, |row| {
            let contents =
                row.get::<_, Option<String>>(2).map(|data| serde_json::from_str(&data).unwrap_or_default());
            StandingVersion { version: number(row.get(0)), state: number(row.get(1)), contents }
        });
        standing.check_expected(*expected, &record_name(kind, *id))?;
        let version = standing.version + 1;
        let put = "INSERT INTO records (id, app, \"user\", type, version, state, data) VALUES ($1, $2, $3, $4, $5, $5, $6)
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, state = excluded.state, data = excluded.data";
        let (app, user) = (scope.app.as_str(), scope.user.as_str());
        let json = data.as_ref().map(ToString::to_string);
        self.tx.execute(put, &[&key, &app, &user, kind, &count(version), &json]).await?;
        let (before, was) = (standing.contents, standing.state);
        Ok(AppliedChange::Record { id: *id, kind: kind.clone(), before, was, version })
    }
}

fn ledger_row(scope: &Scope, row: &Row) -> LedgerRow {
    let action: Vec<u8> = row.get(1);
    let entry = LedgerEntry {
        position: number(row.get(0)),
        action: *uuid(&action).as_bytes(),
        kind: LedgerKind::parse(row.get(2)).unwrap_or(LedgerKind::Late),
        at: row.get(3),
        digest: hash(row, 4),
    };
    LedgerRow { scope: scope.clone(), entry, hash: hash(row, 5), salt: row.get(6), payload: row.get(7) }
}

fn hash(row: &Row, column: usize) -> [u8; 32] {
    row.get::<_, Vec<u8>>(column).try_into().unwrap_or_default()
}

fn thread_id(row: &Row, column: usize) -> ThreadId {
    ThreadId::new(uuid(&row.get::<_, Vec<u8>>(column)))
}

fn uuid(bytes: &[u8]) -> Uuid {
    Uuid::from_slice(bytes).unwrap_or_default()
}

fn bytes(id: &[u8; 16]) -> Vec<u8> {
    id.to_vec()
}

/// A number for SQL, where numbers are signed.
fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
