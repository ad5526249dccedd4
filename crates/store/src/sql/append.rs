//! Appending to the log inside the writer's transaction.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::sql::{SqlConnection, SqlParams, SqlStatement, params};
use jiff::Timestamp;
use protocol::{Delta, Kind, RunId, Seq, Stored, ThreadId};

use super::commit_news::CommitNews;
use super::deltas::{DeltaChanges, DeltaLog, DeltaRange, DuePacking, delta_event};
use super::read::{find_first, find_only, has_any, sql};
use super::upkeep::NodeTurn;
use super::{free_pages, notices};
use crate::outbox::Outbox;
use crate::rules::notices::NoticedChange;
use crate::rules::packed_deltas::DeltaPacker;
use crate::{Error, NewestNotice, Stop, WatchedApps};

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

    /// Another node has written to the thread.
    pub(super) fn set(&mut self, thread: ThreadId, next: Seq) {
        self.next.insert(thread, next);
    }
}

/// A transaction under way. All writes of the product go through one of these.
pub(crate) struct Batch<'c> {
    conn: &'c SqlConnection,
    insert: SqlStatement<'c>,
    at: i64,
    seqs: &'c mut Seqs,
    log: &'c DeltaLog,
    deltas: DeltaChanges,
    /// Threads whose number moved in this batch, with the number before, if it was known.
    moved: Vec<(ThreadId, Option<Seq>)>,
    /// The threads of `moved` whose row is to say so, with the number after.
    stored: Vec<(ThreadId, Seq)>,
    /// The place in `moved` at which the piece of work under way begins.
    barrier: usize,
    recorded: Vec<Arc<Stored>>,
    /// The changes that users are told of once all is committed.
    noticed: RefCell<Vec<NoticedChange>>,
    taken: Vec<Delta>,
    body: Vec<u8>,
    /// Whether the transaction adds work for the background.
    adds_work: Cell<bool>,
    /// The turn of this node, if several share the database.
    turn: Option<NodeTurn>,
    /// The news for the other nodes.
    news: RefCell<CommitNews>,
}

/// The results of a transaction once it is committed.
pub(super) struct FinishedBatch {
    /// Events to be published.
    pub(super) recorded: Vec<Arc<Stored>>,
    /// The newest notices, of each user one.
    pub(super) notices: Vec<NewestNotice>,
    pub(super) deltas: DeltaChanges,
    pub(super) at: i64,
    pub(super) adds_work: bool,
}

impl<'c> Batch<'c> {
    pub(super) fn begin(
        conn: &'c SqlConnection,
        now: Timestamp,
        seqs: &'c mut Seqs,
        (log, packing): (&'c DeltaLog, DuePacking),
        turn: Option<NodeTurn>,
    ) -> Result<Self, Error> {
        let insert = conn.prepare(
            "INSERT INTO events (thread, seq, run, kind, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        if seqs.next.len() > MAX_REMEMBERED {
            seqs.forget();
        }
        let at = now.as_millisecond();
        let mut batch = Self {
            conn,
            insert,
            at,
            seqs,
            log,
            deltas: DeltaChanges::default(),
            moved: vec![],
            stored: vec![],
            barrier: 0,
            recorded: vec![],
            noticed: RefCell::default(),
            taken: vec![],
            body: vec![],
            adds_work: Cell::new(false),
            turn,
            news: RefCell::default(),
        };
        match packing {
            DuePacking::None => {}
            DuePacking::Older => {
                batch.pack_all(DeltaChanges::older_open(log))?;
                batch.deltas.empty_older(conn, log)?;
            }
            DuePacking::All => batch.pack_everything()?,
        }
        Ok(batch)
    }

    /// Writes back the numbers and the deltas, and tells the users.
    pub(super) fn finish(mut self, watched: Option<&WatchedApps>) -> Result<FinishedBatch, Error> {
        // Of each thread the highest number.
        self.stored.sort_unstable_by(|one, other| other.cmp(one));
        self.stored.dedup_by_key(|(thread, _)| *thread);
        let mut update = self.conn.prepare("UPDATE threads SET next_seq = ?2 WHERE id = ?1")?;
        for (thread, next) in &self.stored {
            update.execute(params![thread.bytes(), sql(*next)])?;
        }
        let (notices, adds_work) = (notices::write(&self, watched)?, self.adds_work.get());
        let news = self.turn.map(|turn| {
            let told = self.news.take();
            (
                turn,
                CommitNews { work: adds_work, moved: self.stored.clone(), notices: notices.clone(), ..told },
            )
        });
        self.deltas.write(self.conn, self.log, news)?;
        Ok(FinishedBatch { recorded: self.recorded, notices, deltas: self.deltas, at: self.at, adds_work })
    }

    /// Runs `work`; if it says false, nothing of it stays.
    pub(super) fn atomically(&mut self, work: impl FnOnce(&mut Self) -> bool) -> Result<(), Error> {
        let (moved, recorded, stored) = (self.moved.len(), self.recorded.len(), self.stored.len());
        let noticed = self.noticed.borrow().len();
        let deltas = self.deltas.mark();
        let outer = std::mem::replace(&mut self.barrier, moved);
        self.conn.execute("SAVEPOINT work", [])?;
        if !work(self) {
            self.conn.execute("ROLLBACK TO work", [])?;
            self.recorded.truncate(recorded);
            self.stored.truncate(stored);
            self.noticed.borrow_mut().truncate(noticed);
            self.deltas.go_back(&deltas);
            for (thread, before) in self.moved.drain(moved..).rev() {
                match before {
                    Some(before) => self.seqs.next.insert(thread, before),
                    None => self.seqs.next.remove(&thread),
                };
            }
        }
        self.conn.execute("RELEASE work", [])?;
        self.barrier = outer;
        Ok(())
    }

    /// Runs a part of a piece of work that may be refused; then nothing of it stays, and the rest continues. Gives the
    /// refusal. A failure that has nothing to do with what the rows say ends the whole.
    pub(super) fn part(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<Option<Error>, Error> {
        let mut refused = None;
        self.atomically(|batch| {
            let done = work(batch);
            refused = batch.conn.settle_after(done).err();
            refused.is_none()
        })?;
        match refused {
            Some(error) if error.may_pass() || error.is_lost() => Err(error),
            refused => Ok(refused),
        }
    }

    pub(crate) fn conn(&self) -> &'c SqlConnection {
        self.conn
    }

    /// Executes a statement.
    pub(crate) fn execute(&self, statement: &str, values: impl SqlParams) -> Result<(), Error> {
        self.conn.execute(statement, values)
    }

    /// Executes a statement, and counts the rows that it changes.
    pub(super) fn count_changed(&self, statement: &str, values: impl SqlParams) -> Result<usize, Error> {
        self.conn.count_changed(statement, values)
    }

    /// Something was removed that no file may hold. PostgreSQL sees to that itself.
    pub(super) fn note_removed(&self) -> Result<(), Error> {
        match self.conn {
            SqlConnection::Sqlite(_) => free_pages::note_removed(self.conn),
            SqlConnection::Postgres(_) => Ok(()),
        }
    }

    /// Lets a user know of a change, once it is committed.
    pub(super) fn notice(&self, change: NoticedChange) {
        self.noticed.borrow_mut().push(change);
    }

    /// The changes that users are to know of.
    pub(super) fn take_noticed(&self) -> Vec<NoticedChange> {
        self.noticed.take()
    }

    pub(super) fn at(&self) -> i64 {
        self.at
    }

    /// Does `work` as if at another moment, which its events and rows then name. No moment is later than the
    /// transaction.
    pub(super) fn as_of<R>(
        &mut self,
        moment: Option<Timestamp>,
        work: impl FnOnce(&mut Self) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let now = self.at;
        self.at = moment.map_or(now, |moment| moment.as_millisecond().clamp(0, now));
        let done = work(self);
        self.at = now;
        done
    }

    /// The number of this node, if several share the database.
    pub(super) fn node(&self) -> Option<i64> {
        self.turn.map(|turn| turn.node)
    }

    /// The run of a thread can continue, or is to end. The node that owns the run looks at it.
    pub(super) fn touch(&self, thread: ThreadId) {
        self.news.borrow_mut().touched.push(thread);
    }

    /// A key is new, or a key or a session ends: all nodes look at it again.
    pub(super) fn access_changes(&self) {
        self.news.borrow_mut().access = true;
    }

    /// Approvals of MCP tools change.
    pub(super) fn mcp_changes(&self) {
        self.news.borrow_mut().mcp = true;
    }

    /// A node was taken for dead.
    pub(super) fn remove_node(&self, node: i64) {
        self.news.borrow_mut().removed.push(node.unsigned_abs());
    }

    /// Notes that there is a new job, or a proposal that expires. If the work is undone, the background looks once for
    /// nothing.
    pub(super) fn adds_work(&self) {
        self.adds_work.set(true);
    }

    /// The moment of the transaction, as a time.
    pub(super) fn now(&self) -> Result<Timestamp, Error> {
        Timestamp::from_millisecond(self.at).map_err(|_| Error::Aborted)
    }

    /// Takes what waits in the outbox. If the log takes no more of it (the run has ended), the outbox closes.
    pub(super) fn deltas(&mut self, outbox: &Outbox) -> Result<(), Error> {
        let mut taken = std::mem::take(&mut self.taken);
        outbox.take(&mut taken);
        let is_taken =
            taken.is_empty() || self.takes_deltas(outbox).inspect_err(|_| outbox.hold(&mut taken))?;
        if !is_taken {
            tracing::warn!(run = %outbox.run, epoch = outbox.epoch, "deltas were dropped, because the run has ended or another process owns it");
            outbox.close();
            taken.clear();
        }
        let added = if taken.is_empty() { Ok(()) } else { self.add_deltas(outbox, &taken) };
        outbox.hold(&mut taken);
        self.taken = taken;
        added
    }

    fn add_deltas(&mut self, outbox: &Outbox, taken: &[Delta]) -> Result<(), Error> {
        let (thread, run) = (outbox.thread, outbox.run);
        let first = self.next(thread)?;
        let mut packer = DeltaPacker::default();
        for (seq, delta) in (first..).zip(taken) {
            packer.push(delta);
            self.recorded.push(Arc::new(delta_event((thread, run, seq), delta, &mut self.body)));
        }
        let last = first + taken.len() as u64 - 1;
        self.move_on(thread, first, last + 1);
        let epoch = Some(outbox.epoch);
        self.deltas.add(DeltaRange { thread, run, first, last, bytes: packer.bytes(), epoch });
        Ok(())
    }

    /// Packs the deltas of a thread that are in the delta log.
    fn pack_deltas(&mut self, thread: ThreadId) -> Result<(), Error> {
        let packed = self.deltas.pack((self.conn, self.at), self.log, thread)?;
        self.stored.extend(packed.map(|last| (thread, last + 1)));
        Ok(())
    }

    /// Packs the deltas of these threads. One that is damaged does not hold up the others.
    fn pack_all(&mut self, threads: Vec<ThreadId>) -> Result<(), Error> {
        for thread in threads {
            if let Some(error) = self.part(|batch| batch.pack_deltas(thread))? {
                tracing::error!(%thread, %error, "the log refuses the deltas of a thread");
            }
        }
        Ok(())
    }

    /// Packs what is in the delta log, and empties it.
    fn pack_everything(&mut self) -> Result<(), Error> {
        self.pack_all(DeltaChanges::all_open(self.log))?;
        self.deltas.empty_both(self.conn)
    }

    /// Removes what the delta log has of a thread, which goes with all that is in the log.
    pub(super) fn forget_deltas(&mut self, thread: ThreadId) -> Result<(), Error> {
        if self.log.has_deltas(thread) { self.pack_everything() } else { Ok(()) }
    }

    /// Runs have another owner from here on.
    pub(super) fn forget_owners(&mut self) {
        self.deltas.forget_owners();
    }

    /// Notes that the next event of a thread has another number.
    fn move_on(&mut self, thread: ThreadId, from: Seq, next: Seq) {
        self.seqs.next.insert(thread, next);
        // Neighbouring events of one thread note the number they began from once.
        let noted =
            self.moved.get(self.barrier..).and_then(<[_]>::last).is_some_and(|(last, _)| *last == thread);
        if !noted {
            self.moved.push((thread, Some(from)));
        }
    }

    /// Whether the outbox belongs to the present owner of its run, and the run has not ended.
    pub(super) fn is_owner(&self, outbox: &Outbox) -> Result<bool, Error> {
        let statement = "SELECT 1 FROM runs WHERE id = ?1 AND epoch = ?2 AND ended_at IS NULL";
        has_any(self.conn, statement, params![outbox.run.bytes(), sql(outbox.epoch)])
    }

    /// Whether the log takes deltas of the run.
    fn takes_deltas(&self, outbox: &Outbox) -> Result<bool, Error> {
        // A question for each stream and commit would cost most of the time on a database behind a connection.
        if self.deltas.continues_run(self.log, (outbox.thread, outbox.run, outbox.epoch)) {
            return Ok(true);
        }
        let statement =
            "SELECT 1 FROM runs WHERE id = ?1 AND epoch = ?2 AND thread = ?3 AND ended_at IS NULL";
        has_any(self.conn, statement, params![outbox.run.bytes(), sql(outbox.epoch), outbox.thread.bytes()])
    }

    /// Why the run is to end before its time, if it was told to. None if the outbox does not speak for its run any more.
    pub(super) fn stop_of_owned(&self, outbox: &Outbox) -> Result<Option<Option<Stop>>, Error> {
        let statement = "SELECT stop FROM runs WHERE id = ?1 AND epoch = ?2";
        let key = params![outbox.run.bytes(), sql(outbox.epoch)];
        let stop: Option<Option<String>> = find_first(self.conn, statement, key, |row| row.get(0))?;
        Ok(stop.map(|stop| stop.and_then(|stop| Stop::parse(&stop))))
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
        self.pack_deltas(thread)?;
        let seq = self.next(thread)?;
        let run_bytes = run.as_ref().map(RunId::bytes);
        self.insert.execute(params![thread.bytes(), sql(seq), run_bytes, kind.name(), self.at, &*body])?;
        self.move_on(thread, seq, seq + 1);
        self.stored.push((thread, seq + 1));
        self.recorded.push(Arc::new(Stored { thread, seq, run, kind: Cow::Borrowed(kind.name()), body }));
        Ok(seq)
    }

    /// The events of a run that this transaction has recorded.
    pub(super) fn recorded_of(&self, run: RunId) -> Vec<Arc<Stored>> {
        self.recorded.iter().filter(|event| event.run == Some(run)).cloned().collect()
    }

    /// Counts on after the newest event of the thread, wherever its row says that the sequence stands.
    pub(super) fn count_on(&mut self, thread: ThreadId) -> Result<(), Error> {
        self.pack_deltas(thread)?;
        let statement = "SELECT max(coalesce((SELECT max(seq) FROM events WHERE thread = ?1), 0),
            coalesce((SELECT last FROM packed_deltas WHERE thread = ?1 ORDER BY first DESC LIMIT 1), 0))";
        let newest: i64 = find_only(self.conn, statement, [thread.bytes()], |row| row.get(0))?;
        let after = u64::try_from(newest).unwrap_or(0) + 1;
        if self.next(thread)? < after {
            self.conn
                .prepare("UPDATE threads SET next_seq = ?2 WHERE id = ?1")?
                .execute(params![thread.bytes(), sql(after)])?;
            self.seqs.next.insert(thread, after);
        }
        Ok(())
    }

    /// A new thread counts from 1, also if a deleted thread had its id. PostgreSQL may still say that there is a thread
    /// of this id.
    pub(super) fn begin_thread(&mut self, thread: ThreadId) {
        let before = self.seqs.next.insert(thread, 1);
        self.moved.push((thread, before));
    }

    /// The number the thread's next event will have.
    pub(super) fn next(&mut self, thread: ThreadId) -> Result<Seq, Error> {
        match self.seqs.next.entry(thread) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let statement = "SELECT next_seq FROM threads WHERE id = ?1";
                let next: i64 = find_first(self.conn, statement, [thread.bytes()], |row| row.get(0))?
                    .ok_or(Error::NotFound("thread"))?;
                let open = self.log.open.last_of(thread).map_or(1, |last| last + 1);
                Ok(*entry.insert(u64::try_from(next).unwrap_or(1).max(open)))
            }
        }
    }
}
