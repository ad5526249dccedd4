//! The money that a run and its user may still spend. Before each model call as much is held as the call may use at most, so that
//! calls side by side keep to a bound together; what it did use is counted with the event that ends it.

use std::time::Duration;

use ::model::{Model, ModelRequest};
use protocol::{Failure, SpendGrant};

use super::Run;
use crate::decide::{Halt, spend};
use crate::spending;

/// The first wait for what others hold, and the longest. The time of the run bounds all of them together.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Why a call is not made.
pub(super) enum Unfunded {
    Halted(Halt),
    /// This model has no known price. Another may have one.
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
        let Some(call) = spending::plan_call(model, request, prompt, &bounds) else {
            return Ok(Err(Unfunded::WithoutPrice(spend::without_price())));
        };
        let mut wait = FIRST_LOOK;
        loop {
            match self.log.reserve(call, bounds).await? {
                SpendGrant::Granted { output_tokens, .. } => {
                    spending::bound_answer(request, output_tokens);
                    return Ok(Ok(()));
                }
                SpendGrant::Refused { bound, never } => {
                    return Ok(Err(Unfunded::Refused(spend::refusal(&self.app, bound, never))));
                }
                SpendGrant::Later => {}
            }
            if let Ok(halt) = tokio::time::timeout(wait, self.wait_for_halt()).await {
                return Ok(Err(Unfunded::Halted(halt)));
            }
            wait = (wait * 2).min(LONGEST_LOOK);
        }
    }
}
