//! Statistics of runs and of usage: rows are added up one by one, in bounded memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jiff::Timestamp;
use protocol::{AppId, Latencies, RunStatus, StatsPoint, Usage, UsageTotal};

/// Points of one report, over all keys.
pub const MAX_STATS_POINTS: usize = 2_000;

/// Runs that are looked at for one report. Each of them costs eight bytes of memory.
pub const MAX_STATS_RUNS: u64 = 1_000_000;

/// Groups of a report of usage, and rows that are looked at for it.
pub const MAX_USAGE_GROUPS: usize = 10_000;
pub const MAX_USAGE_ROWS_ADDED: u64 = 1_000_000;

/// The key of a run that has no model.
const NO_MODEL: &str = "";

/// The dimension of a report of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsKey {
    App,
    Model,
    User,
}

/// A question about runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsQuery {
    /// The first moment, and the first after the last.
    pub from: Timestamp,
    pub to: Timestamp,
    pub step_ms: i64,
    pub by: Option<StatsKey>,
    /// The apps that count; all of them when none.
    pub apps: Option<Vec<AppId>>,
}

/// A question about usage: the days, both included, and what is told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageQuery {
    pub from_day: String,
    pub to_day: String,
    pub by_day: bool,
    pub by_app: bool,
    pub by_user: bool,
    pub by_model: bool,
    /// The apps that count; all of them when none.
    pub apps: Option<Vec<AppId>>,
}

/// Why there is no report: it would be larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooLarge {
    Points,
    Rows,
}

/// A run as statistics count it.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedRun {
    pub app: String,
    pub user: String,
    pub model: Option<String>,
    pub status: RunStatus,
    pub error_code: Option<String>,
    pub usage: Usage,
    /// In milliseconds since 1970.
    pub created_at: i64,
    pub ended_at: Option<i64>,
}

/// The usage of one user with one model on one day in one app.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedUsage {
    pub day: String,
    pub app: String,
    pub user: String,
    pub model: String,
    pub calls: u64,
    pub usage: Usage,
}

/// A report of runs that is being added up.
pub struct RunStats {
    query: StatsQuery,
    looked_at: u64,
    points: BTreeMap<(i64, Option<String>), CountedPoint>,
}

#[derive(Default)]
struct CountedPoint {
    point: StatsPoint,
    latencies: Vec<u64>,
}

impl RunStats {
    pub fn new(query: StatsQuery) -> Self {
        Self { query, looked_at: 0, points: BTreeMap::new() }
    }

    pub fn query(&self) -> &StatsQuery {
        &self.query
    }

    /// Adds a run.
    pub fn add(&mut self, run: CountedRun) -> Result<(), TooLarge> {
        self.looked_at += 1;
        if self.looked_at > MAX_STATS_RUNS {
            return Err(TooLarge::Rows);
        }
        if !is_counted(self.query.apps.as_deref(), &run.app) {
            return Ok(());
        }
        let start = step_of(run.created_at, self.query.from.as_millisecond(), self.query.step_ms);
        let key = self.query.by.map(|by| match by {
            StatsKey::App => run.app.clone(),
            StatsKey::User => run.user.clone(),
            StatsKey::Model => run.model.clone().unwrap_or_else(|| NO_MODEL.to_owned()),
        });
        let count = self.points.len();
        match self.points.entry((start, key)) {
            Entry::Occupied(entry) => entry.into_mut().add(run),
            Entry::Vacant(_) if count >= MAX_STATS_POINTS => return Err(TooLarge::Points),
            Entry::Vacant(entry) => entry.insert(CountedPoint::default()).add(run),
        }
        Ok(())
    }

    /// The points, by time and then by key.
    pub fn points(self) -> Vec<StatsPoint> {
        let point = |((at, key), counted): ((i64, Option<String>), CountedPoint)| StatsPoint {
            at: Timestamp::from_millisecond(at).unwrap_or_default(),
            key,
            latency_ms: percentiles(counted.latencies),
            ..counted.point
        };
        self.points.into_iter().map(point).collect()
    }
}

impl CountedPoint {
    fn add(&mut self, run: CountedRun) {
        let point = &mut self.point;
        point.runs += 1;
        point.usage += run.usage;
        match run.status {
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => {}
            RunStatus::Completed => {
                point.completed += 1;
                let took = run.ended_at.map(|ended| ended.saturating_sub(run.created_at));
                self.latencies.extend(took.and_then(|took| u64::try_from(took).ok()));
            }
            RunStatus::Failed => {
                point.failed += 1;
                *point.errors.entry(run.error_code.unwrap_or_else(|| "unknown".into())).or_default() += 1;
            }
            RunStatus::Cancelled => point.cancelled += 1,
            RunStatus::Interrupted => point.interrupted += 1,
        }
    }
}

fn is_counted(apps: Option<&[AppId]>, app: &str) -> bool {
    apps.is_none_or(|apps| apps.iter().any(|counted| counted.as_str() == app))
}

/// The beginning of the step that a moment is in. Steps begin at `from`.
fn step_of(at: i64, from: i64, step_ms: i64) -> i64 {
    let since = at.saturating_sub(from);
    at.saturating_sub(since.rem_euclid(step_ms.max(1)))
}

/// Returns the 50th, 95th and 99th percentile of some times.
fn percentiles(mut times: Vec<u64>) -> Latencies {
    times.sort_unstable();
    let percentile = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100);
        times.get(rank.saturating_sub(1)).copied()
    };
    Latencies { p50: percentile(50), p95: percentile(95), p99: percentile(99) }
}

/// A report of usage that is being added up.
pub struct UsageStats {
    query: UsageQuery,
    looked_at: u64,
    groups: BTreeMap<UsageGroup, (u64, Usage)>,
}

/// The day, the app, the user and the model, as far as they are told apart.
type UsageGroup = [Option<String>; 4];

impl UsageStats {
    pub fn new(query: UsageQuery) -> Self {
        Self { query, looked_at: 0, groups: BTreeMap::new() }
    }

    pub fn query(&self) -> &UsageQuery {
        &self.query
    }

    /// Adds a row of usage.
    pub fn add(&mut self, used: CountedUsage) -> Result<(), TooLarge> {
        self.looked_at += 1;
        if self.looked_at > MAX_USAGE_ROWS_ADDED {
            return Err(TooLarge::Rows);
        }
        let query = &self.query;
        if !is_counted(query.apps.as_deref(), &used.app) {
            return Ok(());
        }
        let group = [
            query.by_day.then_some(used.day),
            query.by_app.then_some(used.app),
            query.by_user.then_some(used.user),
            query.by_model.then_some(used.model),
        ];
        if self.groups.len() >= MAX_USAGE_GROUPS && !self.groups.contains_key(&group) {
            return Err(TooLarge::Points);
        }
        let (calls, usage) = self.groups.entry(group).or_default();
        *calls = calls.saturating_add(used.calls);
        *usage += used.usage;
        Ok(())
    }

    /// The groups in order.
    pub fn totals(self) -> Vec<UsageTotal> {
        let total = |([date, app_id, user_id, model], (calls, usage)): (UsageGroup, (u64, Usage))| {
            UsageTotal { date, app_id, user_id, model, calls, usage }
        };
        self.groups.into_iter().map(total).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn query(by: Option<StatsKey>) -> StatsQuery {
        StatsQuery { from: at(500), to: at(100_000), step_ms: 1_000, by, apps: None }
    }

    fn run(created_at: i64, took: i64) -> CountedRun {
        CountedRun {
            app: "test".into(),
            user: "ann".into(),
            model: None,
            status: RunStatus::Completed,
            error_code: None,
            usage: Usage { input_tokens: 3, ..Usage::default() },
            created_at,
            ended_at: Some(created_at + took),
        }
    }

    #[test]
    fn runs_count_in_the_step_that_they_were_requested_in() {
        let mut stats = RunStats::new(query(None));
        for (created, took) in [(500, 10), (1_499, 30), (1_500, 20), (2_700, 5)] {
            stats.add(run(created, took)).unwrap();
        }
        let failed =
            CountedRun { status: RunStatus::Failed, error_code: Some("model_error".into()), ..run(900, 1) };
        stats.add(failed).unwrap();
        let found = stats.points();
        let seen: Vec<_> = found.iter().map(|point| (point.at.as_millisecond(), point.runs)).collect();
        assert_eq!(seen, [(500, 3), (1_500, 1), (2_500, 1)]);
        assert_eq!((found[0].completed, found[0].failed, found[0].usage.input_tokens), (2, 1, 9));
        assert_eq!(found[0].errors, BTreeMap::from([("model_error".to_owned(), 1)]));
        assert_eq!(found[0].latency_ms, Latencies { p50: Some(10), p95: Some(30), p99: Some(30) });
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let all = percentiles((1..=200).rev().collect());
        assert_eq!(all, Latencies { p50: Some(100), p95: Some(190), p99: Some(198) });
        assert_eq!(percentiles(Vec::new()), Latencies::default());
        assert_eq!(percentiles(vec![7]), Latencies { p50: Some(7), p95: Some(7), p99: Some(7) });
    }

    #[test]
    fn a_report_has_a_bounded_number_of_points_over_all_keys() {
        let mut stats = RunStats::new(query(Some(StatsKey::User)));
        for number in 0..MAX_STATS_POINTS {
            stats.add(CountedRun { user: number.to_string(), ..run(600, 1) }).unwrap();
        }
        assert_eq!(stats.add(CountedRun { user: "5".into(), ..run(700, 1) }), Ok(()));
        assert_eq!(stats.add(CountedRun { user: "one more".into(), ..run(600, 1) }), Err(TooLarge::Points));
    }

    #[test]
    fn usage_is_told_apart_as_far_as_the_report_asks() {
        let used = |app: &str, user: &str| CountedUsage {
            day: "2026-11-15".into(),
            app: app.into(),
            user: user.into(),
            model: "m".into(),
            calls: 1,
            usage: Usage { output_tokens: 2, ..Usage::default() },
        };
        let only = Some(vec![AppId::new("a"), AppId::new("b")]);
        let mut stats = UsageStats::new(UsageQuery { by_app: true, apps: only, ..UsageQuery::default() });
        for (app, user) in [("b", "ann"), ("a", "ann"), ("a", "bob"), ("c", "ann")] {
            stats.add(used(app, user)).unwrap();
        }
        let found: Vec<_> = stats
            .totals()
            .into_iter()
            .map(|total| (total.app_id, total.user_id, total.calls, total.usage.output_tokens))
            .collect();
        assert_eq!(found, [(Some("a".to_owned()), None, 2, 4), (Some("b".to_owned()), None, 1, 2)]);
    }
}
