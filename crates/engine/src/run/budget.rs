//! What a run and its user may still spend. Before each model call as much is held as the call may use at most, so that
//! calls side by side keep to a bound together; what it did use is counted with the event that ends it.

use std::time::Duration;

use ::model::{Model, ModelRequest};
use app::{App, Budget};
use protocol::{Cost, Failure, SpendBound, SpendGrant, Usage};

use super::Run;
use super::decide::{BUDGET_EXCEEDED, Halt, MODEL_WITHOUT_PRICE, RATE_LIMITED, failure};
use crate::spending;

/// The first wait for what others hold, and the longest. The time of the run bounds all of them together.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Told to a user who has spent the day's budget.
pub(crate) const DAY_SPENT: &str =
    "what the app allows one user to use in a day (UTC) is used up; it starts anew tomorrow";

/// Why a call is not made.
pub(super) enum Unfunded {
    Halted(Halt),
    /// Nobody knows what this model costs; another may do.
    WithoutPrice(Failure),
    Refused(Failure),
}

impl Run {
    /// Holds what the call may use, and keeps its answer to that. Waits for what other calls of the user hold, and for the
    /// next minute where that is what is used up. `prompt` is the tokens of the request.
    pub(super) async fn fund(
        &self,
        model: &Model,
        request: &mut ModelRequest,
        prompt: u64,
    ) -> Result<Result<(), Unfunded>, store::Error> {
        let bounds = spending::bounds_of_run(&self.app);
        if bounds.is_none() {
            return Ok(Ok(()));
        }
        let Some(call) = spending::planned(model, request, prompt, &bounds) else {
            return Ok(Err(Unfunded::WithoutPrice(failure(MODEL_WITHOUT_PRICE, WITHOUT_PRICE))));
        };
        let mut wait = FIRST_LOOK;
        loop {
            match self.log.reserve(call, bounds).await? {
                SpendGrant::Granted { output_tokens, .. } => {
                    spending::bound_answer(request, output_tokens);
                    return Ok(Ok(()));
                }
                SpendGrant::Refused { bound, never } => {
                    return Ok(Err(Unfunded::Refused(refusal(&self.app, bound, never))));
                }
                SpendGrant::Later => {}
            }
            if let Ok(halt) = tokio::time::timeout(wait, self.halted()).await {
                return Ok(Err(Unfunded::Halted(halt)));
            }
            wait = (wait * 2).min(LONGEST_LOOK);
        }
    }
}

const WITHOUT_PRICE: &str = "the app's budget is in dollars, and nobody knows what this model costs; choose another \
    model, or give it a price in rondo.toml";

/// Why a call does not fit, for the user.
fn refusal(app: &App, bound: SpendBound, never: bool) -> Failure {
    let a_minute = app.user_limits.tokens_per_minute.unwrap_or_default();
    let a_day = app.user_limits.tokens_per_day.unwrap_or_default();
    let too_long = "what is said here is too long for what the app allows";
    match (bound, never) {
        (SpendBound::Run, true) => failure(BUDGET_EXCEEDED, &format!("{too_long} one answer to use")),
        (SpendBound::Run, false) => {
            failure(BUDGET_EXCEEDED, "this answer has used what the app allows one answer to use")
        }
        (SpendBound::Day, true) => {
            failure(BUDGET_EXCEEDED, &format!("{too_long} one user to use in a day; begin a new thread"))
        }
        (SpendBound::Day, false) => failure(BUDGET_EXCEEDED, DAY_SPENT),
        (SpendBound::TokensMinute, _) => {
            failure(RATE_LIMITED, &format!("{too_long} one user: {a_minute} tokens in a minute"))
        }
        (SpendBound::TokensDay, true) => {
            failure(RATE_LIMITED, &format!("{too_long} one user: {a_day} tokens in a day"))
        }
        (SpendBound::TokensDay, false) => {
            let message = format!(
                "this app spends {a_day} tokens for one user in a day (UTC); there are more tomorrow"
            );
            failure(RATE_LIMITED, &message)
        }
    }
}

/// Whether the app bounds what a user may spend in a day.
pub(crate) fn has_day(budget: &Budget) -> bool {
    budget.day_tokens.is_some() || budget.day_cost.is_some()
}

pub(crate) fn day_spent(budget: &Budget, spent: &Usage) -> bool {
    let is_reached = |limit: Option<u64>, spent: u64| limit.is_some_and(|limit| spent >= limit);
    is_reached(budget.day_tokens, spent.total())
        || is_reached(budget.day_cost.map(|Cost(limit)| limit), spent.cost.0)
}
