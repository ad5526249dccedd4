//! All of the user's memories, up to the app's limit, for apps that show all of them.

use app::Fragment;
use serde_json::Value;
use store::MemoryRow;

use crate::context::{Fence, PromptPiece};

pub(super) const INTRO: &str = "Relevant context about the user, one memory a line, each after its id.";

pub(in crate::context) fn piece(fragment: Fragment, memory: &MemoryRow) -> PromptPiece {
    // As a JSON string it stays on its line, whatever it holds.
    let line = format!("- {}: {}", memory.id, Value::from(memory.text.as_str()));
    PromptPiece::of_data(fragment, memory.id, line)
}

/// A memory with a remark about it.
pub(in crate::context) fn noted(fragment: Fragment, memory: &MemoryRow, remark: &str) -> PromptPiece {
    let line = format!("- {}: {} ({remark})", memory.id, Value::from(memory.text.as_str()));
    PromptPiece::of_data(fragment, memory.id, line)
}

pub(super) fn text(pieces: &[&PromptPiece], fence: &Fence) -> String {
    super::lines(INTRO, pieces, fence)
}
