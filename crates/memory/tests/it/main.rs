//! Recall over a real store: what is committed is found, what is gone is not, and no user finds the items of another.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "what goes wrong fails the test")]

mod both_stores;
mod documents;
mod refused;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use memory::index::{ItemRef, RecallFilter};
use memory::recall::{Recall, RecallQuestion};
use model::Embedder;
use proptest::prelude::*;
use protocol::{AppId, Clock, Ids, MemoryId, Principal, Scope, Stored, SystemClock, TimeOrderedIds, UserId};
use store::{MemoryEdit, NewMemoryRow, Publish, Store, StoreOptions};
use tempfile::TempDir;

struct Silent;

impl Publish for Silent {
    fn publish(&self, _: &[Arc<Stored>]) {}
}

/// Knows the first letters of words.
struct Letters(&'static str);

impl Embedder for Letters {
    fn model(&self) -> &str {
        self.0
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, model::Error>> {
        let vector = |text: &String| {
            let mut vector = vec![0.01f32; 26];
            for letter in text.split_whitespace().filter_map(|word| word.bytes().next()) {
                vector[usize::from(letter.to_ascii_lowercase().wrapping_sub(b'a')).min(25)] += 1.0;
            }
            vector
        };
        ready(Ok(texts.iter().map(vector).collect())).boxed()
    }
}

struct World {
    store: Store,
    recall: Recall,
    _folder: TempDir,
}

fn scope(user: &str) -> Scope {
    Scope { app: AppId::new("test"), user: UserId::new(user) }
}

fn principal(user: &str) -> Principal {
    Principal::authenticated(UserId::new(user))
}

impl World {
    fn new(embedder: Option<Arc<dyn Embedder>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(
            folder.path(),
            Arc::new(SystemClock),
            Arc::new(Silent),
            StoreOptions::default(),
        )
        .unwrap();
        Self { recall: Recall::new(store.clone(), embedder), store, _folder: folder }
    }

    async fn add(&self, user: &str, text: &str) -> MemoryId {
        let memory = NewMemoryRow {
            id: TimeOrderedIds.memory(),
            text: text.into(),
            kind: "fact".into(),
            source: "user",
            sources: Vec::new(),
            valid_from: None,
            created_at: None,
        };
        self.store.add_memory(&scope(user), memory, None).await.unwrap().id
    }

    async fn found(&self, user: &str, text: &str) -> Vec<String> {
        found(&self.recall, user, text).await
    }
}

async fn found(recall: &Recall, user: &str, text: &str) -> Vec<String> {
    let question = RecallQuestion::new(text, SystemClock.now(), 20, RecallFilter::Both);
    let found = recall.search(&scope(user), question).await.unwrap();
    found.into_iter().map(|found| found.item.text.to_string()).collect()
}

#[tokio::test]
async fn m3_one_memory_is_found_among_those_of_others_and_theirs_never() {
    let world = World::new(None);
    for number in 0..300 {
        world
            .add(
                &format!("user{}", number % 30),
                &format!("keeps the spare key number {number} in a blue vase"),
            )
            .await;
    }
    world.add("alice", "keeps the spare key under a stone").await;
    assert_eq!(world.found("alice", "Where is the spare key?").await, ["keeps the spare key under a stone"]);
    assert_eq!(world.found("alice", "blue vase").await, Vec::<String>::new());
    assert_eq!(world.found("nobody", "spare key").await, Vec::<String>::new());
    assert_eq!(world.found("user7", "spare key").await.len(), 10);
}

#[tokio::test]
async fn every_change_is_seen_by_the_next_search() {
    let world = World::new(None);
    let id = world.add("alice", "lives in Oslo").await;
    assert_eq!(world.found("alice", "Oslo").await, ["lives in Oslo"]);
    let edit = MemoryEdit { text: Some("lives in Rome".into()), kind: None };
    world.store.edit_memory(&principal("alice"), id, edit, None).await.unwrap();
    assert_eq!(world.found("alice", "Oslo").await, Vec::<String>::new());
    assert_eq!(world.found("alice", "Rome").await, ["lives in Rome"]);
    world.store.forget_memory(&principal("alice"), id, None).await.unwrap();
    assert_eq!(world.found("alice", "Rome").await, Vec::<String>::new());
    world.store.restore_memory(&principal("alice"), id, None).await.unwrap();
    assert_eq!(world.found("alice", "Rome").await, ["lives in Rome"]);
}

#[tokio::test]
async fn vectors_are_of_one_model_and_of_the_text_as_it_is() {
    let world = World::new(Some(Arc::new(Letters("first"))));
    let id = world.add("alice", "quick zebras").await;
    assert!(!world.recall.embed(&scope("alice")).await.unwrap(), "that was all");
    assert_eq!(world.found("alice", "quiet zoos").await, ["quick zebras"], "no word in common");
    let edit = MemoryEdit { text: Some("bright mornings".into()), kind: None };
    world.store.edit_memory(&principal("alice"), id, edit, None).await.unwrap();
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(world.found("alice", "blue moons").await, ["bright mornings"]);
    let other = Recall::new(world.store.clone(), Some(Arc::new(Letters("second"))));
    assert_eq!(found(&other, "alice", "bright").await, ["bright mornings"], "by its words meanwhile");
    other.embed(&scope("alice")).await.unwrap();
    assert_eq!(found(&other, "alice", "blue moons").await, ["bright mornings"]);
}

#[tokio::test]
async fn what_says_the_same_is_a_duplicate_and_what_contradicts_is_not() {
    let world = World::new(None);
    let id = world.add("alice", "I live in Oslo").await;
    world.add("bob", "I live in Rome").await;
    let same =
        async |text: &str| world.recall.duplicate(&scope("alice"), text, SystemClock.now()).await.unwrap();
    assert_eq!(same("I live in Oslo!").await, Some(id));
    assert_eq!(same("I live in Rome").await, None, "not even though somebody else said so");
    assert_eq!(same("I do not live in Oslo").await, None);
}

/// Notes what it is given.
struct Noting(std::sync::Mutex<Vec<String>>);

impl Embedder for Noting {
    fn model(&self) -> &str {
        "all-MiniLM-L6-v2"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, model::Error>> {
        self.0.lock().unwrap().extend(texts.iter().cloned());
        Letters("letters").embed(texts).now_or_never().map(ready).unwrap().boxed()
    }
}

#[tokio::test]
async fn the_built_in_embedder_is_told_that_memories_are_facts_and_what_a_question_is() {
    let embedder = Arc::new(Noting(std::sync::Mutex::default()));
    let world = World::new(Some(Arc::clone(&embedder) as Arc<dyn Embedder>));
    let id = world.add("alice", "quick zebras").await;
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(*embedder.0.lock().unwrap(), ["A fact about me: quick zebras"]);
    let ask = async |text: &str| {
        let question = RecallQuestion::new(text, SystemClock.now(), 5, RecallFilter::Memories);
        world.recall.search(&scope("alice"), question).await.unwrap()
    };
    assert_eq!(ask("quiet zoos").await.len(), 1);
    let given = embedder.0.lock().unwrap().clone();
    assert!(given.contains(&"quiet zoos".to_owned()) && given.contains(&"What should I do?".to_owned()));
    ask("queer zones").await;
    assert_eq!(embedder.0.lock().unwrap().len(), given.len() + 1, "what all questions share is known");
    let same = world.recall.duplicate(&scope("alice"), "Quick zebras!", SystemClock.now()).await.unwrap();
    assert_eq!(same, Some(id));
}

#[derive(Debug, Clone)]
enum Deed {
    Add(u8),
    Edit(u8, u8),
    Forget(u8),
    Restore(u8),
    Embed,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => any::<u8>().prop_map(Deed::Add),
        2 => any::<(u8, u8)>().prop_map(|(which, word)| Deed::Edit(which, word)),
        2 => any::<u8>().prop_map(Deed::Forget),
        2 => any::<u8>().prop_map(Deed::Restore),
        1 => Just(Deed::Embed),
    ]
}

fn text(word: u8) -> String {
    format!("{}ord number {}", char::from(b'a' + word % 26), word % 40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// An index that follows the changes one by one is the same as one that is made of the rows anew.
    #[test]
    fn an_index_that_was_kept_is_like_one_that_is_new(deeds in prop::collection::vec(deed(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new(Some(Arc::new(Letters("first"))));
            let mut ids = Vec::new();
            for deed in deeds {
                let which = |which: u8, ids: &[MemoryId]| ids.get(usize::from(which) % ids.len().max(1)).copied();
                let alice = principal("alice");
                match deed {
                    Deed::Add(word) => ids.push(world.add("alice", &text(word)).await),
                    Deed::Edit(at, word) => if let Some(id) = which(at, &ids) {
                        let edit = MemoryEdit { text: Some(text(word)), kind: None };
                        let _ = world.store.edit_memory(&alice, id, edit, None).await; // one that is forgotten stays so
                    },
                    Deed::Forget(at) => if let Some(id) = which(at, &ids) {
                        world.store.forget_memory(&alice, id, None).await.unwrap();
                    },
                    Deed::Restore(at) => if let Some(id) = which(at, &ids) {
                        let _ = world.store.restore_memory(&alice, id, None).await; // there may be nothing to restore
                    },
                    Deed::Embed => { world.recall.embed(&scope("alice")).await.unwrap(); }
                }
                world.found("alice", "number 7").await;
            }
            let fresh = Recall::new(world.store.clone(), Some(Arc::new(Letters("first"))));
            for question in ["number 7", "word number 3 and 4", "anything at all"] {
                let ask = |recall| { let recall: &Recall = recall; recall.search(&SCOPE, RecallQuestion::new(question, SystemClock.now(), 50, RecallFilter::Both)) };
                let kept: Vec<ItemRef> = ask(&world.recall).await.unwrap().iter().map(|found| found.item.id).collect();
                let new: Vec<ItemRef> = ask(&fresh).await.unwrap().iter().map(|found| found.item.id).collect();
                assert_eq!(kept, new, "{question}");
            }
        });
    }
}

static SCOPE: std::sync::LazyLock<Scope> = std::sync::LazyLock::new(|| scope("alice"));
