//! Requests and responses about personas, pins, summaries, documents, profiles and prompts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json_fields::{deserialize_present, from_object, is_default};
use crate::{
    DocumentId, DocumentStatus, Effort, MessageId, OutputFormat, PinId, PromptLedger, RunId, Seq, Settings,
    SummaryId, ThreadId, Usage, Warning,
};

/// Model settings of a persona or of a request, with the name of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct PersonaSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(flatten)]
    pub settings: Settings,
}

impl PersonaSettings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The JSON of [`PersonaSettings`]. An unknown field is refused, which serde does not do for flattened structs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FlatSettings {
    model: Option<String>,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    top_p: Option<f64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    repeat_penalty: Option<f64>,
    output_format: Option<OutputFormat>,
    reasoning_effort: Option<Effort>,
}

impl<'de> Deserialize<'de> for PersonaSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat: FlatSettings = from_object(deserializer)?;
        let settings = Settings {
            temperature: flat.temperature,
            max_tokens: flat.max_tokens,
            top_p: flat.top_p,
            frequency_penalty: flat.frequency_penalty,
            presence_penalty: flat.presence_penalty,
            repeat_penalty: flat.repeat_penalty,
            output_format: flat.output_format,
            reasoning_effort: flat.reasoning_effort,
        };
        Ok(Self { model: flat.model, settings })
    }
}

/// A named prompt with model settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonaView {
    pub id: String,
    pub name: String,
    pub prompt: String,
    pub settings: PersonaSettings,
    /// The origin: `app` for a persona of the app folder, which the API cannot change, or `user` for a persona of the
    /// user.
    pub origin: String,
    /// The reason why the persona cannot be used, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPersona {
    /// The id: letters, digits, `_` and `-`. The server makes one when it is absent.
    pub id: Option<String>,
    /// The name; the id when absent.
    pub name: Option<String>,
    /// The prompt. It can be empty if there are settings: such a persona only changes the settings of the model.
    #[serde(default)]
    pub prompt: String,
    #[serde(default, deserialize_with = "from_object")]
    pub settings: PersonaSettings,
}

/// A change of a persona. Absent fields stay as they are; `settings` is replaced as a whole.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PersonaPatch {
    pub name: Option<String>,
    pub prompt: Option<String>,
    pub settings: Option<PersonaSettings>,
}

/// A text that the user marked as important, for one thread or for all threads of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinView {
    pub id: PinId,
    pub text: String,
    /// The thread of the pin; null for all threads of the app.
    pub thread_id: Option<ThreadId>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPin {
    pub text: String,
}

/// A summary of a part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryView {
    pub id: SummaryId,
    /// The level: 0 for a summary of messages, more for a summary of summaries.
    pub level: u32,
    pub from_message_id: MessageId,
    pub to_message_id: MessageId,
    #[schema(value_type = u64)]
    pub from: Seq,
    #[schema(value_type = u64)]
    pub to: Seq,
    pub messages: u32,
    /// The text; null if it was deleted.
    pub text: Option<String>,
    /// Whether a summary of a higher level replaces this one.
    pub merged: bool,
    pub created_at: Timestamp,
}

/// A document: an upload of the user, or knowledge of the app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentView {
    pub id: DocumentId,
    pub name: String,
    pub title: Option<String>,
    /// The type of the file: `text`, `markdown`, `html`, `pdf`, `docx`, `csv` or `xlsx`.
    pub kind: String,
    /// The size of the file in bytes.
    pub bytes: u64,
    pub pages: Option<u32>,
    pub status: DocumentStatus,
    pub progress: DocumentProgress,
    /// The number of pieces that read like instructions to an assistant rather than like data.
    pub suspicious: u32,
    /// Whether the document belongs to the app. All users of the app read it, and none of them can delete it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub knowledge: bool,
    pub created_at: Timestamp,
}

/// The number of indexed pieces, and the number of all pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentProgress {
    pub done: u32,
    pub total: u32,
}

/// A part of a document's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentText {
    pub id: DocumentId,
    /// The first piece in this part, from 0.
    pub from: u32,
    pub text: String,
    /// The piece with which the next part begins; null at the end.
    pub next: Option<u32>,
    /// The number of all pieces.
    pub total: u32,
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DocumentQuery {
    pub query: String,
    pub limit: Option<u32>,
    /// The documents to search; all documents of the user and of the app when absent.
    #[serde(default)]
    pub document_ids: Vec<DocumentId>,
}

/// A piece of a document that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentHit {
    pub document_id: DocumentId,
    pub name: String,
    pub place: String,
    pub text: String,
    /// The score, from 0 to 1.
    pub score: f32,
    /// Whether the document belongs to the app.
    #[serde(default, skip_serializing_if = "is_default")]
    pub knowledge: bool,
}

/// Facts that a user states about themselves, for all apps or for one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileView {
    pub user_id: String,
    pub name: Option<String>,
    /// The time zone of dates in prompts, such as `Europe/Lisbon`.
    pub timezone: Option<String>,
    /// The locale, such as `pt-PT`.
    pub locale: Option<String>,
    /// Further facts for the app.
    #[schema(value_type = Object)]
    pub fields: BTreeMap<String, Value>,
    pub updated_at: Option<Timestamp>,
}

/// A change of a profile. Absent fields stay as they are; null removes a field.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfilePatch {
    #[serde(default, deserialize_with = "deserialize_present")]
    pub name: Option<Option<String>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    pub timezone: Option<Option<String>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    pub locale: Option<Option<String>>,
    /// Changes of single fields; null removes a field.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub fields: BTreeMap<String, Value>,
}

/// The prompt of one step of a run, as the model saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptView {
    pub run_id: RunId,
    pub step: u32,
    pub model: Option<String>,
    /// The context window in tokens, for prompt and answer together.
    pub context_window: u32,
    pub ledger: PromptLedger,
    /// The usage as the provider counted it; null until the step has ended.
    pub usage: Option<Usage>,
    /// The fragments, in the order in which the model reads them.
    pub fragments: Vec<FragmentView>,
    /// The messages as sent, in a form that does not depend on the provider.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Value>,
    /// The names of the tools that the model could call.
    pub tools: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// One fragment of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FragmentView {
    pub name: String,
    pub tokens: u64,
    pub text: String,
}
