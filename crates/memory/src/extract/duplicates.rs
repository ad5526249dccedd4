//! When two texts say the same. In doubt they do not: a double costs a line, a lost fact cannot be had again.

use std::collections::BTreeSet;

use crate::phrases::{PhraseList, lists};
use crate::tombstone::spans::{WordSpan, spans};

lists! {
    static WORDS: ComparedWords = "duplicates.toml"; {
        stop_words: PhraseList,
        number_words: PhraseList,
        negations: PhraseList,
        common: PhraseList,
        glue: PhraseList,
    }
}

/// Texts whose meanings are nearer than this may say the same.
const MIN_COSINE: f32 = 0.93;

/// True if the texts have the same words, or nearly the same meaning with the same numbers, names and negations.
pub fn is_duplicate(new: &str, known: &str, cosine: Option<f32>) -> bool {
    if key(new) == key(known) {
        return true;
    }
    let near = cosine.is_some_and(|cosine| cosine >= MIN_COSINE);
    near && same_details(new, known) && is_rewording(&compared_words(new), &compared_words(known))
}

/// The key that texts with the same words share.
pub(super) fn key(text: &str) -> String {
    let words = compared_words(text);
    if words.is_empty() { text.trim().to_owned() } else { words.join(" ") }
}

fn compared_words(text: &str) -> Vec<String> {
    let words = || spans(text).into_iter().map(|span| span.word.replace('\'', ""));
    let telling: Vec<String> = words().filter(|word| !WORDS.stop_words.contains(word)).collect();
    if telling.is_empty() { words().collect() } else { telling }
}

/// False if the texts differ by one word only, put in the place of another, added or left out: then that word is what
/// they are about.
fn is_rewording(one: &[String], two: &[String]) -> bool {
    let only_in =
        |these: &[String], those: &[String]| these.iter().filter(|word| !those.contains(word)).count();
    let (left, right) = (only_in(one, two), only_in(two, one));
    let replaced =
        one.len() == two.len() && one.iter().zip(two).filter(|(left, right)| left != right).count() == 1;
    !replaced && left > 0 && right > 0
}

/// Numbers, names and negations agree.
fn same_details(one: &str, two: &str) -> bool {
    let (left, right) = (spans(one), spans(two));
    let numbers = |spans: &[WordSpan]| -> BTreeSet<String> { spans.iter().filter_map(number).collect() };
    let denials = |spans: &[WordSpan]| spans.iter().filter(|span| is_negation(&span.word)).count();
    let named = |text: &str, these: &[WordSpan], those: &[WordSpan]| {
        let has = |name: &String| those.iter().any(|span| base(span) == *name);
        names(text, these).iter().all(has)
    };
    numbers(&left) == numbers(&right)
        && denials(&left) == denials(&right)
        && named(one, &left, &right)
        && named(two, &right, &left)
}

fn number(span: &WordSpan) -> Option<String> {
    let word = &span.word;
    let counts = word.chars().any(char::is_numeric) || WORDS.number_words.contains(word);
    counts.then(|| word.clone())
}

fn is_negation(word: &str) -> bool {
    word.ends_with("n't") || WORDS.negations.contains(word)
}

/// The word without a possessive ending.
fn base(span: &WordSpan) -> String {
    span.word.strip_suffix("'s").unwrap_or(&span.word).replace('\'', "")
}

/// Capitalised words, but for those that are so only because they come first.
fn names(text: &str, spans: &[WordSpan]) -> Vec<String> {
    let capital =
        |span: &&WordSpan| text.get(span.start..).is_some_and(|rest| rest.starts_with(char::is_uppercase));
    spans.iter().filter(capital).map(base).filter(|word| !WORDS.common.contains(word)).collect()
}

/// How many letters two forms of a word share at least.
const SHARED_STEM: usize = 4;

/// True if the text is made of what the others say, and leaves out none of their numbers, names and negations.
pub(super) fn puts_together(text: &str, parts: &[&str]) -> bool {
    let said: Vec<WordSpan> = parts.iter().flat_map(|part| spans(part)).collect();
    let words = spans(text);
    let known = |span: &WordSpan| {
        WORDS.glue.contains(&span.word) || said.iter().any(|other| is_form_of(&base(span), &base(other)))
    };
    let kept = |part: &str| {
        let has = |word: &str| words.iter().any(|span| base(span) == word || span.word == word);
        let theirs = spans(part);
        names(part, &theirs).iter().all(|name| has(name))
            && theirs
                .iter()
                .filter(|span| number(span).is_some() || is_negation(&span.word))
                .all(|span| has(&span.word))
    };
    words.iter().all(known) && parts.iter().all(|part| kept(part))
}

fn is_form_of(one: &str, two: &str) -> bool {
    let shared = one.chars().zip(two.chars()).take_while(|(left, right)| left == right).count();
    let longest = one.chars().count().max(two.chars().count());
    one == two || (shared >= SHARED_STEM && shared + 3 >= longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_a_duplicate_without_any_cosine() {
        for (one, two) in [
            ("I live in Oslo", "i live in oslo."),
            ("I'm vegan", "I’m   VEGAN!"),
            ("Has a cat", "has the cat"),
            ("I really like tea", "I like tea"),
            ("the", "The"),
            ("!!", " !! "),
        ] {
            assert!(is_duplicate(one, two, None) && is_duplicate(two, one, Some(0.0)), "{one} / {two}");
        }
    }

    #[test]
    fn a_near_meaning_is_a_duplicate_if_all_details_agree() {
        for (one, two) in [
            ("my cat is called Miso", "My cat's name is Miso"),
            ("I work as a teacher in Oslo", "My job in Oslo is teaching"),
            ("Anna's birthday is 3 May", "The birthday of Anna falls on 3 May"),
        ] {
            assert!(is_duplicate(one, two, Some(0.97)), "{one} / {two}");
            assert!(!is_duplicate(one, two, Some(0.8)), "{one} / {two}");
            assert!(!is_duplicate(one, two, None), "{one} / {two}");
            assert!(!is_duplicate(one, two, Some(f32::NAN)), "{one} / {two}");
        }
    }

    #[test]
    fn what_differs_in_a_detail_is_no_duplicate_however_near() {
        for (one, two) in [
            ("I live in Oslo", "I live in Rome"),
            ("i live in oslo", "i live in rome"),
            ("I like tea", "I don't like tea"),
            ("I like tea", "I hate tea"),
            ("I have 2 cats", "There are 3 cats at my place"),
            ("I have two cats", "There are three cats at my place"),
            ("Anna likes to run", "Running is what Emma likes"),
            ("I like tea", "I like green tea"),
            ("I smoke every day", "I stopped smoking some days ago"),
            ("Ann loves Bob", "Bob loves Ann"),
            ("I eat before I run", "I eat after I run"),
            ("!!", "??"),
        ] {
            assert!(!is_duplicate(one, two, Some(0.99)), "{one} / {two}");
            assert!(!is_duplicate(two, one, Some(0.99)), "{two} / {one}");
        }
    }

    #[test]
    fn sentences_are_put_together_without_loss_or_addition() {
        let parts = ["Lives in Oslo", "Has 2 cats", "Does not eat meat"];
        assert!(puts_together("Lives in Oslo, has 2 cats and does not eat meat", &parts));
        assert!(puts_together("Does not eat meat, has 2 cats, and lives in Oslo", &parts));
        for wrong in [
            "Lives in Oslo, has 2 cats and does eat meat",
            "Lives in Oslo, has cats and does not eat meat",
            "Has 2 cats and does not eat meat",
            "Lives in Oslo, has 2 cats and does not eat meat or fish",
        ] {
            assert!(!puts_together(wrong, &parts), "{wrong}");
        }
    }
}
