//! Nodes that are lost, and what becomes of their runs.

use super::*;
use crate::oracle::log::StoredLog;
use crate::oracle::tests::sample::{self, EPOCH, RUN, THREAD};
use crate::record::{Op, Trial};

/// Node 0 is killed at 100 ms while it asks the model. Node 1 writes the next event at the given time.
fn lost(next_ms: i64) -> (Trial, StoredLog) {
    let (mut trial, mut log) = sample::good();
    (trial.asked[0].written, trial.asked[0].closed) = (None, Some(101_000));
    let again = ModelCallRecord {
        node: 1,
        began: 9_000_000,
        written: Some(9_100_000),
        closed: None,
        ..trial.asked[0].clone()
    };
    trial.asked.push(again);
    trial.blows.push(Blow { ready: Some(300_000), ..Blow::to_node(0, Trigger::Random, 100_000) });
    let events = &mut log.threads.get_mut(&THREAD).unwrap().events;
    events.last_mut().unwrap().at = EPOCH + next_ms;
    (trial, log)
}

fn found((trial, log): &(Trial, StoredLog)) -> Vec<String> {
    check(&Case::new(trial, log)).into_iter().map(|violation| violation.what).collect()
}

fn facts((trial, log): &(Trial, StoredLog)) -> NodeFacts {
    NodeFacts::of(&Case::new(trial, log), &[])
}

#[test]
fn a_run_goes_on_soon_after_its_node_was_lost() {
    let made = lost(9_000);
    assert_eq!(found(&made), Vec::<String>::new());
    // The two clocks are known to a millisecond.
    let goes_on = facts(&made).goes_on;
    assert!(matches!(goes_on.as_slice(), [8_899_000..=8_901_000]), "{goes_on:?}");
    let late = found(&lost(16_000));
    assert!(matches!(late.as_slice(), [what] if what.contains("its run 0202")), "{late:?}");
}

#[test]
fn nobody_could_go_on_if_all_were_struck() {
    for blow in [
        Blow { ready: Some(5_000_000), ..Blow::to_node(1, Trigger::NodeCut, 4_000_000) },
        Blow { ready: Some(5_000_000), ..Blow::to_node(1, Trigger::AllNodes, 100_000) },
        Blow { ready: Some(5_000_000), ..Blow::to_all(Trigger::DatabaseRestart, 4_000_000) },
    ] {
        let mut made = lost(16_000);
        made.0.blows.push(blow);
        assert_eq!((found(&made), facts(&made).goes_on), (Vec::<String>::new(), Vec::new()));
    }
    let mut other = lost(16_000);
    other.0.blows.push(Blow { ready: Some(5_000_000), ..Blow::to_node(2, Trigger::NodeCut, 4_000_000) });
    assert_eq!(found(&other).len(), 1, "node 1 was there");
}

#[test]
fn a_node_that_was_idle_has_lost_nothing() {
    let mut idle = lost(16_000);
    idle.0.asked[0].closed = Some(90_000);
    assert_eq!(facts(&idle).goes_on, Vec::<Micros>::new());
    let mut told = lost(16_000);
    told.0.blows[0].trigger = Trigger::Term;
    assert_eq!(facts(&told).goes_on, Vec::<Micros>::new(), "it may go on itself");
    let mut alone = lost(16_000);
    alone.0.asked.truncate(1);
    assert_eq!(facts(&alone).goes_on, Vec::<Micros>::new(), "there is no other");
}

#[test]
fn two_nodes_at_one_run_are_found_unless_the_first_was_struck() {
    let mut both = lost(9_000);
    both.0.blows.clear();
    both.0.asked[0].closed = Some(20_000_000);
    let said = found(&both);
    assert!(matches!(said.as_slice(), [what] if what.contains("nodes 0 and 1 both")), "{said:?}");
    both.0.blows.push(Blow { ready: Some(8_000_000), ..Blow::to_node(0, Trigger::NodePaused, 30_000) });
    assert_eq!(found(&both), Vec::<String>::new(), "it was taken for dead");
}

#[test]
fn requests_at_another_node_are_counted_while_the_run_lives() {
    let mut made = lost(9_000);
    assert_eq!(facts(&made).elsewhere, 0);
    made.0.readings[0].began = 50_000;
    made.0.readings[0].node = Some(1);
    let what = What::Cancel { run: sample::wire("run", &RUN), status: None };
    made.0.ops.push(Op { what, began: 8_950_000, node: Some(2), ..made.0.ops[0].clone() });
    assert_eq!(facts(&made).elsewhere, 2);
    made.0.ops[1].began = 9_500_000;
    assert_eq!(facts(&made).elsewhere, 1, "the run was over");
}

#[test]
fn what_nodes_say_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let logs = [folder.path().join("server-0.log"), folder.path().join("server-1.log")];
    std::fs::write(&logs[0], format!("WARN {FENCED}\nINFO {TOOK_OVER} node=1 runs=3\n")).unwrap();
    std::fs::write(&logs[1], format!("INFO {TOOK_OVER} node=0 runs=1\n")).unwrap();
    let (trial, log) = sample::good();
    let facts = NodeFacts::of(&Case::new(&trial, &log), &logs);
    assert_eq!((facts.take_overs, facts.fenced), (2, 1));
}
