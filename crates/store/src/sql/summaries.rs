//! Summaries: what stands for older parts of conversations, as their events tell it.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{Event, MessageId, Summary, ThreadId};
use uuid::Uuid;

use super::append::Batch;
use super::read::{count, find_all, find_page, has_any, id, maybe_id, one_more, sql, time};
use super::{SqlStore, jobs, texts, usage};
use crate::{Error, JobRow, JobUsage, MAX_SUMMARIES_PER_READ, NewText, PageOf, PageRows, SummaryRow};

impl SqlStore {
    pub(crate) async fn summaries(&self, thread: ThreadId, all: bool) -> Result<Vec<SummaryRow>, Error> {
        self.readers.read(move |conn| list(conn, thread, all)).await
    }

    pub(crate) async fn summary_page(
        &self,
        thread: ThreadId,
        all: bool,
        page: PageOf<u64>,
    ) -> Result<PageRows<SummaryRow>, Error> {
        self.readers.read(move |conn| oldest(conn, thread, all, page)).await
    }

    pub(crate) async fn summarise(
        &self,
        job: &JobRow,
        summary: Option<(Summary, String)>,
        spent: Option<JobUsage>,
    ) -> Result<(), Error> {
        let job = job.clone();
        let work = move |batch: &mut Batch<'_>| {
            jobs::mark_done(batch, &job)?;
            if let Some(spent) = spent {
                usage::add(batch, &job.scope, &spent.model, spent.usage)?;
            }
            match (job.thread, summary) {
                (Some(thread), Some((summary, text))) if is_wanted(batch, thread, &summary)? => {
                    let hash = hash_of(&summary)?;
                    let text = NewText { source: thread.to_string(), hash, text };
                    texts::insert(batch, &job.scope, &text)?;
                    batch.record(thread, None, &Event::Summary(summary)).map(drop)
                }
                (_, _) => Ok(()),
            }
        };
        self.writer.write(work).await
    }
}

/// Whether the thread is there, none of the same level ends at the same message, and all that it merges are there to be
/// merged.
fn is_wanted(batch: &Batch<'_>, thread: ThreadId, summary: &Summary) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM threads WHERE id = ?1 AND deleted_at IS NULL";
    let there = has_any(batch.conn(), statement, [thread.bytes()])?;
    let statement = "SELECT 1 FROM summaries WHERE thread = ?1 AND level = ?2 AND to_message = ?3";
    let done = has_any(
        batch.conn(),
        statement,
        params![thread.bytes(), summary.level, summary.to_message_id.bytes()],
    )?;
    if !there || done {
        return Ok(false);
    }
    let mut open = batch
        .conn()
        .prepare("SELECT 1 FROM summaries WHERE id = ?1 AND thread = ?2 AND merged_into IS NULL")?;
    for merged in &summary.merged {
        if open.find_first(params![merged.bytes(), thread.bytes()], |_| Ok(()))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The hash that names the text, from its hexadecimal digits.
fn hash_of(summary: &Summary) -> Result<[u8; 16], Error> {
    let digits = Some(&summary.hash).filter(|hash| hash.len() == 32);
    let hash = digits.and_then(|digits| Uuid::try_parse(digits).ok());
    hash.map(Uuid::into_bytes)
        .ok_or_else(|| Error::Changed("the hash of a summary's text is not valid".into()))
}

/// Writes down what the event says.
pub(super) fn add_summary(batch: &Batch<'_>, thread: ThreadId, summary: &Summary) -> Result<(), Error> {
    let statement = "INSERT INTO summaries (id, thread, level, after_message, from_message, to_message, from_seq, to_seq, messages,
                    hash, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    batch.execute(
        statement,
        params![
            summary.summary_id.bytes(),
            thread.bytes(),
            summary.level,
            summary.after_message_id.as_ref().map(MessageId::bytes),
            summary.from_message_id.bytes(),
            summary.to_message_id.bytes(),
            sql(summary.from),
            sql(summary.to),
            summary.messages,
            hash_of(summary)?,
            batch.at()
        ],
    )?;
    let mut merge =
        batch.conn().prepare("UPDATE summaries SET merged_into = ?3 WHERE id = ?1 AND thread = ?2")?;
    for merged in &summary.merged {
        merge.execute(params![merged.bytes(), thread.bytes(), summary.summary_id.bytes()])?;
    }
    Ok(())
}

/// The summaries of a thread with their texts: those that no other took the place of, or all.
const OF_THREAD: &str = "s.id, s.level, s.after_message, s.from_message, s.to_message, s.from_seq, s.to_seq,
        s.messages, x.body, s.merged_into IS NOT NULL, s.created_at
    FROM threads t JOIN summaries s ON s.thread = t.id
        LEFT JOIN texts x ON x.app = t.app AND x.user = t.user
            AND x.source = 'thr_' || lower(hex(t.id)) AND x.hash = s.hash
    WHERE t.id = ?1 AND t.deleted_at IS NULL AND (?2 = 1 OR s.merged_into IS NULL)";

fn oldest(
    conn: &SqlConnection,
    thread: ThreadId,
    all: bool,
    page: PageOf<u64>,
) -> Result<PageRows<SummaryRow>, Error> {
    let statement = format!("SELECT {OF_THREAD} ORDER BY s.to_seq, s.level LIMIT ?3 OFFSET ?4");
    let (limit, before) = (one_more(page.limit), page.after.map_or(0, sql));
    find_page(conn, &statement, params![thread.bytes(), all, limit, before], page.limit, summary_row)
}

pub(super) fn list(conn: &SqlConnection, thread: ThreadId, all: bool) -> Result<Vec<SummaryRow>, Error> {
    let statement = format!("SELECT {OF_THREAD} ORDER BY s.to_seq DESC, s.level DESC LIMIT ?3");
    let bound = MAX_SUMMARIES_PER_READ as i64;
    let mut found = find_all(conn, &statement, params![thread.bytes(), all, bound], summary_row)?;
    found.reverse();
    Ok(found)
}

fn summary_row(row: &SqlRow<'_>) -> Result<SummaryRow, Error> {
    let short = |column| count(row, column).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Ok(SummaryRow {
        id: id(row, 0)?,
        level: short(1)?,
        after_message: maybe_id(row, 2)?,
        from_message: id(row, 3)?,
        to_message: id(row, 4)?,
        from: count(row, 5)?,
        to: count(row, 6)?,
        messages: short(7)?,
        text: row.get(8)?,
        merged: row.get(9)?,
        created_at: time(row, 10)?,
    })
}
