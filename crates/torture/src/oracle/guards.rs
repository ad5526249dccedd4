//! Events without which a trial proves nothing: a server that was never hit is not a server that survived.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::database::TrialStore;
use crate::record::{OperationOutcome, Trial, Trigger};

use super::case::is_kill;
use super::facts::Facts;

/// The plan of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TrialPlan {
    pub(crate) minutes: f64,
    pub(crate) kills: usize,
    /// Whether the disk could be filled.
    pub(crate) disk: bool,
    pub(crate) store: TrialStore,
    /// Server processes that share the database.
    pub(crate) nodes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Guard {
    pub(crate) have: usize,
    pub(crate) need: usize,
}

/// The minutes that the numbers below are for.
const PER_MINUTES: f64 = 5.0;

/// The number of a hundred operations that must have succeeded.
const OK_PERCENT: usize = 60;

/// The part of the kills that were meant which must have been.
const KILLS_MEANT: f64 = 0.8;

/// The part of what one node must have suffered, if there are several.
const SHARE_OF_SEVERAL: f64 = 0.5;

/// The least that several nodes must have done, however short the trial is.
const ONE: usize = 1;

/// Requests that another node than that of the run has served.
const ELSEWHERE: f64 = 100.0;

/// Nodes that were cut off, restarted one after the other, or killed all at once.
const IN_TURN: f64 = 3.0;

const RESUMES: f64 = 50.0;
const IN_WINDOW: f64 = 3.0;
const CANCELS: f64 = 5.0;
const UNKNOWN: f64 = 2.0;
const RECOVERING: f64 = 2.0;
const REJECTED: f64 = 1.0;
const RESTARTS_OF_DATABASE: f64 = 2.0;
const CRASHES_OF_DATABASE: f64 = 3.0;
const UNAVAILABLE: f64 = 10.0;

/// Refused because the disk is full.
const FULL: u16 = 507;

/// Refused because the database cannot be reached.
const AWAY: u16 = 503;

pub(crate) fn must_have(trial: &Trial, facts: &Facts, plan: &TrialPlan) -> BTreeMap<&'static str, Guard> {
    let (scaled, blows) = (|number: f64| plan.scale(number), |wanted| count_blows(trial, wanted));
    let kills = trial.blows.iter().filter(|blow| is_kill(blow.trigger)).count();
    let ok = trial.ops.iter().filter(|op| op.outcome == OperationOutcome::Ok).count();
    let window = |trigger: Trigger| Guard { have: blows(trigger), need: scaled(IN_WINDOW) };
    let refused = |status: u16| trial.ops.iter().filter(|op| op.attempts.contains(&status)).count();
    let full = Guard { have: refused(FULL), need: if plan.disk { scaled(REJECTED) } else { 0 } };
    let mut guards = BTreeMap::from([
        ("operationsOk", Guard { have: ok, need: (trial.ops.len() * OK_PERCENT).div_ceil(100).max(1) }),
        ("kills", Guard { have: kills, need: plan.needed_kills() }),
        ("resumesAcrossRestart", Guard { have: count_resumes(trial), need: scaled(RESUMES) }),
        ("killsWhenToolArrived", window(Trigger::ToolArrived)),
        ("killsWhenToolReplied", window(Trigger::ToolReplied)),
        ("killsWhenAccepted", window(Trigger::Accepted)),
        ("killsWhenCancelAccepted", window(Trigger::CancelAccepted)),
        ("cancelsWon", Guard { have: facts.cancels_won, need: scaled(CANCELS) }),
        ("cancelsLost", Guard { have: facts.cancels_lost, need: scaled(CANCELS) }),
        ("unknownResults", Guard { have: facts.unknown_results, need: scaled(UNKNOWN) }),
        ("killsWhileRecovering", Guard { have: blows(Trigger::Recovering), need: scaled(RECOVERING) }),
        ("diskFullRejections", full),
    ]);
    if plan.store == TrialStore::Postgres {
        // One of several nodes that has lost its connections is passed over.
        let outages = blows(Trigger::DatabaseRestart) + blows(Trigger::DatabaseCrash);
        let refusals = if plan.nodes > 1 { (outages as f64).min(UNAVAILABLE) } else { UNAVAILABLE };
        guards.extend(
            [
                ("databaseRestarts", (blows(Trigger::DatabaseRestart), RESTARTS_OF_DATABASE)),
                ("databaseCrashes", (blows(Trigger::DatabaseCrash), CRASHES_OF_DATABASE)),
                ("backendKills", (blows(Trigger::BackendKill), CRASHES_OF_DATABASE)),
                ("connectionLosses", (blows(Trigger::ConnectionLoss), RESTARTS_OF_DATABASE)),
                ("databaseAwayRejections", (refused(AWAY), refusals)),
            ]
            .map(|(name, (have, need))| (name, Guard { have, need: scaled(need) })),
        );
    }
    if plan.nodes > 1 {
        guards.extend(of_nodes(trial, facts, plan));
    }
    guards
}

/// Returns the events that must have happened to several nodes, and those that they must have caused.
fn of_nodes(trial: &Trial, facts: &Facts, plan: &TrialPlan) -> [(&'static str, Guard); 8] {
    let blows = |wanted| count_blows(trial, wanted);
    [
        ("takeOvers", (facts.nodes.take_overs, ONE)),
        ("takeOversMeasured", (facts.nodes.goes_on.len(), ONE)),
        ("fencedNodes", (facts.nodes.fenced, ONE)),
        ("requestsAtOtherNodes", (facts.nodes.elsewhere, plan.scale(ELSEWHERE).max(ONE))),
        ("nodesPaused", (blows(Trigger::NodePaused), ONE)),
        ("nodesCutOff", (blows(Trigger::NodeCut), plan.scale(IN_TURN))),
        ("nodesRestartedInTurn", (blows(Trigger::RollingRestart), plan.scale(IN_TURN))),
        ("nodesKilledAtOnce", (blows(Trigger::AllNodes), plan.scale(IN_TURN))),
    ]
    .map(|(name, (have, need))| (name, Guard { have, need }))
}

fn count_blows(trial: &Trial, wanted: Trigger) -> usize {
    trial.blows.iter().filter(|blow| blow.trigger == wanted).count()
}

impl TrialPlan {
    /// The part of a number that is for [`PER_MINUTES`] and one node. Several nodes are also struck in other ways, which
    /// take their time.
    fn scale(&self, number: f64) -> usize {
        (number * self.share() * self.minutes / PER_MINUTES).floor() as usize
    }

    fn needed_kills(&self) -> usize {
        (self.kills as f64 * self.share() * KILLS_MEANT).ceil() as usize
    }

    fn share(&self) -> f64 {
        if self.nodes > 1 { SHARE_OF_SEVERAL } else { 1.0 }
    }
}

/// Returns the events that did not happen and must have, in sentences.
pub(crate) fn missing_events(trial: &Trial, facts: &Facts, plan: &TrialPlan) -> Vec<String> {
    let guards = must_have(trial, facts, plan).into_iter();
    let missing = guards.filter(|(_, guard)| guard.have < guard.need);
    missing.map(|(name, Guard { have, need })| format!("{name}: {have}, and {need} were needed")).collect()
}

/// Readers that came back to a run or a thread after the server had been started anew.
fn count_resumes(trial: &Trial) -> usize {
    let mut last: HashMap<(usize, Option<&str>, Option<&str>), u32> = HashMap::new();
    let mut count = 0;
    for reading in &trial.readings {
        let place = (reading.actor, reading.run.as_deref(), reading.thread.as_deref());
        let before = last.insert(place, reading.start);
        let restarted = before.is_some_and(|before| before < reading.start);
        count += usize::from(restarted && reading.after.is_some() && reading.status == 200);
        if reading.status == 0 {
            // It was not answered, so the next one is the resumption.
            before.map(|before| last.insert(place, before));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::nodes::NodeFacts;
    use crate::oracle::tests::sample;
    use crate::record::{Blow, Op, StreamReading};

    fn plan(minutes: f64) -> TrialPlan {
        TrialPlan { minutes, kills: 2, disk: false, store: TrialStore::Sqlite, nodes: 1 }
    }

    #[test]
    fn a_quiet_trial_is_worth_nothing() {
        let (trial, _) = sample::good();
        let missing = missing_events(&trial, &Facts::default(), &TrialPlan { disk: true, ..plan(5.0) });
        assert_eq!(missing.len(), must_have(&trial, &Facts::default(), &plan(5.0)).len() - 1, "{missing:?}");
        let empty = missing_events(&Trial::default(), &Facts::default(), &plan(0.5));
        assert!(empty.iter().any(|what| what.starts_with("operationsOk")), "{empty:?}");
    }

    #[test]
    fn what_happened_often_enough_is_not_missed() {
        let (mut trial, _) = sample::good();
        let blow = |trigger| Blow::to_node(0, trigger, 0);
        for trigger in [
            Trigger::ToolArrived,
            Trigger::ToolReplied,
            Trigger::Accepted,
            Trigger::CancelAccepted,
            Trigger::Recovering,
        ] {
            trial.blows.extend([blow(trigger), blow(trigger), blow(trigger)]);
        }
        let resumed = |start| StreamReading { start, after: Some(2), ..trial.readings[0].clone() };
        trial.readings = (1..=51).map(resumed).collect();
        trial.ops.push(Op { attempts: vec![507, 200], ..trial.ops[0].clone() });
        let facts = Facts { cancels_won: 5, cancels_lost: 5, unknown_results: 2, ..Facts::default() };
        let full = TrialPlan { disk: true, ..plan(5.0) };
        assert_eq!(missing_events(&trial, &facts, &full), Vec::<String>::new());
        trial.readings.pop();
        trial.ops.pop();
        let missing = missing_events(&trial, &facts, &full);
        assert_eq!(
            missing,
            ["diskFullRejections: 0, and 1 were needed", "resumesAcrossRestart: 49, and 50 were needed"]
        );
    }

    #[test]
    fn a_trial_on_postgresql_strikes_the_database() {
        let (mut trial, _) = sample::good();
        let of_sqlite = missing_events(&trial, &Facts::default(), &plan(5.0)).len();
        let plan = TrialPlan { store: TrialStore::Postgres, ..plan(5.0) };
        assert_eq!(missing_events(&trial, &Facts::default(), &plan).len(), of_sqlite + 5);
        let blow = |trigger| Blow { ready: Some(1), ..Blow::to_all(trigger, 0) };
        for trigger in
            [Trigger::DatabaseRestart, Trigger::DatabaseCrash, Trigger::BackendKill, Trigger::ConnectionLoss]
        {
            trial.blows.extend([blow(trigger), blow(trigger), blow(trigger)]);
        }
        let refused = Op { attempts: vec![AWAY, 200], ..trial.ops[0].clone() };
        trial.ops.extend(std::iter::repeat_n(refused, 10));
        assert_eq!(missing_events(&trial, &Facts::default(), &plan).len(), of_sqlite);
    }

    #[test]
    fn several_nodes_must_have_lost_their_runs_to_others() {
        let plan = TrialPlan { store: TrialStore::Postgres, nodes: 3, ..plan(2.0) };
        let missing = |trial: &Trial, facts: &Facts| -> Vec<String> {
            let missing = missing_events(trial, facts, &plan).into_iter();
            missing.filter(|what| what.contains("odes") || what.contains("takeOvers")).collect()
        };
        let (mut trial, _) = sample::good();
        assert_eq!(missing(&trial, &Facts::default()).len(), 5);
        trial.blows.push(Blow::to_node(1, Trigger::NodePaused, 0));
        let nodes = NodeFacts { take_overs: 1, fenced: 1, elsewhere: 20, goes_on: vec![1] };
        let facts = Facts { nodes, ..Facts::default() };
        assert_eq!(missing(&trial, &facts), Vec::<String>::new());
    }

    #[test]
    fn a_connection_that_failed_is_no_resumption() {
        let (mut trial, _) = sample::good();
        let reading = trial.readings[0].clone();
        let later = |start, status| StreamReading { start, status, after: Some(2), ..reading.clone() };
        trial.readings = vec![later(1, 200), later(2, 0), later(2, 200), later(2, 200)];
        assert_eq!(count_resumes(&trial), 1);
    }
}
