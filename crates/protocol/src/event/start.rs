//! The start of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{AnswerSchema, ClientTool, DocumentId, MessageId, RunId, ThreadId};

/// The request as it was accepted. With the log, it is all that a run needs to continue after a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStart {
    pub run_id: RunId,
    pub thread_id: ThreadId,
    /// The user message that this run answers.
    pub message_id: MessageId,
    /// The requested model; null if no model is configured.
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "crate::Settings::is_empty")]
    pub settings: crate::Settings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The id of the requested persona, which may not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona_id: Option<String>,
    /// The requested documents; an empty list if the run is to read none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_ids: Option<Vec<DocumentId>>,
    /// The revision of the app folder that answered.
    pub app_revision: String,
    /// Fields of the request that answers in another contract repeat, by the name of the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Value>,
    /// The holder of the acting key that spoke for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The tools of the request, whose calls the client makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// The names of the app's own tools whose calls the client makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<String>,
    /// The form of the answer that the request asks for, in place of the app's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
    /// Whether another system made this run. No model and no tool was called for it here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}
