//! The spending of one model call, decided before the call: from the bounds, the amounts that were spent, and the
//! amounts that active calls hold. The functions are pure; the store calls them inside the transaction that holds the
//! granted amount.

use crate::Cost;

/// Tokens of an answer below which a call is not worth its prompt, and which every provider takes as a bound.
pub const LEAST_OUTPUT_TOKENS: u64 = 16;

/// Tokens of an answer that are enough to make the call in this minute, even if the next minute has more.
const ENOUGH_OUTPUT_TOKENS: u64 = 1_024;

/// A model call that is about to be made.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PlannedCall {
    pub input_tokens: u64,
    /// The longest answer that the call would have without any bound.
    pub output_tokens: u64,
    pub input_cost: Cost,
    /// Billionths of a US dollar for a token of the answer.
    pub output_price: f64,
}

/// The bounds of an app; without a number there is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendBounds {
    pub run_tokens: Option<u64>,
    pub run_cost: Option<Cost>,
    /// Tokens of one user in one day, by the app's budget.
    pub day_tokens: Option<u64>,
    pub day_cost: Option<Cost>,
    /// Tokens of one user in one minute, by the app's limits.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of one user in one day, by the app's limits.
    pub tokens_per_day: Option<u64>,
}

/// Tokens and money together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outlay {
    pub tokens: u64,
    pub cost: Cost,
}

/// The amounts that were spent by now, and those that other calls of the same user in the same app hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    pub run: Outlay,
    pub day: Outlay,
    pub minute_tokens: u64,
    pub day_tokens: u64,
    pub held: Outlay,
}

/// The bound that refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendBound {
    Run,
    Day,
    TokensMinute,
    TokensDay,
}

/// The decision about a planned call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendGrant {
    /// The call may be made with an answer of at most `output_tokens`. The amount `held` is held for it.
    Granted { output_tokens: u64, held: Outlay },
    /// The call has to wait: other calls hold the amount that it needs, or the minute is used up.
    Later,
    /// The call does not fit into the rest; `never` if it would not fit before any spending.
    Refused { bound: SpendBound, never: bool },
}

/// One bound in one unit.
#[derive(Clone, Copy)]
struct Share {
    bound: SpendBound,
    unit: SpendUnit,
    limit: u64,
    spent: u64,
    held: u64,
}

#[derive(Clone, Copy)]
enum SpendUnit {
    Tokens,
    Money,
}

impl SpendBounds {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub fn is_in_dollars(&self) -> bool {
        self.run_cost.is_some() || self.day_cost.is_some()
    }

    fn shares(&self, spending: &Spending) -> impl Iterator<Item = Share> {
        let Spending { run, day, minute_tokens, day_tokens, held } = *spending;
        let tokens = |bound, limit: Option<u64>, spent, held: Outlay| {
            Some(Share { bound, unit: SpendUnit::Tokens, limit: limit?, spent, held: held.tokens })
        };
        let money = |bound, limit: Option<Cost>, spent: Cost, held: Outlay| {
            Some(Share { bound, unit: SpendUnit::Money, limit: limit?.0, spent: spent.0, held: held.cost.0 })
        };
        let nothing_held = Outlay::default(); // a run makes one call at a time
        let all = [
            tokens(SpendBound::Run, self.run_tokens, run.tokens, nothing_held),
            money(SpendBound::Run, self.run_cost, run.cost, nothing_held),
            tokens(SpendBound::Day, self.day_tokens, day.tokens, held),
            money(SpendBound::Day, self.day_cost, day.cost, held),
            tokens(SpendBound::TokensDay, self.tokens_per_day, day_tokens, held),
            tokens(SpendBound::TokensMinute, self.tokens_per_minute, minute_tokens, held),
        ];
        all.into_iter().flatten()
    }
}

impl PlannedCall {
    /// Decides about the call. Its answer is cut to the amount that is left for good. The call waits for amounts that
    /// come back: the rest of what other calls hold, and the next minute.
    pub fn decide(&self, bounds: &SpendBounds, spending: &Spending) -> SpendGrant {
        let least = LEAST_OUTPUT_TOKENS.min(self.output_tokens);
        let mut output_tokens = self.output_tokens;
        for share in bounds.shares(spending) {
            match self.longest(&share) {
                Some(longest) if longest >= least => output_tokens = output_tokens.min(longest),
                Some(_) | None => {
                    let never = self.room(&share, share.limit).is_none_or(|room| room < least);
                    return SpendGrant::Refused { bound: share.bound, never };
                }
            }
        }
        let fits = |share: Share| {
            let free = share.limit.saturating_sub(share.spent).saturating_sub(share.held);
            self.room(&share, free).is_some_and(|room| room >= output_tokens)
        };
        if !bounds.shares(spending).all(fits) {
            return SpendGrant::Later;
        }
        let held = Outlay {
            tokens: self.input_tokens.saturating_add(output_tokens),
            cost: Cost(self.input_cost.0.saturating_add(self.output_cost(output_tokens))),
        };
        SpendGrant::Granted { output_tokens, held }
    }

    /// The longest answer that the bound has room for, if no other call held anything. A minute that has too little
    /// left is as good as the next.
    fn longest(&self, share: &Share) -> Option<u64> {
        let left = self.room(share, share.limit.saturating_sub(share.spent));
        if share.bound != SpendBound::TokensMinute {
            return left;
        }
        let next = self.room(share, share.limit)?;
        let enough = self.output_tokens.min(ENOUGH_OUTPUT_TOKENS).min(next);
        Some(left.filter(|left| *left >= enough).unwrap_or(next))
    }

    /// Tokens of an answer for which `free` is enough, beside the prompt; none if the prompt alone is too much.
    fn room(&self, share: &Share, free: u64) -> Option<u64> {
        match share.unit {
            SpendUnit::Tokens => free.checked_sub(self.input_tokens),
            SpendUnit::Money => {
                let free = free.checked_sub(self.input_cost.0)?;
                let is_paid = self.output_price > 0.0;
                // Never more than there is: `as` stays within the type.
                Some(if is_paid { (free as f64 / self.output_price).floor() as u64 } else { u64::MAX })
            }
        }
    }

    /// Billionths of a US dollar.
    fn output_cost(&self, tokens: u64) -> u64 {
        (tokens as f64 * self.output_price.max(0.0)).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CALL: PlannedCall =
        PlannedCall { input_tokens: 100, output_tokens: 400, input_cost: Cost(1_000), output_price: 40.0 };

    fn granted(output_tokens: u64) -> SpendGrant {
        let cost = Cost(1_000 + output_tokens * 40);
        SpendGrant::Granted { output_tokens, held: Outlay { tokens: 100 + output_tokens, cost } }
    }

    fn refused(bound: SpendBound) -> SpendGrant {
        SpendGrant::Refused { bound, never: false }
    }

    fn day(tokens: u64) -> SpendBounds {
        SpendBounds { day_tokens: Some(tokens), ..SpendBounds::default() }
    }

    fn spent(tokens: u64, held: u64) -> Spending {
        let outlay = |tokens| Outlay { tokens, cost: Cost::default() };
        Spending { day: outlay(tokens), held: outlay(held), ..Spending::default() }
    }

    #[test]
    fn an_answer_is_cut_to_what_is_left_for_good() {
        let decide = |tokens, held| CALL.decide(&day(1_000), &spent(tokens, held));
        assert_eq!(CALL.decide(&SpendBounds::default(), &spent(9_999, 0)), granted(400));
        assert_eq!(decide(500, 0), granted(400));
        assert_eq!(decide(700, 0), granted(200));
        assert_eq!(decide(884, 0), granted(16));
        assert_eq!(decide(885, 0), refused(SpendBound::Day));
        assert_eq!(decide(2_000, 0), refused(SpendBound::Day));
    }

    #[test]
    fn what_others_hold_is_waited_for() {
        let decide = |tokens, held| CALL.decide(&day(1_000), &spent(tokens, held));
        assert_eq!(decide(0, 500), granted(400));
        assert_eq!(decide(0, 501), SpendGrant::Later);
        assert_eq!(decide(700, 1), SpendGrant::Later);
        assert_eq!(decide(900, 1), refused(SpendBound::Day), "nothing that comes back would be enough");
    }

    #[test]
    fn a_prompt_that_never_fits_is_told_so() {
        let never = |bound| SpendGrant::Refused { bound, never: true };
        assert_eq!(CALL.decide(&day(115), &spent(0, 0)), never(SpendBound::Day));
        let minute = SpendBounds { tokens_per_minute: Some(99), ..SpendBounds::default() };
        assert_eq!(CALL.decide(&minute, &Spending::default()), never(SpendBound::TokensMinute));
        let short = PlannedCall { output_tokens: 3, ..CALL };
        let held = Outlay { tokens: 103, cost: Cost(1_120) };
        assert_eq!(short.decide(&day(103), &spent(0, 0)), SpendGrant::Granted { output_tokens: 3, held });
    }

    #[test]
    fn a_minute_that_is_used_up_is_waited_for() {
        let bounds = SpendBounds { tokens_per_minute: Some(1_000), ..SpendBounds::default() };
        let decide = |minute_tokens| CALL.decide(&bounds, &Spending { minute_tokens, ..Spending::default() });
        assert_eq!(decide(500), granted(400));
        assert_eq!(decide(501), SpendGrant::Later);
        let long = PlannedCall { output_tokens: 50_000, ..CALL };
        let bounds = SpendBounds { tokens_per_minute: Some(10_000), ..SpendBounds::default() };
        let decide = |minute_tokens| long.decide(&bounds, &Spending { minute_tokens, ..Spending::default() });
        assert_eq!(decide(0), granted(9_900));
        assert_eq!(decide(8_000), granted(1_900), "enough for most answers");
        assert_eq!(decide(9_000), SpendGrant::Later);
    }

    #[test]
    fn money_bounds_an_answer_as_tokens_do() {
        let bounds = SpendBounds { run_cost: Some(Cost(11_000)), ..SpendBounds::default() };
        let decide = |cost| {
            let run = Outlay { tokens: 0, cost: Cost(cost) };
            CALL.decide(&bounds, &Spending { run, ..Spending::default() })
        };
        assert_eq!(decide(0), granted(250));
        assert_eq!(decide(8_000), granted(50));
        assert_eq!(decide(9_500), refused(SpendBound::Run));
        let free = PlannedCall { input_cost: Cost(0), output_price: 0.0, ..CALL };
        let run = Outlay { tokens: 0, cost: Cost(11_000) };
        let spending = Spending { run, ..Spending::default() };
        let held = Outlay { tokens: 500, cost: Cost(0) };
        assert_eq!(free.decide(&bounds, &spending), SpendGrant::Granted { output_tokens: 400, held });
    }

    proptest! {
        /// A grant always fits beside what is spent and held.
        #[test]
        fn nothing_is_granted_beyond_a_bound(
            limits in prop::array::uniform6(prop::option::of(0u64..5_000)),
            amounts in prop::array::uniform8(0u64..3_000),
            (input_tokens, output_tokens, input_cost, price) in (0u64..2_000, 0u64..5_000, 0u64..2_000, 0.0f64..3.0),
        ) {
            let [run_tokens, run_cost, day_tokens, day_cost, tokens_per_minute, tokens_per_day] = limits;
            let (run_cost, day_cost) = (run_cost.map(Cost), day_cost.map(Cost));
            let bounds =
                SpendBounds { run_tokens, run_cost, day_tokens, day_cost, tokens_per_minute, tokens_per_day };
            let [a, b, c, d, minute_tokens, day_tokens, e, f] = amounts;
            let outlay = |tokens, cost| Outlay { tokens, cost: Cost(cost) };
            let (run, day, held) = (outlay(a, b), outlay(c, d), outlay(e, f));
            let spending = Spending { run, day, minute_tokens, day_tokens, held };
            let call =
                PlannedCall { input_tokens, output_tokens, input_cost: Cost(input_cost), output_price: price };
            if let SpendGrant::Granted { output_tokens: granted, held } = call.decide(&bounds, &spending) {
                prop_assert!(granted <= output_tokens);
                prop_assert!(held.tokens == input_tokens + granted);
                for share in bounds.shares(&spending) {
                    let mine = match share.unit { SpendUnit::Tokens => held.tokens, SpendUnit::Money => held.cost.0 };
                    prop_assert!(share.spent + share.held + mine <= share.limit + 1, "{bounds:?} {spending:?}");
                }
            }
        }
    }
}
