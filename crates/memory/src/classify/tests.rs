//! Features and learning: the same each time, and of use for words that were not in the examples.

use app::{BUCKETS, Classifier};

use super::*;

const PETS: &[&str] = &[
    "My cat sleeps all day",
    "The dog needs a walk",
    "What do cats eat?",
    "Our dog barks at night",
    "Der Hund bellt",
    "Eine Katze schläft",
];
const OTHERS: &[&str] = &[
    "The train is late",
    "How do I bake bread?",
    "Write a poem",
    "Der Zug kommt spät",
    "It rains",
    "Thanks",
];

fn classifier(with_vectors: bool) -> Classifier {
    let vector = |pet: bool| if pet { [1.0, 0.0] } else { [0.0, 1.0] };
    let vectors = [vector(true), vector(false)];
    let lesson = |text: &&'static str, is: bool| Lesson {
        text,
        is: vec![Some(is)],
        vector: with_vectors.then(|| vectors[usize::from(!is)].as_slice()),
    };
    let pets = PETS.iter().map(|text| lesson(text, true));
    let lessons: Vec<Lesson<'_>> = pets.chain(OTHERS.iter().map(|text| lesson(text, false))).collect();
    let embedder = with_vectors.then(|| "tiny".to_owned());
    Classifier { examples: String::new(), embedder, matters: learn(&["pets"], &lessons) }
}

#[test]
fn what_was_learned_tells_new_sentences_apart() {
    let classifier = classifier(false);
    let is_pet = |text: &str| scores(&classifier, text, None)[0] > 0.0;
    assert!(is_pet("Is my dog ill?"));
    assert!(is_pet("Zwei Katzen"), "by runs of letters that it shares with an example");
    assert!(!is_pet("The bread is late"));
}

#[test]
fn the_same_examples_give_the_same_weights() {
    assert_eq!(classifier(true), classifier(true));
}

#[test]
fn a_vector_counts_only_if_it_is_as_long_as_those_that_were_learned_with() {
    let classifier = classifier(true);
    let text = "Something else";
    let plain = scores(&classifier, text, None)[0];
    assert!(
        scores(&classifier, text, Some(&[1.0, 0.0]))[0] > scores(&classifier, text, Some(&[0.0, 1.0]))[0]
    );
    assert_eq!(scores(&classifier, text, Some(&[1.0, 0.0, 0.0]))[0], plain);
}

#[test]
fn features_are_the_same_however_a_word_is_written() {
    assert_eq!(features("Presión 120/80"), features("presion 7/9"));
    assert_ne!(features("presion"), features("pression"));
}

#[test]
fn features_stay_what_weights_were_learned_for() {
    let of = |text: &str| -> Vec<usize> { features(text).into_iter().map(|(at, _)| at).collect() };
    assert_eq!(of("ok"), FEATURES_OF_OK, "CLASSIFIER_VERSION must grow when this changes");
    assert!(of("药物过敏").iter().all(|at| *at < BUCKETS));
}

/// Of "ok": the word, the pairs with both edges, and the runs.
const FEATURES_OF_OK: &[usize] = &[5, 1235, 2024, 4597, 9099, 13859];

#[test]
fn features_of_nothing_and_of_very_much_are_bounded() {
    assert!(features("").is_empty());
    assert!(features("?!").is_empty());
    let long = "a long message without end ".repeat(100_000);
    let length: f32 = features(&long).iter().map(|(_, value)| value * value).sum();
    assert!((length - 1.0).abs() < 1e-3);
    assert_eq!(features(&long), features(&long[..features::MAX_TEXT_BYTES]));
}

#[test]
fn a_name_is_found_however_it_is_said() {
    let mention = |text: &str, name: &str| SaidWords::of(text).mention(name);
    for text in ["She missed her lisinopril", "What is LISINOPRIL’s dose?", "her Lisinoprl", "lisinoprill"]
    {
        assert_eq!(mention(text, "Lisinopril"), Some(Mention::Whole), "{text}");
        assert_eq!(mention(text, "Lisinopril 10mg"), Some(Mention::Whole), "{text}");
    }
    assert_eq!(mention("When is doctor Johnson?", "Dr. Johnson"), Some(Mention::Whole));
    assert_eq!(mention("When is dr johnson's visit?", "Dr. Anne Johnson"), Some(Mention::Whole));
    assert_eq!(mention("Johnson's theorem", "Dr. Johnson"), Some(Mention::Part));
    assert_eq!(mention("Is Mary awake?", "Mary Smith"), Some(Mention::Part));
    assert_eq!(mention("mary smith", "Mary Smith"), Some(Mention::Whole));
    assert_eq!(mention("¿Cómo está María?", "Maria"), Some(Mention::Part), "a short name is less sure");
}

#[test]
fn common_words_and_other_words_are_no_names() {
    let mention = |text: &str, name: &str| SaidWords::of(text).mention(name);
    assert_eq!(mention("I will go", "Will Do"), None);
    assert_eq!(mention("The doctor came", "Dr. Johnson"), None);
    assert_eq!(mention("10 mg of something", "10 mg"), None);
    assert_eq!(mention("a person", "Dr. Persons"), Some(Mention::Part));
    assert_eq!(mention("mart", "Mary"), None, "short words are not misspelt");
    assert_eq!(mention("anything", ""), None);
}
