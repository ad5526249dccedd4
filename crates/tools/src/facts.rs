//! The constant properties of a tool, as data. An app changes one by writing another value.

use std::time::Duration;

use app::{FlowRule, Permission, Plausible};
use protocol::Effect;
use serde_json::Value;

/// The constant properties of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolFacts {
    /// The effect of a call on the world.
    pub effect: Effect,
    /// Whether a call acts, or looks, beyond this server. Then the outcome of an interrupted call cannot be known, and
    /// its output may hold words of any author.
    pub external: bool,
    /// Whether the client makes the calls: the run waits for each result.
    pub by_client: bool,
    /// Whether a call changes what later prompts are made of, such as memories and files.
    pub lasting: bool,
    /// Whether the user is asked first. Without a value the effect decides.
    pub permission: Option<Permission>,
    /// Flows that may cause a call once words from outside are in the prompt.
    pub flows: Vec<FlowRule>,
    /// Arguments that are expected. Where there are any, a call that fits none of them needs the user's approval.
    pub plausible: Vec<Plausible>,
    /// A text that stands for a call where there are no events to tell of it.
    pub marker: Option<String>,
    /// The longest that a call may take, tries again included, where that is less than the app allows.
    pub time_limit: Option<Duration>,
    /// Calls of one run that name the same thing here are made one after the other.
    pub exclusive: Option<&'static str>,
}

impl ToolFacts {
    /// A tool that changes what later prompts are made of, one call after the other.
    pub(crate) fn lasting(exclusive: &'static str) -> Self {
        let exclusive = Some(exclusive);
        Self { effect: Effect::Reversible, lasting: true, exclusive, ..Self::default() }
    }

    /// A tool whose calls change something here, one call after the other, and may be repeated.
    pub(crate) fn idempotent(exclusive: &'static str) -> Self {
        Self { effect: Effect::Idempotent, exclusive: Some(exclusive), ..Self::default() }
    }

    /// A tool that looks or acts beyond this server.
    pub fn external(effect: Effect) -> Self {
        Self { effect, external: true, ..Self::default() }
    }

    /// A tool whose calls the client makes. Its results may hold words of any author.
    pub(crate) fn of_client(effect: Effect) -> Self {
        Self { by_client: true, ..Self::external(effect) }
    }

    /// Whether the outcome of an interrupted call cannot be known: it acts elsewhere, and a second call would act
    /// twice.
    pub fn is_beyond_knowing(&self) -> bool {
        self.external && !is_repeatable(self.effect)
    }

    /// Whether a call may have changed something elsewhere, as soon as it has begun.
    pub fn changes_elsewhere(&self) -> bool {
        self.external && self.effect != Effect::Read
    }

    /// Whether the arguments are none that the app expects.
    pub(crate) fn is_unusual(&self, input: &Value) -> bool {
        !self.plausible.is_empty() && !self.plausible.iter().any(|plausible| plausible.fits(input))
    }
}

/// Whether a second call does nothing more than the first.
pub(crate) fn is_repeatable(effect: Effect) -> bool {
    match effect {
        Effect::Read | Effect::Idempotent => true,
        Effect::Reversible | Effect::Irreversible => false,
    }
}
