//! Logistic regression over examples, the same each time.

use app::{BUCKETS, MatterWeights, MessageClass};

use super::features::{Feature, features};

/// How often all examples are gone through.
const ROUNDS: usize = 12;
/// How far a weight goes at its first step; each weight's steps become smaller the more it has moved.
const RATE: f32 = 0.7;
/// How much weights of words are drawn to zero, and those of vectors, where every number is in every text.
const WORD_DECAY: f32 = 1e-5;
const MEANING_DECAY: f32 = 1e-4;
/// The distance that each weight counts as having moved before it has, so that first steps stay small.
const BEGUN: f32 = 1e-2;
/// The seed of the order of examples; any number would do.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A text, and which of the matters it is an example of.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson<'a> {
    pub text: &'a str,
    /// For each matter whether the text belongs to it, or nothing if it says nothing of that matter.
    pub is: Vec<Option<bool>>,
    /// The vector of the text, from an embedder.
    pub vector: Option<&'a [f32]>,
}

/// Learns a matter for each name. The side of a matter that has fewer examples counts more, so that neither its yes nor
/// its no is drowned by the other. Meaning is learned of the lessons that have a vector.
pub fn learn(names: &[&str], lessons: &[Lesson<'_>]) -> Vec<MessageClass> {
    let words: Vec<Vec<Feature>> = lessons.iter().map(|lesson| features(lesson.text)).collect();
    let numbers =
        |lesson: &Lesson<'_>| lesson.vector.unwrap_or_default().iter().copied().enumerate().collect();
    let vectors: Vec<Vec<Feature>> = lessons.iter().map(numbers).collect();
    let length = vectors.iter().map(Vec::len).max().unwrap_or(0);
    let matter = |(at, name): (usize, &&str)| {
        let is: Vec<Option<bool>> =
            lessons.iter().map(|lesson| lesson.is.get(at).copied().flatten()).collect();
        MessageClass {
            name: (*name).to_owned(),
            words: fit(&words, &is, BUCKETS),
            meaning: (length > 0).then(|| descend(&vectors, &is, (length, MEANING_DECAY))),
        }
    };
    names.iter().enumerate().map(matter).collect()
}

/// Weights and a bias that tell the examples apart by features that most texts do not have.
pub(crate) fn fit(examples: &[Vec<Feature>], is: &[Option<bool>], size: usize) -> MatterWeights {
    descend(examples, is, (size, WORD_DECAY))
}

/// Gradient descent with a rate for each weight. An example without any feature says nothing.
fn descend(examples: &[Vec<Feature>], is: &[Option<bool>], (size, decay): (usize, f32)) -> MatterWeights {
    let told = || is.iter().zip(examples).filter(|(_, example)| !example.is_empty()).map(|(is, _)| *is);
    let [yes, no] = [Some(true), Some(false)].map(|wanted| told().filter(|is| *is == wanted).count());
    let half = (yes + no) as f32 / 2.0;
    let [of_yes, of_no] = [yes, no].map(|count| half / count.max(1) as f32);
    let mut weights = vec![(0.0f32, BEGUN); size];
    let mut bias = (0.0f32, BEGUN);
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let mut random = SEED;
    for _ in 0..ROUNDS {
        shuffle(&mut order, &mut random);
        for at in &order {
            let example = examples.get(*at).filter(|example| !example.is_empty());
            let (Some(example), Some(Some(is))) = (example, is.get(*at)) else { continue };
            let sum: f32 = example.iter().filter_map(|(at, value)| Some(weights.get(*at)?.0 * value)).sum();
            let likely = 1.0 / (1.0 + (-(sum + bias.0)).exp());
            let wrong = if *is { (likely - 1.0) * of_yes } else { likely * of_no };
            for (at, value) in example {
                if let Some(weight) = weights.get_mut(*at) {
                    step(weight, wrong * value + decay * weight.0);
                }
            }
            step(&mut bias, wrong);
        }
    }
    let weights: Vec<f32> = weights.into_iter().map(|(weight, _)| weight).collect();
    MatterWeights::of(&weights, bias.0)
}

/// Moves a weight against its slope; beside it is how far it has moved so far.
fn step((weight, moved): &mut (f32, f32), slope: f32) {
    *moved += slope * slope;
    *weight -= RATE * slope / moved.sqrt();
}

/// Fisher and Yates, by xorshift.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for end in (1..order.len()).rev() {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        order.swap(end, (*random % (end as u64 + 1)) as usize);
    }
}
