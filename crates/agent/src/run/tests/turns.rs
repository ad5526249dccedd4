//! Turns that can happen to a run: one for each step it takes. The choices of a turn have a meaning for each kind of
//! step.

use fastrand::Rng;
use protocol::{Decision, Finish};

use crate::decide::Halt;

/// Calls a model may ask for at once, beyond what a step may hold.
const MAX_ASKED_CALLS: usize = 40;

/// The circumstances of one step of a run. Only those that fit the step play a part.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// Comes before the step.
    pub(super) halt: Option<Halt>,
    /// Comes after this number of commits of the step.
    pub(super) halt_later: Option<(u8, Halt)>,
    /// The process dies after this number of commits of the step.
    pub(super) crash: Option<u8>,
    pub(super) loaded: Loaded,
    /// The failures before the model ends.
    pub(super) tries: Vec<Try>,
    pub(super) said: Said,
    /// The outcomes of the calls, one after the other and then from the beginning.
    pub(super) fates: Vec<Fate>,
    /// Which of the calls under way goes on next.
    pub(super) order: Vec<u8>,
    /// The user's decisions about open proposals, as soon as there are some.
    pub(super) words: Vec<Decision>,
    /// The last result or decision of a run is recorded a second time.
    pub(super) echo: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Loaded {
    Prompt,
    /// Words of others are in the prompt.
    FromOutside,
    /// Something was remembered, and there is a question too.
    RememberedBeside,
    /// The message only asked to remember something.
    Remembered,
    Pinned,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Try {
    /// Failed before anything was streamed.
    Retry,
    /// Failed after some of it was.
    Reset,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Said {
    Words(Finish),
    Nothing(Finish),
    /// Calls, with or without words before them.
    Calls {
        count: usize,
        alike: Alike,
        words: bool,
        finish: Finish,
    },
    /// Every model has failed, before or after some of it was streamed.
    Failed {
        code: &'static str,
        streamed: bool,
    },
    OverBudget,
}

/// The likeness between the calls of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alike {
    /// Each is another.
    No,
    /// One call again and again, its fields in another order now and then.
    Same,
    /// Arguments that are no object.
    Unusable,
    /// All of this.
    Mixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Complete,
    /// The call is done, and its result has words of others.
    Outside,
    Failed,
    /// The arguments do not fit the tool.
    Unusable,
    /// Its tool may not be used.
    Denied,
    /// The call needs approval.
    Ask,
    Unknown,
}

impl Turn {
    /// Nothing goes wrong.
    pub(super) fn fair() -> Self {
        Self {
            halt: None,
            halt_later: None,
            crash: None,
            loaded: Loaded::Prompt,
            tries: Vec::new(),
            said: Said::Words(Finish::Stop),
            fates: vec![Fate::Complete],
            order: vec![0],
            words: vec![Decision::Confirmed],
            echo: false,
        }
    }

    /// The model never stops calling tools, and never in the same way.
    pub(super) fn stubborn() -> Self {
        let said = Said::Calls { count: 1, alike: Alike::No, words: true, finish: Finish::ToolCalls };
        Self { said, ..Self::fair() }
    }
}

/// How much goes wrong in a story.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mood {
    /// Little, so that the run gets far.
    Quiet,
    /// The run is told to stop sooner or later.
    Stopped,
    /// The process dies all the time.
    Dying,
}

impl Mood {
    /// In a hundred turns, those in which the run is told to stop, and those in which the process dies.
    fn percent(self) -> (u8, u8) {
        match self {
            Mood::Quiet => (1, 4),
            Mood::Stopped => (6, 20),
            Mood::Dying => (2, 80),
        }
    }
}

/// A throw decides all that happens in a turn. A throw of nothing is a fair turn, so that a story that is wrong can be
/// made simpler.
pub(super) fn turn(throw: u64, mood: Mood) -> Turn {
    if throw == 0 {
        return Turn::fair();
    }
    let dice = &mut Rng::with_seed(throw);
    let (halts, crashes) = mood.percent();
    Turn {
        halt: chance(dice, halts).then(|| halt(dice)),
        halt_later: chance(dice, halts).then(|| (dice.u8(0..8), halt(dice))),
        crash: chance(dice, crashes).then(|| dice.u8(0..5)),
        loaded: loaded(dice),
        tries: some(dice, 0..3, |dice| if dice.bool() { Try::Retry } else { Try::Reset }),
        said: said(dice),
        fates: some(dice, 1..5, fate),
        order: some(dice, 1..6, |dice| dice.u8(..)),
        words: some(dice, 0..4, decision),
        echo: chance(dice, 20),
    }
}

fn chance(dice: &mut Rng, percent: u8) -> bool {
    dice.u8(0..100) < percent
}

fn some<T>(dice: &mut Rng, count: std::ops::Range<usize>, one: fn(&mut Rng) -> T) -> Vec<T> {
    let count = dice.usize(count);
    (0..count).map(|_| one(dice)).collect()
}

fn halt(dice: &mut Rng) -> Halt {
    match dice.u8(0..3) {
        0 => Halt::Cancelled,
        1 => Halt::Interrupted,
        _ => Halt::TimedOut,
    }
}

fn finish(dice: &mut Rng) -> Finish {
    match dice.u8(0..12) {
        0..6 => Finish::Stop,
        6..10 => Finish::ToolCalls,
        10 => Finish::Length,
        _ => Finish::ContentFilter,
    }
}

fn loaded(dice: &mut Rng) -> Loaded {
    match dice.u8(0..40) {
        0..18 => Loaded::Prompt,
        18..28 => Loaded::FromOutside,
        28..38 => Loaded::RememberedBeside,
        38 => Loaded::Remembered,
        _ => Loaded::Pinned,
    }
}

fn said(dice: &mut Rng) -> Said {
    match dice.u8(0..40) {
        0..2 => Said::Words(finish(dice)),
        2..5 => Said::Nothing(finish(dice)),
        5 => {
            let codes = ["provider_unavailable", "context_too_long", "model_not_configured", "provider_auth"];
            Said::Failed { code: codes[dice.usize(0..codes.len())], streamed: dice.bool() }
        }
        6 => Said::OverBudget,
        _ => {
            let count = if chance(dice, 10) { dice.usize(4..=MAX_ASKED_CALLS) } else { dice.usize(1..4) };
            Said::Calls { count, alike: alike(dice), words: dice.bool(), finish: finish(dice) }
        }
    }
}

fn alike(dice: &mut Rng) -> Alike {
    match dice.u8(0..10) {
        0..6 => Alike::No,
        6 => Alike::Same,
        7 => Alike::Unusable,
        _ => Alike::Mixed,
    }
}

fn fate(dice: &mut Rng) -> Fate {
    match dice.u8(0..20) {
        0..8 => Fate::Complete,
        8..10 => Fate::Outside,
        10..12 => Fate::Failed,
        12..14 => Fate::Unusable,
        14 => Fate::Denied,
        15..19 => Fate::Ask,
        _ => Fate::Unknown,
    }
}

fn decision(dice: &mut Rng) -> Decision {
    match dice.u8(0..9) {
        0..4 => Decision::Confirmed,
        4..6 => Decision::Rejected,
        6 => Decision::Expired,
        7 => Decision::Superseded,
        _ => Decision::Withdrawn,
    }
}
