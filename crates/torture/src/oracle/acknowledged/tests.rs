//! Each kind of operation, as it should be and as it must not be.

use super::super::log::{Action, Log, Memory, Proposal, Said};
use super::super::sample::{self, CALL, RUN, TAG, THREAD, wire};
use super::*;
use crate::record::Trial;
use protocol::{Effect, RunStatus};

const OTHER: Id = [9; 16];

fn found(change: impl FnOnce(&mut Trial, &mut Log)) -> Vec<String> {
    let (mut trial, mut log) = sample::good();
    change(&mut trial, &mut log);
    check(&Case::new(&trial, &log)).into_iter().map(|violation| violation.what).collect()
}

fn fine(change: impl FnOnce(&mut Trial, &mut Log)) {
    assert_eq!(found(change), Vec::<String>::new());
}

fn one(change: impl FnOnce(&mut Trial, &mut Log), part: &str) {
    let found = found(change);
    assert!(matches!(found.as_slice(), [what] if what.contains(part)), "{part}: {found:?}");
}

fn also(trial: &mut Trial, what: What, outcome: Outcome) {
    trial.ops.push(Op { what, outcome, began: 60_000, answered: Some(61_000), ..trial.ops[0].clone() });
}

fn place(thread: Id) -> Said {
    Said { thread, run: Some(RUN), seq: 1 }
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
    let waited = |_: &mut Trial, log: &mut Log| {
        log.said.clear();
        let run = log.runs.get_mut(&RUN).unwrap();
        (run.start, run.status) = (None, RunStatus::Cancelled);
    };
    one(waited, "is not stored");
    fine(|trial, log| {
        waited(trial, log);
        also(trial, What::Cancel { run: wire("run", &RUN), status: None }, Outcome::Ok);
    });
}

#[test]
fn a_refused_message_is_nowhere_and_an_unknown_one_once_at_most() {
    one(|trial, _| trial.ops[0].outcome = Outcome::Fail, "was refused and is stored");
    fine(|trial, log| {
        trial.ops[0].outcome = Outcome::Fail;
        log.said.clear();
    });
    fine(|trial, _| trial.ops[0].outcome = Outcome::Unknown);
    fine(|trial, log| {
        trial.ops[0].outcome = Outcome::Unknown;
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
    let gone = |log: &mut Log| log.threads.get_mut(&THREAD).unwrap().deleted = true;
    one(|_, log| gone(log), "nobody deleted it");
    let delete = || What::DeleteThread { thread: wire("thr", &THREAD) };
    fine(|trial, log| {
        gone(log);
        also(trial, delete(), Outcome::Unknown);
    });
    one(|trial, _| also(trial, delete(), Outcome::Ok), "was deleted and is there");
}

#[test]
fn memories_are_what_their_owner_made_them() {
    let remember = || What::Remember { text: "ann keeps w1".into(), memory: Some(wire("mem", &OTHER)) };
    let memory = |texts: &[&str]| Memory {
        app: "alpha".into(),
        user: "ann".into(),
        active: true,
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
    };
    fn with(what: What, outcome: Outcome, memories: Vec<Memory>) -> impl FnOnce(&mut Trial, &mut Log) {
        move |trial, log| {
            also(trial, what, outcome);
            let ids = (OTHER[0]..).map(|number| [number; 16]);
            log.memories.extend(ids.zip(memories));
        }
    }
    let kept = || memory(&["ann keeps w1"]);
    fine(with(remember(), Outcome::Ok, vec![kept()]));
    fine(with(remember(), Outcome::Unknown, vec![]));
    one(with(remember(), Outcome::Ok, vec![]), "is not there");
    one(with(remember(), Outcome::Ok, vec![kept(), kept()]), "is there 2 times");
    one(with(remember(), Outcome::Fail, vec![kept()]), "was refused");
    let others = Memory { user: "bob".into(), ..kept() };
    one(with(remember(), Outcome::Ok, vec![others]), "is not there");

    let edit = || What::Edit { memory: wire("mem", &OTHER), text: "ann keeps w2".into() };
    let edited = || memory(&["ann keeps w1", "ann keeps w2"]);
    fine(with(edit(), Outcome::Ok, vec![edited()]));
    one(with(edit(), Outcome::Ok, vec![kept()]), "never was");
    one(with(edit(), Outcome::Fail, vec![edited()]), "was not to be edited");

    let forget = || What::Forget { memory: wire("mem", &OTHER) };
    fine(with(forget(), Outcome::Ok, vec![Memory { active: false, ..kept() }]));
    one(with(forget(), Outcome::Ok, vec![kept()]), "is active");
}

#[test]
fn a_memory_is_found_by_its_word() {
    let searching = |words: &str, found: &[&str], texts: &[&str]| {
        let what =
            What::Search { words: words.into(), found: found.iter().map(|&text| text.into()).collect() };
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        move |trial: &mut Trial, log: &mut Log| {
            let remember = What::Remember { text: "ann keeps w1".into(), memory: Some(wire("mem", &OTHER)) };
            also(trial, remember, Outcome::Ok);
            also(trial, what, Outcome::Ok);
            trial.ops.last_mut().unwrap().began = 70_000;
            let memory = Memory { app: "alpha".into(), user: "ann".into(), active: true, texts };
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
        move |trial: &mut Trial, log: &mut Log| {
            also(trial, decide(confirm), Outcome::Ok);
            log.proposals.insert(OTHER, Proposal { run: Some(RUN), status: status.into() });
        }
    };
    fine(decided(true, "confirmed"));
    fine(decided(false, "rejected"));
    one(decided(true, "rejected"), "was confirmed and is");
    one(|trial, _| also(trial, decide(true), Outcome::Ok), "was confirmed and is None");

    let undo = |id: &Id| What::Undo { action: wire("act", id) };
    one(|trial, _| also(trial, undo(&CALL), Outcome::Ok), "was undone and is not");
    one(|trial, _| also(trial, undo(&OTHER), Outcome::Ok), "was undone and is gone");
    fine(|trial, log| {
        also(trial, undo(&CALL), Outcome::Ok);
        let action: &mut Action = log.actions.get_mut(&CALL).unwrap();
        (action.undone_by, action.effect) = (Some(OTHER), Effect::Reversible);
    });
    fine(|trial, _| also(trial, undo(&OTHER), Outcome::Fail));
}
