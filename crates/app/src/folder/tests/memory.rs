//! `[memory]`, as it may be written and as it may not.

use super::*;
use crate::{ExtractionRules, Inject, MemoryRules};

const PLAN: (&str, &str) = (
    "records/plan.json",
    r#"{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false}"#,
);

#[test]
fn everything_about_memory_can_be_said() {
    let toml = "[memory]\ninject = 'top'\nremember = false\nforget = true\ndanger_words = ['Suicid ', 'kill']\nhistory = true\nhistory_limit = 7\nrecall_tokens = 300\nkeep = 5\n\
                keep_per = 'subject'\nconsent = ['health']\nfollow_up = ['plan']\nreview = ['level']\n\
                snapshot = ['plan', 'overview.md']\nextract = true\nextract_model = 'small'\nextract_context = ['plan']\n\
                extract_delay_seconds = 0";
    let apps = with(toml, &[PLAN, ("extract.md", " Look for goals.\n")]);
    let expected = MemoryRules {
        inject: Inject::Top,
        limit: MemoryRules::TOP,
        remember: false,
        forget: true,
        danger_words: vec!["suicid".into(), "kill".into()],
        history: true,
        history_limit: 7,
        recall_tokens: 300,
        keep: Some(5),
        keep_per_subject: true,
        consent: vec!["health".into()],
        follow_up: vec!["plan".into()],
        review: vec!["level".into()],
        snapshot: vec!["plan".into()],
        snapshot_files: vec!["overview.md".into()],
        extraction: Some(ExtractionRules {
            prompt: Some("Look for goals.".into()),
            model: Some("small".into()),
            records: vec!["plan".into()],
            delay: Duration::ZERO,
        }),
    };
    assert_eq!(load(&apps.path().join("demo")).unwrap().memory, expected);
}

#[test]
fn memory_that_is_used_is_also_asked_for() {
    let used = |inject: &str| demo(&format!("[memory]\ninject = '{inject}'"), PROMPT).memory;
    for inject in ["all", "top", "snapshot"] {
        assert!(used(inject).remember && used(inject).is_used(), "{inject}");
    }
    assert!(!used("none").remember && !used("none").is_used());
    assert_eq!((used("all").limit, used("top").limit), (50, 5));
}

#[test]
fn what_memory_cannot_be_is_refused() {
    for (toml, expected) in [
        ("[memory]\nkeep = 0", "app.toml:2:8: memory.keep is 0; write a whole number from 1 to 100000"),
        (
            "[memory]\nsnapshot = ['plam']",
            "app.toml:2:13: memory.snapshot: there is no record type \"plam\"; write one of plan",
        ),
        (
            "[memory]\nconsent = ['maths/level']",
            "app.toml:2:12: memory.consent: \"maths/level\" is not a kind of memories; write one word of \
             lower-case letters, digits, - and _",
        ),
    ] {
        assert_eq!(problem(&with(toml, &[PLAN])), format!("demo/{expected}"));
    }
    let empty = with("", &[("extract.md", " \n")]);
    let expected = "extract.md: the file is empty; say what is worth remembering, or remove the file";
    assert_eq!(problem(&empty), format!("demo/{expected}"));
}

#[test]
fn what_is_looked_for_is_part_of_the_revision() {
    let revision = |files: &[(&str, &str)]| load(&with("", files).path().join("demo")).unwrap().revision;
    assert_ne!(revision(&[]), revision(&[("extract.md", "Goals.")]));
}

#[test]
fn danger_is_seen_where_a_word_begins_with_it() {
    let memory =
        MemoryRules { danger_words: vec!["suicid".into(), "can't go on".into()], ..MemoryRules::default() };
    for text in ["I am SUICIDAL", "about suicide", "I can\u{2019}t go on", "(suicid)"] {
        assert!(memory.speaks_of_danger(text), "{text}");
    }
    for text in ["", "antisuicid", "go on", "I can go on"] {
        assert!(!memory.speaks_of_danger(text), "{text}");
    }
}

#[test]
fn a_word_of_danger_is_a_word() {
    let apps = with("[memory]\ninject = 'all'\ndanger_words = ['a', ' ']", &[]);
    let problem = load(&apps.path().join("demo")).unwrap_err().to_string();
    assert!(problem.contains("memory.danger_words has an empty word"), "{problem}");
}
