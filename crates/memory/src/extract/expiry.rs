//! Which memories go first when there are too many.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};
use protocol::MemoryId;

/// What a day without being used costs, in uses.
const USES_A_DAY: f64 = 0.1;

const SECONDS_A_DAY: f64 = 86_400.0;

/// How much a memory is worth keeping: its uses, less a tenth for each day of its age. An age below zero, of a clock
/// that was set back, counts as none.
pub fn expiry_score(access_count: u64, age: SignedDuration) -> f64 {
    access_count as f64 - age.as_secs_f64().max(0.0) / SECONDS_A_DAY * USES_A_DAY
}

/// What decides whether a memory stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aged {
    pub id: MemoryId,
    pub access_count: u64,
    pub created_at: Timestamp,
}

/// The memories beyond the limit, first to go first: those of the lowest score; of equal ones the oldest, then by id.
pub fn over_limit(memories: &[Aged], limit: usize, now: Timestamp) -> Vec<MemoryId> {
    let mut scored: Vec<(f64, &Aged)> = memories
        .iter()
        .map(|memory| (expiry_score(memory.access_count, now.duration_since(memory.created_at)), memory))
        .collect();
    scored.sort_by(|(one, left), (two, right)| -> Ordering {
        one.total_cmp(two).then(left.created_at.cmp(&right.created_at)).then(left.id.cmp(&right.id))
    });
    let over = memories.len().saturating_sub(limit);
    scored.into_iter().take(over).map(|(_, memory)| memory.id).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn memory(id: u128, access_count: u64, day: i64) -> Aged {
        let created_at = Timestamp::from_second(day * 86_400).unwrap();
        Aged { id: MemoryId::new(Uuid::from_u128(id)), access_count, created_at }
    }

    fn numbers(ids: &[MemoryId]) -> Vec<u128> {
        ids.iter().map(|id| id.uuid().as_u128()).collect()
    }

    #[test]
    fn ten_days_cost_a_use() {
        let days = |days: i64| SignedDuration::from_hours(days * 24);
        for (uses, age, expected) in [(0, 0, 0.0), (3, 10, 2.0), (0, 10, -1.0), (5, 5, 4.5), (2, -40, 2.0)] {
            assert!((expiry_score(uses, days(age)) - expected).abs() < 1e-9, "{uses} uses, {age} days");
        }
        assert!((expiry_score(0, SignedDuration::from_hours(12)) + 0.05).abs() < 1e-9);
    }

    #[test]
    fn the_least_worth_goes_first() {
        let now = Timestamp::from_second(100 * 86_400).unwrap();
        // Scores: -10, -5, 0, -0.1, -1.
        let memories =
            [memory(1, 0, 0), memory(2, 0, 50), memory(3, 10, 0), memory(4, 0, 99), memory(5, 1, 80)];
        assert_eq!(numbers(&over_limit(&memories, 0, now)), [1, 2, 5, 4, 3]);
        assert_eq!(numbers(&over_limit(&memories, 3, now)), [1, 2]);
        assert_eq!(numbers(&over_limit(&memories, 5, now)), [] as [u128; 0]);
        assert_eq!(numbers(&over_limit(&memories, 9, now)), [] as [u128; 0]);
        assert_eq!(numbers(&over_limit(&[], 0, now)), [] as [u128; 0]);
    }

    #[test]
    fn of_equal_scores_the_oldest_goes_first_and_then_the_lowest_id() {
        let now = Timestamp::from_second(0).unwrap();
        // All ages are below zero, so all scores are equal.
        let memories = [memory(9, 0, 5), memory(3, 0, 5), memory(7, 0, 1)];
        assert_eq!(numbers(&over_limit(&memories, 0, now)), [7, 3, 9]);
    }
}
