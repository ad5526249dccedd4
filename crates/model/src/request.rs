//! The request to a model, free of any provider's shape.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{CallId, ImageId, Settings};
use serde_json::{Map, Value, json};

/// One model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The provider's name of the model.
    pub model: String,
    pub system: String,
    pub messages: Vec<PromptMessage>,
    /// The tools on offer; empty when the model must answer in words.
    pub tools: Arc<[ToolSpec]>,
    pub settings: Settings,
    pub format: AnswerFormat,
    /// Whether the answer is to come piece by piece; false for a model that cannot.
    pub stream: bool,
    /// The longest answer the model can give, in tokens, where that is known.
    pub max_output: Option<u32>,
    /// Fields of the provider's own, added to the body as they are.
    pub extra: Arc<Map<String, Value>>,
    /// The server knows the longest answer by the other of the two names that Chat Completions has for it.
    pub other_limit: bool,
    /// The server does not take the wish for a count of tokens at the end of a stream.
    pub no_stream_options: bool,
    /// A budget allows no longer answer, so the request is refused rather than sent without its limit.
    pub must_bound: bool,
}

impl ModelRequest {
    /// A request without history, tools or settings, to be filled.
    pub fn new(model: impl Into<String>, system: impl Into<String>, messages: Vec<PromptMessage>) -> Self {
        Self {
            model: model.into(),
            system: system.into(),
            messages,
            tools: Arc::default(),
            settings: Settings::default(),
            format: AnswerFormat::Text,
            stream: true,
            max_output: None,
            extra: Arc::default(),
            other_limit: false,
            no_stream_options: false,
            must_bound: false,
        }
    }

    /// The system messages before the first turn, and everything from it on: not every provider has a place for system
    /// messages among the turns, but each has one before them.
    pub fn opening(&self) -> (impl Iterator<Item = &str>, &[PromptMessage]) {
        let is_turn = |message: &PromptMessage| !matches!(message, PromptMessage::System(_));
        let turns = self.messages.iter().position(is_turn).unwrap_or(self.messages.len());
        let (opening, turns) = self.messages.split_at_checked(turns).unwrap_or_default();
        let words = opening.iter().filter_map(|message| match message {
            PromptMessage::System(words) => Some(words.as_str()),
            PromptMessage::User(_) | PromptMessage::Assistant { .. } => None,
        });
        (words, turns)
    }

    /// The bytes of a body without its fields that are null, and with the fields of the provider's own, which take the
    /// place of ours. Pure: the same request gives the same bytes, which is what prompt caches go by.
    pub(crate) fn encoded(&self, body: Value) -> Vec<u8> {
        let mut body = without_nulls(body);
        if let Value::Object(fields) = &mut body {
            fields.extend(self.extra.as_ref().clone());
        }
        body.to_string().into_bytes()
    }
}

/// An object without its fields that are null.
pub(crate) fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

/// A list, or null if it would be empty: providers refuse some lists without an entry.
pub(crate) fn list_or_null(values: impl Iterator<Item = Value>) -> Value {
    let values: Vec<Value> = values.collect();
    if values.is_empty() { Value::Null } else { values.into() }
}

/// The form the answer must have.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerFormat {
    Text,
    /// Some JSON object.
    Json,
    /// A JSON object that this schema describes.
    Schema(Arc<Schema>),
}

/// A JSON Schema for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    pub schema: Value,
    /// Whether every object in it is closed and all of its properties are required, which is what strict providers ask
    /// for. If not, the answer follows it as well as the model can.
    pub strict: bool,
}

/// A turn of the conversation, or what the model is told beside it.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptMessage {
    /// The system's words at this place. Providers without such a place read them before the first turn, or as part of
    /// what the user says.
    System(String),
    User(UserTurn),
    Assistant {
        text: String,
        /// A call and its result travel together, so a prompt in which one lacks the other cannot be written down.
        exchanges: Vec<Exchange>,
        /// Items that the provider sent with this turn and wants back unchanged.
        provider: Option<Value>,
    },
}

/// The words of the user, with the images that go with them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserTurn {
    pub text: String,
    pub images: Vec<PromptImage>,
}

impl UserTurn {
    /// Its images that have a content, which are all once a request is complete.
    pub(crate) fn images_with_content(&self) -> impl Iterator<Item = (&PromptImage, &[u8])> {
        self.images.iter().filter_map(|image| Some((image, image.content.as_deref()?)))
    }
}

impl From<String> for UserTurn {
    fn from(text: String) -> Self {
        Self { text, images: Vec::new() }
    }
}

impl From<&str> for UserTurn {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// An image in a prompt.
#[derive(Clone, PartialEq)]
pub struct PromptImage {
    pub id: ImageId,
    /// `image/jpeg` or `image/png`.
    pub media_type: String,
    pub width: u32,
    pub height: u32,
    /// None until the image has been read: a prompt is put together and counted without it.
    pub content: Option<Arc<[u8]>>,
}

impl std::fmt::Debug for PromptImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} x {})", self.id, self.width, self.height)
    }
}

/// An image as text, as every provider takes it.
pub(crate) fn base64_of(content: &[u8]) -> String {
    STANDARD.encode(content)
}

/// An image as an address that holds it.
pub(crate) fn data_url((image, content): (&PromptImage, &[u8])) -> String {
    format!("data:{};base64,{}", image.media_type, base64_of(content))
}

/// A tool call with its one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    pub id: CallId,
    /// Letters, digits, `_` and `-`, at most 64: what every provider takes.
    pub name: String,
    /// A JSON object.
    pub input: Value,
    pub result: CallResult,
}

impl Exchange {
    /// The arguments. Anything but an object is written as an empty one, which is all that providers take.
    pub(crate) fn arguments(&self) -> Value {
        if self.input.is_object() { self.input.clone() } else { json!({}) }
    }
}

/// The result of a call, as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    pub text: String,
    pub success: bool,
}

/// The key under which [`Piece::Provider`](crate::Piece::Provider) names who sent it: what one server wants back, another
/// cannot read or refuses.
pub(crate) const PROVIDER: &str = "provider";

/// The items that a provider sent with a turn, if it is the one that is asked now.
pub(crate) fn sent_by<'a>(opaque: Option<&'a Value>, provider: &str) -> Option<&'a Value> {
    opaque.filter(|opaque| opaque.get(PROVIDER).is_some_and(|name| name == provider))
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type object.
    pub parameters: Value,
}
