//! The form an answer must have: the schema the model gets, and what it is checked against.

use std::fmt;
use std::sync::Arc;

use app::AnswerForm;
use model::{AnswerFormat, Schema, is_strict_schema};
use protocol::AnswerSchema;
use serde_json::{Value, json};

use super::object::{MEMORIES_FIELD, TEXT_FIELD};

/// The output that the model is to produce in one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WantedAnswer {
    Words,
    /// Calls, or a sign that none are needed; the answer itself is asked for in a call of its own, because this model
    /// cannot be held to a schema while it has tools.
    Calls,
    Object(Arc<AnswerShape>),
}

/// An object to be answered with.
pub(crate) struct AnswerShape {
    schema: Arc<Schema>,
    /// The memories it may refer to.
    pub(crate) memories: Vec<String>,
    /// For a schema of the app's or the request's own: what checks an answer against it.
    pub(crate) own: Option<jsonschema::Validator>,
    /// Whether people read one field of it rather than all of it.
    pub(crate) has_text: bool,
}

impl fmt::Debug for AnswerShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerShape").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartialEq for AnswerShape {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl AnswerShape {
    /// The shape of the app's answers; none when they are words.
    pub(crate) fn of(answer: &AnswerForm, memories: &[String]) -> Option<Self> {
        match answer {
            AnswerForm::Text => None,
            AnswerForm::Structured => Some(Self::of_memories(memories.to_vec())),
            AnswerForm::Schema { name, schema } => Some(Self {
                schema: Arc::new(Schema { name: name.clone(), schema: schema.clone(), strict: true }),
                memories: Vec::new(),
                own: jsonschema::validator_for(schema).ok(),
                has_text: has_text_field(schema),
            }),
        }
    }

    /// The shape of one run's answer, which its request asks for. The client that asks reads all of it.
    pub(crate) fn of_request(asked: &AnswerSchema) -> Self {
        let AnswerSchema { name, schema } = asked.clone();
        let own = jsonschema::validator_for(&schema).ok();
        let strict = is_strict_schema(&schema);
        let schema = Arc::new(Schema { name, schema, strict });
        Self { schema, memories: Vec::new(), own, has_text: false }
    }

    /// A text with the memories it refers to: exactly those of the prompt can be named.
    pub(crate) fn of_memories(memories: Vec<String>) -> Self {
        let id = if memories.is_empty() {
            json!({ "type": "string" }) // an empty enum is no schema
        } else {
            json!({ "type": "string", "enum": memories })
        };
        // Bounded, or a small model names the same one until its answer is cut.
        let listed = json!({ "type": "array", "items": id, "maxItems": memories.len() });
        let described = |mut field: Value, text: &str| {
            if let Some(field) = field.as_object_mut() {
                field.insert("description".into(), text.into());
            }
            field
        };
        let schema = json!({
            "type": "object",
            "properties": {
                MEMORIES_FIELD: described(listed, "Ids of the memories used in this response"),
                TEXT_FIELD: described(json!({ "type": "string" }), "The conversational reply"),
            },
            "required": [MEMORIES_FIELD, TEXT_FIELD],
            "additionalProperties": false,
        });
        let schema = Arc::new(Schema { name: "answer".into(), schema, strict: true });
        Self { schema, memories, own: None, has_text: true }
    }

    pub(crate) fn format(&self) -> AnswerFormat {
        AnswerFormat::Schema(Arc::clone(&self.schema))
    }

    /// The words that tell the model of the shape where its provider takes a schema: none if it is held to the schema.
    pub(crate) fn told_beside(&self) -> String {
        if self.schema.strict { String::new() } else { self.in_words() }
    }

    /// The shape in words, for a model that no provider holds to a schema.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "When you answer the user, write one JSON object and nothing around it. This JSON Schema describes it: {}",
            self.schema.schema
        )
    }
}

/// Whether an object has a text for people.
fn has_text_field(schema: &Value) -> bool {
    schema.pointer(&format!("/properties/{TEXT_FIELD}/type")) == Some(&"string".into())
}
