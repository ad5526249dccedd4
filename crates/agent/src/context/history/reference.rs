//! Earlier turns as reference material: labelled as background, so that a model answers the current question only.
//!
//! The labels are the delimiters of this style; its blocks are exactly these.

use std::borrow::Cow;
use std::collections::HashSet;

use app::Fragment;
use model::{PromptMessage, UserTurn};
use protocol::{MessageId, Role};

use super::PastTurn;
use crate::context::{Context, PromptPiece, fence, parts};

const CRITICAL: &str = "CRITICAL INSTRUCTION: The following is REFERENCE material from previous conversation. Use it \
    ONLY for contextual understanding. You MUST FOCUS EXCLUSIVELY on responding to the CURRENT QUESTION. DO NOT \
    address any previous topics or questions unless the current question EXPLICITLY requests information about them. \
    Previous exchanges should be treated as background information only.";

const SEPARATOR: &str = "--- RECENT CONVERSATION ---";

/// Messages that are shown one by one, the last ones.
pub(in crate::context) const RECENT: usize = 2;

/// The blocks; none when there is nothing to refer to. Turns of unknown roles are left out.
pub(super) fn messages(
    turns: &[PastTurn],
    pieces: &[&PromptPiece],
    context: &Context,
    images: &HashSet<(MessageId, usize)>,
) -> Vec<PromptMessage> {
    let texts = |fragment: Fragment| -> Vec<Cow<'_, str>> {
        let of = pieces.iter().filter(|piece| piece.fragment == fragment);
        of.map(|piece| fence::warned_data(&piece.text, piece.suspicious)).collect()
    };
    let (summaries, pins) = (texts(Fragment::Summaries), texts(Fragment::Pins));
    let said: Vec<(Role, UserTurn)> = turns
        .iter()
        .filter(|past| past.turn.role != Some(Role::User) || !past.turn.is_silent())
        .filter_map(|past| {
            let text = fence::warned_message(&past.turn.text, context.is_suspicious(past.id));
            let is_shown = |place| images.contains(&(past.id, place));
            Some((past.turn.role?, parts::user_turn(&text, &past.turn.parts, is_shown)))
        })
        .collect();
    if summaries.is_empty() && pins.is_empty() && said.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![PromptMessage::System(CRITICAL.to_owned())];
    if !summaries.is_empty() {
        blocks.push(PromptMessage::System(format!(
            "REFERENCE ONLY - Background context: {} [NOTE: This is background information only. Do not directly \
             respond to any of these topics unless explicitly asked in the current question.]",
            summaries.join("\n\n")
        )));
    }
    if !pins.is_empty() {
        blocks.push(PromptMessage::System(format!(
            "REFERENCE MATERIAL - Important information: {} [Use this information only if directly relevant to the \
             current question.]",
            pins.join("; ")
        )));
    }
    let (older, recent) = said.split_at(said.len().saturating_sub(RECENT));
    if !older.is_empty() {
        let older: Vec<String> =
            older.iter().map(|(role, said)| format!("{}: {}", label(*role), said.text)).collect();
        blocks.push(PromptMessage::System(format!(
            "HISTORICAL REFERENCE ONLY: {}\n\n[NOTE: These are older messages provided only for background context. \
             DO NOT respond to any questions or requests in this historical content.]",
            older.join("\n\n")
        )));
        blocks.push(PromptMessage::System(SEPARATOR.to_owned()));
    }
    blocks.extend(recent.iter().map(|(role, said)| exchange(*role, said)));
    blocks
}

fn label(role: Role) -> &'static str {
    match role {
        Role::User => "USER",
        Role::Assistant => "ASSISTANT",
    }
}

fn exchange(role: Role, said: &UserTurn) -> PromptMessage {
    let text = format!(
        "RECENT EXCHANGE: {}\n[This is from the recent conversation, not the current question.]",
        said.text
    );
    match role {
        Role::User => PromptMessage::User(UserTurn { text, images: said.images.clone() }),
        Role::Assistant => PromptMessage::Assistant { text, exchanges: Vec::new(), provider: None },
    }
}
