//! Branches of a thread: the tree of all messages, and the choice of the branch that is shown.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{Event, MessageId, Principal, Seq, ThreadHead, ThreadId};

use super::append::Batch;
use super::read::{count, find_first, find_page, has_any, id, maybe_id, one_more, sql, text, time};
use super::{RowsOf, SqlStore, idempotency, threads};
use crate::{
    Error, IdempotencyClaim, MAX_TREE_TEXT_CHARS, MessageRole, PageOf, PageRows, ThreadRow, TreeRow,
};

/// Messages of a branch that are looked at for its newest one.
const MAX_BRANCH: i64 = 200_000;

/// Times that the end of a branch is looked for again, because the branch has grown meanwhile.
const MAX_TRIES: usize = 5;

impl SqlStore {
    pub(crate) async fn tree(&self, thread: ThreadId, page: PageOf<Seq>) -> Result<PageRows<TreeRow>, Error> {
        self.readers.read(move |conn| tree(conn, thread, page)).await
    }

    pub(crate) async fn choose_head(
        &self,
        principal: &Principal,
        thread: ThreadId,
        message: MessageId,
        once: Option<IdempotencyClaim>,
    ) -> Result<ThreadRow, Error> {
        let rows = RowsOf::user(principal.user());
        for _ in 0..MAX_TRIES {
            // A branch may be long, so the writer is not kept waiting while its end is looked for.
            let user = principal.user().clone();
            let read = move |conn: &SqlConnection| {
                threads::find(conn, thread, user.as_str())?;
                newest_below(conn, thread, message)?.ok_or(Error::NotFound("message"))
            };
            let leaf = self.readers.read_for(rows.clone(), read).await?;
            let (principal, once) = (principal.clone(), once.clone());
            let choose =
                move |batch: &mut Batch<'_>| choose(batch, &principal, (thread, leaf), once.as_ref());
            if let Some(row) = self.writer.write_for(rows.clone(), choose).await? {
                return Ok(row);
            }
        }
        Err(Error::Busy)
    }
}

/// Shows the branch that ends in `leaf`. None if another message follows it by now.
fn choose(
    batch: &mut Batch<'_>,
    principal: &Principal,
    (thread, leaf): (ThreadId, MessageId),
    once: Option<&IdempotencyClaim>,
) -> Result<Option<ThreadRow>, Error> {
    let user = principal.user().as_str();
    let row = threads::find(batch.conn(), thread, user)?;
    if idempotency::earlier_target(batch, &row.scope, once)?.is_some() {
        return Ok(Some(row));
    }
    if row.active_run.is_some() {
        return Err(Error::Busy);
    }
    let statement = "SELECT 1 FROM messages WHERE thread = ?1 AND parent = ?2";
    if has_any(batch.conn(), statement, params![thread.bytes(), leaf.bytes()])? {
        return Ok(None);
    }
    idempotency::remember(batch, &row.scope, once, thread.uuid())?;
    if row.head == Some(leaf) {
        return Ok(Some(row));
    }
    let seq = batch.record(thread, None, &Event::ThreadHead(ThreadHead { head_id: leaf }))?;
    let row = threads::find(batch.conn(), thread, user)?;
    // The row's own number is written at the end of the batch.
    Ok(Some(ThreadRow { last_seq: seq.unwrap_or(row.last_seq), ..row }))
}

/// The newest message of the branches that go through a message. Nothing follows it, because what follows is newer.
fn newest_below(
    conn: &SqlConnection,
    thread: ThreadId,
    message: MessageId,
) -> Result<Option<MessageId>, Error> {
    let statement = match conn {
        SqlConnection::Sqlite(_) => {
            "WITH RECURSIVE branch (id, seq) AS (
                 SELECT id, seq FROM messages WHERE thread = ?1 AND id = ?2
                 UNION ALL
                 SELECT m.id, m.seq FROM branch CROSS JOIN messages m ON m.thread = ?1 AND m.parent = branch.id
                 ORDER BY 2 DESC LIMIT ?3)
             SELECT id FROM branch ORDER BY seq DESC LIMIT 1"
        }
        // It goes through a branch level by level.
        SqlConnection::Postgres(_) => {
            "WITH RECURSIVE branch (id, seq) AS (
                 SELECT id, seq FROM messages WHERE thread = ?1 AND id = ?2
                 UNION ALL
                 SELECT m.id, m.seq FROM branch JOIN messages m ON m.thread = ?1 AND m.parent = branch.id)
             SELECT id FROM (SELECT id, seq FROM branch LIMIT ?3) found ORDER BY seq DESC LIMIT 1"
        }
    };
    find_first(conn, statement, params![thread.bytes(), message.bytes(), MAX_BRANCH], |row| id(row, 0))
}

/// All messages after a place in the log, on all branches, oldest first.
fn tree(conn: &SqlConnection, thread: ThreadId, page: PageOf<Seq>) -> Result<PageRows<TreeRow>, Error> {
    // One character more than is shown tells that there is more.
    let statement = "SELECT m.id, m.role, m.parent, m.run, m.seq, m.created_at, e.kind,
                CASE WHEN json_valid(e.body) THEN substr(trim(json_extract(e.body, '$.text'), ?5), 1, ?4) END
            FROM messages m LEFT JOIN events e ON e.thread = m.thread AND e.seq = m.seq
            WHERE m.thread = ?1 AND m.seq > ?2 ORDER BY m.seq LIMIT ?3";
    let shown = MAX_TREE_TEXT_CHARS as i64 + 1;
    let key = params![thread.bytes(), sql(page.after.unwrap_or(0)), one_more(page.limit), shown, " \t\n\r"];
    find_page(conn, statement, key, page.limit, tree_row)
}

fn tree_row(row: &SqlRow<'_>) -> Result<TreeRow, Error> {
    // A run that was cut short before it said anything.
    let is_silent = text(row, 6)? == "run:end";
    let text_of_event: Option<String> = row.get(7)?;
    Ok(TreeRow {
        id: id(row, 0)?,
        role: MessageRole::parse(text(row, 1)?),
        parent: maybe_id(row, 2)?,
        run: maybe_id(row, 3)?,
        text: text_of_event.or_else(|| is_silent.then(String::new)),
        seq: count(row, 4)?,
        created_at: time(row, 5)?,
    })
}
