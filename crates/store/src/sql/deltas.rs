//! The place of deltas between their commit and the next fact of their thread.
//!
//! A commit writes its deltas, of all threads, as one row of the delta log. While the process lives, they are also in
//! memory, where readers find them. Before the next event of a thread is recorded, its deltas become one row of
//! `packed_deltas`, and the thread's number moves on. After a crash, the next start does the same with what is in the
//! delta log.
//!
//! The delta log has two tables. One is written for half a minute, and then the other is emptied as a whole and written.
//! Deltas of steps that last longer are packed before their table is emptied.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use crate::sql::{SqlConnection, params};
use protocol::{Delta, RunId, Seq, Stored, ThreadId};
use uuid::Uuid;

use super::commit_news::CommitNews;
use super::node_log;
use super::read::{find_first, has_any, sql};
use super::upkeep::NodeTurn;
use crate::Error;
use crate::rules::packed_deltas::{
    read_bytes, read_id, read_number, repacked_deltas, unpacked_deltas, write_bytes, write_number,
};

/// How long one table of the delta log is written, in milliseconds.
pub(super) const TABLE_LIFE: i64 = 30_000;

/// Bytes of one table of the delta log after which the other one is written, however young it is.
const MAX_TABLE_BYTES: usize = 64 * 1024 * 1024;

/// Deltas of one run with the numbers from `first` to `last`, packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeltaRange {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) bytes: Vec<u8>,
    /// The ownership under which the run has written them, if the row of the run is known to name it still.
    pub(super) epoch: Option<u64>,
}

impl DeltaRange {
    /// Adds deltas that follow, if they are of the same run and have the next numbers.
    fn extend(&mut self, more: &Self) -> bool {
        let follows = self.run == more.run && self.last + 1 == more.first;
        if follows {
            self.bytes.extend_from_slice(&more.bytes);
            self.last = more.last;
            self.epoch = more.epoch;
        }
        follows
    }

    /// The events that the deltas are.
    pub(super) fn events(&self) -> impl Iterator<Item = Stored> + '_ {
        delta_events(self.thread, self.run, self.first, &self.bytes)
    }
}

/// The events of packed deltas, of which the first has this number.
pub(super) fn delta_events(
    thread: ThreadId,
    run: RunId,
    first: Seq,
    bytes: &[u8],
) -> impl Iterator<Item = Stored> + '_ {
    let mut buffer = Vec::new();
    let event = move |(seq, delta)| delta_event((thread, run, seq), &delta, &mut buffer);
    (first..).zip(unpacked_deltas(bytes)).map(event)
}

/// The event that a delta is. The buffer saves an allocation for each token.
pub(super) fn delta_event(
    (thread, run, seq): (ThreadId, RunId, Seq),
    delta: &Delta,
    buffer: &mut Vec<u8>,
) -> Stored {
    buffer.clear();
    delta.write_body(buffer);
    let body = Arc::from(std::str::from_utf8(buffer).unwrap_or("{}"));
    Stored { thread, seq, run: Some(run), kind: delta.kind().name().into(), body }
}

/// Deltas that are committed and not packed yet, by thread. Readers look here before they look into the database: what
/// leaves this place meanwhile is in the database by then.
#[derive(Debug, Default)]
pub(crate) struct OpenDeltas {
    /// Locked for a look or for what one commit changes.
    threads: RwLock<HashMap<ThreadId, OpenRange>>,
}

#[derive(Debug)]
struct OpenRange {
    range: DeltaRange,
    /// The table of the delta log in which the first of them are.
    table: Turn,
}

impl OpenDeltas {
    pub(super) fn deltas_of(&self, thread: ThreadId) -> Option<DeltaRange> {
        let threads = self.threads.read().unwrap_or_else(PoisonError::into_inner);
        threads.get(&thread).map(|open| open.range.clone())
    }

    pub(super) fn last_of(&self, thread: ThreadId) -> Option<Seq> {
        let threads = self.threads.read().unwrap_or_else(PoisonError::into_inner);
        threads.get(&thread).map(|open| open.range.last)
    }

    /// Whether the newest event of the thread is a delta of this run under this ownership. The run has not ended then:
    /// each other event of a thread packs its deltas, and so does its end.
    fn is_newest_of(&self, thread: ThreadId, run: RunId, epoch: u64) -> bool {
        let threads = self.threads.read().unwrap_or_else(PoisonError::into_inner);
        threads.get(&thread).is_some_and(|open| open.range.run == run && open.range.epoch == Some(epoch))
    }

    /// From here on the rows of runs say who owns them.
    pub(super) fn forget_owners(&self) {
        let mut threads = self.threads.write().unwrap_or_else(PoisonError::into_inner);
        threads.values_mut().for_each(|open| open.range.epoch = None);
    }

    /// The last number of each thread that has such deltas.
    pub(super) fn last_seqs(&self) -> HashMap<ThreadId, Seq> {
        let threads = self.threads.read().unwrap_or_else(PoisonError::into_inner);
        threads.iter().map(|(thread, open)| (*thread, open.range.last)).collect()
    }

    /// Threads that have deltas in tables of this turn or an earlier one.
    fn threads_up_to(&self, turn: Turn) -> Vec<ThreadId> {
        let threads = self.threads.read().unwrap_or_else(PoisonError::into_inner);
        threads.iter().filter(|(_, open)| open.table <= turn).map(|(thread, _)| *thread).collect()
    }
}

/// How often the tables of the delta log have taken turns.
type Turn = u64;

/// The delta log as its one writer knows it.
#[derive(Debug)]
pub(crate) struct DeltaLog {
    pub(super) open: Arc<OpenDeltas>,
    turn: Turn,
    /// When the turn of this table began, or the first row after that was written; none if both tables are empty.
    since: Option<i64>,
    bytes: usize,
    /// The number of the last row.
    number: i64,
    /// Threads of which something is in the table whose turn it is, and in the other one.
    threads: [HashSet<ThreadId>; 2],
}

impl DeltaLog {
    /// Forgets all, because the tables say what is so.
    pub(super) fn begin_anew(&mut self, turn: u64) {
        self.open.threads.write().unwrap_or_else(PoisonError::into_inner).clear();
        *self = Self { turn, ..Self::new(Arc::clone(&self.open)) };
    }

    pub(crate) fn new(open: Arc<OpenDeltas>) -> Self {
        Self { open, turn: 1, since: None, bytes: 0, number: 0, threads: Default::default() }
    }

    pub(super) fn has_deltas(&self, thread: ThreadId) -> bool {
        self.threads.iter().any(|threads| threads.contains(&thread))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Whether the table has had its turn.
    pub(super) fn is_table_done(&self, at: i64) -> bool {
        self.since
            .is_some_and(|since| at - since >= TABLE_LIFE || at < since || self.bytes >= MAX_TABLE_BYTES)
    }
}

/// Deltas of earlier transactions that a transaction packs, because the delta log will not have them any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DuePacking {
    None,
    /// The deltas of the older table, which is emptied.
    Older,
    /// All, because the database may have lost some of them.
    All,
}

/// The changes that one transaction makes to deltas. They become the state of the delta log once the transaction
/// is committed.
#[derive(Debug, Default)]
pub(super) struct DeltaChanges {
    added: Vec<DeltaRange>,
    /// Threads whose deltas were packed, with how many of `added` were there then.
    packed: Vec<(ThreadId, usize)>,
    /// Tables that were emptied.
    emptied: Emptied,
    /// Bytes of the row that was written.
    written: usize,
    /// Whether runs may have another owner than before.
    is_adopted: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Emptied {
    #[default]
    None,
    /// The older one, which is written from now on.
    Older,
    Both,
}

/// A point to which changes can go back.
pub(super) struct DeltaMark {
    added: usize,
    packed: usize,
    emptied: Emptied,
}

impl DeltaChanges {
    pub(super) fn mark(&self) -> DeltaMark {
        DeltaMark { added: self.added.len(), packed: self.packed.len(), emptied: self.emptied }
    }

    pub(super) fn go_back(&mut self, mark: &DeltaMark) {
        self.added.truncate(mark.added);
        self.packed.truncate(mark.packed);
        self.emptied = mark.emptied;
    }

    pub(super) fn add(&mut self, range: DeltaRange) {
        self.added.push(range);
    }

    /// Runs have another owner from here on.
    pub(super) fn forget_owners(&mut self) {
        self.is_adopted = true;
    }

    /// Whether a run continues with its deltas, so that its row need not be read to know that it still may.
    pub(super) fn continues_run(&self, log: &DeltaLog, (thread, run, epoch): (ThreadId, RunId, u64)) -> bool {
        !self.is_adopted
            && log.open.is_newest_of(thread, run, epoch)
            && self.packed.iter().all(|(packed, _)| *packed != thread)
    }

    /// Deltas of a thread that are not packed, committed ones first.
    fn unpacked_ranges(&self, log: &DeltaLog, thread: ThreadId) -> Vec<DeltaRange> {
        let packed = self.packed.iter().rev().find(|(other, _)| *other == thread);
        let committed = if packed.is_none() { log.open.deltas_of(thread) } else { None };
        let from = packed.map_or(0, |(_, added)| *added);
        let added = self.added.get(from..).unwrap_or_default();
        let mut ranges: Vec<DeltaRange> = committed.into_iter().collect();
        for range in added.iter().filter(|range| range.thread == thread) {
            if !ranges.last_mut().is_some_and(|last| last.extend(range)) {
                ranges.push(range.clone());
            }
        }
        ranges
    }

    /// Packs the deltas of a thread. Gives the last number, if there were any.
    pub(super) fn pack(
        &mut self,
        (conn, at): (&SqlConnection, i64),
        log: &DeltaLog,
        thread: ThreadId,
    ) -> Result<Option<Seq>, Error> {
        let ranges = self.unpacked_ranges(log, thread);
        for range in &ranges {
            insert_packed(conn, at, range)?;
        }
        if !ranges.is_empty() {
            self.packed.push((thread, self.added.len()));
        }
        Ok(ranges.last().map(|range| range.last))
    }

    /// Threads with deltas in the older table that are not packed.
    pub(super) fn older_open(log: &DeltaLog) -> Vec<ThreadId> {
        log.open.threads_up_to(log.turn - 1)
    }

    /// Empties the older table, which is written from now on.
    pub(super) fn empty_older(&mut self, conn: &SqlConnection, log: &DeltaLog) -> Result<(), Error> {
        empty(conn, log.turn + 1)?;
        self.emptied = Emptied::Older;
        Ok(())
    }

    /// Threads with deltas in the delta log that are not packed.
    pub(super) fn all_open(log: &DeltaLog) -> Vec<ThreadId> {
        log.open.threads_up_to(log.turn)
    }

    /// Empties both tables.
    pub(super) fn empty_both(&mut self, conn: &SqlConnection) -> Result<(), Error> {
        empty(conn, 0)?;
        empty(conn, 1)?;
        self.emptied = Emptied::Both;
        Ok(())
    }

    /// Writes what was added and is not packed into the delta log. With other nodes, each commit has a row, and its number
    /// is that of the commit.
    pub(super) fn write(
        &mut self,
        conn: &SqlConnection,
        log: &DeltaLog,
        news: Option<(NodeTurn, CommitNews)>,
    ) -> Result<(), Error> {
        let mut body = Vec::new();
        for range in self.unpacked_additions() {
            write_range(&mut body, range);
        }
        let turn = if self.emptied == Emptied::Older { log.turn + 1 } else { log.turn };
        let is_even = turn.is_multiple_of(2);
        if let Some((NodeTurn { number, .. }, told)) = news {
            let (empties_both, adopts) = (self.emptied == Emptied::Both, self.is_adopted);
            let news = CommitNews { turn, empties_both, adopts, ..told }.bytes();
            node_log::insert_row(conn, is_even, (number, &body, &news))?;
            self.written = body.len() + news.len();
        } else if !body.is_empty() {
            let statement = if is_even {
                "INSERT INTO delta_log_0 (number, body) VALUES (?1, ?2)"
            } else {
                "INSERT INTO delta_log_1 (number, body) VALUES (?1, ?2)"
            };
            conn.execute(statement, params![log.number + 1, body])?;
            self.written = body.len();
        }
        Ok(())
    }

    /// Returns the changes of a commit of another node. Its row has what it left unpacked.
    pub(super) fn of_other_node(log: &DeltaLog, body: &[u8], news: &CommitNews) -> Self {
        let mut rest = body;
        let emptied = match (news.empties_both, news.turn > log.turn) {
            (true, _) => Emptied::Both,
            (false, true) => Emptied::Older,
            (false, false) => Emptied::None,
        };
        Self {
            added: std::iter::from_fn(|| read_range(&mut rest)).collect(),
            packed: news.moved.iter().map(|(thread, _)| (*thread, 0)).collect(),
            emptied,
            written: body.len() + 1,
            is_adopted: news.adopts,
        }
    }

    /// The deltas that were added.
    pub(super) fn additions(&self) -> &[DeltaRange] {
        &self.added
    }

    /// The deltas that were added and are not packed.
    fn unpacked_additions(&self) -> impl Iterator<Item = &DeltaRange> {
        let packed: HashMap<ThreadId, usize> = self.packed.iter().copied().collect();
        let is_left = move |(at, range): &(usize, &DeltaRange)| {
            packed.get(&range.thread).is_none_or(|added| at >= added)
        };
        self.added.iter().enumerate().filter(is_left).map(|(_, range)| range)
    }

    /// Makes the changes of a committed transaction the state of the log.
    pub(super) fn apply(self, log: &mut DeltaLog, at: i64) {
        match self.emptied {
            Emptied::None => {}
            Emptied::Older => {
                log.turn += 1;
                log.threads.rotate_left(1);
                let [current, older] = &mut log.threads;
                current.clear();
                // Deltas in the other table have their turn to be emptied, even if nothing more is written.
                (log.since, log.bytes) = ((!older.is_empty()).then_some(at), 0);
            }
            Emptied::Both => {
                log.threads.iter_mut().for_each(HashSet::clear);
                (log.since, log.bytes) = (None, 0);
            }
        }
        if self.written > 0 {
            log.number += 1;
            log.bytes += self.written;
            log.since.get_or_insert(at);
        }
        if self.packed.is_empty() && self.added.is_empty() && !self.is_adopted {
            return;
        }
        let mut open = log.open.threads.write().unwrap_or_else(PoisonError::into_inner);
        for (thread, _) in &self.packed {
            open.remove(thread);
        }
        for range in self.unpacked_additions() {
            let [current, _] = &mut log.threads;
            current.insert(range.thread);
            let fresh = || OpenRange { range: range.clone(), table: log.turn };
            let is_known = open.get_mut(&range.thread).is_some_and(|known| known.range.extend(range));
            if !is_known {
                open.insert(range.thread, fresh());
            }
        }
        if self.is_adopted {
            open.values_mut().for_each(|open| open.range.epoch = None);
        }
    }
}

fn empty(conn: &SqlConnection, turn: Turn) -> Result<(), Error> {
    let statement =
        if turn.is_multiple_of(2) { "DELETE FROM delta_log_0" } else { "DELETE FROM delta_log_1" };
    conn.execute(statement, [])
}

fn insert_packed(conn: &SqlConnection, at: i64, range: &DeltaRange) -> Result<(), Error> {
    let DeltaRange { thread, run, first, last, bytes, epoch: _ } = range;
    let statement =
        "INSERT INTO packed_deltas (thread, first, last, run, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let body = repacked_deltas(bytes);
    let row = params![thread.bytes(), sql(*first), sql(*last), run.bytes(), at, body];
    conn.execute(statement, row)
}

fn write_range(into: &mut Vec<u8>, range: &DeltaRange) {
    into.extend_from_slice(range.thread.bytes());
    into.extend_from_slice(range.run.bytes());
    write_number(into, range.first);
    write_number(into, range.last);
    write_bytes(into, &range.bytes);
}

fn read_range(bytes: &mut &[u8]) -> Option<DeltaRange> {
    let thread = ThreadId::from(Uuid::from_bytes(read_id(bytes)?));
    let run = RunId::from(Uuid::from_bytes(read_id(bytes)?));
    let (first, last) = (read_number(bytes)?, read_number(bytes)?);
    Some(DeltaRange { thread, run, first, last, bytes: read_bytes(bytes)?.to_vec(), epoch: None })
}

/// Everything in the delta log, the oldest first.
pub(super) fn logged_ranges(conn: &SqlConnection) -> Result<Vec<DeltaRange>, Error> {
    let mut find = conn.prepare(
        "SELECT number, body FROM delta_log_0 UNION ALL SELECT number, body FROM delta_log_1 ORDER BY number",
    )?;
    let mut rows = find.query([])?;
    let mut ranges = Vec::new();
    while let Some(row) = &rows.next()? {
        let body: Vec<u8> = row.get(1)?;
        let mut rest = body.as_slice();
        ranges.extend(std::iter::from_fn(|| read_range(&mut rest)));
    }
    Ok(ranges)
}

/// Packs what a process that died has left in the delta log, and empties the log.
pub(crate) fn restore(conn: &SqlConnection, at: i64) -> Result<(), Error> {
    conn.transaction(|conn| {
        pack_left(conn, at)?;
        empty(conn, 0)?;
        empty(conn, 1)
    })
}

fn pack_left(conn: &SqlConnection, at: i64) -> Result<(), Error> {
    let mut left: HashMap<ThreadId, Vec<DeltaRange>> = HashMap::new();
    let mut next: HashMap<ThreadId, Option<Seq>> = HashMap::new();
    for range in logged_ranges(conn)? {
        let expected = match next.get(&range.thread) {
            Some(known) => *known,
            None => next_number(conn, range.thread)?,
        };
        // Older deltas were packed before.
        let is_next = expected == Some(range.first);
        next.insert(range.thread, if is_next { Some(range.last + 1) } else { expected });
        if is_next {
            let known = left.entry(range.thread).or_default();
            if !known.last_mut().is_some_and(|last| last.extend(&range)) {
                known.push(range);
            }
        }
    }
    for range in left.values().flatten() {
        let statement = "SELECT 1 FROM runs WHERE id = ?1 AND thread = ?2 AND ended_at IS NULL";
        if !has_any(conn, statement, params![range.run.bytes(), range.thread.bytes()])? {
            tracing::warn!(run = %range.run, "deltas of a run that has ended were left out");
            continue;
        }
        match conn.attempt(|conn| insert_packed(conn, at, range)) {
            // A damaged log does not keep the server from starting.
            Err(error) if error.is_refusal() => {
                tracing::warn!(run = %range.run, %error, "deltas that the log refuses were left out");
                continue;
            }
            inserted => inserted?,
        }
        let statement = "UPDATE threads SET next_seq = ?2 WHERE id = ?1";
        conn.execute(statement, params![range.thread.bytes(), sql(range.last + 1)])?;
    }
    Ok(())
}

fn next_number(conn: &SqlConnection, thread: ThreadId) -> Result<Option<Seq>, Error> {
    let statement = "SELECT next_seq FROM threads WHERE id = ?1";
    let next: Option<i64> = find_first(conn, statement, [thread.bytes()], |row| row.get(0))?;
    Ok(next.and_then(|next| u64::try_from(next).ok()))
}
