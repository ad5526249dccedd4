//! What a run and its user may still spend. Looked at before each model call, so that at most one goes beyond.

use app::Budget;
use protocol::{Failure, Usage};

use super::Run;
use super::decide::{BUDGET_EXCEEDED, failure};
use super::state::RunState;

impl Run {
    /// Why no further model call may be made, if none may.
    pub(super) async fn over_budget(&self, state: &RunState) -> Result<Option<Failure>, store::Error> {
        let budget = &self.app.budget;
        if exceeds(&state.usage, budget.run_tokens, budget.run_cost) {
            let message = "this answer has used all that the app allows one answer to use";
            return Ok(Some(failure(BUDGET_EXCEEDED, message)));
        }
        if !has_day(budget) {
            return Ok(None);
        }
        let spent = self.store.usage_of_day(&self.scope, store::day(self.clock.now())).await?;
        Ok(day_spent(budget, &spent).then(|| failure(BUDGET_EXCEEDED, DAY_SPENT)))
    }
}

/// Told to a user who has spent the day's budget.
pub(crate) const DAY_SPENT: &str =
    "what the app allows one user to use in a day (UTC) is used up; it starts anew tomorrow";

/// Whether the app bounds what a user may spend in a day.
pub(crate) fn has_day(budget: &Budget) -> bool {
    budget.day_tokens.is_some() || budget.day_cost.is_some()
}

pub(crate) fn day_spent(budget: &Budget, spent: &Usage) -> bool {
    exceeds(spent, budget.day_tokens, budget.day_cost)
}

fn exceeds(usage: &Usage, tokens: Option<u64>, cost: Option<protocol::Cost>) -> bool {
    tokens.is_some_and(|limit| usage.total() >= limit) || cost.is_some_and(|limit| usage.cost >= limit)
}
