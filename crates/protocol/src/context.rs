//! What the API takes and gives of personas, pins, summaries, documents, profiles and prompts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json_fields::{deserialize_present, from_object, is_default};
use crate::{
    DocumentId, Effort, MessageId, OutputFormat, PinId, PromptLedger, RunId, Seq, Settings, SummaryId,
    ThreadId, Usage, Warning,
};

/// Settings with the model they are for, of a persona or of a request.
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

/// The same as it is written. A field that is none of these is refused, which serde does not do for flattened ones.
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
    /// `app` for one of the app's folder, which cannot be changed here; `user` for one of the user's own.
    pub origin: String,
    /// Why it cannot be used, if it cannot.
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
    /// Letters, digits, `_` and `-`; made up when absent.
    pub id: Option<String>,
    /// The id when absent.
    pub name: Option<String>,
    /// May be empty where there are settings: then the persona says only how the model answers.
    #[serde(default)]
    pub prompt: String,
    #[serde(default, deserialize_with = "from_object")]
    pub settings: PersonaSettings,
}

/// What is absent stays as it is; `settings` is replaced as a whole.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PersonaPatch {
    pub name: Option<String>,
    pub prompt: Option<String>,
    pub settings: Option<PersonaSettings>,
}

/// Text that the user marked as important, for one thread or for all of an app's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinView {
    pub id: PinId,
    pub text: String,
    /// The thread it is for; all of them when null.
    pub thread_id: Option<ThreadId>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPin {
    pub text: String,
}

/// A compressed stretch of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryView {
    pub id: SummaryId,
    /// 0 for one of messages, more for one of summaries.
    pub level: u32,
    pub from_message_id: MessageId,
    pub to_message_id: MessageId,
    #[schema(value_type = u64)]
    pub from: Seq,
    #[schema(value_type = u64)]
    pub to: Seq,
    pub messages: u32,
    /// Null when its text is gone.
    pub text: Option<String>,
    /// Whether one of a higher level says the same.
    pub merged: bool,
    pub created_at: Timestamp,
}

/// Something that was uploaded, or that belongs to the app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentView {
    pub id: DocumentId,
    pub name: String,
    pub title: Option<String>,
    /// `text`, `markdown`, `html`, `pdf`, `docx`, `csv` or `xlsx`.
    pub kind: String,
    /// Bytes of the file.
    pub bytes: u64,
    pub pages: Option<u32>,
    /// `indexing` until every piece can be found by meaning too, then `ready`. It can be searched by its words at once.
    pub status: String,
    pub progress: DocumentProgress,
    /// Pieces that read like instructions to an assistant rather than like data.
    pub suspicious: u32,
    /// Whether it belongs to the app: all of its users read it, and none of them deletes it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub knowledge: bool,
    pub created_at: Timestamp,
}

/// Pieces that are indexed, and all of them.
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
    /// How many pieces there are.
    pub total: u32,
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DocumentQuery {
    pub query: String,
    pub limit: Option<u32>,
    /// Only in these; in all of the user's and the app's when absent.
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
    /// From 0 to 1.
    pub score: f32,
    /// Whether the document belongs to the app.
    #[serde(default, skip_serializing_if = "is_default")]
    pub knowledge: bool,
}

/// What a user says of themselves. It is the same in every app.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileView {
    pub user_id: String,
    pub name: Option<String>,
    /// Such as `Europe/Lisbon`; dates in prompts are told in it.
    pub timezone: Option<String>,
    /// Such as `pt-PT`.
    pub locale: Option<String>,
    /// Anything else the app should know.
    #[schema(value_type = Object)]
    pub fields: BTreeMap<String, Value>,
    pub updated_at: Option<Timestamp>,
}

/// What is absent stays as it is; null removes.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfilePatch {
    #[serde(default, deserialize_with = "deserialize_present")]
    pub name: Option<Option<String>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    pub timezone: Option<Option<String>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    pub locale: Option<Option<String>>,
    /// Each field by itself; null removes it.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub fields: BTreeMap<String, Value>,
}

/// What the model saw in one step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptView {
    pub run_id: RunId,
    pub step: u32,
    pub model: Option<String>,
    /// In tokens, prompt and answer together.
    pub context_window: u32,
    pub ledger: PromptLedger,
    /// What the provider counted; null while the step is under way.
    pub usage: Option<Usage>,
    /// In the order in which the model reads them.
    pub fragments: Vec<FragmentView>,
    /// The messages as sent, free of any provider's shape.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Value>,
    /// Names of the tools on offer.
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
