//! The request for a response. Unknown fields are ignored, as clients of other versions send them.

use protocol::{AnswerSchema, ClientTool, NewRun, PersonaSettings, Settings};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::super::options::{WantedFormat, client_tool, reasoning_effort};
use super::input::ResponseInput;
use crate::contracts::ResponseEcho;
use crate::error::ApiProblem;

/// Entries of the metadata, and characters of their names and values.
const MAX_METADATA: usize = 16;
const MAX_METADATA_KEY_CHARS: usize = 64;
const MAX_METADATA_VALUE_CHARS: usize = 512;

/// A request for a response.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::routes) struct CreateResponse {
    /// An app, or an app and a model with a slash between them.
    pub(super) model: String,
    pub(super) input: Option<ResponseInput>,
    /// Instructions that are added to those of the app. A response does not inherit them from an earlier one.
    pub(super) instructions: Option<String>,
    /// The response that this one continues. An older response makes a branch.
    pub(super) previous_response_id: Option<String>,
    pub(super) conversation: Option<NamedConversation>,
    #[serde(default)]
    tools: Vec<RequestedTool>,
    /// The choice of tools: `none` leaves the tools of the request out. All other values count as `auto`.
    #[schema(value_type = Option<Value>)]
    tool_choice: Option<Value>,
    text: Option<TextOptions>,
    reasoning: Option<ReasoningOptions>,
    max_output_tokens: Option<u32>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    /// Metadata that the response repeats, up to 16 texts.
    #[schema(value_type = Option<Value>)]
    metadata: Option<Map<String, Value>>,
    /// Whether the response is streamed as server-sent events.
    pub(super) stream: Option<bool>,
    /// Whether the response continues without its client.
    pub(super) background: Option<bool>,
    /// A setting without effect: every run is stored with its thread.
    store: Option<bool>,
}

/// A conversation by its id.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected the id of a conversation, or an object with it")]
pub(in crate::routes) enum NamedConversation {
    Id(String),
    Object { id: String },
}

impl NamedConversation {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Object { id } => id,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
struct RequestedTool {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    description: Option<String>,
    #[schema(value_type = Option<Value>)]
    parameters: Option<Value>,
    server_label: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct TextOptions {
    #[schema(value_type = Option<Value>)]
    format: Option<Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct ReasoningOptions {
    effort: Option<String>,
}

impl CreateResponse {
    pub(super) fn is_background(&self) -> bool {
        self.background.unwrap_or(false)
    }

    /// The run as far as it does not depend on the input.
    pub(super) fn new_run(&self, app: &str, model: Option<String>) -> Result<NewRun, ApiProblem> {
        let effort = self.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_deref());
        let settings = Settings {
            temperature: self.temperature,
            top_p: self.top_p,
            max_tokens: self.max_output_tokens,
            reasoning_effort: effort.map(|name| reasoning_effort("reasoning.effort", name)).transpose()?,
            ..Settings::default()
        };
        let mut new = NewRun {
            model,
            tools: self.client_tools(app)?,
            settings: PersonaSettings { settings, model: None },
            echo: Some(self.echo()?.into_value()),
            ..NewRun::default()
        };
        if let Some(format) = self.text.as_ref().and_then(|text| text.format.as_ref()) {
            wanted_format(format)?.ask(&mut new);
        }
        Ok(new)
    }

    fn client_tools(&self, app: &str) -> Result<Vec<ClientTool>, ApiProblem> {
        // The app decides about the rest, such as `required`.
        if self.tool_choice.as_ref().and_then(Value::as_str) == Some("none") {
            return Ok(Vec::new());
        }
        let mut tools = Vec::new();
        for (index, tool) in self.tools.iter().enumerate() {
            match (tool.kind.as_str(), &tool.name) {
                ("function", Some(name)) => {
                    tools.push(client_tool(name.clone(), tool.description.clone(), tool.parameters.clone()));
                }
                ("function", None) => {
                    return Err(ApiProblem::invalid(format!("tools[{index}].name"), "is required"));
                }
                // The app's own tools, as its responses name them.
                ("mcp", _) if tool.server_label.as_deref() == Some(app) => {}
                (kind, _) => {
                    let detail = format!(
                        "tools of type {kind} are not supported; send functions, the app has its own tools"
                    );
                    return Err(ApiProblem::invalid(format!("tools[{index}].type"), detail));
                }
            }
        }
        Ok(tools)
    }

    fn echo(&self) -> Result<ResponseEcho, ApiProblem> {
        let metadata = self.metadata.clone().unwrap_or_default();
        let is_good = |(key, value): (&String, &Value)| {
            let value = value.as_str().map(|text| text.chars().count());
            key.chars().count() <= MAX_METADATA_KEY_CHARS
                && value.is_some_and(|chars| chars <= MAX_METADATA_VALUE_CHARS)
        };
        if metadata.len() > MAX_METADATA || !metadata.iter().all(is_good) {
            let detail = format!(
                "must be at most {MAX_METADATA} texts of at most {MAX_METADATA_VALUE_CHARS} characters, with names of \
                 at most {MAX_METADATA_KEY_CHARS}"
            );
            return Err(ApiProblem::invalid("metadata", detail));
        }
        Ok(ResponseEcho {
            model: self.model.clone(),
            metadata,
            background: self.is_background(),
            unstored: self.store == Some(false),
            in_conversation: self.conversation.is_some(),
            previous: self.previous_response_id.clone(),
        })
    }
}

fn wanted_format(format: &Value) -> Result<WantedFormat, ApiProblem> {
    const FIELD: &str = "text.format";
    let kind = format.get("type").and_then(Value::as_str).unwrap_or_default();
    WantedFormat::read(FIELD, kind, || {
        let missing = |field: &str| ApiProblem::invalid(format!("{FIELD}.{field}"), "is required");
        let name = format.get("name").and_then(Value::as_str).ok_or_else(|| missing("name"))?;
        let schema =
            format.get("schema").filter(|schema| schema.is_object()).ok_or_else(|| missing("schema"))?;
        Ok(AnswerSchema { name: name.to_owned(), schema: schema.clone() })
    })
}
