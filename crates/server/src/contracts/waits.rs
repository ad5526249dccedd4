//! Calls that wait for the user or the client, and the parts into which they divide a run.
//!
//! Some contracts end an answer where its run waits, and the user's words begin another one. A part begins with the first
//! event of its run, or with the last of the words that were given. It ends with its run, or where every call without a
//! result waits. Both places follow from the log alone, so a part that is read again has the same bytes.

use protocol::{CallId, Event};

use super::AwaitedWord;

/// The calls of the newest step that have no result.
#[derive(Debug, Clone, Default)]
struct StepWaits {
    /// Calls that wait for nobody.
    pending: Vec<CallId>,
    waiting: Vec<(CallId, AwaitedWord)>,
    /// Calls that were decided while others wait. They are made when nothing waits any more.
    decided: Vec<CallId>,
    /// Words that were given since the run began.
    words: u32,
    /// How many of them were given before the run last went on.
    went_on_after: u32,
}

impl StepWaits {
    /// Takes in an event. Gives the word that it is, if the run waited for it.
    fn read(&mut self, event: &Event) -> Option<AwaitedWord> {
        if let Event::StepEnd(end) = event {
            self.pending = end.calls.iter().map(|call| call.id).collect();
            self.waiting.clear();
            self.decided.clear();
        } else if let Event::ProposalOpen(open) = event {
            self.wait(open.call_id, AwaitedWord::Decision(open.proposal_id));
        } else if let Event::CallOpen(open) = event {
            self.wait(open.call_id, AwaitedWord::Result(open.call_id));
        }
        let word = self.take_word(event)?;
        self.words += 1;
        if self.waiting.is_empty() {
            self.pending.append(&mut self.decided);
            self.went_on_after = self.words;
        }
        Some(word)
    }

    fn wait(&mut self, call: CallId, word: AwaitedWord) {
        self.forget(call);
        self.waiting.push((call, word));
    }

    fn take_word(&mut self, event: &Event) -> Option<AwaitedWord> {
        let call = if let Event::ProposalClosed(closed) = event {
            closed.call_id
        } else if let Event::ToolComplete(complete) = event {
            complete.call_id
        } else {
            return None;
        };
        let word = self.waiting.iter().find(|(waiting, _)| *waiting == call).map(|(_, word)| *word);
        self.forget(call);
        if word.is_some() && matches!(event, Event::ProposalClosed(_)) {
            self.decided.push(call);
        }
        word
    }

    fn forget(&mut self, call: CallId) {
        self.pending.retain(|other| *other != call);
        self.decided.retain(|other| *other != call);
        self.waiting.retain(|(other, _)| *other != call);
    }

    /// Whether the run can do nothing before another word is given.
    fn is_parked(&self) -> bool {
        !self.waiting.is_empty() && self.pending.is_empty()
    }
}

/// The first event of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PartStart {
    RunStart,
    /// The last of these words.
    Words(Vec<AwaitedWord>),
    /// The word with this number, from 1.
    Count(u32),
}

/// The place of an event relative to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartPlace {
    Before,
    /// The word that the part begins with.
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
        Self::starting(PartStart::RunStart)
    }

    /// The part that begins when all of these words are given.
    pub(crate) fn after_words(words: Vec<AwaitedWord>) -> Self {
        Self::starting(PartStart::Words(words))
    }

    /// The part that begins with the word of this number; the first one for 0.
    pub(crate) fn numbered(number: u32) -> Self {
        Self::starting(if number == 0 { PartStart::RunStart } else { PartStart::Count(number) })
    }

    fn starting(start: PartStart) -> Self {
        let is_open = start == PartStart::RunStart;
        Self { start, waits: StepWaits::default(), is_open, number: 0, previous: None }
    }

    pub(super) fn read(&mut self, event: &Event) -> PartPlace {
        let followed = self.waits.went_on_after;
        let word = self.waits.read(event);
        if self.is_open {
            return PartPlace::Inside;
        }
        let is_last = match (&mut self.start, word) {
            (PartStart::Words(words), Some(word)) => {
                words.retain(|awaited| *awaited != word);
                words.is_empty()
            }
            // The run ended without them.
            (PartStart::Words(_), None) => matches!(event, Event::RunEnd(_)),
            (PartStart::Count(count), Some(_)) => self.waits.words == *count,
            (PartStart::Count(_) | PartStart::RunStart, _) => false,
        };
        if !is_last {
            return PartPlace::Before;
        }
        (self.is_open, self.number, self.previous) = (true, self.waits.words, Some(followed));
        if word.is_some() { PartPlace::Opening } else { PartPlace::Inside }
    }

    /// Whether the part has begun. One that never does is not there.
    pub(super) fn has_begun(&self) -> bool {
        self.is_open
    }

    /// Whether the part ends here, because its run waits.
    pub(super) fn is_parked(&self) -> bool {
        self.is_open && self.waits.is_parked()
    }

    /// The words that its run waits for.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (CallId, AwaitedWord)> + '_ {
        self.waits.waiting.iter().copied()
    }

    /// How many words were given before it.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The number of the part before it.
    pub(super) fn previous(&self) -> Option<u32> {
        self.previous
    }
}
