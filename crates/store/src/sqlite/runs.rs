//! Runs: submitting, looking up, cancelling.

use std::sync::Arc;

use async_trait::async_trait;
use protocol::{
    Event, Failure, MessageId, MessageUser, Principal, RunId, RunStart, RunStatus, Scope, ThreadId, Usage,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use super::append::Batch;
use super::read::{count, id, maybe_id, sql, text, time};
use super::threads;
use crate::{Ask, Error, RunLog, RunRow, Runs, Submission, Submitted, Target};

const COLUMNS: &str = "r.id, r.thread, r.app, r.user, r.message, r.status, r.model, r.error, r.input_tokens,
    r.output_tokens, r.cached_tokens, r.reasoning_tokens, r.estimated, r.cancel_at IS NOT NULL, r.start_seq, r.end_seq,
    r.created_at, r.ended_at";

#[async_trait]
impl Runs for Sqlite {
    async fn submit(&self, submission: Submission) -> Result<Submitted, Error> {
        self.writer.write(move |batch| submit(batch, submission)).await
    }

    async fn run(&self, principal: &Principal, run: RunId) -> Result<RunRow, Error> {
        let user = principal.user().clone();
        self.readers.read(move |conn| find(conn, run, user.as_str())).await
    }

    async fn cancel(&self, principal: &Principal, run: RunId) -> Result<RunRow, Error> {
        let user = principal.user().clone();
        let work = move |batch: &mut Batch<'_>| {
            batch
                .conn()
                .prepare_cached(
                    "UPDATE runs SET cancel_at = ?3
                        WHERE id = ?1 AND user = ?2 AND cancel_at IS NULL AND ended_at IS NULL",
                )?
                .execute(params![run.bytes(), user.as_str(), batch.at()])?;
            find(batch.conn(), run, user.as_str())
        };
        self.writer.write(work).await
    }

    fn log(&self, run: RunId, thread: ThreadId) -> Arc<dyn RunLog> {
        self.run_log(run, thread)
    }
}

fn submit(batch: &mut Batch<'_>, submission: Submission) -> Result<Submitted, Error> {
    let thread = match submission.thread {
        Target::New(thread) => threads::insert(batch, &submission.scope, thread, None)?,
        Target::Existing(thread) => thread,
    };
    require_idle(batch, &submission.scope, thread)?;
    let (message, said) = match submission.ask {
        Ask::Say { id, text, parent } => {
            let parent_id = match parent {
                Some(parent) => Some(message(batch, thread, parent)?.0),
                None => batch.head(thread)?,
            };
            (id, Some(MessageUser { message_id: id, parent_id, text }))
        }
        Ask::Again { of } => (answerable(batch, thread, of)?, None),
    };
    let run = submission.run;
    insert(batch, &submission.scope, thread, (run, message, submission.model.as_deref()))?;
    if let Some(said) = said {
        batch.record(thread, Some(run), &Event::MessageUser(said))?;
    }
    let start = RunStart {
        run_id: run,
        thread_id: thread,
        message_id: message,
        model: submission.model,
        settings: submission.settings,
        system_prompt: submission.system_prompt,
        app_revision: submission.app_revision,
    };
    batch.record(thread, Some(run), &Event::RunStart(start))?;
    Ok(Submitted { thread, run, message })
}

/// The thread is there, is the scope's, and has no run under way.
fn require_idle(batch: &Batch<'_>, scope: &Scope, thread: ThreadId) -> Result<(), Error> {
    let busy: Option<bool> = batch
        .conn()
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM runs r WHERE r.thread = t.id AND r.status IN ('running', 'waiting'))
                FROM threads t WHERE t.id = ?1 AND t.app = ?2 AND t.user = ?3 AND t.deleted_at IS NULL",
        )?
        .query_row(params![thread.bytes(), scope.app.as_str(), scope.user.as_str()], |row| row.get(0))
        .optional()?;
    match busy {
        None => Err(Error::NotFound("thread")),
        Some(true) => Err(Error::Busy),
        Some(false) => Ok(()),
    }
}

/// A message of the thread: its id, role and parent.
fn message(
    batch: &Batch<'_>,
    thread: ThreadId,
    message: MessageId,
) -> Result<(MessageId, String, Option<MessageId>), Error> {
    batch
        .conn()
        .prepare_cached("SELECT id, role, parent FROM messages WHERE thread = ?1 AND id = ?2")?
        .query_row(params![thread.bytes(), message.bytes()], |row| {
            Ok((id(row, 0)?, text(row, 1)?, maybe_id(row, 2)?))
        })
        .optional()?
        .ok_or(Error::NotFound("message"))
}

/// The user message meant by `of`: itself, or what it answered; the thread's head when silent.
fn answerable(batch: &Batch<'_>, thread: ThreadId, of: Option<MessageId>) -> Result<MessageId, Error> {
    let target = match of {
        Some(target) => target,
        None => batch.head(thread)?.ok_or(Error::NothingToAnswer)?,
    };
    let (id, role, parent) = message(batch, thread, target)?;
    if role == "user" { Ok(id) } else { parent.ok_or(Error::NothingToAnswer) }
}

fn insert(
    batch: &mut Batch<'_>,
    scope: &Scope,
    thread: ThreadId,
    (run, message, model): (RunId, MessageId, Option<&str>),
) -> Result<(), Error> {
    let start = batch.next(thread)?;
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO runs (id, thread, app, user, message, status, model, start_seq, created_at)
                VALUES (?1, ?2, ?3, ?4, ?5, 'running', ?6, ?7, ?8)",
        )?
        .execute(params![
            run.bytes(),
            thread.bytes(),
            scope.app.as_str(),
            scope.user.as_str(),
            message.bytes(),
            model,
            sql(start),
            batch.at()
        ])?;
    Ok(())
}

fn find(conn: &Connection, run: RunId, user: &str) -> Result<RunRow, Error> {
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs r JOIN threads t ON t.id = r.thread
            WHERE r.id = ?1 AND r.user = ?2 AND t.deleted_at IS NULL"
    ))?
    .query_row(params![run.bytes(), user], run_row)
    .optional()?
    .ok_or(Error::NotFound("run"))
}

pub(super) fn unfinished(conn: &Connection) -> Result<Vec<RunRow>, Error> {
    let mut find = conn
        .prepare(&format!("SELECT {COLUMNS} FROM runs r WHERE r.ended_at IS NULL ORDER BY r.created_at"))?;
    let rows = find.query_map([], run_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let status = RunStatus::parse(&text(row, 5)?).unwrap_or(RunStatus::Failed);
    let error =
        row.get::<_, Option<String>>(7)?.and_then(|error| serde_json::from_str::<Failure>(&error).ok());
    Ok(RunRow {
        id: id(row, 0)?,
        thread: id(row, 1)?,
        scope: threads::scope(row, 2)?,
        message: id(row, 4)?,
        status,
        model: row.get(6)?,
        error,
        usage: Usage {
            input_tokens: count(row, 8)?,
            output_tokens: count(row, 9)?,
            cached_input_tokens: count(row, 10)?,
            reasoning_tokens: count(row, 11)?,
            estimated: row.get(12)?,
        },
        cancel_requested: row.get(13)?,
        start_seq: count(row, 14)?,
        end_seq: row.get::<_, Option<i64>>(15)?.and_then(|seq| u64::try_from(seq).ok()),
        created_at: time(row, 16)?,
        ended_at: row.get::<_, Option<i64>>(17)?.map(|_| time(row, 17)).transpose()?,
    })
}
