//! The wish of a message to the model, as a small program inside the message: the model has no state, and derives the
//! step from the conversation it is shown, so that retries and restarts are consistent by themselves.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The tools that programs call, and how often.
const TOOLS: [(&str, u32); 9] = [
    ("look", 29),
    ("put", 16),
    ("pay", 16),
    ("book", 12),
    ("note", 12),
    ("slow", 8),
    ("ask", 4),
    ("garbage", 2),
    ("huge", 1),
];
const MOST_STEPS: usize = 4;
const MOST_CALLS: usize = 4;
/// Milliseconds.
const LONGEST_PACE: u64 = 15;
/// The pace of a program that takes many seconds.
const SLOW_PACE: std::ops::RangeInclusive<u64> = 40..=120;
/// Of a hundred programs, how many have a fault.
const FAULTS: u8 = 8;

/// The text of a message is this as JSON, and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MessageProgram {
    /// Names the message, and its run, for ever.
    pub(crate) tag: String,
    /// The user's word.
    pub(crate) canary: String,
    pub(crate) steps: Vec<ProgramStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<Fault>,
    /// Milliseconds between two pieces of a reply.
    pub(crate) pace: u64,
}

/// One answer of the model: a number of words, then these calls. A step without calls is the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProgramStep {
    pub(crate) say: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<(String, Value)>,
}

/// A fault upstream, on the first attempt at a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) step: usize,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FaultKind {
    /// 429 with `retry-after: 0`.
    RateLimited,
    /// 503.
    Unavailable,
    /// The connection is cut half-way.
    Cut,
    /// An error event half-way.
    ErrorEvent,
}

impl MessageProgram {
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text.trim()).ok()
    }

    /// Something for a user to ask. The tag must be new.
    pub(crate) fn draw(tag: &str, canary: &str, rng: &mut Rng) -> Self {
        let count = rng.usize(1..=MOST_STEPS);
        let mut number = 0;
        let steps = (1..=count).map(|step| {
            let calls = if step < count { rng.usize(1..=MOST_CALLS) } else { 0 };
            let calls = (0..calls).map(|_| {
                number += 1;
                (tool(rng).to_owned(), json!({ "tag": tag, "n": number }))
            });
            ProgramStep { calls: calls.collect(), say: rng.usize(5..=200) }
        });
        let steps = steps.collect();
        let fault = (rng.u8(0..100) < FAULTS).then(|| Fault {
            step: rng.usize(0..count),
            kind: match rng.u8(0..4) {
                0 => FaultKind::RateLimited,
                1 => FaultKind::Unavailable,
                2 => FaultKind::Cut,
                _ => FaultKind::ErrorEvent,
            },
        });
        let pace = rng.u64(0..=LONGEST_PACE);
        Self { tag: tag.to_owned(), canary: canary.to_owned(), steps, fault, pace }
    }
}

impl MessageProgram {
    /// Returns the program so slow that it is still under way when another node has taken over its run.
    pub(crate) fn slow_down(self, rng: &mut Rng) -> Self {
        Self { pace: rng.u64(SLOW_PACE), ..self }
    }
}

fn tool(rng: &mut Rng) -> &'static str {
    let all: u32 = TOOLS.iter().map(|(_, weight)| weight).sum();
    let mut left = rng.u32(0..all);
    for (name, weight) in TOOLS {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return name,
        }
    }
    "look"
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_program_survives_being_a_message() {
        let mut rng = Rng::with_seed(7);
        for number in 0..1000 {
            let program = MessageProgram::draw(&format!("t0-{number}"), "canary-a", &mut rng);
            assert_eq!(MessageProgram::parse(&program.text()), Some(program));
        }
        assert_eq!(MessageProgram::parse("Name three rivers."), None);
    }

    #[test]
    fn a_program_keeps_its_bounds_and_ends() {
        let mut rng = Rng::with_seed(7);
        let programs: Vec<MessageProgram> =
            (0..2000).map(|n| MessageProgram::draw(&format!("t{n}"), "c", &mut rng)).collect();
        for program in &programs {
            let (last, before) = program.steps.split_last().unwrap();
            assert!(last.calls.is_empty() && before.len() < MOST_STEPS, "{program:?}");
            assert!(before.iter().all(|step| (1..=MOST_CALLS).contains(&step.calls.len())), "{program:?}");
            assert!(program.steps.iter().all(|step| (5..=200).contains(&step.say)), "{program:?}");
            assert!(
                program.fault.as_ref().is_none_or(|fault| fault.step < program.steps.len()),
                "{program:?}"
            );
            let calls = || program.steps.iter().flat_map(|step| &step.calls);
            assert!(calls().all(|(_, input)| input["tag"] == program.tag.as_str()), "{program:?}");
            let numbers: HashSet<u64> = calls().map(|(_, input)| input["n"].as_u64().unwrap()).collect();
            assert_eq!(numbers.len(), calls().count(), "{program:?}");
        }
        let called: HashSet<&str> = programs
            .iter()
            .flat_map(|program| &program.steps)
            .flat_map(|step| &step.calls)
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(called, TOOLS.iter().map(|(name, _)| *name).collect());
        let faults = programs.iter().filter(|program| program.fault.is_some()).count();
        assert!((100..=220).contains(&faults), "{faults} of 2000");
    }

    #[test]
    fn the_same_seed_draws_the_same_program() {
        let draw = |seed| MessageProgram::draw("t", "c", &mut Rng::with_seed(seed));
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
