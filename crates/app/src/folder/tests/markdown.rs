//! `personas/` and `context/`, as they may be written and as they may not.

use protocol::PersonaSettings;

use super::*;
use crate::{Persona, SectionData, SectionItems};

const PILL: (&str, &str) = (
    "records/pill.json",
    r#"{"type": "object", "properties": {"name": {"type": "string"}, "taken": {"type": "string", "format": "date"}},
        "additionalProperties": false}"#,
);

fn personas(toml: &str, files: &[(&str, &str)]) -> Vec<Persona> {
    load(&with(toml, files).path().join("demo")).unwrap().personas.into_values().collect()
}

#[test]
fn a_persona_is_a_prompt_with_settings() {
    let nurse = "---\nname: \"The Nurse\" # who else\nmodel: gpt-4o-mini\ntemperature: 0.7\nmaxTokens: 2000\n\
                 top_p: 0.9\nrepeatPenalty: 0.5\nfrequency_penalty: 0\npresencePenalty: '1'\n---\n\nYou are a nurse.\n";
    let settings = Settings {
        temperature: Some(0.7),
        max_tokens: Some(2000),
        top_p: Some(0.9),
        repeat_penalty: Some(0.5),
        frequency_penalty: Some(0.0),
        presence_penalty: Some(1.0),
        ..Settings::default()
    };
    let expected = [
        Persona {
            id: "Plain-1".into(),
            name: "Plain-1".into(),
            prompt: "Be plain.\n\n---\n\nAlways.".into(),
            settings: PersonaSettings::default(),
        },
        Persona {
            id: "nurse".into(),
            name: "The Nurse".into(),
            prompt: "You are a nurse.".into(),
            settings: PersonaSettings { model: Some("gpt-4o-mini".into()), settings },
        },
    ];
    let files = [
        ("personas/nurse.md", nurse),
        ("personas/Plain-1.md", "Be plain.\n\n---\n\nAlways."),
        ("personas/notes.txt", "not one"),
    ];
    assert_eq!(personas("", &files), expected);
}

#[test]
fn a_persona_that_cannot_be_is_refused_with_its_line() {
    for (text, expected) in [
        ("---\ntemperature: 1.3\n---\nHi.", ":2:14: temperature is 1.3; write a number from 0.1 to 1.2"),
        ("---\ntemperature: NaN\n---\nHi.", ":2:14: temperature is NaN; write a number from 0.1 to 1.2"),
        ("---\ntemperature: warm\n---\nHi.", ":2:14: temperature is \"warm\"; write a number"),
        (
            "---\n\nmaxTokens: 4001\n---\nHi.",
            ":3:12: max_tokens is 4001; write a whole number from 1 to 4000",
        ),
        ("---\nmaxTokens: 1.5\n---\nHi.", ":2:12: max_tokens is \"1.5\"; write a whole number"),
        ("---\ntemprature: 1\n---\nHi.", ":2:1: unknown key \"temprature\"; did you mean \"temperature\"?"),
        (
            "---\nname: A\n---\n \n",
            ": there is neither a prompt nor a setting; \
             say who the persona is, and how it talks, or give it settings",
        ),
        (
            "",
            ": there is neither a prompt nor a setting; \
             say who the persona is, and how it talks, or give it settings",
        ),
    ] {
        let toml = "[ranges]\ntemperature = [0.1, 1.2]\nmax_tokens = [1, 4000]";
        assert_eq!(problem(&with(toml, &[("personas/a.md", text)])), format!("demo/personas/a.md{expected}"));
    }
    let rule = "rename it: letters, digits, underscores and dashes, at most 64";
    for name in ["a b", "é", "a.b", &"a".repeat(65)] {
        let file = format!("personas/{name}.md");
        let expected = format!("demo/{file}: the file's name cannot be an id; {rule}");
        assert_eq!(problem(&with("", &[(&file, "Hi.")])), expected);
    }
}

#[test]
fn a_section_is_read_with_its_defaults() {
    let short = "---\ntitle: Pills\n---\nTake them.";
    let long = "---\ntitle: Taken\nrecords: [pill]\ntriggers: pill, \"the pill, blue\", don't\nalways: true\n\
                min_window: 8000\nmax_tokens: 20\nitems: paragraphs\n---\n{% for p in pill %}\n- {{ p.name }}\n{% endfor %}\n";
    let apps = with("", &[PILL, ("context/b.md", short), ("context/a.md", long)]);
    let sections = load(&apps.path().join("demo")).unwrap().sections;
    let [taken, pills] = sections.as_slice() else { panic!("{sections:?}") };
    assert_eq!((taken.name.as_str(), taken.title.as_str(), taken.always), ("a", "Taken", true));
    assert_eq!(taken.records, ["pill"]);
    assert_eq!(taken.triggers, ["pill", "the pill, blue", "don't"]);
    assert_eq!((taken.min_window, taken.max_tokens), (8000, 20));
    assert_eq!(taken.text_to_compare(), "Taken: pill, the pill, blue, don't");
    assert_eq!((pills.name.as_str(), pills.always, pills.min_window, pills.max_tokens), ("b", false, 0, 500));
    assert_eq!(pills.text_to_compare(), "Pills");
    let records = BTreeMap::from([("pill".to_owned(), vec![serde_json::json!({"name": "Aspirin"})])]);
    let (now, zone) = (jiff::Timestamp::UNIX_EPOCH, &TimeZone::UTC);
    let data = SectionData { records: &records, now, zone, targets: &[] };
    assert_eq!(taken.render(&data).unwrap().full_text(), "Taken:\n- Aspirin");
    assert_eq!((taken.items, pills.items), (SectionItems::Paragraphs, SectionItems::Lines));
}

#[test]
fn a_section_that_cannot_be_is_refused_with_its_line() {
    let long = "x".repeat(101);
    let trigger =
        format!(":3:11: the trigger {long:?} has more than 100 characters; write a word or a short phrase");
    let dated =
        "---\ntitle: A\nrecords: pill\n---\n{% for p in pill %}\n{{ p.taken | date('%!') }}\n{% endfor %}";
    for (text, expected) in [
        (
            "No title.",
            ": the section has no title; begin the file with a line of three dashes, \"title: …\", and three dashes again",
        ),
        ("---\ntitle: A\n---\n", ": the template is empty; write what to make of the records"),
        (
            "---\ntitle: A\nrecords: pill, pil\n---\nx",
            ":3:10: there is no record type \"pil\"; use one of pill",
        ),
        (&format!("---\ntitle: A\ntriggers: {long}\n---\nx"), &trigger),
        ("---\ntitle: A\nalways: yes\n---\nx", ":3:9: always is \"yes\"; write true or false"),
        (
            "---\ntitle: A\nmax_tokens: 0\n---\nx",
            ":3:13: max_tokens is 0; write a whole number from 1 to 100000",
        ),
        ("---\ntitle: A\nitems: words\n---\nx", ":3:8: items is \"words\"; write lines or paragraphs"),
        ("---\ntitle: A\n---\n\n{% for x in %}", ":5: the template is wrong: syntax error"),
        ("---\ntitle: A\n---\nHello\n{{ 1 | nothing }}", ":5: the template is wrong: unknown filter"),
        (
            "---\ntitle: A\nrecords: pill\n---\n{% for p in pill %}{{ p | nothing }}{% endfor %}",
            ":5: the template is wrong: unknown filter",
        ),
        (dated, ":6: the template is wrong: invalid operation: \"%!\" is not a format of dates"),
        (
            "---\ntitle: A\n---\n{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            ":4: the template is wrong: engine ran out of fuel",
        ),
        ("---\ntitle: A\n---\n{% include 'other' %}", ":4: the template is wrong: template not found"),
    ] {
        let problem = problem(&with("", &[PILL, ("context/a.md", text)]));
        assert!(problem.starts_with(&format!("demo/context/a.md{expected}")), "{problem}");
    }
}

#[test]
fn personas_and_sections_are_part_of_the_revision() {
    let revision = |files: &[(&str, &str)]| load(&with("", files).path().join("demo")).unwrap().revision;
    let base = revision(&[]);
    let persona = revision(&[("personas/a.md", "Be kind.")]);
    let section = revision(&[("context/a.md", "---\ntitle: A\n---\nx")]);
    let all = [
        &base,
        &persona,
        &revision(&[("personas/b.md", "Be kind.")]),
        &revision(&[("personas/a.md", "Be brief.")]),
        &section,
        &revision(&[("context/a.md", "---\ntitle: A\n---\ny")]),
    ];
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(persona, revision(&[("personas/a.md", "Be kind.")]));
}
