//! Actors who spoke for a user: both names are in the log, in the rows and in the ledger, and nothing is where the user
//! spoke.

use protocol::{Decision, Effect, Ids, OnBusy, Principal, RunStatus};
use serde_json::{Value, json};
use store::{NewAction, Submission, Target};

use crate::actions::{act, action, file, run_with_calls};
use crate::proposals::{lasting, waiting};
use crate::support::{Fixture, call, end, principal, result, scope, step_end};

/// The back end that speaks for `alice`.
fn backend() -> Principal {
    principal("alice").acted_for_by("backend")
}

fn acted(fixture: &Fixture, target: Target) -> Submission {
    let mut submission = fixture.submission(target);
    submission.request.actor = Some("backend".into());
    submission
}

/// The bodies of the thread's events of a kind.
fn bodies(fixture: &Fixture, thread: protocol::ThreadId, kind: &str) -> Vec<Value> {
    let events = fixture.published.of(thread);
    let of_kind = events.iter().filter(|event| event.kind == kind);
    of_kind.map(|event| serde_json::from_str(&event.body).unwrap()).collect()
}

/// Returns the payload of each entry of the ledger, oldest first.
fn payloads(fixture: &Fixture) -> Vec<Value> {
    let conn = fixture.database();
    let mut find = conn.prepare("SELECT payload FROM ledger_payloads ORDER BY position").unwrap();
    let rows = find.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|payload| serde_json::from_str(&payload.unwrap()).unwrap()).collect()
}

async fn verified(fixture: &Fixture) {
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, [""; 0]);
}

#[tokio::test]
async fn a_run_says_who_spoke_for_the_user_and_so_do_its_actions() {
    let fixture = Fixture::new();
    let submitted = fixture.store.submit(acted(&fixture, Target::New(fixture.ids.thread()))).await.unwrap().0;
    let row = fixture.store.run(&principal("alice"), submitted.run).await.unwrap();
    assert_eq!((row.actor.as_deref(), row.scope.user.as_str()), (Some("backend"), "alice"));
    assert_eq!(bodies(&fixture, submitted.thread, "run:start")[0]["actor"], "backend");
    let log = fixture.store.log(&row);
    let calls = [fixture.ids.call(), fixture.ids.call()];
    log.record(vec![step_end(calls.map(call).to_vec())], vec![], vec![]).await.unwrap();
    act(&log, calls[0], vec![file("a", Some("b"), 0)]).await.unwrap();
    log.record(vec![result(calls[1], "without intent")], vec![], vec![]).await.unwrap();
    for call in calls {
        assert_eq!(action(&fixture, call).await.actor.as_deref(), Some("backend"));
    }
    let said: Vec<_> = payloads(&fixture).iter().map(|payload| payload["actor"].clone()).collect();
    assert_eq!(
        said,
        [json!("backend"), Value::Null, json!("backend")],
        "an intent says it, or what stands for one"
    );
    verified(&fixture).await;
}

#[tokio::test]
async fn a_queued_run_keeps_the_name_of_who_spoke() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let mut queued = acted(&fixture, Target::Existing(first.thread));
    queued.on_busy = OnBusy::Queue;
    let waits = fixture.store.submit(queued).await.unwrap().0;
    let actor = async |run| fixture.store.run(&principal("alice"), run).await.unwrap().actor;
    assert_eq!(actor(waits.run).await.as_deref(), Some("backend"));
    log.record(vec![end(first.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let starts = bodies(&fixture, first.thread, "run:start");
    assert_eq!([&starts[0]["actor"], &starts[1]["actor"]], [&Value::Null, &json!("backend")]);
    assert_eq!((actor(first.run).await, actor(waits.run).await.as_deref()), (None, Some("backend")));
}

#[tokio::test]
async fn where_the_user_spoke_nothing_is_said_of_an_actor() {
    let fixture = Fixture::new();
    let (submitted, log, calls) = run_with_calls(&fixture, 1).await;
    act(&log, calls[0], vec![]).await.unwrap();
    let start = &bodies(&fixture, submitted.thread, "run:start")[0];
    assert!(start.as_object().unwrap().keys().all(|name| name != "actor"), "{start}");
    for payload in payloads(&fixture) {
        assert!(payload.as_object().unwrap().keys().all(|name| name != "actor"), "{payload}");
    }
    let request =
        serde_json::to_value(fixture.submission(Target::New(fixture.ids.thread())).request).unwrap();
    assert!(request.as_object().unwrap().keys().all(|name| name != "actor"), "{request}");
    serde_json::from_value::<store::RunRequest>(request).expect("a request from before is read");
}

#[tokio::test]
async fn an_undo_and_a_confirmed_proposal_name_who_asked_for_them() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 1).await;
    act(&log, calls[0], vec![file("a", Some("b"), 0)]).await.unwrap();
    let new = |tool: &str, input| NewAction {
        id: fixture.ids.action(),
        tool: tool.into(),
        effect: Effect::Reversible,
        input,
        actor: Some("backend".into()),
    };
    let by = new("undo", json!({}));
    let undone = fixture.store.undo(&backend(), calls[0].into(), by, None).await.unwrap();
    assert_eq!(undone.actor.as_deref(), Some("backend"));
    assert_eq!(action(&fixture, calls[0]).await.actor, None);
    let (_, proposal) = lasting(&fixture, 10).await;
    let send = new("send", json!({ "to": "bob" }));
    let begun = fixture.store.begin_action(&scope("alice"), proposal, send, None).await.unwrap();
    assert_eq!(action(&fixture, begun.id).await.actor.as_deref(), Some("backend"));
    verified(&fixture).await;
}

#[tokio::test]
async fn a_decision_names_the_actor_and_the_user_only_if_an_actor_decided() {
    let fixture = Fixture::new();
    let (submitted, _, _, ids) = waiting(&fixture, 2).await;
    fixture.store.decide(&backend(), ids[0], Decision::Confirmed, None).await.unwrap();
    fixture.store.decide(&principal("alice"), ids[1], Decision::Rejected, None).await.unwrap();
    let closed = bodies(&fixture, submitted.thread, "proposal:closed");
    assert_eq!(closed[0]["by"], "backend for alice");
    assert!(closed[1].as_object().unwrap().keys().all(|name| name != "by"), "{}", closed[1]);
}
