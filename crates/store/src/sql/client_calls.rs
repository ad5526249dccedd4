//! Calls that the client makes. `call:open` inserts one, and the result of the call closes it, wherever that comes from.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{
    CallId, CallOpen, ClientCallStatus, Effect, Event, Principal, RunId, Scope, ThreadId, ToolComplete,
    ToolStart,
};

use super::action_rows::json;
use super::append::Batch;
use super::read::{
    find_all, find_first, find_page, id, maybe_time, one_more, page_start, scope_at, text, time,
};
use super::{RowsOf, SqlStore, actions, idempotency, waiting_calls};
use crate::rules::client_calls::{check_answerable, closed_as, result_of_answer, result_without_answer};
use crate::rules::notices::NoticedChange;
use crate::{CallAnswer, ClientCallRow, Error, IdempotencyClaim, PageOf, PageRows, TimeCursor};

const COLUMNS: &str =
    "c.id, c.app, c.user, c.thread, c.run, a.tool, a.input, a.effect, c.status, c.expires_at,
    c.created_at, c.answered_at";

/// A call with its action, which has the tool and the arguments.
const WITH_ACTION: &str = "client_calls c CROSS JOIN actions a ON a.id = c.id";

/// A call of a deleted thread is as if it were not there.
const SHOWN: &str = "NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = c.thread AND t.deleted_at IS NOT NULL)";

/// Calls closed in one transaction because their time is over.
const MAX_EXPIRED: i64 = 100;

/// Open calls of one run that are read. A step has no more calls.
const MAX_PER_RUN: i64 = 32;

impl SqlStore {
    pub(crate) async fn client_calls(
        &self,
        scope: &Scope,
        open: bool,
        page: PageOf<TimeCursor<CallId>>,
    ) -> Result<PageRows<ClientCallRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope, open, page)).await
    }

    pub(crate) async fn client_call(
        &self,
        principal: &Principal,
        call: CallId,
    ) -> Result<ClientCallRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_for(rows, move |conn| find(conn, call, user.as_str())).await
    }

    pub(crate) async fn client_calls_of(&self, run: RunId) -> Result<Vec<ClientCallRow>, Error> {
        self.readers.read(move |conn| open_of(conn, run)).await
    }

    pub(crate) async fn answer_call(
        &self,
        principal: &Principal,
        call: CallId,
        answer: CallAnswer,
        once: Option<IdempotencyClaim>,
    ) -> Result<ClientCallRow, Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        let work = move |batch: &mut Batch<'_>| record_answer(batch, &principal, call, answer, once.as_ref());
        self.writer.write_for(rows, work).await
    }
}

fn record_answer(
    batch: &mut Batch<'_>,
    principal: &Principal,
    call: CallId,
    answer: CallAnswer,
    once: Option<&IdempotencyClaim>,
) -> Result<ClientCallRow, Error> {
    let user = principal.user().as_str();
    let row = find(batch.conn(), call, user)?;
    if idempotency::earlier_target(batch, &row.scope, once)?.is_some() {
        return Ok(row);
    }
    check_answerable(&row, batch.at())?;
    idempotency::remember(batch, &row.scope, once, call.uuid())?;
    let by = principal.actor().map(|_| principal.name());
    let result = result_of_answer(&row, answer, by, batch.at());
    batch.record(row.thread, Some(row.run), &Event::ToolComplete(result))?;
    find(batch.conn(), call, user)
}

/// Closes all open calls of a run because a new message has come. False when there were none.
pub(super) fn supersede(batch: &mut Batch<'_>, run: RunId) -> Result<bool, Error> {
    let open = open_of(batch.conn(), run)?;
    open.iter().try_for_each(|row| close(batch, row, ClientCallStatus::Superseded))?;
    Ok(!open.is_empty())
}

/// Closes calls whose time is over. Gives the runs that waited for them, with their threads.
pub(super) fn expire(batch: &mut Batch<'_>) -> Result<Vec<(ThreadId, RunId)>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM {WITH_ACTION} WHERE c.status = 'open' AND c.expires_at <= ?1
                ORDER BY c.expires_at, c.id LIMIT ?2"
    );
    let over: Vec<ClientCallRow> = find_all(batch.conn(), &statement, [batch.at(), MAX_EXPIRED], call_row)?;
    over.iter().try_for_each(|row| close(batch, row, ClientCallStatus::Expired))?;
    Ok(over.into_iter().map(|row| (row.thread, row.run)).collect())
}

/// Gives a call the result that it got none.
fn close(batch: &mut Batch<'_>, row: &ClientCallRow, why: ClientCallStatus) -> Result<(), Error> {
    let result = Event::ToolComplete(result_without_answer(row, why));
    batch.record(row.thread, Some(row.run), &result).map(drop)
}

/// `call:open`: the intent of the call, for which the run waits from here on.
pub(super) fn add_opened(
    batch: &Batch<'_>,
    thread: ThreadId,
    run: RunId,
    open: &CallOpen,
) -> Result<(), Error> {
    let CallOpen { call_id, name, input, effect, expires_at } = open.clone();
    actions::start_call(batch, run, &ToolStart { call_id, name, input, effect, marker: None })?;
    let statement = "INSERT INTO client_calls (id, app, user, thread, run, status, expires_at, created_at)
                SELECT ?1, app, user, ?3, id, 'open', ?4, ?5 FROM runs WHERE id = ?2";
    let values =
        params![call_id.bytes(), run.bytes(), thread.bytes(), expires_at.as_millisecond(), batch.at()];
    batch.execute(statement, values)?;
    batch.adds_work(); // it expires
    batch.notice(NoticedChange::Call(call_id));
    waiting_calls::wait(batch, run)
}

/// `tool:complete`: if the client was to make the call, the run continues once it waits for nothing.
pub(super) fn close_with_result(batch: &Batch<'_>, run: RunId, result: &ToolComplete) -> Result<(), Error> {
    let statement = "UPDATE client_calls SET status = ?2, answered_at = ?3 WHERE id = ?1 AND status = 'open'";
    let values = params![result.call_id.bytes(), closed_as(result).name(), batch.at()];
    if batch.count_changed(statement, values)? == 0 {
        return Ok(());
    }
    batch.notice(NoticedChange::Call(result.call_id));
    waiting_calls::continue_run(batch, run)
}

fn find(conn: &SqlConnection, call: CallId, user: &str) -> Result<ClientCallRow, Error> {
    let statement =
        format!("SELECT {COLUMNS} FROM {WITH_ACTION} WHERE c.id = ?1 AND c.user = ?2 AND {SHOWN}");
    find_first(conn, &statement, params![call.bytes(), user], call_row)?.ok_or(Error::NotFound("call"))
}

fn open_of(conn: &SqlConnection, run: RunId) -> Result<Vec<ClientCallRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM {WITH_ACTION} WHERE c.run = ?1 AND c.status = 'open' ORDER BY c.created_at, c.id LIMIT ?2"
    );
    find_all(conn, &statement, params![run.bytes(), MAX_PER_RUN], call_row)
}

fn list(
    conn: &SqlConnection,
    scope: &Scope,
    open: bool,
    page: PageOf<TimeCursor<CallId>>,
) -> Result<PageRows<ClientCallRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM {WITH_ACTION} WHERE c.app = ?1 AND c.user = ?2 AND (?3 = 0 OR c.status = 'open') AND {SHOWN}
            AND (c.created_at, c.id) < (?4, ?5) ORDER BY c.created_at DESC, c.id DESC LIMIT ?6"
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let key = params![app, user, open, at, last, one_more(page.limit)];
    find_page(conn, &statement, key, page.limit, call_row)
}

fn call_row(row: &SqlRow<'_>) -> Result<ClientCallRow, Error> {
    Ok(ClientCallRow {
        id: id(row, 0)?,
        scope: scope_at(row, 1)?,
        thread: id(row, 3)?,
        run: id(row, 4)?,
        tool: text(row, 5)?,
        input: json(row, 6)?.unwrap_or_default(),
        // An effect that cannot be read is best not repeated.
        effect: Effect::parse(&text(row, 7)?).unwrap_or(Effect::Irreversible),
        // The schema knows no other status. No run waits for a call whose status cannot be read.
        status: ClientCallStatus::parse(&text(row, 8)?).unwrap_or(ClientCallStatus::Cancelled),
        expires_at: time(row, 9)?,
        created_at: time(row, 10)?,
        answered_at: maybe_time(row, 11)?,
    })
}
