//! The place of a message on its path: how many come before it, and one far before it to leap to.
//!
//! A message leaps to its parent, or, where its parent's leap and the one after that are of the same length, over both
//! of them. So from any message every earlier one of its path is reached in a number of steps that grows with the
//! logarithm of the distance, however the thread branches, and a page costs the same at any place of any path.

use crate::sql::{SqlConnection, params};
use protocol::{MessageId, Seq, ThreadId};
use uuid::Uuid;

use super::read::{count, find_all, find_first, id, maybe_id, sql};
use crate::Error;

/// Messages of an older database that are placed in one transaction.
const MAX_PLACED: usize = 5_000;

/// A place on a path. The first message has depth 1 and leaps to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathPlace {
    pub(super) depth: u64,
    pub(super) leap: MessageId,
}

/// The place of a message with this parent. None if the parent has none itself.
pub(super) fn place_below(
    conn: &SqlConnection,
    thread: ThreadId,
    message: MessageId,
    parent: Option<MessageId>,
) -> Result<Option<PathPlace>, Error> {
    let Some(parent) = parent else { return Ok(Some(PathPlace { depth: 1, leap: message })) };
    let statement = "SELECT p.depth, one.depth, two.depth, two.id FROM messages p
            CROSS JOIN messages one ON one.id = p.leap CROSS JOIN messages two ON two.id = one.leap
            WHERE p.thread = ?1 AND p.id = ?2 AND p.depth IS NOT NULL
                AND one.depth IS NOT NULL AND two.depth IS NOT NULL";
    find_first(conn, statement, params![thread.bytes(), parent.bytes()], |row| {
        let (above, one, two) = (count(row, 0)?, count(row, 1)?, count(row, 2)?);
        let are_alike = above.checked_sub(one) == one.checked_sub(two);
        let leap = if are_alike { id(row, 3)? } else { parent };
        Ok(PathPlace { depth: above.saturating_add(1), leap })
    })
}

/// Places the messages of a database that is older than places, each after its parent, a bounded number at a time. A
/// message that has no parent that can be placed stays without, and its path is walked.
pub(crate) fn fill_in(conn: &SqlConnection) -> Result<(), Error> {
    let mut last = (ThreadId::new(Uuid::nil()), 0);
    while let Some(next) = conn.transaction(|conn| fill_in_some(conn, last))? {
        last = next;
    }
    Ok(())
}

/// Places some messages. Gives the last, if there was one.
fn fill_in_some(conn: &SqlConnection, last: (ThreadId, Seq)) -> Result<Option<(ThreadId, Seq)>, Error> {
    let next = unplaced_messages(conn, last)?;
    for Unplaced { thread, message, parent, .. } in &next {
        if let Some(PathPlace { depth, leap }) = place_below(conn, *thread, *message, *parent)? {
            let statement = "UPDATE messages SET depth = ?2, leap = ?3 WHERE id = ?1";
            conn.execute(statement, params![message.bytes(), sql(depth), leap.bytes()])?;
        }
    }
    Ok(next.last().map(|message| (message.thread, message.seq)))
}

struct Unplaced {
    thread: ThreadId,
    message: MessageId,
    parent: Option<MessageId>,
    seq: Seq,
}

/// The next messages without a place. Parents come before their children: they were said earlier.
fn unplaced_messages(conn: &SqlConnection, (thread, seq): (ThreadId, Seq)) -> Result<Vec<Unplaced>, Error> {
    let statement = "SELECT thread, id, parent, seq FROM messages INDEXED BY messages_unplaced
            WHERE depth IS NULL AND (thread, seq) > (?1, ?2) ORDER BY thread, seq LIMIT ?3";
    find_all(conn, statement, params![thread.bytes(), sql(seq), MAX_PLACED as i64], |row| {
        let (thread, message, parent) = (id(row, 0)?, id(row, 1)?, maybe_id(row, 2)?);
        Ok(Unplaced { thread, message, parent, seq: count(row, 3)? })
    })
}

/// A message on the way.
#[derive(Clone, Copy)]
struct Waypoint {
    id: MessageId,
    parent: Option<MessageId>,
    seq: Seq,
    place: PathPlace,
}

/// The first `limit` messages after a number in the log, along the path that ends in `leaf`, oldest first. None if a
/// place on the way is missing or wrong.
pub(super) fn messages_after(
    conn: &SqlConnection,
    (thread, leaf): (ThreadId, MessageId),
    after: Seq,
    limit: usize,
) -> Result<Option<Vec<MessageId>>, Error> {
    let way = Way { conn, thread };
    let Some(leaf) = way.waypoint(leaf)? else { return Ok(None) };
    if leaf.seq <= after {
        return Ok(Some(Vec::new()));
    }
    let Some(first) = way.walk_back_while(leaf, |stop| stop.seq > after)? else { return Ok(None) };
    let deepest = first.place.depth.saturating_add(limit as u64).saturating_sub(1);
    let Some(mut stop) = way.walk_back_while(leaf, |stop| stop.place.depth >= deepest)? else {
        return Ok(None);
    };
    let mut found = vec![stop.id];
    while stop.id != first.id {
        let parent = stop.parent.map(|parent| way.waypoint_before(stop, parent)).transpose()?.flatten();
        match parent {
            Some(parent) if parent.place.depth + 1 == stop.place.depth => stop = parent,
            Some(_) | None => return Ok(None),
        }
        found.push(stop.id);
    }
    found.reverse();
    Ok(Some(found))
}

/// The messages of a thread, as one goes back along them.
struct Way<'c> {
    conn: &'c SqlConnection,
    thread: ThreadId,
}

impl Way<'_> {
    fn waypoint(&self, message: MessageId) -> Result<Option<Waypoint>, Error> {
        let statement = "SELECT id, parent, seq, depth, leap FROM messages
                WHERE thread = ?1 AND id = ?2 AND depth IS NOT NULL AND leap IS NOT NULL";
        find_first(self.conn, statement, params![self.thread.bytes(), message.bytes()], |row| {
            let place = PathPlace { depth: count(row, 3)?, leap: id(row, 4)? };
            Ok(Waypoint { id: id(row, 0)?, parent: maybe_id(row, 1)?, seq: count(row, 2)?, place })
        })
    }

    /// Returns the place of a message that must come before another. Depth only shrinks, so every way back ends.
    fn waypoint_before(&self, stop: Waypoint, message: MessageId) -> Result<Option<Waypoint>, Error> {
        Ok(self
            .waypoint(message)?
            .filter(|earlier| earlier.place.depth < stop.place.depth && earlier.seq < stop.seq))
    }

    /// Goes back while `holds`, and gives the last one for which it does: it holds up to some message of the path, and for
    /// none before that. Gives `from` itself if it holds for no other.
    fn walk_back_while(
        &self,
        from: Waypoint,
        holds: impl Fn(&Waypoint) -> bool,
    ) -> Result<Option<Waypoint>, Error> {
        let mut stop = from;
        while let Some(parent) = stop.parent {
            let Some(leap) = self.waypoint_before(stop, stop.place.leap)? else { return Ok(None) };
            if holds(&leap) {
                stop = leap;
                continue;
            }
            let Some(parent) = self.waypoint_before(stop, parent)? else { return Ok(None) };
            if !holds(&parent) {
                break;
            }
            stop = parent;
        }
        Ok(Some(stop))
    }
}
