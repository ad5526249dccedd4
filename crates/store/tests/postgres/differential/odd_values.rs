//! Texts and JSON that a careless database would change, refuse or sort in another way.

use protocol::{Cost, Usage};
use serde_json::{Map, Value, json};
use store::PackedVector;

use super::generator::ComparedPlan;

/// Ordinary words, so that some texts share some of them.
const WORDS: &[&str] = &[
    "tea",
    "Tea",
    "green",
    "house",
    "garden",
    "Berlin",
    "runs",
    "running",
    "the",
    "a",
    "dog",
    "cat's",
    "2026",
    "3.14",
    "e-mail",
    "straße",
    "STRASSE",
    "İstanbul",
    "naïve",
    "北京",
    "café",
    "cafe\u{301}",
    "don't",
];

/// Texts that need care.
const ODD: &[&str] = &[
    "",
    " ",
    "'",
    "\"",
    "\\",
    "\\\\'\"",
    "';DROP TABLE threads;--",
    "%",
    "_",
    "100%_\\%",
    "$1 ?1 :a @b",
    "NULL",
    "null",
    "{}",
    "[1,",
    "\n",
    "\t\r\n",
    "a\u{0}b",
    "\u{0}",
    "\u{1}\u{7f}",
    "🦀🏳️‍🌈",
    "\u{10ffff}",
    "\u{2028}\u{2029}",
    "\u{202e}abc",
    "ａｂｃ",
    "\u{feff}bom",
    "𝒳",
    "e\u{301}\u{300}",
    "<b>&amp;</b>",
    "*",
    "OR AND NOT NEAR",
    "\"tea\" AND (",
    "tea*",
    "-tea",
    "a:b",
    "'tea' & !green | <->",
    "\\u0000",
    "\\x00",
    "0x1f",
    "1e400",
    "-0",
    "９",
];

impl ComparedPlan {
    pub(super) fn word(&mut self) -> &'static str {
        self.one_of(WORDS)
    }

    /// A text as people write it, or one that needs care.
    pub(super) fn text(&mut self) -> String {
        match self.random.u32(..10) {
            0 | 1 => self.one_of(ODD).to_owned(),
            2 => format!("{} {} {}", self.word(), self.one_of(ODD), self.word()),
            _ => {
                let words: Vec<&str> = (0..self.random.usize(1..7)).map(|_| self.word()).collect();
                words.join(" ")
            }
        }
    }

    /// A text without U+0000: with it, its size and its place in a list are others on PostgreSQL.
    pub(super) fn countable_text(&mut self) -> String {
        self.text().replace('\0', "zero")
    }

    /// A text, or rarely one that is longer than it may be.
    pub(super) fn bounded_text(&mut self, max: usize) -> String {
        match self.random.u32(..40) {
            0 => "é".repeat(max / 2 + 1),
            1 => "x".repeat(max),
            _ => self.countable_text(),
        }
    }

    /// A short name: of a few, so that names meet again. It has no U+0000, because a list of names would then have
    /// another order on PostgreSQL.
    pub(super) fn name(&mut self) -> String {
        self.loose_name().replace('\0', "zero")
    }

    /// A short name that no list is sorted by.
    pub(super) fn loose_name(&mut self) -> String {
        match self.random.u32(..12) {
            0 => self.one_of(ODD).to_owned(),
            _ => format!("{}-{}", self.word(), self.random.u32(..3)),
        }
    }

    /// The name of a model, which is never empty: without a model nothing is used.
    pub(super) fn model(&mut self) -> String {
        format!("model {}", self.name())
    }

    pub(super) fn json(&mut self) -> Value {
        match self.random.u32(..12) {
            0 => json!(null),
            1 => json!(self.random.bool()),
            2 => self.number(),
            3 => json!([self.text(), self.number(), null, [self.word()]]),
            4 | 5 => json!(self.text()),
            _ => Value::Object(self.object()),
        }
    }

    pub(super) fn object(&mut self) -> Map<String, Value> {
        let mut object = Map::new();
        for _ in 0..self.random.usize(..5) {
            let name = self.one_of(&["title", "done", "n", "tags", "a.b", "a\"b", "", "ключ", "$", "z'"]);
            let value = match self.random.u32(..6) {
                0 => self.number(),
                1 => json!(self.random.bool()),
                2 => json!([self.word(), self.word(), 1, null]),
                3 => json!({ "in": self.text(), "deep": [1.5, { "x": self.word() }] }),
                _ => json!(self.text()),
            };
            object.insert(name.to_owned(), value);
        }
        object
    }

    pub(super) fn number(&mut self) -> Value {
        self.one_of(&[
            json!(0),
            json!(-0.0),
            json!(1),
            json!(1.0),
            json!(0.1),
            json!(1e300),
            json!(5e-324),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(9_007_199_254_740_993u64),
            json!(123_456_789.123_456_79),
        ])
    }

    pub(super) fn usage(&mut self) -> Usage {
        let large = self.once_in(60);
        let tokens =
            |plan: &mut Self| if large { u64::from(u32::MAX) * 1_000 } else { plan.random.u64(..5_000) };
        Usage {
            input_tokens: tokens(self),
            output_tokens: tokens(self),
            cached_input_tokens: self.random.u64(..50),
            reasoning_tokens: self.random.u64(..50),
            cost: Cost(self.random.u64(..1_000_000)),
            estimated: self.once_in(5),
        }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.random.u8(..)).collect()
    }

    pub(super) fn vector(&mut self, count: usize) -> PackedVector {
        let numbers: Vec<f32> = (0..count).map(|_| self.random.f32() - 0.5).collect();
        PackedVector::pack(&numbers)
    }

    /// One of a few hashes, so that they meet again.
    pub(super) fn hash(&mut self) -> [u8; 32] {
        [self.random.u8(..40); 32]
    }
}
