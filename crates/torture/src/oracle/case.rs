//! A trial beside what the database says of it, and the few things that can be known only of both together.

use std::collections::{HashMap, HashSet};

use protocol::Kind;

use crate::record::{Blow, Micros, Op, OperationOutcome, ReceivedEvent, Trial, Trigger, Violation, What};

use super::log::{LoggedRun, RowId, StoredLog, id};

/// Microseconds by which times of the database are coarser than those of the trial: they are milliseconds, taken when a
/// commit begins.
pub(super) const COARSE: Micros = 5_000;

/// A server that is told to end is gone after this many microseconds at most.
const LONGEST_STOP: Micros = 35_000_000;

/// Microseconds in which a server has connections again after its database is back.
const RETURN: Micros = 1_000_000;

/// Microseconds in which one of several nodes has connections again, as it may find that it was taken for dead.
const RETURN_OF_NODE: Micros = 5_000_000;

/// Milliseconds by which the clock of one node may be ahead, and which no trial lasts.
const AHEAD: i64 = 3_600_000;

pub(super) struct Case<'a> {
    pub(super) trial: &'a Trial,
    pub(super) log: &'a StoredLog,
    /// Threads that a client asked to delete, with any answer.
    pub(super) deleted: HashSet<RowId>,
    /// Runs that a client asked to cancel, with any answer.
    pub(super) cancelled: HashSet<RowId>,
    /// The thread of each run that a sender was told.
    thread_of: HashMap<RowId, RowId>,
    /// The operation that sent the message of a tag.
    senders: HashMap<&'a str, &'a Op>,
    /// Microseconds to take from a time of the database to get one of the trial.
    skew: i64,
    /// When the first run was made, by the clock of the database.
    first: i64,
}

impl<'a> Case<'a> {
    pub(super) fn new(trial: &'a Trial, log: &'a StoredLog) -> Self {
        let first = log.runs.values().map(|run| run.created_at).min().unwrap_or_default();
        let mut case = Self {
            trial,
            log,
            deleted: HashSet::new(),
            cancelled: HashSet::new(),
            thread_of: HashMap::new(),
            senders: HashMap::new(),
            skew: clock_skew(trial, log, first),
            first,
        };
        for op in &trial.ops {
            case.note(op);
        }
        case
    }

    fn note(&mut self, op: &'a Op) {
        match &op.what {
            What::Send { tag, runs, threads, .. } => {
                self.senders.insert(tag, op);
                let told = runs.iter().zip(threads).filter_map(|(run, thread)| Some((id(run)?, id(thread)?)));
                self.thread_of.extend(told);
            }
            What::Cancel { run, .. } => self.cancelled.extend(id(run)),
            What::DeleteThread { thread } => self.deleted.extend(id(thread)),
            What::Decide { .. }
            | What::Undo { .. }
            | What::Remember { .. }
            | What::Edit { .. }
            | What::Forget { .. }
            | What::Search { .. }
            | What::Read { .. } => {}
        }
    }

    pub(super) fn sender(&self, tag: &str) -> Option<&'a Op> {
        self.senders.get(tag).copied()
    }

    /// The thread of a run, as the database says or, where it is gone, as its sender was told.
    pub(super) fn thread_of(&self, run: &RowId) -> Option<RowId> {
        let stored = self.log.runs.get(run).map(|run| run.thread);
        stored.or_else(|| self.thread_of.get(run).copied())
    }

    /// Whether a client asked to delete it, and it is gone.
    pub(super) fn is_deleted(&self, thread: &RowId) -> bool {
        self.deleted.contains(thread) && self.log.is_gone(thread)
    }

    /// When that was, by the clock of the trial.
    pub(super) fn trial_time(&self, at: i64) -> Micros {
        let at = without_lead(at, self.first);
        u64::try_from(at.saturating_mul(1000).saturating_sub(self.skew)).unwrap_or(0)
    }

    /// Whether a node was stopped between two times, or was without its database.
    pub(super) fn is_hit(&self, from: Micros, until: Micros) -> bool {
        let is_hit = |blow: &Blow| match time_away(blow) {
            Some((begin, end)) => begin <= until && from <= end,
            None => is_kill(blow.trigger) && (from..=until).contains(&blow.at),
        };
        self.trial.blows.iter().any(is_hit)
    }

    /// Whether a node was ending, gone, starting, paused, or without its database at some time between two. If the node
    /// is not known, any will do.
    pub(super) fn is_down(&self, node: Option<usize>, from: Micros, until: Micros) -> bool {
        let felt = |blow: &&Blow| node.is_none() || blow.node.is_none() || blow.node == node;
        let down = |blow: &Blow| {
            let end = blow.ready.unwrap_or(blow.at + LONGEST_STOP) + COARSE;
            let is_gone = is_kill(blow.trigger) && blow.at <= until + COARSE && from <= end;
            is_gone || time_away(blow).is_some_and(|(begin, end)| begin <= until && from <= end)
        };
        self.trial.blows.iter().filter(felt).any(down)
    }

    /// Whether a node lived on and could not hear of what others did, at some time between two.
    pub(super) fn is_absent(&self, node: usize, from: Micros, until: Micros) -> bool {
        let felt = self.trial.blows.iter().filter(|blow| blow.node.is_none_or(|other| other == node));
        felt.filter_map(time_away).any(|(begin, end)| begin <= until && from <= end)
    }

    /// Whether the database was away at some time between two.
    pub(super) fn is_without_database(&self, from: Micros, until: Micros) -> bool {
        let away = self.trial.blows.iter().filter(|blow| is_of_database(blow.trigger));
        away.filter_map(time_away).any(|(begin, end)| begin <= until && from <= end)
    }

    /// Whether there is more than one node.
    pub(super) fn is_of_several(&self) -> bool {
        self.trial.blows.iter().any(|blow| blow.node.is_some_and(|node| node > 0))
            || self.trial.asked.iter().any(|asked| asked.node > 0)
    }

    /// Whether an event that a reader has seen may be lost: it is a delta, PostgreSQL has crashed, the process ended
    /// with it, and the next start has left out its number.
    pub(super) fn is_lost(&self, thread: &RowId, event: &ReceivedEvent) -> bool {
        let is_delta = Kind::parse(&event.event).is_some_and(Kind::is_delta);
        let has_crashed = self.trial.blows.iter().any(|blow| force_of(blow.trigger) == Force::Loss);
        is_delta && has_crashed && self.is_skipped(thread, event.seq)
    }

    /// Whether the number was left out after a crash.
    pub(super) fn is_skipped(&self, thread: &RowId, seq: u64) -> bool {
        let skipped = self.log.threads.get(thread).map(|thread| thread.skipped.as_slice());
        skipped.unwrap_or_default().iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// Cancels that were acknowledged, with their time, their run and what it was then.
    pub(super) fn cancels(&self) -> impl Iterator<Item = (Micros, &'a LoggedRun, Option<&'a str>)> {
        let (trial, log) = (self.trial, self.log);
        trial.ops.iter().filter(|op| op.outcome == OperationOutcome::Ok).filter_map(move |op| {
            let What::Cancel { run, status } = &op.what else { return None };
            Some((op.answered.unwrap_or(op.ended), log.runs.get(&id(run)?)?, status.as_deref()))
        })
    }
}

/// The force of a blow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Force {
    /// The blow ends the process.
    Kill,
    /// The blow takes the database away.
    Outage,
    /// The blow takes the database away, with commits that are not in its log yet.
    Loss,
    /// The blow keeps one node from everything, or from its database.
    Absence,
    /// The blow makes work harder.
    Trouble,
}

fn force_of(trigger: Trigger) -> Force {
    match trigger {
        Trigger::Random
        | Trigger::CallWritten
        | Trigger::ToolArrived
        | Trigger::ToolReplied
        | Trigger::Accepted
        | Trigger::CancelAccepted
        | Trigger::RunEnded
        | Trigger::Recovering
        | Trigger::NodeDown
        | Trigger::AllNodes
        | Trigger::RollingRestart
        | Trigger::Term => Force::Kill,
        Trigger::NodePaused | Trigger::NodeHiccup | Trigger::NodeCut => Force::Absence,
        Trigger::DatabaseRestart | Trigger::ConnectionLoss => Force::Outage,
        Trigger::DatabaseCrash | Trigger::BackendKill => Force::Loss,
        Trigger::DiskFull | Trigger::UpstreamBurst | Trigger::SlowReaders => Force::Trouble,
    }
}

/// Whether it ends the process.
pub(crate) fn is_kill(trigger: Trigger) -> bool {
    force_of(trigger) == Force::Kill
}

/// Whether it takes the database away.
pub(super) fn is_of_database(trigger: Trigger) -> bool {
    matches!(force_of(trigger), Force::Outage | Force::Loss)
}

/// Whether it keeps one node from everything, or from its database.
pub(super) fn is_absence(trigger: Trigger) -> bool {
    force_of(trigger) == Force::Absence
}

/// When the database was away, or a node was cut off from it, and the nodes had not connected again yet.
fn time_away(blow: &Blow) -> Option<(Micros, Micros)> {
    let back = match force_of(blow.trigger) {
        Force::Outage | Force::Loss => RETURN,
        Force::Absence => RETURN_OF_NODE,
        Force::Kill | Force::Trouble => return None,
    };
    Some((blow.at, blow.ready.unwrap_or(blow.at) + back))
}

/// A time of the database, without what the clock of its node was ahead.
fn without_lead(at: i64, first: i64) -> i64 {
    if at.saturating_sub(first) > AHEAD / 2 { at.saturating_sub(AHEAD) } else { at }
}

/// A message that was accepted at the first attempt was stored between its beginning and its answer, so each tells
/// something of the distance between the two clocks, and all together nearly everything.
fn clock_skew(trial: &Trial, log: &StoredLog, first: i64) -> i64 {
    let (mut least, mut most) = (i64::MIN, i64::MAX);
    for op in trial.ops.iter().filter(|op| op.outcome == OperationOutcome::Ok && op.attempts.len() == 1) {
        let What::Send { runs, .. } = &op.what else { continue };
        let run = runs.first().and_then(|run| id(run)).and_then(|run| log.runs.get(&run));
        let Some(created) = run.map(|run| without_lead(run.created_at, first).saturating_mul(1000)) else {
            continue;
        };
        let micros = |at: Micros| i64::try_from(at).unwrap_or(i64::MAX);
        least = least.max(created.saturating_sub(micros(op.answered.unwrap_or(op.ended))));
        most = most.min(created.saturating_add(999).saturating_sub(micros(op.began)));
    }
    match (least, most) {
        (i64::MIN, _) | (_, i64::MAX) => 0,
        (least, most) => i64::midpoint(least, most),
    }
}

pub(super) fn violation(check: &'static str, what: impl Into<String>) -> Violation {
    Violation { check, what: what.into() }
}
