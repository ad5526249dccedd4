//! Each kind of operation, as it should be and as it must not be.

use super::super::log::{Action, LoggedMemory, LoggedMessage, Proposal, StoredLog};
use super::*;
use crate::oracle::tests::sample::{self, CALL, RUN, TAG, THREAD, wire};
use crate::record::Trial;
use protocol::{Effect, RunStatus};

const OTHER: RowId = [9; 16];

fn found(change: impl FnOnce(&mut Trial, &mut StoredLog)) -> Vec<String> {
    let (mut trial, mut log) = sample::good();
    change(&mut trial, &mut log);
    check(&Case::new(&trial, &log)).into_iter().map(|violation| violation.what).collect()
}

fn fine(change: impl FnOnce(&mut Trial, &mut StoredLog)) {
    assert_eq!(found(change), Vec::<String>::new());
}

fn one(change: impl FnOnce(&mut Trial, &mut StoredLog), part: &str) {
    let found = found(change);
    assert!(matches!(found.as_slice(), [what] if what.contains(part)), "{part}: {found:?}");
}

fn also(trial: &mut Trial, what: What, outcome: OperationOutcome) {
    trial.ops.push(Op { what, outcome, began: 60_000, answered: Some(61_000), ..trial.ops[0].clone() });
}

fn place(thread: RowId) -> LoggedMessage {
    LoggedMessage { thread, run: Some(RUN), seq: 1 }
}

#[test]
fn an_accepted_message_is_stored_once_where_its_sender_was_told() {
    fine(|_, _| {});
    one(|_, log| log.said.clear(), "is not stored");
    one(|_, log| log.said.get_mut(TAG).unwrap().push(place(THREAD)), "is stored 2 times");
    one(|_, log| log.said.get_mut(TAG).unwrap()[0].thread = OTHER, "in another thread");
    one(|_, log| log.said.get_mut(TAG).unwrap()[0].run = Some(OTHER), "is not of the run");
    one(|_, log| log.runs.clear(), "its run");
}

#[test]
fn a_message_that_was_cancelled_before_its_turn_need_not_be_stored() {
    let waited = |_: &mut Trial, log: &mut StoredLog| {
        log.said.clear();
        let run = log.runs.get_mut(&RUN).unwrap();
        (run.start, run.status) = (None, RunStatus::Cancelled);
    };
    one(waited, "is not stored");
    fine(|trial, log| {
        waited(trial, log);
        also(trial, What::Cancel { run: wire("run", &RUN), status: None }, OperationOutcome::Ok);
    });
}

#[test]
fn a_refused_message_is_nowhere_and_an_unknown_one_once_at_most() {
    one(|trial, _| trial.ops[0].outcome = OperationOutcome::Fail, "was refused and is stored");
    fine(|trial, log| {
        trial.ops[0].outcome = OperationOutcome::Fail;
        log.said.clear();
    });
    fine(|trial, _| trial.ops[0].outcome = OperationOutcome::Unknown);
    fine(|trial, log| {
        trial.ops[0].outcome = OperationOutcome::Unknown;
        log.said.clear();
    });
}

#[test]
fn one_key_leads_to_one_run_in_the_thread_that_was_meant() {
    let send = |trial: &mut Trial, change: fn(&mut Vec<String>, &mut Option<String>)| {
        let What::Send { runs, thread, .. } = &mut trial.ops[0].what else { panic!("it sends") };
        change(runs, thread);
    };
    one(|trial, _| send(trial, |runs, _| runs.push(wire("run", &OTHER))), "one key");
    one(|trial, _| send(trial, |_, thread| *thread = Some(wire("thr", &OTHER))), "was sent to");
}

#[test]
fn a_thread_is_gone_only_if_somebody_asked() {
    let gone = |log: &mut StoredLog| log.threads.get_mut(&THREAD).unwrap().deleted = true;
    one(|_, log| gone(log), "nobody deleted it");
    let delete = || What::DeleteThread { thread: wire("thr", &THREAD) };
    fine(|trial, log| {
        gone(log);
        also(trial, delete(), OperationOutcome::Unknown);
    });
    one(|trial, _| also(trial, delete(), OperationOutcome::Ok), "was deleted and is there");
}

#[test]
fn memories_are_what_their_owner_made_them() {
    let remember = || What::Remember { text: "ann keeps w1".into(), memory: Some(wire("mem", &OTHER)) };
    let memory = |texts: &[&str]| LoggedMemory {
        app: "alpha".into(),
        user: "ann".into(),
        active: true,
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
    };
    fn with(
        what: What,
        outcome: OperationOutcome,
        memories: Vec<LoggedMemory>,
    ) -> impl FnOnce(&mut Trial, &mut StoredLog) {
        move |trial, log| {
            also(trial, what, outcome);
            let ids = (OTHER[0]..).map(|number| [number; 16]);
            log.memories.extend(ids.zip(memories));
        }
    }
    let kept = || memory(&["ann keeps w1"]);
    fine(with(remember(), OperationOutcome::Ok, vec![kept()]));
    fine(with(remember(), OperationOutcome::Unknown, vec![]));
    one(with(remember(), OperationOutcome::Ok, vec![]), "is not there");
    one(with(remember(), OperationOutcome::Ok, vec![kept(), kept()]), "is there 2 times");
    one(with(remember(), OperationOutcome::Fail, vec![kept()]), "was refused");
    let others = LoggedMemory { user: "bob".into(), ..kept() };
    one(with(remember(), OperationOutcome::Ok, vec![others]), "is not there");

    let edit = || What::Edit { memory: wire("mem", &OTHER), text: "ann keeps w2".into() };
    let edited = || memory(&["ann keeps w1", "ann keeps w2"]);
    fine(with(edit(), OperationOutcome::Ok, vec![edited()]));
    one(with(edit(), OperationOutcome::Ok, vec![kept()]), "never was");
    one(with(edit(), OperationOutcome::Fail, vec![edited()]), "was not to be edited");

    let forget = || What::Forget { memory: wire("mem", &OTHER) };
    fine(with(forget(), OperationOutcome::Ok, vec![LoggedMemory { active: false, ..kept() }]));
    one(with(forget(), OperationOutcome::Ok, vec![kept()]), "is active");
}

#[test]
fn a_memory_is_found_by_its_word() {
    let searching = |words: &str, found: &[&str], texts: &[&str]| {
        let what =
            What::Search { words: words.into(), found: found.iter().map(|&text| text.into()).collect() };
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        move |trial: &mut Trial, log: &mut StoredLog| {
            let remember = What::Remember { text: "ann keeps w1".into(), memory: Some(wire("mem", &OTHER)) };
            also(trial, remember, OperationOutcome::Ok);
            also(trial, what, OperationOutcome::Ok);
            trial.ops.last_mut().unwrap().began = 70_000;
            let memory = LoggedMemory { app: "alpha".into(), user: "ann".into(), active: true, texts };
            log.memories.insert(OTHER, memory);
        }
    };
    let kept = "ann keeps w1";
    fine(searching("w1", &[kept], &[kept]));
    one(searching("w1", &[], &[kept]), "was not found");
    one(searching("w1", &["something else"], &[kept]), "was not found");
    fine(searching("w", &[], &[kept]));
    fine(searching("w1", &[], &[kept, "ann keeps w2"]));
    fine(|trial, log| {
        searching("w1", &[], &[kept])(trial, log);
        trial.ops.last_mut().unwrap().began = 60_500; // it had not been acknowledged yet
    });
}

#[test]
fn decisions_and_undos_stay() {
    let decide = |confirm| What::Decide { proposal: wire("prop", &OTHER), run: wire("run", &RUN), confirm };
    let decided = |confirm, status: &'static str| {
        move |trial: &mut Trial, log: &mut StoredLog| {
            also(trial, decide(confirm), OperationOutcome::Ok);
            log.proposals.insert(OTHER, Proposal { run: Some(RUN), status: status.into() });
        }
    };
    fine(decided(true, "confirmed"));
    fine(decided(false, "rejected"));
    one(decided(true, "rejected"), "was confirmed and is");
    one(|trial, _| also(trial, decide(true), OperationOutcome::Ok), "was confirmed and is None");

    let undo = |id: &RowId| What::Undo { action: wire("act", id) };
    one(|trial, _| also(trial, undo(&CALL), OperationOutcome::Ok), "was undone and is not");
    one(|trial, _| also(trial, undo(&OTHER), OperationOutcome::Ok), "was undone and is gone");
    fine(|trial, log| {
        also(trial, undo(&CALL), OperationOutcome::Ok);
        let action: &mut Action = log.actions.get_mut(&CALL).unwrap();
        (action.undone_by, action.effect) = (Some(OTHER), Effect::Reversible);
    });
    fine(|trial, _| also(trial, undo(&OTHER), OperationOutcome::Fail));
}
