//! Text that gives orders to an assistant instead of facts.
//!
//! Text from elsewhere in a prompt is data, and is marked as such; if it reads like orders to the model, that is
//! marked, too, and it does not become a memory without the user's approval. This is a second look: policy decides what
//! a tool may do, independently of this finding.
//!
//! Some orders show by their form ([`signs`]). Others are told by weights that were learned from examples in five languages
//! ([`lessons`]): each sentence, and each two that follow each other, become words, pairs of words and ideas
//! ([`features`]), and are judged alone, so that an order is found among any number of harmless sentences.

mod features;
mod ideas;
pub mod lessons;
mod masks;
mod signs;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use app::Classifier;
use quick_cache::sync::Cache;

use self::features::{BUCKETS, JudgedWord, features, sentences};
use self::ideas::Ideas;

const IDEAS: &str = include_str!("suspicion/data/ideas.txt");
const WEIGHTS: &str = include_str!("suspicion/data/weights.json");

/// Bytes of a text that are looked at. Documents are looked at piece by piece, and every piece is shorter.
const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// How much must speak for an order.
const ENOUGH: f32 = 2.4;
/// How much must speak for an order in one of many sentences, any of which could be taken for one by chance.
const ENOUGH_AMONG_MANY: f32 = 3.1;
/// Sentences that are many.
const MANY: usize = 5;

/// Findings that are kept; one that is not used goes first.
const MAX_FINDINGS: usize = 8192;

/// Findings about texts. Summaries, memories and messages of a thread are in the prompt of each of its runs.
static FINDINGS: LazyLock<Findings> =
    LazyLock::new(|| Findings { hasher: RandomState::new(), kept: Cache::new(MAX_FINDINGS) });

struct Findings {
    /// Its secret keeps an attacker from making two texts that are taken for one.
    hasher: RandomState,
    /// Whether a text is an instruction, by the hash of the text.
    kept: Cache<u64, bool>,
}

/// Read once, and the same for everybody.
static DETECTOR: LazyLock<Detector> = LazyLock::new(Detector::with_shipped_weights);

/// True if the text tells an assistant what to do, or imitates the markup around a conversation.
pub fn is_instruction(text: &str) -> bool {
    let text = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default();
    let key = FINDINGS.hasher.hash_one(text);
    if let Some(found) = FINDINGS.kept.get(&key) {
        return found;
    }
    let found = has_orders(text);
    FINDINGS.kept.insert(key, found);
    found
}

fn has_orders(text: &str) -> bool {
    signs::has_markup(text)
        || signs::has_unseen_text(text)
        || signs::has_role(text)
        || DETECTOR.is_order(text)
        || masks::unmasked_text(text).is_some_and(|plain| DETECTOR.is_order(&plain))
}

#[derive(Debug)]
struct Detector {
    ideas: Ideas,
    classifier: Option<Classifier>,
}

impl Detector {
    fn without_weights() -> Self {
        Self { ideas: Ideas::parse(IDEAS), classifier: None }
    }

    /// With the weights of the file, which a test reads.
    fn with_shipped_weights() -> Self {
        Self { classifier: Classifier::parse_of(WEIGHTS, BUCKETS).ok(), ..Self::without_weights() }
    }

    fn is_order(&self, text: &str) -> bool {
        let sentences = sentences(text, &self.ideas);
        let enough = if sentences.len() < MANY { ENOUGH } else { ENOUGH_AMONG_MANY };
        let alone = sentences.iter().map(|one| self.score(one.iter()));
        let together = sentences.windows(2).map(|two| self.score(two.iter().flatten()));
        alone.chain(together).any(|score| score > enough)
    }

    /// How much speaks for an order in these words; more than nothing is rather one than not.
    fn score<'a>(&self, words: impl Iterator<Item = &'a JudgedWord>) -> f32 {
        let matter = self.classifier.as_ref().and_then(|classifier| classifier.matters.first());
        matter.map_or(0.0, |matter| matter.words.score(features(words, &self.ideas).into_iter()))
    }
}
