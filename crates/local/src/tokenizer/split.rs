//! How text is cut into pieces before anything is merged. Each family of models was trained with its own way.
//!
//! The patterns end with `\s+(?!\S)|\s+`, which takes white space up to the last one before a word. The engine used here
//! cannot look ahead, in return for never being slow; so `\s+` takes all of it, and the last one is given back.

use regex::Regex;

use crate::llama::LlamaLoadError;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";

pub(super) struct Splitter {
    pattern: Regex,
    /// Finds parts that stand alone in every context.
    alone: Option<Regex>,
    /// Whether a piece that ends with a line break is whole, since the pattern looked for those.
    breaks_end: bool,
}

impl Splitter {
    pub(super) fn by_name(name: &str) -> Result<Self, LlamaLoadError> {
        let (pattern, digits, breaks_end) = match name {
            "gpt-2" | "gpt2" | "default" => (GPT2, false, false),
            "smollm" | "starcoder" | "refact" | "command-r" => (GPT2, true, false),
            "qwen2" | "deepseek-r1-qwen" => (QWEN2, false, true),
            "llama-bpe" | "llama3" | "llama-v3" => (LLAMA3, false, true),
            _ => return Err(LlamaLoadError::Unsupported("way of cutting text")),
        };
        let compile =
            |pattern| Regex::new(pattern).map_err(|_| LlamaLoadError::Unsupported("way of cutting text"));
        let alone = if digits { Some(compile(r"\p{N}")?) } else { None };
        Ok(Self { pattern: compile(pattern)?, alone, breaks_end })
    }

    pub(super) fn split(&self, text: &str, take: &mut dyn FnMut(&str)) {
        let mut done = 0;
        for found in self.alone.iter().flat_map(|alone| alone.find_iter(text)) {
            self.split_part(text.get(done..found.start()).unwrap_or_default(), take);
            take(found.as_str());
            done = found.end();
        }
        self.split_part(text.get(done..).unwrap_or_default(), take);
    }

    fn split_part(&self, text: &str, take: &mut dyn FnMut(&str)) {
        let mut at = 0;
        while let Some(found) = self.pattern.find_at(text, at) {
            let mut piece = found.as_str();
            let followed = text.get(found.end()..).is_some_and(|rest| !rest.is_empty());
            let whole = self.breaks_end && piece.ends_with(['\r', '\n']);
            if followed && !whole && piece.chars().all(char::is_whitespace) {
                let last = piece.char_indices().next_back().map_or(0, |(index, _)| index);
                // A single one has nothing before it to keep.
                piece = piece.get(..last).filter(|kept| !kept.is_empty()).unwrap_or(piece);
            }
            take(piece);
            at = found.start() + piece.len();
        }
    }
}
