//! Jobs: enqueued with their cause, claimed by one, done once with their effect.

use jiff::{SignedDuration, Timestamp};
use protocol::{Clock, Event, Ids, ThreadNamed};
use store::{Error, Jobs, Maintenance, NewJob, PageOf, Retry, Threads};
use testkit::still::StandingClock;

use crate::support::{Fixture, principal, step_end};

fn job(fixture: &Fixture, key: &str) -> NewJob {
    NewJob { id: fixture.ids.job(), kind: "name_thread", key: key.into() }
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
