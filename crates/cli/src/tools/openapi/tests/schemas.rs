//! Schemas: what is kept, what is turned, and where they are cut.

use serde_json::{Value, json};

use super::{app, argument, notes, one, one_with, parameters};

/// Returns the schema of an argument that is made of this one.
fn turned(schema: Value) -> Value {
    turned_with(schema, &json!({})).0
}

fn turned_with(schema: Value, schemas: &Value) -> (Value, Vec<String>) {
    let mut media = json!({ "application/json": {} });
    media["application/json"]["schema"] = schema;
    let operation = json!({ "parameters": [{ "name": "x", "in": "query", "content": media }] });
    let imported = one_with("get", "/a", operation, &json!({ "schemas": schemas }));
    (argument(&imported, "x"), notes(&imported).into_iter().map(str::to_owned).collect())
}

#[test]
fn what_says_what_may_be_given_is_kept_and_the_rest_is_not() {
    let kept = json!({ "type": "string", "description": "A text", "enum": ["a", "b"], "format": "date", "default": "a",
        "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$" });
    let mut schema = kept.clone();
    for dropped in
        ["example", "examples", "xml", "discriminator", "externalDocs", "x-own", "title", "$schema", "$id"]
    {
        schema[dropped] = json!("x");
    }
    assert_eq!(turned(schema), kept);
    let number = json!({ "type": "number", "minimum": 0.5, "maximum": 9, "multipleOf": 0.5 });
    assert_eq!(turned(number.clone()), number);
    let list = json!({ "type": "array", "minItems": 1, "maxItems": 3, "uniqueItems": true, "items": { "type": "integer" } });
    assert_eq!(turned(list.clone()), list);
    assert_eq!(turned(json!(true)), json!({}));
    assert_eq!(
        turned(json!({ "not": { "type": "null" }, "anyOf": [] })),
        json!({ "not": { "type": "null" } })
    );
}

#[test]
fn what_three_nought_says_in_its_own_way_is_json_schema() {
    assert_eq!(turned(json!({ "type": "string", "nullable": true })), json!({ "type": ["string", "null"] }));
    let choice = json!({ "type": "string", "nullable": true, "enum": ["a", null] });
    assert_eq!(turned(choice), json!({ "type": "string", "enum": ["a"] }));
    let either = json!({ "nullable": true, "anyOf": [{ "type": "string" }] });
    assert_eq!(turned(either), json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }));
    let bounds = json!({ "type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false });
    assert_eq!(turned(bounds), json!({ "type": "integer", "maximum": 9, "exclusiveMinimum": 0 }));
    assert_eq!(
        turned(json!({ "type": ["string", "null"], "exclusiveMaximum": 3 })),
        json!({ "type": ["string", "null"], "exclusiveMaximum": 3 })
    );
    assert_eq!(turned(json!({ "const": null, "default": null })), json!({ "type": "null" }));
    let large = turned(json!({ "type": "integer", "maximum": u64::MAX }));
    assert_eq!(large["maximum"].as_f64(), Some(18_446_744_073_709_551_615.0));
}

#[test]
fn what_is_only_read_is_no_argument_at_any_depth() {
    let schemas = json!({ "Id": { "type": "string", "readOnly": true } });
    let inner = json!({ "type": "object", "required": ["id", "b"], "properties": {
        "id": { "$ref": "#/components/schemas/Id" }, "b": { "type": "string", "writeOnly": true } } });
    let (schema, _) = turned_with(json!({ "type": "array", "items": inner }), &schemas);
    let expected =
        json!({ "type": "object", "properties": { "b": { "type": "string" } }, "required": ["b"] });
    assert_eq!(schema["items"], expected);
}

#[test]
fn references_are_followed_and_cut_where_they_lead_to_themselves_or_nowhere() {
    let schemas = json!({
        "Tree": { "type": "object", "properties": { "left": { "$ref": "#/components/schemas/Tree" }, "a~b": { "$ref": "#/components/schemas/a~1b%20c" } } },
        "a/b c": { "type": "string", "description": "inner" },
        "Loop": { "$ref": "#/components/schemas/Loop" }
    });
    let (tree, said) =
        turned_with(json!({ "$ref": "#/components/schemas/Tree", "description": "Mine" }), &schemas);
    let properties = json!({ "left": {}, "a~b": { "type": "string", "description": "inner" } });
    assert_eq!(tree, json!({ "type": "object", "properties": properties, "description": "Mine" }));
    assert_eq!(said, ["#/components/schemas/Tree contains itself, and is cut there"]);
    for (nowhere, part) in [
        ("#/components/schemas/Loop", "contains itself"),
        ("#/gone", "is not in the description"),
        ("other.yaml#/A", "is not in the description"),
        ("https://example.com/a.json", "is not in the description"),
        ("file:///etc/passwd", "is not in the description"),
        ("#%zz", "is not in the description"),
    ] {
        let (schema, said) = turned_with(json!({ "$ref": nowhere }), &schemas);
        assert_eq!(schema, json!({}), "{nowhere}");
        assert!(said[0].contains(part), "{said:?}");
    }
}

#[test]
fn all_of_is_one_object_where_that_is_all_it_is() {
    let schemas = json!({ "Base": { "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": "string" } } } });
    let base = json!({ "$ref": "#/components/schemas/Base" });
    let both = json!({ "description": "Both", "allOf": [base, { "type": "object", "required": ["a", "b"], "properties": { "b": {} } }] });
    let expected = json!({ "type": "object", "description": "Both", "properties": { "a": { "type": "string" }, "b": {} },
        "required": ["a", "b"] });
    assert_eq!(turned_with(both, &schemas).0, expected);
    let only =
        json!({ "description": "One", "nullable": true, "allOf": [{ "type": "string", "maxLength": 3 }] });
    assert_eq!(turned(only), json!({ "type": ["string", "null"], "maxLength": 3, "description": "One" }));
    let others = json!({ "allOf": [{ "type": "string" }, { "minLength": 2 }] });
    assert_eq!(turned(others.clone()), others);
}

#[test]
fn what_is_nested_too_deeply_or_too_often_is_cut_and_said() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..7 {
        deep = json!({ "type": "object", "properties": { "x": deep } });
    }
    assert_eq!(turned_with(deep.clone(), &json!({})), (deep.clone(), Vec::new()));
    let (cut, said) = turned_with(json!({ "type": "array", "items": deep }), &json!({}));
    assert!(cut.to_string().contains("\"x\":{}"), "{cut}");
    assert_eq!(said, ["a schema is cut where it is nested too deeply or is too large"]);
    // Each level refers twice to the next: without a bound it would come to more than memory holds.
    let schemas: Value = (0..60)
        .map(|i| {
            let next = json!({ "$ref": format!("#/components/schemas/S{}", i + 1) });
            (format!("S{i}"), json!({ "allOf": [next, next], "minProperties": 1 }))
        })
        .collect();
    let (_, said) = turned_with(json!({ "$ref": "#/components/schemas/S0" }), &schemas);
    assert!(said.iter().any(|note| note.contains("too large")), "{said:?}");
}

#[test]
fn keywords_that_are_none_are_left_out_and_said() {
    let odd = json!({ "type": "file", "pattern": "(", "minimum": "5", "minLength": -1, "required": true, "items": [{}],
        "properties": { "a": { "type": ["string", "any"] } } });
    let (schema, said) = turned_with(odd, &json!({}));
    assert_eq!(schema, json!({ "properties": { "a": {} } }));
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(
        said.contains(&"type is \"file\", which is not JSON Schema, and is left out".to_owned()),
        "{said:?}"
    );
}

#[test]
fn fields_of_a_body_keep_their_order_and_an_open_object_is_one_argument() {
    let body =
        |schema: Value| json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } });
    let fields = json!({ "type": "object", "properties": { "z": { "type": "string" }, "a": { "type": "string" }, "m": {} } });
    let ordered = one("post", "/a", body(fields));
    let names: Vec<String> =
        parameters(&ordered)["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["z", "a", "m"]);
    let open = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    assert_eq!(argument(&one("post", "/a", body(open.clone())), "body"), open);
    app(&ordered);
}
