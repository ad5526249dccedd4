//! Proposals: calls that wait for a yes. One of a run is closed by events of that run; one without outlives it.

use async_trait::async_trait;
use protocol::{
    ActionId, CallId, Decision, Event, Principal, ProposalClosed, ProposalId, ProposalOpen, RunId, Scope,
    ThreadId, ToolComplete, ToolStatus, canonical,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::append::Batch;
use super::read::{count, id, maybe_id, maybe_time, one_more, text, time};
use super::{Sqlite, once, read, threads};
use crate::{
    ActionRow, Error, MAX_OPEN_PROPOSALS, NewAction, NewProposal, Once, PageOf, PageRows, ProposalRow,
    Proposals, TimeCursor,
};

const COLUMNS: &str =
    "p.id, p.app, p.user, p.thread, p.run, p.call, p.tool, p.input, p.hash, p.note, p.status, p.action,
    p.expires_at, p.created_at, p.decided_at";

/// A proposal of a deleted thread is as if it were not there.
const SHOWN: &str = "NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = p.thread AND t.deleted_at IS NOT NULL)";

/// Proposals closed in one transaction because their time is over.
const MAX_EXPIRED: i64 = 100;

/// Open proposals of one run that are read. A step has no more calls.
const MAX_PER_RUN: i64 = 32;

#[async_trait]
impl Proposals for Sqlite {
    async fn proposals(
        &self,
        scope: &Scope,
        open: bool,
        page: PageOf<TimeCursor<ProposalId>>,
    ) -> Result<PageRows<ProposalRow>, Error> {
        let scope = scope.clone();
        self.readers.read(move |conn| list(conn, &scope, open, page)).await
    }

    async fn proposal(&self, principal: &Principal, proposal: ProposalId) -> Result<ProposalRow, Error> {
        let user = principal.user().clone();
        self.readers.read(move |conn| find(conn, proposal, user.as_str())).await
    }

    async fn proposal_of(&self, scope: &Scope, proposal: ProposalId) -> Result<ProposalRow, Error> {
        let scope = scope.clone();
        let of_scope = move |conn: &Connection| {
            let row = find(conn, proposal, scope.user.as_str())?;
            if row.scope == scope { Ok(row) } else { Err(Error::NotFound("proposal")) }
        };
        self.readers.read(of_scope).await
    }

    async fn proposals_of(&self, run: RunId) -> Result<Vec<ProposalRow>, Error> {
        self.readers.read(move |conn| open_of(conn, run)).await
    }

    async fn decide(
        &self,
        principal: &Principal,
        proposal: ProposalId,
        decision: Decision,
        once: Option<Once>,
    ) -> Result<ProposalRow, Error> {
        let user = principal.user().clone();
        let work =
            move |batch: &mut Batch<'_>| decide(batch, user.as_str(), proposal, decision, once.as_ref());
        self.writer.write(work).await?
    }
}

/// Decides, or says why not. A refusal may have closed the proposal, so it is a result of its own and is committed.
fn decide(
    batch: &mut Batch<'_>,
    user: &str,
    proposal: ProposalId,
    decision: Decision,
    once: Option<&Once>,
) -> Result<Result<ProposalRow, Error>, Error> {
    let row = find(batch.conn(), proposal, user)?;
    if once::earlier(batch, &row.scope, once)?.is_some() {
        return Ok(Ok(row));
    }
    if let Some(decided) = row.decision {
        return Ok(Err(Error::Decided(decided.name())));
    }
    if is_over(batch, &row) {
        // The run of one that has a run is told by `expire`, whose caller takes it up again.
        if row.run.is_none() {
            close(batch, &row, Decision::Expired)?;
        }
        return Ok(Err(Error::Decided(Decision::Expired.name())));
    }
    once::remember(batch, &row.scope, once, proposal.uuid())?;
    close(batch, &row, decision)?;
    find(batch.conn(), proposal, user).map(Ok)
}

/// Closes an open proposal. For one of a run this is an event, and the call's result unless it may run now.
fn close(batch: &mut Batch<'_>, row: &ProposalRow, decision: Decision) -> Result<(), Error> {
    let (Some(thread), Some(run), Some(call_id)) = (row.thread, row.run, row.call) else {
        set(batch, row.id, decision, None)?;
        return Ok(());
    };
    let closed = ProposalClosed { proposal_id: row.id, call_id, decision };
    batch.record(thread, Some(run), &Event::ProposalClosed(closed))?;
    if let Some(message) = denial(decision) {
        let result = ToolComplete {
            call_id,
            name: row.tool.clone(),
            status: ToolStatus::Denied,
            output: json!({ "error": decision.name(), "message": message }),
            duration_ms: 0,
            outside: false,
            suspicious: false,
        };
        batch.record(thread, Some(run), &Event::ToolComplete(result))?;
    }
    Ok(())
}

/// What the model is told of a call that may not run.
fn denial(decision: Decision) -> Option<&'static str> {
    match decision {
        Decision::Confirmed => None,
        Decision::Rejected => Some("the user said no"),
        Decision::Expired => Some("the user gave no answer in time"),
        Decision::Superseded => Some("the user went on without giving an answer"),
        Decision::Withdrawn => Some("the call was withdrawn"),
    }
}

/// Closes all open proposals of a run because a new message has come. False when there were none.
pub(super) fn supersede(batch: &mut Batch<'_>, run: RunId) -> Result<bool, Error> {
    let open = open_of(batch.conn(), run)?;
    for row in &open {
        close(batch, row, Decision::Superseded)?;
    }
    Ok(!open.is_empty())
}

/// Closes proposals whose time is over. Gives the threads whose runs wait for nothing any more.
pub(super) fn expire(batch: &mut Batch<'_>) -> Result<Vec<ThreadId>, Error> {
    let over: Vec<ProposalRow> = batch
        .conn()
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM proposals p WHERE p.status = 'open' AND p.expires_at <= ?1
                ORDER BY p.expires_at, p.id LIMIT ?2"
        ))?
        .query_map([batch.at(), MAX_EXPIRED], proposal_row)?
        .collect::<Result<_, _>>()?;
    let mut threads = Vec::new();
    for row in &over {
        close(batch, row, Decision::Expired)?;
        if let (Some(thread), Some(run)) = (row.thread, row.run)
            && open_of(batch.conn(), run)?.is_empty()
        {
            threads.push(thread);
        }
    }
    Ok(threads)
}

pub(super) fn next_expiry(conn: &Connection) -> Result<Option<jiff::Timestamp>, Error> {
    let mut find = conn.prepare_cached("SELECT min(expires_at) FROM proposals WHERE status = 'open'")?;
    Ok(find.query_row([], |row| maybe_time(row, 0))?)
}

/// `proposal:open`: the run waits from here on.
pub(super) fn opened(
    batch: &Batch<'_>,
    thread: ThreadId,
    run: RunId,
    open: &ProposalOpen,
) -> Result<(), Error> {
    let ProposalOpen { proposal_id, call_id, name, input, expires_at } = open;
    let scope = batch
        .conn()
        .prepare_cached("SELECT app, user FROM runs WHERE id = ?1")?
        .query_row([run.bytes()], |row| threads::scope(row, 0))
        .optional()?
        .ok_or(Error::NotFound("run"))?;
    let new = NewProposal {
        id: *proposal_id,
        tool: name.clone(),
        input: input.clone(),
        note: None,
        expires_at: *expires_at,
    };
    insert(batch, &scope, Some(thread), Some((run, *call_id)), &new)?;
    batch
        .conn()
        .prepare_cached("UPDATE runs SET status = 'waiting' WHERE id = ?1 AND status = 'running'")?
        .execute([run.bytes()])?;
    Ok(())
}

/// `proposal:closed`: the run goes on once it waits for nothing.
pub(super) fn closed(batch: &Batch<'_>, run: RunId, closed: &ProposalClosed) -> Result<(), Error> {
    let action = (closed.decision == Decision::Confirmed).then(|| ActionId::from(closed.call_id));
    set(batch, closed.proposal_id, closed.decision, action)?;
    batch
        .conn()
        .prepare_cached(
            "UPDATE runs SET status = 'running' WHERE id = ?1 AND status = 'waiting'
                AND NOT EXISTS (SELECT 1 FROM proposals WHERE run = ?1 AND status = 'open')",
        )?
        .execute([run.bytes()])?;
    Ok(())
}

/// Whether a `proposal:closed` of the run comes after another decision, which stays.
pub(super) fn is_closed(batch: &Batch<'_>, closed: &ProposalClosed) -> Result<bool, Error> {
    let mut find =
        batch.conn().prepare_cached("SELECT 1 FROM proposals WHERE id = ?1 AND status = 'open'")?;
    Ok(!find.exists([closed.proposal_id.bytes()])?)
}

/// `run:end`: nothing waits for an ended run.
pub(super) fn run_ended(batch: &Batch<'_>, run: RunId) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached(
            "UPDATE proposals SET status = 'superseded', decided_at = ?2 WHERE run = ?1 AND status = 'open'",
        )?
        .execute(params![run.bytes(), batch.at()])?;
    Ok(())
}

/// Confirms a proposal that no run waits for, as the action that does what was shown. Gives its thread.
pub(super) fn confirm(
    batch: &Batch<'_>,
    scope: &Scope,
    proposal: ProposalId,
    action: &NewAction,
) -> Result<Option<ThreadId>, Error> {
    let row = find(batch.conn(), proposal, scope.user.as_str())?;
    if row.scope != *scope || row.call.is_some() {
        return Err(Error::NotFound("proposal"));
    }
    match row.decision {
        None if is_over(batch, &row) => return Err(Error::Decided(Decision::Expired.name())),
        None => {}
        // A yes that was given before anything was begun still stands.
        Some(Decision::Confirmed) if row.action.is_none() => {}
        Some(decided) => return Err(Error::Decided(decided.name())),
    }
    if hash(&action.tool, &action.input) != row.hash {
        return Err(Error::Changed("the proposal has changed meanwhile".into()));
    }
    set(batch, proposal, Decision::Confirmed, Some(action.id))?;
    Ok(row.thread)
}

/// A call proposes another that outlives its run.
pub(super) fn propose(batch: &Batch<'_>, by: &ActionRow, new: &NewProposal) -> Result<(), Error> {
    let open = batch
        .conn()
        .prepare_cached(
            "SELECT count(*) FROM proposals WHERE app = ?1 AND user = ?2 AND status = 'open' AND run IS NULL",
        )?
        .query_row([by.scope.app.as_str(), by.scope.user.as_str()], |row| count(row, 0))?;
    if open >= MAX_OPEN_PROPOSALS as u64 {
        let words = format!("{MAX_OPEN_PROPOSALS} proposals are open already; wait until some are decided");
        return Err(Error::Changed(words));
    }
    insert(batch, &by.scope, by.thread, None, new)
}

pub(super) fn reword(
    batch: &Batch<'_>,
    scope: &Scope,
    proposal: ProposalId,
    input: Option<&Value>,
    note: Option<&str>,
) -> Result<(), Error> {
    let row = still_open(batch, scope, proposal)?;
    let input = input.unwrap_or(&row.input);
    batch
        .conn()
        .prepare_cached(
            "UPDATE proposals SET input = ?2, hash = ?3, note = coalesce(?4, note) WHERE id = ?1",
        )?
        .execute(params![proposal.bytes(), input.to_string(), hash(&row.tool, input), note])?;
    Ok(())
}

pub(super) fn withdraw(batch: &Batch<'_>, scope: &Scope, proposal: ProposalId) -> Result<(), Error> {
    still_open(batch, scope, proposal)?;
    set(batch, proposal, Decision::Withdrawn, None)
}

/// A proposal that whoever made it can still change.
fn still_open(batch: &Batch<'_>, scope: &Scope, proposal: ProposalId) -> Result<ProposalRow, Error> {
    let found = find(batch.conn(), proposal, scope.user.as_str());
    let row = match found {
        Ok(row) if row.scope == *scope && row.call.is_none() => row,
        Ok(_) | Err(Error::NotFound(_)) => return Err(Error::Changed("there is no such proposal".into())),
        Err(error) => return Err(error),
    };
    let decided = if is_over(batch, &row) { Some(Decision::Expired) } else { row.decision };
    match decided {
        None => Ok(row),
        Some(decided) => Err(Error::Changed(format!("the proposal is {}", decided.name()))),
    }
}

fn is_over(batch: &Batch<'_>, row: &ProposalRow) -> bool {
    row.decision.is_none() && row.expires_at.as_millisecond() <= batch.at()
}

fn set(
    batch: &Batch<'_>,
    proposal: ProposalId,
    decision: Decision,
    action: Option<ActionId>,
) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached(
            "UPDATE proposals SET status = ?2, decided_at = coalesce(decided_at, ?3), action = ?4 WHERE id = ?1",
        )?
        .execute(params![
            proposal.bytes(),
            decision.name(),
            batch.at(),
            action.as_ref().map(ActionId::bytes)
        ])?;
    Ok(())
}

fn insert(
    batch: &Batch<'_>,
    scope: &Scope,
    thread: Option<ThreadId>,
    waiting: Option<(RunId, CallId)>,
    new: &NewProposal,
) -> Result<(), Error> {
    let (run, call) = waiting.unzip();
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO proposals (id, app, user, thread, run, call, tool, input, hash, note, status, expires_at, created_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'open', ?11, ?12)",
        )?
        .execute(params![
            new.id.bytes(),
            scope.app.as_str(),
            scope.user.as_str(),
            thread.as_ref().map(ThreadId::bytes),
            run.as_ref().map(RunId::bytes),
            call.as_ref().map(CallId::bytes),
            new.tool,
            new.input.to_string(),
            hash(&new.tool, &new.input),
            new.note,
            new.expires_at.as_millisecond(),
            batch.at()
        ])?;
    Ok(())
}

/// Of `[tool, input]` in its one spelling.
fn hash(tool: &str, input: &Value) -> [u8; 32] {
    Sha256::digest(canonical(&json!([tool, input]))).into()
}

fn find(conn: &Connection, proposal: ProposalId, user: &str) -> Result<ProposalRow, Error> {
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM proposals p WHERE p.id = ?1 AND p.user = ?2 AND {SHOWN}"
    ))?
    .query_row(params![proposal.bytes(), user], proposal_row)
    .optional()?
    .ok_or(Error::NotFound("proposal"))
}

fn open_of(conn: &Connection, run: RunId) -> Result<Vec<ProposalRow>, Error> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM proposals p WHERE p.run = ?1 AND p.status = 'open' ORDER BY p.created_at, p.id LIMIT ?2"
    ))?;
    let rows = find.query_map(params![run.bytes(), MAX_PER_RUN], proposal_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn list(
    conn: &Connection,
    scope: &Scope,
    open: bool,
    page: PageOf<TimeCursor<ProposalId>>,
) -> Result<PageRows<ProposalRow>, Error> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM proposals p WHERE p.app = ?1 AND p.user = ?2 AND (NOT ?3 OR p.status = 'open') AND {SHOWN}
            AND (p.created_at, p.id) < (?4, ?5) ORDER BY p.created_at DESC, p.id DESC LIMIT ?6"
    ))?;
    let (at, last) = match page.after {
        Some(cursor) => (cursor.at.as_millisecond(), cursor.id.bytes().to_vec()),
        None => (i64::MAX, vec![0xff; 16]),
    };
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let rows = find.query(params![app, user, open, at, last, one_more(page.limit)])?;
    read::page(rows, page.limit, proposal_row)
}

fn proposal_row(row: &Row<'_>) -> rusqlite::Result<ProposalRow> {
    let status = text(row, 10)?;
    Ok(ProposalRow {
        id: id(row, 0)?,
        scope: threads::scope(row, 1)?,
        thread: maybe_id(row, 3)?,
        run: maybe_id(row, 4)?,
        call: maybe_id(row, 5)?,
        tool: text(row, 6)?,
        input: serde_json::from_str(&text(row, 7)?).unwrap_or_default(),
        hash: row.get(8)?,
        note: row.get(9)?,
        decision: Decision::ALL.into_iter().find(|decision| decision.name() == status),
        action: maybe_id(row, 11)?,
        expires_at: time(row, 12)?,
        created_at: time(row, 13)?,
        decided_at: maybe_time(row, 14)?,
    })
}
