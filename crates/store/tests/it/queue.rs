//! Busy threads, keys and owners: requests that come twice, late or after another one.

use protocol::{Event, Ids, OnBusy, RunStatus};
use store::{
    Error, IdempotencyClaim, MAX_QUEUED_PER_THREAD, RunAcceptance, RunInput, Stop, SubmittedRun, Target,
    ThreadEdit,
};

use crate::support::{Fixture, end, principal, scope, step_end, text};

async fn queue(fixture: &Fixture, behind: SubmittedRun, on_busy: OnBusy) -> Result<SubmittedRun, Error> {
    let mut submission = fixture.submission(Target::Existing(behind.thread));
    submission.on_busy = on_busy;
    fixture.store.submit(submission).await.map(|(submitted, _)| submitted)
}

async fn status(fixture: &Fixture, run: SubmittedRun) -> RunStatus {
    fixture.store.run(&principal("alice"), run.run).await.unwrap().status
}

#[tokio::test]
async fn a_run_that_begins_at_once_is_given_as_it_is_stored() {
    let fixture = Fixture::new();
    let alice = principal("alice");
    let (first, log) = fixture.run().await;
    log.record(vec![end(first.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let thread = fixture.store.thread(&alice, first.thread).await.unwrap();
    let archive = ThreadEdit { archived: Some(true), ..ThreadEdit::default() };
    fixture.store.change_thread(&alice, first.thread, archive, None).await.unwrap();

    let mut spoken = fixture.submission(Target::Existing(first.thread));
    spoken.request.actor = Some("carer".into());
    spoken.request.model = None;
    let mut again = fixture.submission(Target::Existing(first.thread));
    again.request.ask = RunInput::Again { of: None };
    for submission in [spoken, again] {
        let (submitted, begun) = fixture.store.submit(submission).await.unwrap();
        let begun = begun.unwrap();
        assert_eq!(begun.row, fixture.store.run(&alice, submitted.run).await.unwrap());
        assert_eq!(begun.row.status, RunStatus::Running);
        let first_of_run = begun.facts.iter().find(|fact| fact.run == Some(submitted.run)).unwrap();
        assert_eq!(begun.row.start_seq, Some(first_of_run.seq));
        if let Ok(Event::MessageUser(said)) = Event::read(&first_of_run.kind, &first_of_run.body) {
            assert_eq!(said.parent_id, thread.head, "it follows the head of the thread that was archived");
        }
        let done = vec![end(submitted.run, RunStatus::Completed)];
        fixture.log(submitted).await.record(done, vec![], vec![]).await.unwrap();
    }
    assert!(!fixture.store.thread(&alice, first.thread).await.unwrap().archived);
}

#[tokio::test]
async fn a_run_that_waits_is_not_given() {
    let fixture = Fixture::new();
    let (first, _log) = fixture.run().await;
    let mut submission = fixture.submission(Target::Existing(first.thread));
    submission.on_busy = OnBusy::Queue;
    let (submitted, begun) = fixture.store.submit(submission).await.unwrap();
    assert!(begun.is_none());
    assert_eq!(status(&fixture, submitted).await, RunStatus::Queued);
}

#[tokio::test]
async fn q2_waiting_messages_have_their_turn_in_order_with_the_urgent_first() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let second = queue(&fixture, first, OnBusy::Queue).await.unwrap();
    let third = queue(&fixture, first, OnBusy::Queue).await.unwrap();
    let urgent = queue(&fixture, first, OnBusy::Interrupt).await.unwrap();
    assert_eq!(urgent.admitted, RunAcceptance::Queued { interrupted: Some(first.run), resumed: false });
    assert_eq!(
        fixture.store.run(&principal("alice"), first.run).await.unwrap().stop,
        Some(Stop::Interrupted)
    );
    log.record(vec![end(first.run, RunStatus::Interrupted)], vec![], vec![]).await.unwrap();
    for next in [urgent, second, third] {
        assert_eq!(status(&fixture, next).await, RunStatus::Running);
        fixture
            .log(next)
            .await
            .record(vec![end(next.run, RunStatus::Completed)], vec![], vec![])
            .await
            .unwrap();
    }
    let published = fixture.published.of(first.thread);
    let kinds: Vec<&str> = published.iter().map(|event| &*event.kind).collect();
    assert_eq!(kinds, ["message:user", "run:start", "run:end"].repeat(4));
    let parents: Vec<_> = published
        .iter()
        .filter_map(|event| match Event::read(&event.kind, &event.body) {
            Ok(Event::MessageUser(said)) => Some((said.parent_id, said.message_id)),
            _ => None,
        })
        .collect();
    let chained = parents.windows(2).all(|pair| pair[1].0 == Some(pair[0].1));
    assert!(chained, "each follows the head of its time: {parents:?}");
}

#[tokio::test]
async fn a_run_that_begins_while_an_urgent_message_waits_is_interrupted() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let urgent = queue(&fixture, first, OnBusy::Interrupt).await.unwrap();
    let last = queue(&fixture, first, OnBusy::Interrupt).await.unwrap();
    log.record(vec![end(first.run, RunStatus::Interrupted)], vec![], vec![]).await.unwrap();
    for (next, stop) in [(urgent, Some(Stop::Interrupted)), (last, None)] {
        let begun = fixture.store.run(&principal("alice"), next.run).await.unwrap();
        assert_eq!((begun.status, begun.stop), (RunStatus::Running, stop));
        let ended = end(next.run, stop.map_or(RunStatus::Completed, Stop::status));
        fixture.log(next).await.record(vec![ended], vec![], vec![]).await.unwrap();
    }
}

#[tokio::test]
async fn the_queue_is_bounded_and_its_runs_can_be_cancelled() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let mut waiting = Vec::new();
    for _ in 0..MAX_QUEUED_PER_THREAD {
        waiting.push(queue(&fixture, first, OnBusy::Queue).await.unwrap());
    }
    assert!(matches!(queue(&fixture, first, OnBusy::Queue).await, Err(Error::QueueFull)));
    assert!(matches!(queue(&fixture, first, OnBusy::Reject).await, Err(Error::Busy)));
    let cancelled = waiting.remove(0);
    let row = fixture.store.cancel(&principal("alice"), cancelled.run, None).await.unwrap();
    assert_eq!((row.status, row.start_seq), (RunStatus::Cancelled, None));
    log.record(vec![end(first.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    assert_eq!(status(&fixture, waiting[0]).await, RunStatus::Running);
    assert_eq!(
        fixture.store.delete_thread(&principal("alice"), first.thread, None).await.unwrap(),
        Some(waiting[0].run)
    );
    let conn = fixture.database();
    let left: i64 =
        conn.query_row("SELECT count(*) FROM runs WHERE status = 'queued'", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "what waited for a deleted thread has ended");
}

#[tokio::test]
async fn q3_a_key_means_once() {
    let fixture = Fixture::new();
    let keyed = |key: &str, asked: u8| {
        let mut submission = fixture.submission(Target::New(fixture.ids.thread()));
        submission.once = Some(IdempotencyClaim { key: key.into(), fingerprint: [asked; 32] });
        submission
    };
    let first = fixture.store.submit(keyed("a", 1)).await.unwrap().0;
    let again = fixture.store.submit(keyed("a", 1)).await.unwrap().0;
    assert_eq!((again.run, again.thread, again.admitted), (first.run, first.thread, RunAcceptance::Replayed));
    assert!(matches!(fixture.store.submit(keyed("a", 2)).await, Err(Error::KeyReused)));
    let mut other = keyed("a", 2);
    other.scope = scope("bob");
    assert_eq!(
        fixture.store.submit(other).await.unwrap().0.admitted,
        RunAcceptance::Running,
        "keys are a user's own"
    );
    let mut refused = keyed("b", 1);
    refused.thread = Target::Existing(fixture.ids.thread());
    assert!(matches!(fixture.store.submit(refused).await, Err(Error::NotFound("thread"))));
    assert_eq!(
        fixture.store.submit(keyed("b", 9)).await.unwrap().0.admitted,
        RunAcceptance::Running,
        "a refusal uses up no key"
    );
    let now = protocol::Clock::now(&testkit::still::StandingClock);
    let later = now.checked_add(jiff::SignedDuration::from_hours(25)).unwrap();
    while fixture.store.purge(now, later).await.unwrap() {}
    assert_eq!(
        fixture.store.submit(keyed("a", 2)).await.unwrap().0.admitted,
        RunAcceptance::Running,
        "forgotten in time"
    );
}

#[tokio::test]
async fn r3_an_earlier_owner_writes_nothing() {
    let fixture = Fixture::new();
    let (first, stale) = fixture.run().await;
    let adopted = fixture.store.adopt().await.unwrap();
    assert_eq!(adopted.iter().map(|row| (row.id, row.epoch)).collect::<Vec<_>>(), [(first.run, 2)]);
    stale.push(text("I am still here")).unwrap();
    assert!(matches!(stale.record(vec![step_end(vec![])], vec![], vec![]).await, Err(Error::Fenced)));
    let owner = fixture.store.log(&adopted[0]);
    owner.push(text("Not any more")).unwrap();
    owner.record(vec![step_end(vec![]), end(first.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let bodies: Vec<String> =
        fixture.published.of(first.thread).iter().map(|event| event.body.to_string()).collect();
    assert!(bodies.iter().any(|body| body.contains("Not any more")));
    assert!(!bodies.iter().any(|body| body.contains("I am still here")), "{bodies:?}");
}
