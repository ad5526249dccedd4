//! What was learned from examples: weights by which a text is told to be about a matter, kept in a file beside them.
//!
//! How texts become features, and how weights are learned, is known to `memory::classify`; this is the file alone.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Changes when a text is cut into features in another way, so that weights for the old way are not used for the new.
pub const CLASSIFIER_VERSION: u32 = 1;
/// Features of a text are told apart by so many numbers.
pub const BUCKETS: usize = 1 << 14;
/// Matters that one file tells apart.
pub const MAX_MATTERS: usize = 64;
/// Numbers of an embedder's vector.
const MAX_DIMENSIONS: usize = 8_192;
const MAX_NAME_CHARS: usize = 64;

/// Weights for some matters, all learned from the same examples.
#[derive(Debug, Clone, PartialEq)]
pub struct Classifier {
    /// Names the examples, so that it shows when they have changed since.
    pub examples: String,
    /// The model whose vectors were learned with, if there was one.
    pub embedder: Option<String>,
    pub matters: Vec<Matter>,
}

/// One matter: how much each feature speaks for it or against it.
#[derive(Debug, Clone, PartialEq)]
pub struct Matter {
    pub name: String,
    /// One weight for each of the buckets.
    pub words: MatterWeights,
    /// One weight for each number of the embedder's vector.
    pub meaning: Option<MatterWeights>,
}

/// Weights in steps of `scale`, and what is added to their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct MatterWeights {
    pub bias: f32,
    scale: f32,
    steps: Vec<i8>,
}

impl MatterWeights {
    /// The nearest that can be kept.
    pub fn of(weights: &[f32], bias: f32) -> Self {
        let largest = weights.iter().fold(0.0f32, |largest, weight| largest.max(weight.abs()));
        let scale = if largest > 0.0 { largest / f32::from(i8::MAX) } else { 1.0 };
        Self { bias, scale, steps: weights.iter().map(|weight| (weight / scale).round() as i8).collect() }
    }

    /// The sum over features, each with its weight.
    pub fn score(&self, features: impl Iterator<Item = (usize, f32)>) -> f32 {
        let part =
            |(at, value): (usize, f32)| self.steps.get(at).map_or(0.0, |step| f32::from(*step) * value);
        self.bias + self.scale * features.map(part).sum::<f32>()
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClassifier {
    version: u32,
    examples: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedder: Option<String>,
    matters: Vec<RawMatter>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatter {
    name: String,
    words: RawMatterWeights,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meaning: Option<RawMatterWeights>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatterWeights {
    bias: f32,
    scale: f32,
    /// Base64 of one byte for each weight.
    weights: String,
}

impl Classifier {
    /// Reads a file's text, or says in words what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_of(text, BUCKETS)
    }

    /// The same of a file whose features are told apart by another number of numbers.
    pub fn parse_of(text: &str, buckets: usize) -> Result<Self, String> {
        let raw: RawClassifier = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if raw.version != CLASSIFIER_VERSION {
            return Err(format!(
                "its version is {}, and this server reads {CLASSIFIER_VERSION}",
                raw.version
            ));
        }
        if raw.matters.is_empty() || raw.matters.len() > MAX_MATTERS {
            return Err(format!(
                "it tells {} matters apart, and 1 to {MAX_MATTERS} can be",
                raw.matters.len()
            ));
        }
        let matters: Vec<Matter> =
            raw.matters.into_iter().map(|raw| matter(raw, buckets)).collect::<Result<_, _>>()?;
        let sizes: Vec<Option<usize>> =
            matters.iter().map(|matter| matter.meaning.as_ref().map(MatterWeights::len)).collect();
        if sizes.windows(2).any(|pair| pair.first() != pair.last()) {
            return Err("its matters have vectors of different lengths".into());
        }
        if raw.embedder.is_some() != sizes.iter().any(Option::is_some) {
            return Err("it has weights for vectors without an embedder, or the other way round".into());
        }
        Ok(Self { examples: raw.examples, embedder: raw.embedder, matters })
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let matters = self.matters.iter().map(|matter| RawMatter {
            name: matter.name.clone(),
            words: raw(&matter.words),
            meaning: matter.meaning.as_ref().map(raw),
        });
        let raw = RawClassifier {
            version: CLASSIFIER_VERSION,
            examples: self.examples.clone(),
            embedder: self.embedder.clone(),
            matters: matters.collect(),
        };
        let mut text = serde_json::to_string_pretty(&raw).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn raw(weights: &MatterWeights) -> RawMatterWeights {
    let bytes: Vec<u8> = weights.steps.iter().flat_map(|step| step.to_le_bytes()).collect();
    RawMatterWeights { bias: weights.bias, scale: weights.scale, weights: STANDARD.encode(bytes) }
}

fn matter(raw: RawMatter, buckets: usize) -> Result<Matter, String> {
    let RawMatter { name, words, meaning } = raw;
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Err(format!("{name:?} cannot be the name of a matter"));
    }
    let words = weights(&name, words)?;
    let meaning = meaning.map(|meaning| weights(&name, meaning)).transpose()?;
    if words.len() != buckets {
        return Err(format!("{name:?} has {} weights for words instead of {buckets}", words.len()));
    }
    if meaning.as_ref().is_some_and(|meaning| meaning.is_empty() || meaning.len() > MAX_DIMENSIONS) {
        return Err(format!("{name:?} has a number of weights for vectors that no embedder makes"));
    }
    Ok(Matter { name, words, meaning })
}

fn weights(name: &str, raw: RawMatterWeights) -> Result<MatterWeights, String> {
    if !raw.bias.is_finite() || !raw.scale.is_finite() || raw.scale <= 0.0 {
        return Err(format!("{name:?} has a bias or a scale that is no usable number"));
    }
    let bytes = STANDARD.decode(raw.weights).map_err(|error| format!("the weights of {name:?}: {error}"))?;
    let steps = bytes.into_iter().map(|byte| i8::from_le_bytes([byte])).collect();
    Ok(MatterWeights { bias: raw.bias, scale: raw.scale, steps })
}
