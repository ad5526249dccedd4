//! The end of the writer's queue that a run writes to.

use std::sync::Arc;

use protocol::{Delta, Event, Kind, PlannedCall, SpendBounds, SpendGrant};

use super::super::append::Batch;
use super::super::{CommitKind, RowsOf, jobs, queue, reserve, waiting_calls};
use super::{Announcement, Command, Writer};
use crate::outbox::{Outbox, Pushed};
use crate::rules::run_log::{is_promise, writes_belong};
use crate::{Error, NewJob, Write};

/// One run's end of the queue.
#[derive(Clone)]
pub(crate) struct SqlRunLog {
    writer: Writer,
    outbox: Arc<Outbox>,
}

impl SqlRunLog {
    pub(in super::super) fn new(writer: Writer, outbox: Outbox) -> Self {
        Self { writer, outbox: Arc::new(outbox) }
    }

    /// Tells the writer that there are deltas. False if it has to be told again.
    fn announce(&self) -> bool {
        let announcement = Announcement { outbox: Arc::clone(&self.outbox), seen: false };
        match self.writer.send(Command::Deltas(announcement)) {
            Err(Error::Closed) => {
                self.outbox.close();
                true
            }
            sent => sent.is_ok(),
        }
    }
}

impl SqlRunLog {
    pub(crate) fn push(&self, delta: Delta) -> Result<(), Delta> {
        match self.outbox.push(delta) {
            Pushed::Joined => Ok(()),
            Pushed::Refused(delta) => Err(delta),
            Pushed::Announce => {
                // A full queue loses nothing: the deltas wait, and the next one announces them again.
                let _told = self.announce();
                Ok(())
            }
        }
    }

    pub(crate) async fn room(&self) {
        if self.outbox.must_announce() && !self.announce() {
            return tokio::task::yield_now().await;
        }
        self.outbox.room().await;
    }

    pub(crate) fn close(&self) {
        self.outbox.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.outbox.is_closed()
    }

    pub(crate) async fn reserve(&self, call: PlannedCall, bounds: SpendBounds) -> Result<SpendGrant, Error> {
        let outbox = Arc::clone(&self.outbox);
        let work = move |batch: &mut Batch<'_>| {
            if !batch.is_owner(&outbox)? {
                return Err(Error::Fenced);
            }
            reserve::for_run(batch, outbox.run, &call, &bounds)
        };
        // Nothing of it is worth anything to another process.
        self.writer.write_ahead(work).await
    }

    pub(crate) async fn record(
        &self,
        events: Vec<Event>,
        caused: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<bool>, Error> {
        if !writes.is_empty() && !writes_belong(&events, &writes) {
            tracing::error!(run = %self.outbox.run, "writes were stored without the one result, or the start of the run, that they belong to");
            return Err(Error::Aborted);
        }
        let outbox = Arc::clone(&self.outbox);
        let kind = if is_promise(&events, &writes) { CommitKind::Promise } else { CommitKind::Ahead };
        let work = move |batch: &mut Batch<'_>| {
            let Some(stop) = batch.stop_of_owned(&outbox)? else { return Err(Error::Fenced) };
            if outbox.is_closed() {
                tracing::warn!(run = %outbox.run, "deltas were lost before they reached the log; the run continues from its log");
                return Err(Error::Aborted);
            }
            if let Some(stop) = stop
                && events.iter().any(|event| stop.forbids(event))
            {
                return Err(Error::Stopped(stop));
            }
            append(batch, &outbox, &events, &caused, &writes)
        };
        self.writer.write_with(RowsOf::ALL, kind, Some(Arc::clone(&self.outbox)), work).await
    }
}

fn append(
    batch: &mut Batch<'_>,
    outbox: &Outbox,
    events: &[Event],
    caused: &[NewJob],
    writes: &[Write],
) -> Result<Vec<bool>, Error> {
    batch.deltas(outbox)?;
    for job in caused {
        jobs::enqueue(batch, outbox.run, &jobs::Task::of(job, &job.key))?;
    }
    let record = |event| batch.record_with(outbox.thread, Some(outbox.run), event, writes);
    let recorded = events.iter().map(record).map(|seq| Ok(seq?.is_some())).collect::<Result<_, Error>>()?;
    let asks = events.iter().any(|event| matches!(event.kind(), Kind::ProposalOpen | Kind::CallOpen));
    if asks && queue::is_any_waiting(batch, outbox.thread)? {
        waiting_calls::supersede(batch, outbox.run)?; // the user has sent another message already
    }
    Ok(recorded)
}
