//! The money a user may still spend, and why a model call is refused that would spend more.

use app::{App, AppBudget};
use protocol::{Cost, Failure, SpendBound, Usage};

use super::{BUDGET_EXCEEDED, MODEL_WITHOUT_PRICE, RATE_LIMITED, failure};

/// Told to a user who has spent the day's budget.
pub const DAY_SPENT: &str = "the app's daily budget (UTC) for one user is used up; try again tomorrow";

const WITHOUT_PRICE: &str = "the app's budget is in dollars, and the price of this model is not known; \
    choose another model, or give it a price in rondo.toml";

/// The failure of a call to a model without a known price, if money is bounded.
pub(crate) fn without_price() -> Failure {
    failure(MODEL_WITHOUT_PRICE, WITHOUT_PRICE)
}

/// Why a call does not fit, for the user.
pub(crate) fn refusal(app: &App, bound: SpendBound, never: bool) -> Failure {
    let a_minute = app.user_limits.tokens_per_minute.unwrap_or_default();
    let a_day = app.user_limits.tokens_per_day.unwrap_or_default();
    let too_long = "this thread is too long for the app's";
    match (bound, never) {
        (SpendBound::Run, true) => {
            failure(BUDGET_EXCEEDED, &format!("{too_long} budget for one answer; begin a new thread"))
        }
        (SpendBound::Run, false) => failure(
            BUDGET_EXCEEDED,
            "this answer has used the app's budget for one answer; ask for a smaller part",
        ),
        (SpendBound::Day, true) => {
            failure(BUDGET_EXCEEDED, &format!("{too_long} daily budget for one user; begin a new thread"))
        }
        (SpendBound::Day, false) => failure(BUDGET_EXCEEDED, DAY_SPENT),
        (SpendBound::TokensMinute, _) => failure(
            RATE_LIMITED,
            &format!("{too_long} rate limit for one user, {a_minute} tokens in a minute; begin a new thread"),
        ),
        (SpendBound::TokensDay, true) => failure(
            RATE_LIMITED,
            &format!("{too_long} rate limit for one user, {a_day} tokens in a day; begin a new thread"),
        ),
        (SpendBound::TokensDay, false) => {
            let message =
                format!("this app spends {a_day} tokens for one user in a day (UTC); try again tomorrow");
            failure(RATE_LIMITED, &message)
        }
    }
}

/// Whether the app bounds what a user may spend in a day.
pub fn has_day(budget: &AppBudget) -> bool {
    budget.day_tokens.is_some() || budget.day_cost.is_some()
}

/// Whether the user has spent what the app allows in a day.
pub fn day_spent(budget: &AppBudget, spent: &Usage) -> bool {
    let is_reached = |limit: Option<u64>, spent: u64| limit.is_some_and(|limit| spent >= limit);
    is_reached(budget.day_tokens, spent.total())
        || is_reached(budget.day_cost.map(|Cost(limit)| limit), spent.cost.0)
}
