//! The outcome of a trial, in one file that people and programs read: `summary.json`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::oracle::{Facts, Guard, TrialPlan, is_kill, must_have};
use crate::record::{Micros, Op, OperationOutcome, Trial, Violation, What};
use crate::stage::TortureError;

const UNKNOWN: &str = "unknown";

/// The setting of a trial beside its records.
#[derive(Debug, Clone)]
pub(crate) struct TrialSetting {
    pub(crate) seed: u64,
    pub(crate) rounds: usize,
    pub(crate) plan: TrialPlan,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrialSummary {
    seed: u64,
    commit: String,
    rustc: String,
    store: &'static str,
    nodes: usize,
    minutes: f64,
    rounds: usize,
    kills: usize,
    kills_by_trigger: BTreeMap<String, usize>,
    /// Deltas that clients have seen and that were lost with PostgreSQL and the server together.
    lost_deltas: usize,
    operations: Outcomes,
    operations_by_kind: BTreeMap<&'static str, Outcomes>,
    runs: usize,
    runs_by_status: BTreeMap<&'static str, usize>,
    recovery: Spread,
    resume: Spread,
    cancel_to_upstream_closed: Spread,
    /// How often a node went on with the runs of another.
    take_overs: usize,
    /// How often a node found that it was taken for dead.
    fenced_nodes: usize,
    /// Requests about a live run that another node than that of the run served.
    requests_at_other_nodes: usize,
    /// From the end of a node, or its pause, to the next event of each run that it was busy with.
    node_lost_to_next_event: Spread,
    must_have: BTreeMap<&'static str, Guard>,
    violations: usize,
    violation_list: Vec<Violation>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Outcomes {
    ok: usize,
    fail: usize,
    unknown: usize,
    total: usize,
}

impl Outcomes {
    fn add(&mut self, outcome: OperationOutcome) {
        self.total += 1;
        match outcome {
            OperationOutcome::Ok => self.ok += 1,
            OperationOutcome::Fail => self.fail += 1,
            OperationOutcome::Unknown => self.unknown += 1,
        }
    }
}

/// Milliseconds; null where there was nothing to measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Spread {
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
    count: usize,
}

impl Spread {
    /// Of times in microseconds, the shortest first.
    fn of(times: &[Micros]) -> Self {
        let millis = |time: &Micros| *time as f64 / 1000.0;
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).map(millis)
        };
        Self { p50: at(50), p99: at(99), max: times.last().map(millis), count: times.len() }
    }
}

impl TrialSummary {
    pub(crate) fn new(
        setting: &TrialSetting,
        trial: &Trial,
        facts: &Facts,
        violations: Vec<Violation>,
    ) -> Self {
        let kills = || trial.blows.iter().filter(|blow| is_kill(blow.trigger));
        let mut kills_by_trigger = BTreeMap::new();
        for blow in kills() {
            *kills_by_trigger.entry(serialized_name(blow.trigger)).or_default() += 1;
        }
        let (mut operations, mut operations_by_kind) = (Outcomes::default(), BTreeMap::new());
        for op in &trial.ops {
            operations.add(op.outcome);
            operations_by_kind.entry(kind(op)).or_insert_with(Outcomes::default).add(op.outcome);
        }
        Self {
            seed: setting.seed,
            commit: output_of("git", &["rev-parse", "HEAD"]),
            rustc: output_of("rustc", &["--version"]),
            store: setting.plan.store.name(),
            nodes: setting.plan.nodes,
            minutes: setting.plan.minutes,
            rounds: setting.rounds,
            kills: kills().count(),
            kills_by_trigger,
            lost_deltas: facts.lost_deltas,
            operations,
            operations_by_kind,
            runs: facts.runs.values().sum(),
            runs_by_status: facts.runs.clone(),
            recovery: Spread::of(&facts.recovery),
            resume: Spread::of(&facts.resume),
            cancel_to_upstream_closed: Spread::of(&facts.closing),
            take_overs: facts.nodes.take_overs,
            fenced_nodes: facts.nodes.fenced,
            requests_at_other_nodes: facts.nodes.elsewhere,
            node_lost_to_next_event: Spread::of(&facts.nodes.goes_on),
            must_have: must_have(trial, facts, &setting.plan),
            violations: violations.len(),
            violation_list: violations,
        }
    }

    /// Writes `summary.json` into the folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), TortureError> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(folder.join("summary.json"), text + "\n")?;
        Ok(())
    }
}

/// As it is called in the records.
fn serialized_name(trigger: impl Serialize) -> String {
    let name = serde_json::to_value(trigger).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or(UNKNOWN).to_owned()
}

fn kind(op: &Op) -> &'static str {
    match op.what {
        What::Send { .. } => "send",
        What::Cancel { .. } => "cancel",
        What::Decide { .. } => "decide",
        What::Undo { .. } => "undo",
        What::Remember { .. } => "remember",
        What::Edit { .. } => "edit",
        What::Forget { .. } => "forget",
        What::Search { .. } => "search",
        What::DeleteThread { .. } => "deleteThread",
        What::Read { .. } => "read",
    }
}

/// The first line that a program prints.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    text.lines().next().filter(|line| !line.is_empty()).unwrap_or(UNKNOWN).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::TrialStore;
    use crate::record::{Blow, Trigger};

    #[test]
    fn times_are_spread_by_rank() {
        assert_eq!(Spread::of(&[]), Spread::default());
        let times: Vec<Micros> = (1..=100).map(|time| time * 1000).collect();
        let spread = Spread::of(&times);
        assert_eq!((spread.p50, spread.p99, spread.max), (Some(50.0), Some(99.0), Some(100.0)));
        let one = Spread::of(&[1500]);
        assert_eq!((one.p50, one.p99, one.max, one.count), (Some(1.5), Some(1.5), Some(1.5), 1));
    }

    #[test]
    fn the_file_has_the_names_that_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let blow = |trigger| Blow::to_node(0, trigger, 0);
        let blows = vec![blow(Trigger::Random), blow(Trigger::ToolArrived), blow(Trigger::DiskFull)];
        let trial = Trial { blows, ..Trial::default() };
        let facts = Facts { runs: BTreeMap::from([("completed", 3), ("failed", 1)]), ..Facts::default() };
        let plan = TrialPlan { minutes: 5.0, kills: 2, disk: true, store: TrialStore::Sqlite, nodes: 1 };
        let setting = TrialSetting { seed: 42, rounds: 1, plan };
        let violations = vec![Violation { check: "O1", what: "x".into() }];
        TrialSummary::new(&setting, &trial, &facts, violations).write(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join("summary.json")).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        for name in ["seed", "commit", "rustc", "operations", "recovery", "resume", "mustHave", "rounds"] {
            assert!(!read[name].is_null(), "{name}: {text}");
        }
        assert_eq!((&read["kills"], &read["runs"], &read["violations"]), (&2.into(), &4.into(), &1.into()));
        assert_eq!(read["killsByTrigger"]["toolArrived"], 1);
        assert_eq!(read["mustHave"]["kills"]["need"], 2);
        assert_eq!(read["violationList"][0]["check"], "O1");
        assert!(read["resume"]["p99"].is_null(), "nothing was resumed");
    }
}
