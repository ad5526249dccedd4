//! The forms that files may have, and the places of ids in data.

use serde_json::{Value, json};

use super::each_reference;
use super::read::{FileEntry, ImportBundle, RecordEntry, parse};

fn entry(id: Option<&str>, kind: &str, data: Value) -> RecordEntry {
    RecordEntry { id: id.map(str::to_owned), kind: kind.to_owned(), data }
}

#[test]
fn items_say_their_type_or_take_the_files() {
    let text = json!([
        { "type": "part", "data": { "name": "A" } },
        { "id": "a", "type": "part", "data": {} },
        { "name": "B" },
        { "type": "pattern", "content": "x" },
        { "type": "part", "data": {}, "extra": 1 },
        { "type": "part", "data": "text" },
        7
    ]);
    let sheet = parse("evidence", &text.to_string()).unwrap();
    let expected = vec![
        entry(None, "part", json!({ "name": "A" })),
        entry(Some("a"), "part", json!({})),
        entry(None, "evidence", json!({ "name": "B" })),
        entry(None, "evidence", json!({ "type": "pattern", "content": "x" })),
        entry(None, "evidence", json!({ "type": "part", "data": {}, "extra": 1 })),
        entry(None, "evidence", json!({ "type": "part", "data": "text" })),
        entry(None, "evidence", json!(7)),
    ];
    assert_eq!(sheet, ImportBundle { records: expected, files: Vec::new() });
}

#[test]
fn an_export_is_taken_and_nothing_else_that_is_an_object() {
    let text = r##"{"records": [{"id": "r", "type": "part", "data": {}}], "files": [{"path": "a.md", "content": "# A"}]}"##;
    let sheet = parse("all", text).unwrap();
    assert_eq!(sheet.records, [entry(Some("r"), "part", json!({}))]);
    assert_eq!(sheet.files, [FileEntry { path: "a.md".into(), content: "# A".into() }]);
    for (wrong, why) in [
        (r#"{"record": []}"#, "unknown field `record`"),
        (r#"{"records": [{"type": "part"}]}"#, "missing field `data`"),
        ("7", "is neither an array of records nor an export"),
        ("[", "EOF while parsing"),
    ] {
        let message = parse("x", wrong).unwrap_err();
        assert!(message.contains(why), "{wrong}: {message}");
    }
}

#[test]
fn ids_are_found_where_the_schema_says_and_nowhere_else() {
    let id = |kind: &str| json!({ "type": "string", "format": format!("record:{kind}") });
    let schema = json!({ "properties": {
        "one": id("part"),
        "many": { "items": id("evidence") },
        "inner": { "properties": { "deep": id("part") } },
        "text": { "type": "string", "format": "date" }
    } });
    let mut data = json!({
        "one": "a", "many": ["b", 3, "c"], "inner": { "deep": "d", "other": "e" }, "text": "f", "unknown": "g"
    });
    let mut found = Vec::new();
    each_reference(&schema, &mut data, &mut |kind, text| {
        found.push((kind.to_owned(), text.clone()));
        text.push('!');
    });
    found.sort();
    let expected = [("evidence", "b"), ("evidence", "c"), ("part", "a"), ("part", "d")];
    assert_eq!(found, expected.map(|(kind, text)| (kind.to_owned(), text.to_owned())));
    assert_eq!((&data["one"], &data["text"], &data["unknown"]), (&json!("a!"), &json!("f"), &json!("g")));
}
