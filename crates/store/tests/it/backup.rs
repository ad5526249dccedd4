//! Copies of a database in use: whole, of one moment, and told apart from the original when they are opened (D4).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::RunStatus;
use rusqlite::Connection;
use store::Error;
use store::sqlite::{audit, backup};

use crate::support::{Fixture, Published, end, open, reset, step_end, text};

/// Makes copies until told to stop; gives how many.
fn copies(from: &Path, stop: &AtomicBool) -> usize {
    let mut made = 0;
    while made < 3 || !stop.load(Ordering::Acquire) {
        let copy = tempfile::tempdir().unwrap();
        let mut told = (0, 0);
        let audited = backup(from, copy.path(), |done, total| told = (done, total)).unwrap();
        assert_eq!(audited.findings, [""; 0]);
        assert!(told.0 <= told.1);
        let files: Vec<_> =
            std::fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, ["rondo.db"], "one file, and nothing beside it");
        made += 1;
    }
    made
}

#[tokio::test]
async fn a_copy_made_at_any_moment_is_sound() {
    let fixture = Fixture::new();
    let stop = Arc::new(AtomicBool::new(false));
    let (from, told) = (fixture.folder.path().to_owned(), Arc::clone(&stop));
    fixture.run().await;
    let copying = tokio::task::spawn_blocking(move || copies(&from, &told));
    for _ in 0..60 {
        let (run, log) = fixture.run().await;
        for number in 0..20 {
            log.push(text(&format!("word {number} "))).unwrap();
        }
        log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
        log.record(vec![end(run.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    }
    stop.store(true, Ordering::Release);
    assert!(copying.await.unwrap() >= 3);
}

#[tokio::test]
async fn a_copy_leaves_numbers_out_in_every_thread_when_it_is_first_opened() {
    let fixture = Fixture::new();
    let (ended, log) = fixture.run().await;
    log.record(vec![end(ended.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let (cut, _) = fixture.run().await;
    let copy = tempfile::tempdir().unwrap();
    backup(fixture.folder.path(), copy.path(), |_, _| {}).unwrap();
    for _ in 0..2 {
        let published = Arc::new(Published::default());
        let store = open(copy.path(), published.clone()).unwrap();
        let conn = Connection::open(copy.path().join("rondo.db")).unwrap();
        let mut find = conn.prepare("SELECT thread, reason FROM skipped ORDER BY thread").unwrap();
        let left_out: Vec<(Vec<u8>, String)> =
            find.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
        let expected =
            [ended.thread, cut.thread].map(|thread| (thread.bytes().to_vec(), "restored".to_owned()));
        assert_eq!(left_out, expected, "once");
        let run = store.adopt().await.unwrap().remove(0);
        store.log(&run).record(vec![reset(1, None)], vec![], vec![]).await.unwrap();
        assert!(published.of(cut.thread)[0].seq > 1_000_000);
        assert_eq!(audit(copy.path()).unwrap().findings, [""; 0]);
    }
    let original: i64 =
        fixture.database().query_row("SELECT count(*) FROM skipped", [], |row| row.get(0)).unwrap();
    assert_eq!(original, 0);
}

#[tokio::test]
async fn a_database_of_another_version_is_not_copied() {
    let fixture = Fixture::new();
    let newest: i64 = fixture.database().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    for (version, newer) in [(newest + 1, true), (newest - 1, false)] {
        fixture.database().pragma_update(None, "user_version", version).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for refused in [backup(fixture.folder.path(), copy.path(), |_, _| {}), audit(fixture.folder.path())] {
            let error = refused.unwrap_err();
            let expected = if newer {
                matches!(error, Error::TooNew { found, known } if (found, known) == (version, newest))
            } else {
                matches!(error, Error::TooOld { found, known } if (found, known) == (version, newest))
            };
            assert!(expected, "{error}");
        }
        assert_eq!(std::fs::read_dir(copy.path()).unwrap().count(), 0);
    }
}
