//! Personas: the app's to read, the user's to keep, and the chosen one speaks.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::Reply;
use testkit::{Setup, TestApp};

use crate::support::{
    THREADS, delete, good, keyed, patch, problem, refused, send_as, system, thread, token, told,
};

const PERSONAS: &str = "/v1/apps/test/personas";
const KIB: usize = 1024;

fn at(id: &str) -> String {
    format!("{PERSONAS}/{id}")
}

/// An app with a persona of its own, and a range.
async fn with_captain() -> TestApp {
    let captain = "---\nname: The Captain\ntemperature: 0.3\n---\nSpeak like a captain.\n";
    TestApp::with(Setup {
        app: "models = [\"backup-model\"]\n[ranges]\ntemperature = [0.0, 1.0]\n".into(),
        files: vec![("personas/captain.md".into(), captain.into())],
        ..Setup::default()
    })
    .await
}

async fn listed(app: &TestApp) -> Vec<String> {
    let page = good(app.get(PERSONAS).await);
    assert_eq!(page["next"], Value::Null);
    let line =
        |view: &Value| format!("{} {}", view["origin"].as_str().unwrap(), view["id"].as_str().unwrap());
    page["data"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn a_persona_is_added_changed_and_deleted() {
    let app = with_captain().await;
    let body = json!({
        "id": "chef",
        "name": " The Chef ",
        "prompt": "Speak like a chef.",
        "settings": { "temperature": 0.9, "model": "backup-model" },
    });
    let made = app.post(PERSONAS, &body).await;
    assert_eq!(made.status, 201);
    let made = good(made);
    assert_eq!(
        (&made["id"], &made["name"], &made["origin"], &made["settings"]),
        (
            &json!("chef"),
            &json!("The Chef"),
            &json!("user"),
            &json!({ "temperature": 0.9, "model": "backup-model" })
        )
    );
    assert_eq!(good(app.get(&at("chef")).await), made);
    good(app.post(PERSONAS, &json!({ "id": "Zoe", "name": "A", "prompt": "Be Zoe." })).await);
    assert_eq!(listed(&app).await, ["app captain", "user Zoe", "user chef"]);

    let change = json!({ "prompt": "Speak like a cook." });
    let changed = good(patch(&app, &at("chef"), &change).await);
    assert_eq!((&changed["prompt"], &changed["settings"]), (&change["prompt"], &made["settings"]));
    let changed = good(patch(&app, &at("chef"), &json!({ "name": "Cook", "settings": {} })).await);
    assert_eq!((&changed["name"], &changed["settings"]), (&json!("Cook"), &json!({})));

    assert_eq!(delete(&app, &at("chef")).await.status, 204);
    refused(app.get(&at("chef")).await, 404, "not_found");
    refused(delete(&app, &at("chef")).await, 404, "not_found");
    assert_eq!(listed(&app).await, ["app captain", "user Zoe"]);
}

#[tokio::test]
async fn an_app_s_persona_is_read_and_stays_as_it_is() {
    let app = with_captain().await;
    let captain = good(app.get(&at("captain")).await);
    assert_eq!(
        captain,
        json!({
            "id": "captain",
            "name": "The Captain",
            "prompt": "Speak like a captain.",
            "settings": { "temperature": 0.3 },
            "origin": "app",
        })
    );
    let detail = refused(patch(&app, &at("captain"), &json!({ "name": "x" })).await, 409, "persona_of_app");
    assert!(detail.contains("is a file in the app's folder"), "{detail}");
    refused(delete(&app, &at("captain")).await, 409, "persona_of_app");
    let same = json!({ "id": "captain", "prompt": "Mine." });
    refused(app.post(PERSONAS, &same).await, 409, "persona_exists");
    assert_eq!(good(app.get(&at("captain")).await), captain);
}

#[tokio::test]
async fn an_id_is_made_up_where_none_is_given_and_names_the_persona() {
    let app = TestApp::start().await;
    let made = good(app.post(PERSONAS, &json!({ "prompt": "Be brief." })).await);
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("persona_") && id.len() == "persona_".len() + 12, "{id}");
    assert_eq!(made["name"], id);
    let other = good(app.post(PERSONAS, &json!({ "prompt": "Be brief." })).await);
    assert_ne!(other["id"], made["id"]);
    refused(app.post(PERSONAS, &json!({ "id": id, "prompt": "Mine." })).await, 409, "persona_exists");
}

#[tokio::test]
async fn a_persona_described_badly_is_refused() {
    let app = with_captain().await;
    let longest = "x".repeat(64 * KIB);
    let most = json!({ "id": "a".repeat(64), "name": "n".repeat(200), "prompt": longest });
    good(app.post(PERSONAS, &most).await);
    for (body, status, field) in [
        (json!({}), 422, "prompt"),
        (json!({ "prompt": "" }), 422, "prompt"),
        (json!({ "prompt": " \n" }), 422, "prompt"),
        (json!({ "prompt": format!("{longest}x") }), 413, "prompt"),
        (json!({ "prompt": "x", "id": "" }), 422, "id"),
        (json!({ "prompt": "x", "id": "two words" }), 422, "id"),
        (json!({ "prompt": "x", "id": "é" }), 422, "id"),
        (json!({ "prompt": "x", "id": "a".repeat(65) }), 422, "id"),
        (json!({ "prompt": "x", "name": "" }), 422, "name"),
        (json!({ "prompt": "x", "name": "a\nb" }), 422, "name"),
        (json!({ "prompt": "x", "name": "n".repeat(201) }), 413, "name"),
        (json!({ "prompt": "x", "settings": { "temperature": 1.5 } }), 422, "settings.temperature"),
        (json!({ "prompt": "x", "settings": { "topP": 2 } }), 422, "settings.topP"),
        (json!({ "prompt": "x", "settings": { "maxTokens": 0 } }), 422, "settings.maxTokens"),
        (json!({ "prompt": "x", "settings": { "model": "" } }), 422, "settings.model"),
        (json!({ "prompt": "x", "owner": "me" }), 422, "owner"),
    ] {
        let problem = problem(app.post(PERSONAS, &body).await);
        assert_eq!((&problem["status"], &problem["errors"][0]["field"]), (&json!(status), &json!(field)));
        if body.get("id").is_none() && body.get("owner").is_none() && body.get("prompt").is_some() {
            let same = patch(&app, &at(&"a".repeat(64)), &body).await;
            assert_eq!(same.body["errors"], problem["errors"]);
        }
    }
    for body in
        [json!({ "prompt": "x", "settings": { "warmth": 1 } }), json!({ "prompt": "x", "settings": [] })]
    {
        refused(app.post(PERSONAS, &body).await, 422, "invalid_request");
    }
    refused(patch(&app, &at(&"a".repeat(64)), &json!({})).await, 422, "invalid_request");
    refused(patch(&app, &at("nobody"), &json!({ "name": "x" })).await, 404, "not_found");
    refused(app.get("/v1/apps/nobody/personas").await, 404, "not_found");
    assert_eq!(app.count("SELECT count(*) FROM personas"), 1);
}

#[tokio::test]
async fn what_cannot_be_used_is_listed_with_its_problem() {
    let app = with_captain().await;
    for id in ["hot", "broken", "fine"] {
        good(app.post(PERSONAS, &json!({ "id": id, "prompt": "x" })).await);
    }
    let change = |sql: &str| app.database().execute(sql, []).unwrap();
    change("UPDATE personas SET settings = '{\"temperature\": 1.5}' WHERE id = 'hot'");
    change("UPDATE personas SET settings = '[1]' WHERE id = 'broken'");
    change(
        "INSERT INTO personas SELECT app, user, 'captain', name, prompt, settings, 0, 0 FROM personas WHERE id = 'fine'",
    );
    let page = good(app.get(PERSONAS).await);
    let problems: Vec<(&str, Option<&str>)> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|view| view["origin"] == "user")
        .map(|view| (view["id"].as_str().unwrap(), view["problem"].as_str()))
        .collect();
    assert_eq!(
        problems,
        [
            ("broken", Some("the settings of the persona \"broken\" cannot be read")),
            ("captain", Some("the app has a persona with the same id, and uses that one; choose another id")),
            ("fine", None),
            ("hot", Some("temperature of the persona \"hot\" must be from 0 to 1")),
        ]
    );
    // A persona that stands in the way of the app's can be deleted.
    assert_eq!(delete(&app, &at("captain")).await.status, 204);
    refused(delete(&app, &at("captain")).await, 409, "persona_of_app");
}

#[tokio::test]
async fn under_a_key_a_persona_is_added_changed_and_deleted_once() {
    let app = TestApp::start().await;
    let new = json!({ "prompt": "Be brief." });
    let first = good(keyed(&app, Some("a"), Method::POST, (PERSONAS, &new)).await);
    assert_eq!(good(keyed(&app, Some("a"), Method::POST, (PERSONAS, &new)).await), first);
    let other = json!({ "prompt": "Be long." });
    refused(keyed(&app, Some("a"), Method::POST, (PERSONAS, &other)).await, 422, "idempotency_key_reused");
    let path = at(first["id"].as_str().unwrap());
    let change = json!({ "name": "One" });
    good(keyed(&app, Some("b"), Method::PATCH, (&path, &change)).await);
    good(patch(&app, &path, &json!({ "name": "Two" })).await);
    let again = good(keyed(&app, Some("b"), Method::PATCH, (&path, &change)).await);
    assert_eq!(again["name"], "Two", "what was done once is not done again");
    for _ in 0..2 {
        assert_eq!(keyed(&app, Some("c"), Method::DELETE, (&path, &Value::Null)).await.status, 204);
    }
    refused(keyed(&app, Some("d"), Method::DELETE, (&path, &Value::Null)).await, 404, "not_found");
}

#[tokio::test]
async fn there_is_room_for_two_hundred_personas() {
    let app = TestApp::start().await;
    good(app.post(PERSONAS, &json!({ "id": "first", "prompt": "x" })).await);
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 199)
        INSERT INTO personas SELECT app, user, 'p' || i, name, prompt, settings, 0, 0 FROM personas, n";
    app.database().execute(fill, []).unwrap();
    refused(app.post(PERSONAS, &json!({ "id": "more", "prompt": "x" })).await, 409, "personas_full");
    refused(app.post(PERSONAS, &json!({ "id": "first", "prompt": "x" })).await, 409, "persona_exists");
    assert_eq!(delete(&app, &at("p7")).await.status, 204);
    good(app.post(PERSONAS, &json!({ "id": "more", "prompt": "x" })).await);
}

#[tokio::test]
async fn the_personas_of_others_do_not_exist() {
    let app = TestApp::start().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    let new = json!({ "id": "mine", "prompt": "Ann's." });
    good(send_as(&app, &ann, Method::POST, (PERSONAS, &new)).await);
    let path = at("mine");
    for (method, body) in
        [(Method::GET, Value::Null), (Method::PATCH, json!({ "name": "x" })), (Method::DELETE, Value::Null)]
    {
        refused(send_as(&app, &bob, method, (&path, &body)).await, 404, "not_found");
    }
    let none = json!({ "data": [], "next": null });
    assert_eq!(good(send_as(&app, &bob, Method::GET, (PERSONAS, &Value::Null)).await), none);
    good(send_as(&app, &bob, Method::POST, (PERSONAS, &new)).await);
    assert_eq!(app.count("SELECT count(*) FROM personas"), 2);
}

/// A run names who answers; else the thread does. Settings of the request win over those of the persona.
#[tokio::test]
async fn whoever_is_chosen_speaks() {
    let app = with_captain().await;
    app.upstream.program(|_| Reply::says("Aye."));
    let chef = json!({ "id": "chef", "prompt": "Speak like a chef.", "settings": { "temperature": 0.9 } });
    good(app.post(PERSONAS, &chef).await);
    let thread = good(app.post(THREADS, &json!({ "personaId": "captain" })).await);
    assert_eq!(thread["personaId"], "captain");
    let thread = thread["id"].as_str().unwrap();
    let asked =
        |index: usize| (system(&app, index), app.upstream.requests()[index].body["temperature"].clone());

    told(&app, json!({ "message": "Hi", "threadId": thread })).await;
    let (prompt, temperature) = asked(0);
    assert!(prompt.contains("You are a test.") && prompt.contains("Speak like a captain."), "{prompt}");
    assert_eq!(temperature, 0.3);

    told(&app, json!({ "message": "Hi", "threadId": thread, "personaId": "chef" })).await;
    let (prompt, temperature) = asked(1);
    assert!(prompt.contains("Speak like a chef.") && !prompt.contains("captain"), "{prompt}");
    assert_eq!(temperature, 0.9);

    let body = json!({ "message": "Hi", "personaId": "chef", "settings": { "temperature": 0.1 } });
    told(&app, body).await;
    assert_eq!(asked(2).1, 0.1);

    let path = format!("{}/{thread}", "/v1/threads");
    assert_eq!(good(patch(&app, &path, &json!({ "personaId": null })).await)["personaId"], Value::Null);
    told(&app, json!({ "message": "Hi", "threadId": thread })).await;
    let (prompt, _) = asked(3);
    assert!(!prompt.contains("Speak like"), "{prompt}");
}

#[tokio::test]
async fn a_deleted_persona_answers_in_no_thread() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Yes."));
    good(app.post(PERSONAS, &json!({ "id": "chef", "prompt": "Speak like a chef." })).await);
    let thread = thread(&app).await;
    let path = format!("/v1/threads/{thread}");
    assert_eq!(good(patch(&app, &path, &json!({ "personaId": "chef" })).await)["personaId"], "chef");
    assert_eq!(delete(&app, &at("chef")).await.status, 204);
    assert_eq!(good(app.get(&path).await)["personaId"], Value::Null);
    told(&app, json!({ "message": "Hi", "threadId": thread })).await;
    assert!(!system(&app, 0).contains("chef"));
}
