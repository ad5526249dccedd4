//! Embeddings over a real socket, and what is kept of them.

use std::sync::{Arc, Mutex};

use serde_json::json;
use testkit::upstream::{Reply, Upstream};

use super::*;
use crate::{ProviderKey, Timeouts};

fn embeddings(upstream: &Upstream, dimensions: Option<u32>) -> HttpEmbeddings {
    let endpoint = Endpoint {
        provider: "scripted".into(),
        base_url: upstream.base_url(),
        key: Some(ProviderKey::new("sk-planted")),
        timeouts: Timeouts::default(),
    };
    HttpEmbeddings::new(&endpoint, "embedder".into(), dimensions).unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn item(index: usize, embedding: &Value) -> Value {
    json!({"object": "embedding", "index": index, "embedding": embedding})
}

fn list(items: &[Value]) -> Value {
    json!({"object": "list", "data": items, "model": "embedder", "usage": {"prompt_tokens": 1}})
}

/// Returns the vectors that an answer to two texts is read as.
async fn answer_to(reply: Reply, dimensions: Option<u32>) -> Result<Vec<Vec<f32>>, Error> {
    let upstream = Upstream::start().await;
    upstream.script_embeddings([reply]);
    let vectors = embeddings(&upstream, dimensions).embed(&texts(&["a", "b"])).await;
    assert_eq!(upstream.requests().len(), 1, "retrying is the caller's business");
    vectors
}

fn broken(what: &str) -> Result<Vec<Vec<f32>>, Error> {
    Err(Error::Broken(what.into()))
}

#[tokio::test]
async fn each_text_has_its_vector() {
    let upstream = Upstream::start().await;
    upstream.require_key("sk-planted");
    let embeddings = embeddings(&upstream, None);
    assert_eq!(embeddings.model(), "embedder");
    let vectors = embeddings.embed(&texts(&["a", "b", "a"])).await.unwrap();
    assert_eq!(vectors.len(), 3);
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    let received = &upstream.requests()[0];
    assert_eq!(received.path, "/v1/embeddings");
    let expected = json!({"model": "embedder", "input": ["a", "b", "a"], "encoding_format": "float"});
    assert_eq!(received.body, expected);
    assert_eq!(embeddings.embed(&[]).await, Ok(Vec::new()));
    assert_eq!(upstream.requests().len(), 1, "nothing is asked for nothing");
}

#[tokio::test]
async fn vectors_are_put_in_order_however_they_are_written() {
    let vectors = Ok(vec![vec![1.0, -2.0], vec![0.5, 0.0]]);
    let (first, second) = (json!([1.0, -2]), json!([0.5, 0]));
    let swapped = list(&[item(1, &second), item(0, &first)]);
    let encoded = list(&[item(0, &json!("AACAPwAAAMA=")), item(1, &second)]);
    let bare = json!({"data": [{"embedding": first}, {"embedding": second}]});
    for body in [swapped, encoded, bare] {
        assert_eq!(answer_to(Reply::json(&body), None).await, vectors, "{body}");
    }
}

#[tokio::test]
async fn what_is_no_vector_for_each_text_is_broken() {
    let one = json!([1.0, 2.0]);
    for (items, what) in [
        (vec![], "fewer vectors than texts"),
        (vec![item(0, &one)], "fewer vectors than texts"),
        (vec![item(1, &one), item(1, &one)], "a vector that belongs to no text"),
        (vec![item(0, &one), item(2, &one)], "a vector that belongs to no text"),
        (vec![item(0, &one), item(1, &one), item(2, &one)], "a vector that belongs to no text"),
        (vec![item(0, &one), item(1, &json!([1.0]))], "vectors with the wrong number of dimensions"),
        (vec![item(0, &json!([])), item(1, &json!([]))], "vectors with the wrong number of dimensions"),
        (vec![item(0, &one), item(1, &json!(["1", "2"]))], "vectors that cannot be read"),
        (vec![item(0, &one), item(1, &json!([1e300, 2.0]))], "vectors that cannot be read"),
        (vec![item(0, &one), item(1, &json!("!"))], "vectors that cannot be read"),
    ] {
        assert_eq!(answer_to(Reply::json(&list(&items)), None).await, broken(what), "{items:?}");
    }
    let two = list(&[item(0, &one), item(1, &one)]);
    assert!(answer_to(Reply::json(&two), Some(2)).await.is_ok());
    assert_eq!(
        answer_to(Reply::json(&two), Some(3)).await,
        broken("vectors with the wrong number of dimensions")
    );
    assert_eq!(answer_to(Reply::json(&json!([])), None).await, broken("vectors that cannot be read"));
    let stream = Reply::sse("data: {}\n\n");
    assert_eq!(answer_to(stream, None).await, broken("a stream instead of vectors"));
}

#[tokio::test]
async fn a_refusal_is_what_it_is_for_a_chat() {
    let limited = Reply::status(429).header("retry-after", "2").error("rate_limit_error", None, "slow down");
    let after = Some(std::time::Duration::from_secs(2));
    assert_eq!(answer_to(limited, None).await, Err(Error::RateLimited { after }));
    let filtered =
        Reply::status(400).error("invalid_request_error", None, "content of the user is not allowed");
    let filtered = answer_to(filtered, None).await;
    assert!(matches!(filtered, Err(Error::Rejected { status: 400, .. })), "{filtered:?}");
    let inside = json!({"error": {"message": "x", "code": 429}});
    assert_eq!(answer_to(Reply::json(&inside), None).await, Err(Error::RateLimited { after: None }));
}

#[tokio::test]
async fn many_texts_go_in_several_requests() {
    let upstream = Upstream::start().await;
    let many: Vec<String> = (0..=2 * MAX_BATCH_TEXTS).map(|number| format!("text {number}")).collect();
    let vectors = embeddings(&upstream, Some(8)).embed(&many).await.unwrap();
    let requests = upstream.requests();
    let sizes: Vec<usize> =
        requests.iter().map(|request| request.body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [MAX_BATCH_TEXTS, MAX_BATCH_TEXTS, 1]);
    assert_eq!(requests[0].body["dimensions"], 8);
    for place in [0, MAX_BATCH_TEXTS, 2 * MAX_BATCH_TEXTS] {
        let alone = embeddings(&upstream, None).embed(&many[place..=place]).await.unwrap();
        assert_eq!(alone[0], vectors[place], "in its place");
    }
}

#[test]
fn batches_are_bounded_in_bytes_and_lose_nothing() {
    let sizes = |texts: &[String]| batches(texts).map(<[String]>::len).collect::<Vec<_>>();
    let text = |bytes: usize| "x".repeat(bytes);
    assert_eq!(sizes(&[]), [0; 0]);
    assert_eq!(sizes(&[text(MAX_BATCH_BYTES - 1), text(1), text(1)]), [2, 1]);
    assert_eq!(sizes(&[text(1), text(MAX_BATCH_BYTES), text(1)]), [1, 1, 1]);
    assert_eq!(sizes(&[text(MAX_BATCH_BYTES + 1), text(MAX_BATCH_BYTES + 1)]), [1, 1]);
    assert_eq!(sizes(&vec![text(0); MAX_BATCH_TEXTS]), [MAX_BATCH_TEXTS]);
}

/// Answers with the length of each text, and remembers what it was asked.
#[derive(Default)]
struct Counting {
    asked: Mutex<Vec<Vec<String>>>,
    fails: bool,
}

impl Counting {
    fn asked(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Embedder for Counting {
    fn model(&self) -> &str {
        "counting"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        self.asked.lock().unwrap().push(texts.to_vec());
        let vectors = texts.iter().map(|text| vec![text.len() as f32]).collect();
        let answer = if self.fails { Err(Error::Quota) } else { Ok(vectors) };
        async { answer }.boxed()
    }
}

fn counting(most: usize) -> (Arc<Counting>, CachedEmbeddings) {
    let embedder = Arc::new(Counting::default());
    (Arc::clone(&embedder), CachedEmbeddings::with_capacity(embedder, most))
}

#[tokio::test]
async fn a_text_of_a_space_is_asked_for_once() {
    let (embedder, cached) = counting(10);
    assert_eq!(cached.model(), "counting");
    let vectors = cached.embed_in("one", &texts(&["a", "bb", "a"])).await.unwrap();
    assert_eq!(vectors, [[1.0], [2.0], [1.0]]);
    assert_eq!(embedder.asked(), [texts(&["a", "bb"])]);
    let vectors = cached.embed_in("one", &texts(&["bb", "ccc", "a"])).await.unwrap();
    assert_eq!(vectors, [[2.0], [3.0], [1.0]]);
    assert_eq!(embedder.asked(), [texts(&["ccc"])]);
    assert_eq!(cached.embed_in("one", &[]).await, Ok(Vec::new()));
    assert_eq!(cached.embed_in("one", &texts(&["a"])).await, Ok(vec![vec![1.0]]));
    assert_eq!(embedder.asked(), Vec::<Vec<String>>::new());
}

#[tokio::test]
async fn spaces_know_nothing_of_each_other() {
    let (embedder, cached) = counting(10);
    for (space, text) in [("one", "a"), ("two", "a"), ("", "onea"), ("onea", "")] {
        cached.embed_in(space, &texts(&[text])).await.unwrap();
        assert_eq!(embedder.asked(), [texts(&[text])], "{space}");
    }
}

#[tokio::test]
async fn the_vector_that_was_not_used_for_longest_goes_first() {
    let (embedder, cached) = counting(2);
    cached.embed_in("s", &texts(&["a", "bb"])).await.unwrap();
    cached.embed_in("s", &texts(&["a"])).await.unwrap();
    cached.embed_in("s", &texts(&["ccc"])).await.unwrap();
    embedder.asked();
    cached.embed_in("s", &texts(&["a", "ccc"])).await.unwrap();
    assert_eq!(embedder.asked(), Vec::<Vec<String>>::new());
    cached.embed_in("s", &texts(&["bb"])).await.unwrap();
    assert_eq!(embedder.asked(), [texts(&["bb"])]);
    let more = texts(&["1", "22", "333", "4444"]);
    let vectors = cached.embed_in("s", &more).await.unwrap();
    assert_eq!(vectors, [[1.0], [2.0], [3.0], [4.0]], "even more than is kept");
}

#[tokio::test]
async fn a_failure_is_not_kept() {
    let embedder = Arc::new(Counting { fails: true, ..Counting::default() });
    let cached = CachedEmbeddings::new(Arc::clone(&embedder) as Arc<dyn Embedder>);
    for _ in 0..2 {
        assert_eq!(cached.embed_in("s", &texts(&["a"])).await, Err(Error::Quota));
    }
    assert_eq!(embedder.asked().len(), 2);
}
