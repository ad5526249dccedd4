//! Taking things away for good: what is said of deleted things, purged memories, and the space of all that.

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{ActionId, MemoryId, Principal, Scope};

use crate::{Error, Once, Tombstone};

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

#[async_trait]
pub trait Erasure: Send + Sync {
    /// The words that were forgotten with a memory.
    async fn words_of_memory(&self, principal: &Principal, id: MemoryId) -> Result<Vec<Tombstone>, Error>;
    /// Removes a forgotten memory for good, with those that it took the place of, its versions, sources and words, and
    /// with what these actions said. Shadows take the place of the words. [`Error::Changed`] unless it is forgotten.
    async fn purge_memory(
        &self,
        principal: &Principal,
        id: MemoryId,
        purge: MemoryPurge,
        once: Option<Once>,
    ) -> Result<(), Error>;
    /// Erases what these actions of a scope said, at most [`MAX_ACTIONS_PER_PURGE`].
    async fn erase_actions(&self, scope: &Scope, actions: Vec<ActionId>) -> Result<(), Error>;
    /// What is left of purged words, oldest first, at most [`crate::MAX_TOMBSTONES_PER_READ`].
    async fn shadows(&self, scope: &Scope) -> Result<Vec<PurgedWords>, Error>;
    /// How often something of the scope was erased: what is made of its records is named by it.
    async fn erasures(&self, scope: &Scope) -> Result<u64, Error>;
    /// Erases what is said of deleted things, a bounded number at a time: of those that users deleted, and of those that
    /// tools deleted at `undo_before` or earlier. True when more is left.
    async fn erase(&self, undo_before: Timestamp) -> Result<bool, Error>;
    /// Gives some free pages back to the file system, and starts the write-ahead log afresh if anything was removed since
    /// the last time. True when more is left.
    async fn tidy(&self) -> Result<bool, Error>;
    /// Whether the log could not be started afresh the last time, because somebody read an old moment.
    fn is_untidy(&self) -> bool;
}
