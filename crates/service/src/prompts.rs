//! Prompts of runs, as their owners ask for them.

use protocol::{Principal, PromptView, RunId};

use crate::{Error, Service};

impl Service {
    /// The prompt of a step, the last one unless another is asked for.
    pub async fn prompt(
        &self,
        principal: &Principal,
        run: RunId,
        step: Option<u32>,
    ) -> Result<PromptView, Error> {
        let row = agent::run_row(self.store(), principal, run).await?;
        agent::prompt_of_step(self.agent.world(), row, step).await
    }
}
