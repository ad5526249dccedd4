//! Goes through the ledger: every chain is computed again, and every action compared with what its entries say.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::Scope;

use super::read::{count, find_all, find_first, find_only, has_any, scope_at, sql, text};
use super::{action_rows, ledger};
use crate::rules::actions::{output_in, stored_changes, stored_output};
use crate::rules::ledger::{
    FoldedAction, LedgerEntry, LedgerHead, LedgerRow, differences, entry_faults, fold, payload_digest,
};
use crate::{Error, LedgerKind, Verified};

/// Rows looked at before the connection is given back.
const PAGE: i64 = 256;

/// Looks through the ledger.
pub(super) fn verify_on(conn: &SqlConnection) -> Result<Verified, Error> {
    let mut check = Check::default();
    while !check.is_done() {
        check = check.next(conn)?;
    }
    Ok(check.report())
}

/// A check under way: how far it has come, and what it has found.
#[derive(Default)]
pub(super) struct Check {
    found: Verified,
    part: CheckStage,
}

enum CheckStage {
    /// Between two chains; the scope of the last one.
    Between(Option<Scope>),
    Chain {
        scope: Scope,
        before: LedgerHead,
    },
    /// All chains are done. The last action that was looked at.
    Actions([u8; 16]),
    Done,
}

impl Default for CheckStage {
    fn default() -> Self {
        Self::Between(None)
    }
}

const ENTRY: &str = "l.app, l.user, l.position, l.action, l.kind, l.at, l.digest, l.hash, p.salt, p.payload
    FROM ledger l LEFT JOIN ledger_payloads p ON p.app = l.app AND p.user = l.user AND p.position = l.position";

impl Check {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.part, CheckStage::Done)
    }

    pub(super) fn report(self) -> Verified {
        self.found
    }

    /// Looks at the next page, all of it as it was at one moment.
    pub(super) fn next(mut self, conn: &SqlConnection) -> Result<Self, Error> {
        let _moment = conn.moment()?;
        self.part = match self.part {
            CheckStage::Between(last) => match scope_after(conn, last.as_ref())? {
                Some(scope) => {
                    self.found.scopes += 1;
                    CheckStage::Chain { before: LedgerHead::origin(&scope), scope }
                }
                None => CheckStage::Actions([0; 16]),
            },
            CheckStage::Chain { scope, before } => self.found.chain(conn, scope, before)?,
            CheckStage::Actions(last) => self.found.actions(conn, last)?,
            CheckStage::Done => CheckStage::Done,
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

    fn chain(
        &mut self,
        conn: &SqlConnection,
        scope: Scope,
        mut before: LedgerHead,
    ) -> Result<CheckStage, Error> {
        let last = before.position;
        let statement = format!(
            "SELECT {ENTRY} WHERE l.app = ?1 AND l.user = ?2 AND l.position > ?3 ORDER BY l.position LIMIT ?4"
        );
        let entries: Vec<LedgerRow> = find_all(
            conn,
            &statement,
            params![scope.app.as_str(), scope.user.as_str(), sql(last), PAGE],
            found_row,
        )?;
        if entries.is_empty() {
            if ledger::head(conn, &scope)? != Some(before) {
                self.fault(format!(
                    "{}: the head of the chain is not the last entry, which is {last}",
                    name(&scope)
                ));
            }
            return Ok(CheckStage::Between(Some(scope)));
        }
        for found in entries {
            self.entries += 1;
            let at = format!("{}: entry {}", name(&scope), found.entry.position);
            for fault in entry_faults(&before, &found) {
                self.fault(format!("{at} {fault}"));
            }
            if let Some(fault) = self.payload(conn, &found)? {
                self.fault(format!("{at} {fault}"));
            }
            before = LedgerHead { position: found.entry.position, hash: found.hash };
        }
        Ok(CheckStage::Chain { scope, before })
    }

    /// The fault of an entry's contents.
    fn payload(&mut self, conn: &SqlConnection, found: &LedgerRow) -> Result<Option<&'static str>, Error> {
        let entry = &found.entry;
        let statement = "SELECT 1 FROM actions WHERE id = ?1";
        let known = has_any(conn, statement, params![entry.action])?;
        if !known {
            return Ok(Some("names an action that does not exist"));
        }
        if let (Some(salt), Some(payload)) = (&found.salt, &found.payload) {
            let holds = payload_digest(salt, payload) == entry.digest;
            return Ok((!holds).then_some("does not match its digest"));
        }
        let statement = "SELECT 1 FROM ledger WHERE action = ?1 AND kind = 'erase' AND app = ?2 AND user = ?3 AND position > ?4";
        let erased = has_any(
            conn,
            statement,
            params![entry.action, found.scope.app.as_str(), found.scope.user.as_str(), sql(entry.position)],
        )?;
        self.erased += u64::from(erased);
        Ok((!erased).then_some("has lost its content, and no later entry records an erasure"))
    }

    fn actions(&mut self, conn: &SqlConnection, last: [u8; 16]) -> Result<CheckStage, Error> {
        let page = action_rows::actions_after(conn, last, PAGE)?;
        let Some(newest) = page.last() else { return Ok(CheckStage::Done) };
        let next = CheckStage::Actions(*newest.id.bytes());
        for action in page {
            let statement = format!("SELECT {ENTRY} WHERE l.action = ?1 ORDER BY l.position");
            let entries: Vec<LedgerRow> = find_all(conn, &statement, [action.id.bytes()], found_row)?;
            let at = format!("{}: the action {}", name(&action.scope), action.id);
            let Some(mut folded) = fold(&action, &entries) else {
                self.fault(format!("{at} is not in the ledger"));
                continue;
            };
            let erased = entries.iter().any(|found| found.entry.kind == LedgerKind::Erase);
            let output_fault = read_output(conn, &mut folded)?;
            let differing = differences(&action, &folded.action, erased);
            if let Some(fault) = output_fault {
                self.fault(format!("{at} {fault}"));
            } else if !differing.is_empty() {
                self.fault(format!("{at} differs from its entries in the ledger: {}", differing.join(", ")));
            } else if !erased && !as_written(conn, &folded)? {
                self.fault(format!("{at} is not stored as its entries in the ledger say"));
            }
        }
        Ok(next)
    }
}

/// The first scope after another that has entries or a head.
fn scope_after(conn: &SqlConnection, last: Option<&Scope>) -> Result<Option<Scope>, Error> {
    let last = last.map_or(("", ""), |scope| (scope.app.as_str(), scope.user.as_str()));
    let mut first: Option<Scope> = None;
    for table in ["ledger", "ledger_heads"] {
        let statement =
            format!("SELECT app, user FROM {table} WHERE (app, user) > (?1, ?2) ORDER BY app, user LIMIT 1");
        let found = find_first(conn, &statement, params![last.0, last.1], |row| scope_at(row, 0))?;
        let key = |scope: &Scope| (scope.app.as_str().to_owned(), scope.user.as_str().to_owned());
        first = first.into_iter().chain(found).min_by_key(key);
    }
    Ok(first)
}

/// Reads the output of an action from the event that holds it. Gives what is wrong with that event.
fn read_output(conn: &SqlConnection, folded: &mut FoldedAction) -> Result<Option<&'static str>, Error> {
    let (Some(place), Some(thread)) = (&folded.output_in, folded.action.thread) else { return Ok(None) };
    let statement = "SELECT body FROM events WHERE thread = ?1 AND seq = ?2 AND kind = 'tool:complete'";
    let body: Option<String> =
        find_first(conn, statement, params![thread.bytes(), sql(place.seq)], |row| text(row, 0))?;
    match body {
        None => Ok(Some("has lost the event with its result")),
        Some(body) if !place.holds(&body) => Ok(Some("has an event that does not match its digest")),
        Some(body) => {
            folded.action.output = output_in(&body);
            Ok(None)
        }
    }
}

/// Whether the columns that hold JSON hold it as it was written: what cannot be read there would pass for nothing.
fn as_written(
    conn: &SqlConnection,
    FoldedAction { action, output_in }: &FoldedAction,
) -> Result<bool, Error> {
    let statement = "SELECT input, output, changes FROM actions WHERE id = ?1";
    let written: [Option<String>; 3] =
        find_only(conn, statement, [action.id.bytes()], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    let output = if output_in.is_none() { stored_output(action) } else { None };
    Ok(written == [Some(protocol::canonical(&action.input)), output, stored_changes(action)?])
}

fn name(scope: &Scope) -> String {
    format!("{}/{}", scope.app.as_str(), scope.user.as_str())
}

fn found_row(row: &SqlRow<'_>) -> Result<LedgerRow, Error> {
    Ok(LedgerRow {
        scope: scope_at(row, 0)?,
        entry: LedgerEntry {
            position: count(row, 2)?,
            action: row.get(3)?,
            // The schema knows no other kind, and if one were there its hash would not hold.
            kind: LedgerKind::parse(&text(row, 4)?).unwrap_or(LedgerKind::Late),
            at: row.get(5)?,
            digest: row.get(6)?,
        },
        hash: row.get(7)?,
        salt: row.get(8)?,
        payload: row.get(9)?,
    })
}
