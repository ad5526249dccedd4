//! Words that are hidden, words that stay, and that no text escapes.

use proptest::prelude::*;
use protocol::MemoryId;
use serde_json::json;
use uuid::Uuid;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn tombstone(words: &str, second: i64) -> TombstoneRow {
    TombstoneRow { words: words.to_owned(), at: at(second), memory: MemoryId::new(Uuid::nil()) }
}

fn redact<'a>(text: &'a str, said_at: Timestamp, tombstones: &[TombstoneRow]) -> Cow<'a, str> {
    Forgotten::new(tombstones).redact(text, said_at)
}

fn is_forgotten(words: &str, said_at: Timestamp, tombstones: &[TombstoneRow]) -> bool {
    redact(words, said_at, tombstones) != words
}

#[test]
fn forgotten_words_are_hidden_whatever_their_case_and_punctuation() {
    let forgotten = [tombstone("I don't like my boss", 10)];
    for (text, expected) in [
        ("I don't like my boss", "[forgotten]"),
        ("Well: i DONT like -- my\n boss!", "Well: [forgotten]!"),
        ("I don’t like my boss, and I don't like my boss.", "[forgotten], and [forgotten]."),
        ("I don't like my bossy cat", "I don't like my bossy cat"),
        ("I don't like boss my", "I don't like boss my"),
        ("", ""),
    ] {
        assert_eq!(redact(text, at(5), &forgotten), expected, "{text:?}");
    }
}

#[test]
fn what_is_said_anew_stays() {
    let forgotten = [tombstone("lives in Oslo", 10)];
    assert_eq!(redact("lives in Oslo", at(10), &forgotten), "[forgotten]");
    assert!(matches!(redact("lives in Oslo", at(11), &forgotten), Cow::Borrowed("lives in Oslo")));
    assert!(is_forgotten("She lives in Oslo", at(9), &forgotten));
    assert!(!is_forgotten("She lives in Oslo", at(11), &forgotten));
    assert!(!is_forgotten("in Oslo", at(9), &forgotten));
}

#[test]
fn the_newest_of_equal_tombstones_counts() {
    let forgotten = [tombstone("lives in Oslo", 20), tombstone("Lives in Oslo.", 10)];
    assert!(is_forgotten("lives in Oslo", at(15), &forgotten));
    assert!(!is_forgotten("lives in Oslo", at(21), &forgotten));
}

#[test]
fn overlapping_words_become_one_gap_and_neighbours_two() {
    let forgotten = [tombstone("a b c", 10), tombstone("c d", 10), tombstone("b", 10)];
    assert_eq!(redact("x a b c d y", at(1), &forgotten), "x [forgotten] y");
    assert_eq!(redact("a b c b", at(1), &forgotten), "[forgotten] [forgotten]");
}

#[test]
fn a_tombstone_without_words_hides_nothing() {
    let forgotten = [tombstone(" …!", 10), tombstone("", 10)];
    assert_eq!(redact("anything … at all!", at(1), &forgotten), "anything … at all!");
}

#[test]
fn the_mark_itself_is_not_hidden_again() {
    let forgotten = [tombstone("forgotten", 10)];
    let once = redact("my forgotten key", at(1), &forgotten).into_owned();
    assert_eq!(once, "my [forgotten] key");
    assert_eq!(redact(&once, at(1), &forgotten), once);
}

#[test]
fn words_without_spaces_between_them_are_found() {
    let forgotten = [tombstone("住在东京", 10)];
    assert_eq!(redact("我住在东京。", at(1), &forgotten), "我[forgotten]。");
}

#[test]
fn many_tombstones_that_begin_alike_are_one_pass() {
    let tombstones: Vec<_> =
        (0..1000).map(|n| tombstone(&format!("I like the number {n} best"), 10)).collect();
    let forgotten = Forgotten::new(&tombstones);
    assert_eq!(forgotten.redact("I like the number 999 best", at(1)), "[forgotten]");
    // Far more than a scan of all tombstones for each text could do in a test.
    for n in 0..20_000 {
        let text = format!("I like the number {} most, and I like the rest", n % 1000);
        assert!(matches!(forgotten.redact(&text, at(1)), Cow::Borrowed(_)));
    }
}

const KEY: ShadowKey = [7; 32];

fn purged(words: &[&str]) -> Forgotten {
    let shadow = |words: &&str| {
        let bytes = Shadow::of(words, &KEY).unwrap().to_bytes();
        (Shadow::from_bytes(&bytes).unwrap(), at(10))
    };
    Forgotten::with_shadows(&[], &words.iter().map(shadow).collect::<Vec<_>>(), &KEY)
}

#[test]
fn purged_words_are_hidden_though_nothing_holds_them() {
    let gone = purged(&["my sister Ingrid lives in Tromso", "I don't like my boss", "vegan"]);
    for (text, expected) in [
        ("Well: i DONT like -- my boss! And you?", "Well: [forgotten]! And you?"),
        ("My sister Ingrid lives in Tromso.", "[forgotten]."),
        ("Tromso is where Ingrid, your sister, lives. Nice place.", "[forgotten]. Nice place."),
        ("I don't like your boss", "I don't like your boss"),
        ("Vegan, as ever: VEGAN", "[forgotten], as ever: [forgotten]"),
        ("My sister lives in Oslo", "My sister lives in Oslo"),
        ("", ""),
    ] {
        assert_eq!(gone.clear(text, at(5)), expected, "{text:?}");
        assert_eq!(gone.clear(text, at(11)), text, "said anew");
    }
}

#[test]
fn purged_and_forgotten_words_together_leave_one_gap() {
    let tombstones = [tombstone("a b c", 10)];
    let shadows = [(Shadow::of("c d", &KEY).unwrap(), at(10))];
    let forgotten = Forgotten::with_shadows(&tombstones, &shadows, &KEY);
    assert_eq!(forgotten.redact("x a b c d y c d", at(1)), "x [forgotten] y [forgotten]");
}

#[test]
fn a_shadow_can_be_stored_and_nothing_else_is_one() {
    let shadow = Shadow::of("my sister Ingrid lives in Tromso", &KEY).unwrap();
    let bytes = shadow.to_bytes();
    assert!(bytes.len() < 20, "{bytes:?}");
    assert_eq!(Shadow::from_bytes(&bytes), Some(shadow));
    assert_eq!(Shadow::of(" …!", &KEY), None);
    for broken in [&[][..], &[1, 2, 3][..], &bytes[..bytes.len() - 1]] {
        assert_eq!(Shadow::from_bytes(broken), None);
    }
}

#[test]
fn every_text_of_a_json_value_is_read_without_forgotten_words() {
    let forgotten = Forgotten::new(&[tombstone("Is allergic to macadamia nuts", 10)]);
    let stored = json!({"text": "Is allergic to macadamia nuts.", "n": 7, "all": [["is allergic to macadamia nuts"], null],
        "is allergic to macadamia nuts": true});
    let mut cleared = stored.clone();
    forgotten.clear_json(&mut cleared, at(10));
    let expected =
        json!({"text": "[forgotten].", "n": 7, "all": [["[forgotten]"], null], "[forgotten]": true});
    assert_eq!(cleared, expected);
    let mut anew = stored.clone();
    forgotten.clear_json(&mut anew, at(11));
    assert_eq!(anew, stored);
}

fn words() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abAB]|don't|[ .,!\\n]", 0..12).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn nothing_forgotten_is_left_and_everything_else_is(
        text in words(), gone in proptest::collection::vec((words(), 0_i64..20), 0..6), said in 0_i64..20,
    ) {
        let tombstones: Vec<_> = gone.iter().map(|(words, at)| tombstone(words, *at)).collect();
        let forgotten = Forgotten::new(&tombstones);
        let redacted = forgotten.redact(&text, at(said)).into_owned();
        prop_assert_eq!(forgotten.redact(&redacted, at(said)), redacted.as_str());

        let in_force: Vec<_> = tombstones.iter().filter(|tombstone| at(said) <= tombstone.at).collect();
        let plain = |text: &str| -> Vec<String> { spans(text).iter().map(comparison_form).collect() };
        let (said_words, mut any) = (plain(&text), false);
        for tombstone in in_force {
            let words = plain(&tombstone.words);
            any |= !words.is_empty() && said_words.windows(words.len()).any(|window| window == words);
        }
        prop_assert_eq!(any, redacted != text);
    }

    #[test]
    fn any_text_can_be_redacted(text in any::<String>(), gone in any::<String>()) {
        let tombstones = [tombstone(&gone, 10)];
        let redacted = redact(&text, at(1), &tombstones).into_owned();
        prop_assert!(!is_forgotten(&redacted, at(1), &tombstones));
    }
}
