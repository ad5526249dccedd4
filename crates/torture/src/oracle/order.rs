//! O8: the messages of a thread are in one order that agrees with when they were accepted, and one run answers at a
//! time.

use std::collections::{HashMap, HashSet};

use protocol::Kind;

use crate::record::{Micros, OperationOutcome, Violation, What};

use super::case::{Case, violation};
use super::log::{RowId, Thread, hex};

struct Sent<'a> {
    tag: &'a str,
    began: Micros,
    answered: Micros,
    seq: u64,
    /// The message may overtake what waits.
    urgent: bool,
}

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let mut by_thread: HashMap<RowId, Vec<Sent<'_>>> = HashMap::new();
    for op in case.trial.ops.iter().filter(|op| op.outcome == OperationOutcome::Ok) {
        let What::Send { tag, on_busy, .. } = &op.what else { continue };
        let Some([place]) = case.log.said.get(tag).map(Vec::as_slice) else { continue };
        let answered = op.answered.unwrap_or(op.ended);
        let urgent = on_busy.as_deref() == Some("interrupt");
        let sent = Sent { tag, began: op.began, answered, seq: place.seq, urgent };
        by_thread.entry(place.thread).or_default().push(sent);
    }
    let mut found: Vec<Violation> = by_thread.iter().flat_map(|(id, sent)| of_messages(id, sent)).collect();
    found.extend(case.log.threads.iter().filter(|(_, thread)| !thread.deleted).flat_map(of_runs));
    found
}

fn of_messages(thread: &RowId, sent: &[Sent<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for later in sent {
        let earlier = sent.iter().filter(|earlier| earlier.answered < later.began);
        let overtaken = earlier.filter(|earlier| earlier.urgent || !later.urgent);
        for earlier in overtaken.filter(|earlier| earlier.seq > later.seq) {
            let what = format!(
                "thread {}: message {} was accepted before {} was sent, and comes after it",
                hex(thread),
                earlier.tag,
                later.tag
            );
            found.push(violation("O8", what));
        }
    }
    found
}

/// Runs do not overlap, so answers are in the order of what they answer.
fn of_runs((id, thread): (&RowId, &Thread)) -> Vec<Violation> {
    let mut active: Option<RowId> = None;
    let mut begun: HashSet<RowId> = HashSet::new();
    let mut found = Vec::new();
    for event in &thread.events {
        let Some(run) = event.run else { continue };
        let begins = matches!(event.kind, Some(Kind::MessageUser | Kind::RunStart));
        let ends = event.kind == Some(Kind::RunEnd);
        let own = active == Some(run);
        // A run that is cancelled before its turn ends without having begun.
        let fits = own || (begins && active.is_none()) || (ends && !begun.contains(&run));
        if !fits {
            let place = format!("event {} of thread {}", event.seq, hex(id));
            let other = active.map(|run| hex(&run));
            found.push(violation(
                "O8",
                format!("{place} is of run {}, and {other:?} is under way", hex(&run)),
            ));
        }
        if begins {
            begun.insert(run);
            active = Some(run);
        } else if ends && own {
            active = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::log::{LoggedEvent, LoggedMessage, StoredLog};
    use crate::oracle::tests::sample::{self, RUN, THREAD};
    use crate::record::{Op, Trial};

    /// A second message in the same thread, sent after the first was accepted.
    fn two(seq: u64, began: Micros, on_busy: Option<&str>) -> Vec<Violation> {
        let (mut trial, mut log) = sample::good();
        let what = What::Send {
            tag: "t2".into(),
            thread: None,
            runs: Vec::new(),
            threads: Vec::new(),
            on_busy: on_busy.map(str::to_owned),
        };
        let op = Op { what, began, ended: began + 5, answered: Some(began + 5), ..trial.ops[0].clone() };
        trial.ops.push(op);
        log.said.insert("t2".into(), vec![LoggedMessage { thread: THREAD, run: None, seq }]);
        log.said.get_mut(sample::TAG).unwrap()[0].seq = 10;
        check(&Case::new(&trial, &log))
    }

    #[test]
    fn what_was_accepted_first_comes_first() {
        assert_eq!(two(11, 50_000, None), []);
        assert_eq!(two(9, 50_000, None).len(), 1);
        assert_eq!(two(9, 0, None), [], "they were sent at once");
        assert_eq!(two(9, 50_000, Some("interrupt")), [], "it may overtake");
    }

    fn overlapping(change: impl FnOnce(&mut Vec<LoggedEvent>)) -> usize {
        let (trial, mut log): (Trial, StoredLog) = sample::good();
        change(&mut log.threads.get_mut(&THREAD).unwrap().events);
        check(&Case::new(&trial, &log)).len()
    }

    #[test]
    fn one_run_works_at_a_time() {
        let other = |events: &[LoggedEvent], place: usize, kind| LoggedEvent {
            run: Some([7; 16]),
            kind: Some(kind),
            ..events[place].clone()
        };
        assert_eq!(overlapping(|_| {}), 0);
        assert_eq!(overlapping(|events| events.insert(2, other(events, 2, Kind::RunEnd))), 0, "never begun");
        assert_eq!(overlapping(|events| events.insert(2, other(events, 2, Kind::StepStart))), 1);
        assert!(overlapping(|events| events.insert(2, other(events, 2, Kind::RunStart))) > 0);
        let after = |events: &mut Vec<LoggedEvent>| {
            events.push(LoggedEvent { run: Some(RUN), kind: Some(Kind::TextDelta), ..events[0].clone() });
        };
        assert_eq!(overlapping(after), 1);
    }
}
