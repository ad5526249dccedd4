//! Texts and the terms that they become.

use proptest::prelude::*;

use super::*;

#[test]
fn the_file_of_lists_is_read() {
    let lists = &*LISTS;
    assert_eq!((lists.weekdays.len(), lists.months.len()), (7, 12));
    assert!(lists.stop_words.contains("the") && lists.small_talk.contains("ok"));
}

#[test]
fn text_becomes_terms() {
    for (text, expected) in [
        ("The cats are running!", "cat run"),
        ("She's hiked; they're HIKING", "hike hike"),
        ("I've 2 dogs, born 2021-05-08", "2 dog born 2021 05 08"),
        ("John's and James’ plans", "john jame plan"),
        ("l'amour à Zürich", "l amour zurich zuric"),
        ("Tengo dos perros y una gata", "dos perro gata perr gat"),
        ("O'Brien isn't here", "o brien"),
        ("Grüße aus Köln", "gruße aus koln gruss"),
        ("Viele Grüße aus Köln von mir", "viel gruße koln gruss"),
        ("Привет мир", "привет мир"),
        ("Мои кошки любят рыбу", "кошки любят рыбу кошк люб рыб"),
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
fn words_of_other_languages_have_the_same_stem_in_every_form() {
    let shares = |one: &str, other: &str| terms(one).iter().any(|term| terms(other).contains(term));
    for (memory, question) in [
        ("Tiene alergia a los cacahuetes", "¿Le puedo dar un cacahuete?"),
        ("Mi hermana es profesora en Sevilla", "¿Dónde viven mis hermanas?"),
        ("Mein Hund frisst keine Katzen", "Was fressen die Hunde?"),
        ("Er hat zwei Kinder in den Ferien", "Wo ist das Kind von Anna?"),
        ("Mes soeurs habitent dans le sud", "Où habite ma soeur ?"),
        ("Elle est allergique aux arachides", "Est-ce que les allergiques ont un menu ?"),
        ("Моя собака боится грозы", "Чего боятся мои собаки?"),
        ("У неё аллергия на орехи", "Что делать при аллергии?"),
        ("Uso el laptop nuevo para mis emails", "the laptop"),
    ] {
        assert!(
            shares(memory, question),
            "{memory}: {:?} / {question}: {:?}",
            terms(memory),
            terms(question)
        );
    }
}

#[test]
fn names_numbers_and_other_languages_tell_something_by_themselves() {
    let telling = |text: &str| super::telling_terms(text).join(" ");
    for (text, expected) in [
        ("Where did Biscuit sleep in May?", "biscuit"),
        ("Locker 318 is mine. Ask for Ann", "318 ann"),
        ("What should I avoid eating?", ""),
        ("Is room 2B free on Friday", "2b"),
        ("¿Dónde vive mi hermana?", "hermana herman"),
        ("I like 北京", "北京"),
    ] {
        assert_eq!(telling(text), expected, "{text}");
    }
}

#[test]
fn small_talk_says_nothing() {
    for text in [
        "ok",
        "OK!",
        "thanks",
        "Yes please",
        "👍",
        "",
        "…",
        "Got it, thank you!",
        "sounds good",
        "好的",
        "Да, спасибо",
    ] {
        assert!(!says_something(text), "{text}");
    }
    for text in ["Biscuit", "ok, call Anna", "I moved to Oslo", "4711", "我喜欢猫"] {
        assert!(says_something(text), "{text}");
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
    fn any_word_of_any_language_has_a_stem(before in prop_oneof!["mi es el ", "der ist und ", "les est dans ", "jag är och ",
        "en olen ", "ben bir ve ", "a az és nem ", "не я и ", "і є не ", "η και το ", "في من على ", "के है में ", "este şi nu "],
        word in "\\PC{0,40}") {
        let text = format!("{before}{word}");
        prop_assert!(terms(&text).iter().all(|term| !term.is_empty()));
    }

    #[test]
    fn any_text_has_terms_that_are_found_again(text in any::<String>()) {
        let terms = terms(&text);
        prop_assert!(terms.iter().all(|term| !term.is_empty() && term.chars().count() <= MAX_TERM_CHARS));
        prop_assert_eq!(&terms, &super::terms(&text));
        let telling = super::telling_terms(&text);
        prop_assert!(telling.iter().all(|term| terms.contains(term)));
        let unchanged = in_first_person(&text, |_| false);
        prop_assert_eq!(unchanged, text);
    }
}
