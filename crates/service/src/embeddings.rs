//! Vectors of texts as clients ask for them, by the embedding model of recall.

use std::time::Duration;

use model::Counter;
use protocol::Principal;
use tokio::time::timeout;

use crate::{Error, Service};

/// Texts of one request.
pub const MAX_EMBEDDED_TEXTS: usize = 2_048;

/// Bytes of all texts of one request.
pub const MAX_EMBEDDED_BYTES: usize = 1024 * 1024;

/// How long the embedding model may take for all texts of one request.
const PATIENCE: Duration = Duration::from_secs(120);

/// Seconds after which an embedding model that did not answer may do so.
const RETRY_AFTER: u32 = 5;

/// The vectors of some texts.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedTexts {
    /// In the order of the texts.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts, counted here: providers of embeddings do not always say.
    pub tokens: u64,
}

impl Service {
    /// The name of the embedding model, if there is one.
    pub fn embedding_model(&self) -> Option<&str> {
        self.recall().model()
    }

    /// One vector for each text. The texts are stored nowhere.
    pub async fn embed_texts(
        &self,
        principal: &Principal,
        texts: Vec<String>,
    ) -> Result<EmbeddedTexts, Error> {
        if texts.is_empty() || texts.len() > MAX_EMBEDDED_TEXTS {
            return Err(Error::invalid("input", format!("must have 1 to {MAX_EMBEDDED_TEXTS} texts")));
        }
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Err(Error::invalid("input", "has an empty text; leave it out"));
        }
        if texts.iter().map(String::len).sum::<usize>() > MAX_EMBEDDED_BYTES {
            return Err(Error::TooLarge { field: "input", limit: MAX_EMBEDDED_BYTES });
        }
        let counter = Counter::of_model(self.embedding_model().unwrap_or_default());
        let tokens = texts.iter().map(|text| counter.text(text) as u64).sum();
        tracing::debug!(user = %principal.user(), texts = texts.len(), "texts are embedded for a client");
        let unavailable = |message: String| Error::Unavailable { message, retry_after: RETRY_AFTER };
        match timeout(PATIENCE, self.recall().vectors(&texts)).await {
            Ok(Some(Ok(vectors))) => Ok(EmbeddedTexts { vectors, tokens }),
            Ok(Some(Err(error @ model::Error::Rejected { .. }))) => {
                Err(Error::invalid("input", error.to_string()))
            }
            Ok(Some(Err(error))) => Err(unavailable(error.to_string())),
            Ok(None) => Err(Error::NotFound { what: "embedding model" }),
            Err(_) => Err(unavailable("the embedding model took too long; send fewer texts".to_owned())),
        }
    }
}
