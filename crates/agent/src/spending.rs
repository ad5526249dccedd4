//! The most that a model call is going to use, and what an app lets it use.

use app::App;
use model::{Model, ModelRequest};
use protocol::{Cost, Effort, PlannedCall, SpendBounds, Usage};

/// Tokens of the longest answer of a model whose limit is not known. It holds only if money or tokens are bounded, and
/// the model is then told this limit.
const UNKNOWN_OUTPUT_TOKENS: u32 = 4_096;

/// Billionths of a US dollar for one token, if the price is one dollar for a million tokens.
const BILLIONTHS_PER_TOKEN: f64 = 1_000.0;

/// The bounds on the calls of a run of this app.
pub(crate) fn bounds_of_run(app: &App) -> SpendBounds {
    let budget = &app.budget;
    SpendBounds { run_tokens: budget.run_tokens, run_cost: budget.run_cost, ..bounds_of_user(app) }
}

/// The bounds on all calls for one user, those of work in the background too.
pub(crate) fn bounds_of_user(app: &App) -> SpendBounds {
    SpendBounds {
        run_tokens: None,
        run_cost: None,
        day_tokens: app.budget.day_tokens,
        day_cost: app.budget.day_cost,
        tokens_per_minute: app.user_limits.tokens_per_minute,
        tokens_per_day: app.user_limits.tokens_per_day,
    }
}

/// The most that the call can use. None if money is bounded and the model has no known price.
pub(crate) fn plan_call(
    model: &Model,
    request: &ModelRequest,
    input_tokens: u64,
    bounds: &SpendBounds,
) -> Option<PlannedCall> {
    let price = model.listing.price.map(|price| price.for_prompt(input_tokens));
    if price.is_none() && bounds.is_in_dollars() {
        return None;
    }
    let window = u64::from(model.capabilities().context_window);
    let output_tokens = u64::from(longest_answer(request)).min(window.saturating_sub(input_tokens).max(1));
    let input = Usage { input_tokens, ..Usage::default() };
    Some(PlannedCall {
        input_tokens,
        output_tokens,
        input_cost: price.map_or(Cost::default(), |price| price.cost(&input)),
        output_price: price.map_or(0.0, |price| price.output * BILLIONTHS_PER_TOKEN),
    })
}

/// Limits the answer of the model to `output_tokens`, its thinking included. The request has the limit only if it is
/// below the model's own, or if that is not known.
pub(crate) fn bound_answer(request: &mut ModelRequest, output_tokens: u64) {
    let most = u32::try_from(output_tokens).unwrap_or(u32::MAX);
    let is_known = request.settings.max_tokens.is_some() || request.max_output.is_some();
    if !is_known || longest_answer(request) > most {
        request.settings.max_tokens = Some(request.settings.max_tokens.map_or(most, |asked| asked.min(most)));
    }
    request.must_bound = true;
    request.max_output = Some(request.max_output.map_or(most, |longest| longest.min(most)));
}

/// The tokens of one answer may have: what was asked for, or what the model can do. Thinking may come on top of what was asked.
fn longest_answer(request: &ModelRequest) -> u32 {
    let thinks = request.settings.reasoning_effort.is_some_and(|effort| effort != Effort::None);
    match (request.settings.max_tokens, request.max_output) {
        (Some(asked), _) if !thinks => asked,
        (Some(asked), most) => asked.max(most.unwrap_or(UNKNOWN_OUTPUT_TOKENS)),
        (None, most) => most.unwrap_or(UNKNOWN_OUTPUT_TOKENS),
    }
}

#[cfg(test)]
mod tests {
    use protocol::Settings;

    use super::*;

    fn request(max_tokens: Option<u32>, max_output: Option<u32>, effort: Option<Effort>) -> ModelRequest {
        let settings = Settings { max_tokens, reasoning_effort: effort, ..Settings::default() };
        ModelRequest { settings, max_output, ..ModelRequest::new("m", "", Vec::new()) }
    }

    /// The bounds that are sent when this much is granted.
    fn bounded(mut request: ModelRequest, granted: u64) -> (Option<u32>, Option<u32>) {
        bound_answer(&mut request, granted);
        (request.settings.max_tokens, request.max_output)
    }

    #[test]
    fn the_longest_answer_is_what_was_asked_for_or_what_the_model_can_do() {
        assert_eq!(longest_answer(&request(Some(50), Some(900), None)), 50);
        assert_eq!(longest_answer(&request(Some(50), None, Some(Effort::None))), 50);
        assert_eq!(longest_answer(&request(Some(50), Some(900), Some(Effort::Low))), 900);
        assert_eq!(longest_answer(&request(None, Some(900), None)), 900);
        assert_eq!(longest_answer(&request(None, None, None)), UNKNOWN_OUTPUT_TOKENS);
    }

    #[test]
    fn a_model_is_told_a_bound_that_it_would_not_keep_by_itself() {
        assert_eq!(bounded(request(None, Some(900), None), 900), (None, Some(900)));
        assert_eq!(bounded(request(None, Some(900), None), 200), (Some(200), Some(200)));
        assert_eq!(bounded(request(Some(50), Some(900), None), 50), (Some(50), Some(50)));
        assert_eq!(bounded(request(Some(500), None, None), 200), (Some(200), Some(200)));
        assert_eq!(bounded(request(None, None, None), 4_096), (Some(4_096), Some(4_096)));
        let thinking = request(Some(50), Some(900), Some(Effort::High));
        assert_eq!(bounded(thinking.clone(), 900), (Some(50), Some(900)), "thinking comes on top");
        assert_eq!(bounded(thinking, 200), (Some(50), Some(200)));
    }
}
