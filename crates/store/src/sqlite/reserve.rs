//! What model calls under way may still spend. It is held from before a call until what the call used is counted, in the
//! transaction that counts it. Who holds something is the run or the job that makes the call, one call at a time.

use jiff::Timestamp;
use protocol::{Cost, Outlay, PlannedCall, RunId, Scope, SpendBounds, SpendGrant, Spending, UserLimits};
use rusqlite::params;

use super::append::Batch;
use super::read::{count, sql};
use super::{pace, threads, usage};
use crate::{Error, JobRow};

/// Holds what a run's next call may spend, if that fits.
pub(super) fn for_run(
    batch: &Batch<'_>,
    run: RunId,
    call: &PlannedCall,
    bounds: &SpendBounds,
) -> Result<SpendGrant, Error> {
    let (scope, used) = batch
        .conn()
        .prepare_cached(&format!("SELECT app, user, {} FROM runs WHERE id = ?1", usage::COLUMNS))?
        .query_row([run.bytes()], |row| Ok((threads::scope(row, 0)?, usage::read(row, 2)?)))?;
    let run_outlay = Outlay { tokens: used.total(), cost: used.cost };
    decide(batch, (run.bytes(), &scope), run_outlay, (call, bounds))
}

/// The same for a job, which is no part of a run.
pub(super) fn for_job(
    batch: &Batch<'_>,
    job: &JobRow,
    call: &PlannedCall,
    bounds: &SpendBounds,
) -> Result<SpendGrant, Error> {
    let mut find = batch
        .conn()
        .prepare_cached("SELECT 1 FROM jobs WHERE id = ?1 AND epoch = ?2 AND status = 'running'")?;
    if !find.exists(params![job.id.bytes(), sql(job.epoch)])? {
        return Err(Error::Fenced);
    }
    decide(batch, (job.id.bytes(), &job.scope), Outlay::default(), (call, bounds))
}

fn decide(
    batch: &Batch<'_>,
    (holder, scope): (&[u8; 16], &Scope),
    run: Outlay,
    (call, bounds): (&PlannedCall, &SpendBounds),
) -> Result<SpendGrant, Error> {
    let at = Timestamp::from_millisecond(batch.at()).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut spending = Spending { run, held: held_by_others(batch, holder, scope)?, ..Spending::default() };
    if bounds.day_tokens.is_some() || bounds.day_cost.is_some() {
        let used = usage::of_day(batch.conn(), scope, &usage::day(at))?;
        spending.day = Outlay { tokens: used.total(), cost: used.cost };
    }
    if bounds.tokens_per_minute.is_some() || bounds.tokens_per_day.is_some() {
        let (tokens_per_minute, tokens_per_day) = (bounds.tokens_per_minute, bounds.tokens_per_day);
        let limits = UserLimits { tokens_per_minute, tokens_per_day, ..UserLimits::default() };
        let used = pace::used(batch.conn(), scope, &limits, at)?;
        (spending.minute_tokens, spending.day_tokens) = (used.minute_tokens, used.day_tokens);
    }
    let grant = call.decide(bounds, &spending);
    if let SpendGrant::Granted { held, .. } = grant {
        batch
            .conn()
            .prepare_cached(
                "INSERT OR REPLACE INTO reservations (holder, app, user, tokens, cost) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                holder,
                scope.app.as_str(),
                scope.user.as_str(),
                sql(held.tokens),
                sql(held.cost.0)
            ])?;
    }
    Ok(grant)
}

/// What this one held before is not in its own way: it is replaced.
fn held_by_others(batch: &Batch<'_>, holder: &[u8; 16], scope: &Scope) -> Result<Outlay, Error> {
    let mut find = batch.conn().prepare_cached(
        "SELECT tokens, cost FROM reservations WHERE app = ?1 AND user = ?2 AND holder <> ?3",
    )?;
    let rows = find.query_map(params![scope.app.as_str(), scope.user.as_str(), holder], |row| {
        Ok((count(row, 0)?, count(row, 1)?))
    })?;
    let mut held = Outlay::default();
    for row in rows {
        let (tokens, cost) = row?;
        held.tokens = held.tokens.saturating_add(tokens);
        held.cost = Cost(held.cost.0.saturating_add(cost));
    }
    Ok(held)
}

/// Gives back what a run or a job holds: its call has ended, and what it used is counted.
pub(super) fn settle(batch: &Batch<'_>, holder: &[u8; 16]) -> Result<(), Error> {
    batch.conn().prepare_cached("DELETE FROM reservations WHERE holder = ?1")?.execute([holder])?;
    Ok(())
}

/// Gives back what a process held that is gone, and its calls with it.
pub(super) fn adopt(batch: &Batch<'_>) -> Result<(), Error> {
    batch.conn().execute("DELETE FROM reservations", [])?;
    Ok(())
}
