//! Pieces of documents over a real store: found by themselves, and never in the way of memories.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join3, ready};
use memory::index::RecallFilter;
use memory::recall::{Passage, Recall, RecallHit, RecallQuestion};
use model::Embedder;
use proptest::prelude::*;
use protocol::{Clock, DocumentId, Ids, SystemClock, TimeOrderedIds};
use store::{NewChunk, NewDocument, Store};

use crate::{Letters, World, principal, scope};

impl World {
    async fn upload(&self, name: &str, pieces: &[&str]) -> DocumentId {
        upload(&self.store, name, pieces.iter().map(|piece| (*piece).to_owned())).await
    }

    async fn delete(&self, id: DocumentId) {
        self.store.delete_document(&principal("alice"), id, None).await.unwrap();
    }

    async fn passages(&self, text: &str, among: Option<&[DocumentId]>, limit: usize) -> Vec<Passage> {
        self.recall.passages(&scope("alice"), text, among, limit).await.unwrap()
    }

    async fn texts(&self, text: &str, among: Option<&[DocumentId]>, limit: usize) -> Vec<String> {
        self.passages(text, among, limit).await.into_iter().map(|found| found.chunk.text).collect()
    }
}

async fn upload(store: &Store, name: &str, pieces: impl IntoIterator<Item = String>) -> DocumentId {
    let piece = |(number, text): (usize, String)| NewChunk {
        id: TimeOrderedIds.chunk(),
        suspicious: text.contains("ignore"),
        text,
        place: format!("page {}", number + 1),
    };
    let chunks: Vec<NewChunk> = pieces.into_iter().enumerate().map(piece).collect();
    let document = NewDocument {
        quota: 1 << 30,
        id: TimeOrderedIds.document(),
        name: name.into(),
        title: None,
        kind: "text",
        bytes: chunks.iter().map(|chunk| chunk.text.len() as u64).sum(),
        pages: None,
        chunks,
    };
    store.add_document(&scope("alice"), document, None).await.unwrap().id
}

/// Counts how often it is asked, and keeps for what.
#[derive(Default)]
struct Counting {
    calls: AtomicUsize,
    texts: Mutex<Vec<String>>,
}

impl Embedder for Counting {
    fn model(&self) -> &str {
        "counting"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, model::Error>> {
        async {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.texts.lock().unwrap().extend_from_slice(texts);
            tokio::task::yield_now().await; // so that others ask meanwhile
            Letters("any").embed(texts).await
        }
        .boxed()
    }
}

/// Answers nothing.
struct Broken;

impl Embedder for Broken {
    fn model(&self) -> &str {
        "broken"
    }

    fn embed<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, model::Error>> {
        ready(Err(model::Error::Broken("no vectors today".into()))).boxed()
    }
}

#[tokio::test]
async fn a_passage_is_the_piece_as_it_was_uploaded() {
    let world = World::new(None);
    let id = world.upload("manual.pdf", &["The pump hums.", "If it leaks, ignore the seal."]).await;
    let found = world.passages("leaks", None, 5).await;
    let rows = world.store.chunks(&scope("alice"), id, 0, 10).await.unwrap();
    assert_eq!(found.iter().map(|found| &found.chunk).collect::<Vec<_>>(), [&rows[1]]);
    assert_eq!((found[0].chunk.place.as_str(), found[0].chunk.suspicious), ("page 2", true));
    assert!(found[0].score > 0.0 && found[0].score <= 1.0);
    assert_eq!(world.recall.passages(&scope("bob"), "leaks", Some(&[id]), 5).await.unwrap(), []);
    assert_eq!(world.texts("zebra", None, 5).await, Vec::<String>::new(), "nothing is near");
    assert_eq!(world.texts("leaks", None, 0).await, Vec::<String>::new());
    let question = RecallQuestion::new("leaks", SystemClock.now(), 5, RecallFilter::Documents);
    let same = world.recall.search(&scope("alice"), question).await.unwrap();
    assert_eq!((same.len(), &*same[0].item.text), (1, rows[1].text.as_str()));
}

#[tokio::test]
async fn a_named_document_gives_its_pieces_however_near_others_are() {
    let world = World::new(Some(Arc::new(Letters("first"))));
    let crowd = (0..1_500).map(|number| format!("the blue boat in the harbour, number {number}"));
    upload(&world.store, "crowd.txt", crowd).await;
    let small = world.upload("small.txt", &["a boat", "owns nothing", "quiet zebras"]).await;
    world.recall.embed(&scope("alice")).await.unwrap();
    let question = "where is the blue boat in the harbour?";
    let mut texts = world.texts(question, Some(&[small, small]), 3).await;
    assert_eq!(texts[0], "a boat");
    texts.sort();
    assert_eq!(texts, ["a boat", "owns nothing", "quiet zebras"]);
    assert_eq!(world.texts(question, Some(&[small]), 1).await, ["a boat"], "the best of them");
    assert!(world.texts(question, None, 3).await.iter().all(|text| text.contains("number")));
    assert_eq!(world.texts(question, Some(&[]), 3).await, Vec::<String>::new());
    assert_eq!(world.texts(question, Some(&[TimeOrderedIds.document()]), 3).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_short_document_is_read_whole_and_a_long_one_from_its_beginning() {
    let world = World::new(None);
    let long = world.upload("long.txt", &["one", "two", "three", "four"]).await;
    let short = world.upload("short.txt", &["five boats", "six", "seven"]).await;
    let whole = world.passages("Which boats?", Some(&[short]), 3).await;
    let scored = |passage: &Passage| (passage.chunk.text.clone(), passage.score > 0.0);
    assert_eq!(
        whole.iter().map(scored).collect::<Vec<_>>(),
        [("five boats".into(), true), ("six".into(), false), ("seven".into(), false)]
    );
    assert_eq!(world.texts("Which boats?", Some(&[short]), 2).await, ["five boats"], "not all fit");
    assert_eq!(world.texts("zebra", Some(&[long]), 2).await, ["one", "two"]);
    assert_eq!(world.texts("", Some(&[long, short]), 4).await, ["one", "five boats", "two", "six"]);
}

#[tokio::test]
async fn a_thousand_pieces_change_nothing_of_what_memories_are_found() {
    let world = World::new(Some(Arc::new(Letters("first"))));
    for text in ["keeps the spare key under a stone", "has a blue boat", "the boat key is red", "likes tea"] {
        world.add("alice", text).await;
    }
    world.recall.embed(&scope("alice")).await.unwrap();
    let ask = async || {
        let mut all: Vec<RecallHit> = Vec::new();
        for (text, among) in [("boat key", RecallFilter::Both), ("my spare stone", RecallFilter::Memories)] {
            let now = "2030-01-01T00:00:00Z".parse().unwrap();
            all.extend(
                world.recall.search(&scope("alice"), RecallQuestion::new(text, now, 9, among)).await.unwrap(),
            );
        }
        all
    };
    let (before, held) = (ask().await, world.recall.held_bytes());
    let pieces = (0..1_000).map(|number| format!("the key of boat {number} is under the stone, key by key"));
    upload(&world.store, "keys.txt", pieces.clone()).await;
    assert_eq!(ask().await, before);
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(ask().await, before, "with their vectors, too");
    let own: usize = pieces.map(|piece| piece.len()).sum();
    assert!(world.recall.held_bytes() > held + own, "they count as held");
}

#[tokio::test]
async fn a_deleted_document_is_found_no_more() {
    let world = World::new(Some(Arc::new(Letters("first"))));
    let gone = world.upload("gone.txt", &["the boat is blue", "boats are sold"]).await;
    let kept = world.upload("kept.txt", &["the boat is red"]).await;
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(world.texts("boat", None, 9).await.len(), 3);
    world.delete(gone).await;
    assert_eq!(world.texts("boat", None, 9).await, ["the boat is red"]);
    assert_eq!(world.texts("boat", Some(&[gone]), 9).await, Vec::<String>::new());
    assert_eq!(world.texts("boat", Some(&[gone, kept]), 9).await, ["the boat is red"]);
}

#[tokio::test]
async fn memories_get_their_vectors_before_documents() {
    let embedder = Arc::new(Counting::default());
    let world = World::new(Some(Arc::clone(&embedder) as Arc<dyn Embedder>));
    upload(&world.store, "large.txt", (0..2_100).map(|number| format!("piece {number}"))).await;
    world.add("alice", "likes tea").await;
    assert!(world.recall.embed(&scope("alice")).await.unwrap(), "there is more");
    assert_eq!(embedder.texts.lock().unwrap()[0], "likes tea");
    assert!(!world.recall.embed(&scope("alice")).await.unwrap());
    assert_eq!(embedder.texts.lock().unwrap().len(), 2_101);
    assert!(!world.recall.embed(&scope("alice")).await.unwrap());
    assert_eq!(embedder.texts.lock().unwrap().len(), 2_101, "each once");
}

#[tokio::test]
async fn likeness_is_the_cosine_and_the_others_are_embedded_once() {
    let embedder = Arc::new(Counting::default());
    let world = World::new(Some(Arc::clone(&embedder) as Arc<dyn Embedder>));
    let others: Vec<String> =
        (0..40).map(|number| format!("about number{number}")).chain(["zoo".into()]).collect();
    let alike = world.recall.likeness("quiet zebras", &others).await.unwrap();
    assert_eq!(alike.len(), others.len());
    assert!(alike[40] > 0.6 && alike[0] < 0.1, "{alike:?}");
    assert_eq!(embedder.texts.lock().unwrap().len(), 42);
    assert_eq!(world.recall.likeness("quiet zebras", &others).await.unwrap(), alike);
    assert_eq!(embedder.texts.lock().unwrap().len(), 42, "all of it was known");
    world.recall.likeness("another question", &others).await.unwrap();
    assert_eq!(embedder.texts.lock().unwrap()[42..], ["another question"]);
    assert_eq!(world.recall.likeness("nobody compares this", &[]).await, Some(Vec::new()));
    assert_eq!(embedder.texts.lock().unwrap().len(), 43);
}

#[tokio::test]
async fn without_an_embedder_that_answers_there_is_no_likeness_and_words_are_left() {
    let others = ["zoo".to_owned()];
    let world = World::new(None);
    world.upload("zoo.txt", &["zebras live here"]).await;
    assert_eq!(world.recall.likeness("zebras", &others).await, None);
    let broken = Recall::new(world.store.clone(), Some(Arc::new(Broken)));
    let both = tokio::join!(broken.likeness("zebras", &others), broken.likeness("zebras", &others));
    assert_eq!(both, (None, None));
    assert_eq!(broken.passages(&scope("alice"), "zebras", None, 5).await.unwrap().len(), 1);
    assert!(broken.embed(&scope("alice")).await.is_err());
}

#[tokio::test]
async fn a_question_is_embedded_once_for_everything_that_looks_it_up() {
    let embedder = Arc::new(Counting::default());
    let world = World::new(Some(Arc::clone(&embedder) as Arc<dyn Embedder>));
    world.add("alice", "has a boat").await;
    world.upload("boats.txt", &["boats are blue"]).await;
    let (scope, others) = (scope("alice"), ["boats".to_owned()]);
    world.recall.likeness("first of all", &others).await.unwrap();
    for (question, calls) in [("Which boat?", 1), ("Which boat?", 1), ("Whose boat is it?", 2)] {
        let asked = RecallQuestion::new(question, SystemClock.now(), 5, RecallFilter::Both);
        let (memories, passages, alike) = join3(
            world.recall.search(&scope, asked),
            world.recall.passages(&scope, question, None, 5),
            world.recall.likeness(question, &others),
        )
        .await;
        assert_eq!((memories.unwrap().len(), passages.unwrap().len(), alike.unwrap().len()), (1, 1, 1));
        assert_eq!(embedder.calls.load(Ordering::Relaxed), 2 + calls, "{question}");
    }
    for number in 0..64 {
        world.recall.likeness(&format!("question {number}"), &others).await.unwrap();
    }
    let before = embedder.calls.load(Ordering::Relaxed);
    world.recall.likeness("question 0", &others).await.unwrap();
    assert_eq!(embedder.calls.load(Ordering::Relaxed), before, "so many are kept");
    world.recall.likeness("Which boat?", &others).await.unwrap();
    assert_eq!(embedder.calls.load(Ordering::Relaxed), before + 1, "and no more");
}

#[derive(Debug, Clone)]
enum Deed {
    Upload(u8),
    Delete(u8),
    Remember(u8),
    Embed,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => any::<u8>().prop_map(Deed::Upload),
        2 => any::<u8>().prop_map(Deed::Delete),
        1 => any::<u8>().prop_map(Deed::Remember),
        1 => Just(Deed::Embed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Documents that are followed change by change are found like those that are read anew.
    #[test]
    fn documents_that_were_kept_are_like_those_read_anew(deeds in prop::collection::vec(deed(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new(Some(Arc::new(Letters("first"))));
            let mut ids = Vec::new();
            for deed in deeds {
                match deed {
                    Deed::Upload(word) => {
                        let pieces = (0..=word % 5).map(|piece| crate::text(word.wrapping_add(piece * 7)));
                        ids.push(upload(&world.store, "any.txt", pieces).await);
                    }
                    Deed::Delete(which) if !ids.is_empty() => {
                        let id = ids.remove(usize::from(which) % ids.len());
                        world.delete(id).await;
                    }
                    Deed::Delete(_) => {}
                    Deed::Remember(word) => drop(world.add("alice", &crate::text(word)).await),
                    Deed::Embed => drop(world.recall.embed(&scope("alice")).await.unwrap()),
                }
                world.passages("number 7", None, 50).await;
            }
            let fresh = Recall::new(world.store.clone(), Some(Arc::new(Letters("first"))));
            let named = ids.get(..2).unwrap_or(&ids);
            for (question, among) in [("number 7", None), ("anything at all", None), ("word 3", Some(named))] {
                let kept = world.passages(question, among, 50).await;
                let new = fresh.passages(&scope("alice"), question, among, 50).await.unwrap();
                let rows = |found: &[Passage]| found.iter().map(|it| it.chunk.clone()).collect::<Vec<_>>();
                assert_eq!(rows(&kept), rows(&new), "{question}");
            }
        });
    }
}
