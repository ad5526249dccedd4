//! Texts are cut as BERT was trained.

use serde_json::json;

use super::super::wordpiece::WordPiece;
use super::tiny::{Tiny, WORDS, tokenizer};

fn cut(text: &str, most: usize) -> Vec<&'static str> {
    names(&Tiny::new("mean"), text, most)
}

fn names(tiny: &Tiny, text: &str, most: usize) -> Vec<&'static str> {
    let tokenizer = WordPiece::read(tiny.folder.path(), WORDS.len()).unwrap();
    tokenizer.encode_within(text, most).into_iter().map(|id| WORDS[id as usize]).collect()
}

#[test]
fn a_word_becomes_its_longest_known_pieces_or_is_unknown_as_a_whole() {
    for (text, expected) in [
        ("", vec![]),
        (" \t\n\u{a0}", vec![]),
        ("the sea", vec!["the", "sea"]),
        ("seaside boats", vec!["sea", "##side", "boat", "##s"]),
        ("seafood", vec!["[UNK]"]),
        ("side", vec!["[UNK]"]),
        ("The SEA", vec!["the", "sea"]),
        ("séà", vec!["sea"]),
        ("se\u{301}a", vec!["sea"]),
        ("sea,boat,,", vec!["sea", ",", "boat", ",", ","]),
        ("sea\u{200b}side", vec!["sea", "##side"]),
        ("sea\u{0}\u{fffd}side", vec!["sea", "##side"]),
        ("sea日boat", vec!["sea", "日", "boat"]),
        ("sea—boat", vec!["sea", "[UNK]", "boat"]),
        ("[SEP]", vec!["[UNK]", "[UNK]", "[UNK]"]),
    ] {
        assert_eq!(cut(text, 40), [vec!["[CLS]"], expected, vec!["[SEP]"]].concat(), "{text:?}");
    }
}

#[test]
fn a_word_of_more_characters_than_the_model_allows_is_unknown() {
    let vocabulary = |word: &str| {
        let tiny = Tiny::new("mean");
        let mut tokenizer = tokenizer();
        tokenizer["model"]["vocab"]["##e"] = json!(5);
        tiny.write("tokenizer.json", &tokenizer);
        names(&tiny, word, 40).len()
    };
    assert_eq!(vocabulary(&"e".repeat(10)), 12);
    assert_eq!(vocabulary(&"e".repeat(11)), 3);
    assert_eq!(vocabulary(&"e".repeat(100_000)), 3);
}

#[test]
fn a_long_text_is_cut_and_still_ends_as_one() {
    assert_eq!(cut("sea sea sea", 5), ["[CLS]", "sea", "sea", "sea", "[SEP]"]);
    assert_eq!(cut("sea sea sea sea", 5), ["[CLS]", "sea", "sea", "sea", "[SEP]"]);
    assert_eq!(cut("sea sea boats", 5), ["[CLS]", "sea", "sea", "boat", "[SEP]"]);
    assert_eq!(cut(&"sea ".repeat(100_000), 40).len(), 40);
}

#[test]
fn case_and_accents_stay_where_the_model_knows_them() {
    let tiny = Tiny::new("mean");
    let mut tokenizer = tokenizer();
    tokenizer["normalizer"]["lowercase"] = json!(false);
    tiny.write("tokenizer.json", &tokenizer);
    assert_eq!(names(&tiny, "sea Sea séa", 40), ["[CLS]", "sea", "[UNK]", "[UNK]", "[SEP]"]);
    tokenizer["normalizer"]["strip_accents"] = json!(true);
    tiny.write("tokenizer.json", &tokenizer);
    assert_eq!(names(&tiny, "sea Sea séa", 40), ["[CLS]", "sea", "[UNK]", "sea", "[SEP]"]);
}
