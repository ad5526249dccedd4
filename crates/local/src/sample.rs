//! The choice of the next token.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use fastrand::Rng;
use protocol::Settings;

/// Default settings of local models.
const DEFAULT_TEMPERATURE: f32 = 0.3;
const DEFAULT_TOP_P: f32 = 0.9;
/// For texts. In JSON the same signs return again and again, and have to.
const DEFAULT_REPEAT_PENALTY: f32 = 1.1;
/// Below it the likeliest token is taken, since dividing by it would leave nothing else.
const MIN_TEMPERATURE: f32 = 1e-3;
/// The newest tokens, which penalties look at.
const PENALTY_WINDOW: usize = 128;
/// Tokens this many times less likely than the likeliest are never drawn, as a power of e.
const NEGLIGIBLE: f32 = 14.0;

/// Chooses tokens for one answer.
pub(crate) struct Sampler {
    temperature: f32,
    top_p: f32,
    repeat: f32,
    frequency: f32,
    presence: f32,
    random: Rng,
    /// Kept for the next choice, so that its memory is.
    candidates: Vec<(u32, f32)>,
}

impl Sampler {
    /// Answers with one seed are always equal. `is_text` says whether the answer may take any form.
    pub(crate) fn new(settings: &Settings, seed: Option<u64>, is_text: bool) -> Self {
        let repeat = if is_text { DEFAULT_REPEAT_PENALTY } else { 1.0 };
        let number = |value: Option<f64>, default: f32| value.map_or(default, |value| value as f32);
        Self {
            temperature: number(settings.temperature, DEFAULT_TEMPERATURE),
            top_p: number(settings.top_p, DEFAULT_TOP_P),
            // Below one, which settings allow, it would reward repetition, which is not the meaning of a penalty.
            repeat: number(settings.repeat_penalty, repeat).max(1.0),
            frequency: number(settings.frequency_penalty, 0.0),
            presence: number(settings.presence_penalty, 0.0),
            random: seed.map_or_else(Rng::new, Rng::with_seed),
            candidates: Vec::new(),
        }
    }

    /// The next token, or none if every one is ruled out. Scores of minus infinity are ruled out.
    pub(crate) fn choose(&mut self, scores: &mut [f32], before: &[u32]) -> Option<u32> {
        self.penalise(scores, before);
        let (best, top) = largest(scores)?;
        if self.temperature < MIN_TEMPERATURE {
            return Some(best);
        }
        let least = top - NEGLIGIBLE * self.temperature;
        self.candidates.clear();
        let likely = (0_u32..).zip(&*scores).filter(|(_, score)| **score >= least);
        self.candidates
            .extend(likely.map(|(token, score)| (token, ((score - top) / self.temperature).exp())));
        let (kept, weight) = self.keep_likely();
        let mut left = self.random.f32() * weight;
        let drawn = self.candidates.iter().take(kept).find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        Some(drawn.map_or(best, |(token, _)| *token))
    }

    /// How many candidates, the likeliest first, are needed for the share that is wanted, and what they weigh.
    fn keep_likely(&mut self) -> (usize, f32) {
        let total: f32 = self.candidates.iter().map(|(_, weight)| weight).sum();
        if self.top_p >= 1.0 {
            return (self.candidates.len(), total);
        }
        self.candidates.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let (mut kept, mut weight) = (0, 0.0);
        for candidate in &self.candidates {
            kept += 1;
            weight += candidate.1;
            if weight >= self.top_p * total {
                break;
            }
        }
        (kept, weight)
    }

    fn penalise(&self, scores: &mut [f32], before: &[u32]) {
        if (self.repeat, self.frequency, self.presence) == (1.0, 0.0, 0.0) {
            return;
        }
        let mut counts: HashMap<u32, f32> = HashMap::new();
        for token in before.iter().rev().take(PENALTY_WINDOW) {
            *counts.entry(*token).or_default() += 1.0;
        }
        for (token, count) in counts {
            if let Some(score) = scores.get_mut(token as usize) {
                *score = if *score > 0.0 { *score / self.repeat } else { *score * self.repeat };
                *score -= self.frequency * count + self.presence;
            }
        }
    }
}

/// The first of the largest scores.
fn largest(scores: &[f32]) -> Option<(u32, f32)> {
    let possible = (0_u32..).zip(scores.iter().copied()).filter(|(_, score)| *score > f32::NEG_INFINITY);
    possible.reduce(|best, next| if next.1 > best.1 { next } else { best })
}
