//! Earlier turns as they were: roles kept, calls with their results. Broken rows cause no failure.

use std::collections::{HashMap, HashSet};

use model::{CallResult, Exchange, PromptMessage};
use protocol::{Call, CallId, MessageId, Role, ToolComplete, ToolStatus};
use serde_json::Value;

use super::PastTurn;
use crate::context::{Context, Fence, fence, parts};
use crate::transcript::MessageTurn;

/// Bytes of a tool's result that the model is shown: what the registry keeps, and its note that there was more.
pub(in crate::context) const MAX_RESULT_BYTES: usize = tools::MAX_OUTPUT_BYTES + 256;

/// Bytes of a tool's name that providers take.
const MAX_NAME_BYTES: usize = 64;

const NO_RESULT: &str = "no result was recorded for this call";

/// The words in place of the user's before an answer that answers nothing, such as a greeting: providers refuse an empty
/// message, and some refuse a conversation that begins with an answer.
const NOTHING_SAID: &str = "(the user has said nothing)";

/// A message or two per turn, with these images; turns of unknown roles are left out.
pub(super) fn messages(
    turns: &[PastTurn],
    context: &Context,
    images: &HashSet<(MessageId, usize)>,
) -> Vec<PromptMessage> {
    // Not every provider takes a conversation that begins with an answer.
    let from_user = turns.iter().skip_while(|past| past.turn.role != Some(Role::User));
    let said = |past: &PastTurn| -> Vec<PromptMessage> {
        if past.turn.role != Some(Role::User) {
            return turn(&past.turn, &context.fence);
        }
        let text = fence::warned_message(&past.turn.text, context.is_suspicious(past.id));
        let is_shown = |place| images.contains(&(past.id, place));
        let said = parts::user_turn(&text, &past.turn.parts, is_shown);
        vec![PromptMessage::User(if said.text.is_empty() && said.images.is_empty() {
            NOTHING_SAID.into()
        } else {
            said
        })]
    };
    from_user.flat_map(said).collect()
}

/// A turn without its images.
pub(super) fn turn(turn: &MessageTurn, fence: &Fence) -> Vec<PromptMessage> {
    match turn.role {
        None => Vec::new(),
        Some(Role::User) if turn.is_silent() => vec![PromptMessage::User(NOTHING_SAID.into())],
        Some(Role::User) => vec![PromptMessage::User(turn.text_with_parts().into_owned().into())],
        Some(Role::Assistant) => {
            let results: HashMap<CallId, &ToolComplete> =
                turn.results.iter().map(|r| (r.call_id, r)).collect();
            let steps = turn.steps.iter().map(|step| PromptMessage::Assistant {
                text: step.text.clone(),
                exchanges: step
                    .calls
                    .iter()
                    .map(|call| exchange(call, results.get(&call.id).copied(), fence))
                    .collect(),
                provider: step.provider.clone(),
            });
            let mut said: Vec<PromptMessage> = steps.collect();
            let last_said = said.last().is_some_and(|last| text_of(last) == turn.text);
            if !turn.text.is_empty() && !last_said {
                said.push(PromptMessage::Assistant {
                    text: turn.text.clone(),
                    exchanges: Vec::new(),
                    provider: None,
                });
            }
            said
        }
    }
}

fn text_of(message: &PromptMessage) -> &str {
    match message {
        PromptMessage::User(said) => &said.text,
        PromptMessage::System(text) | PromptMessage::Assistant { text, .. } => text,
    }
}

/// A call with its result, made acceptable to every provider. A result that came from outside is marked as data.
pub(in crate::context) fn exchange(call: &Call, result: Option<&ToolComplete>, fence: &Fence) -> Exchange {
    Exchange {
        id: call.id,
        name: name(&call.name),
        input: if call.input.is_object() {
            call.input.clone()
        } else {
            Value::Object(serde_json::Map::new())
        },
        result: result.map_or_else(
            || CallResult { text: NO_RESULT.to_owned(), success: false },
            |result| CallResult {
                text: shown_result(result, MAX_RESULT_BYTES, fence),
                success: result.status == ToolStatus::Complete,
            },
        ),
    }
}

/// A result of at most `limit` bytes, with a handle to the rest.
pub(in crate::context) fn shown_result(result: &ToolComplete, limit: usize, fence: &Fence) -> String {
    let text = cut(&plain(&result.output), limit, &result.call_id);
    if result.outside { fence.wrap_marked(&text, result.suspicious) } else { text }
}

/// Text as it is, anything else as JSON.
pub(in crate::context) fn plain(output: &Value) -> String {
    output.as_str().map_or_else(|| output.to_string(), str::to_owned)
}

/// The text, or as much of its beginning as fits with a note that the rest is missing.
pub fn cap_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit);
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}\n[cut: {} of {} bytes shown]", kept.len(), text.len())
}

/// A text cut to a limit, where the whole can be read by its id.
pub(in crate::context) fn cut(text: &str, limit: usize, handle: &dyn std::fmt::Display) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    let (shown, all) = (kept.len(), text.len());
    format!(
        "{kept}\n[cut: {shown} of {all} bytes shown; the rest can be read with read_rest from {shown} of {handle}]"
    )
}

fn name(stored: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = stored.chars().map(allowed).take(MAX_NAME_BYTES).collect();
    if name.is_empty() { "unknown_tool".to_owned() } else { name }
}
