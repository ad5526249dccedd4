//! The cost of a purge: bounded rows in each transaction, and nothing that grows with the rest of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::append::Seqs;
use super::super::deltas::{DeltaLog, DuePacking};
use super::super::{SqlConnection, jobs};
use super::*;
use crate::sqlite::tests::{raw, raw_mut, writing_to};

/// Instructions of SQLite's machine that are counted together.
const TICK: i32 = 100;

/// A database of the newest schema, whose instructions are counted.
struct Counted {
    conn: SqlConnection,
    ticks: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

impl Counted {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (mut conn, _upkeep) = writing_to(folder.path());
        raw(&conn).execute_batch("PRAGMA synchronous = OFF").unwrap();
        let ticks = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&ticks);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        raw_mut(&mut conn).progress_handler(TICK, Some(count)).unwrap();
        Self { conn, ticks, _folder: folder }
    }

    /// Puts rows there as no run ever would, so neither keys nor triggers look at them.
    fn fill(&self, sql: &str) {
        raw(&self.conn)
            .execute_batch(&format!(
                "PRAGMA foreign_keys = OFF; DROP TRIGGER IF EXISTS runs_begin; DROP TRIGGER IF EXISTS events_append;
                 {sql}
                 PRAGMA foreign_keys = ON;"
            ))
            .unwrap();
    }

    /// One transaction: what it gives, the rows it changed, and the instructions it took.
    fn transaction<R>(&self, work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error>) -> (R, u64, u64) {
        let (changes, ticks) = (raw(&self.conn).total_changes(), self.ticks.load(Ordering::Relaxed));
        raw(&self.conn).execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut seqs = Seqs::default();
        let log = DeltaLog::new(Arc::default());
        let mut batch =
            Batch::begin(&self.conn, Timestamp::UNIX_EPOCH, &mut seqs, (&log, DuePacking::None), None)
                .unwrap();
        let result = work(&mut batch).unwrap();
        batch.finish(None).unwrap();
        raw(&self.conn).execute_batch("COMMIT").unwrap();
        let ticks = self.ticks.load(Ordering::Relaxed) - ticks;
        (result, raw(&self.conn).total_changes() - changes, ticks * u64::from(TICK.unsigned_abs()))
    }

    fn count(&self, sql: &str) -> i64 {
        raw(&self.conn).query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

/// Rows of other users, none of which is to go.
const OTHERS: &str = "
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
        INSERT INTO jobs (id, kind, key, app, user, thread, status, run_at, created_at, updated_at)
            SELECT unhex(printf('%032x', i)), 'extract_memories', i, 'app', 'bob', unhex(printf('%032x', i)),
                iif(i % 2, 'done', 'dead'), 0, 0, 1000000 + i FROM n;
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
        INSERT INTO tool_results (call, run, status, seq)
            SELECT unhex(printf('%032x', i)), unhex(printf('%032x', i / 10)), 'complete', i FROM n;
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO texts (app, user, source, hash, body)
            SELECT 'app', 'bob', 'msg_' || i, unhex(printf('%032x', i)), 'x' FROM n;
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO actions (id, app, user, thread, run, tool, effect, status, started_at, position)
            SELECT unhex(printf('%032x', i)), 'app', 'bob', unhex(printf('%032x', i / 10)), unhex(printf('%032x', i)),
                't', 'read', 'complete', 0, i FROM n;";

/// A deleted thread with `runs` runs of one message and one call with its result, and as many jobs and texts.
fn deleted_thread(runs: u32) -> String {
    format!(
        "INSERT INTO threads (id, app, user, created_at, updated_at, deleted_at)
             VALUES (x'aa000000000000000000000000000000', 'app', 'alice', 0, 0, 0);
         CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {runs})
             SELECT i, unhex(printf('bb%030x', i)) AS id, x'aa000000000000000000000000000000' AS thread FROM n;
         INSERT INTO runs (id, thread, app, user, message, status, created_at, ended_at)
             SELECT id, thread, 'app', 'alice', id, 'completed', 0, 0 FROM n;
         INSERT INTO events (thread, seq, run, kind, at, body)
             SELECT thread, i * 1000, id, 'message:user', 0, '{{}}' FROM n;
         INSERT INTO messages (id, thread, parent, role, run, seq, created_at)
             SELECT id, thread, iif(i > 1, unhex(printf('bb%030x', i - 1)), NULL), 'user', id, i, 0 FROM n;
         INSERT INTO items (app, user, kind, id) SELECT 'app', 'alice', 'message', id FROM n;
         INSERT INTO vectors (app, user, item, model, hash, vector)
             SELECT 'app', 'alice', id, 'm', id, x'00' FROM n;
         INSERT INTO texts (app, user, source, hash, body)
             SELECT 'app', 'alice', 'msg_' || lower(hex(id)), id, 'x' FROM n;
         INSERT INTO tool_calls (id, run, step, idx, provider_id, name, seq) SELECT id, id, 1, 0, 'p', 't', i FROM n;
         INSERT INTO tool_results (call, run, status, seq) SELECT id, id, 'complete', i FROM n;
         INSERT INTO jobs (id, kind, key, app, user, thread, status, run_at, created_at, updated_at)
             SELECT id, 'k', 'own ' || i, 'app', 'alice', thread, 'done', 0, 0, 1000000 FROM n;
         INSERT INTO summaries (id, thread, level, from_message, to_message, from_seq, to_seq, messages, hash,
                 merged_into, created_at)
             SELECT id, thread, i % 2, id, id, i, i, 1, id,
                 iif(i % 2 = 0, unhex(printf('bb%030x', i - 1)), NULL), 0 FROM n;
         INSERT INTO actions (id, app, user, thread, run, tool, effect, status, input, started_at, position)
             SELECT id, 'app', 'alice', thread, id, 't', 'read', 'complete', '{{}}', 0, i FROM n;
         DROP TABLE temp.n;"
    )
}

/// Rows that are left of the thread. Actions stay, without what they hold.
const LEFT: &str =
    "SELECT (SELECT count(*) FROM threads) + (SELECT count(*) FROM runs) + (SELECT count(*) FROM events)
    + (SELECT count(*) FROM messages) + (SELECT count(*) FROM items) + (SELECT count(*) FROM vectors)
    + (SELECT count(*) FROM tool_calls) + (SELECT count(*) FROM summaries)
    + (SELECT count(*) FROM texts WHERE user = 'alice') + (SELECT count(*) FROM jobs WHERE user = 'alice')
    + (SELECT count(*) FROM tool_results WHERE call >= x'bb')
    + (SELECT count(*) FROM actions WHERE user = 'alice' AND input IS NOT NULL)";

/// An instruction or two for each of the others' rows would be many times as much.
const MAX_INSTRUCTIONS: u64 = 20_000;

#[test]
fn a_purge_does_not_look_at_the_rows_of_others() {
    let counted = Counted::new();
    counted.fill(OTHERS);
    let (found, changed, took) = counted.transaction(|batch| purge(batch, Timestamp::UNIX_EPOCH));
    assert!(!found && changed == 0 && took < MAX_INSTRUCTIONS, "with nothing to purge: {took}");
    let (found, changed, took) = counted.transaction(|batch| jobs::forget(batch, Timestamp::UNIX_EPOCH));
    assert!(!found && changed == 0 && took < MAX_INSTRUCTIONS, "with no job to forget: {took}");
    let ((), _, took) = counted.transaction(|batch| jobs::adopt(batch));
    assert!(took < MAX_INSTRUCTIONS, "with no job begun: {took}");
    counted.fill(&deleted_thread(3));
    let (found, _, took) = counted.transaction(|batch| purge(batch, Timestamp::UNIX_EPOCH));
    assert!(found && took < MAX_INSTRUCTIONS, "a small thread: {took}");
    assert_eq!(counted.count(LEFT), 0, "it goes in one transaction");
    assert_eq!(counted.count("SELECT count(*) FROM jobs"), 200_000);
    assert_eq!(counted.count("SELECT count(*) FROM tool_results"), 200_000);
}

#[test]
fn a_large_thread_goes_a_bounded_number_of_rows_at_a_time() {
    let counted = Counted::new();
    counted.fill(&deleted_thread(2_500));
    // Each erased action has a payload and an entry of the ledger, and the head of its chain moves.
    let most = (PURGE_ROWS + 5 * PURGE_ACTIONS + 4 * PURGE_MESSAGES) as u64;
    let mut transactions = 0;
    loop {
        let (found, changed, took) = counted.transaction(|batch| purge(batch, Timestamp::UNIX_EPOCH));
        if !found {
            break;
        }
        transactions += 1;
        assert!(changed <= most, "transaction {transactions} changed {changed} rows");
        assert!(took < 200 * most, "transaction {transactions} took {took} instructions");
        assert!(transactions < 1_000, "it comes to an end");
    }
    assert!(transactions >= 25, "{transactions}");
    assert_eq!(counted.count(LEFT), 0);
}
