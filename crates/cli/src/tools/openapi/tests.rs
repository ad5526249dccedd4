//! Each rule of the mapping, on descriptions that are about nothing else.

mod hostile;
mod requests;
mod schemas;

use app::{App, RenderedBody, ToolKind};
use serde_json::{Value, json};

use super::{ImportChoice, ImportedTools, OpenApiDocument, import};

/// A description with these paths and components.
fn description(paths: &Value, components: &Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Things", "version": "1" },
        "servers": [{ "url": "https://api.example.com/v1" }],
        "paths": paths,
        "components": components
    })
}

fn read(description: &Value) -> OpenApiDocument {
    OpenApiDocument::parse(&description.to_string()).unwrap()
}

fn imported(description: &Value) -> ImportedTools {
    import(&read(description), &ImportChoice::default()).unwrap_or_else(|trouble| panic!("{trouble}"))
}

fn refusal(description: &Value, wanted: &ImportChoice) -> String {
    match import(&read(description), wanted) {
        Ok(imported) => panic!("it was imported: {}", imported.toml),
        Err(trouble) => trouble.to_string(),
    }
}

/// Paths with one operation.
fn only(method: &str, path: &str, operation: Value) -> Value {
    let mut paths = json!({ path: {} });
    paths[path][method] = operation;
    paths
}

/// One operation, of which nothing else is left out.
fn one(method: &str, path: &str, operation: Value) -> ImportedTools {
    one_with(method, path, operation, &json!({}))
}

fn one_with(method: &str, path: &str, operation: Value, components: &Value) -> ImportedTools {
    let imported = imported(&description(&only(method, path, operation), components));
    assert_eq!((imported.tools.len(), imported.left_out.len()), (1, 0), "{:?}", imported.left_out);
    imported
}

/// Why the only operation is no tool.
fn left_out(method: &str, path: &str, operation: Value) -> String {
    refusal(&description(&only(method, path, operation), &json!({})), &ImportChoice::default())
}

/// An app that has what was imported, read as every app is.
fn app(imported: &ImportedTools) -> App {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("example");
    std::fs::create_dir_all(dir.join("tools")).unwrap();
    std::fs::write(dir.join("app.toml"), "").unwrap();
    std::fs::write(dir.join("instructions.md"), "Help.").unwrap();
    std::fs::write(dir.join("tools/things.toml"), &imported.toml).unwrap();
    app::load(&dir).unwrap_or_else(|problem| panic!("{problem}\n\n{}", imported.toml))
}

/// The arguments of the first tool, as the app has them.
fn parameters(imported: &ImportedTools) -> Value {
    match &app(imported).declared.first().unwrap().kind {
        ToolKind::Http(tool) => tool.parameters.clone(),
        ToolKind::Record(_) | ToolKind::Sandbox(_) | ToolKind::Client(_) => panic!("it is no HTTP tool"),
    }
}

/// Returns the schema of one argument.
fn argument(imported: &ImportedTools, name: &str) -> Value {
    parameters(imported)["properties"][name].clone()
}

/// Returns the request that the first tool sends for these arguments: address, headers and body.
fn sent(imported: &ImportedTools, input: Value) -> (String, Vec<(String, String)>, Value) {
    let app = app(imported);
    let ToolKind::Http(tool) = &app.declared.first().unwrap().kind else { panic!("it is no HTTP tool") };
    let secrets: Value = tool.secrets().into_iter().map(|name| (name.to_owned(), json!("s3cret"))).collect();
    let mut values = json!({ "secret": secrets });
    values["input"] = input;
    let rendered = tool.request.render(&values).unwrap();
    let body = match rendered.body {
        None => Value::Null,
        Some(RenderedBody::Json(value)) => value,
        Some(RenderedBody::Form(fields)) => json!({ "form": fields }),
        Some(RenderedBody::Text(text)) => json!({ "text": text }),
    };
    (rendered.url, rendered.headers, body)
}

fn notes(imported: &ImportedTools) -> Vec<&str> {
    imported.notes().map(|(_, note)| note).collect()
}

fn names(imported: &ImportedTools) -> Vec<&str> {
    imported.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn only_openapi_three_is_read() {
    let refused = |text: &str| OpenApiDocument::parse(text).err().unwrap();
    assert!(refused("swagger: '2.0'\n").contains("convert it to OpenAPI 3"));
    assert!(refused("openapi: 4.0.0\n").contains("this is OpenAPI 4.0.0; only 3.0 and 3.1 are supported"));
    assert!(refused("{}").contains("not an OpenAPI description"));
    assert!(refused("").contains("not an OpenAPI description"));
    assert!(refused("{ \"openapi\": ").contains("this is not JSON"));
    assert!(refused("openapi: [\n").contains("this is not YAML"));
    let bomb = "openapi: 3.0.0\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n".to_owned()
        + &('c'..='k')
            .zip('b'..='j')
            .map(|(next, last)| format!("{next}: &{next} [{}]\n", vec![format!("*{last}"); 9].join(",")))
            .collect::<String>();
    assert!(refused(&bomb).contains("this is not YAML"));
    assert!(OpenApiDocument::parse("\u{feff}{ \"openapi\": \"3.1.0\" }").is_ok());
}

#[test]
fn names_come_from_ids_or_from_method_and_path_and_are_unique() {
    let id = |id: &str| json!({ "operationId": id });
    let long = "x".repeat(70);
    let paths = json!({
        "/a": { "get": id("get things!"), "post": id("get_things") },
        "/a/{id}/b.c": { "delete": {}, "head": id("  ") },
        "/b": { "get": id(&long), "put": id(&format!("{long}y")) },
        "/c": { "get": id("über"), "post": id("日本") }
    });
    let all = imported(&description(&paths, &json!({})));
    let expected = [
        "get_things",
        "get_things_2",
        "head_a_id_b_c",
        "delete_a_id_b_c",
        &"x".repeat(64),
        &format!("{}_2", "x".repeat(62)),
        "ber",
        "call",
    ];
    assert_eq!(names(&all), expected);
    app(&all);
}

#[test]
fn operations_are_chosen_by_id_name_line_or_tag_and_deprecated_ones_only_by_name() {
    let paths = json!({
        "/a": { "get": { "operationId": "a", "tags": ["x"] }, "post": { "operationId": "b", "tags": ["y", "x"] } },
        "/c": { "put": { "tags": ["y"] }, "get": { "operationId": "old", "deprecated": true, "tags": ["x"] } }
    });
    let description = description(&paths, &json!({}));
    let chosen = |only: &[&str], tags: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let wanted = ImportChoice { only: owned(only), tags: owned(tags), ..ImportChoice::default() };
        let imported = import(&read(&description), &wanted).unwrap_or_else(|trouble| panic!("{trouble}"));
        names(&imported).join(" ")
    };
    assert_eq!(chosen(&[], &[]), "a b put_c");
    assert_eq!(chosen(&["b", "PUT /c"], &[]), "b put_c");
    assert_eq!(chosen(&["put_c", "old"], &[]), "old put_c");
    assert_eq!(chosen(&[], &["y"]), "b put_c");
    assert_eq!(chosen(&[], &["x"]), "a b");
    let none = ImportChoice { only: vec!["z".into()], ..ImportChoice::default() };
    assert!(refusal(&description, &none).contains("there is a, b, old, PUT /c"));
}

#[test]
fn what_a_tool_is_said_to_do_is_one_line_and_never_missing() {
    let described = |operation: Value| {
        let imported = one("get", "/a/{id}", operation);
        let app = app(&imported);
        app.declared.first().unwrap().description.clone().unwrap()
    };
    assert_eq!(described(json!({})), "GET /a/{id}");
    assert_eq!(
        described(json!({ "summary": "Reads.", "description": "One\r\n\tthing." })),
        "Reads. One thing."
    );
    assert_eq!(described(json!({ "summary": "Reads", "description": "Reads a thing" })), "Reads a thing");
    assert_eq!(described(json!({ "description": "\u{1b}[2Ja\u{202e}b\u{200b}c\u{e0041}" })), "[2Jabc");
    let long = described(json!({ "description": "é".repeat(1025) }));
    assert_eq!(long, format!("{}…", "é".repeat(1023)));
    assert_eq!(described(json!({ "description": "é".repeat(1024) })), "é".repeat(1024));
}

#[test]
fn a_server_is_that_of_the_operation_its_path_or_the_description_with_its_variables() {
    let at = |url: &str| json!([{ "url": url }]);
    let paths = json!({
        "/a": { "get": {}, "post": { "servers": at("https://post.example.com/x/") } },
        "/b": { "servers": at("https://b.example.com"), "get": {} }
    });
    let mut whole = description(&paths, &json!({}));
    whole["servers"] = json!([{ "url": "https://{host}.example.com:8443/{v}",
        "variables": { "host": { "default": "eu" }, "v": { "default": "v2" } } }]);
    let urls = |imported: &ImportedTools| -> Vec<String> {
        let url = |tool: &super::ToolDeclaration| tool.table["http"]["url"].as_str().unwrap().to_owned();
        imported.tools.iter().map(url).collect()
    };
    let expected =
        ["https://eu.example.com:8443/v2/a", "https://post.example.com/x/a", "https://b.example.com/b"];
    assert_eq!(urls(&imported(&whole)), expected);
    let wanted = ImportChoice { base_url: Some("http://localhost:9/api".into()), ..ImportChoice::default() };
    let moved = import(&read(&whole), &wanted).unwrap_or_else(|trouble| panic!("{trouble}"));
    assert_eq!(
        urls(&moved),
        ["http://localhost:9/api/a"; 2].into_iter().chain(["http://localhost:9/api/b"]).collect::<Vec<_>>()
    );
    for url in [
        "/v1",
        "",
        "ftp://example.com",
        "https://{unknown}.example.com",
        "https://example.com/?a=b",
        "https://u:p@example.com",
    ] {
        whole["servers"] = at(url);
        whole["paths"] = json!({ "/a": { "get": {} } });
        let reason = refusal(&whole, &ImportChoice::default());
        assert!(reason.contains("--base-url") || reason.contains("password"), "{url}: {reason}");
    }
    whole.as_object_mut().unwrap().remove("servers");
    assert!(refusal(&whole, &ImportChoice::default()).contains("give the whole one with --base-url"));
}

#[test]
fn what_is_too_large_for_one_file_is_refused() {
    let operation = json!({ "description": "x".repeat(1024), "parameters": (0..4).map(|i| json!({
        "name": format!("p{i}"), "in": "query", "schema": { "description": "y".repeat(1000) } })).collect::<Vec<_>>() });
    let paths: Value = (0..100).map(|i| (format!("/{i}"), json!({ "get": operation }))).collect();
    assert!(
        refusal(&description(&paths, &json!({})), &ImportChoice::default())
            .contains("256 KiB, the maximum of one file; choose fewer")
    );
    assert!(refusal(&description(&json!({}), &json!({})), &ImportChoice::default()).contains("has no paths"));
}
