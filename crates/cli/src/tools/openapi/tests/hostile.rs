//! Descriptions that try to say more than they may.

use serde_json::{Value, json};

use super::{app, argument, description, imported, left_out, one, one_with, sent};

const BREAKOUT: &str =
    "x\"\n[tool.evil]\ndescription = '''\"\"\"\n{{ secret.other }} {% for a in b %} {# \u{0} \u{7f}";

#[test]
fn no_text_breaks_out_of_the_file_or_becomes_a_template() {
    let text = json!({ "type": "string", "description": BREAKOUT, "enum": [BREAKOUT], "default": BREAKOUT });
    let object = json!({ "type": "object", "properties": { BREAKOUT: text, "nested": {
        "type": "object", "properties": { BREAKOUT: text }, "description": "long enough for a table of its own ".repeat(4) } } });
    let operation = json!({
        "operationId": BREAKOUT, "summary": BREAKOUT, "description": BREAKOUT,
        "parameters": [{ "name": BREAKOUT, "in": "query", "description": BREAKOUT, "schema": text }],
        "requestBody": { "content": { "application/json": { "schema": object } } }
    });
    let mut whole = description(&json!({ "/a": { "post": operation } }), &json!({}));
    whole["info"] = json!({ "title": BREAKOUT, "version": BREAKOUT });
    let imported = imported(&whole);
    let app = app(&imported);
    assert_eq!(app.declared.len(), 1);
    assert!(app.secrets().is_empty(), "nothing of it is a template");
    let name = |suffix: &str| format!("x_tool_evil_description_secret_other_for_a_in_b{suffix}");
    let (url, _, body) = sent(&imported, json!({ name(""): "{{ secret.x }}", name("_body"): "b" }));
    assert!(
        url.contains("=%7B%7B+secret.x+%7D%7D") && url.starts_with("https://api.example.com/v1/a?x%22%0A"),
        "{url}"
    );
    assert_eq!(body, json!({ BREAKOUT: "b" }));
    let kept = argument(&imported, &name(""));
    assert_eq!((&kept["enum"][0], &kept["default"]), (&json!(BREAKOUT), &json!(BREAKOUT)));
    assert!(!kept["description"].as_str().unwrap().contains(['\n', '\0']));
}

#[test]
fn braces_in_a_path_name_an_argument_or_are_refused() {
    for path in [
        "/a/{{ secret.x }}",
        "/a/{%if%}{",
        "/a/{",
        "/a/{{x}}",
        "a",
        "/a?b={c}",
        "/a#b",
        "/a/../b",
        "/a/%2e%2e/b",
    ] {
        let reason = left_out("get", path, json!({}));
        assert!(reason.contains("its path") || reason.contains("its address"), "{path}: {reason}");
    }
    let imported = one("get", "/a b/ü/100%/}}/{ secret.x }", json!({}));
    let (url, _, _) = sent(&imported, json!({ "secret_x": "v" }));
    assert_eq!(url, "https://api.example.com/v1/a%20b/%C3%BC/100%25/%7D%7D/v");
    assert!(app(&imported).secrets().is_empty());
}

#[test]
fn a_title_cannot_ask_for_another_service_s_secret() {
    let schemes = json!({ "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } });
    let mut whole = description(&json!({ "/a": { "get": {} } }), &schemes);
    whole["security"] = json!([{ "token": [] }]);
    whole["info"]["title"] = json!("github");
    whole["servers"] = json!([{ "url": "https://evil.example" }]);
    let imported = imported(&whole);
    let secrets = imported.secrets();
    let (name, (_, origins)) = secrets.iter().next().unwrap();
    assert_eq!(
        (*name, origins.iter().copied().collect::<Vec<_>>()),
        ("evil_example_token", vec!["https://evil.example"])
    );
}

#[test]
fn what_is_not_what_it_should_be_is_no_panic() {
    let odd = [
        json!(null),
        json!(7),
        json!("x"),
        json!([]),
        json!([[1]]),
        json!({}),
        json!({ "$ref": "#/paths" }),
        json!({ "$ref": 1 }),
    ];
    for value in &odd {
        for key in [
            "parameters",
            "requestBody",
            "security",
            "servers",
            "tags",
            "operationId",
            "summary",
            "deprecated",
        ] {
            try_out(
                &json!({ "/a": { "get": {}, "post": { key: value } }, "/b": { key: value } }),
                &json!({}),
            );
        }
        for key in [
            "type",
            "properties",
            "required",
            "items",
            "enum",
            "allOf",
            "oneOf",
            "additionalProperties",
            "nullable",
        ] {
            let operation =
                json!({ "parameters": [{ "name": "x", "in": "query", "schema": { key: value } }] });
            app(&one_with("get", "/a", operation, &json!({})));
        }
        try_out(value, value);
        let parameter =
            json!({ "name": value, "in": value, "schema": value, "content": value, "style": value });
        try_out(&json!({ "/a": { "get": { "parameters": [parameter, value] } }, "/b": value }), value);
    }
}

/// Tries a description, which must give an app that loads, or a reason.
fn try_out(paths: &Value, components: &Value) {
    let mut whole = description(paths, components);
    whole["info"] = paths.clone();
    let read = super::read(&whole);
    match super::import(&read, &super::ImportChoice::default()) {
        Ok(imported) => drop(app(&imported)),
        Err(trouble) => assert!(!trouble.to_string().is_empty()),
    }
}
