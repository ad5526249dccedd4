//! Words of users about themselves: to every app or to one, changed field by field. Other users do not see them.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Setup, TestApp};

use crate::support::{good, patch, problem, refused, repeating, send_as, system, token};

const ME: &str = "/v1/me";
const KIB: usize = 1024;

#[tokio::test]
async fn a_profile_is_empty_at_first_and_changes_field_by_field() {
    let app = TestApp::start().await;
    let empty = good(app.get(ME).await);
    assert!(!empty["userId"].as_str().unwrap().is_empty());
    assert_eq!(
        (&empty["name"], &empty["fields"], &empty["updatedAt"]),
        (&Value::Null, &json!({}), &Value::Null)
    );
    let all = json!({
        "name": " Ada ",
        "timezone": "europe/lisbon",
        "locale": "pt-PT",
        "fields": { "team": "blue", "pets": ["cat"] },
    });
    let changed = good(patch(&app, ME, &all).await);
    assert_eq!(
        (&changed["name"], &changed["timezone"], &changed["locale"], &changed["fields"]),
        (&json!("Ada"), &json!("Europe/Lisbon"), &json!("pt-PT"), &all["fields"])
    );
    assert_eq!(good(app.get(ME).await), changed);
    let changed = good(patch(&app, ME, &json!({ "name": null, "fields": { "team": null, "age": 7 } })).await);
    assert_eq!(
        (&changed["name"], &changed["timezone"], &changed["fields"]),
        (&Value::Null, &json!("Europe/Lisbon"), &json!({ "pets": ["cat"], "age": 7 }))
    );
    assert_eq!(good(patch(&app, ME, &json!({})).await), changed);
}

#[tokio::test]
async fn a_profile_described_badly_is_refused() {
    let app = TestApp::start().await;
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("f{n}"), json!(n))).collect();
    good(patch(&app, ME, &json!({ "name": "n".repeat(200) })).await);
    let before = good(app.get(ME).await);
    for (body, status, field, words) in [
        (json!({ "name": "" }), 422, "name", "one line"),
        (json!({ "name": "a\nb" }), 422, "name", "one line"),
        (json!({ "name": "n".repeat(201) }), 413, "name", "200 bytes"),
        (json!({ "name": 5 }), 422, "name", "expected a string"),
        (json!({ "timezone": "Lisbon" }), 422, "timezone", "Europe/Lisbon"),
        (json!({ "timezone": "" }), 422, "timezone", "Europe/Lisbon"),
        (json!({ "locale": "pt_PT" }), 422, "locale", "pt-PT"),
        (json!({ "locale": "x".repeat(36) }), 422, "locale", "pt-PT"),
        (json!({ "fields": many }), 422, "fields", "at most 64"),
        (json!({ "fields": { "": 1 } }), 422, "fields", "1 to 64 bytes"),
        (json!({ "fields": { "a": "x".repeat(16 * KIB) } }), 413, "fields", "16384 bytes"),
        (json!({ "userId": "eve" }), 422, "userId", "unknown field"),
    ] {
        let problem = problem(patch(&app, ME, &body).await);
        let error = &problem["errors"][0];
        assert_eq!((&problem["status"], &error["field"]), (&json!(status), &json!(field)), "{problem}");
        assert!(error["message"].as_str().unwrap().contains(words), "{problem}");
    }
    for body in [json!([]), json!({ "fields": [] })] {
        refused(patch(&app, ME, &body).await, 422, "invalid_request");
    }
    assert_eq!(good(app.get(ME).await), before);
}

#[tokio::test]
async fn each_user_has_their_own() {
    let app = TestApp::start().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    good(send_as(&app, &ann, Method::PATCH, (ME, &json!({ "name": "Ann" }))).await);
    let bobs = good(send_as(&app, &bob, Method::GET, (ME, &Value::Null)).await);
    assert_eq!((&bobs["userId"], &bobs["name"]), (&json!("bob"), &Value::Null));
    let anns = good(send_as(&app, &ann, Method::GET, (ME, &Value::Null)).await);
    assert_eq!((&anns["userId"], &anns["name"]), (&json!("ann"), &json!("Ann")));
    refused(app.get(ME).await, 401, "unauthorized");
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_kept_and_one_under_a_key_happens_once() {
    let app = TestApp::start().await;
    let change = |number: usize| {
        let body = json!({ "fields": { format!("field{number}"): number } });
        let request = app.request(Method::PATCH, ME).json(&body);
        app.send(request)
    };
    let answers = futures_util::future::join_all((0..6).map(change)).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(good(app.get(ME).await)["fields"].as_object().map(serde_json::Map::len), Some(6));

    let named = |name: &str, key: &str| {
        let request = app.request(Method::PATCH, ME).header("idempotency-key", key);
        app.send(request.json(&json!({ "name": name })))
    };
    assert_eq!(good(named("Ada", "one").await)["name"], "Ada");
    assert_eq!(good(named("Eve", "two").await)["name"], "Eve");
    assert_eq!(good(named("Ada", "one").await)["name"], "Eve", "it was done, and is not done again");
    assert_eq!(named("Bob", "one").await.status, 422, "the key was for something else");
}

/// A key for one app tells that app alone of its user, and cannot read or change what the user says elsewhere.
#[tokio::test]
async fn a_key_for_one_app_neither_reads_nor_changes_what_other_apps_are_told() {
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let app = TestApp::with(Setup { files, ..Setup::default() }).await;
    app.upstream.program(repeating);
    let key = async |only: Option<&str>| {
        let key = NewKey { user: "ann".into(), app: only.map(Into::into), admin: false, ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let (all, test, other) = (key(None).await, key(Some("test")).await, key(Some("other")).await);
    let show = async |token: &str| good(send_as(&app, token, Method::GET, (ME, &Value::Null)).await);
    let change =
        async |token: &str, body: Value| good(send_as(&app, token, Method::PATCH, (ME, &body)).await);
    let said = change(&all, json!({ "name": "Ann", "locale": "pt-PT", "fields": { "team": "blue" } })).await;
    for narrow in [&test, &other] {
        let shown = show(narrow).await;
        assert_eq!((&shown["name"], &shown["fields"]), (&Value::Null, &json!({})));
    }
    let here = change(&test, json!({ "name": "Nan", "fields": { "pet": "cat" } })).await;
    assert_eq!(show(&test).await, here);
    assert_eq!(show(&all).await, said);
    assert_eq!(show(&other).await["name"], Value::Null);

    let ask = json!({ "message": "Hi", "stream": false });
    good(send_as(&app, &test, Method::POST, ("/v1/apps/test/runs", &ask)).await);
    good(send_as(&app, &other, Method::POST, ("/v1/apps/other/runs", &ask)).await);
    let (told, told_elsewhere) = (system(&app, 0), system(&app, 1));
    for part in ["\"Nan\"", "\"pt-PT\"", "\"blue\"", "\"cat\""] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(told_elsewhere.contains("\"Ann\"") && told_elsewhere.contains("\"blue\""), "{told_elsewhere}");
    assert!(!told_elsewhere.contains("Nan") && !told_elsewhere.contains("cat"), "{told_elsewhere}");
}
