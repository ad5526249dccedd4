//! Summaries in place of the older parts of the conversation.

use app::Fragment;
use protocol::ThreadId;

use crate::context::{Fence, PromptPiece};

/// Kept under the thread, as the summary itself is.
pub(in crate::context) fn piece(thread: ThreadId, text: String) -> PromptPiece {
    PromptPiece::of_data(Fragment::Summaries, thread, text)
}

pub(super) fn text(pieces: &[&PromptPiece], fence: &Fence) -> String {
    super::paragraphs("What was said earlier in this conversation, in short and oldest first.", pieces, fence)
}
