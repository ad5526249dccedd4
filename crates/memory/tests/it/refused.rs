//! An embedder that does not take every text.

use std::sync::Mutex;

use super::*;

/// Takes no text that says `refused`, nor anything when it is `broken`, and keeps what it was asked.
#[derive(Default)]
struct Choosy {
    broken: Mutex<bool>,
    asked: Mutex<Vec<usize>>,
}

impl Embedder for Choosy {
    fn model(&self) -> &str {
        "choosy"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, model::Error>> {
        self.asked.lock().unwrap().push(texts.len());
        if *self.broken.lock().unwrap() || texts.iter().any(|text| text.contains("refused")) {
            return ready(Err(model::Error::Rejected { status: 400, summary: "no".into() })).boxed();
        }
        Letters("choosy").embed(texts)
    }
}

#[tokio::test]
async fn one_text_that_is_refused_keeps_no_other_from_its_vector_and_is_not_asked_for_again() {
    let embedder = Arc::new(Choosy::default());
    let world = World::new(Some(embedder.clone()));
    for text in ["quick zebras", "this is refused", "bright mornings"] {
        world.add("alice", text).await;
    }
    assert!(!world.recall.embed(&scope("alice")).await.unwrap());
    assert_eq!(*embedder.asked.lock().unwrap(), [3, 1, 1, 1], "all of them, then one by one");
    assert_eq!(world.found("alice", "quiet zoos").await[0], "quick zebras", "by its meaning");
    assert_eq!(world.found("alice", "refused").await[0], "this is refused", "by its words");
    embedder.asked.lock().unwrap().clear();
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(*embedder.asked.lock().unwrap(), [0usize; 0], "nobody is asked again");
    assert!(world.store.scopes_to_embed("choosy", None, 9).await.unwrap().is_empty());

    // Another text is another question, and a refused one may come alone.
    let id = world.add("alice", "refused as well").await;
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(
        *embedder.asked.lock().unwrap(),
        [1, 1, 1],
        "and something harmless, to know that it is the text"
    );
    embedder.asked.lock().unwrap().clear();
    let edit = MemoryEdit { text: Some("zealous quails".into()), kind: None };
    world.store.edit_memory(&principal("alice"), id, edit, None).await.unwrap();
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(*embedder.asked.lock().unwrap(), [1]);
}

#[tokio::test]
async fn an_embedder_that_refuses_everything_marks_nothing() {
    let embedder = Arc::new(Choosy::default());
    let world = World::new(Some(embedder.clone()));
    world.add("alice", "quick zebras").await;
    world.add("alice", "bright mornings").await;
    *embedder.broken.lock().unwrap() = true; // such as one whose name is wrong
    assert!(world.recall.embed(&scope("alice")).await.is_err());
    *embedder.broken.lock().unwrap() = false;
    world.recall.embed(&scope("alice")).await.unwrap();
    assert_eq!(world.found("alice", "quiet zoos").await[0], "quick zebras");
}
