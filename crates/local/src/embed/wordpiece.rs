//! A text as the numbers of its word pieces, cut the way BERT was trained: without accents and case where the model
//! wants that, at spaces and punctuation, and each word into the longest pieces that are known.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::load::{self, EmbedderLoadError};

/// Characters of a word; a longer one is unknown. These are the default and the bound for what the files say.
const DEFAULT_WORD_CHARS: usize = 100;
const MAX_WORD_CHARS: usize = 1000;

#[derive(Debug)]
pub(super) struct WordPiece {
    ids: HashMap<String, u32>,
    unknown: u32,
    first: u32,
    last: u32,
    /// The prefix of a piece within a word.
    prefix: String,
    word_chars: usize,
    cleaning: Cleaning,
}

/// Changes to a text before it is cut.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default)]
struct Cleaning {
    clean_text: bool,
    handle_chinese_chars: bool,
    /// As `lowercase`, where it is not said.
    strip_accents: Option<bool>,
    lowercase: bool,
}

impl Default for Cleaning {
    fn default() -> Self {
        Self { clean_text: true, handle_chinese_chars: true, strip_accents: None, lowercase: true }
    }
}

#[derive(Deserialize)]
struct TokenizerFile {
    model: WordPieceVocabulary,
    normalizer: Cleaning,
}

#[derive(Deserialize)]
#[serde(default)]
struct WordPieceVocabulary {
    #[serde(rename = "type")]
    kind: String,
    vocab: HashMap<String, u32>,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
}

impl Default for WordPieceVocabulary {
    fn default() -> Self {
        Self {
            kind: "WordPiece".into(),
            vocab: HashMap::new(),
            unk_token: "[UNK]".into(),
            continuing_subword_prefix: "##".into(),
            max_input_chars_per_word: DEFAULT_WORD_CHARS,
        }
    }
}

impl WordPiece {
    pub(super) fn read(folder: &Path, words: usize) -> Result<Self, EmbedderLoadError> {
        let path = folder.join("tokenizer.json");
        Self::new(load::json(&path)?, words).map_err(|what| EmbedderLoadError::unfit(&path, what))
    }

    fn new(file: TokenizerFile, words: usize) -> Result<Self, String> {
        let WordPieceVocabulary {
            kind,
            vocab: ids,
            unk_token,
            continuing_subword_prefix,
            max_input_chars_per_word,
        } = file.model;
        if kind != "WordPiece" {
            return Err(format!("its tokenizer is {kind}, not WordPiece"));
        }
        if let Some((word, _)) = ids.iter().find(|(_, id)| **id as usize >= words) {
            return Err(format!("the token {word:?} is beyond the {words} tokens of the model"));
        }
        let id = |word: &str| ids.get(word).copied().ok_or_else(|| format!("it lacks the token {word}"));
        Ok(Self {
            unknown: id(&unk_token)?,
            first: id("[CLS]")?,
            last: id("[SEP]")?,
            prefix: continuing_subword_prefix,
            word_chars: max_input_chars_per_word.min(MAX_WORD_CHARS),
            cleaning: file.normalizer,
            ids,
        })
    }

    /// At most `most` numbers, the one before the text and the one after it included. The names of those two within a
    /// text are words like any other.
    pub(super) fn encode_within(&self, text: &str, most: usize) -> Vec<u32> {
        let mut ids = vec![self.first];
        let mut word = String::new();
        for c in self.cleaning.apply(text) {
            if ids.len() >= most {
                break;
            }
            match (c.is_whitespace(), is_punctuation(c)) {
                (true, _) => self.end(&mut word, &mut ids),
                (false, true) => {
                    self.end(&mut word, &mut ids);
                    word.push(c);
                    self.end(&mut word, &mut ids);
                }
                (false, false) => word.push(c),
            }
        }
        self.end(&mut word, &mut ids);
        ids.truncate(most.saturating_sub(1));
        ids.push(self.last);
        ids
    }

    /// Takes the word away, and adds its pieces: the longest known one, then the longest known of the rest.
    fn end(&self, word: &mut String, ids: &mut Vec<u32>) {
        let word = std::mem::take(word);
        let is_short = word.chars().count() <= self.word_chars;
        let pieces = if is_short { self.pieces(&word) } else { None };
        ids.extend(pieces.unwrap_or_else(|| vec![self.unknown]));
    }

    fn pieces(&self, word: &str) -> Option<Vec<u32>> {
        let mut pieces = Vec::new();
        let (mut rest, mut start) = (word.to_owned(), 0);
        while rest.len() > start {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).filter(|end| *end > start);
            let ends: Vec<usize> = ends.collect();
            let known = |end: &usize| Some((*end, *self.ids.get(rest.get(..*end)?)?));
            let (end, id) = ends.iter().rev().find_map(known)?;
            pieces.push(id);
            rest = format!("{}{}", self.prefix, rest.get(end..)?);
            start = self.prefix.len();
        }
        Some(pieces)
    }
}

impl Cleaning {
    fn apply<'a>(self, text: &'a str) -> Box<dyn Iterator<Item = char> + 'a> {
        let mut chars: Box<dyn Iterator<Item = char> + 'a> = Box::new(text.chars());
        if self.clean_text {
            chars = Box::new(chars.filter(|c| !is_noise(*c)));
        }
        if self.handle_chinese_chars {
            chars = Box::new(chars.flat_map(with_spaces));
        }
        if self.strip_accents.unwrap_or(self.lowercase) {
            chars = Box::new(chars.nfd().filter(|c| c.general_category() != GeneralCategory::NonspacingMark));
        }
        if self.lowercase {
            chars = Box::new(chars.flat_map(char::to_lowercase));
        }
        chars
    }
}

fn is_noise(c: char) -> bool {
    let control = matches!(
        c.general_category(),
        GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse
    );
    c == '\u{fffd}' || (control && !matches!(c, '\t' | '\n' | '\r'))
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Chinese characters are words each, so they stand between spaces.
fn with_spaces(c: char) -> impl Iterator<Item = char> {
    let chinese = matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B820..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F);
    let space = chinese.then_some(' ');
    space.into_iter().chain([c]).chain(space)
}
