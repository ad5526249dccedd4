//! Spending: model calls under way hold what they may still spend, so that no two of them spend the same budget.

use protocol::{Cost, Outlay, SpendBounds, Spending, Usage, Used, UserLimits};

/// Rows that a grant is decided by.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpendingRows {
    /// Usage of the run; nothing for a job.
    pub run: Usage,
    /// Tokens and money that other calls of the scope hold.
    pub held: Outlay,
    /// Usage of the scope today, where the bounds are about it.
    pub day: Usage,
    /// Use of the rate limits by the scope, where the bounds are about them.
    pub used: Used,
}

impl SpendingRows {
    pub fn spending(&self) -> Spending {
        Spending {
            run: outlay(self.run),
            day: outlay(self.day),
            minute_tokens: self.used.minute_tokens,
            day_tokens: self.used.day_tokens,
            held: self.held,
        }
    }
}

/// Whether the bounds are about what a scope has used today.
pub fn needs_day(bounds: &SpendBounds) -> bool {
    bounds.day_tokens.is_some() || bounds.day_cost.is_some()
}

/// The limits of a user that the bounds are about.
pub fn user_limits(bounds: &SpendBounds) -> UserLimits {
    UserLimits {
        tokens_per_minute: bounds.tokens_per_minute,
        tokens_per_day: bounds.tokens_per_day,
        ..UserLimits::default()
    }
}

/// Adds what one call holds to what others do.
pub fn add_held(held: &mut Outlay, tokens: u64, cost: u64) {
    held.tokens = held.tokens.saturating_add(tokens);
    held.cost = Cost(held.cost.0.saturating_add(cost));
}

fn outlay(used: Usage) -> Outlay {
    Outlay { tokens: used.total(), cost: used.cost }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_adds_up_and_never_overflows() {
        let mut held = Outlay::default();
        add_held(&mut held, 3, 5);
        add_held(&mut held, u64::MAX, 1);
        assert_eq!(held, Outlay { tokens: u64::MAX, cost: Cost(6) });
    }

    #[test]
    fn only_bounds_that_are_there_are_read() {
        let bounds = SpendBounds { tokens_per_minute: Some(9), ..SpendBounds::default() };
        assert!(!needs_day(&bounds) && user_limits(&bounds).has_windows());
        assert!(needs_day(&SpendBounds { day_cost: Some(Cost(1)), ..SpendBounds::default() }));
    }
}
