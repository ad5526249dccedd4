//! The commits of other nodes, as this one takes them in. Commits of all nodes have numbers without gaps, because a node
//! commits only in its turn. Each has a row in the delta log. Before a node commits, it takes in all rows before its own,
//! so what it knows of deltas, numbers and owners is as if it had committed them itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use protocol::{Seq, Stored, ThreadId};

use super::SqlConnection;
use super::append::{Batch, Seqs};
use super::commit_news::CommitNews;
use super::deltas::{DeltaChanges, DeltaLog, DeltaRange};
use super::read::{count, find_all, find_first, find_only, has_any, id};
use super::runs::ACTIVE_RUN;
use crate::database::params;
use crate::{Error, HeldByUsers, NewestNotice, NodeNews, Publish};

/// A node that may be dead, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SilentNode {
    pub(crate) number: i64,
    pub(crate) lease_until: i64,
}

/// The state that the threads of one node share.
#[derive(Debug, Default)]
pub(crate) struct NodeSeat {
    /// Names the key of its vault.
    vault: String,
    /// The number of this node. It is another one after the others took it for dead.
    number: AtomicI64,
    /// The number under which the database does not know this node any more.
    missing: AtomicI64,
    /// The things that users hold open here and elsewhere.
    pub(crate) held: Arc<HeldByUsers>,
    /// Whether there is a commit that the other nodes were not told of.
    has_news: AtomicBool,
    /// Wakes the task that tells the other nodes.
    pub(crate) telling: tokio::sync::Notify,
    /// Whether the writer was asked to take in what others have committed, and has not come to it.
    is_follow_asked: AtomicBool,
    /// Nodes whose work is to be taken over. Locked for a look.
    silent: Mutex<Vec<SilentNode>>,
}

impl NodeSeat {
    pub(crate) fn new(vault: String) -> Self {
        Self { vault, ..Self::default() }
    }

    pub(crate) fn vault(&self) -> &str {
        &self.vault
    }

    pub(crate) fn number(&self) -> i64 {
        self.number.load(Ordering::Acquire)
    }

    pub(crate) fn set_number(&self, number: i64) {
        self.number.store(number, Ordering::Release);
    }

    /// The database does not know a node of this number.
    pub(crate) fn note_missing(&self, number: i64) {
        self.missing.store(number, Ordering::Release);
    }

    /// Whether the database does not know this node any more.
    fn is_missing(&self) -> bool {
        self.missing.load(Ordering::Acquire) == self.number()
    }

    /// There is something to tell the others.
    pub(crate) fn tell(&self) {
        if !self.has_news.swap(true, Ordering::AcqRel) {
            self.telling.notify_one();
        }
    }

    /// Whether the others are to be told.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::AcqRel)
    }

    /// Whether the writer is to be asked to take in what others have committed.
    pub(super) fn asks_follow(&self) -> bool {
        !self.is_follow_asked.swap(true, Ordering::AcqRel)
    }

    /// The writer takes it in now.
    pub(super) fn note_follow(&self) {
        self.is_follow_asked.store(false, Ordering::Release);
    }

    pub(crate) fn set_silent(&self, nodes: Vec<SilentNode>) {
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    pub(crate) fn take_silent(&self) -> Vec<SilentNode> {
        std::mem::take(&mut *self.silent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One row of the delta log, of one commit.
struct CommitRow {
    number: i64,
    body: Vec<u8>,
    news: Option<CommitNews>,
}

/// The events and news that the commits of other nodes leave to be published.
#[derive(Default)]
pub(super) struct ForeignCommits {
    /// In the order of the commits.
    parts: Vec<ForeignPart>,
    notices: Vec<NewestNotice>,
    news: NodeNews,
    has_gap: bool,
}

enum ForeignPart {
    Newest(Vec<(ThreadId, Seq)>),
    Deltas(Vec<DeltaRange>),
}

impl ForeignCommits {
    pub(super) fn publish(self, to: &dyn Publish) {
        for part in self.parts {
            match part {
                ForeignPart::Newest(newest) => to.publish_newest(&newest),
                ForeignPart::Deltas(ranges) => {
                    let followed = ranges.iter().filter(|range| to.is_followed(range.thread));
                    let events: Vec<Arc<Stored>> =
                        followed.flat_map(DeltaRange::events).map(Arc::new).collect();
                    to.publish(&events);
                }
            }
        }
        if self.has_gap {
            to.publish_notice_gap();
        }
        if !self.notices.is_empty() {
            to.publish_notices(&self.notices);
        }
        if !self.news.is_empty() {
            to.publish_news(self.news);
        }
    }
}

/// The writer's knowledge of the database, which commits of other nodes change.
pub(super) struct NodeKnowledge<'w> {
    pub(super) log: &'w mut DeltaLog,
    pub(super) seqs: &'w mut Seqs,
    pub(super) at: i64,
}

/// How far this node has taken in what was committed.
#[derive(Debug, Default)]
pub(crate) struct NodeLog {
    /// The number of the last commit that is taken in.
    applied: i64,
    /// Whether the others took this node for dead since this was asked last.
    is_removed: bool,
}

impl NodeLog {
    /// A commit of this node.
    pub(super) fn note_commit(&mut self, number: i64) {
        self.applied = number;
    }

    /// Whether the others took this node for dead.
    pub(super) fn is_removed(&mut self, seat: &NodeSeat) -> bool {
        self.is_removed |= seat.is_missing();
        self.is_removed
    }

    pub(super) fn take_removed(&mut self) -> bool {
        std::mem::take(&mut self.is_removed)
    }

    /// Takes in all commits after the last one, up to one in particular if that is known. None if there is nothing new.
    pub(super) fn catch_up(
        &mut self,
        conn: &SqlConnection,
        known: &mut NodeKnowledge<'_>,
        (node, until): (i64, Option<i64>),
        publish: &dyn Publish,
    ) -> Result<Option<ForeignCommits>, Error> {
        if until.is_some_and(|until| until < self.applied) {
            return Err(Error::Rewound);
        }
        if until == Some(self.applied) {
            return Ok(None);
        }
        let rows = rows_after(conn, self.applied)?;
        let is_whole = rows.iter().zip(self.applied + 1..).all(|(row, number)| row.number == number)
            && until.is_none_or(|until| rows.last().is_some_and(|row| row.number == until));
        if !is_whole {
            let foreign = self.read_anew(conn, known, publish)?;
            let statement = "SELECT 1 FROM nodes WHERE number = ?1";
            self.is_removed |= !has_any(conn, statement, [node])?;
            return Ok(Some(foreign));
        }
        let mut foreign = ForeignCommits::default();
        for row in &rows {
            self.apply(row, known, node, &mut foreign);
        }
        Ok((!rows.is_empty()).then_some(foreign))
    }

    /// Forgets what is known, and takes it from the tables: some of the rows in between are gone.
    pub(super) fn read_anew(
        &mut self,
        conn: &SqlConnection,
        known: &mut NodeKnowledge<'_>,
        publish: &dyn Publish,
    ) -> Result<ForeignCommits, Error> {
        let rows = rows_after(conn, 0)?;
        let first = rows.iter().find_map(|row| row.news.as_ref()).map_or(1, |news| news.turn);
        known.log.begin_anew(first);
        known.seqs.forget();
        let mut left_out = ForeignCommits::default();
        for row in &rows {
            self.apply(row, known, 0, &mut left_out);
        }
        known.seqs.forget();
        known.log.open.forget_owners();
        let mut newest = Vec::new();
        for thread in publish.followed_threads() {
            let statement = "SELECT next_seq - 1 FROM threads WHERE id = ?1";
            let stored: Option<i64> = find_first(conn, statement, [thread.bytes()], |row| row.get(0))?;
            let stored = stored.and_then(|stored| u64::try_from(stored).ok()).unwrap_or(0);
            newest.push((thread, known.log.open.last_of(thread).unwrap_or(0).max(stored)));
        }
        let parts = vec![ForeignPart::Newest(newest)];
        Ok(ForeignCommits { parts, notices: vec![], news: NodeNews::of_gap(), has_gap: true })
    }

    /// Begins at the end of what is committed. No other node commits meanwhile.
    pub(crate) fn begin(conn: &SqlConnection, log: &mut DeltaLog, at: i64) -> Result<Self, Error> {
        let mut begun = Self::default();
        begun.read_anew(conn, &mut NodeKnowledge { log, seqs: &mut Seqs::default(), at }, &NoReaders)?;
        let statement = "SELECT number FROM commits WHERE writer = 0";
        begun.applied = find_only(conn, statement, [], |row| row.get(0))?;
        begun.is_removed = false;
        Ok(begun)
    }

    fn apply(
        &mut self,
        row: &CommitRow,
        known: &mut NodeKnowledge<'_>,
        node: i64,
        foreign: &mut ForeignCommits,
    ) {
        let news = row.news.clone().unwrap_or_default();
        let NodeKnowledge { log, seqs, at } = known;
        let changes = DeltaChanges::of_other_node(log, &row.body, &news);
        for (thread, next) in &news.moved {
            seqs.set(*thread, *next);
        }
        for range in changes.additions() {
            seqs.set(range.thread, range.last + 1);
        }
        let added = changes.additions().to_vec();
        changes.apply(log, *at);
        self.applied = row.number;
        self.is_removed |= news.removed.iter().any(|removed| *removed == node.unsigned_abs());
        foreign.news.add(news.for_node());
        foreign.notices.extend(news.notices);
        foreign.parts.push(ForeignPart::Newest(
            news.moved.iter().map(|(thread, next)| (*thread, next.saturating_sub(1))).collect(),
        ));
        foreign.parts.push(ForeignPart::Deltas(added));
    }
}

/// Threads with a run of this node that was told to stop.
pub(super) fn told_to_stop(conn: &SqlConnection, node: i64) -> Result<Vec<ThreadId>, Error> {
    let statement = format!("SELECT thread FROM runs WHERE {ACTIVE_RUN} AND owner = ?1 AND stop IS NOT NULL");
    find_all(conn, &statement, [node], |row| id(row, 0))
}

/// The runs of a node that are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeftRuns {
    node: i64,
    runs: u64,
    /// The node was taken for dead. Otherwise it has said that it leaves.
    is_dead: bool,
}

impl LeftRuns {
    /// Tells the operator, once the runs are taken over.
    pub(super) fn tell(self) {
        let Self { node, runs, is_dead } = self;
        if is_dead {
            tracing::warn!(node, runs, "took over the runs of a node that is gone");
        } else {
            tracing::info!(node, runs, "took over the runs of a node that has stopped");
        }
    }
}

/// Removes nodes that have not renewed their leases since the keeper looked. Gives the runs that these and other nodes
/// have left.
pub(super) fn remove_nodes(batch: &Batch<'_>, dead: &[SilentNode]) -> Result<Vec<LeftRuns>, Error> {
    if batch.node().is_none() {
        return Ok(Vec::new());
    }
    let mut left = Vec::new();
    let statement = "DELETE FROM nodes WHERE number = ?1 AND lease_until = ?2";
    for SilentNode { number, lease_until } in dead {
        if batch.count_changed(statement, [*number, *lease_until])? > 0 {
            batch.remove_node(*number);
            left.push(LeftRuns { node: *number, runs: 0, is_dead: true });
        }
    }
    let statement = format!(
        "SELECT owner, count(*) FROM runs WHERE {ACTIVE_RUN} AND owner IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.number = runs.owner) GROUP BY owner"
    );
    for (node, runs) in
        find_all(batch.conn(), &statement, [], |row| Ok((row.get::<i64>(0)?, count(row, 1)?)))?
    {
        match left.iter_mut().find(|left| left.node == node) {
            Some(left) => left.runs = runs,
            None => left.push(LeftRuns { node, runs, is_dead: false }),
        }
    }
    Ok(left)
}

/// Writes the row of a commit into a table of the delta log.
pub(super) fn insert_row(
    conn: &SqlConnection,
    is_even: bool,
    (number, body, news): (i64, &[u8], &[u8]),
) -> Result<(), Error> {
    let statement = if is_even {
        "INSERT INTO delta_log_0 (number, body, news) VALUES (?1, ?2, ?3)"
    } else {
        "INSERT INTO delta_log_1 (number, body, news) VALUES (?1, ?2, ?3)"
    };
    conn.execute(statement, params![number, body, news])
}

/// No reader follows anything yet.
struct NoReaders;

impl Publish for NoReaders {
    fn publish(&self, _: &[Arc<Stored>]) {}
}

fn rows_after(conn: &SqlConnection, after: i64) -> Result<Vec<CommitRow>, Error> {
    let statement = "SELECT number, body, news FROM delta_log_0 WHERE number > ?1
        UNION ALL SELECT number, body, news FROM delta_log_1 WHERE number > ?1 ORDER BY number";
    find_all(conn, statement, params![after], |row| {
        let news: Option<Vec<u8>> = row.get(2)?;
        let news = news.and_then(|news| CommitNews::read(&news));
        Ok(CommitRow { number: row.get(0)?, body: row.get(1)?, news })
    })
}
