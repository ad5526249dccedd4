//! Calls of the client: a run waits while any of its own is open, and each gets one result.

use std::sync::Arc;

use protocol::{
    CallId, CallOpen, ClientCallStatus, Decision, Effect, Event, Ids, OnBusy, ProposalOpen, RunStatus,
    ToolComplete, ToolStatus,
};
use serde_json::{Value, json};
use store::{
    CallAnswer, ClientCallRow, Error, PageOf, RunAcceptance, RunLog, Submission, SubmittedRun, Target,
    TimeCursor,
};

use crate::actions::run_with_calls;
use crate::support::{Fixture, Forward, after, end, once, principal, result, scope};

const ALL: PageOf<TimeCursor<CallId>> = PageOf { after: None, limit: 1_000 };

fn open(call_id: CallId, seconds: i64) -> Event {
    let (name, input) = ("locate".into(), json!({ "precise": true }));
    Event::CallOpen(CallOpen { call_id, name, input, effect: Effect::Read, expires_at: after(seconds) })
}

/// A run that waits for as many calls of the client, which expire after 10, 20, … seconds.
async fn waiting(fixture: &Fixture, count: usize) -> (SubmittedRun, RunLog, Vec<CallId>) {
    let (submitted, log, calls) = run_with_calls(fixture, count).await;
    let opened = calls.iter().zip(1..).map(|(call, n)| open(*call, 10 * n)).collect();
    log.record(opened, vec![], vec![]).await.unwrap();
    (submitted, log, calls)
}

fn answer(output: Value) -> CallAnswer {
    CallAnswer { status: ToolStatus::Complete, output, outside: true, suspicious: false }
}

async fn status(fixture: &Fixture, submitted: SubmittedRun) -> RunStatus {
    fixture.store.run(&principal("alice"), submitted.run).await.unwrap().status
}

async fn call(fixture: &Fixture, id: CallId) -> ClientCallRow {
    fixture.store.client_call(&principal("alice"), id).await.unwrap()
}

#[tokio::test]
async fn a_run_waits_until_each_call_of_the_client_is_answered() {
    let fixture = Fixture::new();
    let (submitted, _log, calls) = waiting(&fixture, 2).await;
    assert_eq!(status(&fixture, submitted).await, RunStatus::Waiting);
    let row = call(&fixture, calls[0]).await;
    assert_eq!((row.tool.as_str(), &row.input), ("locate", &json!({ "precise": true })));
    assert_eq!((row.status, row.expires_at, row.answered_at), (ClientCallStatus::Open, after(10), None));
    assert_eq!(fixture.store.client_calls_of(submitted.run).await.unwrap().len(), 2);
    let alice = principal("alice");
    let answered = fixture.store.answer_call(&alice, calls[0], answer(json!("a")), None).await.unwrap();
    assert_eq!(answered.status, ClientCallStatus::Answered);
    assert_eq!(status(&fixture, submitted).await, RunStatus::Waiting);
    fixture.store.answer_call(&alice, calls[1], answer(json!("b")), None).await.unwrap();
    assert_eq!(status(&fixture, submitted).await, RunStatus::Running);
    let open = fixture.store.client_calls(&scope("alice"), true, ALL).await.unwrap().rows;
    assert_eq!(open, []);
    assert_eq!(fixture.store.client_calls(&scope("alice"), false, ALL).await.unwrap().rows.len(), 2);
}

#[tokio::test]
async fn a_run_that_waits_for_both_kinds_goes_on_after_both() {
    let fixture = Fixture::new();
    let (submitted, log, calls) = run_with_calls(&fixture, 2).await;
    let proposal_id = fixture.ids.proposal();
    let (name, input) = ("send".into(), json!({}));
    let asks = Event::ProposalOpen(ProposalOpen {
        proposal_id,
        call_id: calls[0],
        name,
        input,
        expires_at: after(9),
    });
    log.record(vec![asks, open(calls[1], 10)], vec![], vec![]).await.unwrap();
    fixture.store.answer_call(&principal("alice"), calls[1], answer(json!(1)), None).await.unwrap();
    assert_eq!(status(&fixture, submitted).await, RunStatus::Waiting);
    fixture.store.decide(&principal("alice"), proposal_id, Decision::Confirmed, None).await.unwrap();
    assert_eq!(status(&fixture, submitted).await, RunStatus::Running);
}

#[tokio::test]
async fn a_call_has_one_answer_and_its_key_gives_it_again() {
    let fixture = Fixture::new();
    let (_, _log, calls) = waiting(&fixture, 1).await;
    let alice = principal("alice");
    let key = || once("k", 1);
    let first = fixture.store.answer_call(&alice, calls[0], answer(json!(1)), key()).await.unwrap();
    assert_eq!(fixture.store.answer_call(&alice, calls[0], answer(json!(1)), key()).await.unwrap(), first);
    let second = fixture.store.answer_call(&alice, calls[0], answer(json!(2)), None).await;
    assert!(matches!(second, Err(Error::CallClosed(ClientCallStatus::Answered))), "{second:?}");
    let foreign = fixture.store.answer_call(&principal("bob"), calls[0], answer(json!(2)), None).await;
    assert!(matches!(foreign, Err(Error::NotFound("call"))), "{foreign:?}");
}

#[tokio::test]
async fn what_is_over_is_closed_and_its_thread_goes_on() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (submitted, _log, calls) = waiting(&fixture, 2).await;
    assert_eq!(fixture.store.next_expiry().await.unwrap(), Some(after(10)));
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), []);
    clock.to(10);
    let late = fixture.store.answer_call(&principal("alice"), calls[0], answer(json!(1)), None).await;
    assert!(matches!(late, Err(Error::CallClosed(ClientCallStatus::Expired))), "{late:?}");
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), [], "it still waits for the other");
    assert_eq!(call(&fixture, calls[0]).await.status, ClientCallStatus::Expired);
    clock.to(20);
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), [submitted.thread]);
    assert_eq!(status(&fixture, submitted).await, RunStatus::Running);
    assert_eq!(fixture.store.next_expiry().await.unwrap(), None);
}

#[tokio::test]
async fn a_new_message_and_the_end_of_the_run_close_it() {
    let fixture = Fixture::new();
    let (submitted, log, calls) = waiting(&fixture, 1).await;
    let next = fixture.submission(Target::Existing(submitted.thread));
    let next = Submission { on_busy: OnBusy::Queue, ..next };
    let admitted = fixture.store.submit(next).await.unwrap().0.admitted;
    assert_eq!(admitted, RunAcceptance::Queued { interrupted: None, resumed: true });
    assert_eq!(call(&fixture, calls[0]).await.status, ClientCallStatus::Superseded);
    log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();

    let (other, log, calls) = waiting(&fixture, 1).await;
    let Event::ToolComplete(cut) = result(calls[0], "-") else { panic!("it is a result") };
    let cut = Event::ToolComplete(ToolComplete { status: ToolStatus::Cancelled, ..cut });
    log.record(vec![cut, end(other.run, RunStatus::Cancelled)], vec![], vec![]).await.unwrap();
    assert_eq!(call(&fixture, calls[0]).await.status, ClientCallStatus::Cancelled);
}
