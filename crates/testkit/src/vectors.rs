//! Vectors for tests: texts that share words lie near each other, always in the same way.

use std::hash::{DefaultHasher, Hash, Hasher};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending, ready};
use model::{Embedder, Error};
use tokio::sync::watch;

const DIMENSIONS: u64 = 64;

/// An embedder that knows words and nothing of what they mean.
pub struct WordVectors(pub &'static str);

impl Embedder for WordVectors {
    fn model(&self) -> &str {
        self.0
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        ready(Ok(texts.iter().map(|text| vector(text)).collect())).boxed()
    }
}

/// An embedder that never answers.
pub struct StalledVectors {
    model: &'static str,
    begun: watch::Sender<bool>,
}

impl StalledVectors {
    pub fn new(model: &'static str) -> Self {
        Self { model, begun: watch::Sender::new(false) }
    }

    /// Returns once it was asked for vectors.
    pub async fn wait_until_asked(&self) {
        let _ = self.begun.subscribe().wait_for(|begun| *begun).await;
    }
}

impl Embedder for StalledVectors {
    fn model(&self) -> &str {
        self.model
    }

    fn embed<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        self.begun.send_replace(true);
        pending().boxed()
    }
}

fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.001; usize::try_from(DIMENSIONS).unwrap_or_default()];
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let mut hasher = DefaultHasher::new();
        word.to_lowercase().hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % DIMENSIONS).unwrap_or_default();
        if let Some(number) = vector.get_mut(place) {
            *number += 1.0;
        }
    }
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    vector.iter().map(|number| number / length).collect()
}
