//! Rows for removing things for good: traces of purged words, and purges of memories.

use jiff::Timestamp;
use protocol::ActionId;

/// Actions that are erased with one memory.
pub const MAX_ACTIONS_PER_PURGE: usize = 1_000;

/// A trace of words that were purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgedWords {
    pub shadow: Vec<u8>,
    pub at: Timestamp,
}

/// A purge of a memory: traces that stay, and actions that are erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryPurge {
    /// Traces of its words.
    pub shadows: Vec<PurgedWords>,
    /// Actions that tell of it, at most [`MAX_ACTIONS_PER_PURGE`].
    pub actions: Vec<ActionId>,
}
