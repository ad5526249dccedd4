//! Why a run cannot go on: the store fails, or its log cannot be read, or it would do the same for ever.

use std::sync::Arc;

use protocol::{Event, Failure, Seq, Stored};
use store::RawEvent;

use crate::decide::failure;

/// An obstacle in the way of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("event {seq} ({kind:?}) of the run's log cannot be read")]
    Unreadable { seq: Seq, kind: String },
    #[error("a step made no progress and would be repeated")]
    Stuck,
    #[error("the code of the run panicked")]
    Panicked,
}

impl Obstacle {
    /// The failure that the user is told of a run that was ended because of it.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Obstacle::Unreadable { .. } => failure(
                "log_unreadable",
                "a part of this run's log cannot be read, so the run was ended; ask again",
            ),
            Obstacle::Store(_) => {
                failure("store_failed", "this run could not be stored, so the run was ended; ask again")
            }
            Obstacle::Stuck | Obstacle::Panicked => failure(
                "internal_error",
                "the run was ended because of an internal error of the server; ask again",
            ),
        }
    }
}

/// The first events of a run that was just stored.
pub(crate) fn read_stored(facts: &[Arc<Stored>]) -> Result<Vec<Event>, Obstacle> {
    facts.iter().map(|stored| read_event(stored.seq, &stored.kind, &stored.body)).collect()
}

fn read_event(seq: Seq, kind: &str, body: &str) -> Result<Event, Obstacle> {
    Event::read(kind, body).map_err(|_| Obstacle::Unreadable { seq, kind: kind.to_owned() })
}

/// The facts of a run as events. One that cannot be read is never left out: what follows it would mean something else.
pub(crate) fn read_facts(facts: &[RawEvent]) -> Result<Vec<Event>, Obstacle> {
    facts.iter().map(|raw| read_event(raw.seq, &raw.kind, &raw.body)).collect()
}
