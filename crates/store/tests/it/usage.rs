//! Usage: what steps, void parts and jobs have used is what days add up to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use protocol::{
    AppId, Clock, Cost, Event, Ids, RunStatus, Scope, StepEnd, StepReset, StepRetry, StepStart, Usage,
    UsageView,
};
use store::{Error, JobUsage, NewJob, Target};
use testkit::still::StandingClock;

use crate::support::{Fixture, call, end, principal, reset, result, scope, step_end};

/// A clock that a test moves.
struct Moved(Mutex<Timestamp>);

impl Moved {
    fn at(text: &str) -> Arc<Self> {
        Arc::new(Self(Mutex::new(text.parse().unwrap())))
    }

    fn to(&self, text: &str) {
        *self.0.lock().unwrap() = text.parse().unwrap();
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

fn used(input_tokens: u64, cost: u64) -> Usage {
    Usage {
        input_tokens,
        output_tokens: 2 * input_tokens,
        cached_input_tokens: 1,
        reasoning_tokens: 3,
        cost: Cost(cost),
        estimated: false,
    }
}

fn sum(parts: &[Usage]) -> Usage {
    parts.iter().fold(Usage::default(), |mut total, part| {
        total += *part;
        total
    })
}

fn step(step: u32, fallback: Option<&str>, usage: Usage) -> Event {
    let Event::StepEnd(base) = step_end(vec![]) else { unreachable!() };
    // A provider's own spelling of the name is not what is billed.
    let model = Some("dated".to_owned());
    Event::StepEnd(StepEnd { step, usage, model, fallback: fallback.map(Into::into), ..base })
}

fn start(step: u32, model: &str) -> Event {
    Event::StepStart(StepStart { step, model: model.into() })
}

async fn report(fixture: &Fixture, user: &str) -> Vec<UsageView> {
    fixture.store.usage(&principal(user), "0000-01-01".into(), "9999-12-31".into()).await.unwrap()
}

fn row(day: &str, model: &str, calls: u64, usage: Usage) -> UsageView {
    UsageView { date: day.into(), app_id: scope("alice").app.to_string(), model: model.into(), calls, usage }
}

#[tokio::test]
async fn c4_days_and_runs_add_up_to_what_the_steps_said() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let (first, void, second) = (used(10, 100), used(4, 40), used(1, 7));
    let id = fixture.ids.call();
    let Event::StepEnd(calling) = step_end(vec![call(id)]) else { unreachable!() };
    let calling = Event::StepEnd(StepEnd { usage: first, ..calling });
    log.record(vec![start(1, "m"), calling], vec![], vec![]).await.unwrap();
    log.record(vec![result(id, "done"), start(2, "m"), reset(2, Some(void)), reset(2, None)], vec![], vec![])
        .await
        .unwrap();
    log.record(vec![step(2, None, second), end(submitted.run, RunStatus::Completed)], vec![], vec![])
        .await
        .unwrap();
    let total = sum(&[first, void, second]);
    let run = fixture.store.run(&principal("alice"), submitted.run).await.unwrap();
    assert_eq!(run.usage, total);
    assert_eq!(report(&fixture, "alice").await, [row("2026-03-01", "m", 3, total)]);
    let today = store::day(StandingClock.now());
    assert_eq!(fixture.store.usage_of_day(&scope("alice"), today).await.unwrap(), total);
}

#[tokio::test]
async fn each_model_is_billed_for_what_it_said() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let turned =
        StepReset { step: 1, reason: "broken".into(), model: Some("second".into()), usage: Some(used(1, 1)) };
    let retried = StepRetry { step: 1, reason: "busy".into(), after: 1, model: Some("third".into()) };
    let facts = vec![
        start(1, "first"),
        Event::StepReset(turned),
        reset(1, Some(used(2, 2))),
        Event::StepRetry(retried),
        step(1, None, used(4, 4)),
        start(2, "first"),
        step(2, Some("stand-in"), used(8, 8)),
    ];
    log.record(facts, vec![], vec![]).await.unwrap();
    let expected = [
        row("2026-03-01", "first", 1, used(1, 1)),
        row("2026-03-01", "second", 1, used(2, 2)),
        row("2026-03-01", "stand-in", 1, used(8, 8)),
        row("2026-03-01", "third", 1, used(4, 4)),
    ];
    assert_eq!(report(&fixture, "alice").await, expected);
}

#[tokio::test]
async fn usage_counts_on_the_day_of_its_commit() {
    let clock = Moved::at("2025-12-31T23:59:59.999Z");
    let fixture = Fixture::by(clock.clone());
    let (_, log) = fixture.run().await;
    log.record(vec![step(1, None, used(1, 1))], vec![], vec![]).await.unwrap();
    clock.to("2026-01-01T00:00:00Z");
    log.record(vec![step(2, None, used(2, 2))], vec![], vec![]).await.unwrap();
    let (old, new) = (row("2025-12-31", "m", 1, used(1, 1)), row("2026-01-01", "m", 1, used(2, 2)));
    assert_eq!(report(&fixture, "alice").await, [new.clone(), old.clone()], "newest first");
    let between = async |from: &str, to: &str| {
        fixture.store.usage(&principal("alice"), from.into(), to.into()).await.unwrap()
    };
    assert_eq!(between("2025-12-31", "2025-12-31").await, [old]);
    assert_eq!(between("2026-01-01", "2026-02-01").await, [new]);
    assert_eq!(between("2026-01-02", "2026-02-01").await, []);
    let alice = scope("alice");
    assert_eq!(fixture.store.usage_of_day(&alice, "2026-01-01".into()).await.unwrap(), used(2, 2));
    assert_eq!(fixture.store.usage_of_day(&alice, "2026-01-02".into()).await.unwrap(), Usage::default());
}

#[tokio::test]
async fn usage_is_a_users_own_and_a_days_sum_an_apps_own() {
    let fixture = Fixture::new();
    let mut elsewhere = fixture.submission(Target::New(fixture.ids.thread()));
    elsewhere.scope = Scope { app: AppId::new("other"), ..scope("alice") };
    let other = fixture.store.submit(elsewhere).await.unwrap().0;
    fixture.log(other).await.record(vec![step(1, None, used(5, 5))], vec![], vec![]).await.unwrap();
    let (_, log) = fixture.run().await;
    log.record(vec![step(1, None, used(1, 1)), step(2, Some("n"), used(2, 2))], vec![], vec![])
        .await
        .unwrap();
    assert_eq!(report(&fixture, "mallory").await, []);
    let apps: Vec<_> =
        report(&fixture, "alice").await.into_iter().map(|row| (row.app_id, row.model)).collect();
    let expected =
        [("app", "m"), ("app", "n"), ("other", "m")].map(|(app, m)| (app.to_owned(), m.to_owned()));
    assert_eq!(apps, expected);
    let today = store::day(StandingClock.now());
    let sum = fixture.store.usage_of_day(&scope("alice"), today.clone()).await.unwrap();
    assert_eq!((sum.input_tokens, sum.cost), (3, Cost(3)));
    assert_eq!(fixture.store.usage_of_day(&scope("mallory"), today).await.unwrap(), Usage::default());
}

#[tokio::test]
async fn what_is_estimated_stays_so_and_absurd_numbers_stop_at_the_bound() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let guessed = Usage { estimated: true, ..used(1, 1) };
    let absurd = Usage { input_tokens: u64::MAX, cost: Cost(u64::MAX), ..Usage::default() };
    for usage in [guessed, absurd, absurd, used(1, 1)] {
        log.record(vec![step(1, None, usage)], vec![], vec![]).await.unwrap();
    }
    let usage = fixture.store.run(&principal("alice"), submitted.run).await.unwrap().usage;
    let most = i64::MAX as u64;
    assert_eq!((usage.input_tokens, usage.cost, usage.estimated), (most, Cost(most), true));
    let rows = report(&fixture, "alice").await;
    assert_eq!((rows[0].calls, rows[0].usage), (4, usage));
}

#[tokio::test]
async fn a_job_pays_with_its_end_and_only_then() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let job = NewJob { id: fixture.ids.job(), kind: "name_thread", key: "a".into(), delay: Duration::ZERO };
    log.record(vec![reset(1, None)], vec![job], vec![]).await.unwrap();
    let job = fixture.store.claim().await.unwrap().unwrap();
    let spent = || Some(JobUsage { model: "small".into(), usage: used(6, 60) });
    fixture.store.complete(&job, None, spent()).await.unwrap();
    assert!(matches!(fixture.store.complete(&job, None, spent()).await, Err(Error::Fenced)));
    assert_eq!(report(&fixture, "alice").await, [row("2026-03-01", "small", 1, used(6, 60))]);
}

#[tokio::test]
async fn what_was_not_committed_was_not_used_and_no_model_is_no_call() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let refused = vec![step(1, None, used(9, 9)), result(fixture.ids.call(), "no such call")];
    assert!(log.record(refused, vec![], vec![]).await.is_err());
    assert_eq!(report(&fixture, "alice").await, []);
    let mut unnamed = fixture.submission(Target::New(fixture.ids.thread()));
    unnamed.request.model = None;
    let unnamed = fixture.store.submit(unnamed).await.unwrap().0;
    let log = fixture.log(unnamed).await;
    log.record(vec![start(1, ""), step(1, None, Usage::default())], vec![], vec![]).await.unwrap();
    assert_eq!(report(&fixture, "alice").await, []);
}
