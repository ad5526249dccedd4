//! The sources of time and of ids, which a test can replace.

use jiff::Timestamp;
use uuid::Uuid;

use crate::{
    ActionId, CallId, ChunkId, DocumentId, ImageId, JobId, MemoryId, MessageId, PinId, ProposalId, RecordId,
    RunId, SummaryId, ThreadId,
};

/// The only source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The only source of new ids.
pub trait Ids: Send + Sync + 'static {
    /// A new id, which is ordered after earlier ones.
    fn fresh(&self) -> Uuid;

    fn thread(&self) -> ThreadId {
        ThreadId::new(self.fresh())
    }

    fn run(&self) -> RunId {
        RunId::new(self.fresh())
    }

    fn message(&self) -> MessageId {
        MessageId::new(self.fresh())
    }

    fn job(&self) -> JobId {
        JobId::new(self.fresh())
    }

    fn memory(&self) -> MemoryId {
        MemoryId::new(self.fresh())
    }

    fn action(&self) -> ActionId {
        ActionId::new(self.fresh())
    }

    fn proposal(&self) -> ProposalId {
        ProposalId::new(self.fresh())
    }

    fn record(&self) -> RecordId {
        RecordId::new(self.fresh())
    }

    fn pin(&self) -> PinId {
        PinId::new(self.fresh())
    }

    fn summary(&self) -> SummaryId {
        SummaryId::new(self.fresh())
    }

    fn image(&self) -> ImageId {
        ImageId::new(self.fresh())
    }

    fn document(&self) -> DocumentId {
        DocumentId::new(self.fresh())
    }

    fn chunk(&self) -> ChunkId {
        ChunkId::new(self.fresh())
    }

    fn call(&self) -> CallId {
        CallId::new(self.fresh())
    }
}

/// Version 7 UUIDs: unique, and ordered by time.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeOrderedIds;

impl Ids for TimeOrderedIds {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws ids")]
    fn fresh(&self) -> Uuid {
        Uuid::now_v7()
    }
}
