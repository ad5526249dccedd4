//! Pruning: the deltas of old runs go, all of a run at once, and nothing else does (S5).

use std::sync::Arc;

use protocol::{Delta, Effect, Ids, OnBusy, RunStatus, Stored};
use rusqlite::params;
use store::{Error, SubmittedRun, Target};

use crate::support::{Fixture, Forward, after, answer, call, end, principal, result, start, step_end, text};

const DELTAS: &str = "('text:delta', 'reasoning:delta', 'tool:input')";

/// A run with every kind of delta and a call, to its end.
async fn spoken(fixture: &Fixture, submitted: SubmittedRun, status: RunStatus) {
    let log = fixture.log(submitted).await;
    let id = fixture.ids.call();
    log.push(Delta::Reasoning { step: 1, delta: "hm".into() }).unwrap();
    log.push(text("so")).unwrap();
    log.push(Delta::ToolInput { step: 1, call: id, name: "echo".into(), delta: "{}".into() }).unwrap();
    let called = vec![step_end(vec![call(id)]), start(id, "echo", Effect::Read), result(id, "yes")];
    log.record(called, vec![], vec![]).await.unwrap();
    log.push(text("so")).unwrap();
    let last = vec![answer(fixture.ids.message()), end(submitted.run, status)];
    log.record(last, vec![], vec![]).await.unwrap();
}

async fn prune(fixture: &Fixture, seconds: i64) -> usize {
    let mut pruned = 0;
    while fixture.store.prune(after(seconds)).await.unwrap() {
        pruned += 1;
    }
    pruned
}

async fn log_of(fixture: &Fixture, submitted: SubmittedRun) -> Vec<Arc<Stored>> {
    fixture.store.events(submitted.thread, None, 0).await.unwrap()
}

fn is_delta(event: &Arc<Stored>) -> bool {
    DELTAS.contains(&format!("'{}'", event.kind))
}

#[tokio::test]
async fn only_runs_that_ended_long_enough_ago_lose_their_deltas() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let old = fixture.submit(Target::New(fixture.ids.thread())).await;
    spoken(&fixture, old, RunStatus::Completed).await;
    clock.to(100);
    let young = fixture.submit(Target::Existing(old.thread)).await;
    spoken(&fixture, young, RunStatus::Failed).await;
    let (running, log) = fixture.run().await;
    log.push(text("still")).unwrap();
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    let before = (log_of(&fixture, old).await, log_of(&fixture, running).await);
    let facts = fixture.store.facts(old.run).await.unwrap();

    clock.to(200);
    assert_eq!(prune(&fixture, -1).await, 0, "none is so old");
    assert_eq!(log_of(&fixture, old).await, before.0);
    assert_eq!(prune(&fixture, 0).await, 1);
    let is_left = |event: &&Arc<Stored>| event.run != Some(old.run) || !is_delta(event);
    let left: Vec<_> = before.0.iter().filter(is_left).cloned().collect();
    assert!(left.len() + 3 < before.0.len() && left.iter().any(is_delta), "one of two runs has lost some");
    assert_eq!(log_of(&fixture, old).await, left);
    assert_eq!(fixture.store.facts(old.run).await.unwrap(), facts, "facts stay");

    assert_eq!(prune(&fixture, 99).await, 0);
    assert_eq!(prune(&fixture, 100).await, 1);
    assert!(!log_of(&fixture, old).await.iter().any(is_delta));
    assert_eq!(prune(&fixture, 1_000_000).await, 0, "a run under way is never too old");
    assert_eq!(log_of(&fixture, running).await, before.1);
    let marked = "SELECT count(*) FROM runs WHERE pruned_at = ?1 AND ended_at IS NOT NULL";
    let at = after(200).as_millisecond();
    assert_eq!(fixture.database().query_row(marked, [at], |row| row.get::<_, i64>(0)).unwrap(), 2);
}

#[tokio::test]
async fn what_was_said_and_done_stays() {
    let fixture = Fixture::new();
    let (submitted, _) = fixture.run().await;
    spoken(&fixture, submitted, RunStatus::Completed).await;
    let alice = principal("alice");
    let seen = async || {
        let thread = fixture.store.thread(&alice, submitted.thread).await.unwrap();
        let path = fixture.store.path(submitted.thread, thread.head.unwrap(), 10).await.unwrap();
        (fixture.store.run(&alice, submitted.run).await.unwrap(), thread, path)
    };
    let before = seen().await;
    assert_eq!(prune(&fixture, 0).await, 1);
    assert_eq!(seen().await, before);
    let next = fixture.submit(Target::Existing(submitted.thread)).await;
    spoken(&fixture, next, RunStatus::Completed).await;
    let numbers: Vec<u64> = fixture.published.of(submitted.thread).iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "the sequence goes on as before");
}

/// S6: never a silent gap.
#[tokio::test]
async fn whoever_reads_a_pruned_run_is_told_so_unless_all_of_it_was_read() {
    let fixture = Fixture::new();
    let (submitted, _) = fixture.run().await;
    spoken(&fixture, submitted, RunStatus::Completed).await;
    let whole = log_of(&fixture, submitted).await;
    assert_eq!(fixture.store.events(submitted.thread, Some(submitted.run), 0).await.unwrap(), whole);
    prune(&fixture, 0).await;
    let last = whole.last().unwrap().seq;
    for seen in 0..last {
        let read = fixture.store.events(submitted.thread, Some(submitted.run), seen).await;
        assert!(matches!(read, Err(Error::Pruned)), "after {seen}: {read:?}");
    }
    assert_eq!(fixture.store.events(submitted.thread, Some(submitted.run), last).await.unwrap(), []);
    let next = fixture.submit(Target::Existing(submitted.thread)).await;
    assert!(!fixture.store.events(next.thread, Some(next.run), 0).await.unwrap().is_empty());
}

/// A reader goes from page to page while the run is pruned: it gets all, or is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_pruned_as_a_whole_or_not_at_all() {
    const PIECES: usize = 3_000;
    let fixture = Fixture::new();
    for round in 0..8 {
        let (submitted, log) = fixture.run().await;
        for n in 0..PIECES {
            let mut delta = text(&format!("{n},"));
            while let Err(back) = log.push(delta) {
                delta = back;
                log.room().await;
            }
            if n % 2 == 0 {
                log.record(vec![], vec![], vec![]).await.unwrap(); // so that they do not share an event
            }
        }
        log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
        let whole = fixture.published.of(submitted.thread);
        let read = async {
            let mut read: Vec<Arc<Stored>> = Vec::new();
            loop {
                let seen = read.last().map_or(0, |event| event.seq);
                match fixture.store.events(submitted.thread, Some(submitted.run), seen).await {
                    Ok(page) if page.is_empty() => return (read, true),
                    Ok(page) => read.extend(page),
                    Err(Error::Pruned) => return (read, false),
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let prune = async {
            for _ in 0..round {
                fixture.store.head(submitted.thread).await.unwrap(); // a little later each time
            }
            fixture.store.prune(after(0)).await.unwrap()
        };
        let ((read, to_the_end), pruned) = tokio::join!(read, prune);
        assert!(pruned);
        assert_eq!(read, whole[..read.len()], "what is read is the log");
        assert!(!to_the_end || read.len() == whole.len());
    }
}

#[tokio::test]
async fn a_run_that_never_began_is_pruned_without_fuss() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let mut waiting = fixture.submission(Target::Existing(first.thread));
    waiting.on_busy = OnBusy::Queue;
    let queued = fixture.store.submit(waiting).await.unwrap().0;
    log.push(text("still")).unwrap();
    fixture.store.cancel(&principal("alice"), queued.run, None).await.unwrap();
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    assert_eq!(prune(&fixture, 0).await, 1);
    assert!(log_of(&fixture, first).await.iter().any(is_delta), "of its neighbour nothing goes");
    assert!(matches!(fixture.store.events(first.thread, Some(queued.run), 0).await, Err(Error::Pruned)));
}

#[tokio::test]
async fn the_database_refuses_what_is_no_pruning() {
    let fixture = Fixture::new();
    let (running, log) = fixture.run().await;
    log.push(text("still")).unwrap();
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    let (ended, _) = fixture.run().await;
    spoken(&fixture, ended, RunStatus::Completed).await;
    prune(&fixture, 0).await;
    let conn = fixture.database();
    let refused = |sql: &str, of: SubmittedRun, why: &str| {
        let error = conn.execute(sql, params![of.run.bytes()]).unwrap_err().to_string();
        assert!(error.contains(why), "{sql}: {error}");
    };
    refused("UPDATE runs SET pruned_at = 1 WHERE id = ?1", ended, "S5: a run is pruned once");
    refused("UPDATE runs SET pruned_at = NULL WHERE id = ?1", ended, "S5: a run is pruned once");
    refused("UPDATE runs SET pruned_at = 1 WHERE id = ?1", running, "S5: a run is pruned once");
    refused("UPDATE runs SET ended_at = 1 WHERE id = ?1", ended, "R1: an ended run does not change");
    refused("DELETE FROM events WHERE run = ?1", ended, "S1: events stay");
    refused("DELETE FROM packed_deltas WHERE run = ?1", running, "S1: events stay");
}

/// With a million runs in the database, there being nothing to prune is known at once.
#[test]
fn the_next_run_to_prune_is_found_by_its_index() {
    let fixture = Fixture::new();
    let plan = "EXPLAIN QUERY PLAN SELECT thread, id FROM runs
        WHERE ended_at IS NOT NULL AND pruned_at IS NULL AND ended_at <= ?1 ORDER BY ended_at LIMIT 1";
    let detail: String = fixture.database().query_row(plan, [0], |row| row.get(3)).unwrap();
    assert!(detail.starts_with("SEARCH runs USING INDEX runs_to_prune (ended_at"), "{detail}");
}

#[tokio::test]
async fn numbers_that_were_left_out_are_known_until_their_thread_is_purged() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let thread = submitted.thread;
    let skip = "INSERT INTO skipped (thread, first, last, reason, at) VALUES (?1, 10, 20, 'power loss', 0)";
    fixture.database().execute(skip, [thread.bytes()]).unwrap();
    let mut skipped = Vec::new();
    for number in 0..30 {
        if fixture.store.is_skipped(thread, number).await.unwrap() {
            skipped.push(number);
        }
    }
    assert_eq!(skipped, (10..20).collect::<Vec<_>>(), "the last one is the head until there is more");
    assert!(!fixture.store.is_skipped(fixture.ids.thread(), 15).await.unwrap(), "of another thread");
    log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    fixture.store.delete_thread(&principal("alice"), thread, None).await.unwrap();
    while fixture.store.purge(after(0), after(0)).await.unwrap() {}
    let left = "SELECT (SELECT count(*) FROM threads) + (SELECT count(*) FROM skipped)";
    assert_eq!(fixture.database().query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}
