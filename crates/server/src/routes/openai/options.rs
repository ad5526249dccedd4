//! Options of a request that Chat Completions and Responses share: tools of the client, the form of the answer, and how
//! long a model thinks.

use protocol::{AnswerSchema, ClientTool, Effort, NewRun, OutputFormat};
use serde_json::Value;

use crate::error::ApiProblem;

/// A tool whose calls the client makes. Some clients describe one by its name alone.
pub(super) fn client_tool(
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
) -> ClientTool {
    let description = description.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| name.clone());
    let is_empty = |schema: &Value| schema.as_object().is_some_and(serde_json::Map::is_empty);
    let parameters = parameters.filter(|schema| !schema.is_null() && !is_empty(schema));
    ClientTool { name, description, parameters }
}

/// The form that a client asks an answer to have.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WantedFormat {
    Text,
    /// Any JSON object.
    Json,
    Schema(AnswerSchema),
}

impl WantedFormat {
    /// A form by the names that OpenAI has for it. `schema` is asked for only where one belongs.
    pub(super) fn read(
        field: &str,
        kind: &str,
        schema: impl FnOnce() -> Result<AnswerSchema, ApiProblem>,
    ) -> Result<Self, ApiProblem> {
        match kind {
            "text" => Ok(Self::Text),
            "json_object" => Ok(Self::Json),
            "json_schema" => schema().map(Self::Schema),
            _ => Err(ApiProblem::invalid(field, "must be text, json_object or json_schema")),
        }
    }

    /// Asks for it in a run.
    pub(super) fn ask(self, new: &mut NewRun) {
        match self {
            Self::Text => {}
            Self::Json => new.settings.settings.output_format = Some(OutputFormat::Json),
            Self::Schema(schema) => new.answer_schema = Some(schema),
        }
    }
}

/// How long a model is to think, by OpenAI's names. Beyond `high` there is nothing longer here.
pub(super) fn reasoning_effort(field: &str, name: &str) -> Result<Effort, ApiProblem> {
    match name {
        "none" => Ok(Effort::None),
        "minimal" => Ok(Effort::Minimal),
        "low" => Ok(Effort::Low),
        "medium" => Ok(Effort::Medium),
        "high" | "xhigh" | "max" => Ok(Effort::High),
        _ => Err(ApiProblem::invalid(field, "must be none, minimal, low, medium, high, xhigh or max")),
    }
}
