//! O18: runs of a node that is gone continue elsewhere, soon, and two nodes never work at one run. The model knows
//! which node asked it, so it knows whose a run is.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use protocol::Kind;
use serde::Serialize;

use crate::record::{Blow, Micros, ModelCallRecord, OperationOutcome, Trigger, Violation, What};
use crate::stalls::held_up;

use super::case::{Case, is_kill, violation};
use super::log::{RowId, hex, id};

/// The line that a node writes when it continues the runs of another.
const TOOK_OVER: &str = "took over the runs of a node that is gone";

/// The line that a node writes when another went on with its runs.
const FENCED: &str = "the lease of this node ended; other nodes continue its runs";

/// The longest time from the end of a node to the next event of its runs.
const LONGEST: Micros = 15_000_000;

/// Events that were being committed when a node was lost are its own for this time.
const UNDER_WAY: Micros = 50_000;

/// How long before a second node begins the first may have been struck, so that it was taken for dead.
const STRUCK_BEFORE: Micros = 20_000_000;

/// The delay until a call that was given up is noticed.
const NOTICED: Micros = 500_000;

/// Counts and measurements of nodes. Times are microseconds, the shortest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeFacts {
    /// How often a node went on with the runs of another.
    pub(crate) take_overs: usize,
    /// How often a node found that it was taken for dead.
    pub(crate) fenced: usize,
    /// Requests about a live run that another node than that of the run served.
    pub(crate) elsewhere: usize,
    /// From the loss of a node to the next event of each run that it was busy with, where another node could continue
    /// them all the time.
    pub(crate) goes_on: Vec<Micros>,
}

impl NodeFacts {
    pub(super) fn of(case: &Case<'_>, logs: &[PathBuf]) -> Self {
        let work = Work::of(case);
        let mut goes_on: Vec<Micros> = work.losses().iter().map(Loss::length).collect();
        goes_on.sort_unstable();
        Self {
            take_overs: logs.iter().map(|log| count_lines(log, TOOK_OVER)).sum(),
            fenced: logs.iter().map(|log| count_lines(log, FENCED)).sum(),
            elsewhere: work.count_elsewhere(),
            goes_on,
        }
    }
}

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let work = Work::of(case);
    let late = work.losses().into_iter().filter(|loss| {
        let allowed = LONGEST + held_up(&case.trial.stalls, loss.at, loss.next);
        loss.length() > allowed
    });
    let late = late.map(|loss| {
        let Loss { node, at, run, .. } = loss;
        let (run, after) = (hex(&run), loss.length());
        violation(
            "O18",
            format!("node {node} was lost at {at} µs, and its run {run} went on after {after} µs"),
        )
    });
    late.chain(work.runs_of_two_nodes()).collect()
}

/// A run that a node was busy with when it was lost.
struct Loss {
    node: usize,
    at: Micros,
    run: RowId,
    /// When its next event was written.
    next: Micros,
}

impl Loss {
    fn length(&self) -> Micros {
        self.next.saturating_sub(self.at)
    }
}

/// The work of each node.
struct Work<'a> {
    case: &'a Case<'a>,
    /// Model calls for each message, in the order of time.
    calls: HashMap<&'a str, Vec<&'a ModelCallRecord>>,
    /// The run of each message.
    runs: HashMap<&'a str, RowId>,
    /// The times of each run's events.
    events: HashMap<RowId, Vec<Micros>>,
    /// When each run ended.
    ends: HashMap<RowId, Micros>,
    nodes: usize,
}

impl<'a> Work<'a> {
    fn of(case: &'a Case<'a>) -> Self {
        let asked = || case.trial.asked.iter();
        let struck = case.trial.blows.iter().filter_map(|blow| blow.node);
        let nodes = asked().map(|asked| asked.node).chain(struck).max().unwrap_or_default() + 1;
        let mut work = Self {
            case,
            calls: HashMap::new(),
            runs: HashMap::new(),
            events: HashMap::new(),
            ends: HashMap::new(),
            nodes,
        };
        for (asked, tag) in asked().filter_map(|asked| Some((asked, asked.tag.as_deref()?))) {
            work.calls.entry(tag).or_default().push(asked);
        }
        for (run, stored) in case.log.runs.iter().filter(|(_, run)| !case.log.is_gone(&run.thread)) {
            work.runs.extend(stored.tag.as_deref().map(|tag| (tag, *run)));
        }
        for event in case.log.threads.values().flat_map(|thread| &thread.events) {
            let (Some(run), at) = (event.run, case.trial_time(event.at)) else { continue };
            work.events.entry(run).or_default().push(at);
            if event.kind == Some(Kind::RunEnd) {
                work.ends.insert(run, at);
            }
        }
        work
    }

    /// Runs that a node was busy with when it was lost, where another node could continue them all the time.
    fn losses(&self) -> Vec<Loss> {
        if self.nodes < 2 {
            return Vec::new();
        }
        let blows = self.case.trial.blows.iter().filter(|blow| is_loss(blow.trigger));
        blows
            .filter_map(|blow| Some((blow.node?, blow)))
            .flat_map(|(node, blow)| self.of_blow(node, blow))
            .collect()
    }

    fn of_blow(&self, node: usize, blow: &Blow) -> Vec<Loss> {
        let at = blow.at;
        let is_busy = |asked: &&ModelCallRecord| {
            let until = end_of(asked);
            asked.node == node && asked.began < at && until.is_some_and(|until| until > at)
        };
        let tags = self.case.trial.asked.iter().filter(is_busy).filter_map(|asked| asked.tag.as_deref());
        let runs = tags.filter_map(|tag| self.runs.get(tag));
        let losses = runs.filter_map(|run| {
            let times = self.events.get(run)?.iter().copied();
            let next = times.filter(|time| *time > at + UNDER_WAY).min()?;
            Some(Loss { node, at, run: *run, next })
        });
        losses.filter(|loss| self.is_undisturbed(loss)).collect()
    }

    /// Whether another node was there all the time, with its database.
    fn is_undisturbed(&self, loss: &Loss) -> bool {
        let until = loss.next.min(loss.at + LONGEST);
        let mut others = (0..self.nodes).filter(|other| *other != loss.node);
        others.any(|other| !self.case.is_down(Some(other), loss.at, until))
            && !self.case.is_without_database(loss.at, until)
    }

    /// Runs at which two nodes worked at once, though nothing had happened to the first.
    fn runs_of_two_nodes(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for (tag, calls) in &self.calls {
            for pair in calls.windows(2) {
                let [one, other] = pair else { continue };
                let is_at_once = end_of(one).is_some_and(|end| end > other.began + NOTICED);
                let from = other.began.saturating_sub(STRUCK_BEFORE);
                let is_excused = self.case.is_down(Some(one.node), from, other.began);
                if one.node != other.node && is_at_once && !is_excused {
                    let nodes = format!("nodes {} and {}", one.node, other.node);
                    let times = format!("{} and {} µs", one.began, other.began);
                    let what = format!("{nodes} both asked the model for message {tag}, at {times}");
                    found.push(violation("O18", what));
                }
            }
        }
        found
    }

    fn count_elsewhere(&self) -> usize {
        let trial = self.case.trial;
        let readings = trial.readings.iter().filter(|reading| reading.status == 200);
        let readings = readings.map(|reading| (reading.run.as_deref(), reading.node, reading.began));
        let done = trial.ops.iter().filter(|op| op.outcome == OperationOutcome::Ok);
        let ops = done.filter_map(|op| match &op.what {
            What::Cancel { run, .. } | What::Decide { run, .. } => {
                Some((Some(run.as_str()), op.node, op.began))
            }
            What::Send { .. }
            | What::Undo { .. }
            | What::Remember { .. }
            | What::Edit { .. }
            | What::Forget { .. }
            | What::Search { .. }
            | What::DeleteThread { .. }
            | What::Read { .. } => None,
        });
        readings
            .chain(ops)
            .filter(|(run, node, at)| self.is_elsewhere(*run, *node, *at) == Some(true))
            .count()
    }

    /// Whether a request about a live run was served by another node than that of the run.
    fn is_elsewhere(&self, run: Option<&str>, node: Option<usize>, at: Micros) -> Option<bool> {
        let (run, node) = (id(run?)?, node?);
        let tag = self.case.log.runs.get(&run)?.tag.as_deref()?;
        let is_live = self.ends.get(&run).is_none_or(|end| *end > at);
        let calls = self.calls.get(tag)?;
        let last = calls.iter().rev().find(|asked| asked.began <= at).or(calls.first())?;
        Some(is_live && last.node != node)
    }
}

/// When a model call was over. None if the model broke it off itself.
fn end_of(asked: &ModelCallRecord) -> Option<Micros> {
    asked.closed.into_iter().chain(asked.written).min()
}

/// Whether it leaves the runs of a node to others.
fn is_loss(trigger: Trigger) -> bool {
    let is_graceful = matches!(trigger, Trigger::Term | Trigger::RollingRestart);
    trigger == Trigger::NodePaused || (is_kill(trigger) && !is_graceful)
}

fn count_lines(log: &Path, part: &str) -> usize {
    let Ok(file) = File::open(log) else { return 0 };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.filter(|line| String::from_utf8_lossy(line).contains(part)).count()
}

#[cfg(test)]
mod tests;
