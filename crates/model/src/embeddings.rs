//! Texts as vectors that lie near each other where the texts mean the same.

mod cache;
#[cfg(test)]
mod tests;
mod vector;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

pub use self::cache::CachedEmbeddings;
use self::vector::Vector;
use crate::http::{Client, Headers, HttpAnswer};
use crate::refusal::Refusal;
use crate::{Endpoint, Error, InvalidEndpoint};

/// Texts in one request; more go into further ones.
const MAX_BATCH_TEXTS: usize = 64;
/// Bytes of text in one request, unless a single text is longer.
const MAX_BATCH_BYTES: usize = 200_000;
/// The longest answer to one request.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Something that makes vectors of texts.
pub trait Embedder: Send + Sync {
    /// Vectors of different models must not be compared.
    fn model(&self) -> &str;
    /// One vector for each text, in their order, all of one length.
    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>>;
}

/// A server that speaks OpenAI's embeddings.
#[derive(Debug, Clone)]
pub struct HttpEmbeddings {
    client: Client,
    provider: String,
    model: String,
    dimensions: Option<u32>,
}

#[derive(serde::Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(serde::Deserialize)]
struct Embedded {
    #[serde(default)]
    data: Vec<Item>,
    error: Option<Value>,
}

#[derive(serde::Deserialize)]
struct Item {
    /// The place of its text in the request; where it stands in the list if the server does not say.
    index: Option<usize>,
    embedding: Vector,
}

impl HttpEmbeddings {
    /// `dimensions` is the length of the vectors, for a model that lets one choose.
    pub fn new(endpoint: &Endpoint, model: String, dimensions: Option<u32>) -> Result<Self, InvalidEndpoint> {
        let client = Client::new(endpoint, &["embeddings"], Headers::default())?;
        Ok(Self { client, provider: endpoint.provider.clone(), model, dimensions })
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        for batch in batches(texts) {
            vectors.extend(self.embed_batch(batch).await?);
        }
        let length =
            self.dimensions.map_or_else(|| vectors.first().map(Vec::len), |asked| Some(asked as usize));
        if vectors.iter().any(|vector| vector.is_empty() || Some(vector.len()) != length) {
            return Err(Error::Broken("vectors with the wrong number of dimensions".into()));
        }
        Ok(vectors)
    }

    async fn embed_batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let Self { model, dimensions, .. } = self;
        let body = Body { model, input: texts, encoding_format: "float", dimensions: *dimensions };
        let body = serde_json::to_vec(&body).unwrap_or_default(); // string keys only: serialising cannot fail
        let HttpAnswer::Whole(answer) = self.client.post(body).await? else {
            return Err(Error::Broken("a stream instead of vectors".into()));
        };
        let answer = answer.read_all(MAX_ANSWER_BYTES).await?;
        let unreadable = |_| Error::Broken("vectors that cannot be read".into());
        let answer: Embedded = serde_json::from_slice(&answer).map_err(unreadable)?;
        match answer.error {
            Some(error) => Err(Refusal::from_json(&error).in_stream(&self.provider)),
            None => in_order(answer.data, texts.len()),
        }
    }
}

impl Embedder for HttpEmbeddings {
    fn model(&self) -> &str {
        &self.model
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        async {
            let embedded = self.embed_all(texts).await;
            if let Err(Error::Unsupported { status, summary, .. }) = embedded {
                // Nothing was set that could be left out, so it is about the texts.
                return Err(Error::Rejected { status, summary });
            }
            embedded
        }
        .boxed()
    }
}

/// The texts in runs that fit into a request each.
fn batches(mut texts: &[String]) -> impl Iterator<Item = &[String]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = texts.iter().take(MAX_BATCH_TEXTS).take_while(|text| {
            bytes += text.len();
            bytes <= MAX_BATCH_BYTES
        });
        let count = fitting.count().max(1);
        let (batch, rest) = texts.split_at_checked(count)?;
        texts = rest;
        Some(batch)
    })
}

/// Exactly one vector for each text.
fn in_order(items: Vec<Item>, count: usize) -> Result<Vec<Vec<f32>>, Error> {
    let mut places: Vec<Option<Vec<f32>>> = vec![None; count];
    for (position, item) in items.into_iter().enumerate() {
        match places.get_mut(item.index.unwrap_or(position)) {
            Some(place @ None) => *place = Some(item.embedding.0),
            Some(Some(_)) | None => return Err(Error::Broken("a vector that belongs to no text".into())),
        }
    }
    let vectors: Option<Vec<_>> = places.into_iter().collect();
    vectors.ok_or_else(|| Error::Broken("fewer vectors than texts".into()))
}
