//! Which blow comes next: cards drawn from a deck that is shuffled when it is empty, so that even the rare ones come.

use fastrand::Rng;

/// What the nemesis can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blows {
    KillAnytime,
    KillAtMoment,
    Term,
    Burst,
    DiskFull,
    SlowReaders,
}

/// How many cards of each there are.
const CARDS: [(Blows, usize); 6] = [
    (Blows::KillAnytime, 10),
    (Blows::KillAtMoment, 11),
    (Blows::Term, 3),
    (Blows::Burst, 1),
    (Blows::DiskFull, 1),
    (Blows::SlowReaders, 1),
];

#[derive(Default)]
pub(super) struct Deck {
    left: Vec<Blows>,
}

impl Deck {
    pub(super) fn draw(&mut self, rng: &mut Rng) -> Blows {
        if self.left.is_empty() {
            self.left = CARDS.iter().flat_map(|(blow, count)| std::iter::repeat_n(*blow, *count)).collect();
            rng.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or(Blows::KillAnytime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_blow_comes_as_often_as_it_has_cards() {
        let (mut deck, mut rng) = (Deck::default(), Rng::with_seed(7));
        let all: usize = CARDS.iter().map(|(_, count)| count).sum();
        let drawn: Vec<Blows> = std::iter::repeat_with(|| deck.draw(&mut rng)).take(2 * all).collect();
        for (blow, count) in CARDS {
            assert_eq!(drawn.iter().filter(|other| **other == blow).count(), 2 * count, "{blow:?}");
        }
        assert_ne!(drawn[..all], drawn[all..], "they are shuffled");
    }
}
