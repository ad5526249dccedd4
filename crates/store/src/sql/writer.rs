//! The only writer of this process. It commits the commands that have arrived while the last commit was under way, or
//! shortly after it (`commit_due.rs`), and then delivers events and answers.
//!
//! A batch that holds anything a caller is promised is synced to the disk; one of deltas alone is left to the operating
//! system, and becomes durable with the next promise because the write-ahead log is one sequential file. No event is
//! published, and no caller is answered, before the commit.
//!
//! When the disk fails, as opposed to being full, the writer ends: the content of the disk is unknown, and a second
//! sync that succeeds proves nothing about what the first one lost. The next start reads what is really there.

mod commit_due;
mod delivery;
mod run_log;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use protocol::Clock;
use tokio::sync::{oneshot, watch};

use super::append::{Batch, FinishedBatch, Seqs};
use super::deltas::{DeltaLog, DuePacking, TABLE_LIFE};
use super::node_log::{NodeKnowledge, NodeLog, NodeSeat};
use super::open_databases::OpenDatabase;
use super::upkeep::NodeTurn;
use super::{Boundary, CommitKind, Moment, RowsOf, SqlConnection, Upkeep, WalRestart};
use crate::outbox::Outbox;
use crate::webhooks::WebhookWatch;
use crate::{Error, Publish};

use commit_due::CommitDue;
use delivery::{CommitDeliveries, CommitDelivery, CommittedBatch};

pub(crate) use run_log::SqlRunLog;

/// Commands that may wait for the writer. Runs announce themselves at most once each, so this bounds requests.
const MAX_QUEUED: usize = 8192;

/// Commands that share one commit.
const MAX_BATCH: usize = 1024;

/// The pause before deltas whose commit has failed are tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A handle on the writer thread, which ends when the last handle is gone.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: SyncSender<Command>,
    /// After the queue, so that the thread looks once more when the queue has no sender any more.
    pause: Arc<WriterPause>,
    /// Nothing is ever sent. The other end is the thread's, and gone when the thread is, however it has ended.
    alive: watch::Receiver<()>,
    wal_restart: Arc<WalRestart>,
}

/// Ends the pause of the writer thread between two commits of deltas. Deltas let it pause: each of them would cost a
/// switch to the thread and back.
struct WriterPause(Thread);

impl WriterPause {
    fn end(&self) {
        self.0.unpark();
    }
}

impl Drop for WriterPause {
    fn drop(&mut self) {
        self.end();
    }
}

enum Command {
    /// Other nodes may have committed something.
    Follow,
    /// A run has deltas waiting.
    Deltas(Announcement),
    /// Work that a caller waits for, with the run whose deltas go with it.
    Work { work: Box<dyn Work>, rows: RowsOf, kind: CommitKind, outbox: Option<Arc<Outbox>> },
}

impl Command {
    fn kind(&self) -> CommitKind {
        match self {
            Command::Deltas(_) | Command::Follow => CommitKind::Deltas,
            Command::Work { kind, .. } => *kind,
        }
    }

    fn is_work(&self) -> bool {
        matches!(self, Command::Work { .. })
    }

    fn outbox(&self) -> Option<&Outbox> {
        match self {
            Command::Follow => None,
            Command::Deltas(announcement) => Some(&announcement.outbox),
            Command::Work { outbox, .. } => outbox.as_deref(),
        }
    }
}

/// A notice of a run to the writer that it has deltas. If the writer never reads the deltas, the run must send it
/// again.
struct Announcement {
    outbox: Arc<Outbox>,
    seen: bool,
}

impl Announcement {
    /// Returns the announcement to be made once more, after a commit that has failed. None if the run has sent another
    /// one since.
    fn renew(mut self) -> Option<Self> {
        let is_needed = !self.seen || self.outbox.must_announce();
        self.seen = !is_needed;
        is_needed.then_some(self)
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if !self.seen {
            self.outbox.not_announced();
        }
    }
}

/// A piece of work inside a batch: all of it happens, or nothing of it does.
trait Work: Send {
    /// Does it. False means that its changes must be undone.
    fn run(&mut self, batch: &mut Batch<'_>) -> bool;
    /// Why it could not be done, when that ends the whole batch.
    fn failure(&mut self) -> Error;
    /// Answers the caller, once the batch is committed or lost.
    fn answer_caller(self: Box<Self>, committed: Result<(), Error>);
}

struct BatchedWork<F, R> {
    work: Option<F>,
    result: Option<Result<R, Error>>,
    reply: oneshot::Sender<Result<R, Error>>,
}

impl<F, R> Work for BatchedWork<F, R>
where
    F: FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send,
    R: Send,
{
    fn run(&mut self, batch: &mut Batch<'_>) -> bool {
        let work = self.work.take();
        self.result = work.map(|work| {
            let done = work(batch);
            batch.conn().settle_after(done)
        });
        matches!(self.result, Some(Ok(_)))
    }

    fn failure(&mut self) -> Error {
        match self.result.take() {
            Some(Err(error)) => error,
            Some(Ok(_)) | None => Error::Aborted,
        }
    }

    fn answer_caller(self: Box<Self>, committed: Result<(), Error>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(Error::Aborted),
            (Err(error), _) => Err(error),
        };
        // The caller may have gone away; the work is done all the same.
        drop(self.reply.send(result));
    }
}

impl Writer {
    pub(crate) fn start(
        parts: WriterParts,
        clock: Arc<dyn Clock>,
        publish: Arc<dyn Publish>,
    ) -> Result<Self, Error> {
        let (queue, commands) = sync_channel(MAX_QUEUED);
        let mut committer = Committer::new(parts, clock, publish);
        let (living, alive) = watch::channel(());
        let wal_restart = committer.upkeep.wal_restart();
        let database = OpenDatabase::new();
        let spawned = thread::Builder::new()
            .name("rondo-writer".into())
            .spawn(move || {
                committer.serve(&commands);
                drop(living);
                drop(committer);
                drop(database);
            })
            .map_err(Error::Folder)?;
        let pause = Arc::new(WriterPause(spawned.thread().clone()));
        Ok(Self { queue, pause, alive, wal_restart })
    }

    /// Whether the write-ahead log is to be started anew.
    pub(super) fn wal_restart(&self) -> Arc<WalRestart> {
        Arc::clone(&self.wal_restart)
    }

    /// Whether anything can still be written.
    pub(super) fn is_open(&self) -> bool {
        self.alive.has_changed().is_ok()
    }

    /// Returns once nothing more can be written.
    pub(super) async fn writing_ended(&self) {
        let mut alive = self.alive.clone();
        while alive.changed().await.is_ok() {}
    }

    /// Runs `work` on the rows of a user inside the next batch, and waits until it is on the disk.
    pub(super) async fn write_for<R: Send + 'static>(
        &self,
        rows: RowsOf,
        work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.write_with(rows, CommitKind::Promise, None, work).await
    }

    /// Runs `work` of the server's own inside the next batch, and waits until it is on the disk.
    pub(super) async fn write<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.write_with(RowsOf::ALL, CommitKind::Promise, None, work).await
    }

    /// Runs `work` as a part of something that a later write promises: with that one, it is on the disk.
    pub(super) async fn write_ahead<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.write_with(RowsOf::ALL, CommitKind::Ahead, None, work).await
    }

    async fn write_with<R: Send + 'static>(
        &self,
        rows: RowsOf,
        kind: CommitKind,
        outbox: Option<Arc<Outbox>>,
        work: impl FnOnce(&mut Batch<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(BatchedWork { work: Some(work), result: None, reply });
        self.send(Command::Work { work, rows, kind, outbox })?;
        self.pause.end();
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Has the writer take in what other nodes have committed.
    pub(crate) fn follow(&self, seat: &NodeSeat) {
        if seat.asks_follow() {
            if self.send(Command::Follow).is_err() {
                seat.note_follow(); // the commands that wait take it in
            }
            self.pause.end();
        }
    }

    fn send(&self, command: Command) -> Result<(), Error> {
        self.queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Disconnected(_) => Error::Closed,
        })
    }
}

/// The parts that the writer thread owns: when it ends, and not before, another process may have the database.
pub(crate) struct WriterParts {
    pub(crate) conn: SqlConnection,
    pub(crate) upkeep: Box<dyn Upkeep>,
    pub(crate) delta_pause: Duration,
    pub(crate) boundary: Option<Arc<dyn Boundary>>,
    pub(crate) webhooks: Arc<WebhookWatch>,
    pub(crate) log: DeltaLog,
    /// With other nodes: how far this one has taken in what they have committed.
    pub(crate) nodes: Option<NodeLog>,
}

struct Committer {
    conn: SqlConnection,
    clock: Arc<dyn Clock>,
    deliveries: CommitDeliveries,
    seqs: Seqs,
    log: DeltaLog,
    delta_pause: Duration,
    boundary: Option<Arc<dyn Boundary>>,
    webhooks: Arc<WebhookWatch>,
    nodes: Option<NodeLog>,
    /// Whether the last commit failed because the disk was full or the database was away.
    is_waiting: bool,
    /// The connection on which the last transaction was begun.
    connection: u64,
    /// Last, so that the database is free only when it is closed.
    upkeep: Box<dyn Upkeep>,
}

impl Committer {
    fn new(parts: WriterParts, clock: Arc<dyn Clock>, publish: Arc<dyn Publish>) -> Self {
        let WriterParts { conn, upkeep, delta_pause, boundary, webhooks, log, nodes } = parts;
        let (seqs, connection) = (Seqs::default(), upkeep.connection());
        Self {
            conn,
            clock,
            deliveries: CommitDeliveries::start(publish),
            seqs,
            log,
            delta_pause,
            boundary,
            webhooks,
            nodes,
            is_waiting: false,
            connection,
            upkeep,
        }
    }

    fn serve(&mut self, commands: &Receiver<Command>) {
        let (mut waiting, mut due) = (Vec::with_capacity(MAX_BATCH), CommitDue::default());
        // Deltas whose commit has failed. Others are not committed with them, because theirs may succeed.
        let (mut again, mut retry) = (Vec::new(), Instant::now());
        while let Ok(first) = self.next_command(commands, (!again.is_empty()).then_some(retry)) {
            if let Some(Command::Follow) = first {
                self.follow();
                // A node that was taken for dead becomes a new one with its next transaction.
                if self.is_removed() && !self.commit(&mut waiting) {
                    return;
                }
                continue;
            }
            match first {
                Some(first) => {
                    waiting.push(first);
                    due.gather(commands, &mut waiting);
                }
                None => waiting.extend(again.drain(..again.len().min(MAX_BATCH))),
            }
            let works = waiting.iter().filter(|command| command.is_work()).count();
            let has_deltas = waiting.iter().any(|command| matches!(command, Command::Deltas(_)));
            if !self.commit(&mut waiting) {
                return;
            }
            due.note_commit(works, has_deltas, self.delta_pause);
            retry = Instant::now() + if waiting.is_empty() { Duration::ZERO } else { RETRY_PAUSE };
            again.append(&mut waiting);
            if !self.upkeep.after_commit(&self.conn) {
                tracing::error!(
                    "the store no longer writes, because the disk failed; repair the disk and restart the \
                     server"
                );
                return;
            }
        }
        self.upkeep.close(&self.conn);
    }

    /// The next command. None when deltas are due again whose commit has failed, or after a while without any command,
    /// when the delta log may have a table to be emptied.
    fn next_command(
        &self,
        commands: &Receiver<Command>,
        due: Option<Instant>,
    ) -> Result<Option<Command>, RecvError> {
        let patience = match due.map(|due| due.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => return Ok(None),
            Some(left) => left,
            None if self.log.is_empty() => return commands.recv().map(Some),
            None => Duration::from_millis(TABLE_LIFE.unsigned_abs()),
        };
        match commands.recv_timeout(patience) {
            Ok(command) => Ok(Some(command)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(RecvError),
        }
    }

    /// Commits the commands together, and hands over what they recorded and their answers to be delivered. Deltas are left
    /// if they are to be tried again. False if all ends here.
    fn commit(&mut self, commands: &mut Vec<Command>) -> bool {
        if !self.pass_boundary(Moment::BeforeCommit) {
            return false;
        }
        let committed = self.transact(commands);
        if !self.pass_boundary(Moment::AfterCommit) {
            return false;
        }
        if let Err(error) = &committed {
            // Each attempt would say the same while the disk is full or the database is away.
            if !(error.lasts() && self.is_waiting) {
                tracing::error!(%error, "a batch of writes was not committed");
            }
            self.seqs.forget();
        }
        self.is_waiting = committed.as_ref().is_err_and(Error::lasts);
        let is_broken = committed.as_ref().is_err_and(Error::is_broken);
        if matches!(committed, Err(Error::Rewound)) {
            tracing::error!(
                "the store no longer writes, because the database has lost confirmed commits; check what is \
                 missing, then restart the server"
            );
        } else if is_broken {
            tracing::error!(
                "the store no longer writes, because the disk failed; repair the disk and restart the server"
            );
        }
        let may_pass = !is_broken && committed.as_ref().is_err_and(Error::may_pass);
        let works = settle(commands, committed.is_ok(), may_pass);
        self.deliveries.send(CommitDelivery::Commands { committed, works });
        !is_broken
    }

    /// Takes in what other nodes have committed before this turn.
    fn catch_up(&mut self, turn: Option<NodeTurn>) -> Result<(), Error> {
        let Some(NodeTurn { node, number }) = turn else { return Ok(()) };
        self.upkeep.seat().iter().for_each(|seat| seat.note_follow());
        self.take_in(node, Some(number - 1))
    }

    /// Takes in what other nodes have committed. While the connection is lost, the next transaction does.
    fn follow(&mut self) {
        let Some(seat) = self.upkeep.seat() else { return };
        seat.note_follow();
        if !self.conn.is_usable() {
            return;
        }
        self.conn.see_rows_of(&RowsOf::ALL).and_then(|()| self.take_in(seat.number(), None)).unwrap_or_else(
            |error| {
                tracing::debug!(%error, "commits of other nodes were not read; it will be tried again");
            },
        );
    }

    fn is_removed(&mut self) -> bool {
        let (Some(nodes), Some(seat)) = (&mut self.nodes, self.upkeep.seat()) else { return false };
        nodes.is_removed(&seat)
    }

    fn take_in(&mut self, node: i64, until: Option<i64>) -> Result<(), Error> {
        let Some(nodes) = &mut self.nodes else { return Ok(()) };
        let at = self.clock.now().as_millisecond();
        let mut known = NodeKnowledge { log: &mut self.log, seqs: &mut self.seqs, at };
        if let Some(foreign) =
            nodes.catch_up(&self.conn, &mut known, (node, until), self.deliveries.publisher())?
        {
            self.deliveries.send(CommitDelivery::Foreign(foreign));
        }
        Ok(())
    }

    fn pass_boundary(&self, moment: Moment) -> bool {
        self.boundary.as_ref().is_none_or(|boundary| boundary.pass(moment))
    }

    fn transact(&mut self, commands: &mut [Command]) -> Result<CommittedBatch, Error> {
        let kind = commands.iter().map(Command::kind).max().unwrap_or(CommitKind::Deltas);
        let is_due = self.log.is_table_done(self.clock.now().as_millisecond());
        // This process has no copy of what is packed, so the database must not lose it.
        let kind = if is_due { kind.max(CommitKind::Ahead) } else { kind };
        let removed = self.nodes.as_mut().is_some_and(NodeLog::take_removed);
        if removed {
            self.upkeep.is_removed();
        }
        self.upkeep.begin(&mut self.conn, kind)?;
        if self.connection != self.upkeep.connection() {
            self.connection = self.upkeep.connection();
            self.seqs.forget();
            self.log.open.forget_owners();
        }
        let turn = self.upkeep.turn();
        let caught_up = self.catch_up(turn);
        let is_due = self.log.is_table_done(self.clock.now().as_millisecond());
        let packing = match (self.upkeep.may_have_lost(), is_due) {
            (true, _) => DuePacking::All,
            (false, true) => DuePacking::Older,
            (false, false) => DuePacking::None,
        };
        let watched = self.webhooks.now();
        let recorded = caught_up
            .and_then(|()| {
                Batch::begin(&self.conn, self.clock.now(), &mut self.seqs, (&self.log, packing), turn)
            })
            .and_then(|mut batch| {
                commands.iter_mut().try_for_each(|command| perform(&mut batch, command))?;
                self.conn.see_rows_of(&RowsOf::ALL)?;
                batch.finish(watched.as_deref())
            });
        let recorded = recorded.map_err(|error| self.upkeep.explain(&self.conn, error));
        let recorded = recorded.and_then(|finished| match &self.boundary {
            Some(boundary) if boundary.is_full(&finished.recorded) => Err(Error::Full),
            Some(_) | None => Ok(finished),
        });
        let ended = self.upkeep.end(&mut self.conn, recorded.is_ok());
        let FinishedBatch { recorded, notices, deltas, at, adds_work } =
            recorded.and_then(|finished| ended.map(|()| finished))?;
        deltas.apply(&mut self.log, at);
        if let (Some(nodes), Some(turn)) = (&mut self.nodes, turn) {
            nodes.note_commit(turn.number);
        }
        self.upkeep.bound_loss(kind, recorded.len())?;
        Ok(CommittedBatch { recorded, notices, adds_work })
    }
}

/// Tells the runs what became of their deltas. If the commit has failed for a reason that may pass, deltas are left, to
/// be tried again. Gives the works whose callers wait for an answer.
fn settle(commands: &mut Vec<Command>, is_committed: bool, may_pass: bool) -> Vec<Box<dyn Work>> {
    let (mut again, mut works) = (Vec::new(), Vec::new());
    for command in commands.drain(..) {
        match command.outbox() {
            Some(outbox) if is_committed => outbox.commit_succeeded(),
            Some(outbox) if may_pass => outbox.give_back(0),
            Some(outbox) => outbox.commit_lost(),
            None => {}
        }
        match command {
            Command::Deltas(announcement) if may_pass => {
                again.extend(announcement.renew().map(Command::Deltas));
            }
            Command::Work { work, .. } => works.push(work),
            Command::Deltas(_) | Command::Follow => {}
        }
    }
    commands.append(&mut again);
    works
}

/// Does what a command asks for. A full or failing disk can end the whole transaction in the midst of it.
fn perform(batch: &mut Batch<'_>, command: &mut Command) -> Result<(), Error> {
    match command {
        Command::Follow => Ok(()), // the transaction has begun with that
        Command::Deltas(announcement) => {
            announcement.seen = true;
            batch.conn().see_rows_of(&RowsOf::ALL)?;
            batch.deltas(&announcement.outbox)
        }
        Command::Work { work, rows, outbox, .. } => {
            batch.conn().see_rows_of(rows)?;
            let (held, mut is_done) = (outbox.as_ref().map_or(0, |outbox| outbox.count_held()), false);
            let ended = batch.atomically(|batch| {
                is_done = work.run(batch);
                is_done
            });
            // Its deltas are undone with it.
            outbox.iter().filter(|_| !is_done).for_each(|outbox| outbox.give_back(held));
            if batch.conn().is_in_transaction() { ended } else { Err(work.failure()) }
        }
    }
}

#[cfg(test)]
mod tests;
