//! Items that stand alone: memories and pieces of documents. No neighbours speak for them, and their meaning decides.
//!
//! Among few items, a word they share with a question is mostly chance. So words of a memory count only where they tell
//! something: names, numbers and words of languages that the embedding model may not know, the rarer among the user's
//! own items the more; and other words a little, if they are rare among many. `cargo xtask eval recall` measures it.
//! Pieces of documents are long, and say what they are about in the words of their field, which count for them.

use super::{Question, Term, from_then, value_at};
use crate::index::{Index, IndexedKind, RecallFilter, Slot};

/// The nearness that a name or a number of the question adds to a memory that has it.
const TELLING: f32 = 0.2;
/// The most that other rare words add.
const RARE: f32 = 0.03;
/// A word is rare from this rarity on, and as rare as can be at the other.
const RARE_FROM: f32 = 2.5;
const RAREST: f32 = 5.5;
/// The nearness that all words of the question add to a piece of a document.
const PASSAGE_WORDS: f32 = 0.35;
/// A memory from the time asked about.
const MEMORY_DATE: f32 = 0.05;
/// The nearness of what has nothing to do with a question at all, which is a score of 0.
const FARTHEST: f32 = -0.2;

/// Whether scores are made here.
pub(super) fn is_for(question: &Question, among: RecallFilter) -> bool {
    question.meaning.is_some() && matches!(among, RecallFilter::Memories | RecallFilter::Documents)
}

/// Every slot with its score.
pub(super) fn by_meaning(index: &Index, question: &Question, among: RecallFilter) -> Vec<(usize, f32)> {
    let meaning = question.meaning.as_deref().unwrap_or_default();
    let telling =
        if among == RecallFilter::Documents { Vec::new() } else { telling_weights(index, &question.terms) };
    let score = |(slot, near): (usize, &f32)| {
        let words = value_at(&question.words, slot);
        let score = if among == RecallFilter::Documents {
            near + PASSAGE_WORDS * words
        } else {
            let date = question.span.zip(index.facts.get(slot));
            let date = date.map_or(0.0, |(span, facts)| MEMORY_DATE * from_then(facts.at, span));
            (near + value_at(&telling, slot) + date - FARTHEST) / (1.0 - FARTHEST)
        };
        // An item without a vector yet is found by its words.
        let has_vector = u32::try_from(slot).is_ok_and(|slot| index.vectors.has_vector(slot));
        (slot, if has_vector { score } else { score.max(words) })
    };
    meaning.iter().enumerate().map(score).collect()
}

/// By slot, what the words it shares with the question tell. How rare they are is counted among memories alone: the
/// question itself is a message.
fn telling_weights(index: &Index, terms: &[Term]) -> Vec<f32> {
    let mut telling: Vec<f32> = vec![0.0; index.facts.len()];
    let mut add = |slot: Slot, worth: f32| {
        if let Some(all) = telling.get_mut(super::index(slot)) {
            *all = (*all + worth).min(TELLING);
        }
    };
    let is_memory = |slot: Slot| {
        index.facts.get(super::index(slot)).is_some_and(|facts| facts.kind == IndexedKind::Memory)
    };
    let all = index.facts.iter().filter(|facts| facts.kind == IndexedKind::Memory).count().max(1) as f32;
    for term in terms {
        let with: Vec<Slot> = index
            .postings
            .of(&term.text)
            .iter()
            .map(|posting| posting.slot)
            .filter(|slot| is_memory(*slot))
            .collect();
        let rarity = (all / with.len().max(1) as f32).ln();
        // A term that more than the root of all memories have tells them no more apart than any word.
        let as_name = if all > 1.0 { (2.0 * rarity / all.ln() - 1.0).max(0.0) } else { 1.0 };
        let as_word = RARE * ((rarity - RARE_FROM) / (RAREST - RARE_FROM)).clamp(0.0, 1.0);
        for slot in &with {
            add(*slot, if term.tells { TELLING * as_name } else { as_word });
        }
        if !term.tells {
            index.names.of(&term.text).iter().for_each(|posting| add(posting.slot, TELLING * as_name));
        }
    }
    telling
}
