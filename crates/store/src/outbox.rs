//! Deltas of one run on their way to the writer.
//!
//! A run appends here and wakes the writer once. Deltas that arrive before the writer takes the batch join it. So a
//! token that waits alone is committed by itself, and tokens that wait together are committed together. The queue costs
//! one short lock and no allocation of its own per token.
//!
//! Deltas stay here until their commit has happened. If it fails for a reason that passes, they wait for the next one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::{Delta, RunId, ThreadId};
use tokio::sync::Notify;

use crate::RunRow;

/// Bytes of deltas a run may have waiting before its model stream is held back.
pub(crate) const MAX_WAITING_BYTES: usize = 64 * 1024;

/// Bytes that each delta counts beyond its text, so that many empty ones are bounded too.
const DELTA_OVERHEAD_BYTES: usize = 32;

/// Whether neighbouring deltas of one kind become one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coalesce {
    /// Join what waits for the same commit.
    #[default]
    Waiting,
    /// An event per delta under any load; for measuring.
    Never,
}

pub(crate) struct Outbox {
    pub(crate) run: RunId,
    pub(crate) thread: ThreadId,
    /// The ownership under which it writes.
    pub(crate) epoch: u64,
    coalesce: Coalesce,
    /// Held for a few instructions, never over an await or a write.
    waiting: Mutex<WaitingDeltas>,
    room: Notify,
}

#[derive(Default)]
struct WaitingDeltas {
    deltas: Vec<Delta>,
    bytes: usize,
    /// The writer has been told and has not come yet.
    announced: bool,
    /// The deltas that the writer has taken, while it is not known whether they are in the log.
    taken: Vec<Delta>,
    /// Some of this run's deltas are not in the log; it takes no more.
    closed: bool,
}

/// The fate of a pushed delta.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The writer must be told.
    Announce,
    /// The writer is on its way.
    Joined,
    /// There is no room, or the log takes no more.
    Refused(Delta),
}

impl Outbox {
    pub(crate) fn new(run: &RunRow, coalesce: Coalesce) -> Self {
        let RunRow { id: run, thread, epoch, .. } = *run;
        Self { run, thread, epoch, coalesce, waiting: Mutex::default(), room: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingDeltas> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, delta: Delta) -> Pushed {
        let mut waiting = self.lock();
        if waiting.closed || waiting.bytes >= MAX_WAITING_BYTES {
            return Pushed::Refused(delta);
        }
        waiting.bytes += size(&delta);
        let left = match (self.coalesce, waiting.deltas.last_mut()) {
            (Coalesce::Waiting, Some(last)) => join(last, delta),
            (Coalesce::Waiting, None) | (Coalesce::Never, _) => Some(delta),
        };
        waiting.deltas.extend(left);
        if std::mem::replace(&mut waiting.announced, true) { Pushed::Joined } else { Pushed::Announce }
    }

    /// Moves what waits into `into`, which must be empty, and makes room. [`Outbox::hold`] keeps it while its commit
    /// may fail.
    pub(crate) fn take(&self, into: &mut Vec<Delta>) {
        {
            let mut waiting = self.lock();
            std::mem::swap(&mut waiting.deltas, into);
            waiting.bytes = 0;
            waiting.announced = false;
        }
        self.room.notify_waiters();
    }

    /// Keeps what was taken until its commit has happened.
    pub(crate) fn hold(&self, taken: &mut Vec<Delta>) {
        self.lock().taken.append(taken);
    }

    /// How many deltas are in the commit that is under way.
    pub(crate) fn count_held(&self) -> usize {
        self.lock().taken.len()
    }

    /// The deltas that were taken are in the log.
    pub(crate) fn commit_succeeded(&self) {
        self.lock().taken.clear();
    }

    /// The deltas that were taken are not in the log, but for the first `kept`: the others wait again, before those that
    /// came since. So a run can have twice as much waiting as it may for a moment.
    pub(crate) fn give_back(&self, kept: usize) {
        let mut waiting = self.lock();
        if waiting.closed {
            waiting.taken.clear();
        }
        if waiting.taken.len() <= kept {
            return;
        }
        let mut again = waiting.taken.split_off(kept);
        waiting.bytes += again.iter().map(size).sum::<usize>();
        again.append(&mut waiting.deltas);
        waiting.deltas = again;
    }

    /// The deltas that were taken are not in the log, and never will be. Any later delta would leave a hole in the text.
    pub(crate) fn commit_lost(&self) {
        if !self.lock().taken.is_empty() {
            self.close();
        }
    }

    /// Takes no more deltas, and drops those that wait: the log refused some, or the run does not use this outbox any more.
    pub(crate) fn close(&self) {
        {
            let mut waiting = self.lock();
            waiting.closed = true;
            waiting.deltas.clear();
            waiting.taken.clear();
        }
        self.room.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether there are deltas of which the writer does not know. From here on it is as good as told.
    pub(crate) fn must_announce(&self) -> bool {
        let mut waiting = self.lock();
        !waiting.closed && !waiting.deltas.is_empty() && !std::mem::replace(&mut waiting.announced, true)
    }

    /// The writer could not be told.
    pub(crate) fn not_announced(&self) {
        self.lock().announced = false;
        self.room.notify_waiters();
    }

    pub(crate) async fn room(&self) {
        let notified = self.room.notified();
        tokio::pin!(notified);
        // Registered before looking, so that a commit between the two is not missed.
        notified.as_mut().enable();
        let full = {
            let waiting = self.lock();
            waiting.bytes >= MAX_WAITING_BYTES && waiting.announced && !waiting.closed
        };
        if full {
            notified.await;
        }
    }
}

/// Bytes that a delta counts while it waits.
fn size(delta: &Delta) -> usize {
    text(delta).len() + DELTA_OVERHEAD_BYTES
}

fn text(delta: &Delta) -> &str {
    match delta {
        Delta::Text { delta, .. } | Delta::Reasoning { delta, .. } | Delta::ToolInput { delta, .. } => delta,
    }
}

/// Appends `next` to `last` if they are pieces of the same thing, else gives it back.
fn join(last: &mut Delta, next: Delta) -> Option<Delta> {
    match (last, next) {
        (Delta::Text { step, delta }, Delta::Text { step: other, delta: more }) if *step == other => {
            delta.push_str(&more);
            None
        }
        (Delta::Reasoning { step, delta }, Delta::Reasoning { step: other, delta: more })
            if *step == other =>
        {
            delta.push_str(&more);
            None
        }
        (Delta::ToolInput { call, delta, .. }, Delta::ToolInput { call: other, delta: more, .. })
            if *call == other =>
        {
            delta.push_str(&more);
            None
        }
        (_, next) => Some(next),
    }
}
