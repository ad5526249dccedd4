//! Reading on where something was too long to be shown: a message, a tool's result, a document.

use async_trait::async_trait;
use protocol::{ActionId, CallId, DocumentId, MessageId};
use serde_json::json;

use super::{count, found_or_none, store_failure, text};
use crate::{Calling, Failed, Tool, ToolOutput};

/// Bytes that one call gives.
const MAX_BYTES: usize = 12 * 1024;

/// Pieces of a document that one call looks at.
const MAX_PIECES: usize = 32;

pub(crate) struct ReadRest;

#[async_trait]
impl Tool for ReadRest {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let id = text(&calling.input, "id").unwrap_or_default();
        let from = count(&calling.input, "from").unwrap_or(0);
        if let Ok(document) = id.parse() {
            return pieces(&calling, document, from).await;
        }
        let whole = match (id.parse::<MessageId>(), id.parse::<CallId>()) {
            (Ok(message), _) => message_text(&calling, message).await?,
            (_, Ok(call)) => result(&calling, call).await?,
            (Err(_), Err(_)) => None,
        };
        let whole = whole.ok_or_else(not_found)?;
        let from = whole.floor_char_boundary(from);
        let end = whole.floor_char_boundary(from.saturating_add(MAX_BYTES));
        let next = (end < whole.len()).then_some(end);
        Ok(json!({ "text": whole.get(from..end).unwrap_or_default(), "next": next }).into())
    }
}

fn not_found() -> Failed {
    Failed::new("not_found", "nothing with that id can be read; take the id from the note about the rest")
}

async fn message_text(calling: &Calling<'_>, message: MessageId) -> Result<Option<String>, Failed> {
    let found = calling.recall.messages(calling.scope, &[message]).await.map_err(store_failure)?;
    Ok(found.first().map(|item| item.text.to_string()))
}

async fn result(calling: &Calling<'_>, call: CallId) -> Result<Option<String>, Failed> {
    let action = found_or_none(calling.store.action_of(calling.scope, ActionId::from(call)).await)?;
    let Some(mut action) = action else { return Ok(None) };
    let forgotten = calling.recall.forgotten_words(calling.scope).await.map_err(store_failure)?;
    forgotten.clear_json(&mut action.output, action.started_at);
    Ok(Some(action.output.as_str().map_or_else(|| action.output.to_string(), str::to_owned)))
}

async fn pieces(calling: &Calling<'_>, document: DocumentId, from: usize) -> Result<ToolOutput, Failed> {
    let first = u32::try_from(from).unwrap_or(u32::MAX);
    let chunks =
        calling.store.chunks(calling.scope, document, first, MAX_PIECES).await.map_err(store_failure)?;
    if chunks.is_empty() {
        return Err(not_found());
    }
    let (mut texts, mut bytes, mut next) = (Vec::new(), 0, None);
    for chunk in &chunks {
        if bytes > 0 && bytes + chunk.text.len() > MAX_BYTES {
            next = Some(chunk.number);
            break;
        }
        bytes += chunk.text.len();
        texts.push(chunk.text.as_str());
    }
    let full = next.is_none() && chunks.len() == MAX_PIECES;
    let next = next.or_else(|| chunks.last().filter(|_| full).map(|chunk| chunk.number + 1));
    Ok(json!({ "text": texts.join("\n\n"), "next": next }).into())
}
