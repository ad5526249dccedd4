//! The form of an answer that one request asks for.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The schema of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerSchema {
    /// Letters, digits, `_` and `-`; at most 64.
    pub name: String,
    /// A JSON Schema of an object.
    pub schema: Value,
}
