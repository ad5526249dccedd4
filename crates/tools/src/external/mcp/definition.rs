//! The definition of a tool by its MCP server: pinned by a hash over all of it, and named so that no two servers get in each other's way.

use model::ToolSpec;
use protocol::canonical;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use store::McpOffer;

use crate::external::border::clean;

/// Bytes of a tool's name that providers accept.
const MAX_NAME: usize = 64;

/// Stands between the server's name and the tool's.
pub(super) const SEPARATOR: &str = "__";

/// Hexadecimal digits that tell names apart which had to be cut.
const NAME_HASH_DIGITS: usize = 8;

/// Characters of a description that a model is shown.
const MAX_DESCRIPTION_CHARS: usize = 4_096;

/// The definition of a tool, as it is pinned.
pub(super) fn offer(tool: &rmcp::model::Tool) -> McpOffer {
    let mut definition = serde_json::to_value(tool).unwrap_or_default();
    if let Some(fields) = definition.as_object_mut() {
        fields.remove("icons"); // pictures are never shown
        fields.remove("_meta");
    }
    McpOffer { tool: tool.name.to_string(), hash: hash(&definition), definition }
}

fn hash(definition: &Value) -> String {
    Sha256::digest(canonical(definition)).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name by which a model calls a tool of a server.
pub fn mcp_tool_name(server: &str, tool: &str) -> String {
    let letters = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let plain: String = tool.chars().map(letters).collect();
    let name = format!("{server}{SEPARATOR}{plain}");
    if plain == tool && name.len() <= MAX_NAME {
        return name;
    }
    // Another name may have come to the same letters.
    let digest: String = Sha256::digest(tool).iter().map(|byte| format!("{byte:02x}")).collect();
    let digest = digest.get(..NAME_HASH_DIGITS).unwrap_or_default();
    let end = name.len().min(MAX_NAME - NAME_HASH_DIGITS - 1);
    format!("{}_{digest}", name.get(..end).unwrap_or_default())
}

/// The spec of a tool: the approved words, without what a reader would not see.
pub(super) fn spec(server: &str, tool: &str, definition: &Value) -> ToolSpec {
    let said = |key: &str| definition.get(key).and_then(Value::as_str);
    let description = said("description").or_else(|| said("title")).unwrap_or(tool);
    let description: String = clean(description).chars().take(MAX_DESCRIPTION_CHARS).collect();
    let parameters = match definition.get("inputSchema") {
        Some(Value::Object(schema)) => Value::Object(object(schema.clone())),
        Some(_) | None => json!({ "type": "object", "properties": {} }),
    };
    ToolSpec {
        name: mcp_tool_name(server, tool),
        description: format!("[{server}] {description}"),
        parameters,
    }
}

/// Providers want a schema of an object, with properties, and know no dialects.
fn object(mut schema: Map<String, Value>) -> Map<String, Value> {
    schema.remove("$schema");
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| json!({}));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are_and_never_meet() {
        assert_eq!(mcp_tool_name("everything", "get-sum"), "everything__get-sum");
        let (slash, dot) = (mcp_tool_name("files", "read/file"), mcp_tool_name("files", "read.file"));
        assert_ne!(slash, dot);
        assert!(slash.starts_with("files__read_file_"), "{slash}");
        let long = "a".repeat(100);
        let (one, other) = (mcp_tool_name("s", &long), mcp_tool_name("s", &format!("{long}b")));
        assert_ne!(one, other);
        assert!(one.len() <= MAX_NAME && other.len() <= MAX_NAME);
    }

    #[test]
    fn any_change_of_a_definition_is_another_hash() {
        let first = json!({ "name": "x", "description": "d", "inputSchema": { "type": "object" } });
        let tool = |value: &Value| offer(&serde_json::from_value(value.clone()).unwrap()).hash;
        for (key, value) in [
            ("description", json!("d.")),
            ("title", json!("t")),
            ("inputSchema", json!({ "type": "object", "properties": { "a": {} } })),
            ("outputSchema", json!({ "type": "object" })),
            ("annotations", json!({ "readOnlyHint": true })),
        ] {
            let mut changed = first.clone();
            changed[key] = value;
            assert_ne!(tool(&changed), tool(&first), "{key}");
        }
        let reordered = json!({ "inputSchema": { "type": "object" }, "description": "d", "name": "x" });
        assert_eq!(tool(&reordered), tool(&first));
    }

    #[test]
    fn a_model_reads_nothing_that_people_would_not_see() {
        let definition = json!({ "description": "Adds\u{200b} num\u{202e}bers\u{1b}[8m", "inputSchema": { "$schema": "x" } });
        let spec = spec("sums", "add", &definition);
        assert_eq!(spec.description, "[sums] Adds numbers");
        assert_eq!(spec.parameters, json!({ "type": "object", "properties": {} }));
    }
}
