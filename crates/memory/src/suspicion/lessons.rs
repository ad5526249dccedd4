//! Learns the weights from the examples. The learned weights are kept in a file beside them, so nothing here runs in a
//! server.

use app::{Classifier, MessageClass};
use sha2::{Digest, Sha256};

use super::Detector;
use super::features::{BUCKETS, features, sentences};
use crate::classify::{Feature, fit};

/// Sentences that one line of examples stands for at most.
const VARIANTS: usize = 8;
/// The name of the one matter in the file.
const ORDER: &str = "order";

/// Examples to learn from: texts with orders to an assistant, and texts without, a line each.
#[derive(Debug, Clone, Copy)]
pub struct OrderExamples<'a> {
    pub attacks: &'a str,
    pub harmless: &'a str,
}

impl OrderExamples<'_> {
    /// Names the examples, so that it shows when they have changed since weights were learned.
    pub fn name(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.attacks, self.harmless, super::IDEAS] {
            hash.update(Sha256::digest(part));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The text of the file of weights.
    pub fn learn(&self) -> String {
        let detector = Detector::without_weights();
        let of = |text: &str, is: bool| -> Vec<(Vec<Feature>, Option<bool>)> {
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            let read = |text: String| {
                let sentences = sentences(&text, &detector.ideas);
                (features(sentences.iter().flatten(), &detector.ideas), Some(is))
            };
            lines.flat_map(variants).map(read).collect()
        };
        let lessons = [of(self.attacks, true), of(self.harmless, false)].concat();
        let (examples, is): (Vec<Vec<Feature>>, Vec<Option<bool>>) = lessons.into_iter().unzip();
        let words = fit(&examples, &is, BUCKETS);
        let matters = vec![MessageClass { name: ORDER.to_owned(), words, meaning: None }];
        Classifier { examples: self.name(), embedder: None, matters }.to_text()
    }
}

/// The sentences that a line with alternatives such as `{a|b}` stands for: all of them, or a fixed number drawn by lot,
/// always the same.
pub(super) fn variants(line: &str) -> Vec<String> {
    let line = line.replace("\\n", "\n");
    let parts: Vec<Vec<&str>> = line
        .split('}')
        .flat_map(|part| match part.split_once('{') {
            Some((plain, choice)) => vec![vec![plain], choice.split('|').collect()],
            None => vec![vec![part]],
        })
        .collect();
    let all = parts.iter().fold(1usize, |all, choice| all.saturating_mul(choice.len()));
    let mut lot = line.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut out: Vec<String> = Vec::new();
    // Some are drawn twice; twice as many draws are enough for nearly all.
    for _ in 0..2 * VARIANTS {
        let drawn: String = parts.iter().filter_map(|choice| draw(choice, &mut lot)).collect();
        if !out.contains(&drawn) {
            out.push(drawn);
        }
        if out.len() >= all.min(VARIANTS) {
            break;
        }
    }
    out
}

/// One of these, by xorshift.
fn draw<'a>(choice: &[&'a str], lot: &mut u64) -> Option<&'a str> {
    *lot ^= *lot << 13;
    *lot ^= *lot >> 7;
    *lot ^= *lot << 17;
    let at = usize::try_from(*lot >> 33).unwrap_or_default().checked_rem(choice.len())?;
    choice.get(at).copied()
}
