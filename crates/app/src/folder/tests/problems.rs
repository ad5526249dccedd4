//! All that is wrong with a folder, at once.

use std::fs;

use tempfile::TempDir;

use super::super::{check, load};
use super::with;

/// All problems as they are printed, with the paths cut down to start at the apps folder.
fn problems(apps: &TempDir) -> Vec<String> {
    let root = format!("{}/", apps.path().display());
    let found = check(&apps.path().join("demo")).unwrap_err();
    found.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
}

#[test]
fn every_file_and_every_table_says_what_is_wrong_with_it() {
    let toml = "name = ''\n[settings]\ntemperature = 3\n[loop]\nmax_steps = 0\n[tool.addA]\nrecord = 'a'\ndoes = 'add'\n\
                [tool.addB]\nrecord = 'b'\ndoes = 'create'\n[budgets]\nx = 1\n";
    let record =
        r#"{"type": "object", "additionalProperties": false, "properties": {"x": {"type": "string"}}}"#;
    let apps = with(toml, &[("records/a.json", record), ("personas/one.md", "x"), ("title.md", " ")]);
    fs::write(apps.path().join("demo/personas/two.md"), "").unwrap();
    let found = problems(&apps);
    let places: Vec<&str> = found.iter().map(|text| text.split(": ").next().unwrap()).collect();
    let expected = [
        "demo/app.toml:1:8",
        "demo/app.toml:3:15",
        "demo/app.toml:5:13",
        "demo/app.toml:8:8",
        "demo/app.toml:10:10",
        "demo/app.toml:12:2",
    ];
    assert_eq!(places.get(..6), Some(&expected[..]), "{found:#?}");
    assert!(places.contains(&"demo/title.md"), "{found:#?}");
    assert_eq!(load(&apps.path().join("demo")).unwrap_err().line, Some(1));
}

#[test]
fn what_rests_on_something_broken_is_not_blamed() {
    let toml =
        "[memory]\ninject = 'snapshot'\nsnapshot = ['a']\n[tool.addA]\nrecord = 'a'\ndoes = 'create'\n";
    let apps = with(toml, &[("records/a.json", "{"), ("records/b.json", "[]")]);
    let found = problems(&apps);
    let files: Vec<&str> = found.iter().map(|text| text.split(':').next().unwrap()).collect();
    assert_eq!(files, ["demo/records/a.json", "demo/records/b.json"], "{found:#?}");
}

#[test]
fn a_file_that_is_not_toml_does_not_hide_the_other_files() {
    let apps = with("name = \n", &[("instructions.md", " "), ("records/a.json", "{")]);
    let found = problems(&apps);
    let files: Vec<&str> = found.iter().map(|text| text.split(':').next().unwrap()).collect();
    assert_eq!(files, ["demo/app.toml", "demo/instructions.md", "demo/records/a.json"], "{found:#?}");
}
