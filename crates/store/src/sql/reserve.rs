//! Reservations of what model calls under way may still spend. One is held from before a call until what the call used
//! is counted, in the transaction that counts it. The holder is the run or the job that makes the call, one call at a
//! time.

use crate::sql::params;
use jiff::Timestamp;
use protocol::{Outlay, PlannedCall, RunId, Scope, SpendBounds, SpendGrant, Usage};

use super::append::Batch;
use super::read::{count, find_all, find_only, has_any, scope_at, sql};
use super::{rate_limits, usage};
use crate::rules::spending::{SpendingRows, add_held, needs_day, user_limits};
use crate::{Error, JobRow};

/// Holds what a run's next call may spend, if that fits.
pub(super) fn for_run(
    batch: &Batch<'_>,
    run: RunId,
    call: &PlannedCall,
    bounds: &SpendBounds,
) -> Result<SpendGrant, Error> {
    let statement = format!("SELECT app, user, {} FROM runs WHERE id = ?1", usage::COLUMNS);
    let (scope, used) = find_only(batch.conn(), &statement, [run.bytes()], |row| {
        Ok((scope_at(row, 0)?, usage::read(row, 2)?))
    })?;
    decide(batch, (run.bytes(), &scope), used, (call, bounds))
}

/// Holds what a call of a job may spend, if that fits.
pub(super) fn for_job(
    batch: &Batch<'_>,
    job: &JobRow,
    call: &PlannedCall,
    bounds: &SpendBounds,
) -> Result<SpendGrant, Error> {
    let statement = "SELECT 1 FROM jobs WHERE id = ?1 AND epoch = ?2 AND status = 'running'";
    if !has_any(batch.conn(), statement, params![job.id.bytes(), sql(job.epoch)])? {
        return Err(Error::Fenced);
    }
    decide(batch, (job.id.bytes(), &job.scope), Usage::default(), (call, bounds))
}

fn decide(
    batch: &Batch<'_>,
    (holder, scope): (&[u8; 16], &Scope),
    run: Usage,
    (call, bounds): (&PlannedCall, &SpendBounds),
) -> Result<SpendGrant, Error> {
    let at = Timestamp::from_millisecond(batch.at()).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut rows =
        SpendingRows { run, held: held_by_others(batch, holder, scope)?, ..SpendingRows::default() };
    if needs_day(bounds) {
        rows.day = usage::of_day(batch.conn(), scope, &usage::day(at))?;
    }
    let limits = user_limits(bounds);
    if !limits.is_none() {
        rows.used = rate_limits::read_use(batch.conn(), scope, &limits, at)?;
    }
    let grant = call.decide(bounds, &rows.spending());
    if let SpendGrant::Granted { held, .. } = grant {
        let statement =
            "INSERT INTO reservations (holder, app, user, tokens, cost) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (holder) DO UPDATE SET tokens = excluded.tokens, cost = excluded.cost";
        batch.execute(
            statement,
            params![holder, scope.app.as_str(), scope.user.as_str(), sql(held.tokens), sql(held.cost.0)],
        )?;
    }
    Ok(grant)
}

/// Returns the sum that other holders hold: what this one held before is replaced, and so not in its own way.
fn held_by_others(batch: &Batch<'_>, holder: &[u8; 16], scope: &Scope) -> Result<Outlay, Error> {
    let statement = "SELECT tokens, cost FROM reservations WHERE app = ?1 AND user = ?2 AND holder <> ?3";
    let key = params![scope.app.as_str(), scope.user.as_str(), holder];
    let mut held = Outlay::default();
    for (tokens, cost) in find_all(batch.conn(), statement, key, |row| Ok((count(row, 0)?, count(row, 1)?)))?
    {
        add_held(&mut held, tokens, cost);
    }
    Ok(held)
}

/// Gives back what a run or a job holds: its call has ended, and what it used is counted.
pub(super) fn settle(batch: &Batch<'_>, holder: &[u8; 16]) -> Result<(), Error> {
    batch.execute("DELETE FROM reservations WHERE holder = ?1", [holder])
}

/// Gives back what a process held that is gone, and its calls with it.
pub(super) fn adopt(batch: &Batch<'_>) -> Result<(), Error> {
    let statement = "DELETE FROM reservations
            WHERE NOT EXISTS (SELECT 1 FROM runs r JOIN nodes n ON n.number = r.owner WHERE r.id = reservations.holder)
                AND NOT EXISTS (SELECT 1 FROM jobs j JOIN nodes n ON n.number = j.owner WHERE j.id = reservations.holder)";
    batch.conn().execute(statement, [])
}
