//! Whether a message says a name that occurs elsewhere, such as a drug's or a doctor's.

use crate::phrases::{PhraseList, lists};
use crate::words;

lists! {
    static NAMES: NameWords = "names.toml"; {
        /// Words before a person's name.
        titles: PhraseList,
    }
}

/// Words of a name that are looked at.
const MAX_NAME_WORDS: usize = 6;
/// Words of a message that names are looked for in.
const MAX_SAID_WORDS: usize = 400;
/// Shorter words are no part of a name that is told by itself.
const MIN_PART_CHARS: usize = 3;
/// Characters from which a name of one word is hardly ever a common word.
const MIN_WHOLE_CHARS: usize = 6;
/// From this length on, one letter may be wrong, missing or too many.
const MIN_MISSPELT_CHARS: usize = 7;
/// A longer word is no name, and is compared as it is.
const MAX_MISSPELT_BYTES: usize = 256;

/// How surely a name was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mention {
    /// A part of it, which may also be the name of another person or a common word.
    Part,
    /// All of it, or as people shorten it: "Dr. Johnson".
    Whole,
}

/// The words of a message, as names are looked for in them.
#[derive(Debug, Clone)]
pub struct SaidWords(Vec<String>);

impl SaidWords {
    pub fn of(text: &str) -> Self {
        Self(words::tokens(text).take(MAX_SAID_WORDS).map(words::name).collect())
    }

    /// Whether the message says the name, in any case, as a genitive ("Lisinopril's"), or with a small mistake.
    pub fn mention(&self, name: &str) -> Option<Mention> {
        let all = words::tokens(name).take(MAX_NAME_WORDS).map(words::name);
        let all: Vec<String> = all.filter(|word| !word.contains(char::is_numeric)).collect();
        let titled = all.first().is_some_and(|word| is_title(word));
        let core: Vec<&str> = all.iter().map(String::as_str).filter(|word| !is_title(word)).collect();
        let is_whole = match core.as_slice() {
            [] => return None,
            [word] if titled => self.follows_title(word),
            [word] => word.chars().count() >= MIN_WHOLE_CHARS && self.says_word(word),
            words => {
                self.says_all(words) || (titled && words.last().is_some_and(|last| self.follows_title(last)))
            }
        };
        if is_whole {
            return Some(Mention::Whole);
        }
        let telling = |word: &&&str| word.chars().count() >= MIN_PART_CHARS && !words::is_stop_word(word);
        core.iter().filter(telling).any(|word| self.says_word(word)).then_some(Mention::Part)
    }

    fn says_word(&self, word: &str) -> bool {
        self.0.iter().any(|said| is_same(said, word))
    }

    fn says_all(&self, words: &[&str]) -> bool {
        self.0.windows(words.len()).any(|said| said.iter().zip(words).all(|(said, word)| is_same(said, word)))
    }

    fn follows_title(&self, word: &str) -> bool {
        let mut before = "";
        for said in &self.0 {
            if is_title(before) && is_same(said, word) {
                return true;
            }
            before = said;
        }
        false
    }
}

fn is_title(word: &str) -> bool {
    NAMES.titles.contains(word)
}

/// Bytes by which two words can differ that differ by one letter.
const MAX_LETTER_BYTES: usize = 4;

/// Equal, or long and with one mistake: a letter that is another one, missing or too many.
fn is_same(said: &str, word: &str) -> bool {
    let is_near = word.len() <= MAX_MISSPELT_BYTES && said.len().abs_diff(word.len()) <= MAX_LETTER_BYTES;
    said == word
        || (is_near && word.chars().count() >= MIN_MISSPELT_CHARS && strsim::levenshtein(said, word) <= 1)
}
