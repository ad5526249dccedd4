//! Which language a text is in: by its script or, where many languages share one, by the small words they do not share.
//!
//! English is what a text is taken for unless it has more small words of another language. Words that are small in one
//! language and say something in English, such as the German "hat", are in no list.

use serde::Deserialize;
use snowball_stemmers_rs::Algorithm;

use super::{folded, is_stop_word, tokens};
use crate::phrases::{PhraseList, lists};

/// Words of a text that are looked at.
const MAX_LOOKED_AT: usize = 32;
/// Languages that a text may be in when its small words fit several as well.
const MAX_CANDIDATES: usize = 3;
/// The weight of a small word for its language: little if it is a single letter.
const WORD: usize = 2;
const LETTER: usize = 1;
/// From so much on a text is surely in a language.
const SURE: usize = 2 * WORD;

/// The language of a text.
#[derive(Default)]
pub(super) struct Written {
    /// The languages that it may be in, other than English; none for English and for what cannot be told.
    pub(super) languages: Vec<&'static Language>,
    /// Whether it surely is in one of them.
    pub(super) is_sure: bool,
}

impl Written {
    /// Whether the word, as it is compared, is too common in its language to find anything by.
    pub(super) fn is_common(&self, word: &str) -> bool {
        self.is_sure && self.languages.iter().any(|language| language.common.contains(word))
    }
}

/// A language that words can be reduced to their stems in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Language {
    pub(super) stemmer: Algorithm,
    /// Its commonest words.
    common: PhraseList,
}

lists! {
    static LANGUAGES: Languages = "languages.toml"; {
        /// Languages with Latin letters, which are told by their words.
        latin: Vec<Language>,
        by_script: Vec<Language>,
    }
}

pub(super) fn of(text: &str) -> Written {
    if let Some(language) = by_script(text) {
        return Written { languages: vec![language], is_sure: true };
    }
    let latin = &LANGUAGES.latin;
    let (mut english, mut counts) = (0, vec![0; latin.len()]);
    let worth = |word: &str| if word.chars().nth(1).is_some() { WORD } else { LETTER };
    for token in tokens(text).take(MAX_LOOKED_AT) {
        let word = folded(token);
        if is_stop_word(&word) {
            english += worth(&word);
        }
        for part in word.split('\'') {
            let fitting = counts.iter_mut().zip(latin).filter(|(_, language)| language.common.contains(part));
            fitting.for_each(|(count, _)| *count += worth(part));
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    if most <= english || most < WORD {
        return Written::default();
    }
    let best = counts.iter().zip(latin).filter(|(count, _)| **count == most);
    Written {
        languages: best.map(|(_, language)| language).take(MAX_CANDIDATES).collect(),
        is_sure: most >= SURE,
    }
}

/// The language of a text that is mostly in a script of its own, or of one where a letter tells which language it is.
fn by_script(text: &str) -> Option<&'static Language> {
    let is_own = |letter: &char| {
        letter.is_alphabetic() && !matches!(letter, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
    };
    let first = text.chars().find(is_own)?;
    if text.chars().filter(is_own).count() * 2 < text.chars().filter(|letter| letter.is_alphabetic()).count()
    {
        return None;
    }
    let has =
        |letters: &str| text.chars().flat_map(char::to_lowercase).any(|letter| letters.contains(letter));
    let stemmer = match first {
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Algorithm::Greek,
        '\u{400}'..='\u{52f}' if has("іїєґ") => Algorithm::Ukrainian,
        '\u{400}'..='\u{52f}' if has("јљњћђџ") => Algorithm::Serbian,
        '\u{400}'..='\u{52f}' => Algorithm::Russian,
        '\u{530}'..='\u{58f}' => Algorithm::Armenian,
        '\u{600}'..='\u{6ff}' if has("پچژگ") => Algorithm::Persian,
        '\u{600}'..='\u{6ff}' => Algorithm::Arabic,
        '\u{900}'..='\u{97f}' => Algorithm::Hindi,
        '\u{b80}'..='\u{bff}' => Algorithm::Tamil,
        _ => return None,
    };
    LANGUAGES.by_script.iter().find(|language| language.stemmer == stemmer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages_of(text: &str) -> Vec<Algorithm> {
        of(text).languages.iter().map(|language| language.stemmer).collect()
    }

    #[test]
    fn the_file_of_languages_is_read() {
        let languages = &*LANGUAGES;
        assert_eq!((languages.latin.len(), languages.by_script.len()), (20, 9));
    }

    #[test]
    fn the_language_of_a_sentence_is_told() {
        use Algorithm::{
            Arabic, French, German, Greek, Italian, Polish, Portuguese, Russian, Spanish, Ukrainian,
        };
        for (text, expected) in [
            ("¿Cómo se llama mi perro?", Spanish),
            ("Es alérgico a los cacahuetes", Spanish),
            ("Meine Großmutter wohnt in Köln", German),
            ("Was soll ich nicht essen?", German),
            ("Où habite ma soeur ?", French),
            ("J'ai deux chats", French),
            ("Dove abita mia sorella?", Italian),
            ("Minha irmã mora em Lisboa", Portuguese),
            ("Gdzie mieszka moja siostra?", Polish),
            ("Где живёт моя сестра?", Russian),
            ("Моя сестра живе в Києві", Ukrainian),
            ("Πού μένει η αδελφή μου;", Greek),
            ("أين تعيش أختي؟", Arabic),
        ] {
            assert_eq!(languages_of(text), [expected], "{text}");
        }
    }

    #[test]
    fn english_and_what_cannot_be_told_have_none() {
        for text in [
            "",
            "Where does my sister live?",
            "Biscuit",
            "I am in Los Angeles",
            "We met in a café",
            "We call it борщ at home",
            "猫が好き",
            "O'Brien",
            "A man with a hat",
        ] {
            assert!(languages_of(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_may_be_english_keeps_all_its_words() {
        let written = of("Den mother");
        assert!(!written.is_sure && !written.is_common("den"));
        assert!(of("Der Hund von Ida und mir").is_common("von"));
    }
}
