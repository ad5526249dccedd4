//! The embedder on its threads: order, bounds and ends.

use std::num::NonZero;

use futures_util::FutureExt;
use futures_util::future::join_all;
use model::Embedder;

use super::super::{LocalEmbedder, MAX_JOB_BYTES, MAX_JOB_TEXTS, batches};
use super::tiny::{HIDDEN, Tiny};

fn embedder(tiny: &Tiny, threads: usize) -> LocalEmbedder {
    LocalEmbedder::load(tiny.folder.path(), "tiny".into(), NonZero::new(threads)).unwrap()
}

/// Each different from its neighbours.
fn texts(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{}{}", "sea ".repeat(index % 7), "boats ".repeat(index % 5))).collect()
}

async fn one(embedder: &LocalEmbedder, text: &str) -> Vec<f32> {
    embedder.embed(&[text.into()]).await.unwrap().remove(0)
}

#[tokio::test]
async fn many_texts_come_back_in_their_order() {
    let tiny = Tiny::new("mean");
    let embedder = embedder(&tiny, 3);
    assert_eq!((embedder.model(), embedder.dimensions()), ("tiny", HIDDEN));
    let texts = texts(300);
    let vectors = embedder.embed(&texts).await.unwrap();
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(vectors) {
        assert_eq!(vector, one(&embedder, text).await, "{text:?}");
    }
}

#[tokio::test]
async fn more_requests_than_the_queue_holds_are_all_answered() {
    let tiny = Tiny::new("mean");
    let embedder = embedder(&tiny, 2);
    let texts = texts(200);
    let answers = join_all(texts.iter().map(|text| one(&embedder, text))).await;
    assert_eq!(answers, embedder.embed(&texts).await.unwrap());
}

#[tokio::test]
async fn no_text_and_an_empty_text_are_answered() {
    let tiny = Tiny::new("mean");
    let embedder = embedder(&tiny, 1);
    assert_eq!(embedder.embed(&[]).await.unwrap(), Vec::<Vec<f32>>::new());
    let length: f32 = one(&embedder, "").await.iter().map(|value| value * value).sum();
    assert!((length - 1.0).abs() < 1e-5, "{length}");
}

#[tokio::test]
async fn what_is_beyond_the_longest_text_does_not_count() {
    let tiny = Tiny::new("mean");
    tiny.write("sentence_bert_config.json", &serde_json::json!({ "max_seq_length": 6 }));
    let embedder = embedder(&tiny, 1);
    let whole = one(&embedder, "sea sea sea sea").await;
    assert_eq!(one(&embedder, &format!("sea sea sea sea {}", "boats ".repeat(10_000))).await, whole);
    assert_ne!(one(&embedder, "sea sea sea boats").await, whole);
}

#[tokio::test]
async fn who_stops_waiting_does_not_disturb_the_others() {
    let tiny = Tiny::new("mean");
    let embedder = embedder(&tiny, 1);
    let texts = texts(100);
    for _ in 0..20 {
        assert!(embedder.embed(&texts).now_or_never().is_none());
    }
    assert_eq!(one(&embedder, "sea").await, one(&embedder, "sea").await);
}

#[test]
fn a_request_is_split_by_texts_and_by_bytes_and_a_long_text_stands_alone() {
    let sizes = |lengths: &[usize]| -> Vec<usize> {
        let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        batches(&texts).map(<[String]>::len).collect()
    };
    assert_eq!(sizes(&[]), [0; 0]);
    assert_eq!(sizes(&[1; MAX_JOB_TEXTS + 1]), [MAX_JOB_TEXTS, 1]);
    assert_eq!(sizes(&[MAX_JOB_BYTES - 1, 1, 1]), [2, 1]);
    assert_eq!(sizes(&[1, MAX_JOB_BYTES * 9, 1]), [1, 1, 1]);
}
