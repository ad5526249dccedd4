//! Vectors of what is asked. A message is looked up in several places at once, and embedded once for all of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use model::{CachedEmbeddings, Embedder, Error};
use tokio::sync::OnceCell;

use super::vector::cosine;
use super::{EMBED_BATCH, Hash, hash};

/// How long a question waits for its vector; then it is answered by words alone.
const EMBED_PATIENCE: Duration = Duration::from_secs(2);
/// Questions whose vectors are kept. They are asked again within one run, not later.
const MAX_QUESTIONS: usize = 64;
/// Texts that questions are compared with are the same for everybody.
const FOR_ALL: &str = "";

/// The family of embedding models that the following was measured with (`cargo xtask eval recall`): they see little of
/// what a short text is for, and much of its form. Others get texts as they are.
const SHORT_SIGHTED: &str = "minilm";
/// Text before a memory when it is embedded, so that the memory is near to questions of its user.
const FACT: &str = "A fact about me: ";
/// Questions that ask for nothing in particular. Their common part is the form of a question, which says nothing about
/// what is asked for, and is taken out of a question's vector.
const BLANK_QUESTIONS: &str = include_str!("blank_questions.txt");

pub(super) struct Questions {
    embedder: Arc<dyn Embedder>,
    /// Locked for a look, never over an await.
    last: Mutex<LruCache<Hash, Kept>>,
    compared: CachedEmbeddings,
}

/// The first caller fills the cell, and the others wait for it.
type Kept = Arc<OnceCell<Arc<[f32]>>>;

impl Questions {
    pub(super) fn new(embedder: Arc<dyn Embedder>) -> Self {
        let compared = CachedEmbeddings::new(Arc::clone(&embedder));
        Self { embedder, last: Mutex::new(LruCache::new(MAX_QUESTIONS)), compared }
    }

    pub(super) fn embedder(&self) -> &dyn Embedder {
        &*self.embedder
    }

    /// None when the embedder does not answer in time.
    pub(super) async fn vector(&self, text: &str) -> Option<Arc<[f32]>> {
        let kept = self.cell_for(text);
        let make = || async {
            let made = self.embedder.embed(&[text.to_owned()]).await?;
            let vector = made.into_iter().next();
            vector.map(Arc::from).ok_or_else(|| Error::Broken("no vector for a text".into()))
        };
        in_time(async { kept.get_or_try_init(make).await.cloned() }).await
    }

    fn is_short_sighted(&self) -> bool {
        self.embedder.model().to_ascii_lowercase().contains(SHORT_SIGHTED)
    }

    /// Text before a memory when it is embedded.
    pub(super) fn fact(&self) -> &'static str {
        if self.is_short_sighted() { FACT } else { "" }
    }

    /// The vector by which memories are looked up: the question's own, without the form of a question.
    pub(super) async fn about_me(&self, text: &str) -> Option<Arc<[f32]>> {
        if !self.is_short_sighted() {
            return self.vector(text).await;
        }
        let blank: Vec<String> = BLANK_QUESTIONS.lines().map(str::to_owned).collect();
        let (vector, blank) = tokio::join!(self.vector(text), in_time(self.embed_compared(&blank)));
        let vector = vector?;
        Some(blank.and_then(|blank| without_common_part(&vector, &blank)).unwrap_or(vector))
    }

    /// How near the text is to each of the others, from -1 to 1.
    pub(super) async fn likeness(&self, text: &str, others: &[String]) -> Option<Vec<f32>> {
        if others.is_empty() {
            return Some(Vec::new());
        }
        let (vector, others) = tokio::join!(self.vector(text), in_time(self.embed_compared(others)));
        let vector = vector?;
        Some(others?.iter().map(|other| cosine(&vector, other)).collect())
    }

    /// A few at a time, so that those that were made in time are kept even if not all were.
    async fn embed_compared(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(EMBED_BATCH) {
            vectors.extend(self.compared.embed_in(FOR_ALL, batch).await?);
        }
        Ok(vectors)
    }

    fn cell_for(&self, text: &str) -> Kept {
        let hash = hash(text);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = last.get(&hash) {
            return Arc::clone(kept);
        }
        let kept = Kept::default();
        last.insert(hash, Arc::clone(&kept));
        kept
    }
}

/// The direction of a vector without what others have in common; none if nothing would be left.
fn without_common_part(vector: &[f32], others: &[Vec<f32>]) -> Option<Arc<[f32]>> {
    let length = |numbers: &[f32]| numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    let whole = length(vector);
    let others: Vec<(&[f32], f32)> = others.iter().map(|other| (other.as_slice(), length(other))).collect();
    let is_usable =
        whole > 0.0 && others.iter().all(|(other, length)| other.len() == vector.len() && *length > 0.0);
    if !is_usable || others.is_empty() {
        return None;
    }
    let common = |at: usize| {
        let sum: f32 = others.iter().filter_map(|(other, length)| Some(other.get(at)? / length)).sum();
        sum / others.len() as f32
    };
    let left: Arc<[f32]> =
        vector.iter().enumerate().map(|(at, number)| number / whole - common(at)).collect();
    (length(&left) > MIN_LEFT).then_some(left)
}

/// A question of which less is left is itself one that asks for nothing in particular.
const MIN_LEFT: f32 = 0.05;

async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Option<T> {
    match tokio::time::timeout(EMBED_PATIENCE, work).await {
        Ok(Ok(made)) => Some(made),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a question got no vector; recall searches by its words only");
            None
        }
        Err(_) => {
            tracing::warn!("a question got no vector in time; recall searches by its words only");
            None
        }
    }
}
