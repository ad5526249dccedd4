//! Jobs: enqueued with their cause, claimed by one, done once with their effect.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::{AppId, Clock, Event, Ids, OnBusy, RunStatus, Scope, ThreadNamed};
use store::{Error, JobRow, NewJob, PageOf, Retry, RunInput, RunJob, Submission, Target};
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
async fn who_looks_for_work_is_told_of_new_jobs_once() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    assert!(!fixture.published.takes_work(), "a run is no work in the background");
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a")], vec![]).await.unwrap();
    assert!(fixture.published.takes_work());
    assert!(!fixture.published.takes_work());
    let (_, log) = fixture.run().await;
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a")], vec![]).await.unwrap();
    assert!(!fixture.published.takes_work(), "the job was there before");
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
    fixture.store.fail(&poison, "too early".into(), Retry::At(soon()), None).await.unwrap();
    let other = fixture.store.claim().await.unwrap().unwrap();
    assert_ne!(other.id, poison.id, "it blocks nobody");
    assert_eq!(fixture.store.claim().await.unwrap(), None, "it is not due");
    assert_eq!(fixture.store.next_due().await.unwrap(), None, "the other one works in the same thread");
    fixture.store.fail(&other, "hopeless".into(), Retry::Never, None).await.unwrap();
    assert_eq!(fixture.store.next_due().await.unwrap(), Some(soon()));
    let jobs = fixture.store.jobs(PageOf { after: None, limit: 10 }).await.unwrap().rows;
    let mut states: Vec<_> = jobs.iter().map(|job| (job.status.name(), job.error.as_deref())).collect();
    states.sort_unstable();
    assert_eq!(states, [("dead", Some("hopeless")), ("ready", Some("too early"))]);
}

#[tokio::test]
async fn an_attempt_that_could_not_be_made_does_not_count() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a")], vec![]).await.unwrap();
    for _ in 0..2 * store::MAX_JOB_ATTEMPTS {
        let claimed = fixture.store.claim().await.unwrap().unwrap();
        assert_eq!(claimed.attempts, 1);
        let now = Retry::Uncounted(claimed.run_at);
        fixture.store.fail(&claimed, "its app is missing".into(), now, None).await.unwrap();
    }
}

#[tokio::test]
async fn an_app_is_missing_since_it_was_first_missed_until_it_is_found() {
    let fixture = Fixture::new();
    let (app, other) = (AppId::new("garden"), AppId::new("other"));
    let since = fixture.store.note_missing(&app).await.unwrap();
    fixture.store.note_missing(&other).await.unwrap();
    assert_eq!(fixture.store.note_missing(&app).await.unwrap(), since);
    fixture.store.note_found(&other).await.unwrap();
    fixture.store.note_found(&other).await.unwrap();
    assert_eq!(fixture.store.missing_apps().await.unwrap(), [(app, since)]);
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

/// Returns the jobs that are due now, as kind and key; they are done.
async fn due(fixture: &Fixture) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some(job) = fixture.store.claim().await.unwrap() {
        fixture.store.complete(&job, None, None).await.unwrap();
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
    let RunInput::Say { id, .. } = submission.request.ask else { unreachable!() };
    (submission, id.to_string())
}

#[tokio::test]
async fn j1_a_message_causes_its_jobs_when_it_is_in_the_log() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (first, message) = causing(&fixture, Target::New(fixture.ids.thread()), 5_000);
    let first = fixture.store.submit(first).await.unwrap().0;
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
    again.request.ask = RunInput::Again { of: None };
    fixture.store.submit(again).await.unwrap();
    assert_eq!(due(&fixture).await, []);
}

#[tokio::test]
async fn a_request_that_was_queued_before_there_were_jobs_is_still_read() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let (waiting, _) = causing(&fixture, Target::Existing(first.thread), 0);
    let waiting = fixture.store.submit(waiting).await.unwrap().0;
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
            0 => fixture.store.fail(claimed, "no".into(), Retry::Never, None).await.unwrap(),
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

/// Makes `count` jobs of a user, each in a thread of its own, due at a second.
fn many(fixture: &Fixture, user: &str, count: usize, due: i64) {
    let insert = "INSERT INTO jobs (id, kind, key, app, user, thread, status, run_at, created_at, updated_at)
        VALUES (randomblob(16), 'extract', hex(randomblob(16)), 'test', ?1, randomblob(16), 'ready', ?2, ?2, ?2)";
    let (conn, due) = (fixture.database(), after(due).as_millisecond());
    for _ in 0..count {
        conn.execute(insert, rusqlite::params![user, due]).unwrap();
    }
}

async fn claimed(fixture: &Fixture) -> Option<JobRow> {
    fixture.store.claim().await.unwrap()
}

#[tokio::test]
async fn one_job_of_a_kind_works_in_a_thread_at_a_time_and_holds_nobody_else_up() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let extract = |key: &str| NewJob { kind: "extract", ..job(&fixture, key) };
    let jobs = vec![extract("a"), extract("b"), extract("c"), job(&fixture, "d")];
    log.record(vec![step_end(vec![])], jobs, vec![]).await.unwrap();
    let first = claimed(&fixture).await.unwrap();
    let second = claimed(&fixture).await.unwrap();
    let mut kinds = [first.kind.as_str(), second.kind.as_str()];
    kinds.sort_unstable();
    assert_eq!(kinds, ["extract", "name_thread"]);
    assert_eq!(claimed(&fixture).await, None);
    assert_eq!(
        fixture.store.next_due().await.unwrap(),
        None,
        "nothing can be taken, so nothing is waited for"
    );
    let extracting = if first.kind == "extract" { first } else { second };
    fixture.store.complete(&extracting, None, None).await.unwrap();
    let next = claimed(&fixture).await.unwrap();
    assert_eq!(next.kind, "extract");
    fixture.store.fail(&next, "not now".into(), Retry::At(soon()), None).await.unwrap();
    let last = claimed(&fixture).await.unwrap();
    assert!(last.kind == "extract" && last.id != next.id, "one that waits does not stand in the way");
}

#[tokio::test]
async fn users_take_turns_however_much_one_of_them_has_waiting() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    many(&fixture, "mallory", 100, 0);
    many(&fixture, "alice", 2, 1);
    many(&fixture, "bob", 1, 1);
    let mut users = Vec::new();
    for second in 2..7 {
        clock.to(second);
        users.push(claimed(&fixture).await.unwrap().scope.user.as_str().to_owned());
    }
    users[1..3].sort_unstable();
    assert_eq!(users, ["mallory", "alice", "bob", "mallory", "alice"]);
}

#[tokio::test]
async fn no_user_has_more_than_eight_jobs_at_work() {
    let fixture = Fixture::new();
    many(&fixture, "mallory", 100, -10);
    let mut works = Vec::new();
    while let Some(job) = claimed(&fixture).await {
        works.push(job);
    }
    assert_eq!(works.len(), 8);
    many(&fixture, "alice", 1, -5);
    assert_eq!(claimed(&fixture).await.unwrap().scope.user.as_str(), "alice");
    fixture.store.complete(&works[3], None, None).await.unwrap();
    assert_eq!(claimed(&fixture).await.unwrap().scope.user.as_str(), "mallory");
    assert_eq!(claimed(&fixture).await, None);
    fixture.store.adopt().await.unwrap(); // as a restart does
    assert!(claimed(&fixture).await.is_some());
    let conn = fixture.database();
    conn.execute("DELETE FROM jobs", []).unwrap();
    let left: i64 = conn
        .query_row("SELECT (SELECT count(*) FROM job_lines) + (SELECT count(*) FROM job_users)", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(left, 0, "what is gone is in no line");
}

const DAY: i64 = 24 * 60 * 60;

/// How many jobs there are of each status, after all that may be forgotten at this time is.
async fn left(fixture: &Fixture, clock: &Forward, day: i64) -> Vec<String> {
    clock.to(day * DAY);
    while fixture.store.purge(after(0), after((day - 1) * DAY)).await.unwrap() {}
    let jobs = fixture.store.jobs(PageOf { after: None, limit: 10 }).await.unwrap();
    let mut left: Vec<String> = jobs.rows.into_iter().map(|job| job.status.name().to_owned()).collect();
    left.sort_unstable();
    left
}

#[tokio::test]
async fn finished_jobs_are_removed_with_age_also_those_of_threads() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (_, log) = fixture.run().await;
    let later = NewJob { delay: Duration::from_secs(365 * 24 * 60 * 60), ..job(&fixture, "later") };
    let caused = vec![job(&fixture, "a"), job(&fixture, "b"), later];
    log.record(vec![step_end(vec![])], caused, vec![]).await.unwrap();
    fixture.store.schedule(NewJob { kind: "sweep", ..job(&fixture, "1") }).await.unwrap();
    let (mut done, mut dead) = (0, 0);
    while let Some(claimed) = fixture.store.claim().await.unwrap() {
        if claimed.key == "b" {
            fixture.store.fail(&claimed, "hopeless".into(), Retry::Never, None).await.unwrap();
            dead += 1;
        } else {
            fixture.store.complete(&claimed, None, None).await.unwrap();
            done += 1;
        }
    }
    assert_eq!((done, dead), (2, 1));
    assert_eq!(left(&fixture, &clock, 1).await, ["dead", "done", "done", "ready"], "not older than a day");
    assert_eq!(left(&fixture, &clock, 2).await, ["dead", "ready"]);
    assert_eq!(left(&fixture, &clock, 31).await, ["dead", "ready"], "an operator has had no time to look");
    assert_eq!(left(&fixture, &clock, 32).await, ["ready"], "what is not done is never too old");
}

/// The job is forgotten; that the thread has its name is not.
#[tokio::test]
async fn a_thread_is_named_once_though_the_job_that_named_it_is_forgotten() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (submitted, log) = fixture.run().await;
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a")], vec![]).await.unwrap();
    assert!(!fixture.store.is_named(submitted.thread).await.unwrap());
    let first = fixture.store.claim().await.unwrap().unwrap();
    fixture.store.complete(&first, named("first"), None).await.unwrap();
    assert!(fixture.store.is_named(submitted.thread).await.unwrap());
    assert_eq!(left(&fixture, &clock, 2).await, [""; 0]);
    log.record(vec![step_end(vec![])], vec![job(&fixture, "a")], vec![]).await.unwrap();
    let again = fixture.store.claim().await.unwrap().unwrap();
    fixture.store.complete(&again, named("second"), None).await.unwrap();
    let thread = fixture.store.thread(&principal("alice"), submitted.thread).await.unwrap();
    assert_eq!(thread.title.as_deref(), Some("first"));
    let names = fixture.published.of(submitted.thread);
    assert_eq!(names.iter().filter(|event| event.kind == "thread:named").count(), 1);
    fixture.store.delete_thread(&principal("alice"), submitted.thread, None).await.unwrap();
    assert!(fixture.store.is_named(submitted.thread).await.unwrap(), "nobody looks for a name any more");
}
