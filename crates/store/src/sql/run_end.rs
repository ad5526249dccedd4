//! The end of a run that no process can drive, from its rows alone. Its thread is free again, also if its log cannot be
//! read.

use crate::sql::params;
use protocol::{Event, Failure, MessageId, RunEnd, RunId, RunStatus, ThreadId};

use super::append::Batch;
use super::events::IS_FACT;
use super::read::{find_all, find_first, has_any, id, sql, text};
use crate::rules::run_end::{OpenCall, abandoned_result, ending, is_to_end};
use crate::{Error, ForcedEnd};

pub(super) fn end(
    batch: &mut Batch<'_>,
    (run, thread, epoch): (RunId, ThreadId, u64),
    end: &ForcedEnd,
) -> Result<(), Error> {
    let statement = "SELECT ended_at IS NOT NULL FROM runs WHERE id = ?1 AND epoch = ?2";
    let ended: Option<bool> =
        find_first(batch.conn(), statement, params![run.bytes(), sql(epoch)], |row| row.get(0))?;
    if !is_to_end(ended)? {
        return Ok(());
    }
    batch.count_on(thread)?;
    for call in open_calls(batch, run)? {
        let result = Event::ToolComplete(abandoned_result(call, end));
        batch.record(thread, Some(run), &result)?;
    }
    let (status, error) = ending(batch.stop_of(run)?, end);
    let message = has_said_something(batch, run)?.then_some(end.message);
    let refused = batch.part(|batch| finish(batch, (run, thread), (status, error.clone()), message))?;
    match refused {
        None => Ok(()),
        // The words that were said cannot be put into the conversation; the run ends all the same.
        Some(_) if message.is_some() => finish(batch, (run, thread), (status, error), None),
        Some(refused) => Err(refused),
    }
}

fn finish(
    batch: &mut Batch<'_>,
    (run, thread): (RunId, ThreadId),
    (status, error): (RunStatus, Option<Failure>),
    message_id: Option<MessageId>,
) -> Result<(), Error> {
    let end = RunEnd { run_id: run, status, error, message_id };
    batch.record(thread, Some(run), &Event::RunEnd(end)).map(drop)
}

fn open_calls(batch: &Batch<'_>, run: RunId) -> Result<Vec<OpenCall>, Error> {
    let statement =
        "SELECT c.id, c.name, EXISTS (SELECT 1 FROM actions a WHERE a.id = c.id AND a.status = 'started')
            FROM tool_calls c
            WHERE c.run = ?1 AND NOT EXISTS (SELECT 1 FROM tool_results r WHERE r.call = c.id)
            ORDER BY c.step, c.idx";
    let open =
        |row: &super::SqlRow<'_>| Ok(OpenCall { id: id(row, 0)?, name: text(row, 1)?, begun: row.get(2)? });
    find_all(batch.conn(), statement, [run.bytes()], open)
}

/// Whether some step of the run has words or calls that can be read.
fn has_said_something(batch: &Batch<'_>, run: RunId) -> Result<bool, Error> {
    let statement = format!(
        "SELECT 1 FROM (SELECT CASE WHEN json_valid(body) THEN body ELSE '{{}}' END AS body FROM events
                WHERE run = ?1 AND kind = 'step:end' AND {IS_FACT}) said
            WHERE json_extract(body, '$.text') <> '' OR json_extract(body, '$.calls[0]') IS NOT NULL"
    );
    has_any(batch.conn(), &statement, [run.bytes()])
}
