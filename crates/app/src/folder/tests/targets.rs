//! `timezone` and `[[targets]]`, as they may be written and as they may not.

use serde_json::json;

use super::*;

const READING: (&str, &str) = (
    "records/reading.json",
    r#"{"type": "object", "properties": {"kind": {"type": "string"}, "value": {"type": "number"}},
        "additionalProperties": false}"#,
);

#[test]
fn a_time_zone_is_one_that_is_known() {
    assert_eq!(demo("timezone = \"America/New_York\"", PROMPT).zone.iana_name(), Some("America/New_York"));
    assert_eq!(demo("", PROMPT).zone, TimeZone::UTC);
    for wrong in ["Mars/Olympus", "", "EST5"] {
        let expected = format!(
            "demo/app.toml:1:12: timezone is {wrong:?}, which is not a known time zone; write a name such as \
             \"Europe/Lisbon\""
        );
        assert_eq!(problem(&apps(&format!("timezone = {wrong:?}"), PROMPT)), expected);
    }
}

#[test]
fn a_target_names_records_and_a_range() {
    let toml = "[[targets]]\nrecord = \"reading\"\nfield = \"value\"\nwhere = { kind = \"weight\" }\nlow = 60\nhigh = 80.5\n\
                [[targets]]\nrecord = \"reading\"\nfield = \"value\"\nlow = 1";
    let app = load(&with(toml, &[READING]).path().join("demo")).unwrap();
    let target = |matching: serde_json::Value, low, high| TargetRange {
        record: "reading".into(),
        field: "value".into(),
        matching: matching.as_object().unwrap().clone(),
        low: Some(low),
        high,
    };
    assert_eq!(
        app.targets,
        [target(json!({"kind": "weight"}), 60.0, Some(80.5)), target(json!({}), 1.0, None)]
    );
}

#[test]
fn a_target_that_cannot_be_is_refused_with_its_line() {
    let no_range = "the target of \"value\" is not a range; write low, high or both, with low not above high";
    for (target, expected) in [
        (
            "record = \"weight\"\nfield = \"value\"\nlow = 1",
            ":2:10: there is no record type \"weight\"; use one of reading",
        ),
        (
            "record = \"reading\"\nfield = \"vlue\"\nlow = 1",
            ":3:9: records of the type \"reading\" have no field \"vlue\"; use one of kind, value",
        ),
        (
            "record = \"reading\"\nfield = \"value\"\nwhere = { type = 1 }\nlow = 1",
            ":4:11: records of the type \"reading\" have no field \"type\"; use one of kind, value",
        ),
        ("record = \"reading\"\nfield = \"value\"", &format!(":3:9: {no_range}")),
        ("record = \"reading\"\nfield = \"value\"\nlow = 2\nhigh = 1", &format!(":3:9: {no_range}")),
        ("record = \"reading\"\nfield = \"value\"\nhigh = inf", &format!(":3:9: {no_range}")),
    ] {
        let problem = problem(&with(&format!("[[targets]]\n{target}"), &[READING]));
        assert_eq!(problem, format!("demo/app.toml{expected}"));
    }
}
