//! The answer of an MCP server, as a model can read it.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::{Failed, ToolOutput};

/// Bytes of what a failing tool, or its server, says of itself.
const MAX_REASON_BYTES: usize = 4 * 1024;

/// As much of the reason for a failure as people read.
pub(super) fn reason(said: &str) -> &str {
    said.get(..said.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or_default()
}

/// The answer of a call. A result that the tool itself calls an error has failed.
pub(super) fn tool_output(result: CallToolResult) -> Result<ToolOutput, Failed> {
    let text = || result.content.iter().map(block).collect::<Vec<_>>().join("\n");
    if result.is_error == Some(true) {
        let text = text();
        let reason = match reason(&text) {
            empty if empty.trim().is_empty() => "the tool reported a failure without a reason",
            reason => reason,
        };
        return Err(Failed::new("tool_error", reason));
    }
    match result.structured_content {
        Some(structured) if !structured.is_null() => Ok(structured.into()),
        Some(_) | None => Ok(Value::String(text()).into()),
    }
}

/// One part of the content. A part that is not text is named and left out.
fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => left_out("an image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => left_out("a sound", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("{uri}:\n{text}"),
            ResourceContents::BlobResourceContents { uri, blob, mime_type, .. } => {
                format!(
                    "{uri}: {}",
                    left_out("a file", mime_type.as_deref().unwrap_or("of no known type"), blob)
                )
            }
            _ => "[a resource of an unknown kind was left out]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
        _ => "[content of an unknown kind was left out]".to_owned(),
    }
}

fn left_out(what: &str, kind: &str, base64: &str) -> String {
    format!("[{what}, {kind}, {} bytes, was left out]", base64.len() / 4 * 3)
}
