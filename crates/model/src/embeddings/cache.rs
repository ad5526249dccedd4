//! Vectors that were made already. They are kept apart by space, because who has asked for a text may not be found out
//! from how fast it is answered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use super::Embedder;
use crate::Error;

/// Vectors that are kept over all spaces; one that is not used goes first.
const MAX_KEPT: usize = 4096;

/// A space and a text, as their digest.
type Key = [u8; 32];

/// An embedder that is asked for each text of a space once.
pub struct CachedEmbeddings {
    embedder: Arc<dyn Embedder>,
    kept: Cache<Key, Vec<f32>>,
}

impl CachedEmbeddings {
    pub fn new(embedder: Arc<dyn Embedder>) -> Self {
        Self::with_capacity(embedder, MAX_KEPT)
    }

    pub(super) fn with_capacity(embedder: Arc<dyn Embedder>, most: usize) -> Self {
        Self { embedder, kept: Cache::new(most) }
    }

    pub fn model(&self) -> &str {
        self.embedder.model()
    }

    /// One vector for each text, in their order. `space` is whose texts they are.
    pub async fn embed_in(&self, space: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let keys: Vec<Key> = texts.iter().map(|text| key(space, text)).collect();
        let kept = keys.iter().filter_map(|key| Some((*key, self.kept.get(key)?)));
        let mut known: HashMap<Key, Vec<f32>> = kept.collect();
        let mut seen = HashSet::new();
        let (missing, wanted): (Vec<Key>, Vec<String>) = keys
            .iter()
            .zip(texts)
            .filter(|(key, _)| !known.contains_key(*key) && seen.insert(**key))
            .map(|(key, text)| (*key, text.clone()))
            .unzip();
        if !wanted.is_empty() {
            let made = self.embedder.embed(&wanted).await?;
            for (key, vector) in missing.into_iter().zip(made) {
                self.kept.insert(key, vector.clone());
                known.insert(key, vector);
            }
        }
        let vectors: Option<Vec<_>> = keys.iter().map(|key| known.get(key).cloned()).collect();
        vectors.ok_or_else(|| Error::Broken("fewer vectors than texts".into()))
    }
}

/// The length goes in too, so that no text of one space is a text of another.
fn key(space: &str, text: &str) -> Key {
    let mut hash = Sha256::new();
    hash.update((space.len() as u64).to_be_bytes());
    hash.update(space);
    hash.update(text);
    hash.finalize().into()
}
