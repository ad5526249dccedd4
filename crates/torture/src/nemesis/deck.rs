//! Which blow comes next: cards drawn from a deck that is shuffled when it is empty, so that even the rare ones come.

use fastrand::Rng;

use crate::database::TrialStore;
use crate::postgres::DatabaseBlow;

/// What the nemesis can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blows {
    KillAnytime,
    KillAtMoment,
    Term,
    Burst,
    DiskFull,
    SlowReaders,
    Database(DatabaseBlow),
}

/// How many cards of each there are, whatever the database.
const CARDS: [(Blows, usize); 5] = [
    (Blows::KillAnytime, 10),
    (Blows::KillAtMoment, 11),
    (Blows::Term, 3),
    (Blows::Burst, 1),
    (Blows::SlowReaders, 1),
];

/// What else there is on SQLite.
const ON_SQLITE: [(Blows, usize); 1] = [(Blows::DiskFull, 1)];

/// What else there is on PostgreSQL.
const ON_POSTGRES: [(Blows, usize); 4] = [
    (Blows::Database(DatabaseBlow::Restart), 2),
    (Blows::Database(DatabaseBlow::Crash), 3),
    (Blows::Database(DatabaseBlow::BackendKill), 3),
    (Blows::Database(DatabaseBlow::ConnectionLoss), 2),
];

pub(super) struct Deck {
    store: TrialStore,
    left: Vec<Blows>,
}

impl Deck {
    pub(super) fn new(store: TrialStore) -> Self {
        Self { store, left: Vec::new() }
    }

    pub(super) fn draw(&mut self, rng: &mut Rng) -> Blows {
        if self.left.is_empty() {
            let cards = cards(self.store).flat_map(|(blow, count)| std::iter::repeat_n(blow, count));
            self.left = cards.collect();
            rng.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or(Blows::KillAnytime)
    }
}

fn cards(store: TrialStore) -> impl Iterator<Item = (Blows, usize)> {
    let others: &[(Blows, usize)] = match store {
        TrialStore::Sqlite => &ON_SQLITE,
        TrialStore::Postgres => &ON_POSTGRES,
    };
    CARDS.iter().chain(others).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_blow_comes_as_often_as_it_has_cards() {
        for store in [TrialStore::Sqlite, TrialStore::Postgres] {
            let (mut deck, mut rng) = (Deck::new(store), Rng::with_seed(7));
            let all: usize = cards(store).map(|(_, count)| count).sum();
            let drawn: Vec<Blows> = std::iter::repeat_with(|| deck.draw(&mut rng)).take(2 * all).collect();
            for (blow, count) in cards(store) {
                assert_eq!(drawn.iter().filter(|other| **other == blow).count(), 2 * count, "{blow:?}");
            }
            assert_ne!(drawn[..all], drawn[all..], "they are shuffled");
        }
    }
}
