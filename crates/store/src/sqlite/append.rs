//! Appending to the log inside the writer's transaction.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use jiff::Timestamp;
use protocol::{Delta, Kind, RunId, Seq, Stored, ThreadId};
use rusqlite::{CachedStatement, Connection, Params, params};

use super::read::{find_first, find_only, has_any, sql};
use crate::error::is_refusal;
use crate::outbox::Outbox;
use crate::{Error, Stop};

/// Threads whose next number the writer remembers between batches.
const MAX_REMEMBERED: usize = 16 * 1024;

/// The next number of each thread written to lately. Only the writer has one, and it is the only writer.
#[derive(Default)]
pub(super) struct Seqs {
    next: HashMap<ThreadId, Seq>,
}

impl Seqs {
    /// After a rollback the database knows better.
    pub(super) fn forget(&mut self) {
        self.next.clear();
    }
}

/// A transaction under way. All writes of the product go through one of these.
pub(super) struct Batch<'c> {
    conn: &'c Connection,
    insert: CachedStatement<'c>,
    at: i64,
    seqs: &'c mut Seqs,
    /// Threads whose number moved in this batch, with the number before.
    moved: Vec<(ThreadId, Seq)>,
    /// Where the piece of work under way begins in `moved`.
    barrier: usize,
    recorded: Vec<Arc<Stored>>,
    taken: Vec<Delta>,
    body: Vec<u8>,
}

impl<'c> Batch<'c> {
    pub(super) fn begin(conn: &'c Connection, now: Timestamp, seqs: &'c mut Seqs) -> Result<Self, Error> {
        let insert = conn.prepare_cached(
            "INSERT INTO events (thread, seq, run, kind, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        if seqs.next.len() > MAX_REMEMBERED {
            seqs.forget();
        }
        let at = now.as_millisecond();
        Ok(Self {
            conn,
            insert,
            at,
            seqs,
            moved: vec![],
            barrier: 0,
            recorded: vec![],
            taken: vec![],
            body: vec![],
        })
    }

    /// Writes back the numbers and gives what must be published once the transaction is committed.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<Stored>>, Error> {
        self.moved.sort_unstable();
        self.moved.dedup_by_key(|(thread, _)| *thread);
        let mut update = self.conn.prepare_cached("UPDATE threads SET next_seq = ?2 WHERE id = ?1")?;
        for (thread, _) in &self.moved {
            let next = self.seqs.next.get(thread).copied().unwrap_or(1);
            update.execute(params![thread.bytes(), sql(next)])?;
        }
        Ok(self.recorded)
    }

    /// Runs `work`; if it says false, nothing of it stays.
    pub(super) fn atomically(&mut self, work: impl FnOnce(&mut Self) -> bool) -> Result<(), Error> {
        let (moved, recorded) = (self.moved.len(), self.recorded.len());
        let outer = std::mem::replace(&mut self.barrier, moved);
        self.conn.prepare_cached("SAVEPOINT work")?.execute([])?;
        if !work(self) {
            self.conn.prepare_cached("ROLLBACK TO work")?.execute([])?;
            self.recorded.truncate(recorded);
            for (thread, before) in self.moved.drain(moved..).rev() {
                self.seqs.next.insert(thread, before);
            }
        }
        self.conn.prepare_cached("RELEASE work")?.execute([])?;
        self.barrier = outer;
        Ok(())
    }

    /// Runs a part of a piece of work that may be refused; then nothing of it stays, and the rest goes on. Gives the
    /// refusal. A failure that has nothing to do with what the rows say ends the whole.
    pub(super) fn part(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<Option<Error>, Error> {
        let mut refused = None;
        self.atomically(|batch| {
            refused = work(batch).err();
            refused.is_none()
        })?;
        match refused {
            Some(error) if error.may_pass() || error.is_lost() => Err(error),
            refused => Ok(refused),
        }
    }

    pub(super) fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// Executes a statement.
    pub(super) fn execute(&self, statement: &str, values: impl Params) -> Result<(), Error> {
        self.count_changed(statement, values).map(drop)
    }

    /// Executes a statement, and counts the rows that it changes.
    pub(super) fn count_changed(&self, statement: &str, values: impl Params) -> Result<usize, Error> {
        Ok(self.conn.prepare_cached(statement)?.execute(values)?)
    }

    pub(super) fn at(&self) -> i64 {
        self.at
    }

    /// The moment of the transaction, as a time.
    pub(super) fn now(&self) -> Result<Timestamp, Error> {
        Timestamp::from_millisecond(self.at).map_err(|_| Error::Aborted)
    }

    /// Appends what waits in the outbox. If the log refuses it (the run has ended), the outbox closes.
    pub(super) fn deltas(&mut self, outbox: &Outbox) -> Result<(), Error> {
        let mut taken = std::mem::take(&mut self.taken);
        outbox.take(&mut taken);
        if !taken.is_empty() && !self.is_owner(outbox)? {
            tracing::warn!(run = %outbox.run, epoch = outbox.epoch, "deltas of a process that no longer owns the run were dropped");
            outbox.close();
            taken.clear();
        }
        for delta in taken.drain(..) {
            self.body.clear();
            delta.write_body(&mut self.body);
            let body = Arc::from(std::str::from_utf8(&self.body).unwrap_or("{}"));
            match self.append(outbox.thread, Some(outbox.run), delta.kind(), body) {
                Ok(_) => {}
                Err(Error::Sql(error)) if is_refusal(&error) => {
                    tracing::warn!(run = %outbox.run, %error, "the log refused a delta");
                    outbox.close();
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        taken.clear();
        self.taken = taken;
        Ok(())
    }

    /// Whether the outbox still speaks for its run.
    pub(super) fn is_owner(&self, outbox: &Outbox) -> Result<bool, Error> {
        let statement = "SELECT 1 FROM runs WHERE id = ?1 AND epoch = ?2";
        has_any(self.conn, statement, params![outbox.run.bytes(), sql(outbox.epoch)])
    }

    /// Why the run is to end before its time, if it was told to.
    pub(super) fn stop_of(&self, run: RunId) -> Result<Option<Stop>, Error> {
        let statement = "SELECT stop FROM runs WHERE id = ?1";
        let stop: Option<Option<String>> = find_first(self.conn, statement, [run.bytes()], |row| row.get(0))?;
        Ok(stop.flatten().and_then(|stop| Stop::parse(&stop)))
    }

    pub(super) fn append(
        &mut self,
        thread: ThreadId,
        run: Option<RunId>,
        kind: Kind,
        body: Arc<str>,
    ) -> Result<Seq, Error> {
        let seq = self.next(thread)?;
        let run_bytes = run.as_ref().map(RunId::bytes);
        self.insert.execute(params![thread.bytes(), sql(seq), run_bytes, kind.name(), self.at, &*body])?;
        self.seqs.next.insert(thread, seq + 1);
        // Neighbouring events of one thread note the number they began from once.
        let noted =
            self.moved.get(self.barrier..).and_then(<[_]>::last).is_some_and(|(last, _)| *last == thread);
        if !noted {
            self.moved.push((thread, seq));
        }
        self.recorded.push(Arc::new(Stored { thread, seq, run, kind: Cow::Borrowed(kind.name()), body }));
        Ok(seq)
    }

    /// Counts on after the newest event of the thread, wherever its row says that the sequence stands.
    pub(super) fn count_on(&mut self, thread: ThreadId) -> Result<(), Error> {
        let statement = "SELECT coalesce(max(seq), 0) FROM events WHERE thread = ?1";
        let newest: i64 = find_only(self.conn, statement, [thread.bytes()], |row| row.get(0))?;
        let after = u64::try_from(newest).unwrap_or(0) + 1;
        if self.next(thread)? < after {
            self.conn
                .prepare_cached("UPDATE threads SET next_seq = ?2 WHERE id = ?1")?
                .execute(params![thread.bytes(), sql(after)])?;
            self.seqs.next.insert(thread, after);
        }
        Ok(())
    }

    /// A thread that is new counts from 1, whatever was numbered under its id before it was deleted.
    pub(super) fn begins(&mut self, thread: ThreadId) {
        self.seqs.next.insert(thread, 1);
    }

    /// The number the thread's next event will have.
    pub(super) fn next(&mut self, thread: ThreadId) -> Result<Seq, Error> {
        match self.seqs.next.entry(thread) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let statement = "SELECT next_seq FROM threads WHERE id = ?1";
                let next: i64 = find_first(self.conn, statement, [thread.bytes()], |row| row.get(0))?
                    .ok_or(Error::NotFound("thread"))?;
                Ok(*entry.insert(u64::try_from(next).unwrap_or(1)))
            }
        }
    }
}
