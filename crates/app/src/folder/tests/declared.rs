//! Record types and declared tools, good and bad.

use serde_json::json;

use super::*;
use crate::{AdjustedTool, DeclaredRecordTool, DeclaredTool, Permission, RecordAction, ToolKind};

const PART: &str = r#"{"type": "object", "title": "part", "additionalProperties": false, "required": ["name"],
    "properties": {"name": {"type": "string"}, "status": {"type": "string"}, "source": {"type": "string"},
        "evidence": {"type": "array", "items": {"type": "string", "format": "record:evidence"}}}}"#;
const EVIDENCE: &str = r#"{"type": "object", "additionalProperties": false,
    "properties": {"content": {"type": "string"}, "partId": {"type": "string", "format": "record:part"}}}"#;

/// An app with the two record types.
fn with_records(toml: &str) -> TempDir {
    let apps = apps(toml, PROMPT);
    record(&apps, "part", PART);
    record(&apps, "evidence", EVIDENCE);
    apps
}

fn record(apps: &TempDir, name: &str, schema: &str) {
    let folder = apps.path().join("demo/records");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.json")), schema).unwrap();
}

const DECLARED: &str = r#"
tools = ["markdown"]

[tool.searchParts]
record = "part"
does = "search"
limit = 5

[tool.createEmergingPart]
record = "part"
does = "create"
description = "Creates a part."
requires = { evidence = 3 }
confirm = true
defaults = { status = "emerging" }
fixed = { source = "agent" }
fields = ["name", "status"]

[tool.addEvidence]
record = "evidence"
does = "create"

[tool.readMarkdown]
policy = "deny"
"#;

#[test]
fn declared_tools_are_read_in_the_order_of_the_file() {
    let apps = with_records(DECLARED);
    let file = apps.path().join("demo/app.toml");
    let app = load(&apps.path().join("demo")).unwrap();
    let tool = |name: &str, line| ToolRef { name: name.into(), file: file.clone(), line, column: 7 };
    let plain = |record: &str, does| DeclaredRecordTool {
        record: record.into(),
        does,
        requires: BTreeMap::new(),
        defaults: serde_json::Map::new(),
        fixed: serde_json::Map::new(),
        fields: None,
        limit: 20,
    };
    let declared = |tool, record| DeclaredTool {
        tool,
        description: None,
        permission: None,
        flows: Vec::new(),
        plausible: Vec::new(),
        kind: ToolKind::Record(record),
    };
    let object = |value: serde_json::Value| value.as_object().unwrap().clone();
    let emerging = DeclaredRecordTool {
        requires: BTreeMap::from([("evidence".into(), 3)]),
        defaults: object(json!({ "status": "emerging" })),
        fixed: object(json!({ "source": "agent" })),
        fields: Some(BTreeSet::from(["name".into(), "status".into()])),
        ..plain("part", RecordAction::Create)
    };
    let expected = vec![
        declared(
            tool("searchParts", 4),
            DeclaredRecordTool { limit: 5, ..plain("part", RecordAction::Search) },
        ),
        DeclaredTool {
            description: Some("Creates a part.".into()),
            permission: Some(Permission::Ask),
            ..declared(tool("createEmergingPart", 9), emerging)
        },
        declared(tool("addEvidence", 19), plain("evidence", RecordAction::Create)),
    ];
    assert_eq!(app.declared, expected);
    let denied = tool("readMarkdown", 23);
    let adjusted = AdjustedTool {
        tool: denied,
        description: None,
        permission: Some(Permission::Deny),
        effect: None,
        flows: Vec::new(),
        plausible: Vec::new(),
        marker: None,
    };
    assert_eq!(app.adjusted, [adjusted]);
    assert_eq!(app.records.keys().collect::<Vec<_>>(), ["evidence", "part"]);
    let part = &app.records["part"];
    assert_eq!((part.title(), part.requires("name"), part.requires("status")), ("part", true, false));
    assert_eq!(app.records["evidence"].title(), "evidence", "without a title it is the type");
}

#[test]
fn record_types_are_part_of_the_revision() {
    let revision = |apps: &TempDir| load(&apps.path().join("demo")).unwrap().revision;
    let (one, other) = (with_records(""), with_records(""));
    assert_eq!(revision(&one), revision(&other));
    record(&other, "part", &PART.replace("status", "state"));
    assert_ne!(revision(&one), revision(&other));
    let renamed = with_records("");
    record(&renamed, "extra", EVIDENCE);
    record(&one, "another", EVIDENCE);
    assert_ne!(revision(&one), revision(&renamed), "a type's name is content too");
}

#[test]
fn a_record_type_must_be_one_that_tools_can_be_made_of() {
    let closed = |properties: &str| {
        format!(r#"{{"type": "object", "additionalProperties": false, "properties": {properties}}}"#)
    };
    let text = r#"{"type": "string"}"#;
    for (schema, expected) in [
        ("{".to_owned(), ":1:1: this is not JSON; write one JSON Schema"),
        ("[]".to_owned(), ": the schema is not of type object; describe one object"),
        (
            format!(r#"{{"type": "object", "properties": {{"a": {text}}}}}"#),
            ": an object of the schema allows additional properties; add \"additionalProperties\": false to \
             each object",
        ),
        (
            closed(r#"{"a": {"type": "array", "items": {"type": "object"}}}"#),
            ": an object of the schema allows additional properties; add \"additionalProperties\": false to \
             each object",
        ),
        (closed("{}"), ": the schema has no properties; name at least one under \"properties\""),
        (
            closed(&format!(r#"{{"id": {text}}}"#)),
            ": the schema has a property \"id\"; remove it; every record has an id of its own, beside its data",
        ),
        (
            closed(&format!(r#"{{"a b": {text}}}"#)),
            ": \"a b\" cannot be a field's name; write 1 to 64 letters, digits, underscores, dashes or dots",
        ),
        (
            closed(r#"{"a": {"type": "string", "format": "record:cloud"}}"#),
            ": a field refers to records of the type \"cloud\", which does not exist; \
             add records/cloud.json, or use one of evidence, note, part",
        ),
        (
            closed(r#"{"a": {"type": "string", "minLength": -1}}"#),
            ": /properties/a/minLength is not JSON Schema: -1 is less than the minimum of 0; correct it there",
        ),
        (
            closed(r#"{"a": {"type": "array", "format": "record:part"}}"#),
            ": a field that refers to a record is not of type string; \
             write \"type\": \"string\"; for several, an array of them",
        ),
    ] {
        let apps = with_records("");
        record(&apps, "note", &schema);
        assert_eq!(problem(&apps), format!("demo/records/note.json{expected}"));
    }
}

#[test]
fn a_record_type_has_a_plain_name_and_there_are_not_too_many() {
    for name in ["Part", "1st", "a.b", "-a", "é", &"a".repeat(41)] {
        let apps = apps("", PROMPT);
        record(&apps, name, EVIDENCE);
        let rule = "rename it: a lower-case letter, then lower-case letters, digits, underscores and dashes, at most 40";
        let expected = format!("demo/records/{name}.json: the file's name cannot be a record type; {rule}");
        assert_eq!(problem(&apps), expected);
    }
    let apps = apps("", PROMPT);
    let plain = EVIDENCE.replace(", \"format\": \"record:part\"", "");
    (0..50).for_each(|i| record(&apps, &format!("type-{i}"), &plain));
    fs::write(apps.path().join("demo/records/README.md"), "left alone").unwrap();
    assert_eq!(load(&apps.path().join("demo")).unwrap().records.len(), 50);
    record(&apps, &"a".repeat(40), &plain);
    let expected = "demo/records: there are more than 50 record types; combine some of them";
    assert_eq!(problem(&apps), expected);
}

#[test]
fn what_a_tool_expects_is_read_and_held_against_the_record() {
    let expects = "plausible = [{ when = { status = ['new', 'old'] }, within = { name = [1, 2.5] } }]";
    let apps = with_records(&format!("[tool.x]\nrecord = 'part'\ndoes = 'create'\n{expects}"));
    let app = load(&apps.path().join("demo")).unwrap();
    let plausible = crate::Plausible {
        when: json!({ "status": ["new", "old"] }).as_object().unwrap().clone(),
        within: BTreeMap::from([("name".to_owned(), Within { low: 1.0, high: 2.5 })]),
    };
    assert_eq!(app.declared[0].plausible, [plausible]);
    let about = "record = 'part'\ndoes = 'create'\nplausible = ";
    for (value, expected) in [
        (
            "[{}]",
            "1:7: an entry of tool.x.plausible has no condition; add when = { … } or within = { … }, or \
             remove it",
        ),
        (
            "[{ when = { colour = 'red' } }]",
            "4:23: records of the type \"part\" have no field \"colour\"; use one of name, status, source, evidence",
        ),
        (
            "[{ within = { size = [1, 2] } }]",
            "4:27: records of the type \"part\" have no field \"size\"; use one of name, status, source, evidence",
        ),
        (
            "[{ within = { name = [2, 1] } }]",
            "4:34: tool.x.plausible.within.name is [2, 1]; write the lowest and the highest number",
        ),
        (
            "[{ when = { status = [] } }]",
            "4:23: tool.x.plausible.when.status allows no value; list the allowed values",
        ),
    ] {
        refused(&format!("{about}{value}"), expected);
    }
}

fn refused(table: &str, expected: &str) {
    let apps = with_records(&format!("[tool.x]\n{table}"));
    assert_eq!(problem(&apps), format!("demo/app.toml:{expected}"));
}

#[test]
fn a_declared_tool_that_cannot_work_is_refused() {
    let choices = r#""search" or "get" or "create" or "update" or "list" or "delete""#;
    for (table, expected) in [
        (
            "record = 'cloud'\ndoes = 'get'",
            "2:10: there is no record type \"cloud\"; use one of evidence, part",
        ),
        ("record = 'part'\ndoes = 'fly'", &format!("3:8: does is \"fly\"; write {choices}")),
        ("record = 'part'", &format!("1:7: tool.x does not say what it does; add does = {choices}")),
        ("does = 'get'", "1:7: tool.x names no record type; add record = \"…\"; use one of evidence, part"),
        (
            "limit = 3",
            "1:7: tool.x names no record type, no request and no module; \
             add record and does, http, wasm or client = true; or keep only description, policy, confirm, effect, flow, plausible and marker",
        ),
        (
            "record = 'part'\ndoes = 'create'\nrequires = { cloud = 3 }",
            "4:14: there is no record type \"cloud\"; use one of evidence, part",
        ),
        (
            "record = 'part'\ndoes = 'create'\nrequires = { evidence = 0 }",
            "4:25: tool.x.requires.evidence is 0; write a whole number from 1 to 50",
        ),
    ] {
        refused(table, expected);
    }
}

#[test]
fn what_a_declared_tool_says_must_mean_something() {
    for (table, expected) in [
        (
            "record = 'part'\ndoes = 'list'\nlimit = 101",
            "4:9: tool.x.limit is 101; write a whole number from 1 to 100",
        ),
        (
            "record = 'part'\ndoes = 'list'\nlimit = 0",
            "4:9: tool.x.limit is 0; write a whole number from 1 to 100",
        ),
        (
            "record = 'part'\ndoes = 'get'\nlimit = 3",
            "4:9: limit has no meaning for a tool with does = \"get\"; remove it",
        ),
        (
            "record = 'part'\ndoes = 'search'\nrequires = { evidence = 3 }",
            "4:14: requires has no meaning for a tool with does = \"search\"; remove it",
        ),
        (
            "record = 'part'\ndoes = 'create'\nfields = ['name', 'size']",
            "4:19: records of the type \"part\" have no field \"size\"; use one of name, status, source, evidence",
        ),
        (
            "record = 'part'\ndoes = 'create'\nfixed = { size = 3 }",
            "4:11: records of the type \"part\" have no field \"size\"; use one of name, status, source, evidence",
        ),
        (
            "record = 'part'\ndoes = 'create'\nfields = ['status']",
            "1:7: tool.x does not set the field \"name\", which is required in part; add it to fields, \
             defaults or fixed",
        ),
        (
            "record = 'part'\ndoes = 'create'\nfields = ['name']\nfixed = { name = 'a' }",
            "1:7: tool.x gives the field \"name\" more than one source; keep one of fixed, defaults, requires and fields for it",
        ),
        (
            "record = 'part'\ndoes = 'create'\npolicy = 'ask'\nconfirm = true",
            "5:11: tool.x has both policy and confirm; keep one; confirm = true is policy = \"ask\"",
        ),
        (
            "record = 'part'\ndoes = 'get'\npolicy = 'maybe'",
            "4:10: policy is \"maybe\"; write \"allow\" or \"ask\" or \"deny\"",
        ),
        ("record = 'part'\ndoes = 'get'\nlimits = 3", "4:1: unknown key \"limits\"; did you mean \"limit\"?"),
    ] {
        refused(table, expected);
    }
}

#[test]
fn a_name_is_declared_once_and_can_be_said_to_a_provider() {
    let both = with_records("tools = ['x']\n[tool.x]\nrecord = 'part'\ndoes = 'get'");
    let expected = "demo/app.toml:2:7: the tool \"x\" is listed under tools and declared here; \
                    remove one, or give it another name";
    assert_eq!(problem(&both), expected);
    let spaced = with_records("[tool.'a b']\nrecord = 'part'\ndoes = 'get'");
    let expected = "demo/app.toml:1:7: \"a b\" cannot be a tool's name; \
                    write 1 to 64 letters, digits, underscores or dashes";
    assert_eq!(problem(&spaced), expected);
}

#[test]
fn declared_tools_count_among_the_tools() {
    let names: Vec<String> = (0..128).map(|i| format!("'t{i}'")).collect();
    let listed = format!("tools = [{}]\n", names.join(", "));
    let apps = with_records(&format!("{listed}[tool.x]\nrecord = 'part'\ndoes = 'get'"));
    assert_eq!(
        problem(&apps),
        "demo/app.toml:2:7: there are more than 128 tools; offer the model fewer tools"
    );
}
