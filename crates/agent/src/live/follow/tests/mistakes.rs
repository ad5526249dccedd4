//! Readers with one mistake each. The search finds every one of them out, or it would not find it in the real one.

use super::*;

/// The mistakes that a reader can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Listens once it has read the log.
    ListensLate,
    /// Takes all that is in the ring, whether or not it was in the log.
    ForgetsWhatItSaw,
    /// Takes what the ring has, although the ring begins later.
    SkipsWhatTheRingLost,
    /// Believes that the log goes as far as the ring has got by now.
    TrustsTheRingTooFar,
    /// Counts events as given out before they are.
    CountsTooEarly,
    /// Waits without leaving word where it can be reached.
    CannotBeTold,
    /// Knows the end of a run only when it comes live.
    MissesTheEnd,
    /// Gives out the events of other runs.
    TakesAll,
}

const MISTAKES: [Mistake; 9] = [
    Mistake::ListensLate,
    Mistake::ForgetsWhatItSaw,
    Mistake::SkipsWhatTheRingLost,
    Mistake::TrustsTheRingTooFar,
    Mistake::CountsTooEarly,
    Mistake::CannotBeTold,
    Mistake::MissesTheEnd,
    Mistake::TakesAll,
    Mistake::None,
];

/// The plainest reader there is, with a mistake.
struct Plain<const MISTAKE: usize> {
    mistake: Mistake,
    log: Arc<Committed>,
    bus: Arc<Bus>,
    subscription: Option<Subscription>,
    run: Option<RunId>,
    seen: Seq,
    /// The beginning of the ring, as far as it is known while the log is read.
    reads: Option<Seq>,
    ended: bool,
}

impl<const MISTAKE: usize> Reading for Plain<MISTAKE> {
    fn begin(log: &Arc<Committed>, bus: &Arc<Bus>, case: &Case) -> Self {
        let mistake = MISTAKES[MISTAKE];
        let subscription = (mistake != Mistake::ListensLate).then(|| bus.subscribe(thread()));
        let (log, bus) = (Arc::clone(log), Arc::clone(bus));
        Self {
            mistake,
            log,
            bus,
            subscription,
            run: case.run,
            seen: case.after,
            reads: Some(0),
            ended: false,
        }
    }

    async fn next(&mut self) -> Option<Vec<Arc<Stored>>> {
        while !self.ended {
            let events = match self.reads {
                Some(ring_starts) => self.read(ring_starts).await,
                None => self.listen().await,
            };
            if !events.is_empty() {
                return Some(events);
            }
        }
        None
    }
}

impl<const MISTAKE: usize> Plain<MISTAKE> {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    async fn read(&mut self, ring_starts: Seq) -> Vec<Arc<Stored>> {
        let events = self.log.events(thread(), self.run, self.seen).await.expect("the log can be read");
        match events.last() {
            None => {
                self.seen = self.seen.max(ring_starts.saturating_sub(1));
                self.reads = None;
                self.subscription.get_or_insert_with(|| self.bus.subscribe(thread()));
            }
            Some(last) => {
                self.seen = last.seq;
                self.ended = self.is_end(last) && !self.has(Mistake::MissesTheEnd);
            }
        }
        if self.has(Mistake::CountsTooEarly) {
            Pause::default().await;
        }
        events
    }

    async fn listen(&mut self) -> Vec<Arc<Stored>> {
        let subscription = self.subscription.as_ref().expect("it has read the log");
        let seen = if self.has(Mistake::ForgetsWhatItSaw) { 0 } else { self.seen };
        let tail = if self.has(Mistake::CannotBeTold) {
            let mut after = pin!(subscription.tail_after(seen));
            std::future::poll_fn(|_| after.as_mut().poll(&mut Context::from_waker(Waker::noop()))).await
        } else {
            subscription.tail_after(seen).await
        };
        match tail {
            Tail::Closed => {
                self.ended = true;
                Vec::new()
            }
            Tail::Behind { ring_starts } if self.has(Mistake::SkipsWhatTheRingLost) => {
                self.seen = ring_starts - 1;
                Vec::new()
            }
            Tail::Behind { ring_starts } => {
                let further = if self.has(Mistake::TrustsTheRingTooFar) { 2 } else { 0 };
                self.reads = Some(ring_starts + further);
                Vec::new()
            }
            Tail::Events(mut events) => {
                self.seen = events.last().map_or(self.seen, |event| event.seq);
                events.retain(|event| is_of(event, self.run) || self.has(Mistake::TakesAll));
                self.ended = events.last().is_some_and(|last| self.is_end(last));
                events
            }
        }
    }

    fn is_end(&self, event: &Stored) -> bool {
        self.run.is_some() && event.run == self.run && event.kind == Kind::RunEnd.name()
    }
}

/// A few events in which every mistake can show, some of them too large to stay in the ring together.
fn cases(drops: usize) -> [Case; 2] {
    let large = |seq, run| event(seq, Some(run), Kind::StepEnd, LARGE_BYTES);
    let batches = vec![
        vec![delta(1, ours())],
        vec![large(2, theirs()), large(3, theirs())],
        vec![delta(4, ours()), end(5, ours())],
    ];
    [None, Some(ours())].map(|run| Case { drops, ..case(batches.clone(), run, 0) })
}

fn found<const MISTAKE: usize>(drops: usize) -> bool {
    cases(drops).iter().any(|case| search::<Plain<MISTAKE>>(case).is_err())
}

#[test]
fn the_search_finds_every_mistake_and_nothing_where_there_is_none() {
    let found = [
        found::<0>(1),
        found::<1>(1),
        found::<2>(1),
        found::<3>(1),
        found::<4>(1),
        found::<5>(1),
        found::<6>(1),
        found::<7>(1),
        found::<8>(0),
    ];
    let should = MISTAKES.map(|mistake| mistake != Mistake::None);
    assert_eq!(found, should);
}
