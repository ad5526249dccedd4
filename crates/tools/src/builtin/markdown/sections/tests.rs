//! Headings, the text of a section, and that nothing else changes.

use proptest::prelude::*;

use super::*;

fn says(text: &str) -> Vec<(u8, String, usize)> {
    headings(text).into_iter().map(|heading| (heading.level, heading.text, heading.line)).collect()
}

fn section(text: &str, heading: &str, content: &str, mode: Mode) -> Result<String, SectionError> {
    write(text, &SectionHeading::parse(heading).unwrap(), content, mode)
}

#[test]
fn headings_are_what_markdown_says_they_are() {
    let heading = |level, text: &str, line| (level, text.to_owned(), line);
    for (text, expected) in [
        ("", vec![]),
        ("# One\ntext\n## Two ##\n", vec![heading(1, "One", 1), heading(2, "Two", 3)]),
        ("#no\n####### seven\n\\# escaped\n", vec![]),
        ("   # three spaces\n\n    # four are code\n", vec![heading(1, "three spaces", 1)]),
        ("```sh\n# comment\n```\n# Real\n", vec![heading(1, "Real", 4)]),
        ("~~~~\n# a\n~~~\n# b\n~~~~\n# Real\n", vec![heading(1, "Real", 6)]),
        ("```\n# never closed\n", vec![]),
        ("> # quoted\n\n- # in a list\n\n# Real\n", vec![heading(1, "Real", 5)]),
        ("<!--\n# hidden\n-->\n\n# Real\n", vec![heading(1, "Real", 5)]),
        ("Title\n=====\n\nTwo\nlines\n---\ntext\n", vec![heading(1, "Title", 1), heading(2, "Two lines", 4)]),
        ("---\ntitle: x\n---\n# Real\n", vec![heading(1, "Real", 4)]),
        ("# One\r\ntext\r\n## Two\r\n", vec![heading(1, "One", 1), heading(2, "Two", 3)]),
        ("# One\rtext\r## Two", vec![heading(1, "One", 1), heading(2, "Two", 3)]),
        ("# C#\n# #\n", vec![heading(1, "C#", 1), heading(1, "", 2)]),
        ("\u{feff}# One\n", vec![heading(1, "One", 1)]),
    ] {
        assert_eq!(says(text), expected, "{text:?}");
    }
}

#[test]
fn a_heading_can_be_asked_for_with_or_without_its_marks() {
    let wanted = |level, text: &str| Some(SectionHeading { level, text: text.into() });
    assert_eq!(SectionHeading::parse(" Goals "), wanted(None, "Goals"));
    assert_eq!(SectionHeading::parse("## Goals ##"), wanted(Some(2), "Goals"));
    assert_eq!(SectionHeading::parse("#hashtag"), wanted(None, "#hashtag"));
    assert_eq!(SectionHeading::parse("C#"), wanted(None, "C#"));
    for odd in ["", "  ", "##", "a\nb", "a\0b", &"a".repeat(MAX_HEADING_CHARS + 1)] {
        assert_eq!(SectionHeading::parse(odd), None, "{odd:?}");
    }
    assert!(SectionHeading::parse(&"ü".repeat(MAX_HEADING_CHARS)).is_some());
}

const NOTES: &str = "# Notes\n\nintro\n\n## Goals\nold\n### Deep\nmore\n\n\n## Next\ntail";

#[test]
fn a_section_is_replaced_up_to_the_next_heading_of_its_level() {
    let replaced = section(NOTES, "Goals", "new\n", Mode::Replace).unwrap();
    assert_eq!(replaced, "# Notes\n\nintro\n\n## Goals\n\nnew\n\n## Next\ntail");
    let emptied = section(NOTES, "## Goals", "", Mode::Replace).unwrap();
    assert_eq!(emptied, "# Notes\n\nintro\n\n## Goals\n\n## Next\ntail");
    let last = section(NOTES, "Next", "new", Mode::Replace).unwrap();
    assert!(last.ends_with("more\n\n\n## Next\n\nnew\n"), "{last:?}");
    let inner = section(NOTES, "Deep", "new", Mode::Replace).unwrap();
    assert_eq!(inner, "# Notes\n\nintro\n\n## Goals\nold\n### Deep\n\nnew\n\n## Next\ntail");
}

#[test]
fn appending_only_adds() {
    let appended = section(NOTES, "Goals", "new", Mode::Append).unwrap();
    assert_eq!(appended, "# Notes\n\nintro\n\n## Goals\nold\n### Deep\nmore\n\nnew\n\n\n## Next\ntail");
    let last = section(NOTES, "Next", "new", Mode::Append).unwrap();
    assert_eq!(last, format!("{NOTES}\n\nnew\n"));
    let tight = section("# A\ntext\nB\n===\n", "A", "new", Mode::Append).unwrap();
    assert_eq!(tight, "# A\n\nnew\n\ntext\nB\n===\n", "what follows stays a heading of its own");
}

#[test]
fn a_heading_that_is_missing_is_added_at_the_end() {
    assert_eq!(section("", "Goals", "one", Mode::Replace).unwrap(), "## Goals\n\none\n");
    assert_eq!(section("# A\n", "Goals", "one", Mode::Append).unwrap(), "# A\n\n## Goals\n\none\n");
    assert_eq!(section("# A", "### Goals", "", Mode::Append).unwrap(), "# A\n\n### Goals\n");
    let twice = section("# A\n", "Goals", "one", Mode::Append).unwrap();
    let twice = section(&twice, "Goals", "two", Mode::Append).unwrap();
    assert_eq!(twice, "# A\n\n## Goals\n\none\n\ntwo\n");
}

#[test]
fn line_breaks_are_those_of_the_file() {
    let text = "# A\r\none\r\n\r\n# B\r\n";
    let replaced = section(text, "A", "two\nthree", Mode::Replace).unwrap();
    assert_eq!(replaced, "# A\r\n\r\ntwo\r\nthree\r\n\r\n# B\r\n");
    let unix = section("# A\n", "A", "two\r\nthree\rfour", Mode::Replace).unwrap();
    assert_eq!(unix, "# A\n\ntwo\nthree\nfour\n");
}

#[test]
fn two_of_the_same_are_told_apart_by_level_or_not_at_all() {
    let text = "# A\n\n## Log\none\n# B\n\n## Log\ntwo\n\n# Log\n";
    assert_eq!(section(text, "## Log", "x", Mode::Replace), Err(SectionError::Ambiguous(vec![3, 7])));
    assert_eq!(section(text, "Log", "x", Mode::Replace), Err(SectionError::Ambiguous(vec![3, 7, 10])));
    assert!(section(text, "# Log", "x", Mode::Replace).unwrap().ends_with("# Log\n\nx\n"));
}

#[test]
fn content_that_would_reach_into_other_sections_is_refused() {
    for content in ["```\nnever closed", "# Other", "## Same level", "Title\n===", "<!-- never closed"] {
        let refused = section(NOTES, "Goals", content, Mode::Replace);
        assert_eq!(refused, Err(SectionError::Spills { level: 2 }), "{content:?}");
    }
    assert!(section(NOTES, "Goals", "### Deeper\n\n```\n# fine\n```", Mode::Append).is_ok());
    let open = "# A\n\n```\nnever closed\n";
    assert_eq!(section(open, "B", "x", Mode::Append), Err(SectionError::Spills { level: 2 }));
}

/// Texts that have everything that is hard about headings.
fn markdown() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "# A",
        "## B",
        "### C ###",
        "# A",
        "text",
        "  more",
        "",
        "",
        "===",
        "---",
        "```",
        "~~~",
        "> # q",
        "- # l",
        "    # code",
        "<!--",
        "-->",
        "é #",
        "\t",
        "#",
        "<div>",
        "| a |",
        "1. x",
        "***",
    ]);
    let ending = prop::sample::select(vec!["\n", "\n", "\r\n", "\r"]);
    (prop::collection::vec((line, ending), 0..24), any::<bool>()).prop_map(|(lines, cut)| {
        let mut text: String = lines.into_iter().flat_map(|(line, ending)| [line, ending]).collect();
        if cut {
            text.pop();
        }
        text
    })
}

proptest! {
    #[test]
    fn whatever_is_written_the_rest_stays_byte_for_byte(
        text in markdown(),
        wanted in prop::sample::select(vec!["A", "B", "# A", "### C", "New"]),
        content in prop_oneof![Just("new\n\nwords\n".to_owned()), markdown()],
        append in any::<bool>(),
    ) {
        let wanted = SectionHeading::parse(wanted).unwrap();
        let mode = if append { Mode::Append } else { Mode::Replace };
        let written = write(&text, &wanted, &content, mode);
        prop_assume!(written.is_ok());
        let written = written.unwrap();
        let before = headings(&text);
        let Some((index, heading)) = find(&before, &wanted).unwrap() else {
            prop_assert!(written.starts_with(&text));
            return Ok(());
        };
        let next = before[index + 1..].iter().find(|other| other.level <= heading.level);
        let end = next.map_or(text.len(), |next| next.start);
        prop_assert!(written.starts_with(&text[..heading.end]));
        prop_assert!(written.ends_with(&text[end..]));
        if append {
            let common = text.bytes().zip(written.bytes()).take_while(|(a, b)| a == b).count();
            let kept = |at: usize| written.as_bytes().ends_with(&text.as_bytes()[at..]);
            prop_assert!((heading.end..=common).any(kept), "{:?} -> {:?}", text, written);
        }
    }
}
