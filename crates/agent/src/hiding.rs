//! Forgotten words in what is stored: wherever it goes to a model, into a list of actions or into the view of a prompt,
//! `[forgotten]` stands in their place. The stored rows stay as they are, so that a restored memory brings all of it back.

use jiff::Timestamp;
use memory::tombstone::Forgotten;
use protocol::{ContextLoaded, MessagePart, StepEnd};
use store::ActionRow;

use crate::state::FinishedStep;
use crate::transcript::MessageTurn;

/// Hides them in a message with its calls and their results.
pub(crate) fn hide_in_turn(turn: &mut MessageTurn, forgotten: &Forgotten, said_at: Timestamp) {
    if !forgotten.reaches(said_at) {
        return;
    }
    hide(&mut turn.text, forgotten, said_at);
    for part in &mut turn.parts {
        hide_in_part(part, forgotten, said_at);
    }
    for step in &mut turn.steps {
        hide_in_step(step, forgotten, said_at);
    }
    for result in &mut turn.results {
        forgotten.clear_json(&mut result.output, said_at);
    }
}

/// Hides them in the name of a part.
fn hide_in_part(part: &mut MessagePart, forgotten: &Forgotten, said_at: Timestamp) {
    match part {
        MessagePart::Image { name: Some(name), .. } | MessagePart::Document { name, .. } => {
            hide(name, forgotten, said_at);
        }
        MessagePart::Image { name: None, .. } => {}
    }
}

/// Hides them in a step of the run under way.
pub(crate) fn hide_in_done(done: &mut FinishedStep, forgotten: &Forgotten, said_at: Timestamp) {
    hide_in_step(&mut done.step, forgotten, said_at);
    for result in &mut done.results {
        forgotten.clear_json(&mut result.output, said_at);
    }
}

/// Data that only the provider can read may hold them too, and cannot be looked into: it goes.
fn hide_in_step(step: &mut StepEnd, forgotten: &Forgotten, said_at: Timestamp) {
    if !forgotten.reaches(said_at) {
        return;
    }
    step.provider = None;
    hide(&mut step.text, forgotten, said_at);
    if let Some(reasoning) = &mut step.reasoning {
        hide(reasoning, forgotten, said_at);
    }
    for call in &mut step.calls {
        forgotten.clear_json(&mut call.input, said_at);
        if let Some(raw) = &mut call.raw {
            hide(raw, forgotten, said_at);
        }
    }
}

/// Hides them in what is told of an action.
pub fn hide_in_action(row: &mut ActionRow, forgotten: &Forgotten) {
    let said_at = row.started_at;
    forgotten.clear_json(&mut row.input, said_at);
    forgotten.clear_json(&mut row.output, said_at);
}

/// Hides them in what a run noted of its prompt.
pub(crate) fn hide_in_loaded(loaded: &mut ContextLoaded, forgotten: &Forgotten, said_at: Timestamp) {
    for line in &mut loaded.proposals {
        hide(line, forgotten, said_at);
    }
}

fn hide(text: &mut String, forgotten: &Forgotten, said_at: Timestamp) {
    if let std::borrow::Cow::Owned(cleared) = forgotten.clear(text, said_at) {
        *text = cleared;
    }
}
