//! Recall over the store: an index for each user who speaks, brought up to date before it is searched.
//!
//! The rows are the truth and an index is made of them: of all at first, then of those that changed since. So it does
//! not matter which process changed them, and forgetting reaches an index before the next search. An index is always
//! changed in place, so that there is never a second one beside it. Indexes whose last search is longest ago make room
//! for others, and one that grows too large leaves out what is oldest.

mod documents;
mod questions;
mod user_index;
mod vector;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::Embedder;
use protocol::{DocumentId, MemoryId, MessageId, Scope, ThreadId};
use sha2::{Digest, Sha256};
use store::{ChunkRow, HiddenWords, NewVector, Store};

use self::questions::Questions;
use self::user_index::{UnembeddedText, UserIndex};
use crate::dates::TimeSpan;
use crate::extract::is_duplicate;
use crate::index::{Hit, IndexItem, ItemRef, Query, RecallFilter, SearchMethod};
use crate::tombstone::{Forgotten, Shadow};

/// Memory that all indexes may hold together, about; four of the largest.
const MAX_HELD_BYTES: usize = 1 << 30;
/// Users whose indexes are held at once.
const MAX_INDEXES: usize = 10_000;
/// How much is left once some had to make room.
const HELD_AFTER_EVICTION: usize = MAX_HELD_BYTES / 8 * 7;
const INDEXES_AFTER_EVICTION: usize = MAX_INDEXES / 8 * 7;
/// Rows read at a time.
const ROWS_PER_READ: usize = 1_000;
/// Items above which work on an index leaves the threads that serve.
const INLINE_ITEMS: usize = 2_000;
/// Rows above which taking them in does so, too.
const INLINE_ROWS: usize = 50;
/// Texts embedded in one go, and in one piece of background work.
const EMBED_BATCH: usize = 32;
const MAX_EMBEDDED: usize = 2_048;
/// A text that any embedder takes; an embedder that refuses this refuses everything.
const HARMLESS: &str = "Good morning";
/// Items that a search looks at beyond its limit, because some may be of a thread that is left out.
const SPARE_HITS: usize = 20;
/// Memories among which a duplicate is looked for.
const NEAREST: usize = 8;

/// Finds what is known of users.
pub struct Recall {
    store: Store,
    questions: Option<Questions>,
    indexes: Mutex<HeldIndexes>,
}

/// Names a text, so that a vector of another one is not taken for its own.
type Hash = [u8; 16];

struct HeldIndexes {
    by_scope: LruCache<Scope, HeldIndex>,
    /// Bytes of all of them.
    held: usize,
}

#[derive(Default)]
struct HeldIndex {
    user_index: Arc<UserIndex>,
    bytes: usize,
}

/// A question to recall.
#[derive(Debug, Clone)]
pub struct RecallQuestion<'a> {
    pub text: &'a str,
    pub now: Timestamp,
    pub zone: TimeZone,
    /// Nothing from outside this span is found.
    pub within: Option<TimeSpan>,
    pub limit: usize,
    pub among: RecallFilter,
    /// Messages of this thread are left out: they are in the prompt anyway.
    pub without: Option<ThreadId>,
}

impl<'a> RecallQuestion<'a> {
    pub fn new(text: &'a str, now: Timestamp, limit: usize, among: RecallFilter) -> Self {
        Self { text, now, zone: TimeZone::UTC, within: None, limit, among, without: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecallHit {
    pub item: IndexItem,
    /// From 0 to 1.
    pub score: f32,
}

/// A piece of a document that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    pub chunk: ChunkRow,
    /// From 0 to 1.
    pub score: f32,
    /// Whether its document belongs to the app, and not to the user.
    pub of_app: bool,
}

impl Recall {
    /// Without an embedder, everything is found by its words.
    pub fn new(store: Store, embedder: Option<Arc<dyn Embedder>>) -> Self {
        let indexes = HeldIndexes { by_scope: LruCache::new_unbounded(), held: 0 };
        Self { store, questions: embedder.map(Questions::new), indexes: Mutex::new(indexes) }
    }

    /// The model whose vectors are used.
    pub fn model(&self) -> Option<&str> {
        self.questions.as_ref().map(|questions| questions.embedder().model())
    }

    /// The nearest items, best first.
    pub async fn search(
        &self,
        scope: &Scope,
        question: RecallQuestion<'_>,
    ) -> Result<Vec<RecallHit>, store::Error> {
        let user_index = self.fresh_index(scope).await?;
        let asked = {
            let state = user_index.read();
            let index = state.index_of(question.among);
            (!index.is_empty()).then(|| index.to_embed(question.text))
        };
        let Some(asked) = asked else { return Ok(Vec::new()) };
        let vector = match question.among {
            RecallFilter::Memories => self.about_me(&asked).await,
            RecallFilter::Messages | RecallFilter::Both | RecallFilter::Documents => {
                self.vector(&asked).await
            }
        };
        let RecallQuestion { text, now, zone, within, limit, among, without } = question;
        let text = text.to_owned();
        let look = move |user_index: &UserIndex| {
            let state = user_index.read();
            let index = state.index_of(among);
            let method = if vector.is_some() { SearchMethod::Hybrid } else { SearchMethod::Words };
            let vector = vector.as_deref();
            let (text, limit_of_all) = (text.as_str(), limit.saturating_add(SPARE_HITS));
            let query = Query { text, vector, now, zone: &zone, within, limit: limit_of_all, among, method };
            let hits = index.search(&query).into_iter();
            let found = |Hit { id, score }| Some(RecallHit { item: index.get(id)?.clone(), score });
            let wanted = |found: &RecallHit| match found.item.id {
                ItemRef::Memory(_) | ItemRef::Chunk(_) => true,
                ItemRef::Message(_) => without.is_none() || found.item.thread != without,
            };
            hits.filter_map(found).filter(wanted).take(limit).collect()
        };
        use_index(user_index, look).await
    }

    /// The nearest pieces of the user's documents and of the app's, best first; see [`Self::passages`].
    pub async fn all_passages(
        &self,
        scope: &Scope,
        text: &str,
        among: Option<&[DocumentId]>,
        limit: usize,
    ) -> Result<Vec<Passage>, store::Error> {
        let of_app = Scope::of_app(scope.app.clone());
        let (mut found, of_app) = tokio::try_join!(
            self.passages(scope, text, among, limit),
            self.passages(&of_app, text, among, limit)
        )?;
        found.extend(of_app);
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(limit);
        Ok(found)
    }

    /// The nearest pieces of a scope's documents, best first: of all of them, or of some. Of those all are returned if they
    /// are few enough, and the first ones if nothing is near. The index of an app's own documents is one for all users.
    pub async fn passages(
        &self,
        scope: &Scope,
        text: &str,
        among: Option<&[DocumentId]>,
        limit: usize,
    ) -> Result<Vec<Passage>, store::Error> {
        let user_index = self.fresh_index(scope).await?;
        if limit == 0 || user_index.read().documents.count(among) == 0 {
            return Ok(Vec::new());
        }
        let vector = self.vector(text).await;
        let (text, among) = (text.to_owned(), among.map(<[DocumentId]>::to_vec));
        let look = move |user_index: &UserIndex| {
            let state = user_index.read();
            state.documents.passages(&text, vector.as_deref(), among.as_deref(), limit)
        };
        let found = use_index(user_index, look).await?;
        let of_app = scope.is_of_app();
        Ok(found.into_iter().map(|(chunk, score)| Passage { chunk, score, of_app }).collect())
    }

    /// How near a text is to each of the others, from -1 to 1; the vectors of the others are kept. None when there is no
    /// embedder, or it does not answer in time.
    pub async fn likeness(&self, text: &str, others: &[String]) -> Option<Vec<f32>> {
        self.questions.as_ref()?.likeness(text, others).await
    }

    /// Past messages by id, without forgotten words; those that are gone are left out.
    pub async fn messages(&self, scope: &Scope, ids: &[MessageId]) -> Result<Vec<IndexItem>, store::Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let user_index = self.fresh_index(scope).await?;
        let state = user_index.read();
        Ok(ids.iter().filter_map(|id| state.index.get(ItemRef::Message(*id)).cloned()).collect())
    }

    /// The messages around a message, itself included, in order.
    pub async fn messages_around(
        &self,
        scope: &Scope,
        id: MessageId,
        count: usize,
    ) -> Result<Vec<IndexItem>, store::Error> {
        let user_index = self.fresh_index(scope).await?;
        let state = user_index.read();
        Ok(state.index.neighbours(ItemRef::Message(id), count).into_iter().cloned().collect())
    }

    /// A memory that says the same already.
    pub async fn duplicate(
        &self,
        scope: &Scope,
        text: &str,
        now: Timestamp,
    ) -> Result<Option<MemoryId>, store::Error> {
        let near =
            self.search(scope, RecallQuestion::new(text, now, NEAREST, RecallFilter::Memories)).await?;
        let vector =
            if near.is_empty() { None } else { self.vector(&format!("{}{text}", self.fact())).await };
        let user_index = self.fresh_index(scope).await?;
        let state = user_index.read();
        let same = near.into_iter().find(|found| {
            let cosine = vector.as_ref().and_then(|vector| state.index.cosine(found.item.id, vector));
            is_duplicate(text, &found.item.text, cosine)
        });
        Ok(same.and_then(|found| match found.item.id {
            ItemRef::Memory(id) => Some(id),
            ItemRef::Message(_) | ItemRef::Chunk(_) => None,
        }))
    }

    /// The words that the user has asked to forget.
    pub async fn forgotten_words(&self, scope: &Scope) -> Result<Arc<Forgotten>, store::Error> {
        if self.is_held(scope) {
            return Ok(Arc::clone(&self.fresh_index(scope).await?.read().forgotten));
        }
        // An app that recalls nothing needs no index.
        Ok(Arc::new(self.words_to_hide(scope).await?))
    }

    /// The words that the user has asked to forget, whose rows were read a moment ago.
    pub async fn forgotten_of(
        &self,
        scope: &Scope,
        hidden: &HiddenWords,
    ) -> Result<Arc<Forgotten>, store::Error> {
        if self.is_held(scope) {
            self.forgotten_words(scope).await
        } else {
            Ok(Arc::new(self.hide(hidden).await?))
        }
    }

    /// Makes vectors of what has none yet, of documents last. True when more is left.
    pub async fn embed(&self, scope: &Scope) -> Result<bool, EmbedError> {
        let Some(embedder) = self.questions.as_ref().map(Questions::embedder) else { return Ok(false) };
        let user_index = self.fresh_index(scope).await?;
        let wanted = user_index.read().without_vector(MAX_EMBEDDED);
        for batch in wanted.chunks(EMBED_BATCH) {
            let texts: Vec<String> = batch.iter().map(|wanted| wanted.text.to_string()).collect();
            let (made, failed) = match embedder.embed(&texts).await {
                Ok(made) => (batch.iter().zip(made).map(|(bare, made)| bare.vector(&made)).collect(), None),
                Err(error) if is_refusal(&error) => one_by_one(embedder, batch).await,
                Err(error) => (Vec::new(), Some(error)),
            };
            self.store.put_vectors(scope, embedder.model(), made).await?;
            if let Some(error) = failed {
                return Err(EmbedError::Embedder(error));
            }
        }
        Ok(wanted.len() == MAX_EMBEDDED)
    }

    /// Text before a memory when it is embedded.
    fn fact(&self) -> &'static str {
        self.questions.as_ref().map_or("", Questions::fact)
    }

    /// The vector by which memories are looked up.
    async fn about_me(&self, text: &str) -> Option<Arc<[f32]>> {
        self.questions.as_ref()?.about_me(text).await
    }

    /// Vectors of the texts, in their order. None when there is no embedder.
    pub async fn vectors(&self, texts: &[String]) -> Option<Result<Vec<Vec<f32>>, model::Error>> {
        let questions = self.questions.as_ref()?;
        Some(questions.embedder().embed(texts).await)
    }

    /// The vector of a text. None when there is no embedder, or it does not answer in time.
    pub async fn vector(&self, text: &str) -> Option<Arc<[f32]>> {
        self.questions.as_ref()?.vector(text).await
    }

    /// The user's index with everything in it that was committed when this was called.
    async fn fresh_index(&self, scope: &Scope) -> Result<Arc<UserIndex>, store::Error> {
        let head = self.store.recall_head(scope).await?;
        if head == 0 {
            return Ok(Arc::default()); // nothing to keep
        }
        let user_index = self.user_index(scope);
        if !user_index.read().is_behind(head) {
            return Ok(user_index);
        }
        // One reads, the others wait for it.
        let turn = user_index.turn.acquire().await.map_err(|_| store::Error::Closed)?;
        while user_index.read().is_behind(head) {
            self.read_on(scope, &user_index, head).await?;
        }
        let bytes =
            use_index(Arc::clone(&user_index), |user_index: &UserIndex| user_index.read().bytes()).await?;
        drop(turn);
        self.settle(scope, bytes);
        Ok(user_index)
    }

    /// Takes in what changed. If that is what is hidden, or nothing was read yet, everything is read again from the
    /// first row on. Unchanged items stay as they are.
    async fn read_on(
        &self,
        scope: &Scope,
        user_index: &Arc<UserIndex>,
        head: u64,
    ) -> Result<(), store::Error> {
        let Some(after) = user_index.read().read_up_to() else {
            return self.read_again(scope, user_index).await;
        };
        let rows = self.store.recall_changes(scope, after, self.model(), ROWS_PER_READ).await?;
        if rows.is_empty() {
            user_index.write().has_read_all(head); // what else there was is gone meanwhile
            return Ok(());
        }
        if user_index.read().hides_other_than(&rows) {
            return self.read_again(scope, user_index).await;
        }
        let (is_much, user_index) = (rows.len() > INLINE_ROWS, Arc::clone(user_index));
        let take_in = move |user_index: &UserIndex| user_index.write().take_in(rows, head);
        if is_much {
            use_index_blocking(user_index, take_in).await
        } else {
            use_index(user_index, take_in).await
        }
    }

    /// From here on everything is read again, with what is to be hidden now.
    async fn read_again(&self, scope: &Scope, user_index: &UserIndex) -> Result<(), store::Error> {
        let as_of = self.store.recall_head(scope).await?;
        let forgotten = self.words_to_hide(scope).await?;
        user_index.write().read_again(forgotten, as_of);
        Ok(())
    }

    /// Words that no model sees any more.
    async fn words_to_hide(&self, scope: &Scope) -> Result<Forgotten, store::Error> {
        self.hide(&self.store.hidden_words(scope).await?).await
    }

    async fn hide(&self, hidden: &HiddenWords) -> Result<Forgotten, store::Error> {
        let HiddenWords { tombstones, purged } = hidden;
        if purged.is_empty() {
            return Ok(Forgotten::new(tombstones));
        }
        let shadow = |purged: &store::PurgedWords| Some((Shadow::from_bytes(&purged.shadow)?, purged.at));
        let shadows: Vec<(Shadow, Timestamp)> = purged.iter().filter_map(shadow).collect();
        Ok(Forgotten::with_shadows(tombstones, &shadows, &self.store.secret().await?))
    }

    fn is_held(&self, scope: &Scope) -> bool {
        self.indexes().by_scope.contains_key(scope)
    }

    fn indexes(&self) -> MutexGuard<'_, HeldIndexes> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn user_index(&self, scope: &Scope) -> Arc<UserIndex> {
        let mut indexes = self.indexes();
        let new = || HeldIndex { user_index: Arc::new(UserIndex::new(self.fact())), ..HeldIndex::default() };
        Arc::clone(&indexes.by_scope.entry(scope.clone()).or_insert_with(new).user_index)
    }

    /// Notes how much a index holds. If that is too much for all together, those that were used longest ago go, and a few
    /// more, so that this is not done for every search.
    fn settle(&self, scope: &Scope, bytes: usize) {
        let mut indexes = self.indexes();
        let Some(place) = indexes.by_scope.get_mut(scope) else { return };
        let before = std::mem::replace(&mut place.bytes, bytes);
        indexes.held = indexes.held + bytes - before;
        if indexes.held <= MAX_HELD_BYTES && indexes.by_scope.len() <= MAX_INDEXES {
            return;
        }
        let is_much = |indexes: &HeldIndexes| {
            indexes.held > HELD_AFTER_EVICTION || indexes.by_scope.len() > INDEXES_AFTER_EVICTION
        };
        // The last one is this user's, which was used just now.
        while is_much(&indexes) && indexes.by_scope.len() > 1 {
            let Some((_, oldest)) = indexes.by_scope.remove_lru() else { return };
            indexes.held -= oldest.bytes;
        }
    }

    /// Memory that all indexes hold.
    pub fn held_bytes(&self) -> usize {
        self.indexes().held
    }
}

/// Why vectors were not made.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{0}")]
    Embedder(model::Error),
}

/// Whether the embedder would say the same to the same text every time.
fn is_refusal(error: &model::Error) -> bool {
    matches!(error, model::Error::Rejected { .. } | model::Error::ContextLength)
}

/// Vectors of the texts that the embedder takes, and empty ones of those it does not: these are not asked for again until
/// the text or the model is another. An embedder that takes nothing at all has refused something else than the texts.
async fn one_by_one(
    embedder: &dyn Embedder,
    batch: &[UnembeddedText],
) -> (Vec<NewVector>, Option<model::Error>) {
    let (mut made, mut refused, mut refusal) = (Vec::new(), Vec::new(), None);
    for bare in batch {
        match embedder.embed(&[bare.text.to_string()]).await {
            Ok(vectors) => made.extend(vectors.first().map(|vector| bare.vector(vector))),
            Err(error) if is_refusal(&error) => {
                refused.push(bare.vector(&[]));
                refusal = Some(error);
            }
            Err(error) => return (made, Some(error)),
        }
    }
    if made.is_empty() && embedder.embed(&[HARMLESS.to_owned()]).await.is_err() {
        return (made, refusal);
    }
    if let Some(error) = refusal {
        tracing::warn!(texts = refused.len(), %error, "the embedding model refuses texts; these texts are found by their words only");
    }
    made.extend(refused);
    (made, None)
}

/// Works on an index: here if it is small, else on a thread that may block.
async fn use_index<T: Send + 'static>(
    user_index: Arc<UserIndex>,
    work: impl FnOnce(&UserIndex) -> T + Send + 'static,
) -> Result<T, store::Error> {
    if user_index.read().len() <= INLINE_ITEMS {
        return Ok(work(&user_index));
    }
    use_index_blocking(user_index, work).await
}

async fn use_index_blocking<T: Send + 'static>(
    user_index: Arc<UserIndex>,
    work: impl FnOnce(&UserIndex) -> T + Send + 'static,
) -> Result<T, store::Error> {
    tokio::task::spawn_blocking(move || work(&user_index)).await.map_err(|_| store::Error::Closed)
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text).first_chunk().copied().unwrap_or_default()
}
