//! Text to tokens and back, by the vocabulary and the merges in a model's file.
//!
//! This is the byte-level kind that GPT-2 began and most small models use: text is cut into pieces by a pattern, each
//! piece is taken as bytes, and neighbours are merged, the earliest learnt first.

mod merge;
mod split;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use regex::Regex;

use crate::gguf::{Gguf, GgufError, Value};
use crate::llama::LlamaLoadError;
use split::Splitter;

/// Kinds of tokens that are never made from text alone: those that steer the model, and those its makers added.
const SPECIAL_KINDS: [i128; 2] = [3, 4];
const CONTROL_KIND: i128 = 3;
/// How files say that an answer is over. Not all of them say it of the token their template uses.
const END_KEYS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
const END_TEXTS: [&str; 5] = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"];

/// Stands in a text where it must not be read as a special token. No text has it: Unicode will never give it a meaning.
const BREAK: char = '\u{fdd0}';

pub struct Tokenizer {
    /// The bytes of each token.
    bytes: Vec<Box<[u8]>>,
    control: Vec<bool>,
    special: HashMap<String, u32>,
    /// Finds special tokens.
    special_pattern: Option<Regex>,
    by_byte: Vec<Option<u32>>,
    merges: merge::Merges,
    splitter: Splitter,
    ends: Vec<u32>,
    begin: Option<u32>,
    longest: usize,
}

impl Tokenizer {
    pub fn load(file: &Gguf) -> Result<Self, LlamaLoadError> {
        if file.text("tokenizer.ggml.model") != Some("gpt2") {
            return Err(LlamaLoadError::Unsupported("kind of tokenizer"));
        }
        let splitter = Splitter::by_name(file.text("tokenizer.ggml.pre").unwrap_or("gpt-2"))?;
        let texts = texts(file, "tokenizer.ggml.tokens")?;
        let kinds = file.list("tokenizer.ggml.token_type").unwrap_or_default();
        let ids: HashMap<&str, u32> = texts.iter().copied().zip(0..).collect();
        let is = |index: usize, wanted: &[i128]| {
            kinds.get(index).is_some_and(|kind| wanted.iter().any(|kind_| *kind == Value::Whole(*kind_)))
        };
        let special = |index: usize| is(index, &SPECIAL_KINDS);
        let packed: HashMap<char, u8> = (0..=u8::MAX).map(|byte| (pack(byte), byte)).collect();
        let unpacked = texts.iter().enumerate();
        let bytes: Vec<Box<[u8]>> = unpacked
            .map(|(id, text)| if special(id) { text.as_bytes().into() } else { unpack(text, &packed) })
            .collect();
        let specials =
            texts.iter().zip(0_u32..).filter(|(text, id)| special(*id as usize) && !text.is_empty());
        let specials: HashMap<String, u32> = specials.map(|(text, id)| ((*text).to_owned(), id)).collect();
        let end_ids = END_KEYS.iter().filter_map(|key| file.integer::<u32>(key));
        let mut ends: Vec<u32> =
            end_ids.chain(END_TEXTS.iter().filter_map(|text| specials.get(*text).copied())).collect();
        ends.retain(|id| (*id as usize) < texts.len());
        ends.dedup();
        let begin =
            file.integer::<u32>("tokenizer.ggml.bos_token_id").filter(|id| (*id as usize) < texts.len());
        Ok(Self {
            control: (0..texts.len()).map(|id| is(id, &[CONTROL_KIND])).collect(),
            by_byte: (0..=u8::MAX).map(|byte| ids.get(pack(byte).to_string().as_str()).copied()).collect(),
            merges: merge::Merges::load(&self::texts(file, "tokenizer.ggml.merges")?, &ids),
            special_pattern: pattern(&specials),
            special: specials,
            splitter,
            ends,
            begin: begin.filter(|_| file.flag("tokenizer.ggml.add_bos_token") == Some(true)),
            longest: bytes.iter().map(|bytes| bytes.len()).max().unwrap_or(0),
            bytes,
        })
    }

    pub fn vocabulary(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of the longest token.
    pub fn longest_token_bytes(&self) -> usize {
        self.longest
    }

    /// Tokens that end an answer.
    pub fn end_tokens(&self) -> &[u32] {
        &self.ends
    }

    /// The token that every prompt begins with, if any.
    pub fn begin(&self) -> Option<u32> {
        self.begin
    }

    pub fn token(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).map(AsRef::as_ref).unwrap_or_default()
    }

    /// The text of a token of any kind.
    pub fn text(&self, token: u32) -> String {
        String::from_utf8_lossy(self.token(token)).into_owned()
    }

    /// True for a token that steers the model and is no part of any text.
    pub fn is_control(&self, token: u32) -> bool {
        self.control.get(token as usize).copied().unwrap_or(false)
    }

    /// The text such that [`Tokenizer::encode`] takes nothing in it for a special token.
    pub fn without_special_tokens(&self, text: &str) -> String {
        let text = text.replace(BREAK, "");
        let Some(pattern) = &self.special_pattern else { return text };
        let broken = |found: &regex::Captures<'_>| {
            let found = found.get(0).map(|found| found.as_str()).unwrap_or_default();
            let mut characters = found.chars();
            characters.next().into_iter().chain([BREAK]).chain(characters).collect::<String>()
        };
        pattern.replace_all(&text, broken).into_owned()
    }

    /// The tokens of a text, special ones included.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut done = 0;
        for found in self.special_pattern.iter().flat_map(|pattern| pattern.find_iter(text)) {
            self.encode_plain(text.get(done..found.start()).unwrap_or_default(), &mut tokens);
            tokens.extend(self.special.get(found.as_str()));
            done = found.end();
        }
        self.encode_plain(text.get(done..).unwrap_or_default(), &mut tokens);
        tokens
    }

    fn encode_plain(&self, text: &str, tokens: &mut Vec<u32>) {
        let text = text.replace(BREAK, "");
        self.splitter.split(&text, &mut |piece| {
            let bytes =
                piece.bytes().filter_map(|byte| self.by_byte.get(usize::from(byte)).copied().flatten());
            tokens.extend(self.merges.merge(bytes.collect()));
        });
    }
}

fn texts<'a>(file: &'a Gguf, key: &str) -> Result<Vec<&'a str>, GgufError> {
    let list = file.list(key).ok_or_else(|| GgufError::NoEntry(key.into()))?;
    let texts = list.iter().map(|item| {
        let Value::Text(text) = item else { return Err(GgufError::NoEntry(key.into())) };
        Ok(text.as_str())
    });
    texts.collect()
}

/// The longest of those that begin alike is found first.
fn pattern(specials: &HashMap<String, u32>) -> Option<Regex> {
    let mut texts: Vec<&str> = specials.keys().map(String::as_str).collect();
    texts.sort_by_key(|text| (std::cmp::Reverse(text.len()), *text));
    let escaped: Vec<String> = texts.into_iter().map(regex::escape).collect();
    if escaped.is_empty() { None } else { Regex::new(&escaped.join("|")).ok() }
}

/// The character that stands for a byte in a vocabulary: printable ones for themselves, the others for what follows 255.
pub(crate) fn pack(byte: u8) -> char {
    match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        0..=b' ' => shifted_char(u32::from(byte)),
        0x7f..=0xa0 => shifted_char(u32::from(byte) - 0x7f + 33),
        0xad => shifted_char(67),
    }
}

fn shifted_char(index: u32) -> char {
    char::from_u32(256 + index).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The bytes that a token's text stands for. A character that stands for no byte stands for itself.
fn unpack(text: &str, packed: &HashMap<char, u8>) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match packed.get(&character) {
            Some(byte) => bytes.push(*byte),
            None => bytes.extend(character.to_string().bytes()),
        }
    }
    bytes.into()
}

/// Bytes as they come, handed out as text, and never half a character.
#[derive(Default)]
pub struct Characters {
    pending: Vec<u8>,
}

impl Characters {
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let (mut text, mut used) = (String::new(), 0);
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let cut = used + chunk.invalid().len() == self.pending.len() && is_beginning(chunk.invalid());
            if !cut && !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                used += chunk.invalid().len();
            }
        }
        self.pending.drain(..used);
        text
    }

    /// The bytes left at the end, which no character came of.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// Whether more bytes could make a character of it.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
