//! Power failures and other ends: all that was acknowledged is there, and no number that was seen is used again (D1).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use protocol::{Ids, MemoryId, RunStatus, Seq, Stored, ThreadId};
use rusqlite::Connection;
use store::inspection::file_log;
use store::sqlite::audit;
use store::{Coalesce, StoreOptions};
use store::{NewMemoryRow, RunLog, Store, SubmittedRun};
use tempfile::TempDir;
use testkit::database::open_store;
use testkit::still::{CountingIds, StandingClock};

use crate::support::{Fixture, Published, end, in_memory, principal, reset, scope, step_end, text};

/// Bytes of a sector, which a disk writes whole or not at all.
const SECTOR: usize = 512;

fn start(folder: &Path, published: &Arc<Published>, boot: &str) -> Store {
    let options =
        StoreOptions { coalesce: Coalesce::Never, boot: Some(boot.into()), ..StoreOptions::default() };
    open_store(folder, Arc::new(StandingClock), published.clone(), options).unwrap()
}

fn skipped(folder: &Path) -> Vec<(Seq, Seq, String)> {
    let conn = Connection::open(folder.join("rondo.db")).unwrap();
    let mut find = conn.prepare("SELECT first, last, reason FROM skipped ORDER BY thread, first").unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64, row.get(2)?))
    };
    find.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
}

/// A fixture whose machine is known.
fn fixture(boot: &str) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let published = Arc::new(Published::default());
    let store = start(folder.path(), &published, boot);
    Fixture { store, published, ids: CountingIds::default(), folder }
}

/// Opens the folder again.
fn again(fixture: Fixture, boot: &str) -> Fixture {
    let Fixture { store, published, ids, folder } = fixture;
    drop(store);
    let store = start(folder.path(), &published, boot);
    Fixture { store, published, ids, folder }
}

#[tokio::test]
async fn after_another_start_of_the_machine_unfinished_threads_leave_numbers_out() {
    let mut fixture = fixture("one");
    let (ended, log) = fixture.run().await;
    log.record(vec![end(ended.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    drop(log);
    let (cut, log) = fixture.run().await;
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    drop(log);
    fixture = again(fixture, "one");
    assert_eq!(skipped(fixture.folder.path()), [], "the process was killed, the machine was not");
    fixture = again(fixture, "two");
    let last = fixture.published.of(cut.thread).last().unwrap().seq;
    assert_eq!(skipped(fixture.folder.path()), [(last + 1, last + 10_000, "power loss".to_owned())]);
    let run = fixture.store.adopt().await.unwrap().remove(0);
    fixture.store.log(&run).record(vec![reset(1, None)], vec![], vec![]).await.unwrap();
    assert_eq!(fixture.published.of(cut.thread).last().unwrap().seq, last + 10_001);
    fixture = again(fixture, "two");
    assert_eq!(skipped(fixture.folder.path()).len(), 1, "once for each start of the machine");
    fixture = again(fixture, "three");
    assert_eq!(skipped(fixture.folder.path()).len(), 2);
    assert_eq!(audit(fixture.folder.path()).unwrap().findings, [""; 0]);
}

/// No client has seen anything of a new database, so its next start leaves no numbers out.
#[tokio::test]
async fn a_new_database_leaves_nothing_out() {
    let fixture = fixture("one");
    assert_eq!(skipped(fixture.folder.path()), []);
    let fixture = again(fixture, "two");
    assert_eq!(skipped(fixture.folder.path()), []);
}

/// A seeded sequence of numbers, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// The write-ahead log as the disk has it for certain.
#[derive(Default)]
struct Synced {
    bytes: Vec<u8>,
    /// How much of it is frames of this round of the log.
    end: usize,
}

/// Returns the place at which the frames that belong to the log's header end.
fn end_of(wal: &[u8]) -> usize {
    let Some(header) = wal.get(..32) else { return 0 };
    let page = u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize;
    let mut end = 32;
    while wal.get(end + 8..end + 16) == Some(&header[16..24]) && wal.len() >= end + 24 + page {
        end += 24 + page;
    }
    end
}

/// A store at work, with all that callers were told of it.
struct Work {
    fixture: Fixture,
    runs: Vec<(SubmittedRun, RunLog)>,
    memories: Vec<MemoryId>,
    synced: Synced,
    /// The events that were published when the disk had all of them.
    durable: Vec<Arc<Stored>>,
}

impl Work {
    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.fixture.folder.path().join(name)).unwrap_or_default()
    }

    fn published(&self) -> Vec<Arc<Stored>> {
        self.fixture.published.all()
    }

    /// Something that is promised, or something that is not.
    async fn act(&mut self, chance: &mut Chance) {
        let promised = match chance.below(6) {
            0 => {
                self.runs.push(self.fixture.run().await);
                true
            }
            1 => {
                let id = self.fixture.ids.memory();
                let memory = NewMemoryRow {
                    id,
                    text: format!("memory {id}"),
                    kind: "fact".into(),
                    source: "user",
                    sources: vec![],
                    valid_from: None,
                    created_at: None,
                };
                self.fixture.store.add_memory(&scope("alice"), memory, None).await.unwrap();
                self.memories.push(id);
                true
            }
            2 if self.runs.len() > 2 => {
                let at = chance.below(self.runs.len());
                let (run, log) = self.runs.swap_remove(at);
                log.record(vec![end(run.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
                true
            }
            _ => {
                let (_, log) = &self.runs[chance.below(self.runs.len())];
                for number in 0..chance.below(30) {
                    log.push(text(&format!("word {number} "))).unwrap();
                }
                log.record(vec![reset(1, None)], vec![], vec![]).await.unwrap();
                false
            }
        };
        if promised {
            self.is_synced();
        }
    }

    fn is_synced(&mut self) {
        let bytes = self.file("rondo.db-wal");
        self.synced = Synced { end: end_of(&bytes), bytes };
        self.durable = self.published();
    }

    /// Makes a disk as it may be if the power fails now: each sector that was not synced is new, old or empty.
    fn image(&self, chance: &mut Chance) -> TempDir {
        let folder = in_memory();
        std::fs::write(folder.path().join("rondo.db"), self.file("rondo.db")).unwrap();
        let (mut wal, Synced { bytes: old, end }) = (self.file("rondo.db-wal"), &self.synced);
        let same = wal.get(16..24) == old.get(16..24);
        let certain = if same { *end } else { 0 };
        if wal.len() > old.len() && chance.below(2) == 0 {
            wal.truncate(old.len() + chance.below(wal.len() - old.len() + 1));
        }
        let worst = chance.below(4);
        let mut at = certain;
        while at < wal.len() {
            let upto = wal.len().min((at / SECTOR + 1) * SECTOR);
            match chance.below(8) {
                0 if worst > 0 => wal[at..upto].fill(0),
                1 if worst > 1 => {
                    for (byte, place) in wal[at..upto].iter_mut().zip(at..) {
                        *byte = old.get(place).copied().unwrap_or(0);
                    }
                }
                _ => {}
            }
            at = upto;
        }
        std::fs::write(folder.path().join("rondo.db-wal"), wal).unwrap();
        folder
    }

    /// Checks the conditions that must hold of it after the next start.
    async fn check(&self, image: &Path) {
        let published = Arc::new(Published::default());
        let store = start(image, &published, "two");
        assert_eq!(audit(image).unwrap().findings, [""; 0]);
        let log = file_log(image).unwrap().into_iter().map(|row| row.event);
        let log: BTreeMap<(ThreadId, Seq), Arc<str>> =
            log.map(|event| ((event.thread, event.seq), event.body)).collect();
        for event in &self.durable {
            assert_eq!(log.get(&(event.thread, event.seq)), Some(&event.body));
        }
        for memory in &self.memories {
            store.memory(&principal("alice"), *memory).await.unwrap();
        }
        let mut newest: BTreeMap<ThreadId, Seq> = BTreeMap::new();
        for event in self.published() {
            newest.insert(event.thread, event.seq);
        }
        let runs = store.adopt().await.unwrap();
        assert_eq!(runs.len(), self.runs.len());
        for run in runs {
            store.log(&run).record(vec![reset(1, None)], vec![], vec![]).await.unwrap();
            let next = published.of(run.thread).last().unwrap().seq;
            assert!(next > newest[&run.thread], "{next} after {}", newest[&run.thread]);
        }
        assert_eq!(audit(image).unwrap().findings, [""; 0]);
    }
}

#[tokio::test]
async fn whatever_a_power_failure_leaves_of_the_log_is_sound_and_holds_what_was_promised() {
    for seed in 1..=8 {
        let mut chance = Chance(seed);
        let fixture = fixture("one");
        let first = fixture.run().await;
        let mut work =
            Work { fixture, runs: vec![first], memories: vec![], synced: Synced::default(), durable: vec![] };
        work.is_synced();
        let (mut lost, mut images) = (0, 0);
        for step in 0..60 {
            work.act(&mut chance).await;
            if step % 25 == 24 {
                // All of the log is in the database now, and the next write begins it anew.
                let conn = work.fixture.database();
                conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
                work.is_synced();
            }
            if chance.below(2) == 0 {
                let image = work.image(&mut chance);
                work.check(image.path()).await;
                let kept = file_log(image.path()).unwrap().len();
                lost += usize::from(kept < work.published().len());
                images += 1;
            }
        }
        assert!(lost > 3, "{lost} of {images} images had lost anything: they are no power failures");
    }
}

/// A checkpoint does not wait for a reader who stays at an old moment, so the writer does not wait for the checkpoint.
#[tokio::test]
async fn a_long_reader_does_not_hold_up_writes() {
    let fixture = fixture("one");
    let (_, log) = fixture.run().await;
    let reader = fixture.database();
    reader.execute_batch("BEGIN").unwrap();
    let _: i64 = reader.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    let wal = fixture.folder.path().join("rondo.db-wal");
    let long = "many words ".repeat(20_000);
    let write = async || {
        let events = vec![protocol::Event::StepReset(protocol::StepReset {
            step: 1,
            reason: long.clone(),
            model: None,
            usage: None,
        })];
        log.record(events, vec![], vec![]).await.unwrap();
    };
    while std::fs::metadata(&wal).unwrap().len() < 34 * 1024 * 1024 {
        write().await;
    }
    let begun = std::time::Instant::now();
    for _ in 0..5 {
        write().await;
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun.elapsed());
    reader.execute_batch("COMMIT").unwrap();
    write().await; // after this one, no reader is in the way of the checkpoint
    let before = std::fs::metadata(&wal).unwrap().len();
    for _ in 0..5 {
        write().await;
    }
    assert_eq!(std::fs::metadata(&wal).unwrap().len(), before, "without the reader, the log begins anew");
}
