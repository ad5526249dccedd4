//! Weights learned from examples, which decide whether a text is about a matter. A file beside the examples keeps them.
//!
//! How texts become features, and how weights are learned, is known to `memory::classify`; this is the file alone.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Changes when a text is cut into features in another way, so that weights for the old way are not used for the new.
pub const CLASSIFIER_VERSION: u32 = 1;
/// The number of buckets that features of a text fall into.
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
    pub matters: Vec<MessageClass>,
}

/// One matter: how much each feature speaks for it or against it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageClass {
    pub name: String,
    /// One weight for each of the buckets.
    pub words: MatterWeights,
    /// One weight for each number of the embedder's vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<MatterWeights>,
}

/// Weights in steps of `scale`, and what is added to their sum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatterWeights {
    pub bias: f32,
    scale: f32,
    /// In the file, base64 of one byte for each weight.
    #[serde(rename = "weights", serialize_with = "to_base64", deserialize_with = "from_base64")]
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

    fn is_usable(&self) -> bool {
        self.bias.is_finite() && self.scale.is_finite() && self.scale > 0.0
    }
}

/// The file: a classifier with its version.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassifierFile {
    version: u32,
    examples: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedder: Option<String>,
    matters: Vec<MessageClass>,
}

impl Classifier {
    /// Reads a file's text, or says in words what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_of(text, BUCKETS)
    }

    /// Reads a text of weights whose features are told apart by another number of buckets.
    pub fn parse_of(text: &str, buckets: usize) -> Result<Self, String> {
        let file: ClassifierFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.version != CLASSIFIER_VERSION {
            return Err(format!(
                "its version is {}, and this server reads {CLASSIFIER_VERSION}",
                file.version
            ));
        }
        if file.matters.is_empty() || file.matters.len() > MAX_MATTERS {
            return Err(format!("it has {} classes, and 1 to {MAX_MATTERS} are allowed", file.matters.len()));
        }
        file.matters.iter().try_for_each(|matter| matter.check(buckets))?;
        let sizes: Vec<Option<usize>> =
            file.matters.iter().map(|matter| matter.meaning.as_ref().map(MatterWeights::len)).collect();
        if sizes.windows(2).any(|pair| pair.first() != pair.last()) {
            return Err("its classes have vectors of different lengths".into());
        }
        if file.embedder.is_some() != sizes.iter().any(Option::is_some) {
            return Err("it has weights for vectors without an embedder, or the other way round".into());
        }
        Ok(Self { examples: file.examples, embedder: file.embedder, matters: file.matters })
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let file = ClassifierFile {
            version: CLASSIFIER_VERSION,
            examples: self.examples.clone(),
            embedder: self.embedder.clone(),
            matters: self.matters.clone(),
        };
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl MessageClass {
    /// Says in words what is wrong with it.
    fn check(&self, buckets: usize) -> Result<(), String> {
        let Self { name, words, meaning } = self;
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
            return Err(format!("{name:?} cannot be the name of a class"));
        }
        if [words].into_iter().chain(meaning).any(|weights| !weights.is_usable()) {
            return Err(format!("{name:?} has a bias or a scale that is not a usable number"));
        }
        if words.len() != buckets {
            return Err(format!("{name:?} has {} weights for words instead of {buckets}", words.len()));
        }
        if meaning.as_ref().is_some_and(|meaning| meaning.is_empty() || meaning.len() > MAX_DIMENSIONS) {
            return Err(format!("{name:?} has a number of weights for vectors that no embedder makes"));
        }
        Ok(())
    }
}

fn to_base64<S: Serializer>(steps: &[i8], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = steps.iter().flat_map(|step| step.to_le_bytes()).collect();
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD.decode(text).map_err(|error| Error::custom(format!("the weights: {error}")))?;
    Ok(bytes.into_iter().map(|byte| i8::from_le_bytes([byte])).collect())
}
