//! Usage of models: added up by day, app and model in the transaction of the call.

use crate::sql::{SqlConnection, SqlRow, params};
use jiff::Timestamp;
use jiff::tz::Offset;
use protocol::{Cost, Principal, RunId, Scope, Seq, Usage, UsageView, Used, UserLimits};

use super::append::Batch;
use super::events::IS_FACT;
use super::read::{count, find_all, find_first, find_only, scope_at, sql, text};
use super::{RowsOf, SqlStore, rate_limits};
use crate::{Error, MAX_USAGE_ROWS};

/// As [`read`] expects them.
pub(super) const COLUMNS: &str =
    "input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost, estimated";

impl SqlStore {
    pub(crate) async fn usage(
        &self,
        user: &Principal,
        from_day: String,
        to_day: String,
    ) -> Result<Vec<UsageView>, Error> {
        let user = user.user().clone();
        self.readers.read(move |conn| report(conn, user.as_str(), &from_day, &to_day)).await
    }

    pub(crate) async fn usage_of_day(&self, scope: &Scope, day: String) -> Result<Usage, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| of_day(conn, &scope, &day)).await
    }

    pub(crate) async fn used(&self, scope: &Scope, limits: UserLimits, at: Timestamp) -> Result<Used, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| rate_limits::read_use(conn, &scope, &limits, at)).await
    }
}

/// The day (UTC) under which usage of this moment counts, such as `2026-11-15`.
pub fn day(at: Timestamp) -> String {
    Offset::UTC.to_datetime(at).date().to_string()
}

/// A usage in the columns from `first` on.
pub(super) fn read(row: &SqlRow<'_>, first: usize) -> Result<Usage, Error> {
    Ok(Usage {
        input_tokens: count(row, first)?,
        output_tokens: count(row, first + 1)?,
        cached_input_tokens: count(row, first + 2)?,
        reasoning_tokens: count(row, first + 3)?,
        cost: Cost(count(row, first + 4)?),
        estimated: row.get(first + 5)?,
    })
}

/// Adds a model call of a run to the run and to its scope's day. `fallback` is the model that stood in for the run's own;
/// without one it is the model that the events before `seq` say was asked.
pub(super) fn of_run(
    batch: &Batch<'_>,
    (run, seq): (RunId, Seq),
    fallback: Option<&str>,
    used: Usage,
) -> Result<(), Error> {
    let statement = format!("SELECT app, user, model, {COLUMNS} FROM runs WHERE id = ?1");
    let (scope, model, mut total) = find_only(batch.conn(), &statement, [run.bytes()], |row| {
        Ok((scope_at(row, 0)?, text(row, 2)?, read(row, 3)?))
    })?;
    total += used;
    let statement =
        "UPDATE runs SET input_tokens = ?2, output_tokens = ?3, cached_tokens = ?4, reasoning_tokens = ?5,
                    cost = ?6, estimated = ?7 WHERE id = ?1";
    batch.execute(
        statement,
        params![
            run.bytes(),
            sql(total.input_tokens),
            sql(total.output_tokens),
            sql(total.cached_input_tokens),
            sql(total.reasoning_tokens),
            sql(total.cost.0),
            total.estimated
        ],
    )?;
    let model = match fallback {
        Some(fallback) => fallback.to_owned(),
        None => asked_model(batch, run, seq)?.unwrap_or(model),
    };
    // Without a model there was no call: the step ended by saying so.
    if model.is_empty() { Ok(()) } else { add(batch, &scope, &model, used) }
}

/// The model that was asked last before this event: a step names it when it starts, and when it turns to another.
fn asked_model(batch: &Batch<'_>, run: RunId, seq: Seq) -> Result<Option<String>, Error> {
    let statement = format!(
        "SELECT json_extract(body, '$.model') FROM events
            WHERE run = ?1 AND kind IN ('step:start', 'step:retry', 'step:reset') AND seq < ?2 AND {IS_FACT}
                AND CASE WHEN json_valid(body) THEN json_extract(body, '$.model') END IS NOT NULL ORDER BY seq DESC LIMIT 1"
    );
    find_first(batch.conn(), &statement, params![run.bytes(), sql(seq)], |row| text(row, 0))
}

/// Adds one model call to what the scope has used today.
pub(super) fn add(batch: &Batch<'_>, scope: &Scope, model: &str, used: Usage) -> Result<(), Error> {
    rate_limits::count_tokens(batch, scope, used.total())?;
    let today = day(Timestamp::from_millisecond(batch.at()).unwrap_or(Timestamp::UNIX_EPOCH));
    let (user, app) = (scope.user.as_str(), scope.app.as_str());
    // Sums stop at the largest number. An update of what no index holds leaves the indexes alone.
    let statement = "INSERT INTO usage (user, app, day, model, calls, input_tokens, output_tokens, cached_tokens,
                    reasoning_tokens, cost, estimated) VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10)
                ON CONFLICT (user, app, day, model) DO UPDATE SET calls = min(usage.calls, 9223372036854775806) + 1,
                    input_tokens = min(usage.input_tokens, 9223372036854775807 - excluded.input_tokens) + excluded.input_tokens,
                    output_tokens = min(usage.output_tokens, 9223372036854775807 - excluded.output_tokens) + excluded.output_tokens,
                    cached_tokens = min(usage.cached_tokens, 9223372036854775807 - excluded.cached_tokens) + excluded.cached_tokens,
                    reasoning_tokens = min(usage.reasoning_tokens, 9223372036854775807 - excluded.reasoning_tokens)
                        + excluded.reasoning_tokens,
                    cost = min(usage.cost, 9223372036854775807 - excluded.cost) + excluded.cost,
                    estimated = max(usage.estimated, excluded.estimated)";
    batch.execute(
        statement,
        params![
            user,
            app,
            today,
            model,
            sql(used.input_tokens),
            sql(used.output_tokens),
            sql(used.cached_input_tokens),
            sql(used.reasoning_tokens),
            sql(used.cost.0),
            used.estimated
        ],
    )
}

fn report(conn: &SqlConnection, user: &str, from_day: &str, to_day: &str) -> Result<Vec<UsageView>, Error> {
    let statement = format!(
        "SELECT day, app, user, model, calls, {COLUMNS} FROM usage WHERE user = ?1 AND day BETWEEN ?2 AND ?3
            ORDER BY day DESC, app, model LIMIT ?4"
    );
    find_all(conn, &statement, params![user, from_day, to_day, MAX_USAGE_ROWS as i64], |row| {
        Ok(UsageView {
            date: text(row, 0)?,
            app_id: text(row, 1)?,
            model: text(row, 3)?,
            calls: count(row, 4)?,
            usage: read(row, 5)?,
        })
    })
}

pub(super) fn of_day(conn: &SqlConnection, scope: &Scope, day: &str) -> Result<Usage, Error> {
    let statement = format!("SELECT {COLUMNS} FROM usage WHERE user = ?1 AND app = ?2 AND day = ?3");
    let mut total = Usage::default();
    for used in
        find_all(conn, &statement, [scope.user.as_str(), scope.app.as_str(), day], |row| read(row, 0))?
    {
        total += used;
    }
    Ok(total)
}
