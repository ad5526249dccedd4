//! The meaning of a commit for the other nodes, as one row of the delta log tells it.

use protocol::{Seq, ThreadId, UserId};
use uuid::Uuid;

use crate::rules::packed_deltas::{read_bytes, read_id, read_number, write_bytes, write_number};
use crate::{NewestNotice, NodeNews};

const EMPTIES_BOTH: u64 = 1;
const ADOPTS: u64 = 2;
const ACCESS: u64 = 4;
const MCP: u64 = 8;
const WORK: u64 = 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommitNews {
    /// The turn of the table that has the row.
    pub(super) turn: u64,
    /// Whether both tables of the delta log were emptied before the row was written.
    pub(super) empties_both: bool,
    /// Whether runs have another owner.
    pub(super) adopts: bool,
    /// Whether there is a new key, or keys or sessions ended.
    pub(super) access: bool,
    /// Whether approvals of MCP tools changed.
    pub(super) mcp: bool,
    /// Whether there are new jobs.
    pub(super) work: bool,
    /// Threads whose rows have other numbers for their next events. None of them has deltas before this row any more.
    pub(super) moved: Vec<(ThreadId, Seq)>,
    /// Threads that the owner of their run has to look at.
    pub(super) touched: Vec<ThreadId>,
    /// Nodes that were taken for dead.
    pub(super) removed: Vec<u64>,
    pub(super) notices: Vec<NewestNotice>,
}

impl CommitNews {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let flags = flag(self.empties_both, EMPTIES_BOTH)
            | flag(self.adopts, ADOPTS)
            | flag(self.access, ACCESS)
            | flag(self.mcp, MCP)
            | flag(self.work, WORK);
        let mut bytes = Vec::new();
        write_number(&mut bytes, self.turn);
        write_number(&mut bytes, flags);
        write_number(&mut bytes, self.moved.len() as u64);
        for (thread, next) in &self.moved {
            bytes.extend_from_slice(thread.bytes());
            write_number(&mut bytes, *next);
        }
        write_number(&mut bytes, self.touched.len() as u64);
        for thread in &self.touched {
            bytes.extend_from_slice(thread.bytes());
        }
        write_number(&mut bytes, self.removed.len() as u64);
        for node in &self.removed {
            write_number(&mut bytes, *node);
        }
        write_number(&mut bytes, self.notices.len() as u64);
        for NewestNotice { user, number } in &self.notices {
            write_bytes(&mut bytes, user.as_str().as_bytes());
            write_number(&mut bytes, *number);
        }
        bytes
    }

    /// None if the bytes are no news. Fields that a newer version has added behind are left alone.
    pub(super) fn read(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let (turn, flags) = (read_number(bytes)?, read_number(bytes)?);
        let moved = read_list(bytes, |bytes| Some((read_thread(bytes)?, read_number(bytes)?)))?;
        let touched = read_list(bytes, read_thread)?;
        let removed = read_list(bytes, read_number)?;
        let notices = read_list(bytes, |bytes| {
            let user = UserId::new(std::str::from_utf8(read_bytes(bytes)?).ok()?);
            Some(NewestNotice { user, number: read_number(bytes)? })
        })?;
        Some(Self {
            turn,
            empties_both: flags & EMPTIES_BOTH > 0,
            adopts: flags & ADOPTS > 0,
            access: flags & ACCESS > 0,
            mcp: flags & MCP > 0,
            work: flags & WORK > 0,
            moved,
            touched,
            removed,
            notices,
        })
    }

    /// The part that the rest of the server has to know.
    pub(super) fn for_node(&self) -> NodeNews {
        NodeNews {
            threads: self.touched.clone(),
            access: self.access,
            mcp: self.mcp,
            work: self.work,
            orphans: !self.removed.is_empty(),
        }
    }
}

fn read_thread(bytes: &mut &[u8]) -> Option<ThreadId> {
    Some(ThreadId::from(Uuid::from_bytes(read_id(bytes)?)))
}

fn read_list<T>(bytes: &mut &[u8], mut read: impl FnMut(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    (0..read_number(bytes)?).map(|_| read(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_is_read_as_it_was_written() {
        let thread = |number| ThreadId::from(Uuid::from_u128(number));
        let news = CommitNews {
            turn: 300,
            empties_both: true,
            adopts: false,
            access: true,
            mcp: false,
            work: true,
            moved: vec![(thread(1), 2), (thread(3), u64::MAX)],
            touched: vec![thread(4)],
            removed: vec![5, 600],
            notices: vec![NewestNotice { user: UserId::new("zoë"), number: 7 }],
        };
        let bytes = news.bytes();
        assert_eq!(CommitNews::read(&bytes), Some(news.clone()));
        let mut longer = bytes.clone();
        longer.push(1);
        assert_eq!(CommitNews::read(&longer), Some(news), "a newer version may add something");
        assert_eq!(CommitNews::read(&bytes[..bytes.len() - 1]), None);
    }
}
