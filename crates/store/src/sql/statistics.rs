//! Reports for admins: rows of runs and of usage are read a portion at a time beside the writer, and added up by
//! [`crate::rules::statistics`].

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{RunId, RunStatus, StatsPoint, UsageTotal};

use super::read::{count, find_all, id, page_start, text, time};
use super::{SqlStore, runs, usage};
use crate::rules::statistics::{
    CountedRun, CountedUsage, RunStats, StatsQuery, TooLarge, UsageQuery, UsageStats,
};
use crate::{Error, PageOf, RunFilter, ScannedRuns, TimeCursor};

/// Rows that are read at once: a few milliseconds, so that a report keeps no reader and no moment of the database for long.
const ROWS_PER_READ: i64 = 5_000;

/// Runs that are looked at for one page of a list. A page ends there, however few of them were wanted.
const MAX_RUNS_PER_PAGE: i64 = 5_000;

impl SqlStore {
    pub(crate) async fn run_stats(
        &self,
        query: StatsQuery,
    ) -> Result<Result<Vec<StatsPoint>, TooLarge>, Error> {
        let end = TimeCursor { at: query.to, id: RunId::new(uuid::Uuid::nil()) };
        let (mut stats, mut next) = (RunStats::new(query), Some(end));
        while let Some(before) = next {
            let read = move |conn: &SqlConnection| add_runs(conn, stats, before);
            let (added, place) = self.readers.read(read).await?;
            stats = match added {
                Ok(stats) => stats,
                Err(too_large) => return Ok(Err(too_large)),
            };
            next = place;
        }
        Ok(Ok(stats.points()))
    }

    pub(crate) async fn usage_totals(
        &self,
        query: UsageQuery,
    ) -> Result<Result<Vec<UsageTotal>, TooLarge>, Error> {
        let (mut stats, mut next) = (UsageStats::new(query), Some(<[String; 4]>::default()));
        while let Some(after) = next {
            let read = move |conn: &SqlConnection| add_usage(conn, stats, &after);
            let (added, place) = self.readers.read(read).await?;
            stats = match added {
                Ok(stats) => stats,
                Err(too_large) => return Ok(Err(too_large)),
            };
            next = place;
        }
        Ok(Ok(stats.totals()))
    }

    pub(crate) async fn runs_of_all(
        &self,
        filter: RunFilter,
        page: PageOf<TimeCursor<RunId>>,
    ) -> Result<ScannedRuns, Error> {
        self.readers.read(move |conn| list_runs(conn, &filter, page)).await
    }
}

/// A report after one more portion, and the place of the next.
type Portion<S, P> = (Result<S, TooLarge>, Option<P>);

/// Adds the newest runs before a place.
fn add_runs(
    conn: &SqlConnection,
    mut stats: RunStats,
    before: TimeCursor<RunId>,
) -> Result<Portion<RunStats, TimeCursor<RunId>>, Error> {
    let statement = format!(
        "SELECT created_at, id, app, user, model, status, ended_at,
                CASE WHEN status = 'failed' AND json_valid(error) THEN json_extract(error, '$.code') END, {}
            FROM runs WHERE created_at >= ?1 AND (created_at, id) < (?2, ?3) AND imported = 0
            ORDER BY created_at DESC, id DESC LIMIT ?4",
        usage::COLUMNS
    );
    let from = stats.query().from.as_millisecond();
    let key = params![from, before.at.as_millisecond(), before.id.bytes(), ROWS_PER_READ];
    let mut find = conn.prepare(&statement)?;
    let mut rows = find.query(key)?;
    let (mut last, mut looked_at) = (None, 0);
    while let Some(row) = &rows.next()? {
        looked_at += 1;
        last = Some(TimeCursor { at: time(row, 0)?, id: id(row, 1)? });
        if let Err(too_large) = stats.add(counted_run(row)?) {
            return Ok((Err(too_large), None));
        }
    }
    Ok((Ok(stats), last.filter(|_| looked_at == ROWS_PER_READ)))
}

fn counted_run(row: &SqlRow<'_>) -> Result<CountedRun, Error> {
    Ok(CountedRun {
        app: text(row, 2)?,
        user: text(row, 3)?,
        model: row.get(4)?,
        status: RunStatus::parse(&text(row, 5)?).unwrap_or(RunStatus::Failed),
        error_code: row.get(7)?,
        usage: usage::read(row, 8)?,
        created_at: row.get(0)?,
        ended_at: row.get(6)?,
    })
}

/// Adds the rows of usage after a place.
fn add_usage(
    conn: &SqlConnection,
    mut stats: UsageStats,
    after: &[String; 4],
) -> Result<Portion<UsageStats, [String; 4]>, Error> {
    let statement = format!(
        "SELECT day, app, user, model, calls, {} FROM usage
            WHERE day BETWEEN ?1 AND ?2 AND (day, app, user, model) > (?3, ?4, ?5, ?6)
            ORDER BY day, app, user, model LIMIT ?7",
        usage::COLUMNS
    );
    let [day, app, user, model] = after;
    // A place begins at the first day.
    let (first, last) = (stats.query().from_day.clone().max(day.clone()), stats.query().to_day.clone());
    let key = params![first, last, day, app, user, model, ROWS_PER_READ];
    let rows: Vec<CountedUsage> = find_all(conn, &statement, key, |row| {
        Ok(CountedUsage {
            day: text(row, 0)?,
            app: text(row, 1)?,
            user: text(row, 2)?,
            model: text(row, 3)?,
            calls: count(row, 4)?,
            usage: usage::read(row, 5)?,
        })
    })?;
    let is_full = rows.len() as i64 == ROWS_PER_READ;
    let place = |row: &CountedUsage| [row.day.clone(), row.app.clone(), row.user.clone(), row.model.clone()];
    let next = rows.last().filter(|_| is_full).map(place);
    for row in rows {
        if let Err(too_large) = stats.add(row) {
            return Ok((Err(too_large), None));
        }
    }
    Ok((Ok(stats), next))
}

/// A page of the newest runs that fit, out of a bounded number that is looked at.
fn list_runs(
    conn: &SqlConnection,
    filter: &RunFilter,
    page: PageOf<TimeCursor<RunId>>,
) -> Result<ScannedRuns, Error> {
    let statement = format!(
        "SELECT {} FROM runs r WHERE {} (r.created_at, r.id) < (?1, ?2)
            ORDER BY r.created_at DESC, r.id DESC LIMIT ?3",
        runs::COLUMNS,
        if filter.is_of_active() { "r.ended_at IS NULL AND" } else { "" }
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let mut find = conn.prepare(&statement)?;
    let mut rows = find.query(params![at, last, MAX_RUNS_PER_PAGE])?;
    let (mut found, mut last, mut looked_at) = (Vec::new(), None, 0);
    while found.len() < page.limit
        && let Some(row) = &rows.next()?
    {
        let run = runs::run_row(row)?;
        looked_at += 1;
        last = Some(TimeCursor { at: run.created_at, id: run.id });
        found.extend(Some(run).filter(|run| filter.fits(run)));
    }
    let may_have_more = found.len() == page.limit || looked_at == MAX_RUNS_PER_PAGE;
    Ok(ScannedRuns { runs: found, next: last.filter(|_| may_have_more) })
}
