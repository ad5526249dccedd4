//! The requests that are sent: parameters, bodies and secrets.

use serde_json::{Map, Value, json};

use super::{app, argument, imported, left_out, notes, one, one_with, parameters, refusal, sent};
use crate::tools::openapi::ImportChoice;
use crate::tools::openapi::tests::description;

fn with(parameters: Value) -> Value {
    Value::Object(Map::from_iter([("parameters".to_owned(), parameters)]))
}

fn body(media: &str, schema: Value) -> Value {
    let mut operation = json!({ "requestBody": { "content": { media: {} } } });
    operation["requestBody"]["content"][media]["schema"] = schema;
    operation
}

#[test]
fn parameters_go_to_their_places_and_are_left_out_when_not_given() {
    let text = json!({ "type": "string" });
    let operation = with(json!([
        { "name": "pet-id", "in": "path", "required": true, "schema": { "type": "integer" } },
        { "name": "filter[kind]", "in": "query", "schema": text },
        { "name": "X-Trace.Id", "in": "header", "schema": text },
        { "name": "1st", "in": "query", "required": true, "schema": text }
    ]));
    let imported = one("get", "/pets/{pet-id}/{undescribed}", operation);
    let expected = json!(["pet_id", "_1st", "undescribed"]);
    assert_eq!(parameters(&imported)["required"], expected);
    assert_eq!(parameters(&imported)["additionalProperties"], json!(false));
    let all =
        json!({ "pet_id": 7, "filter_kind": "a&b", "X_Trace_Id": "t", "_1st": "1", "undescribed": "a/b" });
    let (url, headers, _) = sent(&imported, all);
    assert_eq!(url, "https://api.example.com/v1/pets/7/a%2Fb?filter%5Bkind%5D=a%26b&1st=1");
    assert_eq!(headers, [("X-Trace.Id".to_owned(), "t".to_owned())]);
    let (url, headers, _) = sent(&imported, json!({ "pet_id": 7, "_1st": "1", "undescribed": "x" }));
    assert_eq!((url.as_str(), headers.len()), ("https://api.example.com/v1/pets/7/x?1st=1", 0));
}

#[test]
fn an_operation_s_parameter_replaces_its_path_s() {
    let paths = json!({ "/a": {
        "parameters": [{ "name": "q", "in": "query", "schema": { "type": "string" } }],
        "get": { "parameters": [{ "name": "q", "in": "query", "required": true, "schema": { "type": "integer" } }] }
    } });
    let imported = imported(&description(&paths, &json!({})));
    assert_eq!(argument(&imported, "q"), json!({ "type": "integer" }));
    assert_eq!(parameters(&imported)["required"], json!(["q"]));
}

#[test]
fn arguments_of_the_same_name_are_told_apart_by_their_place() {
    let schema = json!({ "type": "object", "properties": { "id": { "type": "string" }, "id_body": {}, "a b": {}, "a.b": {} } });
    let mut operation = body("application/json", schema);
    operation["parameters"] = json!([{ "name": "id", "in": "path", "required": true, "schema": {} },
        { "name": "id", "in": "query", "schema": {} }]);
    let imported = one("put", "/a/{id}", operation);
    let input = json!({ "id": 1, "id_query": 2, "id_body": "3", "id_body_body": 4, "a_b": 5, "a_b_body": 6 });
    let (url, _, body) = sent(&imported, input);
    assert_eq!(url, "https://api.example.com/v1/a/1?id=2");
    assert_eq!(body, json!({ "id": "3", "id_body": 4, "a b": 5, "a.b": 6 }));
}

#[test]
fn lists_are_joined_where_a_description_allows_and_else_one_value_is_taken() {
    let list = json!({ "type": "array", "items": { "type": "integer" }, "description": "Which" });
    let operation = with(json!([
        { "name": "ids", "in": "path", "required": true, "schema": list },
        { "name": "comma", "in": "query", "explode": false, "schema": list },
        { "name": "pipe", "in": "query", "style": "pipeDelimited", "schema": list },
        { "name": "space", "in": "query", "style": "spaceDelimited", "schema": list },
        { "name": "each", "in": "query", "schema": list },
        { "name": "X-List", "in": "header", "schema": list }
    ]));
    let imported = one("get", "/a/{ids}", operation);
    assert_eq!(notes(&imported), ["\"each\" takes one value, since a name cannot be repeated"]);
    assert_eq!(argument(&imported, "each"), json!({ "type": "integer", "description": "Which" }));
    let lists = json!([1, 2]);
    let input =
        json!({ "ids": lists, "comma": lists, "pipe": lists, "space": lists, "each": 3, "X_List": lists });
    let (url, headers, _) = sent(&imported, input);
    assert_eq!(url, "https://api.example.com/v1/a/1%2C2?comma=1%2C2&pipe=1%7C2&space=1+2&each=3");
    assert_eq!(headers, [("X-List".to_owned(), "1,2".to_owned())]);
    let (url, headers, _) = sent(&imported, json!({ "ids": [1], "comma": [] }));
    assert_eq!((url.as_str(), headers.len()), ("https://api.example.com/v1/a/1", 0));
}

#[test]
fn objects_of_a_query_are_taken_apart_and_json_is_json() {
    let object = json!({ "type": "object", "required": ["min"], "properties": {
        "min": { "type": "integer" }, "deep": { "type": "object" } } });
    let operation = with(json!([
        { "name": "range", "in": "query", "style": "deepObject", "required": true, "schema": object },
        { "name": "flat", "in": "query", "schema": { "type": "object", "properties": { "size": { "type": "integer" } } } },
        { "name": "where", "in": "query", "content": { "application/json": { "schema": { "type": "object" } } } },
        { "name": "open", "in": "query", "schema": { "type": "object" } }
    ]));
    let imported = one("get", "/a", operation);
    let (url, _, _) = sent(&imported, json!({ "range_min": 1, "size": 2, "where": { "a": "b" } }));
    assert_eq!(url, "https://api.example.com/v1/a?range%5Bmin%5D=1&size=2&where=%7B%22a%22%3A+%22b%22%7D");
    assert_eq!(parameters(&imported)["required"], json!(["range_min"]));
    assert_eq!(sent(&imported, json!({ "range_min": 1 })).0, "https://api.example.com/v1/a?range%5Bmin%5D=1");
    let expected = [
        "\"range[deep]\" is more than one value, and is left out",
        "the parameter \"open\" is an object whose fields cannot be told apart, and is left out",
    ];
    assert_eq!(notes(&imported), expected);
    let must = json!([{ "name": "open", "in": "query", "required": true, "schema": { "type": "object" } }]);
    assert!(left_out("get", "/a", with(must)).contains("cannot be told apart"));
    let matrix = json!([{ "name": "id", "in": "path", "required": true, "style": "matrix", "schema": {} }]);
    assert!(left_out("get", "/a/{id}", with(matrix)).contains("in the style \"matrix\""));
}

#[test]
fn cookies_and_headers_that_are_not_a_call_s_are_no_arguments() {
    let header = |name: &str| json!({ "name": name, "in": "header", "required": true, "schema": { "type": "string" } });
    let imported = one(
        "get",
        "/a",
        with(
            json!([header("Accept"), header("content-type"), header("Authorization"), header("Idempotency-Key"),
            header("Host"), { "name": "sid", "in": "cookie", "schema": {} }]),
        ),
    );
    assert_eq!(parameters(&imported)["properties"], json!({}));
    assert_eq!(notes(&imported), ["the cookie \"sid\" is left out"]);
    assert!(left_out("get", "/a", with(json!([header("a b")]))).contains("cannot be a header's name"));
}

#[test]
fn a_body_is_json_a_form_or_text_and_nothing_else() {
    let object = json!({ "type": "object", "required": ["a"], "properties": {
        "a": { "type": "string" }, "n": { "type": "integer" }, "l": { "type": "array", "items": { "type": "string" } } } });
    let json_body = one("post", "/a", body("application/json; charset=utf-8", object.clone()));
    assert_eq!(parameters(&json_body)["required"], json!(["a"]));
    assert_eq!(sent(&json_body, json!({ "a": "x", "l": ["y"] })).2, json!({ "a": "x", "l": ["y"] }));
    let own = one("patch", "/a", body("application/merge-patch+json", object.clone()));
    let (_, headers, sent_body) = sent(&own, json!({ "a": "x", "n": 1 }));
    assert_eq!(headers, [("Content-Type".to_owned(), "application/merge-patch+json".to_owned())]);
    assert_eq!(sent_body, json!({ "a": "x", "n": 1 }));
    let form = one("post", "/a", body("application/x-www-form-urlencoded", object));
    assert_eq!(notes(&form), ["\"l\" takes one value, since a name cannot be repeated"]);
    assert_eq!(sent(&form, json!({ "a": "x y", "l": "z" })).2, json!({ "form": [["a", "x y"], ["l", "z"]] }));
    let text = one("post", "/a", body("text/plain", json!({ "type": "string" })));
    assert_eq!(sent(&text, json!({ "body": "x" })).2, json!({ "text": "x" }));
    let list = json!({ "type": "array", "items": { "type": "integer" } });
    let whole = one("post", "/a", body("application/json", list.clone()));
    assert_eq!((argument(&whole, "body"), parameters(&whole)["required"].clone()), (list, json!(["body"])));
    assert_eq!(sent(&whole, json!({ "body": [1, 2] })).2, json!([1, 2]));
    let choice = json!({ "type": "object", "properties": { "a": {} }, "oneOf": [{ "required": ["a"] }, {}] });
    assert!(argument(&one("post", "/a", body("application/json", choice)), "body")["oneOf"].is_array());
    for media in ["multipart/form-data", "application/octet-stream", "application/xml"] {
        assert!(left_out("post", "/a", body(media, json!({}))).contains(&format!("its body is {media}")));
    }
}

#[test]
fn a_method_that_has_no_body_gets_none() {
    let mut operation = body("application/json", json!({ "type": "object", "properties": { "a": {} } }));
    let imported = one("get", "/a", operation.clone());
    assert_eq!(notes(&imported), ["a body cannot be sent with this method, and is left out"]);
    operation["requestBody"]["required"] = json!(true);
    assert!(left_out("get", "/a", operation).contains("a body cannot be sent"));
}

#[test]
fn each_way_to_be_authorised_has_its_place_and_its_secret() {
    let schemes = json!({ "securitySchemes": {
        "bearer": { "type": "http", "scheme": "Bearer" },
        "basic": { "type": "http", "scheme": "basic" },
        "digest": { "type": "http", "scheme": "digest" },
        "Head-Key": { "type": "apiKey", "in": "header", "name": "X-Key" },
        "query": { "type": "apiKey", "in": "query", "name": "api_key" },
        "cookie": { "type": "apiKey", "in": "cookie", "name": "sid" },
        "oauth": { "type": "oauth2", "flows": {} },
        "odd": { "type": "apiKey", "in": "header", "name": "a: b\r\nc" }
    } });
    let security = |security: Value| {
        let imported = one_with("get", "/a", json!({ "security": security }), &schemes);
        let (url, headers, _) = sent(&imported, json!({}));
        let app = app(&imported);
        let names: Vec<String> = app.secrets().keys().map(|name| (*name).to_owned()).collect();
        let headers: Vec<String> =
            headers.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        (names.join(" "), headers.join(" "), url.split_once('?').map(|(_, query)| query.to_owned()))
    };
    let own = |name: &str| format!("api_example_com_{name}");
    assert_eq!(
        security(json!([{ "bearer": [] }])),
        (own("bearer"), "Authorization: Bearer s3cret".into(), None)
    );
    assert_eq!(
        security(json!([{ "basic": [] }])),
        (own("basic"), "Authorization: Basic s3cret".into(), None)
    );
    assert_eq!(
        security(json!([{ "oauth": ["x"] }])),
        (own("oauth"), "Authorization: Bearer s3cret".into(), None)
    );
    assert_eq!(security(json!([{ "Head-Key": [] }])), (own("head_key"), "X-Key: s3cret".into(), None));
    assert_eq!(security(json!([{ "cookie": [] }])), (own("cookie"), "Cookie: sid=s3cret".into(), None));
    assert_eq!(
        security(json!([{ "query": [] }])),
        (own("query"), String::new(), Some("api_key=s3cret".into()))
    );
    let both = format!("{} {}", own("head_key"), own("query"));
    assert_eq!(security(json!([{ "Head-Key": [], "query": [] }])).0, both);
    assert_eq!(
        security(json!([{ "digest": [] }, { "bearer": [] }])).0,
        own("bearer"),
        "the first that can be declared"
    );
    assert_eq!(security(json!([{ "bearer": [] }, {}])).0, "", "it is not needed");
    assert_eq!(security(json!([])).0, "");
    for (security, reason) in [
        (json!([{ "digest": [] }]), "cannot be declared"),
        (json!([{ "odd": [] }]), "cannot be declared"),
        (json!([{ "gone": [] }]), "is not in the description"),
        (json!([{ "basic": [], "bearer": [] }]), "go to the same place"),
    ] {
        let paths = json!({ "/a": { "get": { "security": security } } });
        let refused = refusal(&description(&paths, &schemes), &ImportChoice::default());
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn a_secret_takes_the_place_of_a_parameter_and_security_of_the_whole_can_be_lifted() {
    let schemes =
        json!({ "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "X-Key" } } });
    let key = json!([{ "name": "x-key", "in": "header", "required": true, "schema": { "type": "string" } }]);
    let paths = json!({ "/a": { "get": { "parameters": key }, "post": { "security": [] } } });
    let mut whole = description(&paths, &schemes);
    whole["security"] = json!([{ "key": [] }]);
    let imported = imported(&whole);
    assert_eq!(parameters(&imported)["properties"], json!({}));
    let with: Vec<usize> = imported.tools.iter().map(|tool| tool.credentials.len()).collect();
    assert_eq!(with, [1, 0]);
}

#[test]
fn what_an_app_could_not_have_is_left_out() {
    let parameter = |i: usize| json!({ "name": format!("p{i}"), "in": "query", "schema": {} });
    let many = |count: usize| with((0..count).map(parameter).collect());
    app(&one("get", "/a", many(64)));
    assert!(left_out("get", "/a", many(65)).contains("more than 64 entries"));
    let fields = |count: usize| -> Value { (0..count).map(|i| (format!("f{i}"), json!({}))).collect() };
    let object =
        |count: usize| body("application/json", json!({ "type": "object", "properties": fields(count) }));
    app(&one("post", "/a", object(200)));
    assert!(left_out("post", "/a", object(201)).contains("more than 200 arguments"));
}
