//! Proposals: a run waits while any of its own is open, each is decided once, and those without a run outlive it.

use std::sync::Arc;

use protocol::{
    CallId, Decision, Effect, Event, Ids, OnBusy, ProposalClosed, ProposalId, ProposalOpen, RunStatus,
    ToolStatus,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::{
    ActionEnd, Error, MAX_OPEN_PROPOSALS, NewAction, NewProposal, PageOf, ProposalRow, RunAcceptance, RunLog,
    Stop, SubmittedRun, Target, TimeCursor, Write,
};

use crate::actions::{act, action, kinds, refusal, run_with_calls};
use crate::support::{Fixture, Forward, after, end, once, principal, result, scope};

const ALL: PageOf<TimeCursor<ProposalId>> = PageOf { after: None, limit: 1_000 };

fn open(id: ProposalId, call_id: CallId, seconds: i64) -> Event {
    let (name, input) = ("send".into(), json!({ "to": "bob", "a": 1 }));
    Event::ProposalOpen(ProposalOpen { proposal_id: id, call_id, name, input, expires_at: after(seconds) })
}

/// A run that waits for as many proposals, which expire after 10, 20, … seconds.
pub(crate) async fn waiting(
    fixture: &Fixture,
    count: usize,
) -> (SubmittedRun, RunLog, Vec<CallId>, Vec<ProposalId>) {
    let (submitted, log, calls) = run_with_calls(fixture, count).await;
    let ids: Vec<ProposalId> = calls.iter().map(|_| fixture.ids.proposal()).collect();
    let opened = calls.iter().zip(&ids).zip(1..).map(|((call, id), n)| open(*id, *call, 10 * n)).collect();
    log.record(opened, vec![], vec![]).await.unwrap();
    (submitted, log, calls, ids)
}

async fn status(fixture: &Fixture, submitted: SubmittedRun) -> RunStatus {
    fixture.store.run(&principal("alice"), submitted.run).await.unwrap().status
}

async fn proposal(fixture: &Fixture, id: ProposalId) -> ProposalRow {
    fixture.store.proposal(&principal("alice"), id).await.unwrap()
}

async fn decide(fixture: &Fixture, id: ProposalId, decision: Decision) -> Result<ProposalRow, Error> {
    fixture.store.decide(&principal("alice"), id, decision, None).await
}

/// The kinds of the thread's newest events with what each says of a decision or a result.
fn newest(fixture: &Fixture, submitted: SubmittedRun, count: usize) -> Vec<String> {
    let events = fixture.published.of(submitted.thread);
    let said = events.iter().skip(events.len() - count).map(|event| {
        let body: Value = serde_json::from_str(&event.body).unwrap();
        let word = [&body["decision"], &body["output"]["error"]].into_iter().find_map(Value::as_str);
        format!("{} {}", event.kind, word.unwrap_or_default())
    });
    said.collect()
}

/// A proposal that outlives its run.
pub(crate) async fn lasting(fixture: &Fixture, seconds: i64) -> (SubmittedRun, ProposalId) {
    let (submitted, log, calls) = run_with_calls(fixture, 1).await;
    let new = new(fixture, seconds);
    let id = new.id;
    act(&log, calls[0], vec![Write::Propose(new)]).await.unwrap();
    log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    (submitted, id)
}

fn new(fixture: &Fixture, seconds: i64) -> NewProposal {
    NewProposal {
        id: fixture.ids.proposal(),
        tool: "send".into(),
        input: json!({ "to": "bob" }),
        note: Some("because".into()),
        expires_at: after(seconds),
    }
}

#[tokio::test]
async fn a_run_waits_while_any_of_its_proposals_is_open() {
    let fixture = Fixture::new();
    let (submitted, log, calls, ids) = waiting(&fixture, 2).await;
    assert_eq!(status(&fixture, submitted).await, RunStatus::Waiting);
    let first = ProposalRow {
        id: ids[0],
        scope: scope("alice"),
        thread: Some(submitted.thread),
        run: Some(submitted.run),
        call: Some(calls[0]),
        tool: "send".into(),
        input: json!({ "a": 1, "to": "bob" }),
        hash: Sha256::digest(r#"["send",{"a":1,"to":"bob"}]"#).into(),
        note: None,
        decision: None,
        action: None,
        expires_at: after(10),
        created_at: after(0),
        decided_at: None,
    };
    assert_eq!(proposal(&fixture, ids[0]).await, first);
    assert_eq!(fixture.store.proposals_of(submitted.run).await.unwrap().len(), 2);
    assert_eq!(fixture.store.next_expiry().await.unwrap(), Some(after(10)));
    let confirmed = decide(&fixture, ids[0], Decision::Confirmed).await.unwrap();
    let expected = ProposalRow {
        decision: Some(Decision::Confirmed),
        action: Some(calls[0].into()),
        decided_at: Some(after(0)),
        ..first
    };
    assert_eq!(confirmed, expected);
    assert_eq!(status(&fixture, submitted).await, RunStatus::Waiting);
    assert_eq!(newest(&fixture, submitted, 1), ["proposal:closed confirmed"]);
    decide(&fixture, ids[1], Decision::Rejected).await.unwrap();
    assert_eq!(status(&fixture, submitted).await, RunStatus::Running);
    assert_eq!(newest(&fixture, submitted, 2), ["proposal:closed rejected", "tool:complete rejected"]);
    let denied = action(&fixture, calls[1]).await;
    assert_eq!((denied.status.name(), denied.input), ("denied", json!({ "asked": 1 })));
    assert_eq!(kinds(&fixture.database(), calls[1]), ["outcome"]);
    act(&log, calls[0], vec![]).await.unwrap();
    log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    assert_eq!(fixture.store.next_expiry().await.unwrap(), None);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_proposal_is_decided_once_and_by_its_own_user() {
    let fixture = Fixture::new();
    let (submitted, log, calls, ids) = waiting(&fixture, 2).await;
    let stranger = fixture.store.decide(&principal("bob"), ids[0], Decision::Confirmed, None).await;
    assert!(matches!(stranger, Err(Error::NotFound("proposal"))));
    assert!(matches!(
        fixture.store.proposal(&principal("bob"), ids[0]).await,
        Err(Error::NotFound("proposal"))
    ));
    let keyed = async |decision, asked| {
        fixture.store.decide(&principal("alice"), ids[0], decision, once("k", asked)).await
    };
    let first = keyed(Decision::Confirmed, 1).await.unwrap();
    let events = fixture.published.of(submitted.thread).len();
    assert_eq!(keyed(Decision::Confirmed, 1).await.unwrap(), first);
    assert!(matches!(keyed(Decision::Rejected, 2).await, Err(Error::KeyReused)));
    for decision in [Decision::Confirmed, Decision::Rejected] {
        assert!(matches!(decide(&fixture, ids[0], decision).await, Err(Error::Decided(Decision::Confirmed))));
    }
    let closed =
        ProposalClosed { proposal_id: ids[0], call_id: calls[0], decision: Decision::Superseded, by: None };
    let late = log.record(vec![Event::ProposalClosed(closed)], vec![], vec![]).await.unwrap();
    assert_eq!(late, [false], "the first decision stays");
    assert_eq!(fixture.published.of(submitted.thread).len(), events);
    let both = tokio::join!(
        decide(&fixture, ids[1], Decision::Confirmed),
        decide(&fixture, ids[1], Decision::Rejected)
    );
    assert!(both.0.is_ok() != both.1.is_ok(), "{both:?}");
    let conn = fixture.database();
    let again = conn.execute("UPDATE proposals SET status = 'open'", []).unwrap_err().to_string();
    assert!(again.contains("a proposal is decided once"), "{again}");
    let twice = log.record(
        vec![open(fixture.ids.proposal(), calls[0], 9), open(fixture.ids.proposal(), calls[0], 9)],
        vec![],
        vec![],
    );
    assert!(twice.await.is_err(), "a call waits for one yes at a time");
}

#[tokio::test]
async fn q1_a_message_to_a_waiting_thread_goes_on_without_the_answer_unless_it_is_refused() {
    for (on_busy, stop) in [(OnBusy::Queue, None), (OnBusy::Interrupt, Some(Stop::Interrupted))] {
        let fixture = Fixture::new();
        let (first, log, calls, ids) = waiting(&fixture, 2).await;
        let mut submission = fixture.submission(Target::Existing(first.thread));
        assert!(matches!(fixture.store.submit(submission.clone()).await, Err(Error::Busy)));
        assert_eq!(status(&fixture, first).await, RunStatus::Waiting);
        assert_eq!(proposal(&fixture, ids[0]).await.decision, None);
        submission.on_busy = on_busy;
        let second = fixture.store.submit(submission).await.unwrap().0;
        let interrupted = stop.map(|_| first.run);
        assert_eq!(second.admitted, RunAcceptance::Queued { interrupted, resumed: true });
        let pair = ["proposal:closed superseded", "tool:complete superseded"];
        assert_eq!(newest(&fixture, first, 4), [pair, pair].concat());
        let row = fixture.store.run(&principal("alice"), first.run).await.unwrap();
        assert_eq!((row.status, row.stop), (RunStatus::Running, stop));
        for (id, call) in ids.iter().zip(&calls) {
            assert_eq!(proposal(&fixture, *id).await.decision, Some(Decision::Superseded));
            assert_eq!(action(&fixture, *call).await.status.name(), "denied");
        }
        let mut third = fixture.submission(Target::Existing(first.thread));
        third.on_busy = OnBusy::Queue;
        let third = fixture.store.submit(third).await.unwrap().0;
        assert_eq!(third.admitted, RunAcceptance::Queued { interrupted: None, resumed: false });
        let ended = stop.map_or(RunStatus::Completed, Stop::status);
        log.record(vec![end(first.run, ended)], vec![], vec![]).await.unwrap();
        assert_eq!(status(&fixture, second).await, RunStatus::Running);
    }
}

#[tokio::test]
async fn t2_a_run_that_ends_leaves_no_proposal_open() {
    let fixture = Fixture::new();
    let (submitted, log, calls, ids) = waiting(&fixture, 2).await;
    let unanswered = log.record(vec![end(submitted.run, RunStatus::Cancelled)], vec![], vec![]).await;
    assert!(unanswered.is_err(), "every call has a result first");
    assert_eq!(proposal(&fixture, ids[0]).await.decision, None);
    let last = vec![result(calls[0], "-"), result(calls[1], "-"), end(submitted.run, RunStatus::Cancelled)];
    log.record(last, vec![], vec![]).await.unwrap();
    for id in ids {
        assert_eq!(proposal(&fixture, id).await.decision, Some(Decision::Superseded));
        assert!(matches!(
            decide(&fixture, id, Decision::Confirmed).await,
            Err(Error::Decided(Decision::Superseded))
        ));
    }
    assert_eq!(status(&fixture, submitted).await, RunStatus::Cancelled);
}

#[tokio::test]
async fn what_nobody_answers_in_time_is_denied_and_its_run_goes_on() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (submitted, _, calls, ids) = waiting(&fixture, 2).await;
    clock.to(9);
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), []);
    clock.to(10);
    assert!(matches!(
        decide(&fixture, ids[0], Decision::Confirmed).await,
        Err(Error::Decided(Decision::Expired))
    ));
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), [], "it still waits for the other");
    assert_eq!(proposal(&fixture, ids[0]).await.decision, Some(Decision::Expired));
    assert_eq!(action(&fixture, calls[0]).await.status.name(), "denied");
    assert_eq!(status(&fixture, submitted).await, RunStatus::Waiting);
    assert_eq!(fixture.store.next_expiry().await.unwrap(), Some(after(20)));
    clock.to(25);
    assert!(matches!(
        decide(&fixture, ids[1], Decision::Confirmed).await,
        Err(Error::Decided(Decision::Expired))
    ));
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), [submitted.thread]);
    assert_eq!(status(&fixture, submitted).await, RunStatus::Running);
    assert_eq!(newest(&fixture, submitted, 2), ["proposal:closed expired", "tool:complete expired"]);
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), []);
    assert_eq!(fixture.store.next_expiry().await.unwrap(), None);
}

#[tokio::test]
async fn a_lasting_proposal_outlives_its_run_until_its_time_is_over() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (submitted, id) = lasting(&fixture, 10).await;
    let row = proposal(&fixture, id).await;
    assert_eq!((row.run, row.call, row.thread, row.decision), (None, None, Some(submitted.thread), None));
    assert_eq!(row.note.as_deref(), Some("because"));
    let (_, rejected) = lasting(&fixture, 10).await;
    let events = fixture.published.of(submitted.thread).len();
    let row = decide(&fixture, rejected, Decision::Rejected).await.unwrap();
    assert_eq!((row.decision, row.action), (Some(Decision::Rejected), None));
    clock.to(10);
    assert!(matches!(
        decide(&fixture, id, Decision::Confirmed).await,
        Err(Error::Decided(Decision::Expired))
    ));
    let row = proposal(&fixture, id).await;
    assert_eq!((row.decision, row.decided_at), (Some(Decision::Expired), Some(after(10))));
    assert_eq!(fixture.published.of(submitted.thread).len(), events, "no event of an ended run");
    assert_eq!(fixture.store.expire_waiting().await.unwrap(), []);
}

#[tokio::test]
async fn begin_action_refuses_what_is_over_decided_or_a_runs() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let fresh = || NewAction {
        id: fixture.ids.action(),
        tool: "send".into(),
        effect: Effect::Irreversible,
        input: json!({ "to": "bob" }),
        actor: None,
    };
    let begin = async |id| fixture.store.begin_action(&scope("alice"), id, fresh(), None).await;
    let (_, _, _, of_run) = waiting(&fixture, 1).await;
    assert!(matches!(begin(of_run[0]).await, Err(Error::NotFound("proposal"))));
    let (_, rejected) = lasting(&fixture, 10).await;
    decide(&fixture, rejected, Decision::Rejected).await.unwrap();
    assert!(matches!(begin(rejected).await, Err(Error::Decided(Decision::Rejected))));
    let (_, confirmed) = lasting(&fixture, 10).await;
    decide(&fixture, confirmed, Decision::Confirmed).await.unwrap();
    begin(confirmed).await.expect("a confirmation before anything was begun stands");
    assert!(matches!(begin(confirmed).await, Err(Error::Decided(Decision::Confirmed))));
    let (_, over) = lasting(&fixture, 10).await;
    clock.to(10);
    assert!(matches!(begin(over).await, Err(Error::Decided(Decision::Expired))));
    assert_eq!(fixture.store.begun_actions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_rewords_and_withdraws_what_is_still_open() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (_, id) = lasting(&fixture, 10).await;
    let (_, log, calls) = run_with_calls(&fixture, 6).await;
    let reword =
        |input: Option<Value>, note: Option<&str>| Write::Reword { id, input, note: note.map(str::to_owned) };
    act(&log, calls[0], vec![reword(Some(json!({ "to": "eve" })), None)]).await.unwrap();
    let row = proposal(&fixture, id).await;
    assert_eq!((row.input, row.note.as_deref()), (json!({ "to": "eve" }), Some("because")));
    assert_eq!(row.hash, <[u8; 32]>::from(Sha256::digest(r#"["send",{"to":"eve"}]"#)));
    act(&log, calls[1], vec![reword(None, Some("better"))]).await.unwrap();
    let reworded = proposal(&fixture, id).await;
    assert_eq!((reworded.note.as_deref(), reworded.hash), (Some("better"), row.hash));
    let (_, _, _, of_run) = waiting(&fixture, 1).await;
    for (write, reason) in [
        (Write::Withdraw { id: of_run[0] }, "there is no such proposal"),
        (Write::Withdraw { id: fixture.ids.proposal() }, "there is no such proposal"),
    ] {
        assert_eq!(refusal(act(&log, calls[2], vec![write]).await), reason);
    }
    act(&log, calls[2], vec![Write::Withdraw { id }]).await.unwrap();
    assert_eq!(proposal(&fixture, id).await.decision, Some(Decision::Withdrawn));
    for write in [Write::Withdraw { id }, reword(None, Some("again"))] {
        assert_eq!(refusal(act(&log, calls[3], vec![write]).await), "the proposal is withdrawn");
    }
    let (_, over) = lasting(&fixture, 10).await;
    clock.to(10);
    let late = refusal(act(&log, calls[3], vec![Write::Withdraw { id: over }]).await);
    assert_eq!(late, "the proposal is expired");
}

#[tokio::test]
async fn proposals_are_bounded_and_listed_newest_first() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (_, log, calls) = run_with_calls(&fixture, 2).await;
    let mut ids = Vec::new();
    let many: Vec<Write> = (0..MAX_OPEN_PROPOSALS)
        .map(|_| {
            let new = new(&fixture, 10);
            ids.push(new.id);
            Write::Propose(new)
        })
        .collect();
    act(&log, calls[0], many).await.unwrap();
    ids.reverse();
    let one_more = vec![Write::Propose(new(&fixture, 10))];
    assert!(refusal(act(&log, calls[1], one_more.clone()).await).contains("100 proposals are open"));
    decide(&fixture, ids[0], Decision::Rejected).await.unwrap();
    let list = async |user, open, page| {
        let rows = fixture.store.proposals(&scope(user), open, page).await.unwrap().rows;
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(list("alice", false, ALL).await, ids);
    assert_eq!(list("alice", true, ALL).await, ids[1..]);
    assert_eq!(list("bob", false, ALL).await, []);
    let cursor = TimeCursor { at: after(0), id: ids[1] };
    assert_eq!(list("alice", true, PageOf { after: Some(cursor), limit: 2 }).await, ids[2..4]);
    act(&log, calls[1], one_more).await.expect("a decided one makes room");
    clock.to(10);
    fixture.store.expire_waiting().await.unwrap();
    assert_eq!(list("alice", true, ALL).await, [], "a hundred go in one batch");
}

#[tokio::test]
async fn proposals_of_a_deleted_thread_are_hidden_at_once_and_purged_later() {
    let fixture = Fixture::new();
    let alice = principal("alice");
    let (submitted, id) = lasting(&fixture, 10).await;
    let (_, kept) = lasting(&fixture, 10).await;
    fixture.store.delete_thread(&alice, submitted.thread, None).await.unwrap();
    assert!(matches!(fixture.store.proposal(&alice, id).await, Err(Error::NotFound("proposal"))));
    assert!(matches!(decide(&fixture, id, Decision::Confirmed).await, Err(Error::NotFound("proposal"))));
    let listed = fixture.store.proposals(&scope("alice"), false, ALL).await.unwrap().rows;
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [kept]);
    while fixture.store.purge(after(1), after(0)).await.unwrap() {}
    let count: i64 =
        fixture.database().query_row("SELECT count(*) FROM proposals", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn a_thread_is_not_purged_while_what_it_proposed_is_being_done() {
    let fixture = Fixture::new();
    let (submitted, id) = lasting(&fixture, 10).await;
    let new = NewAction {
        id: fixture.ids.action(),
        tool: "send".into(),
        effect: Effect::Irreversible,
        input: json!({ "to": "bob" }),
        actor: None,
    };
    let (alice, action) = (scope("alice"), new.id);
    fixture.store.begin_action(&alice, id, new, None).await.unwrap();
    fixture.store.delete_thread(&principal("alice"), submitted.thread, None).await.unwrap();
    assert!(!fixture.store.purge(after(1), after(0)).await.unwrap(), "there is nothing to purge yet");
    let done =
        ActionEnd { status: ToolStatus::Complete, output: json!("sent"), duration_ms: 1, writes: vec![] };
    fixture.store.end_action(&alice, action, done).await.unwrap();
    while fixture.store.purge(after(1), after(0)).await.unwrap() {}
    let row = fixture.store.action(&principal("alice"), action).await.unwrap();
    assert_eq!((row.input, row.output, row.status.name()), (Value::Null, Value::Null, "complete"));
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}
