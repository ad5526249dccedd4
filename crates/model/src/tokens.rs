//! How many tokens a model makes of a text: counted for the models whose tokenizer is known, and for all others reckoned
//! from such a count by a ratio that is learned from what their providers count.

mod counts;
mod images;
mod prompt;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::tokens::Vocabulary;

use self::counts::Counts;
use self::images::ImageRule;
use crate::ProviderWire;

/// The ratio before anything is known: a little more than most tokenizers need.
const FIRST_RATIO: f32 = 1.25;
const MIN_RATIO: f32 = 0.5;
const MAX_RATIO: f32 = 4.0;
/// The margin above the ratio that was seen, because a prompt that is cut too early is better than one that is refused.
const SAFETY: f32 = 1.05;

/// Shorter prompts, in tokens, say more of what a provider adds to each than of its tokenizer.
const MIN_LEARNED: usize = 64;
/// Prompts of this length count in full, and shorter ones for less, for the same reason.
const FULL_WEIGHT: usize = 512;
/// More than this for one of ours is a mistake. Fewer than the least ratio are one too: some servers leave out what they
/// had kept of the prompt.
const MAX_SEEN: f32 = 10.0;
/// How far the ratio goes towards what was seen: fast when it was too low, which is what hurts.
const UPWARDS: f32 = 0.7;
const DOWNWARDS: f32 = 0.35;
/// The most that one prompt can raise it, since one with something unusual in it tells little of the next.
const MAX_RISE: f32 = 1.5;

/// Counters that are kept. Names of models can be a client's choice, so there is an end to it.
const MAX_COUNTERS: usize = 1024;

/// How the tokens of a model are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tokens {
    /// By the tokenizer of OpenAI's newer models.
    O200k,
    /// By the tokenizer of GPT-4 and GPT-3.5.
    Cl100k,
    /// By a ratio to the former, which is learned.
    Calibrated,
}

impl Tokens {
    pub const ALL: [Self; 3] = [Self::O200k, Self::Cl100k, Self::Calibrated];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Tokens::O200k => "o200k",
            Tokens::Cl100k => "cl100k",
            Tokens::Calibrated => "calibrated",
        }
    }

    /// Exact for OpenAI's models, from every provider and under every prefix.
    pub fn of_model(id: &str) -> Self {
        const BEGINNINGS: [(&str, Tokens); 2] = [
            ("gpt-5 gpt-4o gpt-4.1 gpt-4.5 chatgpt o1 o3 o4", Tokens::O200k),
            ("gpt-4 gpt-3.5 gpt-35", Tokens::Cl100k),
        ];
        let id = id.rsplit_once('/').map_or(id, |(_, id)| id);
        let id = id.strip_prefix("ft:").unwrap_or(id);
        let begins = |beginning: &str| {
            let rest = id.strip_prefix(beginning);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        };
        let known = BEGINNINGS.iter().find(|(beginnings, _)| beginnings.split(' ').any(begins));
        known.map_or(Tokens::Calibrated, |(_, tokens)| *tokens)
    }

    fn vocabulary(self) -> Vocabulary {
        match self {
            Tokens::O200k | Tokens::Calibrated => Vocabulary::O200k,
            Tokens::Cl100k => Vocabulary::Cl100k,
        }
    }
}

/// Counts the tokens of one model's prompts.
#[derive(Debug)]
pub struct Counter {
    tokens: Tokens,
    /// The bits of an `f32`.
    ratio: AtomicU32,
    counts: Arc<Counts>,
    images: ImageRule,
}

impl Default for Counter {
    /// For a model of which nothing is known.
    fn default() -> Self {
        Self::new(Tokens::Calibrated)
    }
}

impl Counter {
    pub fn new(tokens: Tokens) -> Self {
        Self::sharing(tokens, ImageRule::Flat, Arc::default())
    }

    /// See [`Tokens::of_model`].
    pub fn of_model(id: &str) -> Self {
        Self::sharing(Tokens::of_model(id), ImageRule::of_model(None, id), Arc::default())
    }

    fn sharing(tokens: Tokens, images: ImageRule, counts: Arc<Counts>) -> Self {
        let ratio = if tokens == Tokens::Calibrated { FIRST_RATIO } else { 1.0 };
        Self { tokens, ratio: AtomicU32::new(ratio.to_bits()), counts, images }
    }

    /// The tokens of a text.
    pub fn text(&self, text: &str) -> usize {
        self.scaled(self.counted_text(text))
    }

    /// Whether the model's own tokenizer counts.
    pub fn is_exact(&self) -> bool {
        self.tokens != Tokens::Calibrated
    }

    /// Tokens of the model for one that was counted.
    pub fn ratio(&self) -> f32 {
        f32::from_bits(self.ratio.load(Ordering::Relaxed))
    }

    fn counted_text(&self, text: &str) -> usize {
        self.counts.of(self.tokens.vocabulary(), text)
    }

    fn scaled(&self, counted: usize) -> usize {
        if self.is_exact() { counted } else { (counted as f64 * f64::from(self.ratio())).ceil() as usize }
    }

    /// The provider found `actual` tokens where `counted` were counted. A mean that forgets is enough here: the ratio
    /// hardly changes, and what disturbs it (frames, kept prompts) is held off by the bounds above.
    fn observe(&self, counted: usize, actual: u64) {
        let seen = actual as f32 / counted as f32;
        if self.is_exact() || counted < MIN_LEARNED || !(MIN_RATIO..=MAX_SEEN).contains(&seen) {
            return;
        }
        let target = seen * SAFETY;
        let weight = (counted as f32 / FULL_WEIGHT as f32).min(1.0);
        let moved = |bits: u32| {
            let ratio = f32::from_bits(bits);
            let speed = if target > ratio { UPWARDS } else { DOWNWARDS };
            let moved = ratio + speed * weight * (target - ratio);
            Some(moved.min(ratio * MAX_RISE).clamp(MIN_RATIO, MAX_RATIO).to_bits())
        };
        // It cannot fail, because a value is always given.
        let _ = self.ratio.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }
}

/// The counters of a server's models, so that what one has learned is there when its model is asked for again.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    counts: Arc<Counts>,
    /// By provider, the provider's name of the model, and how it is counted. Held for a look.
    kept: Mutex<HashMap<(String, String, Tokens), Arc<Counter>>>,
}

impl Counters {
    /// The counter of a provider's model. `told` is how it is counted where its name shall not say.
    pub(crate) fn of(
        &self,
        (provider, wire): (&str, Option<ProviderWire>),
        id: &str,
        told: Option<Tokens>,
    ) -> Arc<Counter> {
        let tokens = told.unwrap_or_else(|| Tokens::of_model(id));
        let key = (provider.to_owned(), id.to_owned(), tokens);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = kept.get(&key) {
            return Arc::clone(counter);
        }
        let counter =
            Arc::new(Counter::sharing(tokens, ImageRule::of_model(wire, id), Arc::clone(&self.counts)));
        if kept.len() < MAX_COUNTERS {
            kept.insert(key, Arc::clone(&counter));
        }
        counter
    }
}
