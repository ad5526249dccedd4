//! Which models can be chosen in an app, and that a budget in dollars has prices to go by.

use model::Price;
use protocol::AppId;
use serde_json::{Value, json};
use testkit::upstream::Reply;
use testkit::{Answer, Method, Setup, TestApp};

use crate::apps::version;

const RUNS: &str = "/v1/apps/test/runs";
const PERSONAS: &str = "/v1/apps/test/personas";
const CHEAP: Option<Price> = Some(Price::flat(0.1, 0.1, 0.4));

fn refused(answer: &Answer, field: &str) -> String {
    assert_eq!((answer.status, &answer.body["errors"][0]["field"]), (422, &json!(field)), "{answer:?}");
    answer.body["detail"].as_str().unwrap().to_owned()
}

async fn ask(app: &TestApp, more: &Value) -> Answer {
    let mut body = json!({ "message": "Hi", "stream": false });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app.post(RUNS, &body).await
}

#[tokio::test]
async fn a_request_may_choose_the_app_s_own_models_and_no_others() {
    let app = TestApp::with(Setup::app("fallbacks = [\"backup-model\"]")).await;
    app.upstream.program(|_| Reply::says("One."));
    app.backup.program(|_| Reply::says("Two."));
    assert_eq!(ask(&app, &json!({ "model": "test-model" })).await.body["reply"], "One.");
    assert_eq!(ask(&app, &json!({ "model": "backup-model" })).await.body["reply"], "Two.");
    let asked = app.upstream.requests().len();
    let dear = ask(&app, &json!({ "model": "o1-pro" })).await;
    let told = "model: this app does not allow the model \"o1-pro\"; it allows test-model, backup-model";
    assert_eq!(refused(&dear, "model"), told);
    for path in ["/test/stream", "/api/chat"] {
        let said = json!({ "role": "user", "parts": [{ "type": "text", "text": "Hi" }] });
        let body = match path {
            "/api/chat" => json!({ "id": "c", "messages": [said], "model": "o1-pro" }),
            _ => json!({ "message": "Hi", "model": "o1-pro" }),
        };
        refused(&app.post(path, &body).await, "model");
    }
    assert_eq!((app.upstream.requests().len(), app.count("SELECT count(*) FROM runs")), (asked, 2));
    assert_eq!(app.service.apps()[0].models, ["test-model", "backup-model"]);
}

#[tokio::test]
async fn a_persona_may_choose_what_a_request_may() {
    let app = TestApp::with(Setup::app("models = [\"backup-model\"]")).await;
    app.backup.program(|_| Reply::says("Two."));
    let persona =
        |id: &str, model: &str| json!({ "id": id, "prompt": "Be brief.", "settings": { "model": model } });
    refused(&app.post(PERSONAS, &persona("dear", "o1-pro")).await, "settings.model");
    assert_eq!(app.post(PERSONAS, &persona("other", "backup-model")).await.status, 201);
    let change = json!({ "settings": { "model": "o1-pro" } });
    let request = app.request(Method::PATCH, &format!("{PERSONAS}/other")).json(&change);
    refused(&app.send(request).await, "settings.model");
    let thread = app.post("/v1/apps/test/threads", &json!({ "personaId": "other" })).await.body["id"].clone();
    assert_eq!(ask(&app, &json!({ "threadId": thread })).await.body["reply"], "Two.");

    // The app no longer allows what the persona chose.
    app.service.replace_app(version(&app, "")).await.unwrap();
    let runs = app.count("SELECT count(*) FROM runs");
    for chosen in [json!({ "personaId": "other" }), json!({ "threadId": thread })] {
        let told = refused(&ask(&app, &chosen).await, "personaId");
        assert!(told.contains("does not allow the model \"backup-model\"; it allows test-model"), "{told}");
    }
    assert_eq!(app.count("SELECT count(*) FROM runs"), runs);
    app.upstream.program(|_| Reply::says("One."));
    let by_request = json!({ "threadId": thread, "model": "test-model" });
    assert_eq!(ask(&app, &by_request).await.body["reply"], "One.", "what the request chooses goes first");
}

#[tokio::test]
async fn a_model_without_a_price_is_not_chosen_where_the_budget_is_in_dollars() {
    let setup = Setup { price: CHEAP, ..Setup::app("models = [\"*\"]\n[budget]\nday_usd = 5.0") };
    let app = TestApp::with(setup).await;
    app.upstream.program(|_| Reply::says("One."));
    assert_eq!(ask(&app, &json!({})).await.body["reply"], "One.");
    let told = refused(&ask(&app, &json!({ "model": "house-model" })).await, "model");
    let expected = "model: \"house-model\" has no known price, and the app's budget is in dollars; write in rondo.toml under \
        [models.\"house-model\"]: provider = \"openai\", price = { input = 1.0, output = 4.0 } (US dollars for a million \
        tokens)";
    assert_eq!(told, expected);
    let known = refused(&ask(&app, &json!({ "model": "openai/gpt-4.1-mini" })).await, "model");
    assert!(known.contains("id = \"gpt-4.1-mini\""), "{known}");
    assert!(known.contains("prices = \"known\" under [providers.openai], or under [models."), "{known}");
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_version_whose_budget_could_not_be_held_is_not_served() {
    let app = TestApp::start().await;
    for (toml, model, line) in [
        ("[budget]\nday_usd = 5.0", "test-model", 2),
        ("\n[budget]\nrun_tokens = 5\nrun_usd = 0.1", "test-model", 4),
    ] {
        let problem = app.service.replace_app(version(&app, toml)).await.unwrap_err();
        let told = format!("the budget is in dollars, but the price of the model {model:?} is not known");
        assert_eq!((problem.message, problem.line), (told, Some(line)), "{toml}");
        assert!(problem.file.ends_with("test/app.toml"));
        assert!(problem.remedy.starts_with("write in rondo.toml under [models.\"test-model\"]"));
    }
    app.service.replace_app(version(&app, "[budget]\nday_tokens = 5")).await.unwrap();
    assert_eq!(
        app.service.revision(&AppId::new("test")).unwrap(),
        version(&app, "[budget]\nday_tokens = 5").revision
    );
}

#[tokio::test]
async fn every_model_that_an_app_names_needs_a_price() {
    let app = TestApp::with(Setup { price: CHEAP, ..Setup::app("") }).await;
    let dollars = "[budget]\nday_usd = 5.0";
    for (toml, unpriced) in [
        (format!("fallbacks = ['backup-model', 'spare']\n{dollars}"), Some("spare")),
        (format!("model = 'house'\n{dollars}"), Some("house")),
        (format!("models = ['backup-model', 'dear']\n{dollars}"), Some("dear")),
        (format!("[memory]\nextract = true\nextract_model = 'reader'\n{dollars}"), Some("reader")),
        (format!("[history]\nsummarise_model = 'writer'\n{dollars}"), Some("writer")),
        (format!("model = 'backup-model'\nfallbacks = ['test-model']\nmodels = ['*']\n{dollars}"), None),
    ] {
        let refused =
            app.service.replace_app(version(&app, &toml)).await.err().map(|problem| problem.message);
        let told =
            |model| format!("the budget is in dollars, but the price of the model {model:?} is not known");
        assert_eq!(refused, unpriced.map(told), "{toml}");
    }
}
