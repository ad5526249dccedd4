//! Following a run or a thread: first the log, then live, with nothing lost or doubled between the two.
//!
//! A follower subscribes before it reads, so all events that are committed while it reads are in the ring by the time
//! it has caught up. Event numbers sort out the overlap. Where the deltas of a run are pruned, now or while it is being
//! read, there is no rest to give: one snapshot says what came of it.

mod waiting_run;

use std::sync::Arc;

use protocol::{Kind, RunId, Seq, Stored, ThreadId};
use store::EventLog;

use super::bus::{Subscription, Tail};
use super::snapshot;
use crate::Error;

pub(crate) use waiting_run::until_run_waits;

/// One reader's place in a thread's log.
pub struct Follower {
    log: Arc<dyn EventLog>,
    subscription: Subscription,
    thread: ThreadId,
    /// Only this run's events, and the end after its `run:end`.
    run: Option<RunId>,
    /// Everything up to here has been given out, or is not for this reader.
    seen: Seq,
    place: Place,
    /// Given out before anything else.
    first: Option<Arc<Stored>>,
    /// Whether facts are enough for this reader, so that a run without its deltas is as good as a whole one.
    facts_will_do: bool,
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
        log: Arc<dyn EventLog>,
        subscription: Subscription,
        (thread, run): (ThreadId, Option<RunId>),
        after: Seq,
    ) -> Self {
        let place = Place::Log { until: 0 };
        Self { log, subscription, thread, run, seen: after, place, first: None, facts_will_do: false }
    }

    /// For a reader that has listened since before the first event it is to be given: there is nothing to read.
    #[must_use]
    pub(crate) fn already_live(mut self) -> Self {
        self.place = Place::Live;
        self
    }

    /// For a reader that can tell a run by its facts: it gets those of a run whose deltas are pruned, not a snapshot.
    #[must_use]
    pub fn by_facts(mut self) -> Self {
        self.facts_will_do = true;
        self
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
        // A thread's log has no more and no less than is left of it.
        let of = self.run.filter(|_| !self.facts_will_do);
        let events = match self.log.events(self.thread, of, self.seen).await {
            Err(store::Error::Pruned) => return self.snapshot().await,
            read => read?,
        };
        if events.is_empty() && until > self.seen + 1 && self.subscription.is_closed() {
            self.place = Place::Ended; // the events may be purged, and no reader is given a gap
            return Ok(events);
        }
        if events.is_empty() {
            self.seen = self.seen.max(until.saturating_sub(1));
            self.place = Place::Live;
        }
        Ok(self.take(events))
    }

    /// The result of a run whose deltas are pruned, and the end; nothing if the thread has gone, too.
    async fn snapshot(&mut self) -> Result<Vec<Arc<Stored>>, Error> {
        let facts = match self.run {
            Some(run) => self.log.facts(run).await?,
            None => Vec::new(),
        };
        self.place = Place::Ended;
        let snapshot = self.run.and_then(|run| snapshot::last_snapshot((self.thread, run), &facts));
        Ok(snapshot.into_iter().map(Arc::new).collect())
    }

    async fn listen(&mut self) -> Vec<Arc<Stored>> {
        match self.subscription.tail_after(self.seen).await {
            Tail::Closed => {
                self.place = Place::Ended;
                Vec::new()
            }
            Tail::Behind { ring_starts } => {
                self.place = Place::Log { until: ring_starts };
                Vec::new()
            }
            Tail::Events(events) => self.take(events),
        }
    }

    /// Moves past the events, and keeps those that are for this reader.
    fn take(&mut self, mut events: Vec<Arc<Stored>>) -> Vec<Arc<Stored>> {
        self.seen = events.last().map_or(self.seen, |event| event.seq);
        events.retain(|event| self.run.is_none() || event.run == self.run);
        if self.run.is_some() && events.last().is_some_and(|last| last.kind == Kind::RunEnd.name()) {
            self.place = Place::Ended;
        }
        events
    }
}

#[cfg(test)]
mod tests;
