//! O3: what tools were asked to do, beside what the server says was done.

use std::collections::{HashMap, HashSet};

use protocol::{Effect, ToolStatus};

use crate::record::{ToolRequestRecord, Violation};

use super::case::{Case, violation};
use super::log::{RowId, hex, id};

/// Tools of which each request is an effect, so that no key may come twice.
const ONCE: [&str; 4] = ["pay", BOOK, "ask", "unbook"];

/// The tool that has an undo request of its own.
const BOOK: &str = "book";

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let mut by_key: HashMap<&str, Vec<&ToolRequestRecord>> = HashMap::new();
    for arrival in &case.trial.arrivals {
        by_key.entry(&arrival.key).or_default().push(arrival);
    }
    let mut found: Vec<Violation> =
        by_key.iter().flat_map(|(key, arrivals)| of_key(case, key, arrivals)).collect();
    let arrived: HashSet<RowId> = by_key.keys().filter_map(|key| id(key)).collect();
    for (run, stored) in &case.log.runs {
        let done = |status| status == ToolStatus::Complete;
        let claimed = stored.results.iter().filter(|(_, outcome)| outcome.outside && done(outcome.status));
        for (call, _) in claimed.filter(|(call, _)| !arrived.contains(*call)) {
            let what = format!("call {} of run {} is complete and never arrived", hex(call), hex(run));
            found.push(violation("O3", what));
        }
    }
    for (undo, action) in &case.log.actions {
        let booked = action.undo_of.and_then(|undone| case.log.actions.get(&undone));
        let outside = booked.is_some_and(|booked| booked.tool == BOOK) && action.status == "complete";
        if outside && !arrived.contains(undo) {
            found.push(violation("O3", format!("undo {} is complete and never arrived", hex(undo))));
        }
    }
    found
}

fn of_key(case: &Case<'_>, key: &str, arrivals: &[&ToolRequestRecord]) -> Vec<Violation> {
    let Some(first) = arrivals.first() else { return Vec::new() };
    let (tool, times) = (first.tool.as_str(), arrivals.len());
    let tell =
        |what: String| violation("O3", format!("{tool} under the key {key} (message {}) {what}", first.tag));
    let mut found = Vec::new();
    if ONCE.contains(&tool) && times > 1 {
        found.push(tell(format!("arrived {times} times")));
    }
    if arrivals.iter().any(|other| other.arguments != first.arguments || other.tool != first.tool) {
        found.push(tell("arrived with different arguments".into()));
    }
    let Some(action) = id(key).and_then(|id| case.log.actions.get(&id)) else {
        found.push(tell("arrived, and no call has that key".into()));
        return found;
    };
    let changes = action.effect != Effect::Read;
    let unanswered = arrivals.iter().all(|arrival| arrival.replied.is_none());
    let lies = match action.status.as_str() {
        "denied" | "started" => true,
        "cancelled" => changes,
        "failed" => changes && unanswered,
        _ => false,
    };
    if lies {
        found.push(tell(format!("arrived, and its outcome is {}", action.status)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::log::{Action, StoredLog};
    use crate::oracle::tests::sample::{self, CALL, RUN};
    use crate::record::Trial;

    fn found(change: impl FnOnce(&mut Trial, &mut StoredLog)) -> Vec<String> {
        let (mut trial, mut log) = sample::good();
        change(&mut trial, &mut log);
        check(&Case::new(&trial, &log)).into_iter().map(|violation| violation.what).collect()
    }

    fn one(found: &[String], part: &str) {
        assert!(matches!(found, [what] if what.contains(part)), "{part}: {found:?}");
    }

    fn status(log: &mut StoredLog, status: &str) {
        log.actions.get_mut(&CALL).unwrap().status = status.into();
    }

    #[test]
    fn what_was_paid_twice_is_found() {
        assert_eq!(found(|_, _| {}), Vec::<String>::new());
        one(&found(|trial, _| trial.arrivals.push(trial.arrivals[0].clone())), "arrived 2 times");
        let put = |trial: &mut Trial, _: &mut StoredLog| {
            trial.arrivals[0].tool = "put".into();
            trial.arrivals.push(trial.arrivals[0].clone());
        };
        assert_eq!(found(put), Vec::<String>::new(), "one key with the same arguments is one effect");
    }

    #[test]
    fn other_arguments_under_one_key_are_found() {
        let changed = |trial: &mut Trial, _: &mut StoredLog| {
            trial.arrivals[0].tool = "put".into();
            trial.arrivals.push(ToolRequestRecord { arguments: "{}".into(), ..trial.arrivals[0].clone() });
        };
        one(&found(changed), "different arguments");
    }

    #[test]
    fn an_arrival_that_nothing_tells_of_is_found() {
        one(&found(|_, log| log.actions.clear()), "no call has that key");
        one(&found(|_, log| status(log, "started")), "its outcome is started");
    }

    #[test]
    fn nobody_may_say_that_what_arrived_did_not_run() {
        for wrong in ["cancelled", "denied"] {
            one(&found(|_, log| status(log, wrong)), wrong);
        }
        assert_eq!(found(|_, log| status(log, "unknown")), Vec::<String>::new());
        let answered = found(|_, log| status(log, "failed"));
        assert_eq!(answered, Vec::<String>::new(), "the tool may have said so");
        let unanswered = |trial: &mut Trial, log: &mut StoredLog| {
            trial.arrivals[0].replied = None;
            status(log, "failed");
        };
        one(&found(unanswered), "failed");
        let read = |_: &mut Trial, log: &mut StoredLog| {
            status(log, "cancelled");
            log.actions.get_mut(&CALL).unwrap().effect = Effect::Read;
        };
        assert_eq!(found(read), Vec::<String>::new(), "a look has no effect to deny");
    }

    #[test]
    fn an_undo_that_is_complete_has_arrived() {
        let undone = |tool: &'static str| {
            move |_: &mut Trial, log: &mut StoredLog| {
                let action = log.actions.get_mut(&CALL).unwrap();
                action.tool = tool.into();
                let undo = Action { tool: "undoAction".into(), undo_of: Some(CALL), ..action.clone() };
                log.actions.insert([8; 16], undo);
            }
        };
        one(&found(undone(BOOK)), "is complete and never arrived");
        assert_eq!(found(undone("note")), Vec::<String>::new(), "it is undone here");
    }

    #[test]
    fn a_call_that_is_complete_has_arrived() {
        one(&found(|trial, _| trial.arrivals.clear()), "never arrived");
        let inside = |trial: &mut Trial, log: &mut StoredLog| {
            trial.arrivals.clear();
            log.runs.get_mut(&RUN).unwrap().results.get_mut(&CALL).unwrap().outside = false;
        };
        assert_eq!(found(inside), Vec::<String>::new());
    }
}
