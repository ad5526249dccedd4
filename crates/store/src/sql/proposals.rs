//! Proposals: calls that wait for a decision. Events of a run close its own proposals; a proposal without a run
//! outlives the run that made it.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{
    ActionId, CallId, Decision, Principal, ProposalClosed, ProposalId, ProposalOpen, RunId, Scope, ThreadId,
};
use serde_json::Value;

use super::append::Batch;
use super::read::{
    count, find_all, find_first, find_only, find_page, has_any, id, maybe_id, maybe_time, one_more,
    page_start, scope_at, text, time,
};
use super::{RowsOf, SqlStore, idempotency, waiting_calls};
use crate::rules::notices::NoticedChange;
use crate::rules::proposals::{
    DECISION_AT_RUN_END, DecisionRuling, ProposalClosing, call_hash, changeable_proposal, check_confirmable,
    check_room, closing_events, new_proposal, rule_on_decision,
};
use crate::{
    ActionRow, Error, IdempotencyClaim, NewAction, NewProposal, PageOf, PageRows, ProposalRow, TimeCursor,
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

impl SqlStore {
    pub(crate) async fn proposals(
        &self,
        scope: &Scope,
        open: bool,
        page: PageOf<TimeCursor<ProposalId>>,
    ) -> Result<PageRows<ProposalRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope, open, page)).await
    }

    pub(crate) async fn proposal(
        &self,
        principal: &Principal,
        proposal: ProposalId,
    ) -> Result<ProposalRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_for(rows, move |conn| find(conn, proposal, user.as_str())).await
    }

    pub(crate) async fn proposal_of(
        &self,
        scope: &Scope,
        proposal: ProposalId,
    ) -> Result<ProposalRow, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        let of_scope = move |conn: &SqlConnection| {
            let row = find(conn, proposal, scope.user.as_str())?;
            if row.scope == scope { Ok(row) } else { Err(Error::NotFound("proposal")) }
        };
        self.readers.read_for(rows, of_scope).await
    }

    pub(crate) async fn proposals_of(&self, run: RunId) -> Result<Vec<ProposalRow>, Error> {
        self.readers.read(move |conn| open_of(conn, run)).await
    }

    pub(crate) async fn decide(
        &self,
        principal: &Principal,
        proposal: ProposalId,
        decision: Decision,
        once: Option<IdempotencyClaim>,
    ) -> Result<ProposalRow, Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        let work = move |batch: &mut Batch<'_>| decide(batch, &principal, proposal, decision, once.as_ref());
        match self.writer.write_for(rows, work).await? {
            DecisionAnswer::Decided(row) => Ok(*row),
            DecisionAnswer::Refused(error) => Err(error),
        }
    }
}

/// A decision that was committed, or the refusal of one: that may have closed the proposal, so it is committed, too.
enum DecisionAnswer {
    Decided(Box<ProposalRow>),
    Refused(Error),
}

fn decide(
    batch: &mut Batch<'_>,
    principal: &Principal,
    proposal: ProposalId,
    decision: Decision,
    once: Option<&IdempotencyClaim>,
) -> Result<DecisionAnswer, Error> {
    let user = principal.user().as_str();
    let row = find(batch.conn(), proposal, user)?;
    if idempotency::earlier_target(batch, &row.scope, once)?.is_some() {
        return Ok(DecisionAnswer::Decided(Box::new(row)));
    }
    match rule_on_decision(&row, batch.at()) {
        DecisionRuling::Accept => {}
        DecisionRuling::Decided(decided) => {
            return Ok(DecisionAnswer::Refused(Error::Decided(decided)));
        }
        DecisionRuling::Expired { close: closes } => {
            if closes {
                close(batch, &row, Decision::Expired, None)?;
            }
            return Ok(DecisionAnswer::Refused(Error::Decided(Decision::Expired)));
        }
    }
    idempotency::remember(batch, &row.scope, once, proposal.uuid())?;
    let by = principal.actor().map(|_| principal.name());
    close(batch, &row, decision, by.as_deref())?;
    find(batch.conn(), proposal, user).map(|row| DecisionAnswer::Decided(Box::new(row)))
}

/// Closes an open proposal. For one of a run this is an event, and the call's result unless it may run now.
fn close(
    batch: &mut Batch<'_>,
    row: &ProposalRow,
    decision: Decision,
    by: Option<&str>,
) -> Result<(), Error> {
    let Some(ProposalClosing { thread, run, events }) = closing_events(row, decision, by) else {
        return set(batch, row.id, decision, None);
    };
    events.iter().try_for_each(|event| batch.record(thread, Some(run), event).map(drop))
}

/// Closes all open proposals of a run because a new message has come. False when there were none.
pub(super) fn supersede(batch: &mut Batch<'_>, run: RunId) -> Result<bool, Error> {
    let open = open_of(batch.conn(), run)?;
    for row in &open {
        close(batch, row, Decision::Superseded, None)?;
    }
    Ok(!open.is_empty())
}

/// Closes proposals whose time is over. Gives the runs that waited for them, with their threads.
pub(super) fn expire(batch: &mut Batch<'_>) -> Result<Vec<(ThreadId, RunId)>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM proposals p WHERE p.status = 'open' AND p.expires_at <= ?1
                ORDER BY p.expires_at, p.id LIMIT ?2"
    );
    let over: Vec<ProposalRow> = find_all(batch.conn(), &statement, [batch.at(), MAX_EXPIRED], proposal_row)?;
    over.iter().try_for_each(|row| close(batch, row, Decision::Expired, None))?;
    Ok(over.into_iter().filter_map(|row| row.thread.zip(row.run)).collect())
}

/// `proposal:open`: the run waits from here on.
pub(super) fn add_opened(
    batch: &Batch<'_>,
    thread: ThreadId,
    run: RunId,
    open: &ProposalOpen,
) -> Result<(), Error> {
    let statement = "SELECT app, user FROM runs WHERE id = ?1";
    let scope = find_first(batch.conn(), statement, [run.bytes()], |row| scope_at(row, 0))?
        .ok_or(Error::NotFound("run"))?;
    insert(batch, &scope, Some(thread), Some((run, open.call_id)), &new_proposal(open))?;
    waiting_calls::wait(batch, run)
}

/// `proposal:closed`: the run continues once it waits for nothing.
pub(super) fn note_closed(batch: &Batch<'_>, run: RunId, closed: &ProposalClosed) -> Result<(), Error> {
    let action = (closed.decision == Decision::Confirmed).then(|| ActionId::from(closed.call_id));
    set(batch, closed.proposal_id, closed.decision, action)?;
    waiting_calls::continue_run(batch, run)
}

/// Whether a `proposal:closed` of the run comes after another decision, which stays.
pub(super) fn is_closed(batch: &Batch<'_>, closed: &ProposalClosed) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM proposals WHERE id = ?1 AND status = 'open'";
    Ok(!has_any(batch.conn(), statement, [closed.proposal_id.bytes()])?)
}

/// `run:end`: nothing waits for an ended run.
pub(super) fn run_ended(batch: &Batch<'_>, run: RunId) -> Result<(), Error> {
    let statement =
        "UPDATE proposals SET status = ?3, decided_at = ?2 WHERE run = ?1 AND status = 'open' RETURNING id";
    let key = params![run.bytes(), batch.at(), DECISION_AT_RUN_END.name()];
    let closed = find_all(batch.conn(), statement, key, |row| id(row, 0))?;
    closed.into_iter().for_each(|proposal| batch.notice(NoticedChange::Proposal(proposal)));
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
    check_confirmable(&row, scope, action, batch.at())?;
    set(batch, proposal, Decision::Confirmed, Some(action.id))?;
    Ok(row.thread)
}

/// A call proposes another that outlives its run.
pub(super) fn propose(batch: &Batch<'_>, by: &ActionRow, new: &NewProposal) -> Result<(), Error> {
    let statement =
        "SELECT count(*) FROM proposals WHERE app = ?1 AND user = ?2 AND status = 'open' AND run IS NULL";
    let open = find_only(batch.conn(), statement, [by.scope.app.as_str(), by.scope.user.as_str()], |row| {
        count(row, 0)
    })?;
    check_room(open)?;
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
    batch.notice(NoticedChange::Proposal(proposal));
    let statement = "UPDATE proposals SET input = ?2, hash = ?3, note = coalesce(?4, note) WHERE id = ?1";
    batch.execute(statement, params![proposal.bytes(), input.to_string(), call_hash(&row.tool, input), note])
}

pub(super) fn withdraw(batch: &Batch<'_>, scope: &Scope, proposal: ProposalId) -> Result<(), Error> {
    still_open(batch, scope, proposal)?;
    set(batch, proposal, Decision::Withdrawn, None)
}

/// A proposal that the tool that made it can still change.
fn still_open(batch: &Batch<'_>, scope: &Scope, proposal: ProposalId) -> Result<ProposalRow, Error> {
    let row = match find(batch.conn(), proposal, scope.user.as_str()) {
        Err(Error::NotFound(_)) => None,
        found => Some(found?),
    };
    changeable_proposal(row, scope, batch.at())
}

fn set(
    batch: &Batch<'_>,
    proposal: ProposalId,
    decision: Decision,
    action: Option<ActionId>,
) -> Result<(), Error> {
    batch.notice(NoticedChange::Proposal(proposal));
    let statement =
        "UPDATE proposals SET status = ?2, decided_at = coalesce(decided_at, ?3), action = ?4 WHERE id = ?1";
    batch.execute(
        statement,
        params![proposal.bytes(), decision.name(), batch.at(), action.as_ref().map(ActionId::bytes)],
    )
}

fn insert(
    batch: &Batch<'_>,
    scope: &Scope,
    thread: Option<ThreadId>,
    waiting: Option<(RunId, CallId)>,
    new: &NewProposal,
) -> Result<(), Error> {
    batch.notice(NoticedChange::Proposal(new.id));
    batch.adds_work(); // it expires
    let (run, call) = waiting.unzip();
    let statement = "INSERT INTO proposals (id, app, user, thread, run, call, tool, input, hash, note, status, expires_at, created_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'open', ?11, ?12)";
    batch.execute(
        statement,
        params![
            new.id.bytes(),
            scope.app.as_str(),
            scope.user.as_str(),
            thread.as_ref().map(ThreadId::bytes),
            run.as_ref().map(RunId::bytes),
            call.as_ref().map(CallId::bytes),
            new.tool,
            new.input.to_string(),
            call_hash(&new.tool, &new.input),
            new.note,
            new.expires_at.as_millisecond(),
            batch.at()
        ],
    )
}

fn find(conn: &SqlConnection, proposal: ProposalId, user: &str) -> Result<ProposalRow, Error> {
    let statement = format!("SELECT {COLUMNS} FROM proposals p WHERE p.id = ?1 AND p.user = ?2 AND {SHOWN}");
    find_first(conn, &statement, params![proposal.bytes(), user], proposal_row)?
        .ok_or(Error::NotFound("proposal"))
}

fn open_of(conn: &SqlConnection, run: RunId) -> Result<Vec<ProposalRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM proposals p WHERE p.run = ?1 AND p.status = 'open' ORDER BY p.created_at, p.id LIMIT ?2"
    );
    find_all(conn, &statement, params![run.bytes(), MAX_PER_RUN], proposal_row)
}

fn list(
    conn: &SqlConnection,
    scope: &Scope,
    open: bool,
    page: PageOf<TimeCursor<ProposalId>>,
) -> Result<PageRows<ProposalRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM proposals p WHERE p.app = ?1 AND p.user = ?2 AND (?3 = 0 OR p.status = 'open') AND {SHOWN}
            AND (p.created_at, p.id) < (?4, ?5) ORDER BY p.created_at DESC, p.id DESC LIMIT ?6"
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let key = params![app, user, open, at, last, one_more(page.limit)];
    find_page(conn, &statement, key, page.limit, proposal_row)
}

fn proposal_row(row: &SqlRow<'_>) -> Result<ProposalRow, Error> {
    Ok(ProposalRow {
        id: id(row, 0)?,
        scope: scope_at(row, 1)?,
        thread: maybe_id(row, 3)?,
        run: maybe_id(row, 4)?,
        call: maybe_id(row, 5)?,
        tool: text(row, 6)?,
        input: serde_json::from_str(&text(row, 7)?).unwrap_or_default(),
        hash: row.get(8)?,
        note: row.get(9)?,
        decision: Decision::parse(&text(row, 10)?),
        action: maybe_id(row, 11)?,
        expires_at: time(row, 12)?,
        created_at: time(row, 13)?,
        decided_at: maybe_time(row, 14)?,
    })
}
