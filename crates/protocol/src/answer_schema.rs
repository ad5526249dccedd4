//! The form of an answer that one request asks for.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The schema of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerSchema {
    /// The name: at most 64 letters, digits, `_` and `-`.
    pub name: String,
    /// A JSON Schema of an object.
    pub schema: Value,
}
