//! Earlier messages that are too long to be shown whole: their beginning, and a handle by which the rest can be read.

use std::borrow::Cow;

use serde_json::Value;

use super::PastTurn;
use super::plain::{cut, plain};

/// Bytes of a text that are shown at least.
pub(super) const MIN_BYTES: usize = 200;

/// The texts of a turn: what was said, what was said between calls, and what calls returned.
pub(super) fn texts(past: &PastTurn) -> impl Iterator<Item = Cow<'_, str>> {
    let turn = &past.turn;
    let said = std::iter::once(&turn.text).chain(turn.steps.iter().map(|step| &step.text));
    let returned = turn.results.iter().map(|result| Cow::Owned(plain(&result.output)));
    said.map(|text| Cow::Borrowed(text.as_str())).chain(returned)
}

/// Cuts every text of a turn to at most `bytes` bytes.
pub(in crate::context) fn shorten(past: &mut PastTurn, bytes: usize) {
    let bytes = bytes.max(MIN_BYTES);
    let PastTurn { id, turn, .. } = past;
    for step in &mut turn.steps {
        if step.text.len() > bytes {
            step.text = cut(&step.text, bytes, id);
            step.provider = None; // it holds the whole text again
        }
    }
    for result in &mut turn.results {
        let output = plain(&result.output);
        if output.len() > bytes {
            result.output = Value::from(cut(&output, bytes, &result.call_id));
        }
    }
    turn.text = cut(&turn.text, bytes, id);
}
