//! Records: made, listed, searched, changed under the version they have, deleted. Other users do not see them.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Answer, TestApp};

use crate::support::{delete, good, patch, problem, refused};

const PARTS: &str = "/v1/apps/test/records/part";
const MISSING: &str = "rec_ffffffffffffffffffffffffffffffff";

/// The app `test`, with two types of records.
async fn start() -> TestApp {
    let part = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1 },
            "age": { "type": "integer", "minimum": 0 },
            "calm": { "type": "boolean" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "story": { "type": "string" },
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    let note = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "about": { "type": "array", "items": { "type": "string", "format": "record:part" } },
        },
        "additionalProperties": false,
    });
    let app = TestApp::start().await;
    let folder = app.data().join("../apps/test/records");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, schema) in [("part.json", part), ("note.json", note)] {
        std::fs::write(folder.join(name), schema.to_string()).unwrap();
    }
    app.restart().await
}

async fn make(app: &TestApp, data: Value) -> Value {
    good(app.post(PARTS, &data).await)
}

fn path(record: &Value) -> String {
    format!("{PARTS}/{}", record["id"].as_str().unwrap())
}

fn names(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|record| record["data"]["name"].as_str().unwrap()).collect()
}

async fn list(app: &TestApp, query: &str) -> Value {
    good(app.get(&format!("{PARTS}{query}")).await)
}

async fn replace(app: &TestApp, path: &str, data: &Value) -> Answer {
    app.send(app.request(Method::PUT, path).json(data)).await
}

/// A front end makes forms from the schemas, and shows what a proposed call would change.
#[tokio::test]
async fn the_types_of_an_app_are_listed_with_their_tools() {
    let app = start().await;
    let file = app.data().join("../apps/test/app.toml");
    let toml = std::fs::read_to_string(&file).unwrap();
    let tool = "[tool.addPart]\nrecord = \"part\"\ndoes = \"create\"\n";
    std::fs::write(&file, format!("{toml}\n{tool}")).unwrap();
    let app = app.restart().await;
    let types = good(app.get("/v1/apps/test/records").await);
    assert_eq!(
        (&types["data"][0]["type"], &types["data"][1]["type"]),
        (&json!("note"), &json!("part")),
        "{types}"
    );
    assert_eq!(types["data"][0]["tools"], json!([]));
    assert_eq!(types["data"][1]["tools"], json!([{ "name": "addPart", "does": "create" }]));
    assert_eq!(types["data"][1]["schema"]["required"], json!(["name"]));
    refused(app.get("/v1/apps/missing/records").await, 404, "not_found");
}

#[tokio::test]
async fn a_record_is_made_read_changed_and_deleted() {
    let app = start().await;
    let made = app.post(PARTS, &json!({ "name": "Critic", "age": 7 })).await;
    assert_eq!(made.status, 201);
    let made = good(made);
    insta::assert_json_snapshot!("a_new_record", made);
    assert_eq!(good(app.get(&path(&made)).await), made);

    let merged = good(patch(&app, &path(&made), &json!({ "calm": true, "age": null })).await);
    assert_eq!(
        (&merged["version"], &merged["data"]),
        (&json!(2), &json!({ "name": "Critic", "calm": true }))
    );
    let replaced = good(replace(&app, &path(&made), &json!({ "name": "Guide" })).await);
    assert_eq!((&replaced["version"], &replaced["data"]), (&json!(3), &json!({ "name": "Guide" })));
    assert_eq!(good(app.get(&path(&made)).await), replaced);

    assert_eq!(delete(&app, &path(&made)).await.status, 204);
    refused(app.get(&path(&made)).await, 404, "not_found");
    refused(delete(&app, &path(&made)).await, 404, "not_found");
    refused(replace(&app, &path(&made), &json!({ "name": "x" })).await, 404, "not_found");
    refused(patch(&app, &path(&made), &json!({ "name": "x" })).await, 404, "not_found");
    assert_eq!(list(&app, "").await, json!({ "data": [], "next": null }));
}

#[tokio::test]
async fn data_that_does_not_follow_the_schema_is_refused() {
    let app = start().await;
    let made = make(&app, json!({ "name": "Critic" })).await;
    for (data, place) in [
        (json!({}), "name"),
        (json!({ "name": 5 }), "/name: "),
        (json!({ "name": "" }), "/name: "),
        (json!({ "name": "x", "age": -1 }), "/age: "),
        (json!({ "name": "x", "tags": ["a", 1] }), "/tags/1: "),
        (json!({ "name": "x", "userId": "eve" }), "userId"),
    ] {
        for answer in [app.post(PARTS, &data).await, replace(&app, &path(&made), &data).await] {
            let detail = refused(answer, 422, "invalid_request");
            assert!(detail.contains(place), "{data}: {detail}");
        }
    }
    refused(patch(&app, &path(&made), &json!({ "name": null })).await, 422, "invalid_request");
    refused(patch(&app, &path(&made), &json!({ "age": 0.5 })).await, 422, "invalid_request");
    let twice = app.request(Method::POST, PARTS).header("content-type", "application/json");
    let detail = refused(app.send(twice.body(r#"{"name":"a","name":"b"}"#)).await, 422, "invalid_request");
    assert!(detail.contains("duplicate field `name`"), "{detail}");
    for no_object in [json!([]), json!("x"), json!(null)] {
        refused(app.post(PARTS, &no_object).await, 422, "invalid_request");
    }
    let long = json!({ "name": "x".repeat(64 * 1024) });
    refused(app.post(PARTS, &long).await, 413, "too_large");
    assert_eq!(list(&app, "").await["data"], json!([made]));
}

#[tokio::test]
async fn a_record_names_only_records_that_are_there() {
    let app = start().await;
    let notes = "/v1/apps/test/records/note";
    let part = make(&app, json!({ "name": "Critic" })).await;
    let note = good(app.post(notes, &json!({ "about": [part["id"]] })).await);
    let at = format!("{notes}/{}", note["id"].as_str().unwrap());
    for wrong in [json!(MISSING), note["id"].clone(), json!("the critic")] {
        let body = json!({ "about": [part["id"], wrong] });
        for answer in
            [app.post(notes, &body).await, replace(&app, &at, &body).await, patch(&app, &at, &body).await]
        {
            let detail = refused(answer, 422, "invalid_request");
            assert!(detail.contains("/about/1: there is no part"), "{detail}");
        }
    }
    // A record that it named before may be gone; it can be changed all the same.
    assert_eq!(delete(&app, &path(&part)).await.status, 204);
    assert_eq!(good(patch(&app, &at, &json!({ "text": "Alone" })).await)["version"], 2);
}

#[tokio::test]
async fn an_address_without_a_record_is_not_found() {
    let app = start().await;
    let made = make(&app, json!({ "name": "Critic" })).await;
    let id = made["id"].as_str().unwrap();
    for wrong in [
        "/v1/apps/nobody/records/part".to_owned(),
        "/v1/apps/test/records/nothing".to_owned(),
        "/v1/apps/test/records/Part".to_owned(),
        format!("/v1/apps/test/records/note/{id}"),
        format!("/v1/apps/nobody/records/part/{id}"),
        format!("{PARTS}/{MISSING}"),
        format!("{PARTS}/rec_1"),
        format!("{PARTS}/{}", id.replace("rec_", "mem_")),
    ] {
        refused(app.get(&wrong).await, 404, "not_found");
    }
    refused(app.post("/v1/apps/test/records/nothing", &json!({})).await, 404, "not_found");
    refused(delete(&app, &format!("/v1/apps/test/records/note/{id}")).await, 404, "not_found");
    assert_eq!(good(app.get(&path(&made)).await), made);
}

#[tokio::test]
async fn a_record_is_changed_only_under_the_version_it_has() {
    let app = start().await;
    let made = make(&app, json!({ "name": "Critic" })).await;
    let send = async |method: Method, tag: &str| {
        let request = app.request(method, &path(&made)).header("if-match", tag);
        app.send(request.json(&json!({ "name": "Guide" }))).await
    };
    assert_eq!(good(send(Method::PUT, "\"1\"").await)["version"], 2);
    assert_eq!(good(send(Method::PATCH, "\"2\"").await)["version"], 3);
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        for stale in ["\"2\"", "\"4\"", "\"0\""] {
            let detail = refused(send(method.clone(), stale).await, 409, "changed");
            assert!(detail.contains("version is 3"), "{detail}");
        }
        refused(send(method, "3").await, 422, "invalid_request");
    }
    let stale = app.request(Method::PATCH, &format!("{}?version=1", path(&made)));
    refused(app.send(stale.json(&json!({}))).await, 409, "changed");
    assert_eq!(delete(&app, &format!("{}?version=3", path(&made))).await.status, 204);
}

#[tokio::test]
async fn records_are_found_by_their_words_and_fields() {
    let app = start().await;
    make(&app, json!({ "name": "Critic", "age": 7, "calm": false, "tags": ["work", "night"] })).await;
    make(
        &app,
        json!({ "name": "Guide", "age": 70, "calm": true, "tags": ["work"], "story": "A calm voice" }),
    )
    .await;
    make(&app, json!({ "name": "Child", "age": 7, "story": "Afraid of the critic" })).await;
    for (query, mut expected) in [
        ("", vec!["Child", "Critic", "Guide"]),
        ("?q=critic", vec!["Child", "Critic"]),
        ("?q=calm+voice", vec!["Guide"]),
        ("?q=", vec!["Child", "Critic", "Guide"]),
        ("?q=nowhere", vec![]),
        ("?q=%22%29+OR+NEAR%28*", vec![]),
        ("?field.age=7", vec!["Child", "Critic"]),
        ("?field.age=7&q=afraid", vec!["Child"]),
        ("?field.calm=false", vec!["Critic"]),
        ("?field.tags=work", vec!["Critic", "Guide"]),
        ("?field.tags=work&field.tags=night", vec!["Critic"]),
        ("?field.name=critic", vec![]),
    ] {
        let page = list(&app, query).await;
        let mut found = names(&page);
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
    for wrong in [
        "?field.age=old",
        "?field.other=x",
        "?field.=x",
        "?q=a&q=b",
        "?limit=0",
        "?cursor=x",
        "?cursor=5.thr_1",
    ] {
        refused(app.get(&format!("{PARTS}{wrong}")).await, 422, "invalid_request");
    }
    let many = "field.name=x&".repeat(11);
    refused(app.get(&format!("{PARTS}?{many}")).await, 422, "invalid_request");
}

#[tokio::test]
async fn paging_through_records_loses_and_doubles_nothing() {
    let app = start().await;
    for number in 0..5 {
        make(&app, json!({ "name": format!("part {number}"), "story": "same".repeat(number % 2 + 1) })).await;
    }
    for words in ["", "&q=part"] {
        let whole = list(&app, &format!("?limit=1000{words}")).await;
        assert_eq!((names(&whole).len(), &whole["next"]), (5, &Value::Null));
        for limit in [1, 2, 4, 5] {
            assert_eq!(json!(paged(&app, limit, words).await), whole["data"], "pages of {limit}");
        }
    }
}

/// All records, in pages of this size.
async fn paged(app: &TestApp, limit: usize, words: &str) -> Vec<Value> {
    let (mut found, mut query) = (Vec::new(), format!("?limit={limit}{words}"));
    for _ in 0..5 {
        let page = list(app, &query).await;
        found.extend(page["data"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit={limit}&cursor={next}{words}");
    }
    found
}

#[tokio::test]
async fn under_a_key_a_record_changes_once() {
    let app = start().await;
    let keyed = async |method: Method, path: &str, key: &str, body: Value| {
        app.send(app.request(method, path).header("idempotency-key", key).json(&body)).await
    };
    let body = json!({ "name": "Critic" });
    let made = good(keyed(Method::POST, PARTS, "a", body.clone()).await);
    assert_eq!(good(keyed(Method::POST, PARTS, "a", body.clone()).await), made);
    refused(keyed(Method::POST, PARTS, "a", json!({ "name": "Other" })).await, 422, "idempotency_key_reused");

    // A repeated change is none, even if it names the version of then.
    let at = format!("{}?version=1", path(&made));
    let change = json!({ "age": 5 });
    assert_eq!(good(keyed(Method::PATCH, &at, "b", change.clone()).await)["version"], 2);
    good(patch(&app, &path(&made), &json!({ "age": 6 })).await);
    let again = good(keyed(Method::PATCH, &at, "b", change).await);
    assert_eq!((&again["version"], &again["data"]["age"]), (&json!(3), &json!(6)));
    for _ in 0..2 {
        assert_eq!(good(keyed(Method::PUT, &path(&made), "c", body.clone()).await)["version"], 4);
    }
    for _ in 0..2 {
        let request = app.request(Method::DELETE, &path(&made)).header("idempotency-key", "d");
        assert_eq!(app.send(request).await.status, 204);
    }
    let request = app.request(Method::DELETE, &path(&made)).header("idempotency-key", "e");
    refused(app.send(request).await, 404, "not_found");
}

#[tokio::test]
async fn there_is_room_for_ten_thousand_records_of_a_type() {
    let app = start().await;
    let made = make(&app, json!({ "name": "x" })).await;
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
        INSERT INTO records (id, app, user, type, version, state, data, created_at, updated_at)
            SELECT randomblob(16), 'test', 'local', 'part', 1, 1, '{}', 0, 0 FROM n";
    app.database().execute(fill, []).unwrap();
    refused(app.post(PARTS, &json!({ "name": "y" })).await, 409, "records_full");
    good(app.post("/v1/apps/test/records/note", &json!({})).await);
    assert_eq!(delete(&app, &path(&made)).await.status, 204);
    make(&app, json!({ "name": "y" })).await;
}

/// A record of another user is answered like one that does not exist.
#[tokio::test]
async fn what_is_not_yours_does_not_exist() {
    let app = start().await;
    let key = async |user: &str| {
        let key = NewKey { user: user.into(), app: Some("test".into()), admin: false, ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let (ann, bob) = (key("ann").await, key("bob").await);
    let send = async |token: &str, method: Method, path: &str| {
        let body = json!({ "name": "Ann's" });
        app.send(app.request(method, path).bearer_auth(token).json(&body)).await
    };
    let hers = good(send(&ann, Method::POST, PARTS).await);
    let missing = format!("{PARTS}/{MISSING}");
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let expected = problem(send(&bob, method.clone(), &missing).await);
        assert_eq!(expected["detail"], "there is no such record, or it is not yours");
        assert_eq!(problem(send(&bob, method, &path(&hers)).await), expected);
    }
    assert_eq!(good(send(&bob, Method::GET, PARTS).await), json!({ "data": [], "next": null }));
    assert_eq!(names(&good(send(&bob, Method::GET, &format!("{PARTS}?q=ann")).await)), [""; 0]);
    assert_eq!(good(send(&ann, Method::GET, &path(&hers)).await), hers);
}
