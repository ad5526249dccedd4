//! Which of several matters a text is about, by weights that were learned from examples.
//!
//! A text becomes features: its words, pairs of neighbouring words, and runs of three to five letters, which are the same
//! in "hypertension" and "Hypertonie". Each matter has a weight for each of them, learned by logistic regression, and,
//! where an embedder was there when it learned, one for each number of the text's vector. A score above zero means that
//! the text is rather about the matter than not.

mod features;
mod learning;
mod names;
#[cfg(test)]
mod tests;

use app::{Classifier, MatterWeights};

pub(crate) use self::features::feature_hash;
pub use self::features::{Feature, features};
pub(crate) use self::learning::fit;
pub use self::learning::{Lesson, learn};
pub use self::names::{Mention, SaidWords};

/// How much a text speaks for each of the matters, in their order. A vector that is of another length than those that were
/// learned with counts for nothing.
pub fn scores(classifier: &Classifier, text: &str, vector: Option<&[f32]>) -> Vec<f32> {
    let features = features(text);
    let matter = |matter: &app::MessageClass| {
        let words = matter.words.score(features.iter().copied());
        let meaning =
            vector.zip(matter.meaning.as_ref()).and_then(|(vector, weights)| meaning_score(weights, vector));
        meaning.map_or(words, |meaning| f32::midpoint(words, meaning))
    };
    classifier.matters.iter().map(matter).collect()
}

fn meaning_score(weights: &MatterWeights, vector: &[f32]) -> Option<f32> {
    (weights.len() == vector.len()).then(|| weights.score(vector.iter().copied().enumerate()))
}
