//! Front matter, good and bad.

use std::path::Path;

use super::*;

const KEYS: &[&str] = &["name", "max_tokens", "always", "words", "ratio"];

fn parse(text: &str) -> Result<Front<'_>, String> {
    Front::parse(FileText { file: Path::new("a.md"), text }, KEYS).map_err(|problem| problem.to_string())
}

fn with(lines: &str) -> String {
    format!("---\n{lines}\n---\nBody")
}

#[test]
fn what_is_not_front_matter_is_text() {
    for text in ["", "Hello", "\n---\nname: a\n---\n", "----\nname: a\n----\n", "--- name: a"] {
        let front = parse(text).unwrap();
        assert_eq!((front.body, front.body_line), (text, 1));
        assert_eq!(front.text("name").unwrap(), None);
    }
}

#[test]
fn the_text_follows_the_second_line_of_dashes() {
    for (text, body, line) in [
        ("---\n---\nBody", "Body", 3),
        ("---\nname: a\n---\n\nBody\n---\nmore", "\nBody\n---\nmore", 4),
        ("---\r\nname: a\r\n---\r\nBody\r\n", "Body\r\n", 4),
        ("---\n# a comment\n\nname: a\n--- ", "", 6),
    ] {
        let front = parse(text).unwrap();
        assert_eq!((front.body, front.body_line), (body, line), "{text:?}");
    }
}

#[test]
fn texts_may_be_quoted_and_commented() {
    for (line, expected) in [
        ("name: Ada", "Ada"),
        ("name:Ada", "Ada"),
        ("  name :  Ada Lovelace  # the first", "Ada Lovelace"),
        ("name: \"Ada # not a comment\" # one", "Ada # not a comment"),
        ("name: 'say \"hello\"'", "say \"hello\""),
        ("name: Ada's #1", "Ada's"),
        ("name: C#", "C#"),
        ("name: a: b", "a: b"),
        ("name: Zoë", "Zoë"),
    ] {
        assert_eq!(parse(&with(line)).unwrap().text("name").unwrap().as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn lists_need_neither_brackets_nor_quotes() {
    let list = |line: &str| parse(&with(line)).unwrap().list("words").map_err(|problem| problem.to_string());
    for (line, expected) in [
        ("words: a", vec!["a"]),
        ("words: a, b c,d", vec!["a", "b c", "d"]),
        ("words: [a, \"b, c\", 'd']", vec!["a", "b, c", "d"]),
        ("words: [a, b,]", vec!["a", "b"]),
        ("words: []", vec![]),
        ("words: [mother's, \"it's\"] # two", vec!["mother's", "it's"]),
        ("name: a", vec![]),
    ] {
        assert_eq!(list(line).unwrap(), expected, "{line}");
    }
    let many = format!("words: {}", vec!["a"; 101].join(","));
    for (line, expected) in [
        ("words: [a, b", "words has a bracket that is not closed; close the bracket"),
        ("words: a,, b", "an entry of words is empty; remove the comma"),
        ("words: a, ''", "an entry of words is empty; remove the comma"),
        ("words: a, \"b", "words has a quote that is not closed; close the quote"),
        (&many, "words has more than 100 entries; name fewer"),
    ] {
        assert_eq!(list(line).unwrap_err(), format!("a.md:2:8: {expected}"));
    }
}

#[test]
fn numbers_and_flags_are_checked() {
    let text = with("ratio: \"0.5\"\nmaxTokens: 7\nalways: false");
    let front = parse(&text).unwrap();
    let within = Within { low: 0.0, high: 1.0 };
    assert_eq!(front.number("ratio", within).unwrap(), Some(0.5));
    assert_eq!(front.whole_number::<u32>("max_tokens", 0..=7).unwrap(), Some(7));
    assert_eq!(front.flag("always").unwrap(), Some(false));
    let text = with("ratio: 1.5\nmaxTokens: 8\nalways: no");
    let front = parse(&text).unwrap();
    let refused = [
        front.number("ratio", within).unwrap_err().to_string(),
        front.whole_number::<u32>("max_tokens", 0..=7).unwrap_err().to_string(),
        front.flag("always").unwrap_err().to_string(),
    ];
    assert_eq!(
        refused,
        [
            "a.md:2:8: ratio is 1.5; write a number from 0 to 1",
            "a.md:3:12: max_tokens is 8; write a whole number from 0 to 7",
            "a.md:4:9: always is \"no\"; write true or false",
        ]
    );
}

#[test]
fn each_bad_line_is_refused_where_it_is() {
    for (lines, expected) in [
        (
            "name: a\nnonsense",
            "3:1: \"nonsense\" is not a key with a value; write \"key: value\" on one line",
        ),
        ("- name", "2:1: \"- name\" is not a key with a value; write \"key: value\" on one line"),
        ("nam: a", "2:1: unknown key \"nam\"; did you mean \"name\"?"),
        (
            "something: a",
            "2:1: unknown key \"something\"; the keys here are name, max_tokens, always, words, ratio",
        ),
        (": a", "2:1: unknown key \"\"; "),
        ("name: a\nname: b", "3:1: the key \"name\" is given twice; remove one"),
        ("max_tokens: 1\nmaxTokens: 2", "3:1: the key \"max_tokens\" is given twice; remove one"),
        ("name:", "2:6: name is empty; write a value, or remove the line to get the default"),
        ("name: # nobody", "2:6: name is empty; write a value, or remove the line to get the default"),
    ] {
        let problem = parse(&with(lines)).map(|_| ()).unwrap_err();
        assert!(problem.starts_with(&format!("a.md:{expected}")), "{problem}");
    }
    assert_eq!(
        parse("---\nname: a\n").map(|_| ()).unwrap_err(),
        "a.md:1:1: the front matter does not end; end it with a line of three dashes"
    );
    let text = with("name: \"a");
    let unclosed = parse(&text).unwrap().text("name").unwrap_err().to_string();
    assert_eq!(unclosed, "a.md:2:7: name has a quote that is not closed; close the quote");
}
