//! Whether a text mentions a follow-up, which is a memory that names a day.

use super::terms;
use crate::phrases::{PhraseList, lists};

/// The fewest letters of a word that tells what a follow-up is about.
const TELLING_LETTERS: usize = 4;

lists! {
    static WORDS: FollowUpWords = "follow_ups.toml"; {
        common: PhraseList,
    }
}

/// Whether a text has a word that tells what the follow-up is about.
pub fn mentions_follow_up(text: &str, follow_up: &str) -> bool {
    let said = terms(text);
    terms(follow_up).iter().filter(|word| is_telling(word)).any(|word| said.contains(word))
}

fn is_telling(word: &str) -> bool {
    word.chars().count() >= TELLING_LETTERS
        && !WORDS.common.contains(word)
        && !word.starts_with(|c: char| c.is_ascii_digit())
}
