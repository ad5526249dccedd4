//! The writing end of one run's log.

use protocol::{Delta, Event, PlannedCall, SpendBounds, SpendGrant};

use crate::sql::SqlRunLog;
use crate::{Error, NewJob, Write};

/// A handle with which the owner of a run writes to its log. Clones share one queue of deltas.
#[derive(Clone)]
pub struct RunLog {
    end: SqlRunLog,
}

impl RunLog {
    pub(crate) fn new(log: SqlRunLog) -> Self {
        Self { end: log }
    }

    /// Holds what the run's next model call may spend, if that fits what its user has spent and what other calls hold.
    /// It is given back by the event that ends or repeats the step, by the run's end, and by [`crate::Store::adopt`].
    pub async fn reserve(&self, call: PlannedCall, bounds: SpendBounds) -> Result<SpendGrant, Error> {
        self.end.reserve(call, bounds).await
    }

    /// Queues a delta without waiting. Gives it back when the queue is full, and [`RunLog::room`] waits for space; or when
    /// the log takes no more ([`RunLog::is_closed`]).
    pub fn push(&self, delta: Delta) -> Result<(), Delta> {
        self.end.push(delta)
    }

    /// Waits until the queue has room, or the log no longer takes deltas.
    pub async fn room(&self) {
        self.end.room().await
    }

    /// Drops the deltas that wait, and takes no more. A run that continues from its log has a new handle. Deltas of the old
    /// handle would be written after the events of the new one.
    pub fn close(&self) {
        self.end.close();
    }

    /// Whether the log takes no more deltas of this run: another process owns the run, or the run has ended.
    pub fn is_closed(&self) -> bool {
        self.end.is_closed()
    }

    /// Commits facts, after every delta pushed before them, with the jobs they cause and the writes of the one call
    /// whose result is among them, or with what is remembered, pinned and kept with `context:loaded`. A text is not kept
    /// when what it comes from is gone by then. A result for a call that already has one is dropped, with its writes:
    /// the first wins. So is `proposal:closed` for one that was decided. `run:end` begins the thread's next queued run.
    /// Returns which of the events were recorded. [`Error::Changed`] when a write came too late: then nothing is
    /// committed.
    pub async fn record(
        &self,
        events: Vec<Event>,
        jobs: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<bool>, Error> {
        self.end.record(events, jobs, writes).await
    }
}
