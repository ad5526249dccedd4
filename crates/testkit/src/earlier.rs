//! Databases as earlier versions have left them.

use std::path::Path;

use rusqlite::{Connection, params};
use uuid::Uuid;

const MIGRATIONS: [&str; 8] = [
    include_str!("../../store/src/sqlite/migrations/0001_log.sql"),
    include_str!("../../store/src/sqlite/migrations/0002_memories.sql"),
    include_str!("../../store/src/sqlite/migrations/0003_ledger.sql"),
    include_str!("../../store/src/sqlite/migrations/0004_memory.sql"),
    include_str!("../../store/src/sqlite/migrations/0005_context.sql"),
    include_str!("../../store/src/sqlite/migrations/0006_outside.sql"),
    include_str!("../../store/src/sqlite/migrations/0007_limits.sql"),
    include_str!("../../store/src/sqlite/migrations/0008_proof.sql"),
];

/// How many there were before the newest.
pub const VERSIONS: usize = MIGRATIONS.len();

/// Makes the database of a version, with `threads` threads of one answered question and one that was cancelled, in the
/// scope of the user `local` in the app `studio`.
pub fn database(folder: &Path, version: usize, threads: u128) {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let mut conn = Connection::open(folder.join("rondo.db")).expect("the database opens");
    conn.pragma_update(None, "journal_mode", "WAL").expect("it has a write-ahead log");
    let tx = conn.transaction().expect("a transaction begins");
    for (number, sql) in MIGRATIONS.iter().take(version).enumerate() {
        tx.execute_batch(sql).expect("the migration is SQL");
        if number == 0 {
            (1..=threads).for_each(|thread| fill(&tx, thread));
        }
    }
    tx.pragma_update(None, "user_version", version as i64).expect("the version is set");
    tx.commit().expect("it is written");
}

/// Ids are counted, so that each is there once.
fn fill(conn: &Connection, number: u128) {
    let id = |kind: u128| *Uuid::from_u128(kind << 64 | number).as_bytes();
    let [thread, first, second, said, reply, again] = [1, 2, 3, 4, 5, 6].map(id);
    conn.execute(
        "INSERT INTO threads (id, app, user, head, message_count, created_at, updated_at)
            VALUES (?1, 'studio', 'local', ?2, 3, 0, 0)",
        params![thread, again],
    )
    .expect("a thread");
    let mut seq = 0;
    for (run, message, status) in [(first, said, "completed"), (second, again, "cancelled")] {
        conn.execute(
            "INSERT INTO runs (id, thread, app, user, message, status, start_seq, created_at)
                VALUES (?1, ?2, 'studio', 'local', ?3, 'running', ?4, 0)",
            params![run, thread, message, seq + 1],
        )
        .expect("a run");
        let parent = (run == second).then_some(reply);
        seq = event(conn, (thread, run, seq), "message:user", r#"{"text":"Why?"}"#);
        let insert = "INSERT INTO messages (id, thread, parent, role, run, seq, created_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
        conn.execute(insert, params![message, thread, parent, "user", run, seq]).expect("a message");
        seq = event(conn, (thread, run, seq), "run:start", "{}");
        seq = event(conn, (thread, run, seq), "text:delta", r#"{"step":1,"delta":"So."}"#);
        if run == first {
            seq = event(conn, (thread, run, seq), "stream:complete", r#"{"text":"So."}"#);
            conn.execute(insert, params![reply, thread, said, "assistant", run, seq]).expect("a reply");
        }
        seq = event(conn, (thread, run, seq), "run:end", &format!(r#"{{"status":"{status}"}}"#));
        conn.execute(
            "UPDATE runs SET status = ?2, ended_at = 1, end_seq = ?3 WHERE id = ?1",
            params![run, status, seq],
        )
        .expect("the run ends");
    }
}

/// Appends an event after a thread's last, and gives its number.
fn event(conn: &Connection, (thread, run, last): ([u8; 16], [u8; 16], i64), kind: &str, body: &str) -> i64 {
    let seq = last + 1;
    conn.execute("INSERT INTO events VALUES (?1, ?2, ?3, ?4, 0, ?5)", params![thread, seq, run, kind, body])
        .expect("an event");
    conn.execute("UPDATE threads SET next_seq = ?2 WHERE id = ?1", params![thread, seq + 1])
        .expect("a number");
    seq
}
