//! Following a run or a thread: first the log, then live, with nothing lost or doubled between the two.
//!
//! A follower subscribes before it reads, so whatever is committed while it reads is in the ring by the time it has
//! caught up; numbers sort out the overlap.

use std::sync::Arc;

use protocol::{Kind, RunId, Seq, Stored, ThreadId};
use store::Log;

use crate::Error;
use crate::bus::{Subscription, Tail};

/// One reader's place in a thread's log.
pub struct Follower {
    log: Arc<dyn Log>,
    subscription: Subscription,
    thread: ThreadId,
    /// Only this run's events, and the end after its `run:end`.
    run: Option<RunId>,
    /// Everything up to here has been given out, or is not for this reader.
    seen: Seq,
    place: Place,
    /// Given out before anything else.
    first: Option<Arc<Stored>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Reading the log. Once it has nothing more, everything before this number has been seen.
    Log {
        until: Seq,
    },
    Live,
    Ended,
}

impl Follower {
    pub(crate) fn new(
        log: Arc<dyn Log>,
        subscription: Subscription,
        (thread, run): (ThreadId, Option<RunId>),
        after: Seq,
    ) -> Self {
        Self { log, subscription, thread, run, seen: after, place: Place::Log { until: 0 }, first: None }
    }

    /// Gives out `first` before anything else; then ends, if the run has.
    pub(crate) fn beginning_with(mut self, first: Stored, ended: bool) -> Self {
        self.first = Some(Arc::new(first));
        if ended {
            self.place = Place::Ended;
        }
        self
    }

    /// The next events, as many as there are up to a bound; none when the run has ended. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Stored>>>, Error> {
        if let Some(first) = self.first.take() {
            return Ok(Some(vec![first]));
        }
        loop {
            let events = match self.place {
                Place::Ended => return Ok(None),
                Place::Log { until } => self.read(until).await?,
                Place::Live => self.listen().await,
            };
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
    }

    async fn read(&mut self, until: Seq) -> Result<Vec<Arc<Stored>>, Error> {
        let events = self.log.events(self.thread, self.run, self.seen).await?;
        if events.is_empty() {
            self.seen = self.seen.max(until.saturating_sub(1));
            self.place = Place::Live;
        }
        self.advance(&events);
        Ok(events)
    }

    async fn listen(&mut self) -> Vec<Arc<Stored>> {
        match self.subscription.after(self.seen).await {
            Tail::Closed => {
                self.place = Place::Ended;
                Vec::new()
            }
            Tail::Behind { ring_starts } => {
                self.place = Place::Log { until: ring_starts };
                Vec::new()
            }
            Tail::Events(mut events) => {
                let newest = events.last().map_or(self.seen, |event| event.seq);
                events.retain(|event| self.run.is_none() || event.run == self.run);
                self.advance(&events);
                self.seen = newest;
                events
            }
        }
    }

    fn advance(&mut self, events: &[Arc<Stored>]) {
        let Some(last) = events.last() else { return };
        self.seen = last.seq;
        if self.run.is_some() && last.kind == Kind::RunEnd.name() {
            self.place = Place::Ended;
        }
    }
}

#[cfg(test)]
mod tests;
