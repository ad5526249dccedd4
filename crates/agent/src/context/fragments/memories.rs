//! All of the user's memories, up to the app's limit, for apps that show all of them.

use app::Fragment;
use serde_json::Value;
use store::MemoryRow;

use crate::context::PromptPiece;

/// A memory, with a remark about it if there is one.
pub(in crate::context) fn piece(fragment: Fragment, memory: &MemoryRow, remark: Option<&str>) -> PromptPiece {
    let remark = remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
    // A JSON string has no line breaks, so each memory stays on one line.
    let line = format!("- {}: {}{remark}", memory.id, Value::from(memory.text.as_str()));
    PromptPiece::of_data(fragment, memory.id, line)
}
