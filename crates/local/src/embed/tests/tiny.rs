//! A folder with a tiny network of random numbers, and the same network computed without any haste.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) const HIDDEN: usize = 96;
pub(super) const INNER: usize = 160;
pub(super) const LAYERS: usize = 2;
pub(super) const HEADS: usize = 3;
pub(super) const POSITIONS: usize = 40;
pub(super) const WORDS: [&str; 12] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "sea", "##side", "boat", "##s", ",", "the", "日", "e"];
const EPSILON: f64 = 1e-12;

pub(super) struct Tiny {
    pub(super) folder: TempDir,
    pub(super) tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Tiny {
    /// `pooling` is "mean" or "cls".
    pub(super) fn new(pooling: &str) -> Self {
        let tiny = Self { folder: tempfile::tempdir().unwrap(), tensors: tensors() };
        tiny.write("config.json", &config());
        tiny.write("tokenizer.json", &tokenizer());
        fs::create_dir(tiny.folder.path().join("1_Pooling")).unwrap();
        let pooling = json!({ format!("pooling_mode_{pooling}_{}", if pooling == "cls" { "token" } else { "tokens" }): true });
        tiny.write("1_Pooling/config.json", &pooling);
        tiny.save();
        tiny
    }

    pub(super) fn write(&self, file: &str, content: &Value) {
        fs::write(self.folder.path().join(file), content.to_string()).unwrap();
    }

    pub(super) fn save(&self) {
        fs::write(self.folder.path().join("model.safetensors"), safetensors(&self.tensors)).unwrap();
    }

    /// The rows of all tokens after the last layer.
    pub(super) fn rows(&self, ids: &[u32]) -> Vec<Vec<f64>> {
        let word = |id: &u32| self.row("embeddings.word_embeddings.weight", *id as usize);
        let kind = self.row("embeddings.token_type_embeddings.weight", 0);
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for (position, id) in ids.iter().enumerate() {
            let position = self.row("embeddings.position_embeddings.weight", position);
            rows.push((0..HIDDEN).map(|at| word(id)[at] + position[at] + kind[at]).collect());
        }
        self.norm("embeddings.LayerNorm", &mut rows);
        for layer in 0..LAYERS {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let attended = self.linear(&name("attention.output.dense"), &self.attention(layer, &rows));
            add(&mut rows, &attended);
            self.norm(&name("attention.output.LayerNorm"), &mut rows);
            let mut inner = self.linear(&name("intermediate.dense"), &rows);
            inner.iter_mut().flatten().for_each(|value| *value = gelu(*value));
            add(&mut rows, &self.linear(&name("output.dense"), &inner));
            self.norm(&name("output.LayerNorm"), &mut rows);
        }
        rows
    }

    fn attention(&self, layer: usize, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let part = |which: &str| self.linear(&format!("encoder.layer.{layer}.attention.self.{which}"), rows);
        let (queries, keys, values) = (part("query"), part("key"), part("value"));
        let width = HIDDEN / HEADS;
        let mut context = vec![vec![0.0; HIDDEN]; rows.len()];
        for head in 0..HEADS {
            let span = head * width..(head + 1) * width;
            for (query, context) in queries.iter().zip(&mut context) {
                let dot = |key: &Vec<f64>| -> f64 { span.clone().map(|at| query[at] * key[at]).sum() };
                let scores: Vec<f64> =
                    keys.iter().map(|key| (dot(key) / (width as f64).sqrt()).exp()).collect();
                let whole: f64 = scores.iter().sum();
                for (score, value) in scores.iter().zip(&values) {
                    span.clone().for_each(|at| context[at] += score / whole * value[at]);
                }
            }
        }
        context
    }

    fn row(&self, name: &str, row: usize) -> Vec<f64> {
        let (shape, values) = &self.tensors[name];
        let width = shape.last().unwrap();
        values[row * width..(row + 1) * width].iter().map(|value| f64::from(*value)).collect()
    }

    fn linear(&self, name: &str, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let bias = self.row(&format!("{name}.bias"), 0);
        let weights: Vec<Vec<f64>> =
            (0..bias.len()).map(|row| self.row(&format!("{name}.weight"), row)).collect();
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        rows.iter().map(|row| weights.iter().zip(&bias).map(|(w, b)| dot(row, w) + b).collect()).collect()
    }

    fn norm(&self, name: &str, rows: &mut [Vec<f64>]) {
        let (weight, bias) = (self.row(&format!("{name}.weight"), 0), self.row(&format!("{name}.bias"), 0));
        for row in rows {
            let mean = row.iter().sum::<f64>() / HIDDEN as f64;
            let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / HIDDEN as f64;
            for (at, value) in row.iter_mut().enumerate() {
                *value = (*value - mean) / (variance + EPSILON).sqrt() * weight[at] + bias[at];
            }
        }
    }
}

pub(super) fn config() -> Value {
    json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "vocab_size": WORDS.len(),
        "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "layer_norm_eps": EPSILON,
    })
}

pub(super) fn tokenizer() -> Value {
    let vocab: BTreeMap<&str, usize> = WORDS.into_iter().zip(0..).collect();
    json!({
        "normalizer": { "type": "BertNormalizer", "lowercase": true, "strip_accents": null },
        "model": { "type": "WordPiece", "vocab": vocab, "max_input_chars_per_word": 10 },
    })
}

/// The file format: the header's length, the header, and the numbers.
pub(super) fn safetensors(tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) -> Vec<u8> {
    let mut header = serde_json::Map::from_iter([("__metadata__".into(), json!({ "format": "pt" }))]);
    let mut numbers = Vec::new();
    for (name, (shape, values)) in tensors {
        let start = numbers.len();
        numbers.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let place = [start, numbers.len()];
        header.insert(name.clone(), json!({ "dtype": "F32", "shape": shape, "data_offsets": place }));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &numbers].concat()
}

fn tensors() -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut tensors = BTreeMap::new();
    let mut tensor = |name: String, shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|_| random.f32() - 0.5).collect();
        tensors.insert(name, (shape.to_vec(), values));
    };
    tensor("embeddings.word_embeddings.weight".into(), &[WORDS.len(), HIDDEN]);
    tensor("embeddings.position_embeddings.weight".into(), &[POSITIONS, HIDDEN]);
    tensor("embeddings.token_type_embeddings.weight".into(), &[2, HIDDEN]);
    tensor("embeddings.LayerNorm.weight".into(), &[HIDDEN]);
    tensor("embeddings.LayerNorm.bias".into(), &[HIDDEN]);
    for layer in 0..LAYERS {
        for (part, outputs, inputs) in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ] {
            tensor(format!("encoder.layer.{layer}.{part}.weight"), &[outputs, inputs]);
            tensor(format!("encoder.layer.{layer}.{part}.bias"), &[outputs]);
        }
        for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
            tensor(format!("encoder.layer.{layer}.{part}.weight"), &[HIDDEN]);
            tensor(format!("encoder.layer.{layer}.{part}.bias"), &[HIDDEN]);
        }
    }
    tensors
}

fn add(rows: &mut [Vec<f64>], added: &[Vec<f64>]) {
    rows.iter_mut().flatten().zip(added.iter().flatten()).for_each(|(value, added)| *value += added);
}

fn gelu(x: f64) -> f64 {
    x * 0.5 * (1.0 + error_function(x / std::f64::consts::SQRT_2))
}

/// Its series, which converges everywhere; beyond 5 nothing is left of the difference to one.
fn error_function(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for step in 1..200 {
        term *= -x * x / f64::from(step);
        sum += term / f64::from(2 * step + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}
