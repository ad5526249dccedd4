//! Jobs: enqueued with their cause, claimed by one, done once with their effect.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::{AppId, Clock, Event, Ids, OnBusy, RunStatus, Scope, ThreadNamed};
use store::{
    Ask, Error, Jobs, Maintenance, NewJob, PageOf, Retry, RunJob, Runs, Submission, Target, Threads,
};
use testkit::still::StandingClock;

use crate::support::{Fixture, Forward, after, end, principal, scope, step_end};

fn job(fixture: &Fixture, key: &str) -> NewJob {
    NewJob { id: fixture.ids.job(), kind: "name_thread", key: key.into(), delay: Duration::ZERO }
}

fn named(title: &str) -> Option<Event> {
    Some(Event::ThreadNamed(ThreadNamed { title: title.into() }))
}

fn soon() -> Timestamp {
    StandingClock.now().checked_add(SignedDuration::from_secs(5)).unwrap()
}

#[tokio::test]
async fn j1_a_job_is_there_only_if_its_cause_is() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let orphan = crate::support::result(fixture.ids.call(), "no such call");
    assert!(log.record(vec![orphan], vec![job(&fixture, "a")], vec![]).await.is_err());
    assert_eq!(fixture.store.claim().await.unwrap(), None);
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a"), job(&fixture, "a")], vec![]).await.unwrap();
    let claimed = fixture.store.claim().await.unwrap().unwrap();
    assert_eq!((claimed.key.as_str(), claimed.attempts, claimed.epoch), ("a", 1, 1));
    assert_eq!(fixture.store.claim().await.unwrap(), None, "J2: one job per kind and key, and one owner");
}

#[tokio::test]
async fn j2_an_effect_happens_once_however_often_the_job_runs() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a")], vec![]).await.unwrap();
    let stale = fixture.store.claim().await.unwrap().unwrap();
    fixture.store.adopt().await.unwrap(); // as a restart does
    let owner = fixture.store.claim().await.unwrap().unwrap();
    assert_eq!((owner.attempts, owner.epoch), (2, 2));
    assert!(matches!(fixture.store.complete(&stale, named("stale"), None).await, Err(Error::Fenced)));
    fixture.store.complete(&owner, named("right"), None).await.unwrap();
    assert!(matches!(fixture.store.complete(&owner, named("twice"), None).await, Err(Error::Fenced)));
    let thread = fixture.store.thread(&principal("alice"), submitted.thread).await.unwrap();
    assert_eq!(thread.title.as_deref(), Some("right"));
    let names =
        fixture.published.of(submitted.thread).iter().filter(|event| event.kind == "thread:named").count();
    assert_eq!(names, 1);
}

#[tokio::test]
async fn j4_a_job_that_fails_waits_and_in_the_end_is_dead_with_a_reason() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a"), job(&fixture, "b")], vec![]).await.unwrap();
    let poison = fixture.store.claim().await.unwrap().unwrap();
    fixture.store.fail(&poison, "too early".into(), Retry::At(soon())).await.unwrap();
    let other = fixture.store.claim().await.unwrap().unwrap();
    assert_ne!(other.id, poison.id, "it blocks nobody");
    assert_eq!(fixture.store.claim().await.unwrap(), None, "it is not due");
    assert_eq!(fixture.store.next_due().await.unwrap(), Some(soon()));
    fixture.store.fail(&other, "hopeless".into(), Retry::Never).await.unwrap();
    let jobs = fixture.store.jobs(PageOf { after: None, limit: 10 }).await.unwrap();
    let mut states: Vec<_> = jobs.iter().map(|job| (job.status.as_str(), job.error.as_deref())).collect();
    states.sort_unstable();
    assert_eq!(states, [("dead", Some("hopeless")), ("ready", Some("too early"))]);
}

#[tokio::test]
async fn a_scheduled_job_is_one_job_a_turn_whoever_adds_it() {
    let fixture = Fixture::new();
    for turn in ["1", "1", "2"] {
        fixture.store.schedule(NewJob { kind: "sweep", ..job(&fixture, turn) }).await.unwrap();
    }
    let mut keys = Vec::new();
    while let Some(claimed) = fixture.store.claim().await.unwrap() {
        fixture.store.complete(&claimed, None, None).await.unwrap();
        keys.push(claimed.key);
    }
    keys.sort_unstable();
    assert_eq!(keys, ["1", "2"]);
}

/// What is due now, as kind and key.
async fn due(fixture: &Fixture) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some(job) = fixture.store.claim().await.unwrap() {
        found.push((job.kind, job.key));
    }
    found
}

#[tokio::test]
async fn a_job_with_a_delay_is_due_that_much_later() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let later = |key: &str, delay| NewJob { delay, ..job(&fixture, key) };
    let (_, log) = fixture.run().await;
    let jobs = vec![later("minute", Duration::from_secs(60)), later("never", Duration::MAX)];
    log.record(vec![step_end(vec![])], jobs, vec![]).await.unwrap();
    fixture.store.schedule(later("hour", Duration::from_secs(3_600))).await.unwrap();
    clock.to(59);
    assert_eq!(due(&fixture).await, []);
    assert_eq!(fixture.store.next_due().await.unwrap(), Some(after(60)));
    clock.to(60);
    assert_eq!(due(&fixture).await, [("name_thread".to_owned(), "minute".to_owned())]);
    clock.to(3_600);
    assert_eq!(due(&fixture).await, [("name_thread".to_owned(), "hour".to_owned())]);
    assert!(fixture.store.next_due().await.unwrap().is_some(), "what is never due can still be read");
}

fn causing(fixture: &Fixture, thread: Target, delay_ms: u64) -> (Submission, String) {
    let mut submission = fixture.submission(thread);
    submission.on_busy = OnBusy::Queue;
    submission.request.jobs = vec![RunJob { id: fixture.ids.job(), kind: "extract".into(), delay_ms }];
    let Ask::Say { id, .. } = submission.request.ask else { unreachable!() };
    (submission, id.to_string())
}

#[tokio::test]
async fn j1_a_message_causes_its_jobs_when_it_is_in_the_log() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (first, message) = causing(&fixture, Target::New(fixture.ids.thread()), 5_000);
    let first = fixture.store.submit(first).await.unwrap();
    let (waiting, waiting_message) = causing(&fixture, Target::Existing(first.thread), 1_000);
    fixture.store.submit(waiting).await.unwrap();
    clock.to(4);
    assert_eq!(due(&fixture).await, [], "the first is not due, and the second message is not said");
    clock.to(5);
    assert_eq!(due(&fixture).await, [("extract".to_owned(), message)]);
    fixture
        .log(first)
        .await
        .record(vec![end(first.run, RunStatus::Completed)], vec![], vec![])
        .await
        .unwrap();
    clock.to(6);
    let said = fixture.store.claim().await.unwrap().unwrap();
    assert_eq!((said.key, said.scope, said.thread), (waiting_message, scope("alice"), Some(first.thread)));
}

#[tokio::test]
async fn answering_again_says_nothing_and_so_causes_nothing() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    log.record(vec![end(first.run, RunStatus::Failed)], vec![], vec![]).await.unwrap();
    let (mut again, _) = causing(&fixture, Target::Existing(first.thread), 0);
    again.request.ask = Ask::Again { of: None };
    fixture.store.submit(again).await.unwrap();
    assert_eq!(due(&fixture).await, []);
}

#[tokio::test]
async fn a_request_that_was_queued_before_there_were_jobs_is_still_read() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let (waiting, _) = causing(&fixture, Target::Existing(first.thread), 0);
    let waiting = fixture.store.submit(waiting).await.unwrap();
    let older = "UPDATE queue SET submission = json_remove(submission, '$.jobs')";
    assert_eq!(fixture.database().execute(older, []).unwrap(), 1);
    log.record(vec![end(first.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let run = fixture.store.run(&principal("alice"), waiting.run).await.unwrap();
    assert_eq!(run.status, RunStatus::Running);
    assert_eq!(due(&fixture).await, []);
}

#[tokio::test]
async fn a_job_of_a_scope_comes_again_once_the_earlier_one_is_over() {
    let fixture = Fixture::new();
    let (alice, bob) = (scope("alice"), scope("bob"));
    let elsewhere = Scope { app: AppId::new("other"), ..alice.clone() };
    let add = async |of: &Scope| {
        fixture.store.schedule_for(of, NewJob { kind: "embed", ..job(&fixture, "all") }).await.unwrap();
    };
    for of in [&alice, &alice, &bob, &elsewhere] {
        add(of).await;
    }
    let mut scopes = Vec::new();
    let mut jobs = Vec::new();
    while let Some(claimed) = fixture.store.claim().await.unwrap() {
        scopes.push(claimed.scope.clone());
        jobs.push(claimed);
    }
    assert_eq!(scopes.len(), 3, "one a scope: {scopes:?}");
    add(&alice).await;
    assert_eq!(fixture.store.claim().await.unwrap(), None, "while one is under way there is no other");
    for (number, claimed) in jobs.iter().enumerate() {
        assert_eq!((claimed.kind.as_str(), claimed.thread), ("embed", None));
        match number {
            0 => fixture.store.fail(claimed, "no".into(), Retry::Never).await.unwrap(),
            _ => fixture.store.complete(claimed, None, None).await.unwrap(),
        }
    }
    for of in [&alice, &bob, &elsewhere] {
        add(of).await;
        let again = fixture.store.claim().await.unwrap().unwrap();
        assert_eq!((&again.scope, again.attempts), (of, 1), "a new job, whether it was done or dead");
    }
    let stale = fixture.store.complete(&jobs[0], None, None).await;
    assert!(matches!(stale, Err(Error::Fenced)));
}
