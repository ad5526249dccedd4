//! Runs that were told to stop, and runs that no process can drive: how they end is decided as it is written.

use protocol::{Effect, Event, Failure, Ids, ProposalOpen, RunStatus, StepStart};
use serde_json::{Value, json};
use store::{Error, ForcedEnd, Stop, Target};

use crate::support::{Fixture, after, call, end, principal, result, start, step_end};

async fn cancelled(fixture: &Fixture) -> (store::SubmittedRun, store::RunLog) {
    let (run, log) = fixture.run().await;
    fixture.store.cancel(&principal("alice"), run.run, None).await.unwrap();
    (run, log)
}

#[tokio::test]
async fn a_cancelled_run_ends_cancelled_and_in_no_other_way() {
    let fixture = Fixture::new();
    let (run, log) = cancelled(&fixture).await;
    let before = fixture.published.all().len();
    for status in [RunStatus::Completed, RunStatus::Failed, RunStatus::Interrupted] {
        let refused = log.record(vec![end(run.run, status)], vec![], vec![]).await;
        assert!(matches!(refused, Err(Error::Stopped(Stop::Cancelled))), "{refused:?}");
    }
    assert_eq!(fixture.published.all().len(), before, "nothing was written");
    log.record(vec![end(run.run, RunStatus::Cancelled)], vec![], vec![]).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_run_begins_nothing_and_tells_what_it_did() {
    let fixture = Fixture::new();
    let (run, log) = fixture.run().await;
    let [done, next] = [fixture.ids.call(), fixture.ids.call()];
    log.record(vec![step_end(vec![call(done), call(next)])], vec![], vec![]).await.unwrap();
    log.record(vec![start(done, "echo", Effect::Read)], vec![], vec![]).await.unwrap();
    fixture.store.cancel(&principal("alice"), run.run, None).await.unwrap();
    let proposal = ProposalOpen {
        proposal_id: fixture.ids.proposal(),
        call_id: next,
        name: "echo".into(),
        input: json!({}),
        expires_at: after(10),
    };
    let step = StepStart { step: 2, model: "m".into() };
    for event in [start(next, "echo", Effect::Read), Event::ProposalOpen(proposal), Event::StepStart(step)] {
        let refused = log.record(vec![event.clone()], vec![], vec![]).await;
        assert!(matches!(refused, Err(Error::Stopped(_))), "{event:?}: {refused:?}");
    }
    log.record(vec![result(done, "a")], vec![], vec![]).await.unwrap();
}

#[tokio::test]
async fn the_database_refuses_an_end_that_is_not_as_told() {
    let fixture = Fixture::new();
    let (run, _) = cancelled(&fixture).await;
    let conn = fixture.database();
    let wrong = conn.execute("UPDATE runs SET status = 'completed' WHERE id = ?1", [run.run.bytes()]);
    assert!(wrong.unwrap_err().to_string().contains("C3"));
    let back = conn.execute("UPDATE runs SET stop = NULL WHERE id = ?1", [run.run.bytes()]);
    assert!(back.unwrap_err().to_string().contains("C2"));
}

fn forced(fixture: &Fixture) -> ForcedEnd {
    ForcedEnd {
        status: RunStatus::Failed,
        error: Failure { code: "broken".into(), message: "it broke".into() },
        message: fixture.ids.message(),
        cancelled: json!("not made"),
        unknown: json!("who knows"),
    }
}

#[tokio::test]
async fn a_run_that_nobody_can_drive_ends_with_each_call_answered() {
    let fixture = Fixture::new();
    let (run, log) = fixture.run().await;
    let [begun, waits] = [fixture.ids.call(), fixture.ids.call()];
    log.record(vec![step_end(vec![call(begun), call(waits)])], vec![], vec![]).await.unwrap();
    log.record(vec![start(begun, "echo", Effect::Irreversible)], vec![], vec![]).await.unwrap();
    let row = fixture.store.run(&principal("alice"), run.run).await.unwrap();
    fixture.store.force_end(&row, forced(&fixture)).await.unwrap();
    fixture.store.force_end(&row, forced(&fixture)).await.unwrap();
    let facts = fixture.store.facts(run.run).await.unwrap();
    let results: Vec<Value> = facts
        .iter()
        .filter(|fact| fact.kind == "tool:complete")
        .map(|fact| serde_json::from_str::<Value>(&fact.body).unwrap()["status"].clone())
        .collect();
    assert_eq!(results, [json!("unknown"), json!("cancelled")]);
    let ended = fixture.store.run(&principal("alice"), run.run).await.unwrap();
    assert_eq!((ended.status, ended.error.unwrap().code.as_str()), (RunStatus::Failed, "broken"));
    fixture.submit(Target::Existing(run.thread)).await;
}

#[tokio::test]
async fn an_earlier_owner_ends_nothing_by_force() {
    let fixture = Fixture::new();
    let (run, _) = fixture.run().await;
    let row = fixture.store.run(&principal("alice"), run.run).await.unwrap();
    fixture.store.adopt().await.unwrap();
    assert!(matches!(fixture.store.force_end(&row, forced(&fixture)).await, Err(Error::Fenced)));
}

#[tokio::test]
async fn an_event_that_could_not_be_read_back_is_not_written() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let id = fixture.ids.call();
    let mut deep = call(id);
    deep.input = json!({ "a": testkit::nested_arrays(99) });
    let refused = log.record(vec![step_end(vec![deep])], vec![], vec![]).await;
    assert!(matches!(refused, Err(Error::TooDeep("step:end"))), "{refused:?}");
}
