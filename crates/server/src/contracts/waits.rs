//! Calls that wait for the user or the client, and the parts into which they divide a run.
//!
//! Some contracts end a stream where its run waits. The decisions of the user and the results from the client begin the
//! next one. A part begins with the first event of its run, or with the last decision or result that the request gave.
//! It ends with its run, or where every call without a result waits. Both places follow from the log alone, so a part
//! that is read again has the same bytes.

use protocol::{CallId, Event};

use super::AwaitedAnswer;

/// The calls of the newest step that have no result.
#[derive(Debug, Clone, Default)]
struct StepWaits {
    /// Calls that wait for no decision and no result from the client.
    pending: Vec<CallId>,
    waiting: Vec<(CallId, AwaitedAnswer)>,
    /// Calls that were decided while others wait. They are made when nothing waits any more.
    decided: Vec<CallId>,
    /// The number of decisions and results that were given since the run began.
    answers: u32,
    /// How many of them were given before the run last went on.
    went_on_after: u32,
}

impl StepWaits {
    /// Takes in an event. Returns the decision or result in it, if the run waited for it.
    fn read(&mut self, event: &Event) -> Option<AwaitedAnswer> {
        if let Event::StepEnd(end) = event {
            self.pending = end.calls.iter().map(|call| call.id).collect();
            self.waiting.clear();
            self.decided.clear();
        } else if let Event::ProposalOpen(open) = event {
            self.wait(open.call_id, AwaitedAnswer::Decision(open.proposal_id));
        } else if let Event::CallOpen(open) = event {
            self.wait(open.call_id, AwaitedAnswer::Result(open.call_id));
        }
        let answer = self.take_answer(event)?;
        self.answers += 1;
        if self.waiting.is_empty() {
            self.pending.append(&mut self.decided);
            self.went_on_after = self.answers;
        }
        Some(answer)
    }

    fn wait(&mut self, call: CallId, answer: AwaitedAnswer) {
        self.forget(call);
        self.waiting.push((call, answer));
    }

    fn take_answer(&mut self, event: &Event) -> Option<AwaitedAnswer> {
        let call = if let Event::ProposalClosed(closed) = event {
            closed.call_id
        } else if let Event::ToolComplete(complete) = event {
            complete.call_id
        } else {
            return None;
        };
        let answer = self.waiting.iter().find(|(waiting, _)| *waiting == call).map(|(_, answer)| *answer);
        self.forget(call);
        if answer.is_some() && matches!(event, Event::ProposalClosed(_)) {
            self.decided.push(call);
        }
        answer
    }

    fn forget(&mut self, call: CallId) {
        self.pending.retain(|other| *other != call);
        self.decided.retain(|other| *other != call);
        self.waiting.retain(|(other, _)| *other != call);
    }

    /// Whether the run can do nothing before another decision or result is given.
    fn is_parked(&self) -> bool {
        !self.waiting.is_empty() && self.pending.is_empty()
    }
}

/// The first event of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PartStart {
    RunStart,
    /// The last of these decisions and results.
    Answers(Vec<AwaitedAnswer>),
    /// The decision or result with this number, from 1.
    Count(u32),
}

/// The place of an event relative to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartPlace {
    Before,
    /// The decision or result that the part begins with.
    Opening,
    Inside,
}

/// One part of a run, as far as it was read.
#[derive(Debug, Clone)]
pub(crate) struct RunPart {
    start: PartStart,
    waits: StepWaits,
    is_open: bool,
    /// Words that were given before the part, and before the one that it follows.
    number: u32,
    previous: Option<u32>,
}

impl RunPart {
    /// The part that begins with the run.
    pub(crate) fn first() -> Self {
        Self::starting_at(PartStart::RunStart)
    }

    /// The part that begins when all of these decisions and results are given.
    pub(crate) fn after_answers(answers: Vec<AwaitedAnswer>) -> Self {
        Self::starting_at(PartStart::Answers(answers))
    }

    /// The part that begins with the decision or result of this number. The number 0 is the first part.
    pub(crate) fn with_number(number: u32) -> Self {
        Self::starting_at(if number == 0 { PartStart::RunStart } else { PartStart::Count(number) })
    }

    fn starting_at(start: PartStart) -> Self {
        let is_open = start == PartStart::RunStart;
        Self { start, waits: StepWaits::default(), is_open, number: 0, previous: None }
    }

    pub(super) fn read(&mut self, event: &Event) -> PartPlace {
        let followed = self.waits.went_on_after;
        let answer = self.waits.read(event);
        if self.is_open {
            return PartPlace::Inside;
        }
        let is_last = match (&mut self.start, answer) {
            (PartStart::Answers(answers), Some(answer)) => {
                answers.retain(|awaited| *awaited != answer);
                answers.is_empty()
            }
            // The run ended without them.
            (PartStart::Answers(_), None) => matches!(event, Event::RunEnd(_)),
            (PartStart::Count(count), Some(_)) => self.waits.answers == *count,
            (PartStart::Count(_) | PartStart::RunStart, _) => false,
        };
        if !is_last {
            return PartPlace::Before;
        }
        (self.is_open, self.number, self.previous) = (true, self.waits.answers, Some(followed));
        if answer.is_some() { PartPlace::Opening } else { PartPlace::Inside }
    }

    /// Whether the part has begun. One that never does is not there.
    pub(super) fn has_begun(&self) -> bool {
        self.is_open
    }

    /// Whether the part ends here, because its run waits.
    pub(super) fn is_parked(&self) -> bool {
        self.is_open && self.waits.is_parked()
    }

    /// The decisions and results that its run waits for.
    pub(super) fn awaited_answers(&self) -> impl Iterator<Item = (CallId, AwaitedAnswer)> + '_ {
        self.waits.waiting.iter().copied()
    }

    /// The number of decisions and results before the part.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The number of the part before it.
    pub(super) fn previous(&self) -> Option<u32> {
        self.previous
    }
}
