//! A step that a crash has interrupted, in a run that was told to stop. The step does not begin again, and the text that
//! readers have seen of it is kept.

use protocol::{Event, Finish, Seq};

use super::Run;
use super::collect::Collected;
use crate::decide::Halt;
use crate::live;
use crate::state::RunState;

impl Run {
    /// Ends the step with the text that its deltas have in the log.
    pub(super) async fn end_interrupted_step(&self, state: &RunState) -> Result<Vec<Event>, store::Error> {
        let stopped = matches!(self.halt(), Some(Halt::Cancelled | Halt::Interrupted));
        let Some(step) = state.open.filter(|_| stopped) else { return Ok(Vec::new()) };
        let Some(since) = live::open_since(&self.world.store.facts(self.id).await?) else {
            return Ok(Vec::new());
        };
        let of = (self.thread, self.id);
        let (text, reasoning) = live::read_streamed_text(&self.world.store, of, since, Seq::MAX).await?;
        if text.is_empty() && reasoning.is_empty() {
            return Ok(Vec::new());
        }
        let end = Collected::of_log(step, text, reasoning).end(Finish::Cancelled, None);
        self.record(vec![Event::StepEnd(end)]).await
    }
}
