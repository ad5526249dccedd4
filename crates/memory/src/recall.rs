//! Recall over the store: an index for each user who speaks, brought up to date before it is searched.
//!
//! The rows are the truth and an index is made of them: of all at first, then of those that changed since. So it does not
//! matter which process changed them, and forgetting reaches an index before the next search. An index is always changed
//! in place, so that there is never a second one beside it. Indexes that nobody has searched for longest make room for
//! others, and one that grows too large leaves out what is oldest.

mod documents;
mod questions;
mod shelf;
mod vector;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::Embedder;
use protocol::{DocumentId, MemoryId, MessageId, Scope, ThreadId};
use sha2::{Digest, Sha256};
use store::{ChunkRow, NewVector, Store};

use self::questions::Questions;
use self::shelf::{Bare, Shelf};
use crate::dates::Span;
use crate::extract::is_duplicate;
use crate::index::{Among, Hit, Item, ItemId, Method, Query};
use crate::tombstone::{Forgotten, Shadow, Tombstone};

/// Memory that all indexes may hold together, about; four of the largest.
const MAX_HELD_BYTES: usize = 1 << 30;
/// Users whose indexes are held at once.
const MAX_SHELVES: usize = 10_000;
/// How much is left once some had to make room.
const HELD_AFTER_EVICTION: usize = MAX_HELD_BYTES / 8 * 7;
const SHELVES_AFTER_EVICTION: usize = MAX_SHELVES / 8 * 7;
/// Rows read at a time.
const ROWS_PER_READ: usize = 1_000;
/// Items above which work on an index leaves the threads that serve.
const INLINE_ITEMS: usize = 2_000;
/// Rows above which taking them in does so, too.
const INLINE_ROWS: usize = 50;
/// Texts embedded in one go, and in one piece of background work.
const EMBED_BATCH: usize = 32;
const MAX_EMBEDDED: usize = 2_048;
/// What any embedder takes; who refuses this refuses everything.
const HARMLESS: &str = "Good morning";
/// Items that a search looks at beyond its limit, because some may be of a thread that is left out.
const SPARE_HITS: usize = 20;
/// Memories among which a duplicate is looked for.
const NEAREST: usize = 8;

/// Finds what is known of users.
pub struct Recall {
    store: Store,
    questions: Option<Questions>,
    shelves: Mutex<Shelves>,
}

/// Names a text, so that a vector of another one is not taken for its own.
type Hash = [u8; 16];

#[derive(Default)]
struct Shelves {
    by_scope: HashMap<Scope, Place>,
    /// Counts searches, so that it is known which shelf was used last.
    uses: u64,
    /// Bytes of all of them.
    held: usize,
}

#[derive(Default)]
struct Place {
    shelf: Arc<Shelf>,
    used: u64,
    bytes: usize,
}

/// What to look for.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub text: &'a str,
    pub now: Timestamp,
    pub zone: TimeZone,
    /// Nothing from outside this span is found.
    pub within: Option<Span>,
    pub limit: usize,
    pub among: Among,
    /// Messages of this thread are left out: they are in the prompt anyway.
    pub without: Option<ThreadId>,
}

impl<'a> Question<'a> {
    pub fn new(text: &'a str, now: Timestamp, limit: usize, among: Among) -> Self {
        Self { text, now, zone: TimeZone::UTC, within: None, limit, among, without: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub item: Item,
    /// From 0 to 1.
    pub score: f32,
}

/// A piece of a document that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    pub chunk: ChunkRow,
    /// From 0 to 1.
    pub score: f32,
}

impl Recall {
    /// Without an embedder, everything is found by its words.
    pub fn new(store: Store, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self { store, questions: embedder.map(Questions::new), shelves: Mutex::default() }
    }

    /// The model whose vectors are used.
    pub fn model(&self) -> Option<&str> {
        self.questions.as_ref().map(|questions| questions.embedder().model())
    }

    /// The nearest items, best first.
    pub async fn search(&self, scope: &Scope, question: Question<'_>) -> Result<Vec<Found>, store::Error> {
        let shelf = self.fresh(scope).await?;
        let asked = {
            let state = shelf.read();
            let index = state.index_of(question.among);
            (!index.is_empty()).then(|| index.to_embed(question.text))
        };
        let Some(asked) = asked else { return Ok(Vec::new()) };
        let vector = match question.among {
            Among::Memories => self.about_me(&asked).await,
            Among::Messages | Among::Both | Among::Documents => self.vector(&asked).await,
        };
        let Question { text, now, zone, within, limit, among, without } = question;
        let text = text.to_owned();
        let look = move |shelf: &Shelf| {
            let state = shelf.read();
            let index = state.index_of(among);
            let method = if vector.is_some() { Method::Hybrid } else { Method::Words };
            let vector = vector.as_deref();
            let (text, limit_of_all) = (text.as_str(), limit.saturating_add(SPARE_HITS));
            let query = Query { text, vector, now, zone: &zone, within, limit: limit_of_all, among, method };
            let hits = index.search(&query).into_iter();
            let found = |Hit { id, score }| Some(Found { item: index.get(id)?.clone(), score });
            let wanted = |found: &Found| match found.item.id {
                ItemId::Memory(_) | ItemId::Chunk(_) => true,
                ItemId::Message(_) => without.is_none() || found.item.thread != without,
            };
            hits.filter_map(found).filter(wanted).take(limit).collect()
        };
        on(shelf, look).await
    }

    /// The nearest pieces of documents, best first: of all of the user's, or of some. Of those all are returned if they
    /// are few enough, and the first ones if nothing is near.
    pub async fn passages(
        &self,
        scope: &Scope,
        text: &str,
        among: Option<&[DocumentId]>,
        limit: usize,
    ) -> Result<Vec<Passage>, store::Error> {
        let shelf = self.fresh(scope).await?;
        if limit == 0 || shelf.read().documents.count(among) == 0 {
            return Ok(Vec::new());
        }
        let vector = self.vector(text).await;
        let (text, among) = (text.to_owned(), among.map(<[DocumentId]>::to_vec));
        let look = move |shelf: &Shelf| {
            let state = shelf.read();
            state.documents.passages(&text, vector.as_deref(), among.as_deref(), limit)
        };
        on(shelf, look).await
    }

    /// How near a text is to each of the others, from -1 to 1; the vectors of the others are kept. None when there is no
    /// embedder, or it does not answer in time.
    pub async fn likeness(&self, text: &str, others: &[String]) -> Option<Vec<f32>> {
        self.questions.as_ref()?.likeness(text, others).await
    }

    /// Past messages by id, without forgotten words; those that are gone are left out.
    pub async fn messages(&self, scope: &Scope, ids: &[MessageId]) -> Result<Vec<Item>, store::Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let shelf = self.fresh(scope).await?;
        let state = shelf.read();
        Ok(ids.iter().filter_map(|id| state.index.get(ItemId::Message(*id)).cloned()).collect())
    }

    /// What was said around a message, itself included, in order.
    pub async fn around(
        &self,
        scope: &Scope,
        id: MessageId,
        count: usize,
    ) -> Result<Vec<Item>, store::Error> {
        let shelf = self.fresh(scope).await?;
        let state = shelf.read();
        Ok(state.index.neighbours(ItemId::Message(id), count).into_iter().cloned().collect())
    }

    /// A memory that says the same already.
    pub async fn duplicate(
        &self,
        scope: &Scope,
        text: &str,
        now: Timestamp,
    ) -> Result<Option<MemoryId>, store::Error> {
        let near = self.search(scope, Question::new(text, now, NEAREST, Among::Memories)).await?;
        let vector =
            if near.is_empty() { None } else { self.vector(&format!("{}{text}", self.fact())).await };
        let shelf = self.fresh(scope).await?;
        let state = shelf.read();
        let same = near.into_iter().find(|found| {
            let cosine = vector.as_ref().and_then(|vector| state.index.cosine(found.item.id, vector));
            is_duplicate(text, &found.item.text, cosine)
        });
        Ok(same.and_then(|found| match found.item.id {
            ItemId::Memory(id) => Some(id),
            ItemId::Message(_) | ItemId::Chunk(_) => None,
        }))
    }

    /// The words that the user has asked to forget.
    pub async fn forgotten(&self, scope: &Scope) -> Result<Arc<Forgotten>, store::Error> {
        if self.is_held(scope) {
            return Ok(Arc::clone(&self.fresh(scope).await?.read().forgotten));
        }
        // An app that recalls nothing needs no index.
        Ok(Arc::new(self.words_to_hide(scope).await?))
    }

    /// Makes vectors of what has none yet, of documents last. True when more is left.
    pub async fn embed(&self, scope: &Scope) -> Result<bool, EmbedError> {
        let Some(embedder) = self.questions.as_ref().map(Questions::embedder) else { return Ok(false) };
        let shelf = self.fresh(scope).await?;
        let wanted = shelf.read().without_vector(MAX_EMBEDDED);
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

    /// What stands before a memory when it is embedded.
    fn fact(&self) -> &'static str {
        self.questions.as_ref().map_or("", Questions::fact)
    }

    /// The vector by which memories are looked up.
    async fn about_me(&self, text: &str) -> Option<Arc<[f32]>> {
        self.questions.as_ref()?.about_me(text).await
    }

    /// What the embedder makes of a text. None when there is no embedder, or it does not answer in time.
    pub async fn vector(&self, text: &str) -> Option<Arc<[f32]>> {
        self.questions.as_ref()?.vector(text).await
    }

    /// The user's shelf with everything in it that was committed when this was called.
    async fn fresh(&self, scope: &Scope) -> Result<Arc<Shelf>, store::Error> {
        let head = self.store.recall_head(scope).await?;
        if head == 0 {
            return Ok(Arc::default()); // nothing to keep
        }
        let shelf = self.shelf(scope);
        if !shelf.read().is_behind(head) {
            return Ok(shelf);
        }
        // One reads, the others wait for it.
        let turn = shelf.turn.acquire().await.map_err(|_| store::Error::Closed)?;
        while shelf.read().is_behind(head) {
            self.read_on(scope, &shelf, head).await?;
        }
        let bytes = on(Arc::clone(&shelf), |shelf: &Shelf| shelf.read().bytes()).await?;
        drop(turn);
        self.settle(scope, bytes);
        Ok(shelf)
    }

    /// Takes in what changed. If that is what is hidden, or nothing was read yet, everything is read again from the first
    /// row on; whatever is the same is left as it is.
    async fn read_on(&self, scope: &Scope, shelf: &Arc<Shelf>, head: u64) -> Result<(), store::Error> {
        let Some(after) = shelf.read().read_up_to() else { return self.read_again(scope, shelf).await };
        let rows = self.store.recall_changes(scope, after, self.model(), ROWS_PER_READ).await?;
        if rows.is_empty() {
            shelf.write().has_read_all(head); // what else there was is gone meanwhile
            return Ok(());
        }
        if shelf.read().hides_other_than(&rows) {
            return self.read_again(scope, shelf).await;
        }
        let (is_much, shelf) = (rows.len() > INLINE_ROWS, Arc::clone(shelf));
        let take_in = move |shelf: &Shelf| shelf.write().take_in(rows, head);
        if is_much { away(shelf, take_in).await } else { on(shelf, take_in).await }
    }

    /// From here on everything is read again, with what is to be hidden now.
    async fn read_again(&self, scope: &Scope, shelf: &Shelf) -> Result<(), store::Error> {
        let as_of = self.store.recall_head(scope).await?;
        let forgotten = self.words_to_hide(scope).await?;
        shelf.write().read_again(forgotten, as_of);
        Ok(())
    }

    /// What no model sees any more.
    async fn words_to_hide(&self, scope: &Scope) -> Result<Forgotten, store::Error> {
        let rows = self.store.tombstones(scope).await?;
        let tombstone =
            |row: store::TombstoneRow| Tombstone { words: row.words, at: row.at, memory: row.memory };
        let tombstones: Vec<Tombstone> = rows.into_iter().map(tombstone).collect();
        let purged = self.store.shadows(scope).await?;
        if purged.is_empty() {
            return Ok(Forgotten::new(&tombstones));
        }
        let shadow = |purged: &store::PurgedWords| Some((Shadow::from_bytes(&purged.shadow)?, purged.at));
        let shadows: Vec<(Shadow, Timestamp)> = purged.iter().filter_map(shadow).collect();
        Ok(Forgotten::with_shadows(&tombstones, &shadows, &self.store.secret().await?))
    }

    fn is_held(&self, scope: &Scope) -> bool {
        self.shelves().by_scope.contains_key(scope)
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf(&self, scope: &Scope) -> Arc<Shelf> {
        let mut shelves = self.shelves();
        shelves.uses += 1;
        let uses = shelves.uses;
        let new = || Place { shelf: Arc::new(Shelf::new(self.fact())), ..Place::default() };
        let place = shelves.by_scope.entry(scope.clone()).or_insert_with(new);
        place.used = uses;
        Arc::clone(&place.shelf)
    }

    /// Notes how much a shelf holds. If that is too much for all together, those that were used longest ago go, and a few
    /// more, so that this is not done for every search.
    fn settle(&self, scope: &Scope, bytes: usize) {
        let mut shelves = self.shelves();
        let Some(place) = shelves.by_scope.get_mut(scope) else { return };
        let before = std::mem::replace(&mut place.bytes, bytes);
        shelves.held = shelves.held + bytes - before;
        if shelves.held <= MAX_HELD_BYTES && shelves.by_scope.len() <= MAX_SHELVES {
            return;
        }
        let others = shelves.by_scope.iter().filter(|(other, _)| *other != scope);
        let mut by_use: Vec<(u64, Scope)> =
            others.map(|(other, place)| (place.used, other.clone())).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, oldest) in by_use {
            if shelves.held <= HELD_AFTER_EVICTION && shelves.by_scope.len() <= SHELVES_AFTER_EVICTION {
                return;
            }
            let gone = shelves.by_scope.remove(&oldest).map_or(0, |place| place.bytes);
            shelves.held -= gone;
        }
    }

    /// Memory that all indexes hold.
    pub fn held_bytes(&self) -> usize {
        self.shelves().held
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
async fn one_by_one(embedder: &dyn Embedder, batch: &[Bare]) -> (Vec<NewVector>, Option<model::Error>) {
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
        tracing::warn!(texts = refused.len(), %error, "the embedder refuses texts; they are found by their words alone");
    }
    made.extend(refused);
    (made, None)
}

/// Works on a shelf: here if it is small, else where it holds nobody up.
async fn on<T: Send + 'static>(
    shelf: Arc<Shelf>,
    work: impl FnOnce(&Shelf) -> T + Send + 'static,
) -> Result<T, store::Error> {
    if shelf.read().len() <= INLINE_ITEMS {
        return Ok(work(&shelf));
    }
    away(shelf, work).await
}

async fn away<T: Send + 'static>(
    shelf: Arc<Shelf>,
    work: impl FnOnce(&Shelf) -> T + Send + 'static,
) -> Result<T, store::Error> {
    tokio::task::spawn_blocking(move || work(&shelf)).await.map_err(|_| store::Error::Closed)
}

fn hash(text: &str) -> Hash {
    let mut hash = Hash::default();
    for (to, from) in hash.iter_mut().zip(Sha256::digest(text)) {
        *to = from;
    }
    hash
}
