//! Which blow comes next: cards drawn from a deck that is shuffled when it is empty, so that even the rare ones come.

use fastrand::Rng;

use crate::database::TrialStore;
use crate::postgres::DatabaseBlow;

/// The blows that the nemesis can strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blows {
    KillAnytime,
    KillAtMoment,
    Term,
    Burst,
    DiskFull,
    SlowReaders,
    Database(DatabaseBlow),
    NodeDown,
    NodePause,
    NodeHiccup,
    NodeCut,
    AllNodes,
    RollingRestart,
}

/// A blow, and how many cards there are of it.
type Card = (Blows, usize);

/// How many cards of each there are for one node, on both databases.
const CARDS: [Card; 5] = [
    (Blows::KillAnytime, 10),
    (Blows::KillAtMoment, 11),
    (Blows::Term, 3),
    (Blows::Burst, 1),
    (Blows::SlowReaders, 1),
];

/// The other blows on SQLite.
const ON_SQLITE: [Card; 1] = [(Blows::DiskFull, 1)];

/// The other blows on PostgreSQL.
const ON_POSTGRES: [Card; 4] = [
    (Blows::Database(DatabaseBlow::Restart), 2),
    (Blows::Database(DatabaseBlow::Crash), 3),
    (Blows::Database(DatabaseBlow::BackendKill), 3),
    (Blows::Database(DatabaseBlow::ConnectionLoss), 2),
];

/// All there is for several nodes, which share a PostgreSQL.
const FOR_SEVERAL: [Card; 15] = [
    (Blows::KillAnytime, 4),
    (Blows::KillAtMoment, 8),
    (Blows::Term, 1),
    (Blows::Burst, 1),
    (Blows::SlowReaders, 1),
    (Blows::Database(DatabaseBlow::Restart), 1),
    (Blows::Database(DatabaseBlow::Crash), 2),
    (Blows::Database(DatabaseBlow::BackendKill), 2),
    (Blows::Database(DatabaseBlow::ConnectionLoss), 1),
    (Blows::NodeDown, 1),
    (Blows::NodePause, 2),
    (Blows::NodeHiccup, 1),
    (Blows::NodeCut, 2),
    (Blows::AllNodes, 1),
    (Blows::RollingRestart, 1),
];

/// The blows that come first in a trial of several nodes, the last one before all others, so that a short trial has it,
/// too.
const FIRST_FOR_SEVERAL: [Blows; 3] = [Blows::NodeCut, Blows::NodeDown, Blows::NodePause];

pub(super) struct Deck {
    cards: Vec<Card>,
    left: Vec<Blows>,
    /// Cards that come before those that are left, the last one first.
    first: Vec<Blows>,
}

impl Deck {
    pub(super) fn new(store: TrialStore, nodes: usize) -> Self {
        let first = if nodes > 1 { FIRST_FOR_SEVERAL.to_vec() } else { Vec::new() };
        Self { cards: cards(store, nodes).collect(), left: Vec::new(), first }
    }

    pub(super) fn draw(&mut self, rng: &mut Rng) -> Blows {
        if let Some(first) = self.first.pop() {
            return first;
        }
        if self.left.is_empty() {
            let cards = self.cards.iter().flat_map(|(blow, count)| std::iter::repeat_n(*blow, *count));
            self.left = cards.collect();
            rng.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or(Blows::KillAnytime)
    }

    /// Keeps a card for later that cannot be played now. It comes after the next one.
    pub(super) fn put_back(&mut self, blow: Blows) {
        let next = self.left.len().saturating_sub(1);
        self.left.insert(next, blow);
    }
}

fn cards(store: TrialStore, nodes: usize) -> impl Iterator<Item = Card> {
    let (all, others): (&[Card], &[Card]) = match store {
        _ if nodes > 1 => (&FOR_SEVERAL, &[]),
        TrialStore::Sqlite => (&CARDS, &ON_SQLITE),
        TrialStore::Postgres => (&CARDS, &ON_POSTGRES),
    };
    all.iter().chain(others).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_blow_comes_as_often_as_it_has_cards() {
        for (store, nodes) in [(TrialStore::Sqlite, 1), (TrialStore::Postgres, 1), (TrialStore::Postgres, 3)]
        {
            let (mut deck, mut rng) = (Deck::new(store, nodes), Rng::with_seed(7));
            let all: usize = cards(store, nodes).map(|(_, count)| count).sum();
            deck.first.clear();
            let drawn: Vec<Blows> = std::iter::repeat_with(|| deck.draw(&mut rng)).take(2 * all).collect();
            for (blow, count) in cards(store, nodes) {
                assert_eq!(drawn.iter().filter(|other| **other == blow).count(), 2 * count, "{blow:?}");
            }
            assert_ne!(drawn[..all], drawn[all..], "they are shuffled");
        }
    }

    #[test]
    fn several_nodes_are_paused_taken_down_and_cut_off_first() {
        let (mut deck, mut rng) = (Deck::new(TrialStore::Postgres, 2), Rng::with_seed(7));
        let [pause, down, cut] = [(); 3].map(|()| deck.draw(&mut rng));
        assert_eq!([pause, down, cut], [Blows::NodePause, Blows::NodeDown, Blows::NodeCut]);
        let next = deck.draw(&mut rng);
        deck.put_back(next);
        let other = deck.draw(&mut rng);
        assert_eq!(deck.draw(&mut rng), next, "another one came before it: {other:?}");
    }
}
