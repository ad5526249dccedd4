//! How much a user does in an app: counted by the minute of the clock, and held against limits where a run is accepted.

use crate::sql::{SqlConnection, params};
use jiff::Timestamp;
use protocol::{Scope, Used, UserLimits};

use super::append::Batch;
use super::read::{count, find_all, find_only, sql};
use crate::Error;
use crate::rules::rate_limits::{self, MinuteRow, add_minute, day_of, minute_of};

/// Minutes of users that are forgotten in one transaction.
const PURGE_MINUTES: i64 = 500;

/// Refuses a run that would go beyond what is left. One that waits for its thread takes no place among those that work:
/// it takes the place of the one before it. Gives what is used with the run, as far as these limits are about it.
pub(super) fn admit(
    batch: &Batch<'_>,
    scope: &Scope,
    limits: &UserLimits,
    begins: bool,
) -> Result<Used, Error> {
    if limits.is_none() {
        return Ok(Used::default());
    }
    let at = Timestamp::from_millisecond(batch.at()).unwrap_or(Timestamp::UNIX_EPOCH);
    let used = read_use(batch.conn(), scope, limits, at)?;
    rate_limits::check(limits, &used, at, begins)?;
    Ok(rate_limits::with_run(used, begins))
}

/// Counts a run that was accepted.
pub(super) fn count_run(batch: &Batch<'_>, scope: &Scope) -> Result<(), Error> {
    add(batch, scope, 1, 0)
}

/// Counts tokens of a model call.
pub(super) fn count_tokens(batch: &Batch<'_>, scope: &Scope, tokens: u64) -> Result<(), Error> {
    add(batch, scope, 0, tokens)
}

fn add(batch: &Batch<'_>, scope: &Scope, runs: i64, tokens: u64) -> Result<(), Error> {
    let statement = "INSERT INTO pace (app, user, minute, runs, tokens) VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (app, user, minute) DO UPDATE SET runs = pace.runs + excluded.runs,
                    tokens = min(pace.tokens, 9223372036854775807 - excluded.tokens) + excluded.tokens";
    batch.execute(
        statement,
        params![scope.app.as_str(), scope.user.as_str(), minute_of(batch.at()), runs, sql(tokens)],
    )
}

/// Returns the usage that these limits are about; the rest is not looked at.
pub(super) fn read_use(
    conn: &SqlConnection,
    scope: &Scope,
    limits: &UserLimits,
    at: Timestamp,
) -> Result<Used, Error> {
    let at = at.as_millisecond();
    let (day, next_day) = day_of(at);
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let statement = "SELECT count(*) FROM runs WHERE app = ?1 AND user = ?2 AND status = 'running'";
    let running = find_only(conn, statement, [app, user], |row| count(row, 0))?;
    let mut used = Used { running, ..Used::default() };
    if !limits.has_windows() {
        return Ok(used);
    }
    let statement =
        "SELECT minute, runs, tokens FROM pace WHERE app = ?1 AND user = ?2 AND minute >= ?3 AND minute < ?4";
    let minutes = find_all(conn, statement, params![app, user, day, next_day], |row| {
        Ok(MinuteRow { minute: row.get(0)?, runs: count(row, 1)?, tokens: count(row, 2)? })
    })?;
    for row in minutes {
        add_minute(&mut used, row, at);
    }
    Ok(used)
}

/// Forgets minutes that no window reaches.
pub(super) fn forget(batch: &Batch<'_>, before: Timestamp) -> Result<bool, Error> {
    let statement = "DELETE FROM pace WHERE (app, user, minute) IN
                (SELECT app, user, minute FROM pace WHERE minute < ?1 ORDER BY minute LIMIT ?2)";
    let forgotten =
        batch.count_changed(statement, params![day_of(before.as_millisecond()).0, PURGE_MINUTES])?;
    Ok(forgotten > 0)
}
