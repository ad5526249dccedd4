//! Embeddings in OpenAI's words, by the embedding model that also serves memory.

use axum::Json as Answer;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::Principal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::models::chosen_app;
use crate::Api;
use crate::body::Json;
use crate::error::{ApiProblem, ProblemCode};
use crate::routes::JsonReply;

const NO_EMBEDDER: &str =
    "the server has no embedding model; its operator sets one in rondo.toml under [embeddings]";

/// A request for vectors. Unknown fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::routes) struct EmbeddingRequest {
    /// The embedding model, or an app.
    model: String,
    /// A text, or a list of texts. Lists of tokens are refused.
    input: Value,
    /// The encoding: `float` (when absent) or `base64`, which is little-endian 32-bit floats.
    encoding_format: Option<String>,
    /// The length of the vectors. Only the model's own length is accepted.
    dimensions: Option<u64>,
}

/// The vectors of a request, in the order of its texts.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct EmbeddingList {
    #[schema(value_type = String)]
    object: &'static str,
    data: Vec<EmbeddingItem>,
    model: String,
    usage: EmbeddingUsage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct EmbeddingItem {
    #[schema(value_type = String)]
    object: &'static str,
    index: usize,
    embedding: EncodedVector,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(in crate::routes) enum EncodedVector {
    Floats(Vec<f32>),
    Base64(String),
}

/// The tokens, as this server counts them.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct EmbeddingUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VectorEncoding {
    Floats,
    Base64,
}

impl VectorEncoding {
    fn read(name: Option<&str>) -> Result<Self, ApiProblem> {
        match name {
            None | Some("float") => Ok(Self::Floats),
            Some("base64") => Ok(Self::Base64),
            Some(_) => Err(ApiProblem::invalid("encoding_format", "must be float or base64")),
        }
    }

    fn encode(self, vector: Vec<f32>) -> EncodedVector {
        match self {
            Self::Floats => EncodedVector::Floats(vector),
            Self::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                EncodedVector::Base64(STANDARD.encode(bytes))
            }
        }
    }
}

/// Creates the embeddings of texts.
#[utoipa::path(
    post,
    path = "/openai/v1/embeddings",
    request_body = EmbeddingRequest,
    responses((status = 200, description = "The vectors", body = EmbeddingList))
)]
pub(in crate::routes) async fn create_embeddings(
    State(api): State<Api>,
    principal: Principal,
    Json(request, _): Json<EmbeddingRequest>,
) -> JsonReply<EmbeddingList> {
    let _permit = api.may_be_answered(&principal)?;
    let EmbeddingRequest { model, input, encoding_format, dimensions } = request;
    let encoding = VectorEncoding::read(encoding_format.as_deref())?;
    check_model(&api, &principal, &model)?;
    let embedded = api.service.embed_texts(&principal, texts(input)?).await?;
    let length = embedded.vectors.first().map_or(0, Vec::len);
    if dimensions.is_some_and(|wanted| wanted != length as u64) {
        let message = format!("must be {length}, the length of this model's vectors, or absent");
        return Err(ApiProblem::invalid("dimensions", message));
    }
    let item =
        |(index, vector)| EmbeddingItem { object: "embedding", index, embedding: encoding.encode(vector) };
    let usage = EmbeddingUsage { prompt_tokens: embedded.tokens, total_tokens: embedded.tokens };
    let data = embedded.vectors.into_iter().enumerate().map(item).collect();
    Ok(Answer(EmbeddingList { object: "list", data, model, usage }))
}

/// The name of the embedding model is good, and so is an app, as with other requests.
fn check_model(api: &Api, principal: &Principal, name: &str) -> Result<(), ApiProblem> {
    match api.service.embedding_model() {
        None => Err(ApiProblem::new(ProblemCode::ModelNotFound, NO_EMBEDDER)),
        Some(own) if own == name => Ok(()),
        Some(own) => chosen_app(api, principal, name).map(drop).map_err(|_| {
            let detail = format!("there is no such embedding model; send {own:?}, or the name of an app");
            ApiProblem::new(ProblemCode::ModelNotFound, detail)
        }),
    }
}

/// The texts of a request.
fn texts(input: Value) -> Result<Vec<String>, ApiProblem> {
    match input {
        Value::String(text) => Ok(vec![text]),
        Value::Array(items) => items.into_iter().enumerate().map(text_of).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            Err(ApiProblem::invalid("input", "must be a text or a list of texts"))
        }
    }
}

fn text_of((index, item): (usize, Value)) -> Result<String, ApiProblem> {
    let field = || format!("input[{index}]");
    match item {
        Value::String(text) => Ok(text),
        Value::Number(_) | Value::Array(_) => {
            Err(ApiProblem::invalid(field(), "lists of tokens are not supported; send texts"))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {
            Err(ApiProblem::invalid(field(), "must be a text"))
        }
    }
}
