//! The description is true to the routes and complete in itself.

mod description;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

/// The description as clients get it.
fn description() -> Value {
    serde_json::from_slice(&openapi::document(&crate::Proxying::default())).unwrap()
}

#[test]
fn the_file_has_what_the_attributes_say() {
    let described = description::description();
    let text = serde_json::to_string_pretty(&described).unwrap() + "\n";
    let new = Path::new(FILE).with_extension("json.new");
    let is_same = std::fs::read_to_string(FILE).is_ok_and(|kept| kept == text);
    if !is_same {
        std::fs::write(&new, text).unwrap();
    }
    assert!(is_same, "the API is not the one in openapi.json: rename {} if it is good", new.display());
    let sent = openapi::document(&crate::Proxying::default());
    assert_eq!(std::str::from_utf8(&sent).unwrap(), serde_json::to_string(&described).unwrap());
}

fn operations(description: &Value) -> Vec<(String, &Value)> {
    let paths = description["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &'_ Value)| {
        let methods: Vec<_> = item.as_object().unwrap().keys().map(|m| (m.clone(), path.clone())).collect();
        methods
    };
    let mut all: Vec<_> = paths.iter().flat_map(of).collect();
    all.sort_by(|(method, path), other| (path, method).cmp(&(&other.1, &other.0)));
    let name = |(method, path): (String, String)| {
        let operation = &paths[&path][&method];
        (format!("{} {path}", method.to_uppercase()), operation)
    };
    all.into_iter().map(name).collect()
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(String::from));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const ROUTES: [&str; 132] = [
    "POST /ag-ui/{app}",
    "POST /api/chat",
    "POST /api/chat/{chat}/stop",
    "GET /api/chat/{chat}/stream",
    "GET /healthz",
    "POST /openai/v1/chat/completions",
    "POST /openai/v1/conversations",
    "DELETE /openai/v1/conversations/{conversation}",
    "GET /openai/v1/conversations/{conversation}",
    "GET /openai/v1/conversations/{conversation}/items",
    "POST /openai/v1/embeddings",
    "GET /openai/v1/models",
    "GET /openai/v1/models/{model}",
    "POST /openai/v1/responses",
    "DELETE /openai/v1/responses/{response}",
    "GET /openai/v1/responses/{response}",
    "POST /openai/v1/responses/{response}/cancel",
    "GET /openai/v1/responses/{response}/input_items",
    "GET /openapi.json",
    "GET /readyz",
    "GET /v1/actions/{action}",
    "GET /v1/actions/{action}/undo",
    "POST /v1/actions/{action}/undo",
    "GET /v1/admin/audit",
    "GET /v1/admin/jobs",
    "POST /v1/admin/jobs/{job}/retry",
    "GET /v1/admin/keys",
    "POST /v1/admin/keys",
    "DELETE /v1/admin/keys/{key}",
    "POST /v1/admin/keys/{key}/rotate",
    "GET /v1/admin/ledger",
    "GET /v1/admin/mcp",
    "GET /v1/admin/mcp/{app}/{server}",
    "POST /v1/admin/mcp/{app}/{server}/approve",
    "POST /v1/admin/mcp/{app}/{server}/refresh",
    "POST /v1/admin/mcp/{app}/{server}/revoke",
    "GET /v1/admin/runs",
    "POST /v1/admin/runs/{run}/cancel",
    "GET /v1/admin/sessions",
    "DELETE /v1/admin/sessions/{session}",
    "GET /v1/admin/stats",
    "GET /v1/admin/usage",
    "GET /v1/apps",
    "GET /v1/apps/{app}/actions",
    "GET /v1/apps/{app}/calls",
    "GET /v1/apps/{app}/credentials",
    "DELETE /v1/apps/{app}/credentials/{name}",
    "PUT /v1/apps/{app}/credentials/{name}",
    "GET /v1/apps/{app}/documents",
    "POST /v1/apps/{app}/documents",
    "POST /v1/apps/{app}/documents/search",
    "GET /v1/apps/{app}/file-versions/{path}",
    "GET /v1/apps/{app}/files",
    "DELETE /v1/apps/{app}/files/{path}",
    "GET /v1/apps/{app}/files/{path}",
    "PUT /v1/apps/{app}/files/{path}",
    "GET /v1/apps/{app}/images",
    "POST /v1/apps/{app}/images",
    "GET /v1/apps/{app}/knowledge",
    "GET /v1/apps/{app}/memories",
    "POST /v1/apps/{app}/memories",
    "GET /v1/apps/{app}/memories/export",
    "POST /v1/apps/{app}/memories/import",
    "POST /v1/apps/{app}/memories/search",
    "GET /v1/apps/{app}/memories/settings",
    "PUT /v1/apps/{app}/memories/settings",
    "GET /v1/apps/{app}/personas",
    "POST /v1/apps/{app}/personas",
    "DELETE /v1/apps/{app}/personas/{persona}",
    "GET /v1/apps/{app}/personas/{persona}",
    "PATCH /v1/apps/{app}/personas/{persona}",
    "GET /v1/apps/{app}/pins",
    "POST /v1/apps/{app}/pins",
    "GET /v1/apps/{app}/proposals",
    "GET /v1/apps/{app}/records",
    "GET /v1/apps/{app}/records/{type}",
    "POST /v1/apps/{app}/records/{type}",
    "DELETE /v1/apps/{app}/records/{type}/{record}",
    "GET /v1/apps/{app}/records/{type}/{record}",
    "PATCH /v1/apps/{app}/records/{type}/{record}",
    "PUT /v1/apps/{app}/records/{type}/{record}",
    "GET /v1/apps/{app}/records/{type}/{record}/versions",
    "POST /v1/apps/{app}/runs",
    "GET /v1/apps/{app}/search",
    "GET /v1/apps/{app}/threads",
    "POST /v1/apps/{app}/threads",
    "POST /v1/apps/{app}/threads/import",
    "GET /v1/apps/{app}/threads/search",
    "GET /v1/calls/{call}",
    "POST /v1/calls/{call}/result",
    "DELETE /v1/documents/{document}",
    "GET /v1/documents/{document}",
    "GET /v1/documents/{document}/text",
    "GET /v1/events",
    "DELETE /v1/images/{image}",
    "GET /v1/images/{image}",
    "GET /v1/me",
    "PATCH /v1/me",
    "DELETE /v1/memories/{memory}",
    "GET /v1/memories/{memory}",
    "PATCH /v1/memories/{memory}",
    "GET /v1/memories/{memory}/history",
    "POST /v1/memories/{memory}/restore",
    "GET /v1/models",
    "DELETE /v1/pins/{pin}",
    "GET /v1/proposals/{proposal}",
    "POST /v1/proposals/{proposal}/confirm",
    "POST /v1/proposals/{proposal}/reject",
    "GET /v1/runs/{run}",
    "POST /v1/runs/{run}/cancel",
    "GET /v1/runs/{run}/events",
    "GET /v1/runs/{run}/prompt",
    "GET /v1/runs/{run}/undo",
    "POST /v1/runs/{run}/undo",
    "DELETE /v1/session",
    "GET /v1/session",
    "POST /v1/session",
    "GET /v1/threads",
    "DELETE /v1/threads/{thread}",
    "GET /v1/threads/{thread}",
    "PATCH /v1/threads/{thread}",
    "GET /v1/threads/{thread}/events",
    "GET /v1/threads/{thread}/export",
    "PUT /v1/threads/{thread}/head",
    "GET /v1/threads/{thread}/messages",
    "GET /v1/threads/{thread}/pins",
    "POST /v1/threads/{thread}/pins",
    "GET /v1/threads/{thread}/queue",
    "GET /v1/threads/{thread}/summaries",
    "GET /v1/threads/{thread}/tree",
    "GET /v1/usage",
    "POST /{app}/stream",
];

#[test]
fn every_route_is_described_once() {
    let description = description();
    let names: Vec<_> = operations(&description).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ROUTES);
}

#[test]
fn every_operation_has_a_name_of_its_own_and_the_problem() {
    let description = description();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&description) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name} shares its operationId");
        let (form, schema) = if name.contains(" /openai/") {
            ("application/json", "OpenAiErrorBody")
        } else {
            ("application/problem+json", "Problem")
        };
        let problem = &operation["responses"]["default"]["content"][form]["schema"];
        assert_eq!(problem, &json!({"$ref": format!("#/components/schemas/{schema}")}), "{name}");
    }
}

/// Routes that take an idempotency key.
const KEYED: [&str; 59] = [
    "POST /ag-ui/{app}",
    "POST /api/chat",
    "POST /api/chat/{chat}/stop",
    "POST /openai/v1/chat/completions",
    "POST /openai/v1/conversations",
    "DELETE /openai/v1/conversations/{conversation}",
    "POST /openai/v1/embeddings",
    "POST /openai/v1/responses",
    "DELETE /openai/v1/responses/{response}",
    "POST /openai/v1/responses/{response}/cancel",
    "POST /v1/actions/{action}/undo",
    "POST /v1/admin/jobs/{job}/retry",
    "POST /v1/admin/keys",
    "DELETE /v1/admin/keys/{key}",
    "POST /v1/admin/keys/{key}/rotate",
    "POST /v1/admin/mcp/{app}/{server}/approve",
    "POST /v1/admin/mcp/{app}/{server}/refresh",
    "POST /v1/admin/mcp/{app}/{server}/revoke",
    "POST /v1/admin/runs/{run}/cancel",
    "DELETE /v1/admin/sessions/{session}",
    "DELETE /v1/apps/{app}/credentials/{name}",
    "PUT /v1/apps/{app}/credentials/{name}",
    "POST /v1/apps/{app}/documents",
    "DELETE /v1/apps/{app}/files/{path}",
    "PUT /v1/apps/{app}/files/{path}",
    "POST /v1/apps/{app}/images",
    "POST /v1/apps/{app}/memories",
    "POST /v1/apps/{app}/memories/import",
    "PUT /v1/apps/{app}/memories/settings",
    "POST /v1/apps/{app}/personas",
    "DELETE /v1/apps/{app}/personas/{persona}",
    "PATCH /v1/apps/{app}/personas/{persona}",
    "POST /v1/apps/{app}/pins",
    "POST /v1/apps/{app}/records/{type}",
    "DELETE /v1/apps/{app}/records/{type}/{record}",
    "PATCH /v1/apps/{app}/records/{type}/{record}",
    "PUT /v1/apps/{app}/records/{type}/{record}",
    "POST /v1/apps/{app}/runs",
    "POST /v1/apps/{app}/threads",
    "POST /v1/apps/{app}/threads/import",
    "POST /v1/calls/{call}/result",
    "DELETE /v1/documents/{document}",
    "DELETE /v1/images/{image}",
    "PATCH /v1/me",
    "DELETE /v1/memories/{memory}",
    "PATCH /v1/memories/{memory}",
    "POST /v1/memories/{memory}/restore",
    "DELETE /v1/pins/{pin}",
    "POST /v1/proposals/{proposal}/confirm",
    "POST /v1/proposals/{proposal}/reject",
    "POST /v1/runs/{run}/cancel",
    "POST /v1/runs/{run}/undo",
    "DELETE /v1/session",
    "POST /v1/session",
    "DELETE /v1/threads/{thread}",
    "PATCH /v1/threads/{thread}",
    "PUT /v1/threads/{thread}/head",
    "POST /v1/threads/{thread}/pins",
    "POST /{app}/stream",
];

#[test]
fn what_changes_anything_takes_an_idempotency_key() {
    let description = description();
    let takes = |operation: &Value| {
        let parameters = operation["parameters"].as_array();
        parameters.into_iter().flatten().any(|parameter| parameter["name"] == "Idempotency-Key")
    };
    let operations = operations(&description);
    let keyed: Vec<_> =
        operations.iter().filter(|(_, operation)| takes(operation)).map(|(name, _)| name.as_str()).collect();
    assert_eq!(keyed, KEYED);
    assert_eq!(description["components"]["securitySchemes"]["key"]["scheme"], "bearer");
    assert_eq!(description["security"], json!([{ "key": [] }, {}]));
}

#[test]
fn every_reference_has_a_target() {
    let description = description();
    let mut found = BTreeSet::new();
    references(&description, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(description.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn every_event_has_a_schema() {
    let description = description();
    for kind in protocol::Kind::ALL {
        let schema = format!("{kind:?}");
        assert!(description["components"]["schemas"].get(&schema).is_some(), "{schema} is missing");
    }
}
