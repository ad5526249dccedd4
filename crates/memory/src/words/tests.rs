//! What text becomes terms, and which.

use proptest::prelude::*;

use super::*;

fn terms(text: &str) -> Vec<String> {
    Words::default().terms(text)
}

#[test]
fn text_becomes_terms() {
    for (text, expected) in [
        ("The cats are running!", "cat run"),
        ("She's hiked; they're HIKING", "hike hike"),
        ("I've 2 dogs, born 2021-05-08", "2 dog born 2021 05 08"),
        ("John's and James’ plans", "john jame plan"),
        ("l'amour à Zürich", "l amour zurich"),
        ("O'Brien isn't here", "o brien"),
        ("Grüße aus Köln", "gruße aus koln"),
        ("Привет мир", "привет мир"),
        ("我喜欢猫", "我喜 喜欢 欢猫"),
        ("猫 and 狗", "猫 狗"),
        ("東京タワーABC", "東京 京タ タワ ワー abc"),
        ("ｆｕｌｌ", "full"),
        ("", ""),
        ("?!… —", ""),
        ("the and of", ""),
    ] {
        assert_eq!(terms(text).join(" "), expected, "{text}");
    }
}

#[test]
fn a_text_has_a_bounded_number_of_bounded_terms() {
    let many = "word ".repeat(MAX_TERMS + 10);
    assert_eq!(terms(&many).len(), MAX_TERMS);
    let run = "猫".repeat(MAX_TERMS + 10);
    assert_eq!(terms(&run).len(), MAX_TERMS);
    let long = "x1".repeat(1000);
    assert_eq!(terms(&long).iter().map(|term| term.chars().count()).collect::<Vec<_>>(), [MAX_TERM_CHARS]);
}

#[test]
fn names_are_put_in_the_first_person() {
    let is_name = |token: &str| matches!(name(token).as_str(), "ann" | "james");
    for (text, expected) in [
        ("When did Ann see James's dog?", "When did I see my dog?"),
        ("What is James' plan, ann?", "What is my plan, I?"),
        ("ANN’s cat and Annie", "my cat and Annie"),
        ("nobody", "nobody"),
        ("", ""),
    ] {
        assert_eq!(in_first_person(text, is_name), expected);
    }
}

#[test]
fn questions_and_writers_are_told() {
    assert!(asks("Really? Yes.") && asks("真的吗？") && !asks("No."));
    assert!(is_about_the_writer("What's MY name") && is_about_the_writer("when I’m old"));
    assert!(!is_about_the_writer("What is his? Mimi, the island"));
}

proptest! {
    #[test]
    fn any_text_has_terms_that_are_found_again(text in any::<String>()) {
        let terms = terms(&text);
        prop_assert!(terms.iter().all(|term| !term.is_empty() && term.chars().count() <= MAX_TERM_CHARS));
        prop_assert_eq!(&terms, &Words::default().terms(&text));
        let unchanged = in_first_person(&text, |_| false);
        prop_assert_eq!(unchanged, text);
    }
}
