//! The tools that clients of the MCP server see. `tools.json` describes them.

use std::sync::{Arc, LazyLock};

use protocol::Right;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};

/// One tool.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AgentTool {
    pub(super) name: String,
    title: String,
    /// The right that a call needs.
    pub(super) right: Right,
    /// Whether a call is about one app and may name it.
    in_app: bool,
    description: String,
    annotations: ToolAnnotations,
    input: JsonObject,
    output: JsonObject,
}

/// All tools, in the order in which they are listed.
static TOOLS: LazyLock<Vec<AgentTool>> =
    LazyLock::new(|| serde_json::from_str(include_str!("tools.json")).unwrap_or_default());

/// The tool of this name.
pub(super) fn find_tool(name: &str) -> Option<&'static AgentTool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// The tools that a caller with these rights may call. If the caller has several apps, each call can name one.
pub(super) fn listed_tools(may: impl Fn(Right) -> bool, apps: &[String]) -> Vec<Tool> {
    TOOLS.iter().filter(|tool| may(tool.right)).map(|tool| tool.describe_tool(apps)).collect()
}

impl AgentTool {
    fn describe_tool(&self, apps: &[String]) -> Tool {
        let mut input = self.input.clone();
        if let Some(Value::Object(properties)) =
            input.get_mut("properties").filter(|_| self.in_app && apps.len() > 1)
        {
            let app = json!({ "type": "string", "enum": apps, "description": "The app" });
            properties.insert("app".into(), app);
        }
        Tool::new(self.name.clone(), self.description.clone(), Arc::new(input))
            .with_title(self.title.clone())
            .with_raw_output_schema(Arc::new(self.output.clone()))
            .with_annotations(self.annotations.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tools: &[Tool]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_ref()).collect()
    }

    #[test]
    fn a_reader_is_offered_reading_tools_only_and_an_app_where_there_are_several() {
        let apps = ["a".to_owned(), "b".to_owned()];
        let all = listed_tools(|_| true, &apps);
        assert_eq!(
            names(&all),
            ["ask", "start", "get", "answer", "cancel", "search_memories", "add_memory", "forget_memory"]
        );
        let reading = listed_tools(|right| right == Right::Read, &apps[..1]);
        assert_eq!(names(&reading), ["get", "search_memories"]);
        let has_app = |tool: &Tool| tool.input_schema["properties"].get("app").is_some();
        assert!(!reading.iter().any(has_app));
        let with_app: Vec<&str> =
            all.iter().filter(|tool| has_app(tool)).map(|tool| tool.name.as_ref()).collect();
        assert_eq!(with_app, ["ask", "start", "search_memories", "add_memory"]);
        for tool in &reading {
            let hints = tool.annotations.clone().unwrap_or_default();
            assert_eq!((hints.read_only_hint, hints.destructive_hint), (Some(true), Some(false)));
        }
    }
}
