//! The rows of the database once all is quiet, read once: the checks look here, and not at the tables.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use protocol::{Effect, Event, Kind, RunStatus, StepEnd, Stored, ToolStatus, Usage};
use rusqlite::{Connection, Row};
use sha2::{Digest, Sha256};
use store::inspection::{LoggedRow, file_log};

use crate::program::MessageProgram;

/// Sixteen bytes, as in the tables; the wire form has a prefix and is in hex.
pub(super) type RowId = [u8; 16];
pub(super) type BodyHash = [u8; 32];

/// The fragment of a prompt that grows with the conversation.
const HISTORY: &str = "history";

#[derive(Debug, Clone, Default)]
pub(super) struct StoredLog {
    pub(super) threads: HashMap<RowId, Thread>,
    pub(super) runs: HashMap<RowId, LoggedRun>,
    pub(super) actions: HashMap<RowId, Action>,
    pub(super) memories: HashMap<RowId, LoggedMemory>,
    pub(super) proposals: HashMap<RowId, Proposal>,
    /// Runs with an open call of the client.
    pub(super) waiting_for_client: HashSet<RowId>,
    pub(super) jobs: Vec<LoggedJob>,
    /// The places of the message of each tag.
    pub(super) said: HashMap<String, Vec<LoggedMessage>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub(super) app: String,
    pub(super) user: String,
    pub(super) deleted: bool,
    /// In the order of their numbers.
    pub(super) events: Vec<LoggedEvent>,
    /// The first and the last of numbers that were left out after a crash.
    pub(super) skipped: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedEvent {
    pub(super) seq: u64,
    pub(super) run: Option<RowId>,
    /// None if it is a name we do not know.
    pub(super) kind: Option<Kind>,
    /// Of the bytes of its body, which are those of `data` on the wire.
    pub(super) hash: BodyHash,
    /// Milliseconds since 1970.
    pub(super) at: i64,
}

#[derive(Debug, Clone)]
pub(super) struct LoggedRun {
    pub(super) thread: RowId,
    pub(super) app: String,
    pub(super) message: RowId,
    pub(super) status: RunStatus,
    pub(super) stop: Option<String>,
    pub(super) start: Option<u64>,
    pub(super) end: Option<u64>,
    pub(super) created_at: i64,
    pub(super) pruned: bool,
    /// Of the program in its message.
    pub(super) tag: Option<String>,
    pub(super) steps: Vec<LoggedStep>,
    /// When each step began; no step begins after a cancel.
    pub(super) steps_begun: Vec<i64>,
    pub(super) resets: Vec<Reset>,
    pub(super) begun: HashMap<RowId, i64>,
    pub(super) results: HashMap<RowId, LoggedResult>,
}

/// A step that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedStep {
    pub(super) at: i64,
    pub(super) usage: Usage,
    /// Whether the provider said all that it wanted to say.
    pub(super) whole: bool,
    /// Tokens of earlier messages that were in its prompt, or would have been.
    pub(super) history: Option<u64>,
}

/// A step that began again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reset {
    pub(super) seq: u64,
    /// None after a crash: the process that knew it is gone.
    pub(super) usage: Option<Usage>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedResult {
    pub(super) status: ToolStatus,
    pub(super) outside: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Action {
    pub(super) tool: String,
    pub(super) effect: Effect,
    pub(super) status: String,
    pub(super) undone_by: Option<RowId>,
    pub(super) undo_of: Option<RowId>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct LoggedMemory {
    pub(super) app: String,
    pub(super) user: String,
    pub(super) active: bool,
    /// Its text as each change has left it.
    pub(super) texts: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Proposal {
    pub(super) run: Option<RowId>,
    pub(super) status: String,
}

#[derive(Debug, Clone)]
pub(super) struct LoggedJob {
    pub(super) kind: String,
    pub(super) key: String,
    pub(super) app: String,
    pub(super) status: String,
    pub(super) error: Option<String>,
    pub(super) due_at: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedMessage {
    pub(super) thread: RowId,
    pub(super) run: Option<RowId>,
    pub(super) seq: u64,
}

impl StoredLog {
    pub(super) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut log = Self::default();
        log.read_threads(conn)?;
        log.read_runs(conn)?;
        log.read_events(conn)?;
        log.read_actions(conn)?;
        log.read_memories(conn)?;
        log.read_work(conn)?;
        Ok(log)
    }

    /// Whether a thread is hidden or removed.
    pub(super) fn is_gone(&self, thread: &RowId) -> bool {
        self.threads.get(thread).is_none_or(|thread| thread.deleted)
    }

    fn read_threads(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        read_rows(conn, "SELECT id, app, user, deleted_at IS NOT NULL FROM threads", |row| {
            let thread =
                Thread { app: row.get(1)?, user: row.get(2)?, deleted: row.get(3)?, ..Thread::default() };
            self.threads.insert(row.get(0)?, thread);
            Ok(())
        })?;
        read_rows(conn, "SELECT thread, first, last FROM skipped WHERE reason = 'power loss'", |row| {
            let numbers = (number(row, 1)?, number(row, 2)?);
            self.threads.entry(row.get(0)?).or_default().skipped.push(numbers);
            Ok(())
        })
    }

    fn read_runs(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "SELECT id, thread, app, message, status, stop, start_seq, end_seq, created_at,
            pruned_at IS NOT NULL FROM runs";
        read_rows(conn, sql, |row| {
            let status: String = row.get(4)?;
            let run = LoggedRun {
                thread: row.get(1)?,
                app: row.get(2)?,
                message: row.get(3)?,
                status: RunStatus::parse(&status).unwrap_or(RunStatus::Running),
                stop: row.get(5)?,
                start: maybe_number(row, 6)?,
                end: maybe_number(row, 7)?,
                created_at: row.get(8)?,
                pruned: row.get(9)?,
                tag: None,
                steps: Vec::new(),
                steps_begun: Vec::new(),
                resets: Vec::new(),
                begun: HashMap::new(),
                results: HashMap::new(),
            };
            self.runs.insert(row.get(0)?, run);
            Ok(())
        })
    }

    fn read_events(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let log = log_rows(conn).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        for LoggedRow { event: Stored { thread, seq, run, kind: name, body }, at } in log {
            let kind = Kind::parse(&name);
            let hash = Sha256::digest(body.as_bytes()).into();
            let run = run.map(|run| *run.bytes());
            let stored = LoggedEvent { seq, run, kind, hash, at: at.unwrap_or(0) };
            if kind.is_some_and(|kind| !kind.is_delta() && kind != Kind::ContextLoaded)
                && let Ok(event) = Event::read(&name, &body)
            {
                self.note(*thread.bytes(), &stored, &event);
            }
            self.threads.entry(*thread.bytes()).or_default().events.push(stored);
        }
        Ok(())
    }

    fn note(&mut self, thread: RowId, stored: &LoggedEvent, event: &Event) {
        let (seq, at) = (stored.seq, stored.at);
        let mut tag = None;
        if let Event::MessageUser(said) = event
            && let Some(program) = MessageProgram::parse(&said.text)
        {
            let said = LoggedMessage { thread, run: stored.run, seq };
            self.said.entry(program.tag.clone()).or_default().push(said);
            tag = Some(program.tag);
        }
        let Some(run) = stored.run.and_then(|run| self.runs.get_mut(&run)) else { return };
        run.tag = run.tag.take().or(tag);
        if let Event::StepStart(_) = event {
            run.steps_begun.push(at);
        } else if let Event::StepEnd(step) = event {
            run.steps.push(LoggedStep::of(step, at));
        } else if let Event::StepReset(reset) = event {
            run.resets.push(Reset { seq, usage: reset.usage });
        } else if let Event::ToolStart(start) = event {
            run.begun.insert(*start.call_id.bytes(), at);
        } else if let Event::CallOpen(open) = event {
            run.begun.insert(*open.call_id.bytes(), at);
        } else if let Event::ToolComplete(result) = event {
            let outcome = LoggedResult { status: result.status, outside: result.outside };
            run.results.insert(*result.call_id.bytes(), outcome);
        }
    }

    fn read_actions(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "SELECT id, tool, effect, status, undone_by, undo_of FROM actions";
        read_rows(conn, sql, |row| {
            let effect: String = row.get(2)?;
            let action = Action {
                tool: row.get(1)?,
                effect: Effect::parse(&effect).unwrap_or(Effect::Irreversible),
                status: row.get(3)?,
                undone_by: row.get(4)?,
                undo_of: row.get(5)?,
            };
            self.actions.insert(row.get(0)?, action);
            Ok(())
        })
    }

    fn read_memories(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        read_rows(conn, "SELECT id, app, user, status = 'active' FROM memories", |row| {
            let memory =
                LoggedMemory { app: row.get(1)?, user: row.get(2)?, active: row.get(3)?, texts: Vec::new() };
            self.memories.insert(row.get(0)?, memory);
            Ok(())
        })?;
        read_rows(conn, "SELECT memory, text FROM memory_versions ORDER BY memory, version", |row| {
            let (memory, text): (RowId, String) = (row.get(0)?, row.get(1)?);
            self.memories.entry(memory).or_default().texts.push(text);
            Ok(())
        })
    }

    fn read_work(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        read_rows(conn, "SELECT id, run, status FROM proposals", |row| {
            self.proposals.insert(row.get(0)?, Proposal { run: row.get(1)?, status: row.get(2)? });
            Ok(())
        })?;
        read_rows(conn, "SELECT run FROM client_calls WHERE status = 'open'", |row| {
            self.waiting_for_client.insert(row.get(0)?);
            Ok(())
        })?;
        read_rows(conn, "SELECT kind, key, app, status, error, run_at FROM jobs", |row| {
            self.jobs.push(LoggedJob {
                kind: row.get(0)?,
                key: row.get(1)?,
                app: row.get(2)?,
                status: row.get(3)?,
                error: row.get(4)?,
                due_at: row.get(5)?,
            });
            Ok(())
        })
    }
}

impl LoggedStep {
    fn of(step: &StepEnd, at: i64) -> Self {
        let history = step.prompt.as_ref().map(|prompt| {
            let shown = prompt.fragments.iter().filter(|cost| cost.fragment == HISTORY);
            let left = prompt.left_out.iter().filter(|left| left.fragment == HISTORY);
            shown.map(|cost| cost.tokens).chain(left.map(|left| left.tokens)).sum()
        });
        let cut = matches!(step.finish, protocol::Finish::Cancelled | protocol::Finish::Failed);
        Self { at, usage: step.usage, whole: !cut, history }
    }
}

/// The whole log of a database, wherever in it the events are.
pub(super) fn log_rows(conn: &Connection) -> Result<Vec<LoggedRow>, store::Error> {
    let folder = conn.path().and_then(|path| Path::new(path).parent());
    file_log(folder.unwrap_or(Path::new(".")))
}

fn read_rows(
    conn: &Connection,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

/// A number that is never below zero.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(maybe_number(row, column)?.unwrap_or(0))
}

fn maybe_number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.and_then(|number| u64::try_from(number).ok()))
}

/// The number in a wire form, with any prefix.
pub(super) fn id(wire: &str) -> Option<RowId> {
    let (_, digits) = wire.rsplit_once('_').unwrap_or(("", wire));
    let mut id = RowId::default();
    unhex(digits, &mut id).then_some(id)
}

/// Hex digits as bytes. False if they are none, or not as many as `bytes` has.
pub(super) fn unhex(digits: &str, bytes: &mut [u8]) -> bool {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return false;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let (Some(high), Some(low)) = (value(*high), value(*low)) else { return false };
        *byte = high * 16 + low;
    }
    true
}

/// As `lower(hex(id))` in a database shell.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_same_number_in_every_spelling() {
        let number = [0xab; 16];
        assert_eq!(id(&format!("call_{}", hex(&number))), Some(number));
        assert_eq!(id(&hex(&number)), Some(number));
        for wrong in ["", "call_", "call_ab", &format!("call_{}0", hex(&number)), &"zz".repeat(16)] {
            assert_eq!(id(wrong), None, "{wrong}");
        }
    }
}
