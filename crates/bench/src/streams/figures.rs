//! The figures of one server in one scenario, and how those of several repeats become one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The figures that are measured. The order is the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamFigure {
    CpuPerRun,
    BusiestCpu,
    FirstHalf,
    FirstMost,
    GapMost,
    TurnHalf,
    TurnMost,
    LagMost,
    WrittenPerToken,
    PassedPerToken,
    AnonBefore,
    AnonPeak,
    AnonPerStream,
    DiskPerRun,
    Commits,
    Calls,
    PostgresCpu,
    Statements,
    ToPostgres,
    FromPostgres,
    WalPerRun,
    TurnTaken,
    TurnWaiting,
    Connections,
    IdleCpu,
    IdlePostgresCpu,
    Ready,
    IdleAnon,
    FirstMessage,
    FirstMessageExtra,
    LoadBusy,
    UpstreamLate,
}

/// How a figure is shown.
pub(super) struct FigureLabel {
    /// The field in the JSON report.
    pub(super) field: &'static str,
    /// The two lines above the column.
    pub(super) heading: [&'static str; 2],
    pub(super) decimals: usize,
}

impl StreamFigure {
    pub(super) fn label(self) -> FigureLabel {
        let (field, heading, decimals) = match self {
            Self::CpuPerRun => ("cpuMsPerRun", ["CPU", "ms/run"], 2),
            Self::BusiestCpu => ("busiestNodeCpuMsPerRun", ["busiest", "ms/run"], 2),
            Self::FirstHalf => ("firstTokenP50Ms", ["1st token", "p50 ms"], 1),
            Self::FirstMost => ("firstTokenP99Ms", ["1st token", "p99 ms"], 1),
            Self::GapMost => ("extraGapP99Ms", ["extra gap", "p99 ms"], 1),
            Self::TurnHalf => ("turnP50Ms", ["turn", "p50 ms"], 1),
            Self::TurnMost => ("turnP99Ms", ["turn", "p99 ms"], 1),
            Self::LagMost => ("lagP99Ms", ["lag", "p99 ms"], 1),
            Self::WrittenPerToken => ("writtenBytesPerToken", ["to disk", "B/token"], 0),
            Self::PassedPerToken => ("writeCallBytesPerToken", ["all writes", "B/token"], 0),
            Self::AnonBefore => ("anonBeforeMib", ["RssAnon", "before MiB"], 1),
            Self::AnonPeak => ("anonPeakMib", ["RssAnon", "peak MiB"], 1),
            Self::AnonPerStream => ("anonKibPerStream", ["RssAnon", "KiB/stream"], 1),
            Self::DiskPerRun => ("dataKibPerRun", ["data", "KiB/run"], 1),
            Self::Commits => ("commitsPerSecond", ["commits", "/s"], 0),
            Self::Calls => ("modelCallsPerRun", ["calls", "/run"], 1),
            Self::PostgresCpu => ("postgresCpuMsPerRun", ["PostgreSQL", "CPU ms/run"], 2),
            Self::Statements => ("statementsPerRun", ["statements", "/run"], 1),
            Self::ToPostgres => ("toPostgresKibPerRun", ["to PG", "KiB/run"], 1),
            Self::FromPostgres => ("fromPostgresKibPerRun", ["from PG", "KiB/run"], 1),
            Self::WalPerRun => ("postgresWalKibPerRun", ["PG's WAL", "KiB/run"], 1),
            Self::TurnTaken => ("turnTakenPercent", ["turn", "taken %"], 0),
            Self::TurnWaiting => ("nodesWaitingForTurn", ["nodes", "waiting"], 2),
            Self::Connections => ("postgresConnections", ["PG connec-", "tions"], 0),
            Self::IdleCpu => ("idleCpuMsPerSecond", ["idle nodes", "CPU ms/s"], 1),
            Self::IdlePostgresCpu => ("idlePostgresCpuMsPerSecond", ["idle PG", "CPU ms/s"], 1),
            Self::Ready => ("readyMs", ["start to", "ready ms"], 1),
            Self::IdleAnon => ("idleAnonMib", ["RssAnon", "idle MiB"], 1),
            Self::FirstMessage => ("firstMessageMs", ["first", "message ms"], 1),
            Self::FirstMessageExtra => ("firstMessageExtraMs", ["more than", "second ms"], 1),
            Self::LoadBusy => ("loadCorePercent", ["load core", "busy %"], 0),
            Self::UpstreamLate => ("upstreamLateP99Ms", ["upstream", "late ms"], 1),
        };
        FigureLabel { field, heading, decimals }
    }
}

/// One server in one repeat, or in all of them.
#[derive(Debug, Default, Clone)]
pub(super) struct ServerFigures {
    pub(super) good: usize,
    pub(super) failed: usize,
    /// The reasons of failures, with how often each occurred.
    pub(super) failures: BTreeMap<String, usize>,
    pub(super) values: BTreeMap<StreamFigure, f64>,
}

impl ServerFigures {
    pub(super) fn set(&mut self, figure: StreamFigure, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.values.insert(figure, value);
        }
    }

    pub(super) fn get(&self, figure: StreamFigure) -> Option<f64> {
        self.values.get(&figure).copied()
    }

    pub(super) fn fail(&mut self, why: &str, times: usize) {
        self.failed += times;
        *self.failures.entry(why.to_owned()).or_default() += times;
    }

    /// The median of each figure; good and failed turns are added up.
    pub(super) fn of_repeats(repeats: &[Self]) -> Self {
        let mut all = Self { good: repeats.iter().map(|repeat| repeat.good).sum(), ..Self::default() };
        for (why, times) in repeats.iter().flat_map(|repeat| &repeat.failures) {
            all.fail(why, *times);
        }
        let figures: BTreeSet<StreamFigure> =
            repeats.iter().flat_map(|repeat| repeat.values.keys().copied()).collect();
        for figure in figures {
            let mut values: Vec<f64> = repeats.iter().filter_map(|repeat| repeat.get(figure)).collect();
            all.set(figure, median(&mut values));
        }
        all
    }

    pub(super) fn json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("good".into(), json!(self.good));
        fields.insert("failed".into(), json!(self.failed));
        fields.insert("failures".into(), json!(self.failures));
        fields.extend(
            self.values.iter().map(|(figure, value)| (figure.label().field.to_owned(), json!(value))),
        );
        Value::Object(fields)
    }
}

/// The least value that this share of all values does not exceed.
pub(super) fn percentile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

/// The value in the middle, or between the two in the middle.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get(values.len().saturating_sub(1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.5), Some(100.0));
        assert_eq!(percentile(&mut values, 0.99), Some(198.0));
        assert_eq!(percentile(&mut values, 1.0), Some(200.0));
        assert_eq!(percentile(&mut [7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&mut [], 0.5), None);
    }

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn repeats_are_joined_by_the_median_and_failures_are_added_up() {
        let repeat = |cpu, failed| {
            let mut figures = ServerFigures { good: 5, ..ServerFigures::default() };
            figures.set(StreamFigure::CpuPerRun, Some(cpu));
            figures.fail("late", failed);
            figures
        };
        let all = ServerFigures::of_repeats(&[repeat(1.0, 0), repeat(9.0, 2), repeat(2.0, 1)]);
        assert_eq!((all.good, all.failed, all.get(StreamFigure::CpuPerRun)), (15, 3, Some(2.0)));
        assert_eq!(all.failures, BTreeMap::from([("late".to_owned(), 3)]));
    }
}
