//! A step that a crash has cut, in a run that was told to stop: it does not begin again, and what readers have seen of it
//! is kept.

use protocol::{Event, Finish};

use super::Run;
use super::collect::Collected;
use crate::decide::Halt;
use crate::live;
use crate::state::RunState;

impl Run {
    /// Ends the step with the text that its deltas have in the log.
    pub(super) async fn end_cut_step(&self, state: &RunState) -> Result<Vec<Event>, store::Error> {
        let stopped = matches!(self.halt(), Some(Halt::Cancelled | Halt::Interrupted));
        let Some(step) = state.open.filter(|_| stopped) else { return Ok(Vec::new()) };
        let Some(mut seen) = live::open_since(&self.world.store.facts(self.id).await?) else {
            return Ok(Vec::new());
        };
        let (mut text, mut reasoning) = (String::new(), String::new());
        loop {
            let events = self.world.store.events(self.thread, Some(self.id), seen).await?;
            let Some(last) = events.last() else { break };
            seen = last.seq;
            for event in &events {
                match Event::read(&event.kind, &event.body) {
                    Ok(Event::TextDelta(piece)) => text.push_str(&piece.delta),
                    Ok(Event::ReasoningDelta(piece)) => reasoning.push_str(&piece.delta),
                    Ok(_) | Err(_) => {}
                }
            }
        }
        if text.is_empty() && reasoning.is_empty() {
            return Ok(Vec::new());
        }
        let end = Collected::of_log(step, text, reasoning).end(Finish::Cancelled, None);
        self.record(vec![Event::StepEnd(end)]).await
    }
}
