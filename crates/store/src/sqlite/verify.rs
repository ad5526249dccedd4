//! Goes through the ledger: every chain is computed again, and every action compared with what its entries say.

use std::path::Path;

use jiff::Timestamp;
use protocol::{Effect, Scope};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::ledger::{self, Entry, Hash, Kind, OutputPlace, Payload};
use super::read::{count, sql, text};
use super::statements::Performer;
use super::{FILE, actions, reader, threads};
use crate::{ActionRow, Error, Verified};

/// Rows looked at before the connection is given back.
const PAGE: i64 = 256;

/// Looks through the ledger in a data folder, whether or not a server is using it.
pub fn verify(folder: &Path) -> Result<Verified, Error> {
    let conn = reader(&folder.join(FILE), Performer::Audit)?;
    let mut check = Check::default();
    while !check.is_done() {
        check = check.next(&conn)?;
    }
    Ok(check.found())
}

/// A check under way: how far it has come, and what it has found.
#[derive(Default)]
pub(super) struct Check {
    found: Verified,
    part: Part,
}

enum Part {
    /// Between two chains; the scope of the last one.
    Between(Option<Scope>),
    Chain {
        scope: Scope,
        last: u64,
        before: Hash,
    },
    /// All chains are done. The last action that was looked at.
    Actions([u8; 16]),
    Done,
}

impl Default for Part {
    fn default() -> Self {
        Self::Between(None)
    }
}

/// An entry with what it says, if that is still there.
struct Found {
    scope: Scope,
    entry: Entry,
    hash: Hash,
    salt: Option<Vec<u8>>,
    payload: Option<String>,
}

const ENTRY: &str = "l.app, l.user, l.position, l.action, l.kind, l.at, l.digest, l.hash, p.salt, p.payload
    FROM ledger l LEFT JOIN ledger_payloads p ON p.app = l.app AND p.user = l.user AND p.position = l.position";

impl Check {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.part, Part::Done)
    }

    pub(super) fn found(self) -> Verified {
        self.found
    }

    /// Looks at the next page, all of it as it was at one moment.
    pub(super) fn next(mut self, conn: &Connection) -> Result<Self, Error> {
        let moment = conn.unchecked_transaction()?;
        self.part = match self.part {
            Part::Between(last) => match scope_after(&moment, last.as_ref())? {
                Some(scope) => {
                    self.found.scopes += 1;
                    Part::Chain { last: 0, before: ledger::origin(&scope), scope }
                }
                None => Part::Actions([0; 16]),
            },
            Part::Chain { scope, last, before } => self.found.chain(&moment, scope, last, before)?,
            Part::Actions(last) => self.found.actions(&moment, last)?,
            Part::Done => Part::Done,
        };
        Ok(self)
    }
}

impl Verified {
    fn fault(&mut self, words: String) {
        if self.faults.len() < Self::MAX_FAULTS {
            self.faults.push(words);
        }
    }

    fn chain(&mut self, conn: &Connection, scope: Scope, last: u64, before: Hash) -> Result<Part, Error> {
        let (mut last, mut before) = (last, before);
        let entries: Vec<Found> = conn
            .prepare_cached(&format!(
                "SELECT {ENTRY} WHERE l.app = ?1 AND l.user = ?2 AND l.position > ?3 ORDER BY l.position LIMIT ?4"
            ))?
            .query_map(params![scope.app.as_str(), scope.user.as_str(), sql(last), PAGE], found_row)?
            .collect::<Result<_, _>>()?;
        if entries.is_empty() {
            if head(conn, &scope)? != Some((last, before)) {
                self.fault(format!("{}: the head is not the last entry, which is {last}", name(&scope)));
            }
            return Ok(Part::Between(Some(scope)));
        }
        for found in entries {
            self.entries += 1;
            let at = format!("{}: entry {}", name(&scope), found.entry.position);
            if found.entry.position != last + 1 {
                self.fault(format!("{at} does not follow entry {last}"));
            }
            if found.entry.hash(&before) != found.hash {
                self.fault(format!("{at} has another hash than what it holds"));
            }
            if let Some(fault) = self.payload(conn, &found)? {
                self.fault(format!("{at} {fault}"));
            }
            (last, before) = (found.entry.position, found.hash);
        }
        Ok(Part::Chain { scope, last, before })
    }

    /// What is wrong with what an entry says.
    fn payload(&mut self, conn: &Connection, found: &Found) -> Result<Option<&'static str>, Error> {
        let entry = &found.entry;
        let known =
            conn.prepare_cached("SELECT 1 FROM actions WHERE id = ?1")?.exists(params![entry.action])?;
        if !known {
            return Ok(Some("tells of an action that is not there"));
        }
        if let (Some(salt), Some(payload)) = (&found.salt, &found.payload) {
            let holds = ledger::digest(salt, payload) == entry.digest;
            return Ok((!holds).then_some("says something else than its digest"));
        }
        let erased = conn
            .prepare_cached(
                "SELECT 1 FROM ledger WHERE action = ?1 AND kind = 'erase' AND app = ?2 AND user = ?3 AND position > ?4",
            )?
            .exists(params![
                entry.action,
                found.scope.app.as_str(),
                found.scope.user.as_str(),
                sql(entry.position)
            ])?;
        self.erased += u64::from(erased);
        Ok((!erased).then_some("has lost what it says, and no later entry says why"))
    }

    fn actions(&mut self, conn: &Connection, last: [u8; 16]) -> Result<Part, Error> {
        let page = actions::after(conn, last, PAGE)?;
        let Some(newest) = page.last() else { return Ok(Part::Done) };
        let next = Part::Actions(*newest.id.bytes());
        for action in page {
            let entries: Vec<Found> = conn
                .prepare_cached(&format!("SELECT {ENTRY} WHERE l.action = ?1 ORDER BY l.position"))?
                .query_map([action.id.bytes()], found_row)?
                .collect::<Result<_, _>>()?;
            let at = format!("{}: the action {}", name(&action.scope), action.id);
            let Some(told) = fold(&action, &entries) else {
                self.fault(format!("{at} is not in the ledger"));
                continue;
            };
            let erased = entries.iter().any(|found| found.entry.kind == Kind::Erase);
            let told = told.with_output(conn)?;
            let differing = differences(&action, &told.action, erased);
            if let Some(fault) = told.fault {
                self.fault(format!("{at} {fault}"));
            } else if !differing.is_empty() {
                self.fault(format!("{at} is not what its entries say: {}", differing.join(", ")));
            } else if !erased && !as_written(conn, &told)? {
                self.fault(format!("{at} is not written as its entries say"));
            }
        }
        Ok(next)
    }
}

/// The first scope after another that has entries or a head.
fn scope_after(conn: &Connection, last: Option<&Scope>) -> Result<Option<Scope>, Error> {
    let last = last.map_or(("", ""), |scope| (scope.app.as_str(), scope.user.as_str()));
    let mut first: Option<Scope> = None;
    for table in ["ledger", "ledger_heads"] {
        let found = conn
            .prepare_cached(&format!(
                "SELECT app, user FROM {table} WHERE (app, user) > (?1, ?2) ORDER BY app, user LIMIT 1"
            ))?
            .query_row(params![last.0, last.1], |row| threads::scope(row, 0))
            .optional()?;
        let key = |scope: &Scope| (scope.app.as_str().to_owned(), scope.user.as_str().to_owned());
        first = first.into_iter().chain(found).min_by_key(key);
    }
    Ok(first)
}

fn head(conn: &Connection, scope: &Scope) -> Result<Option<(u64, Hash)>, Error> {
    let mut find =
        conn.prepare_cached("SELECT position, hash FROM ledger_heads WHERE app = ?1 AND user = ?2")?;
    let head =
        find.query_row([scope.app.as_str(), scope.user.as_str()], |row| Ok((count(row, 0)?, row.get(1)?)));
    Ok(head.optional()?)
}

/// An action as its entries tell it.
struct Told {
    action: ActionRow,
    /// The event that holds its output, where no entry does.
    output_in: Option<OutputPlace>,
    /// What is wrong with that event.
    fault: Option<&'static str>,
}

impl Told {
    /// Reads the output from the event that holds it.
    fn with_output(mut self, conn: &Connection) -> Result<Self, Error> {
        let (Some(place), Some(thread)) = (&self.output_in, self.action.thread) else { return Ok(self) };
        let body: Option<String> = conn
            .prepare_cached(
                "SELECT body FROM events WHERE thread = ?1 AND seq = ?2 AND kind = 'tool:complete'",
            )?
            .query_row(params![thread.bytes(), sql(place.seq)], |row| text(row, 0))
            .optional()?;
        match body {
            None => self.fault = Some("has lost the event that tells what came out"),
            Some(body) if !place.holds(&body) => {
                self.fault = Some("has an event that tells something else than its digest");
            }
            Some(body) => self.action.output = actions::output_in(&body),
        }
        Ok(self)
    }
}

/// The action as its entries tell it. None without entries.
fn fold(action: &ActionRow, entries: &[Found]) -> Option<Told> {
    let first = entries.first()?;
    let mut output_in = None;
    let mut told = ActionRow {
        id: action.id,
        scope: first.scope.clone(),
        thread: None,
        run: None,
        step: None,
        tool: String::new(),
        effect: Effect::Read,
        status: actions::STARTED.to_owned(),
        input: Value::Null,
        output: Value::Null,
        changes: Vec::new(),
        started_at: Timestamp::from_millisecond(first.entry.at).unwrap_or_default(),
        duration_ms: None,
        undone_by: None,
        undo_of: None,
        undo_under_way: action.undo_under_way, // told by the other action
        position: first.entry.position,
    };
    for found in entries {
        let said = found.payload.as_deref().and_then(|payload| serde_json::from_str::<Payload>(payload).ok());
        let Some(said) = said else { continue };
        match found.entry.kind {
            Kind::Intent => {
                told.undo_of = said.undo_of;
                ask(&mut told, said);
            }
            Kind::Outcome => {
                told.status = said.status.clone().unwrap_or_default();
                told.output = said.output.clone();
                output_in.clone_from(&said.output_in);
                told.duration_ms = said.duration_ms;
                told.changes.clone_from(&said.changes);
                told.undo_of = said.undo_of;
                ask(&mut told, said);
            }
            Kind::Undo => told.undone_by = said.undone_by,
            Kind::Late | Kind::Erase => {}
        }
    }
    Some(Told { action: told, output_in, fault: None })
}

/// What an entry says of the call itself, if it is one that does.
fn ask(told: &mut ActionRow, said: Payload) {
    if let (Some(tool), Some(effect)) = (said.tool, said.effect) {
        (told.tool, told.effect, told.input) = (tool, effect, said.input);
        (told.thread, told.run, told.step) = (said.thread, said.run, said.step);
    }
}

/// Which parts of an action are not as told. Of an erased one, what was said must be gone and the rest is not known.
fn differences(action: &ActionRow, told: &ActionRow, erased: bool) -> Vec<&'static str> {
    let placed = [
        ("scope", action.scope == told.scope),
        ("position", action.position == told.position),
        ("started_at", action.started_at == told.started_at),
    ];
    let gone = action.input.is_null() && action.output.is_null() && action.changes.is_empty();
    let said = [
        ("thread", action.thread == told.thread),
        ("run", action.run == told.run),
        ("step", action.step == told.step),
        ("tool", action.tool == told.tool),
        ("effect", action.effect == told.effect),
        ("status", action.status == told.status),
        ("input", action.input == told.input),
        ("output", action.output == told.output),
        ("changes", action.changes == told.changes),
        ("duration_ms", action.duration_ms == told.duration_ms),
        ("undone_by", action.undone_by == told.undone_by),
        ("undo_of", action.undo_of == told.undo_of),
    ];
    let parts: Vec<(&str, bool)> = if erased {
        placed.into_iter().chain([("what was erased", gone)]).collect()
    } else {
        placed.into_iter().chain(said).collect()
    };
    parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect()
}

/// Whether the columns that hold JSON hold it as it was written: what cannot be read there would pass for nothing.
fn as_written(conn: &Connection, Told { action: told, output_in, .. }: &Told) -> Result<bool, Error> {
    let mut find = conn.prepare_cached("SELECT input, output, changes FROM actions WHERE id = ?1")?;
    let written: [Option<String>; 3] =
        find.query_row([told.id.bytes()], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    let output = if output_in.is_none() { actions::output(told) } else { None };
    Ok(written == [Some(protocol::canonical(&told.input)), output, actions::changes(told)?])
}

fn name(scope: &Scope) -> String {
    format!("{}/{}", scope.app.as_str(), scope.user.as_str())
}

fn found_row(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok(Found {
        scope: threads::scope(row, 0)?,
        entry: Entry {
            position: count(row, 2)?,
            action: row.get(3)?,
            // The schema knows no other kind, and if one were there its hash would not hold.
            kind: Kind::parse(&text(row, 4)?).unwrap_or(Kind::Late),
            at: row.get(5)?,
            digest: row.get(6)?,
        },
        hash: row.get(7)?,
        salt: row.get(8)?,
        payload: row.get(9)?,
    })
}
