//! Threads: creating, reading, changing, hiding.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{
    Event, MessageId, NoticeChange, Principal, RunId, Scope, Seq, ThreadChanged, ThreadId, ThreadNamed,
};

use super::append::Batch;
use super::read::{count, find_first, find_only, id, maybe_id, scope_at, time};
use super::{RowsOf, SqlStore, history, idempotency, items, queue, shown_messages};
use crate::rules::notices::NoticedChange;
use crate::{
    Error, IdempotencyClaim, MessageRow, NewThreadRow, PageOf, PageRows, RecallKind, ShownMessage,
    ThreadEdit, ThreadRow,
};

pub(super) const COLUMNS: &str = "t.id, t.app, t.user, t.title, t.head, t.model, t.message_count,
    (SELECT r.id FROM runs r WHERE r.thread = t.id AND r.status IN ('running', 'waiting')),
    t.next_seq - 1, t.created_at, t.updated_at, t.persona, t.pinned, t.archived";

impl SqlStore {
    pub(crate) async fn create_thread(
        &self,
        scope: &Scope,
        thread: NewThreadRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<ThreadRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if let Some(earlier) = idempotency::claim(batch, &scope, once.as_ref(), thread.id.uuid())? {
                return find(batch.conn(), earlier.into(), scope.user.as_str());
            }
            let id = insert(batch, &scope, &thread)?;
            find(batch.conn(), id, scope.user.as_str())
        };
        self.writer.write(work).await
    }

    pub(crate) async fn thread(&self, principal: &Principal, thread: ThreadId) -> Result<ThreadRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        let open = self.open_deltas.last_of(thread).unwrap_or(0);
        let row = self.readers.read_now(rows, move |conn| find(conn, thread, user.as_str())).await?;
        Ok(ThreadRow { last_seq: row.last_seq.max(open), ..row })
    }

    pub(crate) async fn change_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        change: ThreadEdit,
        once: Option<IdempotencyClaim>,
    ) -> Result<ThreadRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        let work = move |batch: &mut Batch<'_>| {
            let row = find(batch.conn(), thread, user.as_str())?;
            if idempotency::claim(batch, &row.scope, once.as_ref(), thread.uuid())?.is_some() {
                return Ok(row);
            }
            if let Some(persona) = change.persona {
                let statement = "UPDATE threads SET persona = ?2 WHERE id = ?1";
                batch.execute(statement, params![thread.bytes(), persona])?;
                batch.notice(NoticedChange::Thread { thread, change: NoticeChange::Changed });
            }
            let named = change.title.map(|title| Event::ThreadNamed(ThreadNamed { title }));
            let marks = ThreadChanged {
                pinned: change.pinned.unwrap_or(row.pinned),
                archived: change.archived.unwrap_or(row.archived),
            };
            let is_marked = (marks.pinned, marks.archived) != (row.pinned, row.archived);
            let marked = is_marked.then_some(Event::ThreadChanged(marks));
            let mut last = None;
            for event in named.iter().chain(&marked) {
                last = batch.record(thread, None, event)?.or(last);
            }
            let row = find(batch.conn(), thread, user.as_str())?;
            // The row's own number is written at the end of the batch.
            Ok(ThreadRow { last_seq: last.unwrap_or(row.last_seq), ..row })
        };
        self.writer.write_for(rows, work).await
    }

    pub(crate) async fn delete_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        once: Option<IdempotencyClaim>,
    ) -> Result<Option<RunId>, Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        self.writer.write_for(rows, move |batch| delete(batch, &principal, thread, once.as_ref())).await
    }

    pub(crate) async fn path(
        &self,
        thread: ThreadId,
        leaf: MessageId,
        newest: usize,
    ) -> Result<Vec<MessageRow>, Error> {
        self.readers.read(move |conn| history::path(conn, thread, leaf, newest)).await
    }

    pub(crate) async fn messages(
        &self,
        thread: ThreadId,
        leaf: MessageId,
        page: PageOf<Seq>,
    ) -> Result<PageRows<ShownMessage>, Error> {
        self.readers.read(move |conn| shown_messages::of_path(conn, thread, leaf, page)).await
    }
}

fn delete(
    batch: &mut Batch<'_>,
    principal: &Principal,
    thread: ThreadId,
    once: Option<&IdempotencyClaim>,
) -> Result<Option<RunId>, Error> {
    if idempotency::is_repeated(batch, principal, once)? {
        return Ok(None);
    }
    let row = find(batch.conn(), thread, principal.user().as_str())?;
    idempotency::claim(batch, &row.scope, once, thread.uuid())?;
    queue::clear(batch, thread)?;
    let statement = "UPDATE threads SET deleted_at = ?2 WHERE id = ?1";
    batch.execute(statement, params![thread.bytes(), batch.at()])?;
    let statement = "UPDATE runs SET stop = 'cancelled'
                WHERE thread = ?1 AND ended_at IS NULL AND stop IS DISTINCT FROM 'cancelled'";
    batch.execute(statement, [thread.bytes()])?;
    batch.touch(thread);
    items::mark_changed(batch, &row.scope, RecallKind::Thread, thread.bytes())?;
    batch.notice(NoticedChange::Thread { thread, change: NoticeChange::Deleted });
    Ok(row.active_run)
}

pub(super) fn insert(batch: &mut Batch<'_>, scope: &Scope, thread: &NewThreadRow) -> Result<ThreadId, Error> {
    let statement = "INSERT INTO threads (id, app, user, title, persona, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)";
    batch.execute(
        statement,
        params![
            thread.id.bytes(),
            scope.app.as_str(),
            scope.user.as_str(),
            thread.title,
            thread.persona,
            batch.at()
        ],
    )?;
    batch.begin_thread(thread.id);
    batch.notice(NoticedChange::Thread { thread: thread.id, change: NoticeChange::Created });
    Ok(thread.id)
}

/// The thread of this id, made if there is none.
pub(super) fn ensure(batch: &mut Batch<'_>, scope: &Scope, id: ThreadId) -> Result<ThreadId, Error> {
    if is_there(batch.conn(), id)? {
        return Ok(id);
    }
    insert(batch, scope, &NewThreadRow { id, title: None, persona: None })
}

/// Whether there is a thread of this id. [`Error::Changed`] while it is being deleted.
pub(super) fn is_there(conn: &SqlConnection, id: ThreadId) -> Result<bool, Error> {
    match is_deleted(conn, id)? {
        None => Ok(false),
        Some(false) => Ok(true),
        Some(true) => {
            Err(Error::Changed("the thread was deleted a moment ago; send the request again".into()))
        }
    }
}

/// None if there is no trace of it.
fn is_deleted(conn: &SqlConnection, thread: ThreadId) -> Result<Option<bool>, Error> {
    let statement = "SELECT deleted_at IS NOT NULL FROM threads WHERE id = ?1";
    find_first(conn, statement, [thread.bytes()], |row| row.get(0))
}

/// A thread that was archived is used, and so it is among the others again. Gives the last message of the branch that the
/// thread shows.
pub(super) fn bring_back(batch: &mut Batch<'_>, thread: ThreadId) -> Result<Option<MessageId>, Error> {
    let statement = "SELECT head, pinned, archived FROM threads WHERE id = ?1";
    let (head, pinned, is_archived): (_, bool, bool) =
        find_only(batch.conn(), statement, [thread.bytes()], |row| {
            Ok((maybe_id(row, 0)?, row.get(1)?, row.get(2)?))
        })?;
    if is_archived {
        let changed = Event::ThreadChanged(ThreadChanged { pinned, archived: false });
        batch.record(thread, None, &changed)?;
    }
    Ok(head)
}

pub(super) fn find(conn: &SqlConnection, thread: ThreadId, user: &str) -> Result<ThreadRow, Error> {
    let statement =
        format!("SELECT {COLUMNS} FROM threads t WHERE t.id = ?1 AND t.user = ?2 AND t.deleted_at IS NULL");
    find_first(conn, &statement, params![thread.bytes(), user], thread_row)?.ok_or(Error::NotFound("thread"))
}

pub(super) fn thread_row(row: &SqlRow<'_>) -> Result<ThreadRow, Error> {
    Ok(ThreadRow {
        id: id(row, 0)?,
        scope: scope_at(row, 1)?,
        title: row.get(3)?,
        head: maybe_id(row, 4)?,
        model: row.get(5)?,
        message_count: count(row, 6)?,
        active_run: maybe_id(row, 7)?,
        last_seq: count(row, 8)?,
        created_at: time(row, 9)?,
        updated_at: time(row, 10)?,
        persona: row.get(11)?,
        pinned: row.get(12)?,
        archived: row.get(13)?,
    })
}
