//! Deltas between their commit and the next fact: read at once, packed in time, and never lost or told twice (S1, S7, R4).

use std::sync::Arc;
use std::time::Duration;

use protocol::{Delta, RunStatus, Stored, ThreadId};
use store::inspection::file_log;
use store::sqlite::audit;
use store::{Coalesce, Error, StoreOptions};
use store::{RunLog, Store, ThreadEdit};
use testkit::database::open_store;
use testkit::still::CountingIds;

use crate::support::{Fixture, Forward, Published, end, principal, step_end, text};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A fixture in which no deltas are joined, by a clock that is moved by hand.
fn fixture() -> (Fixture, Arc<Forward>) {
    let clock = Arc::new(Forward::default());
    let folder = tempfile::tempdir().unwrap();
    let published = Arc::new(Published::default());
    let store = open(folder.path(), &clock, &published);
    (Fixture { store, published, ids: CountingIds::default(), folder }, clock)
}

fn open(folder: &std::path::Path, clock: &Arc<Forward>, published: &Arc<Published>) -> Store {
    open_with_pause(folder, clock, published, Duration::ZERO)
}

fn open_with_pause(
    folder: &std::path::Path,
    clock: &Arc<Forward>,
    published: &Arc<Published>,
    pause: Duration,
) -> Store {
    let options =
        StoreOptions { coalesce: Coalesce::Never, delta_pause: Some(pause), ..StoreOptions::default() };
    open_store(folder, clock.clone(), published.clone(), options).unwrap()
}

/// Pushes deltas and waits until they are published.
async fn say(fixture: &Fixture, log: &RunLog, deltas: &[&str]) {
    let before = fixture.published.all().len();
    for delta in deltas {
        log.push(text(delta)).unwrap();
    }
    let published = async {
        while fixture.published.all().len() < before + deltas.len() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, published).await.unwrap();
}

async fn read(fixture: &Fixture, thread: ThreadId) -> Vec<Arc<Stored>> {
    fixture.store.events(thread, None, 0).await.unwrap()
}

/// Checks that what is read is what was published, from the first to the last and from everywhere between.
async fn is_whole(fixture: &Fixture, thread: ThreadId) {
    let stored = read(fixture, thread).await;
    let delivered = async {
        while fixture.published.of(thread).len() < stored.len() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, delivered).await.unwrap();
    let published = fixture.published.of(thread);
    assert_eq!(stored, published);
    for after in 0..=published.len() {
        let rest = fixture.store.events(thread, None, after as u64).await.unwrap();
        assert_eq!(rest, published[after..], "after {after}");
    }
    let row = fixture.store.thread(&principal("alice"), thread).await.unwrap();
    assert_eq!(row.last_seq, published.len() as u64);
}

fn count(fixture: &Fixture, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    fixture.database().query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn logged(fixture: &Fixture) -> i64 {
    count(fixture, "delta_log_0") + count(fixture, "delta_log_1")
}

#[tokio::test]
async fn deltas_are_read_before_a_fact_follows_and_are_the_same_after() {
    let (fixture, _) = fixture();
    let (run, log) = fixture.run().await;
    say(&fixture, &log, &["It ", "is ", "so."]).await;
    is_whole(&fixture, run.thread).await;
    assert_eq!((count(&fixture, "packed_deltas"), logged(&fixture) > 0), (0, true));
    log.push(Delta::Reasoning { step: 1, delta: "hm".into() }).unwrap();
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    is_whole(&fixture, run.thread).await;
    assert_eq!(count(&fixture, "packed_deltas"), 1, "one row for a step");
    let only = fixture.store.events(run.thread, Some(run.run), 0).await.unwrap();
    assert_eq!(only.len(), fixture.published.of(run.thread).iter().filter(|e| e.run.is_some()).count());
    assert_eq!(audit(fixture.folder.path()).unwrap().findings, [""; 0]);
}

#[tokio::test]
async fn a_fact_in_the_midst_of_deltas_keeps_their_order() {
    let (fixture, _) = fixture();
    let (run, log) = fixture.run().await;
    say(&fixture, &log, &["one ", "two "]).await;
    let named = ThreadEdit { title: Some("A title".into()), ..ThreadEdit::default() };
    fixture.store.change_thread(&principal("alice"), run.thread, named, None).await.unwrap();
    say(&fixture, &log, &["three "]).await;
    is_whole(&fixture, run.thread).await;
    log.record(vec![step_end(vec![]), end(run.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    is_whole(&fixture, run.thread).await;
    assert_eq!(audit(fixture.folder.path()).unwrap().findings, [""; 0]);
}

#[tokio::test]
async fn deltas_of_a_process_that_died_are_there_after_the_next_start() {
    let (mut fixture, clock) = fixture();
    let (run, log) = fixture.run().await;
    let (other, of_other) = fixture.run().await;
    say(&fixture, &log, &["It ", "is "]).await;
    say(&fixture, &of_other, &["Or ", "not."]).await;
    of_other.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    say(&fixture, &log, &["so."]).await;
    drop((log, of_other));
    let beside = file_log(fixture.folder.path()).unwrap();
    assert_eq!(beside.len(), fixture.published.all().len(), "whoever looks from outside finds them, too");
    drop(fixture.store);
    fixture.store = open(fixture.folder.path(), &clock, &fixture.published);
    for thread in [run.thread, other.thread] {
        is_whole(&fixture, thread).await;
    }
    assert_eq!(logged(&fixture), 0);
    assert_eq!(audit(fixture.folder.path()).unwrap().findings, [""; 0]);
    let adopted = fixture.store.adopt().await.unwrap();
    let row = adopted.iter().find(|row| row.id == run.run).unwrap();
    let log = fixture.store.log(row);
    say(&fixture, &log, &["And more."]).await;
    is_whole(&fixture, run.thread).await;
}

#[tokio::test]
async fn a_run_with_another_owner_takes_no_more_deltas_of_the_old_one() {
    let (fixture, _) = fixture();
    let (run, old) = fixture.run().await;
    say(&fixture, &old, &["one "]).await;
    let adopted = fixture.store.adopt().await.unwrap();
    old.push(text("two ")).unwrap();
    let refused = old.record(vec![step_end(vec![])], vec![], vec![]).await;
    assert!(matches!(refused, Err(Error::Fenced)), "{refused:?}");
    let new = fixture.store.log(adopted.iter().find(|row| row.id == run.run).unwrap());
    say(&fixture, &new, &["three"]).await;
    is_whole(&fixture, run.thread).await;
    let said = fixture.published.of(run.thread);
    let said: Vec<&str> = said.iter().filter(|event| event.kind == "text:delta").map(|e| &*e.body).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(!said.iter().any(|body| body.contains("two")), "{said:?}");
}

#[tokio::test]
async fn a_run_that_has_ended_takes_no_more_deltas() {
    let (fixture, _) = fixture();
    let (run, log) = fixture.run().await;
    let late = fixture.log(run).await;
    say(&fixture, &late, &["one "]).await;
    log.record(vec![step_end(vec![]), end(run.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    late.push(text("two ")).unwrap();
    assert!(late.record(vec![step_end(vec![])], vec![], vec![]).await.is_err());
    is_whole(&fixture, run.thread).await;
    let said = fixture.published.of(run.thread);
    assert_eq!(said.iter().filter(|event| event.kind == "text:delta").count(), 1, "{said:?}");
}

#[tokio::test]
async fn the_delta_log_is_no_older_than_a_minute() {
    let (fixture, clock) = fixture();
    let (run, log) = fixture.run().await;
    say(&fixture, &log, &["one "]).await;
    clock.to(31);
    say(&fixture, &log, &["two "]).await;
    assert_eq!((count(&fixture, "packed_deltas"), logged(&fixture)), (0, 2), "one row in each table");
    clock.to(62);
    say(&fixture, &log, &["three "]).await;
    assert_eq!((count(&fixture, "packed_deltas"), logged(&fixture)), (1, 2), "the first table was emptied");
    is_whole(&fixture, run.thread).await;
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    is_whole(&fixture, run.thread).await;
    assert_eq!(audit(fixture.folder.path()).unwrap().findings, [""; 0]);
}

#[tokio::test]
async fn the_delta_log_is_emptied_even_if_no_more_deltas_come() {
    let (fixture, clock) = fixture();
    let (run, log) = fixture.run().await;
    say(&fixture, &log, &["one "]).await;
    for seconds in [31, 62] {
        clock.to(seconds);
        fixture.run().await;
    }
    assert_eq!((count(&fixture, "packed_deltas"), logged(&fixture)), (1, 0));
    is_whole(&fixture, run.thread).await;
    say(&fixture, &log, &["two "]).await;
    is_whole(&fixture, run.thread).await;
}

#[tokio::test]
async fn deltas_that_are_pruned_are_not_in_the_delta_log_either() {
    let (fixture, _) = fixture();
    let (run, log) = fixture.run().await;
    let (kept, of_kept) = fixture.run().await;
    say(&fixture, &log, &["forget ", "me"]).await;
    say(&fixture, &of_kept, &["keep me"]).await;
    log.record(vec![step_end(vec![]), end(run.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    assert!(logged(&fixture) > 0);
    while fixture.store.prune(crate::support::after(1)).await.unwrap() {}
    assert_eq!((count(&fixture, "packed_deltas"), logged(&fixture)), (1, 0));
    is_whole(&fixture, kept.thread).await;
}

#[tokio::test]
async fn a_fact_never_waits_for_the_pause_between_deltas_and_a_stop_commits_what_waits() {
    let (mut fixture, clock) = fixture();
    drop(fixture.store);
    let pause = Duration::from_secs(3600);
    fixture.store = open_with_pause(fixture.folder.path(), &clock, &fixture.published, pause);
    let (run, log) = fixture.run().await;
    say(&fixture, &log, &["at once "]).await;
    log.push(text("with the fact")).unwrap();
    let step = log.record(vec![step_end(vec![])], vec![], vec![]);
    tokio::time::timeout(PATIENCE, step).await.unwrap().unwrap();
    is_whole(&fixture, run.thread).await;
    log.push(text("with the stop")).unwrap();
    drop(log);
    drop(fixture.store);
    fixture.store = open(fixture.folder.path(), &clock, &fixture.published);
    is_whole(&fixture, run.thread).await;
    let texts = fixture.published.of(run.thread).iter().filter(|event| event.kind == "text:delta").count();
    assert_eq!(texts, 3);
}

#[tokio::test]
async fn a_damaged_delta_log_does_not_keep_the_server_from_starting() {
    let (mut fixture, clock) = fixture();
    let (run, log) = fixture.run().await;
    say(&fixture, &log, &["It ", "is so."]).await;
    drop((log, fixture.store));
    let sql = "INSERT INTO delta_log_0 (number, body) VALUES (1000000, randomblob(333))";
    let path = fixture.folder.path().join("rondo.db");
    rusqlite::Connection::open(path).unwrap().execute(sql, []).unwrap();
    fixture.store = open(fixture.folder.path(), &clock, &fixture.published);
    assert_eq!(logged(&fixture), 0);
    is_whole(&fixture, run.thread).await;
}

#[tokio::test]
async fn deltas_of_a_deleted_thread_leave_the_log_and_others_stay() {
    let (fixture, _) = fixture();
    let (gone, log) = fixture.run().await;
    let (kept, of_kept) = fixture.run().await;
    say(&fixture, &log, &["forget me"]).await;
    say(&fixture, &of_kept, &["keep ", "me"]).await;
    log.record(vec![step_end(vec![]), end(gone.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    fixture.store.delete_thread(&principal("alice"), gone.thread, None).await.unwrap();
    let later = crate::support::after(1_000_000);
    while fixture.store.purge(later, crate::support::after(-1)).await.unwrap() {}
    assert_eq!(logged(&fixture), 0);
    is_whole(&fixture, kept.thread).await;
    say(&fixture, &of_kept, &[" still"]).await;
    is_whole(&fixture, kept.thread).await;
}

#[tokio::test]
async fn the_database_refuses_deltas_that_are_out_of_order() {
    let (fixture, _) = fixture();
    let (run, log) = fixture.run().await;
    log.push(text("so")).unwrap();
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    let conn = fixture.database();
    let next = read(&fixture, run.thread).await.len() as i64 + 1;
    let insert = |first: i64, last: i64| {
        let sql =
            "INSERT INTO packed_deltas (thread, first, last, run, at, body) VALUES (?1, ?2, ?3, ?4, 0, x'')";
        conn.execute(sql, rusqlite::params![run.thread.bytes(), first, last, run.run.bytes()])
    };
    for (first, last, why) in
        [(next + 1, next + 2, "S1: the sequence has a gap"), (next - 1, next, "S2: a number is used twice")]
    {
        let refused = insert(first, last).unwrap_err().to_string();
        assert!(refused.contains(why), "{first}: {refused}");
    }
    log.record(vec![end(run.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let refused = insert(next + 1, next + 1).unwrap_err().to_string();
    assert!(refused.contains("R4: the run has ended"), "{refused}");
    let changed = conn.execute("UPDATE packed_deltas SET body = x'00'", []).unwrap_err().to_string();
    assert!(changed.contains("S1: events do not change"), "{changed}");
}
