//! Money and tokens that calls under way may still spend are held for them, and given back in the transaction that
//! counts what they used.

use std::time::Duration;

use protocol::{
    Cost, Event, Ids, Outlay, PlannedCall, RunStatus, SpendBound, SpendBounds, SpendGrant, StepRetry, Usage,
};
use store::{Error, JobUsage, NewJob, Retry, Target};

use crate::support::{Fixture, after, end, principal, reset, scope, step_end};

const CALL: PlannedCall =
    PlannedCall { input_tokens: 10, output_tokens: 50, input_cost: Cost(100), output_price: 2.0 };

fn day(tokens: u64) -> SpendBounds {
    SpendBounds { day_tokens: Some(tokens), ..SpendBounds::default() }
}

fn granted(output_tokens: u64) -> SpendGrant {
    let held = Outlay { tokens: 10 + output_tokens, cost: Cost(100 + 2 * output_tokens) };
    SpendGrant::Granted { output_tokens, held }
}

/// Tokens that are held, by each holder.
fn held(fixture: &Fixture) -> Vec<i64> {
    let database = fixture.database();
    let mut find = database.prepare("SELECT tokens FROM reservations ORDER BY tokens").unwrap();
    find.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn runs_side_by_side_hold_what_each_may_spend() {
    let fixture = Fixture::new();
    let (_, first) = fixture.run().await;
    let (_, second) = fixture.run().await;
    assert_eq!(first.reserve(CALL, day(100)).await.unwrap(), granted(50));
    assert_eq!(second.reserve(CALL, day(100)).await.unwrap(), SpendGrant::Later);
    assert_eq!(first.reserve(CALL, day(100)).await.unwrap(), granted(50), "its own is not in its way");
    assert_eq!(second.reserve(CALL, day(120)).await.unwrap(), granted(50));
    assert_eq!(held(&fixture), [60, 60]);
    let mut submission = fixture.submission(Target::New(fixture.ids.thread()));
    submission.scope = scope("bob");
    let run = fixture.store.submit(submission).await.unwrap().0.run;
    let bob = fixture.store.log(&fixture.store.run(&principal("bob"), run).await.unwrap());
    assert_eq!(bob.reserve(CALL, day(60)).await.unwrap(), granted(50), "users have budgets of their own");
}

#[tokio::test]
async fn what_is_counted_is_no_longer_held() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let retry = StepRetry { step: 1, reason: "busy".into(), after: 0, model: None };
    let used = Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() };
    let ended = end(submitted.run, RunStatus::Failed);
    for event in [reset(1, Some(used)), Event::StepRetry(retry), step_end(vec![]), ended] {
        assert_eq!(log.reserve(CALL, day(1_000)).await.unwrap(), granted(50));
        assert_eq!(held(&fixture), [60]);
        log.record(vec![event], vec![], vec![]).await.unwrap();
        assert_eq!(held(&fixture), [0; 0]);
    }
    let spent = fixture.store.usage_of_day(&scope("alice"), today(&fixture)).await.unwrap();
    let (_, next) = fixture.run().await;
    let left = day(spent.total() + 26);
    assert_eq!(next.reserve(CALL, left).await.unwrap(), granted(16), "what was used counts");
    let refused = SpendGrant::Refused { bound: SpendBound::Day, never: false };
    let (_, other) = fixture.run().await;
    assert_eq!(other.reserve(CALL, day(spent.total() + 25)).await.unwrap(), refused);
}

fn today(fixture: &Fixture) -> String {
    fixture.database().query_row("SELECT max(day) FROM usage", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn who_takes_over_gives_back_what_was_held_and_the_owner_before_holds_nothing_more() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    log.reserve(CALL, day(100)).await.unwrap();
    fixture.store.adopt().await.unwrap();
    assert_eq!(held(&fixture), [0; 0]);
    assert!(matches!(log.reserve(CALL, day(100)).await, Err(Error::Fenced)));
}

#[tokio::test]
async fn a_deleted_thread_is_purged_when_its_job_is_over_and_what_that_has_cost_is_counted() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let job = NewJob { id: fixture.ids.job(), kind: "summarise", key: "a".into(), delay: Duration::ZERO };
    log.record(vec![end(submitted.run, RunStatus::Failed)], vec![job], vec![]).await.unwrap();
    let job = fixture.store.claim().await.unwrap().unwrap();
    fixture.store.reserve_for_job(&job, CALL, day(1_000)).await.unwrap();
    fixture.store.delete_thread(&principal("alice"), submitted.thread, None).await.unwrap();
    while fixture.store.purge(after(0), after(0)).await.unwrap() {}
    assert_eq!(held(&fixture), [60], "its call is under way");
    let usage = Usage { input_tokens: 7, output_tokens: 1, ..Usage::default() };
    let spent = Some(JobUsage { model: "small".into(), usage });
    fixture.store.complete(&job, None, spent).await.unwrap();
    while fixture.store.purge(after(0), after(0)).await.unwrap() {}
    assert_eq!(held(&fixture), [0; 0]);
    let left: i64 =
        fixture.database().query_row("SELECT count(*) FROM threads", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
    let used: i64 = fixture
        .database()
        .query_row("SELECT input_tokens FROM usage WHERE model = 'small'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(used, 7);
}

#[tokio::test]
async fn a_job_holds_until_it_is_done_or_has_failed() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let job = |kind| NewJob { id: fixture.ids.job(), kind, key: "a".into(), delay: Duration::ZERO };
    log.record(vec![step_end(vec![])], vec![job("name_thread"), job("summarise")], vec![]).await.unwrap();
    let first = fixture.store.claim().await.unwrap().unwrap();
    let second = fixture.store.claim().await.unwrap().unwrap();
    let reserve = async |job, tokens| fixture.store.reserve_for_job(job, CALL, day(tokens)).await;
    assert_eq!(reserve(&first, 1_000).await.unwrap(), granted(50));
    assert_eq!(reserve(&second, 1_000).await.unwrap(), granted(50));
    fixture.store.complete(&first, None, None).await.unwrap();
    assert_eq!(held(&fixture), [60]);
    let usage = Usage { input_tokens: 7, output_tokens: 1, ..Usage::default() };
    let spent = Some(JobUsage { model: "small".into(), usage });
    fixture.store.fail(&second, "nonsense".into(), Retry::Never, spent).await.unwrap();
    assert_eq!(held(&fixture), [0; 0]);
    let used: i64 = fixture
        .database()
        .query_row("SELECT input_tokens + output_tokens FROM usage WHERE model = 'small'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(used, 8, "what failed was paid for, too");
    assert!(matches!(reserve(&first, 1_000).await, Err(Error::Fenced)));
}
