//! Messages as front ends show them: with their siblings, and with what their runs say of them. Each of these is read in
//! one go for all messages of a page.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{MessageId, RunId, RunStatus, Seq, ThreadId};

use super::events::IS_FACT;
use super::read::{count, find_all, id, maybe_time, one_more, sql, text};
use super::{SqlStore, history, usage};
use crate::{
    AnswerRun, Error, MAX_BYTES_PER_PAGE, MessageRole, MessageRow, PageOf, PageRows, RawEvent, ShownMessage,
};

/// Siblings that one page shows. A message whose own are not read to their end is shown without.
const MAX_SIBLINGS_PER_PAGE: i64 = 20_000;

/// Sources that one answer shows.
const MAX_SOURCES_PER_ANSWER: usize = 256;

impl SqlStore {
    pub(crate) async fn all_messages(
        &self,
        thread: ThreadId,
        until: Seq,
        page: PageOf<Seq>,
    ) -> Result<PageRows<ShownMessage>, Error> {
        self.readers.read(move |conn| of_thread(conn, thread, until, page)).await
    }
}

/// A page of the path that ends in `leaf`, oldest first.
pub(super) fn of_path(
    conn: &SqlConnection,
    thread: ThreadId,
    leaf: MessageId,
    page: PageOf<Seq>,
) -> Result<PageRows<ShownMessage>, Error> {
    let mut shown = with_runs(conn, history::page(conn, thread, leaf, page)?)?;
    add_siblings(conn, thread, &mut shown.rows)?;
    Ok(shown)
}

/// A page of all messages up to a place in the log, on all branches, oldest first.
fn of_thread(
    conn: &SqlConnection,
    thread: ThreadId,
    until: Seq,
    page: PageOf<Seq>,
) -> Result<PageRows<ShownMessage>, Error> {
    let statement =
        "SELECT id FROM messages WHERE thread = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4";
    let after = sql(page.after.unwrap_or(0));
    let key = params![thread.bytes(), after, sql(until), one_more(page.limit)];
    let ids = find_all(conn, statement, key, |row| id(row, 0))?;
    with_runs(conn, history::rows_of(conn, thread, ids, page.limit)?)
}

/// Adds what the runs of answers say. The page ends early where that is too much.
fn with_runs(conn: &SqlConnection, page: PageRows<MessageRow>) -> Result<PageRows<ShownMessage>, Error> {
    let PageRows { rows, more } = page;
    let mut bytes: usize = rows.iter().map(history::bytes_of).sum();
    let mut shown = PageRows { rows: rows.into_iter().map(without_details).collect::<Vec<_>>(), more };
    let runs: Vec<Option<String>> =
        shown.rows.iter().map(|shown| run_of(&shown.row, &MessageRole::Assistant)).collect();
    let runs = serde_json::to_string(&runs).map_err(|_| Error::Aborted)?;
    let asked: Vec<Option<String>> =
        shown.rows.iter().map(|shown| run_of(&shown.row, &MessageRole::User)).collect();
    let asked = serde_json::to_string(&asked).map_err(|_| Error::Aborted)?;
    for (place, run) in
        told_runs(conn, ANSWER_RUNS, &runs)?.into_iter().chain(told_runs(conn, UNANSWERED_RUNS, &asked)?)
    {
        if let Some(shown) = shown.rows.get_mut(place) {
            shown.run = run;
        }
    }
    // In the order of the list. On SQLite a cross join goes through it as it stands.
    let order = match conn {
        SqlConnection::Sqlite(_) => "",
        SqlConnection::Postgres(_) => " ORDER BY 1, 2",
    };
    let mut find = conn.prepare(&format!(
        "SELECT CAST(answer.key AS BIGINT), e.seq, e.kind, CASE e.kind WHEN 'source' THEN e.body
                ELSE CASE WHEN json_valid(e.body) THEN json_extract(e.body, '$.reasoning') END END
            FROM json_each(?1) answer CROSS JOIN events e ON e.run = unhex(answer.value) AND e.kind IN ('source', 'step:end')
                AND {IS_FACT}
            WHERE e.kind = 'source' OR instr(e.body, '\"reasoning\":') > 0{order}"
    ))?;
    let mut rows = find.query([runs])?;
    while let Some(row) = &rows.next()? {
        let (place, event) =
            (list_place(row)?, RawEvent { seq: count(row, 1)?, kind: text(row, 2)?, body: text(row, 3)? });
        bytes = bytes.saturating_add(event.body.len());
        if place > 0 && bytes > MAX_BYTES_PER_PAGE {
            shown.rows.truncate(place);
            shown.more = true;
            break;
        }
        if let Some(shown) = shown.rows.get_mut(place) {
            add_event(shown, event);
        }
    }
    Ok(shown)
}

fn without_details(row: MessageRow) -> ShownMessage {
    ShownMessage { row, siblings: Vec::new(), reasoning: Vec::new(), sources: Vec::new(), run: None }
}

fn add_event(shown: &mut ShownMessage, event: RawEvent) {
    if event.kind != "source" {
        shown.reasoning.extend((!event.body.is_empty()).then_some(event.body));
    } else if shown.sources.len() < MAX_SOURCES_PER_ANSWER {
        shown.sources.push(event);
    }
}

/// The run of a message with this role as hexadecimal digits.
fn run_of(row: &MessageRow, role: &MessageRole) -> Option<String> {
    row.run.filter(|_| row.role == *role).map(|run: RunId| run.uuid().simple().to_string())
}

/// The first column as a place in a list.
fn list_place(row: &SqlRow<'_>) -> Result<usize, Error> {
    Ok(usize::try_from(count(row, 0)?).unwrap_or(usize::MAX))
}

/// Runs, with the columns that [`told_runs`] reads.
const ANSWER_RUNS: &str =
    "SELECT CAST(listed.key AS BIGINT), r.status, r.input_tokens, r.output_tokens, r.cached_tokens, r.reasoning_tokens, r.cost,
            r.estimated, first.at, r.ended_at, r.error
            FROM json_each(?1) listed CROSS JOIN runs r ON r.id = unhex(listed.value)
                LEFT JOIN events first ON first.thread = r.thread AND first.seq = r.start_seq";

/// Runs, with these columns, that have ended, and of which no message tells.
const UNANSWERED_RUNS: &str =
    "SELECT CAST(listed.key AS BIGINT), r.status, r.input_tokens, r.output_tokens, r.cached_tokens, r.reasoning_tokens, r.cost,
            r.estimated, first.at, r.ended_at, r.error
            FROM json_each(?1) listed CROSS JOIN runs r ON r.id = unhex(listed.value)
                LEFT JOIN events first ON first.thread = r.thread AND first.seq = r.start_seq
            WHERE r.status IN ('failed', 'cancelled', 'interrupted')
                AND NOT EXISTS (SELECT 1 FROM messages a WHERE a.run = r.id AND a.role = 'assistant')";

/// The runs of a list, each with its place there.
fn told_runs(
    conn: &SqlConnection,
    statement: &str,
    runs: &str,
) -> Result<Vec<(usize, Option<AnswerRun>)>, Error> {
    find_all(conn, statement, [runs], |row| {
        let usage = usage::read(row, 2)?;
        let (started_at, ended_at) = (maybe_time(row, 8)?, maybe_time(row, 9)?);
        let error = row.get::<Option<String>>(10)?.and_then(|error| serde_json::from_str(&error).ok());
        // The schema knows no other status.
        let run = RunStatus::parse(&text(row, 1)?).map(|status| AnswerRun {
            status,
            error,
            usage,
            started_at,
            ended_at,
        });
        Ok((list_place(row)?, run))
    })
}

/// Adds the messages that have the same parent and role. On a path no two messages have the same parent.
fn add_siblings(conn: &SqlConnection, thread: ThreadId, shown: &mut [ShownMessage]) -> Result<(), Error> {
    let parents: Vec<Option<String>> =
        shown.iter().map(|shown| shown.row.parent.map(|parent| parent.uuid().simple().to_string())).collect();
    let parents = serde_json::to_string(&parents).map_err(|_| Error::Aborted)?;
    let statement = "SELECT CAST(child.key AS BIGINT), m.id, m.role, m.seq FROM json_each(?1) child
            CROSS JOIN messages m ON m.thread = ?2 AND m.parent IS NOT DISTINCT FROM unhex(child.value) LIMIT ?3";
    let children =
        find_all(conn, statement, params![parents, thread.bytes(), MAX_SIBLINGS_PER_PAGE], |row| {
            Ok((
                list_place(row)?,
                (count(row, 3)?, id::<MessageId>(row, 1)?),
                MessageRole::parse(text(row, 2)?),
            ))
        })?;
    let mut siblings: Vec<Vec<(Seq, MessageId)>> = vec![Vec::new(); shown.len()];
    for (place, child, role) in children {
        if shown.get(place).is_some_and(|shown| shown.row.role == role)
            && let Some(siblings) = siblings.get_mut(place)
        {
            siblings.push(child);
        }
    }
    for (shown, mut siblings) in shown.iter_mut().zip(siblings) {
        siblings.sort_unstable();
        if siblings.len() > 1 && siblings.iter().any(|(_, id)| *id == shown.row.id) {
            shown.siblings = siblings.into_iter().map(|(_, id)| id).collect();
        }
    }
    Ok(())
}
