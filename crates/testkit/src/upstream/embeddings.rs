//! Vectors for texts: small, the same for the same text, and without a model.

use serde_json::{Value, json};

use super::Reply;

type EmbedFunction = dyn Fn(&str) -> Vec<f64> + Send + Sync;

const DIMENSIONS: usize = 8;

/// The answer to a request for embeddings that nothing was scripted for, with the test's own vectors if it has some.
pub(super) fn reply(request: &Value, embeds: Option<&EmbedFunction>) -> Reply {
    let vector = |text: &str| embeds.map_or_else(|| vector(text).to_vec(), |embeds| embeds(text));
    let input = request.get("input").unwrap_or(&Value::Null);
    let texts: Vec<&str> = match input {
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        Value::String(text) => vec![text],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text)}))
        .collect();
    let tokens: usize = texts.iter().map(|text| text.len().div_ceil(4)).sum();
    Reply::json(&json!({
        "object": "list",
        "data": data,
        "model": request.get("model"),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

/// A vector of length 1. Each number comes from the text and its place by the FNV-1a hash.
fn vector(text: &str) -> [f64; DIMENSIONS] {
    let numbers: [f64; DIMENSIONS] = std::array::from_fn(|place| {
        let bytes = text.bytes().chain(place.to_le_bytes());
        let hash =
            bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        f64::from(hash) / f64::from(u32::MAX) - 0.5
    });
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    numbers.map(|number| if length > 0.0 { number / length } else { 0.0 })
}
