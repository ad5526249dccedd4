//! Sections that are longer than their room.

use crate::section::{SectionItems, SectionText};

/// A section of `count` lines, each with one below it.
fn list(count: usize) -> SectionText {
    let lines: Vec<String> = (1..=count).map(|n| format!("- Pill {n}\n  Take {n}")).collect();
    SectionText::new("Pills", &lines.join("\n"), SectionItems::Lines, false)
}

#[test]
fn a_section_that_is_too_long_is_shortened_by_whole_items_and_says_so() {
    let count = |text: &str| text.split_whitespace().count();
    let named = |item: &str| usize::from(item.contains("Pill 7"));
    let whole = list(9).shorten_to(1_000, count, named).unwrap();
    assert_eq!((whole.shown, whole.all, whole.text), (9, 9, list(9).full_text()));
    let short = list(9).shorten_to(40, count, named).unwrap();
    let expected = "Pills:\n- Pill 1\n  Take 1\n- Pill 2\n  Take 2\n- Pill 7\n  Take 7\n[3 of 9 shown; the others are on record too.]";
    assert_eq!((short.shown, short.all, short.text.as_str()), (3, 9, expected));
    assert!(count(&short.text) <= 40);
    let begun = list(9).shorten_to(18, count, named).unwrap();
    assert_eq!(begun.text, "Pills:\n- Pill 7\n[Only a part of 1 of 9 is shown; the rest is on record.]");
    let none = list(9).shorten_to(15, count, named).unwrap();
    assert_eq!(none.text, "Pills: on record, but there is no room for any of the 9 here.");
    assert_eq!(list(9).shorten_to(3, count, named), None);
}

#[test]
fn what_is_said_of_one_person_stays_together() {
    let count = |text: &str| text.split_whitespace().count();
    let body = "- Name: Ann\n- Allergies: nuts\n- Notes: walks with a stick, and needs an arm on the stairs\n\n- Name: Bo\n- Allergies: none known";
    let text = SectionText::new("People", body, SectionItems::Paragraphs, false);
    assert_eq!(text.full_text(), format!("People:\n{body}"));
    let short = text.shorten_to(22, count, |item| usize::from(item.contains("Bo"))).unwrap();
    assert_eq!(
        short.text,
        "People:\n- Name: Bo\n- Allergies: none known\n[1 of 2 shown; the others are on record too.]"
    );
}
