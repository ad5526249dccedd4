//! Token counts where nobody counted: a ratio that errs on the high side.

use model::{Message, Request};
use serde_json::Value;

/// Bytes a token stands for; fewer than in common prose, so that a prompt that seems to fit does.
const BYTES_PER_TOKEN: usize = 3;

/// What a message or call costs beside its text.
const TOKENS_PER_MESSAGE: usize = 8;

pub(crate) fn text(text: &str) -> usize {
    text.len() / BYTES_PER_TOKEN
}

pub(super) fn json(value: &Value) -> usize {
    value.to_string().len() / BYTES_PER_TOKEN
}

pub(super) fn message(message: &Message) -> usize {
    TOKENS_PER_MESSAGE
        + match message {
            Message::User(said) => text(said),
            Message::Assistant { text: said, exchanges, provider } => {
                let calls = exchanges
                    .iter()
                    .map(|call| TOKENS_PER_MESSAGE * 2 + json(&call.input) + text(&call.result.text));
                text(said) + calls.sum::<usize>() + provider.as_ref().map_or(0, json)
            }
        }
}

pub(crate) fn of_bytes(bytes: usize) -> u64 {
    (bytes / BYTES_PER_TOKEN) as u64
}

pub(crate) fn of_request(request: &Request) -> u64 {
    (text(&request.system) + request.messages.iter().map(message).sum::<usize>()) as u64
}
