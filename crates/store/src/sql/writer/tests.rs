//! The writer and a disk that is full or fails, and how hard it tries to reach it.

use protocol::{
    AppId, Delta, Event, Ids, OnBusy, Principal, Settings, StepReset, Stored, SystemClock, TimeOrderedIds,
    UserId, UserLimits,
};

use super::super::{SqlStore, StoreOptions, begin_boot};
use super::commit_due::{CROWD, MAX_CROWD_PAUSE, crowd_pause};
use super::*;
use crate::sqlite::tests::{raw, writing_to};
use crate::sqlite::{audit, open_with};
use crate::{RunInput, RunRequest, RunRow, Submission, Target};

struct NoReaders;

impl Publish for NoReaders {
    fn publish(&self, _: &[Arc<Stored>]) {}
}

fn committer(folder: &std::path::Path) -> Committer {
    let (conn, upkeep) = writing_to(folder);
    begin_boot(&conn, None, SystemClock.now()).unwrap();
    let parts = WriterParts {
        conn,
        upkeep: Box::new(upkeep),
        delta_pause: Duration::ZERO,
        boundary: None,
        webhooks: Arc::default(),
        log: DeltaLog::new(Arc::default()),
        nodes: None,
    };
    Committer::new(parts, Arc::new(SystemClock), Arc::new(NoReaders))
}

type Answer = oneshot::Receiver<Result<(), Error>>;

fn work(
    kind: CommitKind,
    work: impl FnOnce(&mut Batch<'_>) -> Result<(), Error> + Send + 'static,
) -> (Command, Answer) {
    let (reply, answer) = oneshot::channel();
    (
        Command::Work {
            work: Box::new(BatchedWork { work: Some(work), result: None, reply }),
            rows: RowsOf::ALL,
            kind,
            outbox: None,
        },
        answer,
    )
}

#[test]
fn a_batch_with_a_promise_is_synced_and_one_of_deltas_alone_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut committer = committer(folder.path());
    for (batch, synchronous) in [
        (vec![CommitKind::Ahead], 1),
        (vec![CommitKind::Promise], 2),
        (vec![CommitKind::Ahead, CommitKind::Ahead], 1),
        (vec![CommitKind::Ahead, CommitKind::Promise, CommitKind::Ahead], 2),
    ] {
        let mut commands: Vec<Command> = batch.iter().map(|kind| work(*kind, |_| Ok(())).0).collect();
        assert!(committer.commit(&mut commands));
        let level = raw(&committer.conn).pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
        assert_eq!(level.unwrap(), synchronous, "{batch:?}");
    }
}

/// Works of a crowd share commits, and after a commit with one or two works none waits.
#[test]
fn a_commit_waits_for_more_works_only_after_a_crowded_one() {
    let (queue, commands) = sync_channel(8);
    let pause = Duration::from_millis(50);
    for (works, waits) in [(0, false), (1, false), (CROWD - 1, false), (CROWD, true), (CROWD * 9, true)] {
        let (begun, mut due, mut waiting) = (Instant::now(), CommitDue::default(), Vec::new());
        due.note_commit(works, false, pause);
        assert_eq!(due.works.is_some(), waits, "after {works} works");
        queue.send(work(CommitKind::Promise, |_| Ok(())).0).unwrap();
        due.gather(&commands, &mut waiting);
        assert_eq!(waiting.len(), 1);
        assert!(!waits || begun.elapsed() >= MAX_CROWD_PAUSE, "after {works} works");
    }
    assert_eq!(crowd_pause(Duration::from_millis(10)), MAX_CROWD_PAUSE, "the default");
    assert_eq!(
        crowd_pause(Duration::from_secs(1)),
        MAX_CROWD_PAUSE,
        "text may wait for long, and works may not"
    );
    let mut due = CommitDue::default();
    due.note_commit(CROWD, false, pause);
    let of_crowd = due.works;
    due.note_commit(0, true, pause);
    assert_eq!(due.works, of_crowd, "a commit of deltas alone changes nothing for works");
    let mut due = CommitDue::default();
    due.note_commit(CROWD, true, Duration::ZERO);
    assert!(due.works.is_some_and(|due| due <= Instant::now()), "without a pause nothing waits");
}

#[test]
fn a_disk_that_fails_ends_the_writer_and_a_full_one_does_not() {
    let failure = |code| Error::from(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
    for code in [
        rusqlite::ffi::SQLITE_IOERR,
        rusqlite::ffi::SQLITE_IOERR_FSYNC,
        rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC,
        rusqlite::ffi::SQLITE_IOERR_WRITE,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut committer = committer(folder.path());
        // As SQLite does it: the transaction is gone, and the statement says why.
        let (failing, mut failed) = work(CommitKind::Promise, move |batch| {
            raw(batch.conn()).execute_batch("ROLLBACK")?;
            Err(failure(code))
        });
        let (other, mut innocent) = work(CommitKind::Promise, |_| Ok(()));
        assert!(!committer.commit(&mut vec![other, failing]), "{code}");
        for answer in [failed.try_recv().unwrap(), innocent.try_recv().unwrap()] {
            assert!(matches!(answer, Err(Error::Closed)), "{code}: {answer:?}");
        }
    }
    for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR_SHMSIZE] {
        let folder = tempfile::tempdir().unwrap();
        let mut committer = committer(folder.path());
        let (failing, mut failed) = work(CommitKind::Promise, move |batch| {
            raw(batch.conn()).execute_batch("ROLLBACK")?;
            Err(failure(code))
        });
        let (other, mut innocent) = work(CommitKind::Promise, |_| Ok(()));
        assert!(committer.commit(&mut vec![other, failing]), "{code}");
        for answer in [failed.try_recv().unwrap(), innocent.try_recv().unwrap()] {
            assert!(matches!(answer, Err(Error::Full)), "{code}: {answer:?}");
        }
    }
}

/// A store with a run under way, on a disk that can be made full.
struct Disk {
    store: SqlStore,
    run: RunRow,
    folder: tempfile::TempDir,
}

impl Disk {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            open_with(folder.path(), Arc::new(SystemClock), Arc::new(NoReaders), StoreOptions::default())
                .unwrap();
        let alice = Principal::authenticated(UserId::new("alice"));
        let submission = Submission {
            scope: alice.scope(AppId::new("app")),
            thread: Target::New(TimeOrderedIds.thread()),
            run: TimeOrderedIds.run(),
            on_busy: OnBusy::Reject,
            once: None,
            replay_only: false,
            limits: UserLimits::default(),
            request: RunRequest {
                ask: RunInput::Say {
                    id: TimeOrderedIds.message(),
                    text: "hi".into(),
                    parent: None,
                    parts: vec![],
                },
                model: Some("m".into()),
                settings: Settings::default(),
                system_prompt: None,
                persona: None,
                documents: None,
                app_revision: "r".into(),
                echo: None,
                actor: None,
                tools: vec![],
                client_tools: vec![],
                answer_schema: None,
                earlier: vec![],
                jobs: vec![],
            },
        };
        let submitted = store.submit(submission).await.unwrap().0;
        let run = store.run(&alice, submitted.run).await.unwrap();
        Self { store, run, folder }
    }

    /// Lets the database grow by `more` pages; without a bound for none.
    async fn space(&self, more: Option<i64>) {
        let limit = move |batch: &mut Batch<'_>| {
            let pages: i64 = raw(batch.conn()).pragma_query_value(None, "page_count", |row| row.get(0))?;
            let pages = more.map_or(i64::from(i32::MAX), |more| pages + more);
            Ok(raw(batch.conn()).query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?)
        };
        self.store.writer.write(limit).await.unwrap();
    }

    fn text(&self) -> Delta {
        Delta::Text { step: 1, delta: "many words ".repeat(2_000) }
    }
}

fn reset() -> Event {
    Event::StepReset(StepReset { step: 1, reason: "cut".into(), model: None, usage: None })
}

/// More than fits into what is free on a page.
fn long_reset() -> Event {
    Event::StepReset(StepReset { step: 1, reason: "cut ".repeat(5_000), model: None, usage: None })
}

#[tokio::test]
async fn on_a_full_disk_reads_go_on_and_writes_succeed_once_there_is_space() {
    let disk = Disk::new().await;
    let log = disk.store.run_log(&disk.run);
    disk.space(Some(0)).await;
    for _ in 0..3 {
        let refused = log.record(vec![long_reset()], vec![], vec![]).await;
        assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    }
    let before = disk.store.events(disk.run.thread, None, 0).await.unwrap();
    assert!(disk.store.is_open());
    disk.space(None).await;
    assert_eq!(log.record(vec![long_reset()], vec![], vec![]).await.unwrap(), [true], "nothing was lost");
    let after = disk.store.events(disk.run.thread, None, 0).await.unwrap();
    assert_eq!(after.last().unwrap().seq, before.last().unwrap().seq + 1, "no number was used up");
    assert_eq!(audit(disk.folder.path()).unwrap().findings, [""; 0]);
}

/// Text that found no space is kept, before all that follows it.
#[tokio::test]
async fn text_waits_for_space_and_is_in_the_log_once() {
    let disk = Disk::new().await;
    let log = disk.store.run_log(&disk.run);
    disk.space(Some(0)).await;
    log.push(disk.text()).unwrap();
    for _ in 0..3 {
        let refused = log.record(vec![reset()], vec![], vec![]).await;
        assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    }
    log.push(Delta::Text { step: 1, delta: "the end".into() }).unwrap();
    disk.space(None).await;
    assert_eq!(log.record(vec![reset()], vec![], vec![]).await.unwrap(), [true]);
    let events = disk.store.events(disk.run.thread, None, 2).await.unwrap();
    let (last, deltas) = events.split_last().unwrap();
    assert_eq!(&*last.kind, "step:reset");
    let delta = |event: &Arc<Stored>| {
        serde_json::from_str::<serde_json::Value>(&event.body).unwrap()["delta"].clone()
    };
    let text: String = deltas.iter().map(|event| delta(event).as_str().unwrap().to_owned()).collect();
    assert_eq!(text, "many words ".repeat(2_000) + "the end");
    assert_eq!(audit(disk.folder.path()).unwrap().findings, [""; 0]);
}

/// A run that continues from its log has another handle. Text of the first one would come after what the second one
/// writes.
#[tokio::test]
async fn text_of_a_handle_that_was_left_is_never_written() {
    let disk = Disk::new().await;
    let left = disk.store.run_log(&disk.run);
    disk.space(Some(0)).await;
    left.push(disk.text()).unwrap();
    let refused = left.record(vec![reset()], vec![], vec![]).await;
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    left.close();
    disk.space(None).await;
    let log = disk.store.run_log(&disk.run);
    for _ in 0..3 {
        assert_eq!(log.record(vec![reset()], vec![], vec![]).await.unwrap(), [true]);
    }
    let events = disk.store.events(disk.run.thread, None, 2).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| &*event.kind).collect();
    assert_eq!(kinds, ["step:reset"; 3]);
}

/// A caller that waits for room is not left waiting for a writer that is gone.
#[tokio::test]
async fn a_run_does_not_wait_for_a_writer_that_has_ended() {
    let disk = Disk::new().await;
    let log = disk.store.run_log(&disk.run);
    let broken = disk
        .store
        .writer
        .write::<()>(|batch| {
            raw(batch.conn()).execute_batch("ROLLBACK")?;
            Err(Error::from(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC),
                None,
            )))
        })
        .await;
    assert!(matches!(broken, Err(Error::Closed)), "{broken:?}");
    while disk.store.is_open() {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        if log.push(disk.text()).is_err() {
            log.room().await;
        }
    }
    assert!(log.is_closed(), "nobody has to stream to the end what cannot be kept");
    let refused = log.record(vec![reset()], vec![], vec![]).await;
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    assert!(!disk.store.events(disk.run.thread, None, 0).await.unwrap().is_empty(), "reads go on");
}

/// No caller has asked the writer to end, and all callers can see that it has.
#[tokio::test]
async fn a_writer_that_panics_is_seen_to_have_ended() {
    let disk = Disk::new().await;
    assert!(disk.store.is_open());
    let waiting = disk.store.writing_ended();
    let broken = disk.store.writer.write::<()>(|_| panic!("a bug in a piece of work"));
    let ((), broken) = tokio::join!(waiting, broken);
    assert!(matches!(broken, Err(Error::Closed)), "{broken:?}");
    assert!(!disk.store.is_open());
    disk.store.writing_ended().await; // also for who comes later
    let refused = disk.store.run_log(&disk.run).record(vec![reset()], vec![], vec![]).await;
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}

/// The errors of Linux when a user's quota is used up, when there is no space, and when the disk fails.
const EDQUOT: i32 = 122;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

#[test]
fn a_write_without_space_is_a_full_disk_and_a_sync_that_fails_is_not() {
    use rusqlite::ffi;
    let failure = |code| Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
    for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_TRUNCATE, ffi::SQLITE_IOERR_SHMMAP] {
        for errno in [EDQUOT, ENOSPC] {
            assert!(matches!(failure(code).of_system(errno), Error::Full), "{code} {errno}");
        }
        assert!(failure(code).of_system(EIO).is_broken(), "{code}");
    }
    for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC, ffi::SQLITE_IOERR_READ] {
        assert!(failure(code).of_system(EDQUOT).is_broken(), "{code}");
    }
    assert!(
        matches!(failure(ffi::SQLITE_CONSTRAINT).of_system(EDQUOT), Error::Sql(_)),
        "a number that is left over"
    );
}
