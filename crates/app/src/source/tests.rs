//! Every way a text can be wrong, with the exact words its author reads.

use std::path::Path;

use serde::Deserialize;

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Shape {
    name: String,
    steps: Option<Spanned<i64>>,
    share: Option<Spanned<f64>>,
    mode: Option<Mode>,
    list: Vec<String>,
    part: Part,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Part {
    max_steps: i64,
    on: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Answer,
    Reply,
}

fn problem(text: &str) -> String {
    FileText { file: Path::new("a.toml"), text }.toml::<Shape>().unwrap_err().to_string()
}

#[test]
fn a_wrong_key_gets_the_nearest_or_all() {
    assert_eq!(problem("nome = 'x'"), r#"a.toml:1:1: unknown key "nome"; did you mean "name"?"#);
    assert_eq!(
        problem("\n[part]\nmax_step = 1"),
        r#"a.toml:3:1: unknown key "max_step"; did you mean "max_steps"?"#
    );
    assert_eq!(
        problem("[part]\ncolour = 1"),
        r#"a.toml:2:1: unknown key "colour"; the keys here are max_steps, on"#
    );
}

#[test]
fn a_wrong_value_is_named_with_its_key() {
    assert_eq!(problem("mode = 'stop'"), r#"a.toml:1:8: mode is "stop"; write "answer" or "reply""#);
    assert_eq!(
        problem("[part]\nmax_steps = \"ten\""),
        r#"a.toml:2:13: max_steps is a string "ten", of the wrong type; write a whole number"#
    );
    assert_eq!(
        problem("[part]\nmax_steps = 1.5"),
        "a.toml:2:13: max_steps is a floating point 1.5, of the wrong type; write a whole number"
    );
    assert_eq!(
        problem("name = 3"),
        "a.toml:1:8: name is an integer 3, of the wrong type; write a text in quotes"
    );
    assert_eq!(
        problem("share = true"),
        "a.toml:1:9: share is a boolean true, of the wrong type; write a number"
    );
    assert_eq!(
        problem("[part]\non = 1"),
        "a.toml:2:6: on is an integer 1, of the wrong type; write true or false"
    );
    assert_eq!(
        problem("list = 'a'"),
        r#"a.toml:1:8: list is a string "a", of the wrong type; write a list in square brackets"#
    );
    assert_eq!(problem("part = 1"), "a.toml:1:8: part is an integer 1, of the wrong type; write a table");
}

#[test]
fn broken_toml_has_a_place() {
    assert_eq!(problem("name = 'a'\nname = 'b'"), "a.toml:2:1: duplicate key; correct the TOML here");
    assert_eq!(problem("ä = 'é' x"), "a.toml:1:9: unexpected key or value; expected newline, \"#\"");
}

#[test]
fn ranges_are_checked_with_place_field_and_value() {
    let text = "steps = 300\nshare = nan";
    let source = FileText { file: Path::new("a.toml"), text };
    let shape: Shape = source.toml().unwrap();
    assert_eq!(
        source.whole_number::<u32>("part.steps", shape.steps.clone(), 1..=200).unwrap_err().to_string(),
        "a.toml:1:9: part.steps is 300; write a whole number from 1 to 200"
    );
    assert_eq!(source.whole_number("part.steps", shape.steps.clone(), 1..=300), Ok(Some(300_u32)));
    assert!(source.whole_number::<u8>("part.steps", shape.steps, 1..=300).is_err(), "never truncated");
    assert_eq!(
        source.number("share", shape.share, Bound::Excluded(0.0), 1.0).unwrap_err().to_string(),
        "a.toml:2:9: share is NaN; write a number above 0, at most 1"
    );
}

#[test]
fn an_unreadable_file_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let problem = |remedy: &str| {
        let problem = read_file(&file, remedy).unwrap_err();
        (problem.message, problem.remedy)
    };
    assert_eq!(problem("create it"), ("there is no such file".into(), "create it".into()));
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    assert_eq!(problem(""), ("the file is not UTF-8 text".into(), "save it as UTF-8".into()));
    std::fs::write(&file, vec![b'#'; 256 * 1024 + 1]).unwrap();
    assert_eq!(problem(""), ("the file is larger than 256 KiB".into(), "shorten it".into()));
    std::fs::write(&file, vec![b'#'; 256 * 1024]).unwrap();
    assert_eq!(read_file(&file, "").unwrap().len(), 256 * 1024);
}
