//! Vectors that were made already. They are kept apart by space, because who has asked for a text may not be found out
//! from how fast it is answered.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::Embedder;
use crate::Error;

/// Vectors that are kept over all spaces; the one not used for longest goes first.
const MAX_KEPT: usize = 4096;

/// A space and a text, as their digest.
type Key = [u8; 32];

/// An embedder that is asked for each text of a space once.
#[derive(Debug)]
pub struct CachedEmbeddings<E> {
    embedder: E,
    /// Held for a few lines at a time, never over an await.
    kept: Mutex<Kept>,
}

/// The vectors by key, and the keys by when they were used last.
#[derive(Debug)]
struct Kept {
    most: usize,
    vectors: HashMap<Key, (Vec<f32>, u64)>,
    uses: BTreeMap<u64, Key>,
    now: u64,
}

impl<E: Embedder> CachedEmbeddings<E> {
    pub fn new(embedder: E) -> Self {
        Self::keeping(embedder, MAX_KEPT)
    }

    pub(super) fn keeping(embedder: E, most: usize) -> Self {
        let kept = Kept { most, vectors: HashMap::new(), uses: BTreeMap::new(), now: 0 };
        Self { embedder, kept: Mutex::new(kept) }
    }

    pub fn model(&self) -> &str {
        self.embedder.model()
    }

    /// One vector for each text, in their order. `space` is whose texts they are.
    pub async fn embed_in(&self, space: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let keys: Vec<Key> = texts.iter().map(|text| key(space, text)).collect();
        let mut known: HashMap<Key, Vec<f32>> = {
            let mut kept = self.lock();
            keys.iter().filter_map(|key| Some((*key, kept.get(key)?))).collect()
        };
        let mut seen = HashSet::new();
        let (missing, wanted): (Vec<Key>, Vec<String>) = keys
            .iter()
            .zip(texts)
            .filter(|(key, _)| !known.contains_key(*key) && seen.insert(**key))
            .map(|(key, text)| (*key, text.clone()))
            .unzip();
        if !wanted.is_empty() {
            let made = self.embedder.embed(&wanted).await?;
            let mut kept = self.lock();
            for (key, vector) in missing.into_iter().zip(made) {
                kept.put(key, vector.clone());
                known.insert(key, vector);
            }
        }
        let vectors: Option<Vec<_>> = keys.iter().map(|key| known.get(key).cloned()).collect();
        vectors.ok_or_else(|| Error::Broken("fewer vectors than texts".into()))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn get(&mut self, key: &Key) -> Option<Vec<f32>> {
        let (vector, used) = self.vectors.get_mut(key)?;
        self.uses.remove(used);
        self.now += 1;
        *used = self.now;
        self.uses.insert(self.now, *key);
        Some(vector.clone())
    }

    fn put(&mut self, key: Key, vector: Vec<f32>) {
        self.now += 1;
        self.uses.insert(self.now, key);
        if let Some((_, used)) = self.vectors.insert(key, (vector, self.now)) {
            self.uses.remove(&used);
        }
        if self.vectors.len() > self.most
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.vectors.remove(&oldest);
        }
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
