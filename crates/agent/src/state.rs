//! A run's state: a fold over its events and nothing else.

use std::collections::{HashMap, HashSet};

use protocol::{
    Call, CallId, ContextLoaded, Decision, Event, Failure, Finish, RunEnd, RunStart, StepEnd, ToolComplete,
    ToolStatus, Usage, canonical,
};

use tools::Taint;

use crate::transcript::MAX_CALLS_PER_STEP;

/// The name by which a flow knows the words of documents.
const DOCUMENTS: &str = "documents";

/// Everything a run has done so far, as its log tells it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunState {
    pub(crate) start: Option<RunStart>,
    pub(crate) context: Option<ContextLoaded>,
    /// Steps that have ended, with the results of their calls.
    pub(crate) steps: Vec<FinishedStep>,
    /// The step that has begun and not ended.
    pub(crate) open: Option<u32>,
    /// How often the open step began again.
    pub(crate) restarts: u32,
    /// Calls of the last step that have no result yet, in call order.
    pub(crate) pending: Vec<Call>,
    pub(crate) usage: Usage,
    pub(crate) answered: bool,
    pub(crate) end: Option<RunEnd>,
    /// Sources outside this server whose words are in the next prompt.
    taint: Taint,
    /// Sources whose words were in the prompt that the last step answered. Results of its calls do not change that.
    pub(crate) asked_with: Taint,
    /// Calls whose intent is committed.
    begun: HashSet<CallId>,
    /// Calls that wait for the user's approval.
    waiting: HashSet<CallId>,
    /// Calls that the user has approved.
    approved: HashSet<CallId>,
    /// Calls that wait for a result from the client. The decision on one of them, if there was any, came before.
    with_client: HashSet<CallId>,
    called: HashSet<CallId>,
    /// How often each call, by name and arguments, was made.
    repeats: HashMap<String, u32>,
}

/// A step that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinishedStep {
    pub(crate) step: StepEnd,
    /// In call order. They arrive in any, and a process may learn of them in another order than its log has them.
    pub(crate) results: Vec<ToolComplete>,
}

impl RunState {
    pub(crate) fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut state = Self::default();
        for event in events {
            state.apply(event);
        }
        state
    }

    /// Folds one event in. The only mutation there is.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStart(start) => self.start = Some(start.clone()),
            Event::ContextLoaded(loaded) => {
                self.taint.extend(loaded.outside.iter().cloned());
                if !loaded.documents.is_empty() {
                    self.taint.insert(DOCUMENTS.to_owned()); // documents can have words of third parties, too
                }
                self.context = Some(loaded.clone());
            }
            Event::StepStart(start) => (self.open, self.restarts) = (Some(start.step), 0),
            Event::StepReset(reset) => match reset.usage {
                Some(usage) => self.usage += usage,
                // A process that died has not told what it used.
                None => self.restarts += 1,
            },
            Event::StepEnd(step) => {
                self.asked_with.clone_from(&self.taint);
                self.end_step(step);
            }
            Event::ToolComplete(result) => self.end_call(result),
            Event::StreamComplete(_) => self.answered = true,
            Event::RunEnd(end) => self.end = Some(end.clone()),
            Event::ToolStart(start) => {
                self.begun.insert(start.call_id);
            }
            Event::ProposalOpen(open) => {
                self.waiting.insert(open.call_id);
            }
            Event::CallOpen(open) => {
                self.begun.insert(open.call_id);
                self.with_client.insert(open.call_id);
            }
            Event::ProposalClosed(closed) => {
                self.waiting.remove(&closed.call_id);
                if closed.decision == Decision::Confirmed {
                    self.approved.insert(closed.call_id);
                }
            }
            Event::MessageUser(_)
            | Event::TextDelta(_)
            | Event::ReasoningDelta(_)
            | Event::ToolInput(_)
            | Event::StepRetry(_)
            | Event::Source(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => {}
        }
    }

    fn end_step(&mut self, step: &StepEnd) {
        let mut step = step.clone();
        // The store lets no id in twice; a log written around it must not break the prompt.
        step.calls.retain(|call| self.called.insert(call.id));
        step.calls.truncate(MAX_CALLS_PER_STEP);
        self.open = None;
        self.restarts = 0;
        self.usage += step.usage;
        self.pending.clone_from(&step.calls);
        for call in &step.calls {
            *self.repeats.entry(fingerprint(call)).or_default() += 1;
        }
        self.steps.push(FinishedStep { step, results: Vec::new() });
    }

    fn end_call(&mut self, result: &ToolComplete) {
        self.pending.retain(|call| call.id != result.call_id);
        self.waiting.remove(&result.call_id);
        self.with_client.remove(&result.call_id);
        if result.outside {
            self.taint.insert(result.name.clone());
        }
        if let Some(FinishedStep { step, results }) = self.steps.last_mut() {
            let place = |id| step.calls.iter().position(|call| call.id == id).unwrap_or(usize::MAX);
            results.push(result.clone());
            results.sort_by_key(|result| place(result.call_id));
        }
    }

    /// The number of the step to call the model for.
    pub(crate) fn next_step_number(&self) -> u32 {
        self.open.unwrap_or_else(|| u32::try_from(self.steps.len()).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// The answer to a message that only asked to remember, to forget or to pin something.
    pub(crate) fn request_reply(&self) -> Option<&str> {
        let context = self.context.as_ref()?;
        let pinned = context.pinned.as_ref().map(|pinned| pinned.reply.as_str());
        let forgetting = context.forgetting.as_ref().map(|forgetting| forgetting.reply.as_str());
        pinned.or(forgetting).or_else(|| context.remembered.as_ref()?.reply.as_deref())
    }

    pub(crate) fn last(&self) -> Option<&StepEnd> {
        self.steps.last().map(|done| &done.step)
    }

    /// How the last step ended, if it ended the run with it.
    pub(crate) fn cut_short(&self) -> Option<(Finish, Option<Failure>)> {
        let last = self.last()?;
        match last.finish {
            Finish::Cancelled | Finish::Failed => Some((last.finish, last.error.clone())),
            Finish::Stop | Finish::Length | Finish::ToolCalls | Finish::ContentFilter => None,
        }
    }

    /// How many steps at the end said nothing and called nothing.
    pub(crate) fn trailing_silence(&self) -> usize {
        let silent = |done: &&FinishedStep| done.step.text.trim().is_empty() && done.step.calls.is_empty();
        self.steps.iter().rev().take_while(silent).count()
    }

    /// Whether any call was dealt with by a tool, or at least could have been.
    pub(crate) fn has_used_tools(&self) -> bool {
        self.steps.iter().flat_map(|done| &done.results).any(|result| !is_not_offered(result))
    }

    /// Whether all that the last step called was not on offer: then it gets no tools, and has to answer.
    pub(crate) fn called_nothing_on_offer(&self) -> bool {
        let last = self.steps.last().map(|done| done.results.as_slice()).unwrap_or_default();
        !last.is_empty() && last.iter().all(is_not_offered)
    }

    /// The calls that can be made now, in call order.
    pub(crate) fn ready(&self) -> Vec<Call> {
        self.pending.iter().filter(|call| !self.is_waiting(call.id)).cloned().collect()
    }

    /// Whether the call waits for the user or for the client.
    fn is_waiting(&self, call: CallId) -> bool {
        self.waiting.contains(&call) || self.with_client.contains(&call)
    }

    /// Whether the event decides or answers a call that waits.
    pub(crate) fn waits_for(&self, event: &Event) -> bool {
        if let Event::ProposalClosed(closed) = event {
            self.waiting.contains(&closed.call_id)
        } else if let Event::ToolComplete(result) = event {
            self.is_waiting(result.call_id)
        } else {
            false
        }
    }

    pub(crate) fn is_approved(&self, call: CallId) -> bool {
        self.approved.contains(&call)
    }

    pub(crate) fn has_begun(&self, call: CallId) -> bool {
        self.begun.contains(&call)
    }

    /// How often the most repeated call was made.
    pub(crate) fn most_repeated(&self) -> u32 {
        self.repeats.values().copied().max().unwrap_or(0)
    }

    /// How often this call was made up to now.
    pub(crate) fn repeat_count(&self, call: &Call) -> u32 {
        self.repeats.get(&fingerprint(call)).copied().unwrap_or(0)
    }

    pub(crate) fn calls(&self) -> usize {
        self.steps.iter().map(|done| done.step.calls.len()).sum()
    }

    /// How many of the last calls had arguments that could not be used.
    pub(crate) fn invalid_in_a_row(&self) -> usize {
        let latest_first = self.steps.iter().rev().flat_map(|done| done.results.iter().rev());
        latest_first.take_while(|result| is_invalid(result)).count()
    }
}

fn is_invalid(result: &ToolComplete) -> bool {
    let error = result.output.get("error").and_then(|error| error.as_str());
    result.status == ToolStatus::Failed && error == Some(INVALID_ARGUMENTS)
}

/// The `error` of a result whose call named a tool that its request did not offer.
pub(crate) const NOT_OFFERED: &str = "not_offered";

pub(crate) fn is_not_offered(result: &ToolComplete) -> bool {
    let error = result.output.get("error").and_then(|error| error.as_str());
    result.status == ToolStatus::Denied && error == Some(NOT_OFFERED)
}

/// The `error` of a result whose call could not be run as asked.
pub(crate) const INVALID_ARGUMENTS: &str = "invalid_arguments";

/// Name and arguments, so spelled that another order of fields does not hide a repetition.
fn fingerprint(call: &Call) -> String {
    format!("{}\u{0}{}{}", call.name, canonical(&call.input), call.raw.as_deref().unwrap_or(""))
}
