//! Sections by triggers, by names in the records, and by what was learned of a few examples.

use std::fs;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use super::*;

const EXAMPLES: &str = r#"
[words]
plant = ["rose", "tulip", "fern", "cactus", "orchid"]

[[examples]]
sections = ["plants"]
lines = """
When do I water the {plant}?
The {plant} has brown leaves
My {plant} needs more sun
Where did we plant the {plant}?
"""

[[examples]]
sections = ["tools"]
lines = """
Where is the spade?
The rake is broken
Who borrowed the wheelbarrow?
We need a new watering can
Sharpen the shears
"""

[[examples]]
sections = ["nothing"]
lines = """
Tell me a joke
Good morning
How do I bake bread?
The train is late again
Who won the match?
Thanks
Write a poem about the sea
"""

[[examples]]
sections = ["continues"]
lines = """
And in winter?
And the other one?
And how often?
"""
"#;

/// A garden's app, with what was learned of its examples.
fn garden(learns: bool) -> (TempDir, App) {
    let apps = tempfile::tempdir().unwrap();
    let dir = apps.path().join("garden");
    let plant =
        r#"{"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"}}}"#;
    for (file, text) in [
        ("app.toml", ""),
        ("instructions.md", "Help in the garden."),
        ("records/plant.json", plant),
        (
            "context/plants.md",
            "---\ntitle: Plants\nrecords: plant\nnames: name\ntriggers: fertiliser\n---\nx",
        ),
        ("context/tools.md", "---\ntitle: Tools\n---\nx"),
        ("context/examples.toml", EXAMPLES),
    ] {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let app = app::load(&dir).unwrap();
    let examples = app::examples(&app).unwrap().unwrap();
    let classifier = learns.then(|| Arc::new(learn_sections(&app, &examples, None)));
    (apps, App { classifier, ..app })
}

fn gets(app: &App, message: &str, before: Option<&str>) -> Vec<String> {
    let sections: Vec<&Section> = app.sections.iter().collect();
    let names = ["Dr. Johnson", "Rosa Luxemburg"].map(|name| json!({"name": name}));
    let records = RecordsByType::from([("plant".to_owned(), names.to_vec())]);
    let said = |text| SaidMessage { text, vector: None };
    let scores = choose_sections(app, &sections, &records, (said(message), before.map(said)));
    chosen_sections(&sections, &scores).into_iter().map(str::to_owned).collect()
}

#[test]
fn what_was_learned_brings_the_right_section_and_nothing_for_everyday_sentences() {
    let (_apps, app) = garden(true);
    assert_eq!(gets(&app, "When do I water the tulips?", None), ["plants"]);
    assert_eq!(gets(&app, "Is the spade broken?", None), ["tools"]);
    assert!(gets(&app, "Tell me another joke", None).is_empty());
    assert!(gets(&app, "Good night", None).is_empty());
}

#[test]
fn a_message_that_continues_gets_what_the_one_before_got_and_a_joke_does_not() {
    let (_apps, app) = garden(true);
    let before = Some("When do I water the cactus?");
    assert_eq!(gets(&app, "And in summer?", before), ["plants"]);
    assert!(gets(&app, "Tell me a good joke", before).is_empty());
    assert!(gets(&app, "And in summer?", None).is_empty());
}

#[test]
fn a_whole_name_from_the_records_always_brings_its_section() {
    for learns in [true, false] {
        let (_apps, app) = garden(learns);
        assert!(gets(&app, "what about doctor johnson", None).contains(&"plants".to_owned()));
        assert!(gets(&app, "Who was Rosa Luxemburg?", None).contains(&"plants".to_owned()));
    }
}

#[test]
fn a_part_of_a_name_does_not_in_an_everyday_sentence() {
    let (_apps, app) = garden(true);
    assert!(gets(&app, "Tell me a joke about Johnson", None).is_empty());
    let (_apps, app) = garden(false);
    assert!(gets(&app, "Johnson", None).is_empty(), "without examples nothing tells what is meant");
}

#[test]
fn triggers_count_with_and_without_examples() {
    for learns in [true, false] {
        let (_apps, app) = garden(learns);
        assert!(gets(&app, "Which fertiliser?", None).contains(&"plants".to_owned()));
    }
}

#[test]
fn lines_are_tried_by_what_the_others_taught() {
    let (_apps, app) = garden(false);
    let examples = app::examples(&app).unwrap().unwrap();
    let rates = cross_validate(&app, &examples, None);
    assert_eq!((rates.needed, rates.unrelated), (9, 7));
    assert_eq!(rates, cross_validate(&app, &examples, None), "the same each time");
    let vectors: Vec<Vec<f32>> = examples
        .first_of_lines()
        .map(|example| vec![f32::from(u8::from(example.sections.is_empty())), 0.5])
        .collect();
    let with = ExampleVectors { embedder: "tiny", vectors: &vectors };
    let classifier = learn_sections(&app, &examples, Some(with));
    assert_eq!(classifier.embedder.as_deref(), Some("tiny"));
    assert_eq!(Classifier::parse(&classifier.to_text()), Ok(classifier));
}
