//! Notices: rows of ids and words, numbered for each user in the transaction of the change that they tell of.
//!
//! A row has no text of the user. The words of a notice about a thread or a proposal are read when it is sent, so
//! nothing has to be erased with the thread. A run and its thread share one row, which has two numbers: the row has the
//! higher one.

use crate::sql::{SqlConnection, SqlParams, SqlRow, params};
use jiff::Timestamp;
use protocol::{
    AppId, CallId, CallNotice, ClientCallStatus, DocumentChange, DocumentId, DocumentNotice, MemoryId,
    MemoryNotice, Notice, NoticeChange, ProposalId, ProposalNotice, ProposalStatus, RunId, RunNotice,
    RunStatus, Scope, ThreadId, ThreadNotice, UserId,
};
use uuid::Uuid;

use super::append::Batch;
use super::read::{count, find_all, find_first, find_only, id, maybe_id, sql, text};
use super::runs::ACTIVE_RUN;
use super::webhooks::{self, NoticedNews};
use super::{RowsOf, SqlStore};
use crate::rules::notices::{NewNotice, is_place_lost, notices_of};
use crate::{
    Error, MAX_NOTICES_PER_READ, NewestNotice, NoticeKind, NoticesRead, NumberedNotice, WatchedApps,
};

/// Notices swept in one transaction.
const MAX_SWEPT: i64 = 500;

/// Bytes of an id.
const ID_BYTES: usize = 16;

const COLUMNS: &str = "user, number, app, kind, subject, status, of_thread, at";

impl SqlStore {
    pub(crate) async fn notices(&self, user: &UserId, after: Option<u64>) -> Result<NoticesRead, Error> {
        let rows = RowsOf::user(user);
        let user = user.clone();
        let mut read = self.readers.read_for(rows, move |conn| read(conn, user.as_str(), after)).await?;
        for NumberedNotice { notice, .. } in &mut read.notices {
            if let Notice::Thread(thread) = notice
                && thread.change != NoticeChange::Deleted
            {
                let open = self.open_deltas.last_of(thread.thread_id).unwrap_or(0);
                thread.last_seq = thread.last_seq.max(open);
            }
        }
        Ok(read)
    }
}

/// Writes the notices of a transaction. Gives the newest of each user.
/// Webhooks are told of them in the same transaction.
pub(super) fn write(batch: &Batch<'_>, watched: Option<&WatchedApps>) -> Result<Vec<NewestNotice>, Error> {
    let mut newest: Vec<NewestNotice> = Vec::new();
    for notice in notices_of(batch.take_noticed()) {
        let Some((written, app, status)) = insert(batch, &notice)? else { continue };
        if let Some(watched) = watched {
            let scope = Scope { app, user: written.user.clone() };
            let noticed = NoticedNews { notice: &notice, scope, number: written.number, status };
            webhooks::tell(batch, watched, &noticed)?;
        }
        match newest.iter_mut().find(|known| known.user == written.user) {
            Some(known) => *known = written,
            None => newest.push(written),
        }
    }
    Ok(newest)
}

/// The number of a notice with its user, its app, and what it says of the status of its subject.
type WrittenNotice = (NewestNotice, AppId, Option<String>);

/// Gives the notice the next numbers of its user. None if there is no row any more that says whose it is.
fn insert(batch: &Batch<'_>, notice: &NewNotice) -> Result<Option<WrittenNotice>, Error> {
    let (numbers, at) = (sql(notice.numbers()), batch.at());
    match notice {
        NewNotice::Thread { thread, change } => insert_from(
            batch,
            NoticeKind::Thread,
            "s.id, ?3, NULL FROM threads s WHERE s.id = ?4",
            params![at, numbers, change.name(), thread.bytes()],
        ),
        NewNotice::Run { run, of_thread, .. } => insert_from(
            batch,
            NoticeKind::Run,
            "s.id, s.status, ?3 FROM runs s WHERE s.id = ?4",
            params![at, numbers, of_thread.map(NoticeChange::name), run.bytes()],
        ),
        NewNotice::Proposal(proposal) => insert_from(
            batch,
            NoticeKind::Proposal,
            "s.id, s.status, NULL FROM proposals s WHERE s.id = ?3",
            params![at, numbers, proposal.bytes()],
        ),
        NewNotice::Call(call) => insert_from(
            batch,
            NoticeKind::Call,
            "s.id, s.status, NULL FROM client_calls s WHERE s.id = ?3",
            params![at, numbers, call.bytes()],
        ),
        NewNotice::Memories { scope, memories, change } => {
            let subject: Vec<u8> = memories.iter().flat_map(|memory| *memory.bytes()).collect();
            let (app, user) = (scope.app.as_str(), scope.user.as_str());
            insert_from(
                batch,
                NoticeKind::Memory,
                "?3, ?4, NULL FROM (SELECT ?5 AS app, ?6 AS user) s",
                params![at, numbers, subject, change.name(), app, user],
            )
        }
        NewNotice::Document { scope, document, status } => {
            let (app, user) = (scope.app.as_str(), scope.user.as_str());
            insert_from(
                batch,
                NoticeKind::Document,
                "?3, ?4, NULL FROM (SELECT ?5 AS app, ?6 AS user) s",
                params![at, numbers, document.bytes(), status.name(), app, user],
            )
        }
    }
}

/// Inserts a notice of a kind that takes `?2` numbers. The source has its subject, its status and the change of its
/// thread, and a table `s` with its user and app.
fn insert_from(
    batch: &Batch<'_>,
    kind: NoticeKind,
    source: &str,
    key: impl SqlParams,
) -> Result<Option<WrittenNotice>, Error> {
    let kind = kind.name();
    let statement = format!(
        "INSERT INTO notices (user, app, at, number, kind, subject, status, of_thread)
            SELECT s.user, s.app, ?1, {NEWEST} + ?2, '{kind}', {source} RETURNING user, number, app, status"
    );
    find_first(batch.conn(), &statement, key, |row| {
        let newest = NewestNotice { user: UserId::new(text(row, 0)?), number: count(row, 1)? };
        Ok((newest, AppId::new(text(row, 2)?), row.get(3)?))
    })
}

/// The newest number of the user of `s`, also if its notice was swept.
const NEWEST: &str = "max(coalesce((SELECT max(n.number) FROM notices n WHERE n.user = s.user), 0),
    coalesce((SELECT w.through FROM notices_swept w WHERE w.user = s.user), 0))";

/// Reads a part of the channel, all of it as it was at one moment. Without a place, only where the channel stands.
fn read(conn: &SqlConnection, user: &str, after: Option<u64>) -> Result<NoticesRead, Error> {
    let _moment = conn.moment()?;
    let statement = format!(
        "SELECT {NEWEST}, coalesce((SELECT w.through FROM notices_swept w WHERE w.user = s.user), 0)
            FROM (SELECT ?1 AS user) s"
    );
    let (newest, swept) = find_only(conn, &statement, [user], |row| Ok((count(row, 0)?, count(row, 1)?)))?;
    let Some(after) = after.filter(|after| !is_place_lost(*after, swept, newest)) else {
        return Ok(NoticesRead { notices: Vec::new(), place: newest, newest, is_lost: after.is_some() });
    };
    let statement =
        format!("SELECT {COLUMNS} FROM notices WHERE user = ?1 AND number > ?2 ORDER BY number LIMIT ?3");
    let key = params![user, sql(after), MAX_NOTICES_PER_READ as i64];
    let rows = find_all(conn, &statement, key, notice_row)?;
    let place = rows.last().map_or(after, |row| row.number);
    let mut notices = Vec::new();
    for row in rows {
        row.tell(conn, after, &mut notices)?;
    }
    Ok(NoticesRead { notices, place, newest, is_lost: false })
}

struct NoticeRow {
    number: u64,
    app: AppId,
    /// None if a newer version has written the row.
    kind: Option<NoticeKind>,
    subject: Vec<u8>,
    status: String,
    of_thread: Option<NoticeChange>,
}

fn notice_row(row: &SqlRow<'_>) -> Result<NoticeRow, Error> {
    Ok(NoticeRow {
        number: count(row, 1)?,
        app: AppId::new(text(row, 2)?),
        kind: NoticeKind::parse(&text(row, 3)?),
        subject: row.get(4)?,
        status: text(row, 5)?,
        of_thread: row.get::<Option<String>>(6)?.and_then(|change| NoticeChange::parse(&change)),
    })
}

impl NoticeRow {
    /// Adds the notices of this row after a place. A thing that is gone by now is not told of: its end was a notice,
    /// too.
    fn tell(self, conn: &SqlConnection, after: u64, notices: &mut Vec<NumberedNotice>) -> Result<(), Error> {
        let app = self.app.clone();
        let mut add = |number: u64, notice: Option<Notice>| {
            notices.extend(notice.map(|notice| NumberedNotice { number, app: app.clone(), notice }));
        };
        let Some(kind) = self.kind else { return Ok(()) };
        match kind {
            NoticeKind::Thread => add(self.number, self.of_thread(conn)?),
            NoticeKind::Run => {
                let Some(run) = self.of_run(conn)? else { return Ok(()) };
                if let Some(change) = self.of_thread.filter(|_| self.number - 1 > after) {
                    add(self.number - 1, self.thread(conn, run.thread_id, change)?);
                }
                add(self.number, Some(Notice::Run(run)));
            }
            NoticeKind::Proposal => add(self.number, self.of_proposal(conn)?),
            NoticeKind::Call => add(self.number, self.of_call(conn)?),
            NoticeKind::Memory => add(self.number, self.of_memories()),
            NoticeKind::Document => add(self.number, self.of_document()),
        }
        Ok(())
    }

    fn app_id(&self) -> String {
        self.app.to_string()
    }

    fn subject<T: From<Uuid>>(&self) -> Option<T> {
        self.subject.as_slice().try_into().ok().map(Uuid::from_bytes).map(T::from)
    }

    fn of_thread(&self, conn: &SqlConnection) -> Result<Option<Notice>, Error> {
        let (thread, change) = (self.subject::<ThreadId>(), NoticeChange::parse(&self.status));
        let Some((thread, change)) = thread.zip(change) else { return Ok(None) };
        if change == NoticeChange::Deleted {
            let (app_id, title, active_run_id, last_seq) = (self.app_id(), None, None, 0);
            let (pinned, archived) = (false, false);
            let gone = ThreadNotice {
                app_id,
                thread_id: thread,
                change,
                title,
                pinned,
                archived,
                active_run_id,
                last_seq,
            };
            return Ok(Some(Notice::Thread(gone)));
        }
        self.thread(conn, thread, change)
    }

    fn thread(
        &self,
        conn: &SqlConnection,
        thread: ThreadId,
        change: NoticeChange,
    ) -> Result<Option<Notice>, Error> {
        let statement = format!(
            "SELECT t.title,
                (SELECT r.id FROM runs r WHERE r.thread = t.id AND r.{ACTIVE_RUN}), t.next_seq - 1,
                t.pinned, t.archived
            FROM threads t WHERE t.id = ?1 AND t.deleted_at IS NULL"
        );
        find_first(conn, &statement, [thread.bytes()], |row| {
            Ok(Notice::Thread(ThreadNotice {
                app_id: self.app_id(),
                thread_id: thread,
                change,
                title: row.get(0)?,
                active_run_id: maybe_id(row, 1)?,
                last_seq: count(row, 2)?,
                pinned: row.get(3)?,
                archived: row.get(4)?,
            }))
        })
    }

    fn of_run(&self, conn: &SqlConnection) -> Result<Option<RunNotice>, Error> {
        let (run, status) = (self.subject::<RunId>(), RunStatus::parse(&self.status));
        let Some((run_id, status)) = run.zip(status) else { return Ok(None) };
        let statement = "SELECT thread FROM runs WHERE id = ?1";
        let thread = find_first(conn, statement, [run_id.bytes()], |row| id(row, 0))?;
        Ok(thread.map(|thread_id| RunNotice { app_id: self.app_id(), thread_id, run_id, status }))
    }

    fn of_proposal(&self, conn: &SqlConnection) -> Result<Option<Notice>, Error> {
        let (proposal, status) = (self.subject::<ProposalId>(), ProposalStatus::parse(&self.status));
        let Some((proposal_id, status)) = proposal.zip(status) else { return Ok(None) };
        let statement = "SELECT tool, thread, run FROM proposals WHERE id = ?1";
        find_first(conn, statement, [proposal_id.bytes()], |row| {
            Ok(Notice::Proposal(ProposalNotice {
                app_id: self.app_id(),
                proposal_id,
                status,
                tool: text(row, 0)?,
                thread_id: maybe_id(row, 1)?,
                run_id: maybe_id(row, 2)?,
            }))
        })
    }

    fn of_call(&self, conn: &SqlConnection) -> Result<Option<Notice>, Error> {
        let (call, status) = (self.subject::<CallId>(), ClientCallStatus::parse(&self.status));
        let Some((call_id, status)) = call.zip(status) else { return Ok(None) };
        let statement = "SELECT t.name, c.thread, c.run FROM client_calls c JOIN tool_calls t ON t.id = c.id
                WHERE c.id = ?1";
        find_first(conn, statement, [call_id.bytes()], |row| {
            let (name, thread_id, run_id) = (text(row, 0)?, id(row, 1)?, id(row, 2)?);
            let app_id = self.app_id();
            Ok(Notice::Call(CallNotice { app_id, call_id, status, name, thread_id, run_id }))
        })
    }

    fn of_memories(&self) -> Option<Notice> {
        let change = NoticeChange::parse(&self.status)?;
        let ids = self.subject.chunks_exact(ID_BYTES).filter_map(|id| id.try_into().ok());
        let memory_ids = ids.map(Uuid::from_bytes).map(MemoryId::from).collect();
        Some(Notice::Memory(MemoryNotice { app_id: self.app_id(), memory_ids, change }))
    }

    fn of_document(&self) -> Option<Notice> {
        let (document_id, status) = (self.subject::<DocumentId>()?, DocumentChange::parse(&self.status)?);
        Some(Notice::Document(DocumentNotice { app_id: self.app_id(), document_id, status }))
    }
}

/// Sweeps notices from before a moment, a bounded number of them. How far the channel of each user was swept is noted,
/// so that its numbers continue, and a place before that is known to be lost. True when there were any.
pub(super) fn sweep(batch: &Batch<'_>, before: Timestamp) -> Result<bool, Error> {
    let statement = "SELECT user, number FROM notices WHERE at < ?1 ORDER BY at LIMIT ?2";
    let old = find_all(batch.conn(), statement, [before.as_millisecond(), MAX_SWEPT], |row| {
        Ok((text(row, 0)?, row.get::<i64>(1)?))
    })?;
    let mut note = batch.conn().prepare(
        "INSERT INTO notices_swept (user, through) VALUES (?1, ?2)
            ON CONFLICT (user) DO UPDATE SET through = max(notices_swept.through, excluded.through)",
    )?;
    let mut remove = batch.conn().prepare("DELETE FROM notices WHERE user = ?1 AND number = ?2")?;
    for (user, number) in &old {
        note.execute(params![user, number])?;
        remove.execute(params![user, number])?;
    }
    Ok(!old.is_empty())
}
