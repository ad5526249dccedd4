//! O7: a run that was cancelled starts nothing more, closes its model call at once, and ends cancelled.

use std::collections::HashMap;

use protocol::RunStatus;

use crate::record::{Micros, ModelCallRecord, Violation};
use crate::stalls::held_up;

use super::case::{COARSE, Case, violation};
use super::log::{LoggedRun, RowId, id};

/// Requests that were on their way when the cancel was acknowledged have arrived this much later, apart from the time
/// during which this process was held up and could not read them.
const ON_ITS_WAY: Micros = 50_000;

/// How much later they may have arrived if another node than that of the run may have acknowledged it, and has to pass
/// it on.
const ON_ITS_WAY_BETWEEN_NODES: Micros = 400_000;

/// The longest that the model may be listened to after a cancel, and what nearly all must keep.
const LONGEST: Micros = 2_000_000;
const NEARLY_ALL: Micros = 250_000;
const NEARLY_ALL_BETWEEN_NODES: Micros = 750_000;

/// One of this number may take longer than nearly all.
const EXCEPTIONS: usize = 100;

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let asked = by_tag(case);
    let (on_its_way, nearly_all) = if case.is_of_several() {
        (ON_ITS_WAY_BETWEEN_NODES, NEARLY_ALL_BETWEEN_NODES)
    } else {
        (ON_ITS_WAY, NEARLY_ALL)
    };
    let mut found = Vec::new();
    for (at, run, status) in case.cancels() {
        let tell = |what: String| {
            violation("O7", format!("the run of message {:?}, cancelled at {at} µs, {what}", run.tag))
        };
        let mut complaints: Vec<String> = wrong_end(run, status).into_iter().collect();
        complaints.extend(started(case, at, run));
        if !is_over(status) {
            complaints.extend(step_begun(case, at, run));
            let of_run = run.tag.as_deref().and_then(|tag| asked.get(tag)).map(Vec::as_slice);
            let allowed = |began| at + on_its_way + held_up(&case.trial.stalls, at, began);
            let late = of_run.unwrap_or_default().iter().filter(|asked| asked.began > allowed(asked.began));
            // A node that was kept from everything could not hear of the cancel.
            let late = late.filter(|asked| !case.is_absent(asked.node, at, asked.began));
            complaints.extend(late.map(|asked| format!("asked the model at {} µs", asked.began)));
        }
        found.extend(complaints.into_iter().map(tell));
    }
    let times = closing_times(case);
    let slow = times.iter().filter(|time| **time > nearly_all).count();
    if slow > (times.len() / EXCEPTIONS).max(1) {
        let (all, most) = (times.len(), nearly_all / 1000);
        let what = format!("{slow} of {all} model calls were open for more than {most} ms after a cancel");
        found.push(violation("O7", what));
    }
    let longest = times.iter().filter(|time| **time > LONGEST);
    found.extend(
        longest.map(|time| violation("O7", format!("a model call was open for {time} µs after a cancel"))),
    );
    found
}

/// How long the model was listened to after each cancel, where it was, and where nothing else stopped the server.
pub(super) fn closing_times(case: &Case<'_>) -> Vec<Micros> {
    let asked = by_tag(case);
    let mut times = Vec::new();
    for (at, run, _) in case.cancels().filter(|(_, _, status)| !is_over(*status)) {
        let of_run = run.tag.as_deref().and_then(|tag| asked.get(tag)).map(Vec::as_slice);
        for asked in of_run.unwrap_or_default() {
            if asked.input_tokens == 0 && asked.closed.is_none() && asked.written.is_none() {
                continue; // the model broke it off itself
            }
            let end = asked.closed.into_iter().chain(asked.written).min().unwrap_or(Micros::MAX);
            if asked.began < at && end > at && !case.is_hit(at, end) {
                times.push(end - at);
            }
        }
    }
    times.sort_unstable();
    times
}

fn by_tag<'a>(case: &Case<'a>) -> HashMap<&'a str, Vec<&'a ModelCallRecord>> {
    let mut by_tag: HashMap<&str, Vec<&ModelCallRecord>> = HashMap::new();
    for asked in &case.trial.asked {
        if let Some(tag) = &asked.tag {
            by_tag.entry(tag).or_default().push(asked);
        }
    }
    by_tag
}

/// Whether the cancel came after the end of the run.
pub(super) fn is_over(status: Option<&str>) -> bool {
    status.and_then(RunStatus::parse).is_some_and(RunStatus::is_terminal)
}

/// A cancel that was accepted while the run was under way is how it ends.
fn wrong_end(run: &LoggedRun, status: Option<&str>) -> Option<String> {
    if is_over(status) {
        let changed = status != Some(run.status.name());
        return changed.then(|| format!("was {status:?} then and is {} now", run.status.name()));
    }
    (run.status != RunStatus::Cancelled).then(|| format!("is {}", run.status.name()))
}

/// Calls that began after the cancel and went out.
fn started(case: &Case<'_>, at: Micros, run: &LoggedRun) -> Vec<String> {
    let begun: HashMap<&RowId, Micros> = run
        .begun
        .iter()
        .map(|(call, begun)| (call, case.trial_time(*begun)))
        .filter(|(_, begun)| *begun > at + COARSE)
        .collect();
    if begun.is_empty() {
        return Vec::new();
    }
    let late = case.trial.arrivals.iter().filter(|arrival| arrival.at > at + ON_ITS_WAY);
    let late = late.filter(|arrival| id(&arrival.key).is_some_and(|call| begun.contains_key(&call)));
    late.map(|arrival| format!("called {} at {} µs", arrival.tool, arrival.at)).collect()
}

/// A step that the log began after the cancel.
fn step_begun(case: &Case<'_>, at: Micros, run: &LoggedRun) -> Option<String> {
    let mut begun = run.steps_begun.iter().map(|begun| case.trial_time(*begun));
    begun.find(|begun| *begun > at + COARSE).map(|begun| format!("began a step at {begun} µs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::log::StoredLog;
    use crate::oracle::tests::sample::{self, CALL, RUN};
    use crate::record::{Blow, Op, OperationOutcome, Stall, Trial, Trigger, What};

    /// The run is cancelled at 50 ms, while the model writes from 20 ms on.
    fn cancelled(status: &str) -> (Trial, StoredLog) {
        let (mut trial, mut log) = sample::good();
        let run = log.runs.get_mut(&RUN).unwrap();
        run.status = RunStatus::Cancelled;
        let what = What::Cancel { run: sample::wire("run", &RUN), status: Some(status.into()) };
        let answered = Some(50_000);
        trial.ops.push(Op { what, began: 40_000, ended: 50_000, answered, ..trial.ops[0].clone() });
        trial.asked[0].written = None;
        trial.asked[0].closed = Some(60_000);
        (trial, log)
    }

    fn found((trial, log): &(Trial, StoredLog)) -> Vec<String> {
        check(&Case::new(trial, log)).into_iter().map(|violation| violation.what).collect()
    }

    fn one(made: &(Trial, StoredLog), part: &str) {
        let found = found(made);
        assert!(matches!(found.as_slice(), [what] if what.contains(part)), "{part}: {found:?}");
    }

    fn run(log: &mut StoredLog) -> &mut LoggedRun {
        log.runs.get_mut(&RUN).unwrap()
    }

    #[test]
    fn a_cancelled_run_ends_so() {
        let made = cancelled("running");
        assert_eq!(found(&made), Vec::<String>::new());
        assert_eq!(closing_times(&Case::new(&made.0, &made.1)), [10_000]);
        let mut completed = cancelled("running");
        run(&mut completed.1).status = RunStatus::Completed;
        one(&completed, "is completed");
        let mut interrupted = cancelled("running");
        run(&mut interrupted.1).status = RunStatus::Interrupted;
        one(&interrupted, "is interrupted");
    }

    #[test]
    fn a_run_that_had_ended_stays_as_it_was() {
        let mut late = cancelled("completed");
        one(&late, "is cancelled now");
        run(&mut late.1).status = RunStatus::Completed;
        assert_eq!(found(&late), Vec::<String>::new());
    }

    #[test]
    fn nothing_starts_after_a_cancel() {
        let mut asked = cancelled("running");
        asked.0.asked.push(ModelCallRecord { began: 150_000, ..asked.0.asked[0].clone() });
        one(&asked, "asked the model");
        asked.0.stalls.push(Stall { from: 60_000, until: 105_000 });
        one(&asked, "asked the model");
        asked.0.stalls.push(Stall { from: 110_000, until: 120_000 });
        assert_eq!(found(&asked), Vec::<String>::new(), "it was read late");
        let mut begun = cancelled("running");
        run(&mut begun.1).steps_begun.push(sample::EPOCH + 60);
        one(&begun, "began a step");
        let mut called = cancelled("running");
        run(&mut called.1).begun.insert(CALL, sample::EPOCH + 200);
        called.0.arrivals[0].at = 201_000;
        one(&called, "called pay");
        called.0.arrivals[0].at = 90_000;
        assert_eq!(found(&called), Vec::<String>::new(), "it was on its way");
    }

    #[test]
    fn the_model_is_let_go_of_soon() {
        let mut slow = cancelled("running");
        slow.0.asked[0].closed = Some(50_000 + LONGEST + 1);
        one(&slow, "a model call was open for");
        slow.0.asked[0].closed = None;
        one(&slow, "a model call was open for");
        slow.0.blows.push(Blow::to_node(0, Trigger::Random, 55_000));
        assert_eq!(found(&slow), Vec::<String>::new(), "the server was not there");
        let mut often = cancelled("running");
        often.0.asked[0].closed = Some(50_000 + NEARLY_ALL + 1);
        assert_eq!(found(&often), Vec::<String>::new(), "one may be slow");
        often.0.asked.push(often.0.asked[0].clone());
        one(&often, "2 of 2 model calls");
    }

    #[test]
    fn a_cancel_that_nobody_acknowledged_promises_nothing() {
        let mut unknown = cancelled("running");
        run(&mut unknown.1).status = RunStatus::Completed;
        run(&mut unknown.1).steps.clear();
        one(&unknown, "is completed");
        unknown.0.ops.last_mut().unwrap().outcome = OperationOutcome::Unknown;
        assert_eq!(found(&unknown), Vec::<String>::new());
    }
}
