//! A run in a simple explanation: a few counts, and what has to come next because of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use app::{AtLimit, LoopLimits};
use protocol::{Call, CallId, Decision, Event, Finish, RunStatus, StepEnd, ToolComplete, ToolStatus};

use crate::decide::{Halt, NextStep, RunEnding};

/// The most calls of one step, and of one run, even if the model requests more.
const MOST_CALLS_OF_A_STEP: usize = 32;
const MOST_CALLS_OF_A_RUN: usize = 200 - 1 + MOST_CALLS_OF_A_STEP;

/// Times a step begins again because the process died.
const MOST_RESTARTS: u32 = 3;

/// The place of a call that has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Ready,
    AwaitsYes,
    AwaitsResult,
}

/// The outcome of the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Words,
    Silence,
    Calls,
    Cut { by_user: bool, excusable: bool },
}

/// The next step, without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Load,
    CallModel,
    Answer,
    RunTools(usize),
    Wait,
    Finish(RunStatus),
}

impl From<&NextStep> for Next {
    fn from(step: &NextStep) -> Self {
        match step {
            NextStep::Load => Next::Load,
            NextStep::CallModel => Next::CallModel,
            NextStep::Answer => Next::Answer,
            NextStep::RunTools(calls) => Next::RunTools(calls.len()),
            NextStep::Wait => Next::Wait,
            NextStep::Finish(RunEnding::Completed { .. }) => Next::Finish(RunStatus::Completed),
            NextStep::Finish(RunEnding::Other { status, .. }) => Next::Finish(*status),
        }
    }
}

/// An abstract run.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    loaded: bool,
    /// The message needed no model.
    replied: bool,
    steps: usize,
    begun: usize,
    open: bool,
    restarts: u32,
    last: Option<Last>,
    /// Steps at the end without words and calls.
    silent: usize,
    calls: usize,
    unanswered: BTreeMap<CallId, Open>,
    started: BTreeSet<CallId>,
    /// Calls of the step under way, in their order, and whether their arguments could be used.
    usable: Vec<(CallId, Option<bool>)>,
    /// The number of steps just before this one that had no usable call.
    unusable_before: u32,
    same: HashMap<String, u32>,
    pub(super) ended: Option<RunStatus>,
}

impl Model {
    /// Takes in what was committed. An error says which rule it breaks.
    pub(super) fn see(&mut self, event: &Event, limits: &LoopLimits) -> Result<(), String> {
        if self.ended.is_some() {
            return Err(format!("{:?} came after the end", event.kind()));
        }
        match event {
            Event::ContextLoaded(loaded) => {
                let reply = loaded.remembered.as_ref().and_then(|remembered| remembered.reply.as_ref());
                (self.loaded, self.replied) = (true, loaded.pinned.is_some() || reply.is_some());
            }
            Event::StepStart(start) => {
                (self.open, self.restarts, self.begun) = (true, 0, self.begun + 1);
                if self.begun != start.step as usize || !self.unanswered.is_empty() {
                    return Err(format!("step {} began as number {}", start.step, self.begun));
                }
            }
            Event::StepReset(reset) => {
                self.restarts += u32::from(reset.usage.is_none());
                if !self.open || self.restarts > MOST_RESTARTS {
                    return Err(format!("a step began again {} times", self.restarts));
                }
            }
            Event::StepEnd(step) => self.end_step(step, limits)?,
            Event::ProposalOpen(open) => match self.unanswered.insert(open.call_id, Open::AwaitsYes) {
                Some(Open::Ready) => {}
                was => return Err(format!("a proposal was opened for a call that was {was:?}")),
            },
            Event::CallOpen(open) => match self.unanswered.insert(open.call_id, Open::AwaitsResult) {
                Some(Open::Ready) => {}
                was => return Err(format!("a call was left to the client that was {was:?}")),
            },
            Event::ProposalClosed(closed) if closed.decision == Decision::Confirmed => {
                self.unanswered.insert(closed.call_id, Open::Ready);
            }
            Event::ToolStart(start) => {
                if !self.started.insert(start.call_id) || !self.unanswered.contains_key(&start.call_id) {
                    return Err("a call began twice, or has a result, or was never made".into());
                }
            }
            Event::ToolComplete(result) => self.end_call(result)?,
            Event::RunEnd(end) => {
                if !self.unanswered.is_empty() {
                    return Err(format!("the run ended with {} calls unanswered", self.unanswered.len()));
                }
                self.ended = Some(end.status);
            }
            Event::MessageUser(_)
            | Event::RunStart(_)
            | Event::TextDelta(_)
            | Event::ReasoningDelta(_)
            | Event::ToolInput(_)
            | Event::StepRetry(_)
            | Event::ProposalClosed(_)
            | Event::Source(_)
            | Event::StreamComplete(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => {}
        }
        Ok(())
    }

    fn end_call(&mut self, result: &ToolComplete) -> Result<(), String> {
        if self.unanswered.remove(&result.call_id).is_none() {
            return Err("a result came for a call that has one, or that was never made".into());
        }
        let unusable = result.status == ToolStatus::Failed && result.output["error"] == "invalid_arguments";
        if let Some((_, usable)) = self.usable.iter_mut().find(|(id, _)| *id == result.call_id) {
            *usable = Some(!unusable);
        }
        Ok(())
    }

    fn end_step(&mut self, step: &StepEnd, limits: &LoopLimits) -> Result<(), String> {
        self.unusable_before = self.unusable();
        self.usable = step.calls.iter().map(|call| (call.id, None)).collect();
        (self.open, self.restarts, self.steps) = (false, 0, self.steps + 1);
        self.calls += step.calls.len();
        let silent = step.text.trim().is_empty() && step.calls.is_empty();
        self.silent = if silent { self.silent + 1 } else { 0 };
        self.last = Some(last(step));
        for call in &step.calls {
            *self.same.entry(spelt(call)).or_default() += 1;
            if self.unanswered.insert(call.id, Open::Ready).is_some() {
                return Err("a call was made twice".into());
            }
        }
        // The app's steps, then an answer, then the answer once more where there was none.
        if self.steps > limits.max_steps as usize + 2 {
            return Err(format!(
                "the model was asked for {} steps of {}",
                self.steps, limits.max_steps as usize
            ));
        }
        if step.calls.len() > MOST_CALLS_OF_A_STEP || self.calls > MOST_CALLS_OF_A_RUN {
            return Err(format!("{} calls were made, {} in all", step.calls.len(), self.calls));
        }
        Ok(())
    }

    /// How many of the last calls, in the order they were made, had arguments that could not be used.
    fn unusable(&self) -> u32 {
        let answered: Vec<bool> = self.usable.iter().filter_map(|(_, usable)| *usable).collect();
        let trailing = answered.iter().rev().take_while(|usable| !**usable).count();
        let before = if trailing == answered.len() { self.unusable_before } else { 0 };
        before + u32::try_from(trailing).unwrap_or(u32::MAX)
    }

    fn has_had_its_turns(&self, limits: &LoopLimits) -> bool {
        let same = self.same.values().copied().max().unwrap_or(0);
        self.steps >= limits.max_steps as usize || self.calls >= 200 || same >= 5 || self.unusable() >= 3
    }

    pub(super) fn is_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Calls that wait for the user.
    pub(super) fn awaiting(&self) -> impl Iterator<Item = CallId> + '_ {
        self.unanswered.iter().filter(|(_, open)| **open == Open::AwaitsYes).map(|(id, _)| *id)
    }

    /// The step that has to come next.
    pub(super) fn next(&self, limits: &LoopLimits, halt: Option<Halt>) -> Next {
        match halt {
            Some(Halt::Cancelled) => return Next::Finish(RunStatus::Cancelled),
            Some(Halt::Interrupted) => return Next::Finish(RunStatus::Interrupted),
            Some(Halt::TimedOut) | None => {}
        }
        if let Some(Last::Cut { by_user, excusable }) = self.last {
            return Next::Finish(match by_user {
                false if excusable && limits.failure_reply.default.is_some() => RunStatus::Completed,
                false => RunStatus::Failed,
                true => RunStatus::Cancelled,
            });
        }
        if self.replied || self.is_answered(limits) {
            return Next::Finish(RunStatus::Completed);
        }
        match halt {
            _ if self.restarts >= MOST_RESTARTS => return Next::Finish(RunStatus::Interrupted),
            Some(Halt::TimedOut) => return Next::Finish(RunStatus::Failed),
            Some(Halt::Cancelled | Halt::Interrupted) | None => {}
        }
        let ready = self.unanswered.values().filter(|open| **open == Open::Ready).count();
        match (ready, self.unanswered.len()) {
            (0, 0) if !self.loaded => Next::Load,
            (0, 0) if self.silent > 0 || self.has_had_its_turns(limits) => Next::Answer,
            (0, 0) => Next::CallModel,
            (0, _) => Next::Wait,
            (ready, _) => Next::RunTools(ready),
        }
    }

    fn is_answered(&self, limits: &LoopLimits) -> bool {
        if self.open || self.is_unanswered() {
            return false;
        }
        match self.last {
            None | Some(Last::Cut { .. }) => false,
            Some(Last::Words) => true,
            Some(Last::Silence) => self.silent > 1,
            Some(Last::Calls) => limits.at_limit == AtLimit::Reply && self.has_had_its_turns(limits),
        }
    }
}

fn last(step: &StepEnd) -> Last {
    let code = step.error.as_ref().map_or("", |error| error.code.as_str());
    let excusable = ["provider_unavailable", "provider_auth", "context_too_long", "budget_exceeded"];
    match step.finish {
        Finish::Cancelled => Last::Cut { by_user: true, excusable: false },
        Finish::Failed => Last::Cut { by_user: false, excusable: excusable.contains(&code) },
        _ if !step.calls.is_empty() => Last::Calls,
        Finish::ContentFilter => Last::Words, // what was let through is the answer, were it nothing
        Finish::Stop | Finish::Length | Finish::ToolCalls if step.text.trim().is_empty() => Last::Silence,
        Finish::Stop | Finish::Length | Finish::ToolCalls => Last::Words,
    }
}

/// A call without its id. The arguments made here have at most two fields.
fn spelt(call: &Call) -> String {
    let mut fields: Vec<String> =
        call.input.as_object().into_iter().flatten().map(|(name, value)| format!("{name}={value}")).collect();
    fields.sort();
    format!("{} {fields:?} {:?}", call.name, call.raw)
}
