//! Writes the events of a run as a stream of a response.

use std::sync::Arc;

use bytes::Bytes;
use protocol::{Event, Principal, Stored};
use service::Service;

use super::ResponseTeller;
use crate::contracts::{VoidPieces, reason_of};
use crate::event_stream::{EventWriter, StreamCut, StreamState};

/// The name of the event that stands for a run whose deltas are pruned.
const SNAPSHOT: &str = "snapshot";

/// The writer of one stream.
pub(crate) struct ResponseWriter<P> {
    teller: ResponseTeller,
    /// The teller before the first event.
    fresh: ResponseTeller,
    void: VoidPieces,
    service: Service,
    principal: Principal,
    /// Told when the stream has come to its end, and dropped with it.
    presence: P,
}

/// A receiver that is told when a stream has come to its end.
pub(crate) trait StreamPresence: Send + 'static {
    fn end(&mut self);
}

impl<P: StreamPresence> ResponseWriter<P> {
    pub(crate) fn new(
        teller: ResponseTeller,
        void: VoidPieces,
        (service, principal): (Service, Principal),
        presence: P,
    ) -> Self {
        Self { fresh: teller.clone(), teller, void, service, principal, presence }
    }

    /// The end of a response whose deltas are pruned: the numbers of its events are no longer known.
    async fn tell_end(&mut self) -> StreamState {
        let mut teller = self.fresh.clone();
        teller.tell_end_only();
        let facts = self.service.run_facts(&self.principal, teller.told.run).await.unwrap_or_default();
        for (_, event) in facts {
            if teller.read(event, false) == StreamState::Ended {
                break;
            }
        }
        self.teller = teller;
        StreamState::Ended
    }
}

impl<P: StreamPresence> EventWriter for ResponseWriter<P> {
    type Event = Arc<Stored>;

    async fn write(&mut self, batch: &[Arc<Stored>]) -> (Bytes, StreamState) {
        // A row that cannot be read is left out of every contract.
        let read = |stored: &Arc<Stored>| Some((stored.seq, Event::read(&stored.kind, &stored.body).ok()?));
        let events: Vec<_> = batch.iter().filter_map(read).collect();
        self.void.note(&events);
        let mut state = StreamState::Open;
        if batch.iter().any(|stored| stored.kind == SNAPSHOT) {
            state = self.tell_end().await;
        } else {
            for (seq, event) in events {
                let is_void = self.void.contains(seq, &event);
                state = self.teller.read(event, is_void);
                if state == StreamState::Ended {
                    break;
                }
            }
        }
        if state == StreamState::Ended {
            self.presence.end();
        }
        (self.teller.take().into(), state)
    }

    fn cut(&mut self, cut: StreamCut) -> Bytes {
        self.presence.end();
        self.teller.cut(reason_of(cut));
        self.teller.take().into()
    }
}
