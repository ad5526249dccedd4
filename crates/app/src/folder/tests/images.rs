//! `[images]`, good and bad.

use super::{PROMPT, apps, demo, problem};
use crate::{ImageRules, WithoutVision};

#[test]
fn rules_for_images_are_read_and_have_defaults() {
    let expected = ImageRules { without_vision: WithoutVision::Text, history: 0 };
    assert_eq!(demo("[images]\nwithout_vision = \"text\"\nhistory = 0\n", PROMPT).images, expected);
    let defaults = ImageRules { without_vision: WithoutVision::Refuse, history: 4 };
    assert_eq!(demo("", PROMPT).images, defaults);
}

#[test]
fn wrong_rules_for_images_are_refused() {
    for (toml, expected) in [
        ("history = 33", "images.history is 33; write a whole number from 0 to 32"),
        ("without_vision = \"guess\"", "guess"),
        ("count = 1", r#"unknown key "count""#),
    ] {
        let text = problem(&apps(&format!("[images]\n{toml}"), PROMPT));
        assert!(text.starts_with("demo/app.toml:2:") && text.contains(expected), "{text}");
    }
}
