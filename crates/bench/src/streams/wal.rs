//! The number of commits of an SQLite database, read off its write-ahead log from outside.
//!
//! A frame of the log that says how large the database is after it ends a commit. The log begins anew with another salt
//! after a checkpoint. Commits between the last look and a new beginning are not seen, so the number is a little low.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;
/// Offsets of the page size in the header of the log, and of the salts in headers.
const PAGE_SIZE_AT: usize = 8;
const SALT_AT: usize = 16;
const FRAME_SALT_AT: usize = 8;
const SALT_BYTES: usize = 8;
/// The offset, in the header of a frame, of the database's size after a commit.
const COMMIT_AT: usize = 4;
/// Frames that one look reads at most, which takes less than a tenth of a second.
const MAX_FRAMES: usize = 20_000;

pub(super) struct CommitCounter {
    file: PathBuf,
    salt: Vec<u8>,
    /// The place at which the next frame begins.
    next: u64,
    pub(super) commits: usize,
}

impl CommitCounter {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, salt: Vec::new(), next: HEADER_BYTES, commits: 0 }
    }

    /// Counts the commits since the last look. Nothing is counted while the log is not there or is being begun.
    pub(super) fn look(&mut self) {
        let _ = self.count();
    }

    fn count(&mut self) -> Option<()> {
        let file = File::open(&self.file).ok()?;
        let mut header = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut header, 0).ok()?;
        let salt = header.get(SALT_AT..SALT_AT + SALT_BYTES)?;
        if salt != self.salt {
            self.salt = salt.to_vec();
            self.next = HEADER_BYTES;
        }
        let page = u64::from(number_at(&header, PAGE_SIZE_AT)?);
        for _ in 0..MAX_FRAMES {
            let mut frame = [0; FRAME_HEADER_BYTES as usize];
            file.read_exact_at(&mut frame, self.next).ok()?;
            if frame.get(FRAME_SALT_AT..FRAME_SALT_AT + SALT_BYTES)? != self.salt {
                return None;
            }
            self.commits += usize::from(number_at(&frame, COMMIT_AT)? != 0);
            self.next += FRAME_HEADER_BYTES + page;
        }
        Some(())
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_of_a_real_database_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let database = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
        database.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        let mut counter = CommitCounter::new(folder.path().join("a.db-wal"));
        counter.look();
        let before = counter.commits;
        for number in 0..10 {
            database.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
        }
        database.execute_batch("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT").unwrap();
        counter.look();
        assert_eq!(counter.commits - before, 11);
    }
}
