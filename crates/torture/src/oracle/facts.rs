//! Counts and measurements of a trial: for the summary, and for knowing that it was worth something.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use protocol::{RunStatus, ToolStatus};
use serde::Serialize;

use crate::record::{Micros, StreamReading};

use super::cancel::{closing_times, is_over};
use super::case::{COARSE, Case, is_kill};
use super::log::id;
use super::nodes::NodeFacts;

/// All of it is over the whole trial. Times are microseconds, the shortest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    pub(crate) runs: BTreeMap<&'static str, usize>,
    /// Cancels that ended their run, and those that came too late.
    pub(crate) cancels_won: usize,
    pub(crate) cancels_lost: usize,
    /// Results that are unknown.
    pub(crate) unknown_results: usize,
    /// Deltas that readers have seen and that were lost with the database and the process.
    pub(crate) lost_deltas: usize,
    /// From the start of a process to its first answer that it is ready.
    pub(crate) recovery: Vec<Micros>,
    /// From the request to the first event, where there was one to send.
    pub(crate) resume: Vec<Micros>,
    /// From the answer to a cancel until the model call was closed.
    pub(crate) closing: Vec<Micros>,
    pub(crate) nodes: NodeFacts,
}

impl Facts {
    /// The logs are what each node wrote of itself.
    pub(super) fn of(case: &Case<'_>, logs: &[PathBuf]) -> Self {
        let (lost_deltas, nodes) = (count_lost(case), NodeFacts::of(case, logs));
        let mut facts = Self { closing: closing_times(case), lost_deltas, nodes, ..Self::default() };
        for run in case.log.runs.values() {
            *facts.runs.entry(run.status.name()).or_default() += 1;
            let unknown = run.results.values().filter(|outcome| outcome.status == ToolStatus::Unknown);
            facts.unknown_results += unknown.count();
        }
        for (_, run, status) in case.cancels() {
            if run.status == RunStatus::Cancelled && !is_over(status) {
                facts.cancels_won += 1;
            } else if run.status == RunStatus::Completed {
                facts.cancels_lost += 1;
            }
        }
        let starts = case.trial.blows.iter().filter(|blow| is_kill(blow.trigger));
        facts.recovery = starts.filter_map(|blow| blow.ready?.checked_sub(blow.restarted?)).collect();
        facts.resume = case.trial.readings.iter().filter_map(|reading| resume_delay(case, reading)).collect();
        facts.recovery.sort_unstable();
        facts.resume.sort_unstable();
        facts
    }
}

fn count_lost(case: &Case<'_>) -> usize {
    let mut lost = HashSet::new();
    for reading in &case.trial.readings {
        let thread = reading.thread.as_deref().and_then(id);
        let run = reading.run.as_deref().and_then(id);
        let Some(thread) = thread.or_else(|| case.thread_of(&run?)) else { continue };
        let frames = reading.frames.iter().filter(|frame| case.is_lost(&thread, frame));
        lost.extend(frames.map(|frame| (thread, frame.seq)));
    }
    lost.len()
}

/// How long a reader that came back waited for an event that was there before it asked.
fn resume_delay(case: &Case<'_>, reading: &StreamReading) -> Option<Micros> {
    reading.after?;
    let (first, frame) = (reading.first?, reading.frames.first()?);
    let thread = reading.thread.as_deref().and_then(id);
    let thread = thread.or_else(|| case.thread_of(&id(reading.run.as_deref()?)?))?;
    let events = &case.log.threads.get(&thread)?.events;
    let place = events.binary_search_by_key(&frame.seq, |event| event.seq).ok()?;
    let was_there = case.trial_time(events.get(place)?.at) + COARSE < reading.began;
    was_there.then(|| first.saturating_sub(reading.began))
}
