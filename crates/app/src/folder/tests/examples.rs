//! `context/examples.toml` and `context/learned.json`, as they may be written and as they may not.

use super::*;
use crate::{BUCKETS, MatterWeights, MessageClass};

const SECTION: (&str, &str) = ("context/pets.md", "---\ntitle: Pets\n---\nx");

const EXAMPLES: &str = "[words]\npet = ['cat', 'dog']\n\n[[examples]]\nsections = ['pets']\nlines = '''\nFeed the {pet}\n\
                        The {pet} and the {pet}\n'''\n\n[[examples]]\nsections = ['nothing']\nlines = 'Hello'\n\n\
                        [[examples]]\nsections = ['continues']\nlines = 'And then?'\n";

fn read(examples: &str) -> Result<Option<Examples>, String> {
    let apps = with("", &[SECTION, ("context/examples.toml", examples)]);
    let root = format!("{}/", apps.path().display());
    let app = load(&apps.path().join("demo")).unwrap();
    super::examples(&app).map_err(|problem| problem.to_string().replace(&root, ""))
}

fn classifier(examples: &str, names: &[&str]) -> Classifier {
    let words = MatterWeights::of(&vec![0.0; BUCKETS], 0.0);
    let matter = |name: &&str| MessageClass { name: (*name).to_owned(), words: words.clone(), meaning: None };
    Classifier { examples: examples.to_owned(), embedder: None, matters: names.iter().map(matter).collect() }
}

#[test]
fn words_in_braces_are_put_in_each_in_its_turn() {
    let examples = read(EXAMPLES).unwrap().unwrap();
    let texts: Vec<(&str, usize)> =
        examples.all.iter().map(|example| (example.text.as_str(), example.line)).collect();
    let expected = [
        ("Feed the cat", 0),
        ("Feed the dog", 0),
        ("The cat and the dog", 1),
        ("The cat and the dog", 1),
        ("Hello", 2),
        ("And then?", 3),
    ];
    assert_eq!(texts, expected);
    let first = &examples.all[0];
    assert_eq!((first.sections.as_slice(), first.continues), (["pets".to_owned()].as_slice(), false));
    assert!(examples.all[4].sections.is_empty() && !examples.all[4].continues);
    assert!(examples.all[5].sections.is_empty() && examples.all[5].continues);
}

#[test]
fn examples_that_cannot_be_are_refused_with_their_place() {
    let unknown = EXAMPLES.replace("['pets']", "['pets', 'nothing']");
    assert_eq!(
        read(&unknown).unwrap_err(),
        "demo/context/examples.toml:5:21: there is no section \"nothing\"; use some of pets, or \"nothing\" or \
         \"continues\" alone"
    );
    let slot = EXAMPLES.replace("Feed the {pet}", "Feed the {bird}");
    assert_eq!(
        read(&slot).unwrap_err(),
        "demo/context/examples.toml:6:9: there are no words \"bird\" for the line \"Feed the {bird}\"; add them under \
         [words], or use one of pet"
    );
    assert!(read("[[examples]]\nsections = []\n").unwrap_err().contains("lines"));
}

#[test]
fn an_app_without_examples_has_none() {
    let apps = with("", &[SECTION]);
    let app = load(&apps.path().join("demo")).unwrap();
    assert_eq!((super::examples(&app), app.classifier.as_ref()), (Ok(None), None));
    assert_eq!(check_examples(&app), None);
}

#[test]
fn what_was_learned_of_other_examples_is_told() {
    let told = |learned: Option<&str>| {
        let mut files = vec![SECTION, ("context/examples.toml", EXAMPLES)];
        files.extend(learned.map(|learned| ("context/learned.json", learned)));
        let apps = with("", &files);
        let app = load(&apps.path().join("demo")).unwrap();
        check_examples(&app).map(|problem| (problem.message, problem.remedy))
    };
    let hash = read(EXAMPLES).unwrap().unwrap().hash;
    let remedy = "run `rondo apps learn demo`".to_owned();
    let not_yet = "the examples have not been learned yet".to_owned();
    assert_eq!(told(None), Some((not_yet, remedy.clone())));
    let others = classifier("other", &["any", "pets"]).to_text();
    assert_eq!(
        told(Some(&others)),
        Some(("the examples have changed since they were learned".to_owned(), remedy))
    );
    assert_eq!(told(Some(&classifier(&hash, &["any", "continues", "pets"]).to_text())), None);
}

#[test]
fn a_broken_file_of_what_was_learned_is_refused_with_a_remedy() {
    let stranger = classifier("x", &["any", "birds"]).to_text();
    let aimless = classifier("x", &["pets"]).to_text();
    for (text, expected) in [
        ("{", "the learned classifier cannot be used: EOF while parsing"),
        (stranger.as_str(), "the learned classifier cannot be used: there is no section \"birds\""),
        (aimless.as_str(), "the learned classifier cannot be used: it has no class \"any\""),
    ] {
        let problem = problem(&with("", &[SECTION, ("context/learned.json", text)]));
        assert!(problem.starts_with(&format!("demo/context/learned.json: {expected}")), "{problem}");
        assert!(problem.ends_with("make it again with `rondo apps learn`, or remove it"), "{problem}");
    }
}

#[test]
fn what_was_learned_is_part_of_the_revision() {
    let revision = |hash: &str| {
        let learned = classifier(hash, &["any"]).to_text();
        load(&with("", &[SECTION, ("context/learned.json", &learned)]).path().join("demo")).unwrap().revision
    };
    assert_ne!(revision("a"), revision("b"));
}
