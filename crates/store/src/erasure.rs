//! Taking things away for good: what is said of deleted things, purged memories, and the space of all that.

use jiff::Timestamp;
use protocol::ActionId;

/// Actions that are erased with one memory.
pub const MAX_ACTIONS_PER_PURGE: usize = 1_000;

/// What is left of words that were purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgedWords {
    pub shadow: Vec<u8>,
    pub at: Timestamp,
}

/// What goes and what stays when a memory is purged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryPurge {
    /// What is left of its words.
    pub shadows: Vec<PurgedWords>,
    /// Actions that tell of it, at most [`MAX_ACTIONS_PER_PURGE`].
    pub actions: Vec<ActionId>,
}
