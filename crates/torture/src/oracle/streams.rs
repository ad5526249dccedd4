//! O5: what readers received is what the log holds, byte for byte, from where they began, without a gap.

use std::collections::HashMap;

use protocol::Kind;

use crate::record::{End, ReceivedEvent, StreamReading, Violation};

use super::case::{Case, violation};
use super::log::{BodyHash, LoggedEvent, LoggedRun, RowId, Thread, hex, id, unhex};

/// Sent, never stored: where a run stands, for a reader whose place in the log is gone.
const SNAPSHOT: &str = "snapshot";

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let mut streams = Streams::new(case);
    let mut found = Vec::new();
    for reading in &case.trial.readings {
        if let Some(what) = streams.of_reading(reading) {
            found.push(violation("O5", format!("{what} ({})", reading_name(reading))));
        }
    }
    found.extend(case.log.threads.iter().filter(|(_, thread)| !thread.deleted).flat_map(of_thread));
    let kept = case.log.runs.iter().filter(|(_, run)| !case.log.is_gone(&run.thread));
    found.extend(kept.filter_map(|(id, run)| streams.without_end(id, run)));
    found
}

struct Streams<'a> {
    case: &'a Case<'a>,
    /// The events of each run, by their places in its thread.
    of_run: HashMap<RowId, Vec<&'a LoggedEvent>>,
    /// The bodies that readers saw of threads and of events that are gone.
    gone: HashMap<(RowId, u64), BodyHash>,
}

impl<'a> Streams<'a> {
    fn new(case: &'a Case<'a>) -> Self {
        let mut of_run: HashMap<RowId, Vec<&'a LoggedEvent>> = HashMap::new();
        for event in case.log.threads.values().flat_map(|thread| &thread.events) {
            if let Some(run) = event.run {
                of_run.entry(run).or_default().push(event);
            }
        }
        Self { case, of_run, gone: HashMap::new() }
    }

    /// Returns the fault in what one connection has received.
    fn of_reading(&mut self, reading: &StreamReading) -> Option<String> {
        let run = reading.run.as_deref().and_then(id);
        let thread = reading.thread.as_deref().and_then(id);
        let thread = thread.or_else(|| run.and_then(|run| self.case.thread_of(&run)));
        if reading.frames.is_empty() && reading.status != 204 && reading.end != End::Whole {
            return None; // it has received nothing, so nothing wrong either
        }
        let Some(thread) = thread else { return Some("it is of no thread that anybody knows".into()) };
        if self.case.is_deleted(&thread) {
            return self.of_gone(thread, &reading.frames);
        }
        let (frames, after) = match self.kept_frames(thread, reading) {
            Ok(kept) => kept,
            Err(complaint) => return Some(complaint),
        };
        let all;
        let log: &[&LoggedEvent] = if let Some(run) = run {
            self.of_run.get(&run).map(Vec::as_slice).unwrap_or_default()
        } else {
            all = self.all(&thread);
            &all
        };
        let begin = log.partition_point(|event| event.seq <= after);
        let expected = log.get(begin..).unwrap_or_default();
        if reading.status == 204 {
            return (!expected.is_empty())
                .then(|| format!("it was told that all is read, and {} are left", expected.len()));
        }
        let pruned = run.and_then(|run| self.case.log.runs.get(&run)).is_some_and(|run| run.pruned);
        if pruned {
            return None;
        }
        first_difference(&frames, expected).or_else(|| self.ends_early(reading, run, (&frames, expected)))
    }

    /// Returns the events of a reading that the log must still have, and the event after which it begins. After a crash
    /// that has lost events, these are gone, and a reader who comes back to one of them is told where the run stands.
    fn kept_frames<'f>(
        &mut self,
        thread: RowId,
        reading: &'f StreamReading,
    ) -> Result<(Vec<&'f ReceivedEvent>, u64), String> {
        let (lost, kept): (Vec<_>, Vec<_>) =
            reading.frames.iter().partition(|frame| self.case.is_lost(&thread, frame));
        if let Some(complaint) = self.of_gone(thread, lost) {
            return Err(complaint);
        }
        let after = reading.after.unwrap_or(0);
        match kept.split_first() {
            Some((first, rest)) if first.event == SNAPSHOT && self.case.is_skipped(&thread, after) => {
                Ok((rest.to_vec(), first.seq))
            }
            _ => Ok((kept, after)),
        }
    }

    /// A run that has ended says so, with its last event.
    fn without_end(&self, id: &RowId, run: &LoggedRun) -> Option<Violation> {
        let last = self.of_run.get(id).and_then(|events| events.last());
        let says = last.is_some_and(|last| last.kind == Some(Kind::RunEnd) && Some(last.seq) == run.end);
        let wrongly = run.status.is_terminal() && !says;
        wrongly.then(|| violation("O5", format!("run {} has ended, and its last event is {last:?}", hex(id))))
    }

    fn all(&self, thread: &RowId) -> Vec<&'a LoggedEvent> {
        self.case.log.threads.get(thread).map(|thread| thread.events.iter().collect()).unwrap_or_default()
    }

    /// Nothing is left to compare with but what others saw.
    fn of_gone<'f>(
        &mut self,
        thread: RowId,
        frames: impl IntoIterator<Item = &'f ReceivedEvent>,
    ) -> Option<String> {
        let mut complaint = None;
        for frame in frames {
            let mut hash = BodyHash::default();
            unhex(&frame.hash, &mut hash);
            let first = *self.gone.entry((thread, frame.seq)).or_insert(hash);
            if first != hash {
                complaint = Some(format!("event {} was seen with two contents", frame.seq));
            }
        }
        complaint
    }

    /// Whether the server ended the stream of a run before its end, and not because it was ending itself.
    fn ends_early(
        &self,
        reading: &StreamReading,
        run: Option<RowId>,
        (frames, expected): (&[&ReceivedEvent], &[&LoggedEvent]),
    ) -> Option<String> {
        let early = reading.end == End::Whole && run.is_some() && frames.len() < expected.len();
        let hit = self.case.is_down(reading.node, reading.ended, reading.ended);
        let left = expected.len().saturating_sub(frames.len());
        (early && !hit).then(|| format!("the server ended it with {left} events left"))
    }
}

/// The first difference of what was received and what the log has from there.
fn first_difference(frames: &[&ReceivedEvent], expected: &[&LoggedEvent]) -> Option<String> {
    for (place, frame) in frames.iter().enumerate() {
        let Some(stored) = expected.get(place) else {
            return Some(format!("event {} {:?} is not in the log", frame.seq, frame.event));
        };
        if frame.event == SNAPSHOT {
            return Some(format!("it got a snapshot where the log has event {}", stored.seq));
        }
        if frame.seq != stored.seq {
            return Some(format!("it got event {} where the log has {}", frame.seq, stored.seq));
        }
        if stored.kind.is_some_and(|kind| kind.name() != frame.event) {
            return Some(format!("event {} came as {:?} and is {:?}", frame.seq, frame.event, stored.kind));
        }
        let mut hash = BodyHash::default();
        if !unhex(&frame.hash, &mut hash) || hash != stored.hash {
            return Some(format!("event {} {:?} has another content in the log", frame.seq, frame.event));
        }
    }
    None
}

/// Every run of the thread that has ended says so once, with its last event.
fn of_thread((id, thread): (&RowId, &Thread)) -> Vec<Violation> {
    let mut ended: HashMap<RowId, u64> = HashMap::new();
    let mut found = Vec::new();
    for event in &thread.events {
        let Some(run) = event.run else { continue };
        if let Some(end) = ended.get(&run) {
            let place = format!("event {} of thread {}", event.seq, hex(id));
            found.push(violation("O5", format!("{place} comes after run:end {end} of run {}", hex(&run))));
        }
        if event.kind == Some(Kind::RunEnd) {
            ended.insert(run, event.seq);
        }
    }
    found
}

fn reading_name(reading: &StreamReading) -> String {
    let of = reading.run.as_ref().or(reading.thread.as_ref());
    let after = reading.after.map_or_else(|| "the beginning".to_owned(), |after| after.to_string());
    format!("actor {} reading {of:?} after {after}, begun at {} µs", reading.actor, reading.began)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::log::StoredLog;
    use crate::oracle::tests::sample::{self, RUN};
    use protocol::RunStatus;

    use crate::record::{Blow, Op, Trial, Trigger, What};

    fn found(change: impl FnOnce(&mut Trial, &mut StoredLog)) -> Vec<String> {
        let (mut trial, mut log) = sample::good();
        change(&mut trial, &mut log);
        check(&Case::new(&trial, &log)).into_iter().map(|violation| violation.what).collect()
    }

    fn one(change: impl FnOnce(&mut Trial, &mut StoredLog), part: &str) {
        let found = found(change);
        assert!(matches!(found.as_slice(), [what] if what.contains(part)), "{part}: {found:?}");
    }

    #[test]
    fn a_whole_reading_and_its_resumption_are_right() {
        assert_eq!(found(|_, _| {}), Vec::<String>::new());
        let resumed = |trial: &mut Trial, _: &mut StoredLog| {
            let reading = &mut trial.readings[0];
            reading.after = Some(reading.frames[1].seq);
            reading.frames.drain(..2);
        };
        assert_eq!(found(resumed), Vec::<String>::new());
        let cut = |trial: &mut Trial, _: &mut StoredLog| {
            trial.readings[0].frames.truncate(2);
            trial.readings[0].end = End::Cut;
        };
        assert_eq!(found(cut), Vec::<String>::new());
    }

    #[test]
    fn gaps_doubles_and_other_contents_are_found() {
        one(|trial, _| drop(trial.readings[0].frames.remove(1)), "where the log has 2");
        one(
            |trial, _| {
                let again = trial.readings[0].frames[1].clone();
                trial.readings[0].frames.insert(1, again);
            },
            "it got event 2 where the log has 3",
        );
        one(|trial, _| trial.readings[0].frames[1].hash = "00".repeat(32), "another content");
        one(|trial, _| trial.readings[0].frames[1].event = "run:end".into(), "came as");
        one(|trial, _| trial.readings[0].frames[0].event = SNAPSHOT.into(), "snapshot");
    }

    #[test]
    fn what_was_seen_and_is_not_in_the_log_is_found() {
        one(
            |_, log| {
                let thread = log.threads.get_mut(&sample::THREAD).unwrap();
                thread.events.pop();
                log.runs.get_mut(&RUN).unwrap().status = RunStatus::Running;
            },
            "is not in the log",
        );
    }

    /// Event 2 is a delta that a reader has seen and that is gone. Its number is left out.
    fn lost(trial: &mut Trial, log: &mut StoredLog) {
        trial.readings[0].frames[1].event = Kind::TextDelta.name().into();
        let thread = log.threads.get_mut(&sample::THREAD).unwrap();
        thread.events.remove(1);
        thread.skipped.push((2, 2));
    }

    fn crash(trial: &mut Trial, trigger: Trigger) {
        trial.blows.push(Blow { ready: Some(1), ..Blow::to_all(trigger, 0) });
    }

    #[test]
    fn a_crash_of_the_database_may_lose_deltas_and_nothing_else() {
        one(lost, "where the log has 3");
        let crashed = |trial: &mut Trial, log: &mut StoredLog| {
            lost(trial, log);
            crash(trial, Trigger::DatabaseCrash);
        };
        assert_eq!(found(crashed), Vec::<String>::new());
        one(
            |trial, log| {
                lost(trial, log);
                crash(trial, Trigger::DatabaseRestart);
            },
            "where the log has 3",
        );
        one(
            |trial, log| {
                crashed(trial, log);
                trial.readings[0].frames[1].event = Kind::StepEnd.name().into();
            },
            "where the log has 3",
        );
        one(
            |trial, log| {
                crashed(trial, log);
                log.threads.get_mut(&sample::THREAD).unwrap().skipped.clear();
            },
            "where the log has 3",
        );
        one(
            |trial, log| {
                crashed(trial, log);
                trial.readings.push(trial.readings[0].clone());
                trial.readings[1].frames[1].hash = "11".repeat(32);
            },
            "two contents",
        );
    }

    #[test]
    fn whoever_comes_back_to_a_lost_event_is_told_where_the_run_stands() {
        let told = |trial: &mut Trial, log: &mut StoredLog| {
            lost(trial, log);
            crash(trial, Trigger::BackendKill);
            let reading = &mut trial.readings[0];
            reading.after = Some(2);
            reading.frames.remove(0);
            reading.frames[0].event = SNAPSHOT.into();
        };
        assert_eq!(found(told), Vec::<String>::new());
        one(
            |trial, log| {
                told(trial, log);
                trial.readings[0].after = Some(1);
            },
            "it got a snapshot where the log has event 3",
        );
    }

    #[test]
    fn a_stream_that_ends_early_is_found_unless_the_server_ended() {
        let early = |trial: &mut Trial| trial.readings[0].frames.truncate(2);
        one(|trial, _| early(trial), "events left");
        let told = |trial: &mut Trial, _: &mut StoredLog| {
            early(trial);
            trial.blows.push(Blow::to_node(0, Trigger::Term, 25_000));
        };
        assert_eq!(found(told), Vec::<String>::new());
        one(
            |trial, _| {
                early(trial);
                trial.blows.push(Blow::to_node(1, Trigger::Term, 25_000));
            },
            "events left",
        );
    }

    #[test]
    fn being_told_that_all_is_read_must_be_true() {
        let told = |after: u64| {
            move |trial: &mut Trial, _: &mut StoredLog| {
                let reading = &mut trial.readings[0];
                (reading.status, reading.after, reading.end) = (204, Some(after), End::None);
                reading.frames.clear();
            }
        };
        one(told(2), "are left");
        assert_eq!(found(told(sample::LAST)), Vec::<String>::new());
    }

    #[test]
    fn a_run_that_has_ended_says_so() {
        let silent = |trial: &mut Trial, log: &mut StoredLog| {
            trial.readings.clear();
            log.threads.get_mut(&sample::THREAD).unwrap().events.pop();
        };
        one(silent, "has ended, and its last event is");
        let gone = |trial: &mut Trial, log: &mut StoredLog| {
            silent(trial, log);
            log.threads.get_mut(&sample::THREAD).unwrap().deleted = true;
        };
        assert_eq!(found(gone), Vec::<String>::new());
    }

    #[test]
    fn of_a_deleted_thread_all_have_seen_the_same() {
        let delete = |trial: &mut Trial, log: &mut StoredLog| {
            log.threads.clear();
            log.runs.clear();
            let what = What::DeleteThread { thread: sample::wire("thr", &sample::THREAD) };
            let op = Op { what, ..trial.ops[0].clone() };
            trial.ops.push(op);
            trial.readings.push(trial.readings[0].clone());
        };
        assert_eq!(found(delete), Vec::<String>::new());
        let other = |trial: &mut Trial, log: &mut StoredLog| {
            delete(trial, log);
            trial.readings[1].frames[1].hash = "11".repeat(32);
        };
        one(other, "two contents");
    }

    #[test]
    fn nothing_comes_after_the_end_of_a_run() {
        one(
            |trial, log| {
                trial.readings.clear();
                let thread = log.threads.get_mut(&sample::THREAD).unwrap();
                let last = LoggedEvent { seq: sample::LAST + 1, run: Some(RUN), ..thread.events[0].clone() };
                thread.events.push(last);
                log.runs.get_mut(&RUN).unwrap().status = RunStatus::Running;
            },
            "comes after run:end",
        );
    }
}
