//! Counts and pieces against the crate `tiktoken` and against the regular expressions of the vocabularies.

use std::fs::File;
use std::io::Read;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use flate2::read::DeflateDecoder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use regex::Regex;

use super::*;

const BOTH: [(Vocabulary, &str); 2] =
    [(Vocabulary::O200k, "o200k_base"), (Vocabulary::Cl100k, "cl100k_base")];

/// The expressions that OpenAI published. Their alternative for white space at the end, `\s+(?!\S)`, is not in them.
const O200K_PATTERN: &str = concat!(
    r"^(?:[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+)",
);
const CL100K_PATTERN: &str = concat!(
    r"^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+)",
);

/// Letters, marks, numbers, white space and signs of all classes, and words that the expressions know.
const FRAGMENTS: &[&str] = &[
    "A",
    "É",
    "Ω",
    "Ж",
    "Ａ",
    "𐐀",
    "ǅ",
    "ᾈ",
    "s",
    "t",
    "r",
    "e",
    "v",
    "m",
    "l",
    "d",
    "ß",
    "é",
    "ω",
    "ж",
    "ａ",
    "ʰ",
    "ー",
    "々",
    "ª",
    "中",
    "文",
    "あ",
    "한",
    "ب",
    "א",
    "ก",
    "क",
    "\u{301}",
    "\u{e31}",
    "\u{93e}",
    "\u{20dd}",
    "\u{fe0f}",
    "0",
    "7",
    "123",
    "4567",
    "٣",
    "४",
    "Ⅷ",
    "²",
    "½",
    "〇",
    "𝟘",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\u{b}",
    "\u{c}",
    "\u{1c}",
    "\u{85}",
    "\u{a0}",
    "\u{1680}",
    "\u{200a}",
    "\u{2028}",
    "\u{2029}",
    "\u{3000}",
    "\u{200b}",
    "\u{feff}",
    "\0",
    "\u{7f}",
    "'",
    "’",
    "''",
    "'s",
    "'S",
    "'t",
    "'re",
    "'RE",
    "'Ve",
    "'vE",
    "'ll",
    "'LL",
    "'d",
    "'M",
    "ſ",
    "\u{212a}",
    "'\u{212a}",
    "!",
    "/",
    "//",
    "\n/",
    ".",
    ",",
    "-",
    "_",
    "{\"",
    "\": ",
    "}",
    "(",
    ");",
    "=>",
    "«",
    "—",
    "。",
    "、",
    "€",
    "👩‍👩‍👧",
    "🏽",
    "🇩🇪",
    "❤\u{fe0f}",
    "\u{378}",
    "\u{e000}",
    "\u{10ffff}",
    "the",
    " of",
    "The",
    "HTTPServer",
    "camelCase",
    "don't",
    "DON'T",
    "<|endoftext|>",
    "<|fim_prefix|>",
    "https://",
    "ing",
    "tion",
    " antidisestablishmentarianism",
];

/// Sentences of many languages, source code and JSON.
const SAMPLES: &[&str] = &[
    "The quick brown fox jumps over the lazy dog; it's 12345 times they'd've done so.",
    "Falsches Üben von Xylophonmusik quält jeden größeren Zwerg. Donaudampfschifffahrtsgesellschaft!",
    "Voix ambiguë d’un cœur qui, au zéphyr, préfère les jattes de kiwis.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΞΕΣΚΕΠΑΖΩ ΤΗΝ ΨΥΧΟΦΘΟΡΑ",
    "視野無限廣，窗外有藍天。今天天气很好，我们去公园散步吧！2024年12月31日",
    "いろはにほへと ちりぬるを。コンピューター、お誕生日おめでとう",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ١٢٣٤",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश १२३",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "Do bạch kim rất quý nên sẽ dùng để lắp vô xương. Pijamalı hasta yağız şoföre",
    "fn main() {\n    let x: Vec<u32> = (0..10).map(|n| n * 2).collect();\n\tprintln!(\"{x:?}\");\r\n}\n\n\n// end\n",
    "def f(self, *args):\n        return [x ** 2 for x in args if x != 0x1F]  # don't\n",
    r#"{"id": 1234567, "name": "A \"b\" c", "list": [1, 2.5e-3, null, true], "url": "https://x.org/a/b?c=d&e=f"}"#,
    "#include <stdio.h>\n#define MAX(a,b) ((a)>(b)?(a):(b))\nint main(void){return MAX(1,2);}/* x */",
    "| a | b |\n|---|:--:|\n| **1** | _2_ |\n\n- [ ] x\n- [x] y\n```sh\n$ ls -la | grep '^d'\n```",
    "3f2a9c7e-11d4-4b0b-9a57-0d3c5e2f8a61 aGVsbG8gd29ybGQhIQ== 0xDEADBEEF XMLHttpRequest iPhone's O'REILLY'S",
    "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪 ❤️‍🔥 (╯°□°)╯︵ ┻━┻ ½ + ⅓ ≠ ∞ → ∀x∈ℝ",
];

fn assert_counts(text: &str) {
    for (vocabulary, name) in BOTH {
        let expected = tiktoken::get_encoding(name).unwrap().count(text);
        assert_eq!(vocabulary.count(text), expected, "{name} of {text:?}");
    }
}

/// The crate `tiktoken` overlooks a long s after a word that it scans without the expression. OpenAI's does not.
fn without_long_s(text: &str) -> String {
    text.replace("'ſ", "'s")
}

fn pieces_of(text: &str, piece_len: impl Fn(&str) -> usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(piece_len(rest));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// The length of the first piece by the expression, with what `\s+(?!\S)` adds to it.
fn expected_len(pattern: &Regex, text: &str) -> usize {
    let piece = pattern.find(text).unwrap().as_str();
    let last = piece.chars().next_back().unwrap();
    let is_blank = piece.chars().all(char::is_whitespace) && !matches!(last, '\r' | '\n');
    let is_cut = is_blank && piece.len() < text.len() && piece.len() > last.len_utf8();
    if is_cut { piece.len() - last.len_utf8() } else { piece.len() }
}

static PATTERNS: LazyLock<[Regex; 2]> =
    LazyLock::new(|| [O200K_PATTERN, CL100K_PATTERN].map(|pattern| Regex::new(pattern).unwrap()));

fn assert_pieces(text: &str) {
    let [o200k, cl100k] = &*PATTERNS;
    let expected = pieces_of(text, |rest| expected_len(o200k, rest));
    assert_eq!(pieces_of(text, |rest| pieces::o200k(rest.as_bytes())), expected);
    let expected = pieces_of(text, |rest| expected_len(cl100k, rest));
    assert_eq!(pieces_of(text, |rest| pieces::cl100k(rest.as_bytes())), expected);
}

fn fragments() -> impl Strategy<Value = String> {
    vec(select(FRAGMENTS), 0..40).prop_map(|parts| parts.concat())
}

/// Parts of sentences one after the other, with a fragment between.
fn samples() -> impl Strategy<Value = String> {
    let part = (select(SAMPLES), 0..80_usize, 0..120_usize, select(FRAGMENTS));
    let part = part.prop_map(|(sample, skip, take, fragment)| {
        sample.chars().skip(skip).take(take).collect::<String>() + fragment
    });
    vec(part, 1..5).prop_map(|parts| parts.concat())
}

/// Words of random letters, which have to be joined from many parts, and are long enough for both ways to do so.
fn letters() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,200}",
        "[a-c]{40,90}",
        "[A-Za-z0-9+/]{1,300}",
        "[一-龥]{1,60}",
        " {1,300}x",
        "[!-/]{1,150}"
    ]
}

#[test]
fn counts_of_samples() {
    for sample in SAMPLES.iter().chain(FRAGMENTS) {
        assert_counts(&without_long_s(sample));
    }
    for (vocabulary, _) in BOTH {
        assert_eq!(vocabulary.count(""), 0);
        assert_eq!(vocabulary.count("hello world"), 2);
        assert!(vocabulary.count("<|endoftext|>") > 1, "it is ordinary text");
    }
}

#[test]
fn every_token_is_found_and_nothing_else() {
    for (table, name) in [(&table::O200K, "o200k_base"), (&table::CL100K, "cl100k_base")] {
        let encoding = tiktoken::get_encoding(name).unwrap();
        let file = File::open(format!("{}/data/{name}.lengths", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let mut lengths = Vec::new();
        DeflateDecoder::new(file).read_to_end(&mut lengths).unwrap();
        assert_eq!(lengths.len(), encoding.vocab_size(), "{name}");
        for rank in 0..encoding.vocab_size() as u32 {
            assert_eq!(table.rank(&encoding.decode(&[rank])), Some(rank));
        }
        for bytes in [&b""[..], b"<|endoftext|>", b"qqqqqqqqq", &[b' '; 256], &[b' '; 100_000]] {
            assert_eq!(table.rank(bytes), None, "{bytes:?}");
        }
    }
}

#[test]
fn every_character_has_the_class_of_the_expressions() {
    // Each character twice: the second one shows whether the first could lead or continue a piece.
    for character in '\0'..=char::MAX {
        let text = format!("a{character}{character}A{character}1");
        assert_pieces(&text);
    }
}

#[test]
fn a_long_s_is_an_s_in_a_contraction() {
    assert_eq!(pieces::o200k("it'ſ".as_bytes()), 5);
    assert_eq!(pieces::cl100k("'ſ".as_bytes()), 3);
}

proptest! {
    #[test]
    fn pieces_are_those_of_the_expressions(text in prop_oneof![fragments(), samples(), any::<String>()]) {
        assert_pieces(&text);
    }

    #[test]
    fn counts_of_nasty_text(text in fragments()) {
        assert_counts(&without_long_s(&text));
    }

    #[test]
    fn counts_of_mixed_sentences(text in samples()) {
        assert_counts(&without_long_s(&text));
    }

    #[test]
    fn counts_of_random_text(text in any::<String>()) {
        assert_counts(&without_long_s(&text));
    }

    #[test]
    fn counts_of_random_letters(text in letters()) {
        assert_counts(&text);
    }
}

/// Texts of about 200 kB that would take very long if the time grew with the square of the length.
#[test]
fn hostile_text_is_counted_in_linear_time() {
    const SIZE: usize = 200_000;
    let mut state = 1_u64;
    let mut random = |range: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % range
    };
    let random_letters: String = (0..SIZE).map(|_| (b'a' + random(26) as u8) as char).collect();
    let random_text: String = (0..SIZE / 3).filter_map(|_| char::from_u32(random(0x3000) as u32)).collect();
    let random_han: String =
        (0..SIZE / 3).filter_map(|_| char::from_u32(0x4e00 + random(20_000) as u32)).collect();
    let marks = String::from("a") + &"\u{301}".repeat(SIZE / 2);
    let mixed_case = "中".repeat(10) + &"A".repeat(SIZE);
    for text in [
        "a".repeat(SIZE),
        "A".repeat(SIZE),
        " ".repeat(SIZE),
        " ".repeat(SIZE) + "a",
        "\n".repeat(SIZE),
        "\n ".repeat(SIZE / 2),
        "\u{3000}".repeat(SIZE / 3) + "a",
        "!".repeat(SIZE),
        "!/\n".repeat(SIZE / 3),
        "1".repeat(SIZE),
        "aA1! ".repeat(SIZE / 5),
        "中A".repeat(SIZE / 4),
        "\u{301}A".repeat(SIZE / 3),
        "\u{301}".repeat(SIZE / 2) + &"A".repeat(SIZE / 2),
        "'s".repeat(SIZE / 2),
        "ab".repeat(SIZE / 2),
        random_letters,
        random_text,
        random_han,
        marks,
        mixed_case,
    ] {
        let start: String = text.chars().take(20).collect();
        for (vocabulary, name) in BOTH {
            let clock = Instant::now();
            let count = vocabulary.count(&text);
            let time = clock.elapsed();
            println!("{name} {start:?}: {count} tokens in {time:?}");
            assert!(count > 0 && time < Duration::from_secs(30), "{name} of {start:?} took {time:?}");
        }
    }
}
