//! The one writer: commits whatever has arrived while the last commit was under way, then tells the world.
//!
//! A batch that holds anything a caller is promised is synced to the disk; one of deltas alone is left to the
//! operating system, and becomes durable with the next promise because the write-ahead log is one sequential file.
//! Nothing is published and nobody is answered before the commit.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use async_trait::async_trait;
use protocol::{Clock, Delta, Event, Kind};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::append::{Batch, Seqs};
use super::checkpoint::Checkpointer;
use super::{Boundary, Moment, Owned, jobs};
use crate::outbox::{Outbox, Pushed};
use crate::{Error, NewJob, Publish, RunLog, Write};

/// Commands that may wait for the writer. Runs announce themselves at most once each, so this bounds requests.
const MAX_QUEUED: usize = 8192;

/// Commands that share one commit.
const MAX_BATCH: usize = 1024;

/// A handle on the writer thread, which ends when the last handle is gone.
#[derive(Clone)]
pub(super) struct Writer {
    queue: SyncSender<Command>,
}

enum Command {
    /// This run has deltas waiting.
    Deltas(Arc<Outbox>),
    /// Something that somebody waits for.
    Work { work: Box<dyn Work>, sync: Sync },
}

/// How hard a commit tries to reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// Survives the process, and the machine once the next promise is committed.
    Normal,
    /// Survives a power failure.
    Full,
}

/// A piece of work inside a batch: all of it happens, or nothing of it does.
trait Work: Send {
    /// Does it. False means that its changes must be undone.
    fn run(&mut self, batch: &mut Batch<'_>) -> bool;
    /// Answers whoever waits, once the batch is committed or lost.
    fn done(self: Box<Self>, committed: Result<(), Error>);
}

struct Job<F, R> {
    work: Option<F>,
    result: Option<Result<R, Error>>,
    reply: oneshot::Sender<Result<R, Error>>,
}

impl<F, R> Work for Job<F, R>
where
    F: FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send,
    R: Send,
{
    fn run(&mut self, batch: &mut Batch<'_>) -> bool {
        self.result = self.work.take().map(|work| work(batch));
        matches!(self.result, Some(Ok(_)))
    }

    fn done(self: Box<Self>, committed: Result<(), Error>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(Error::Aborted),
            (Err(error), _) => Err(error),
        };
        // Whoever asked may have gone away; the work is done all the same.
        drop(self.reply.send(result));
    }
}

impl Writer {
    pub(super) fn start(
        owned: Owned,
        clock: Arc<dyn Clock>,
        publish: Arc<dyn Publish>,
    ) -> Result<Self, Error> {
        let Owned { mut conn, checkpoints, lock, boundary } = owned;
        let (queue, commands) = sync_channel(MAX_QUEUED);
        let checkpointer = Checkpointer::start(&conn, checkpoints)?;
        checkpointer.watch(&mut conn)?;
        let mut committer =
            Committer { conn, checkpointer, clock, publish, seqs: Seqs::default(), sync: None, boundary };
        thread::Builder::new()
            .name("rondo-writer".into())
            .spawn(move || {
                committer.serve(&commands);
                drop((committer, lock));
            })
            .map_err(Error::Folder)?;
        Ok(Self { queue })
    }

    /// Runs `work` inside the next batch and waits until it is on the disk.
    pub(super) async fn write<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.write_with(Sync::Full, work).await
    }

    /// The same for a part of something that a later write promises: with that one, it is on the disk.
    pub(super) async fn write_ahead<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.write_with(Sync::Normal, work).await
    }

    async fn write_with<R: Send + 'static>(
        &self,
        sync: Sync,
        work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(Job { work: Some(work), result: None, reply });
        self.send(Command::Work { work, sync })?;
        answer.await.map_err(|_| Error::Closed)?
    }

    fn send(&self, command: Command) -> Result<(), Error> {
        self.queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Disconnected(_) => Error::Closed,
        })
    }
}

/// One run's end of the queue.
pub(super) struct SqliteRunLog {
    writer: Writer,
    outbox: Arc<Outbox>,
}

impl SqliteRunLog {
    pub(super) fn new(writer: Writer, outbox: Outbox) -> Self {
        Self { writer, outbox: Arc::new(outbox) }
    }
}

#[async_trait]
impl RunLog for SqliteRunLog {
    fn push(&self, delta: Delta) -> Result<(), Delta> {
        match self.outbox.push(delta) {
            Pushed::Joined => Ok(()),
            Pushed::Full(delta) => Err(delta),
            Pushed::Announce => {
                // A full queue loses nothing: the deltas wait in the outbox and go with the next fact.
                drop(self.writer.send(Command::Deltas(Arc::clone(&self.outbox))));
                Ok(())
            }
        }
    }

    async fn room(&self) {
        self.outbox.room().await;
    }

    async fn record(
        &self,
        events: Vec<Event>,
        caused: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<bool>, Error> {
        if !writes.is_empty() && !have_a_place(&events, &writes) {
            tracing::error!(run = %self.outbox.run, "writes belong to one result, or to the beginning of a run");
            return Err(Error::Aborted);
        }
        let outbox = Arc::clone(&self.outbox);
        // A text is worth as much as the event that names it, and is committed with it.
        let kept = |write: &Write| matches!(write, Write::Keep(_));
        let promise = !writes.iter().all(kept) || events.iter().any(|event| event.kind().is_promise());
        let sync = if promise { Sync::Full } else { Sync::Normal };
        let work = move |batch: &mut Batch<'_>| {
            if !batch.is_owner(&outbox)? {
                return Err(Error::Fenced);
            }
            batch.deltas(&outbox)?;
            for job in &caused {
                jobs::enqueue(batch, outbox.run, &jobs::Task::of(job, &job.key))?;
            }
            let record = |event| batch.record_with(outbox.thread, Some(outbox.run), event, &writes);
            events.iter().map(record).map(|seq| Ok(seq?.is_some())).collect()
        };
        self.writer.write_with(sync, work).await
    }
}

/// Whether exactly one of the events is what the writes belong to: the result of their call, or, for what is remembered,
/// pinned or kept without a call, `context:loaded`.
fn have_a_place(events: &[Event], writes: &[Write]) -> bool {
    let number = |kind| events.iter().filter(|event| event.kind() == kind).count();
    let without_call = |write: &Write| matches!(write, Write::Remember(_) | Write::Pin(_) | Write::Keep(_));
    match (number(Kind::ToolComplete), number(Kind::ContextLoaded)) {
        (1, 0) => true,
        (0, 1) => writes.iter().all(without_call),
        (_, _) => false,
    }
}

struct Committer {
    conn: Connection,
    checkpointer: Checkpointer,
    clock: Arc<dyn Clock>,
    publish: Arc<dyn Publish>,
    seqs: Seqs,
    /// The sync level in force, if known.
    sync: Option<Sync>,
    boundary: Option<Arc<dyn Boundary>>,
}

impl Committer {
    fn serve(&mut self, commands: &Receiver<Command>) {
        let mut waiting = Vec::with_capacity(MAX_BATCH);
        while let Ok(first) = commands.recv() {
            waiting.push(first);
            waiting.extend(commands.try_iter().take(MAX_BATCH - 1));
            if !self.commit(&mut waiting) {
                return;
            }
            self.checkpointer.after_commit(&self.conn);
        }
    }

    /// Commits the commands together, publishes what they recorded, and answers them. False if all ends here.
    fn commit(&mut self, commands: &mut Vec<Command>) -> bool {
        if !self.passes(Moment::BeforeCommit) {
            return false;
        }
        let recorded = self.transact(commands);
        if !self.passes(Moment::AfterCommit) {
            return false;
        }
        let committed = recorded.inspect(|events| self.publish.publish(events)).map(drop);
        if let Err(error) = &committed {
            tracing::error!(%error, "a batch of writes was not committed");
            self.seqs.forget();
        }
        for command in commands.drain(..) {
            let result = committed.as_ref().copied().map_err(Error::for_others);
            match command {
                Command::Deltas(outbox) if result.is_err() => outbox.close(),
                Command::Deltas(_) => {}
                Command::Work { work, .. } => work.done(result),
            }
        }
        true
    }

    fn passes(&self, moment: Moment) -> bool {
        self.boundary.as_ref().is_none_or(|boundary| boundary.pass(moment))
    }

    fn transact(&mut self, commands: &mut [Command]) -> Result<Vec<Arc<protocol::Stored>>, Error> {
        let promised = |command: &Command| matches!(command, Command::Work { sync: Sync::Full, .. });
        self.sync(if commands.iter().any(promised) { Sync::Full } else { Sync::Normal })?;
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let recorded = Batch::begin(&self.conn, self.clock.now(), &mut self.seqs).and_then(|mut batch| {
            for command in commands {
                match command {
                    Command::Deltas(outbox) => batch.deltas(outbox)?,
                    Command::Work { work, .. } => batch.atomically(|batch| work.run(batch))?,
                }
            }
            batch.finish()
        });
        let end = if recorded.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.conn.prepare_cached(end)?.execute([]);
        if ended.is_err() && !self.conn.is_autocommit() {
            // A failed commit leaves the transaction open; a failed rollback has closed it already.
            drop(self.conn.execute_batch("ROLLBACK"));
        }
        recorded.and_then(|events| ended.map(|_| events).map_err(Error::from))
    }

    /// Sets how hard the next commit tries to reach the disk. It cannot be changed inside a transaction.
    fn sync(&mut self, sync: Sync) -> Result<(), Error> {
        if self.sync != Some(sync) {
            let level = match sync {
                Sync::Normal => "PRAGMA synchronous = NORMAL",
                Sync::Full => "PRAGMA synchronous = FULL",
            };
            self.conn.prepare_cached(level)?.execute([])?;
            self.sync = Some(sync);
        }
        Ok(())
    }
}
