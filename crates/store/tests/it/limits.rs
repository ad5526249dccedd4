//! Limits: what one user may do in a minute and a day, counted where a run is accepted.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use protocol::{AppId, Clock, Event, Ids, OnBusy, Quota, RunStatus, Scope, StepEnd, Usage, Used, UserLimits};
use store::{Error, IdempotencyClaim, RunAcceptance, Submission, SubmittedRun, Target};

use crate::support::{Fixture, end, principal, scope, step_end};

/// A clock that a test moves.
struct Moved(Mutex<Timestamp>);

impl Moved {
    fn to(&self, text: &str) {
        *self.0.lock().unwrap() = text.parse().unwrap();
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

fn fixture(at: &str) -> (Fixture, Arc<Moved>) {
    let clock = Arc::new(Moved(Mutex::new(at.parse().unwrap())));
    (Fixture::by(clock.clone()), clock)
}

fn runs_per_minute(runs: u64) -> UserLimits {
    UserLimits { runs_per_minute: Some(runs), ..UserLimits::default() }
}

fn submission(fixture: &Fixture, limits: UserLimits) -> Submission {
    Submission { limits, ..fixture.submission(Target::New(fixture.ids.thread())) }
}

async fn submit(fixture: &Fixture, limits: UserLimits) -> Result<SubmittedRun, Error> {
    fixture.store.submit(submission(fixture, limits)).await.map(|(submitted, _)| submitted)
}

/// The limit that refuses, and how many seconds to wait.
async fn refused(fixture: &Fixture, limits: UserLimits) -> (Quota, u32) {
    match submit(fixture, limits).await {
        Err(Error::Limited(allowance)) => (allowance.quota, allowance.retry_after()),
        other => panic!("it was not refused: {other:?}"),
    }
}

async fn finish(fixture: &Fixture, submitted: SubmittedRun, tokens: u64) {
    let Event::StepEnd(step) = step_end(vec![]) else { unreachable!() };
    let usage = Usage { input_tokens: tokens, ..Usage::default() };
    let step = Event::StepEnd(StepEnd { usage, ..step });
    let log = fixture.log(submitted).await;
    log.record(vec![step, end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
}

fn rows(fixture: &Fixture) -> Vec<i64> {
    let count = |table| {
        let sql = format!("SELECT count(*) FROM {table}");
        fixture.database().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    ["threads", "runs", "events", "pace", "idempotency", "queue"].map(count).to_vec()
}

#[tokio::test]
async fn so_many_runs_begin_in_a_minute_and_no_more() {
    let (fixture, clock) = fixture("2026-11-15T12:00:18Z");
    let limits = runs_per_minute(2);
    for _ in 0..2 {
        submit(&fixture, limits).await.unwrap();
    }
    let before = rows(&fixture);
    assert_eq!(refused(&fixture, limits).await, (Quota::RunsMinute, 42));
    assert_eq!(rows(&fixture), before);
    // Another user and another app have their own.
    for (user, app) in [("bob", "app"), ("alice", "other")] {
        let scope = Scope { app: AppId::new(app), ..scope(user) };
        fixture.store.submit(Submission { scope, ..submission(&fixture, limits) }).await.unwrap();
    }
    clock.to("2026-11-15T12:00:59.999Z");
    assert_eq!(refused(&fixture, limits).await, (Quota::RunsMinute, 1));
    clock.to("2026-11-15T12:01:00Z");
    submit(&fixture, limits).await.unwrap();
}

#[tokio::test]
async fn a_day_ends_at_midnight_and_the_longest_wait_is_told() {
    let (fixture, clock) = fixture("2026-11-15T23:00:00Z");
    let limits = UserLimits { runs_per_day: Some(1), ..runs_per_minute(1) };
    submit(&fixture, limits).await.unwrap();
    assert_eq!(refused(&fixture, limits).await, (Quota::RunsDay, 3600));
    clock.to("2026-11-15T23:59:59Z");
    assert_eq!(refused(&fixture, limits).await, (Quota::RunsDay, 1));
    clock.to("2026-11-16T00:00:00Z");
    submit(&fixture, limits).await.unwrap();
}

#[tokio::test]
async fn tokens_count_in_the_minute_in_which_they_are_spent() {
    let (fixture, clock) = fixture("2026-11-15T12:00:00Z");
    let limits =
        UserLimits { tokens_per_minute: Some(100), tokens_per_day: Some(150), ..UserLimits::default() };
    let first = submit(&fixture, limits).await.unwrap();
    clock.to("2026-11-15T12:05:30Z");
    finish(&fixture, first, 100).await;
    assert_eq!(refused(&fixture, limits).await, (Quota::TokensMinute, 30));
    clock.to("2026-11-15T12:06:00Z");
    let second = submit(&fixture, limits).await.unwrap();
    finish(&fixture, second, 50).await;
    assert_eq!(refused(&fixture, limits).await, (Quota::TokensDay, 42_840));
    let at = "2026-11-15T12:06:30Z".parse().unwrap();
    let used = fixture.store.used(&scope("alice"), limits, at).await.unwrap();
    let expected = Used { minute_runs: 1, minute_tokens: 50, day_runs: 2, day_tokens: 150, running: 0 };
    assert_eq!(used, expected);
}

#[tokio::test]
async fn deleting_what_was_said_gives_nothing_back() {
    let (fixture, _) = fixture("2026-11-15T12:00:00Z");
    let submitted = submit(&fixture, runs_per_minute(1)).await.unwrap();
    finish(&fixture, submitted, 1).await;
    fixture.store.delete_thread(&principal("alice"), submitted.thread, None).await.unwrap();
    let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    while fixture.store.purge(now, Timestamp::UNIX_EPOCH).await.unwrap() {}
    assert_eq!(rows(&fixture)[1], 0);
    assert_eq!(refused(&fixture, runs_per_minute(1)).await, (Quota::RunsMinute, 60));
}

#[tokio::test]
async fn what_came_before_under_the_same_key_is_never_refused() {
    let (fixture, _) = fixture("2026-11-15T12:00:00Z");
    let once = IdempotencyClaim { key: "k".into(), fingerprint: [1; 32] };
    let keyed = || Submission { once: Some(once.clone()), ..submission(&fixture, runs_per_minute(1)) };
    let first = fixture.store.submit(keyed()).await.unwrap().0;
    let before = rows(&fixture);
    let again = fixture.store.submit(keyed()).await.unwrap().0;
    assert_eq!((again.run, again.admitted), (first.run, RunAcceptance::Replayed));
    assert_eq!(rows(&fixture), before);
    assert_eq!(refused(&fixture, runs_per_minute(1)).await, (Quota::RunsMinute, 60));
}

#[tokio::test]
async fn two_at_once_do_not_both_get_the_last_place() {
    let (fixture, _) = fixture("2026-11-15T12:00:00Z");
    let one = || submit(&fixture, runs_per_minute(2));
    let answers: [_; 5] = tokio::join!(one(), one(), one(), one(), one()).into();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
}

#[tokio::test]
async fn a_message_that_waits_counts_when_it_is_accepted_but_does_not_work() {
    let (fixture, _) = fixture("2026-11-15T12:00:00Z");
    let limits = UserLimits { max_running: Some(1), ..runs_per_minute(3) };
    let first = submit(&fixture, limits).await.unwrap();
    let queued = || Submission {
        limits,
        on_busy: OnBusy::Queue,
        ..fixture.submission(Target::Existing(first.thread))
    };
    assert_eq!(refused(&fixture, limits).await, (Quota::Running, 2));
    let second = fixture.store.submit(queued()).await.unwrap().0;
    assert!(matches!(second.admitted, RunAcceptance::Queued { .. }));
    fixture.store.submit(queued()).await.unwrap();
    assert!(matches!(fixture.store.submit(queued()).await, Err(Error::Limited(_))));
    // The next of the thread begins with the end of the first, so that the place stays taken.
    finish(&fixture, first, 1).await;
    let free = UserLimits { max_running: Some(1), ..UserLimits::default() };
    assert_eq!(refused(&fixture, free).await, (Quota::Running, 2));
}

#[tokio::test]
async fn minutes_that_no_window_reaches_are_forgotten() {
    let (fixture, clock) = fixture("2026-11-15T12:00:00Z");
    submit(&fixture, UserLimits::default()).await.unwrap();
    clock.to("2026-11-17T12:00:00Z");
    submit(&fixture, UserLimits::default()).await.unwrap();
    let before: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    while fixture.store.purge(before, before).await.unwrap() {}
    assert_eq!(rows(&fixture)[3], 1);
}
