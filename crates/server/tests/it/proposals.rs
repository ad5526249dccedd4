//! Proposals over HTTP: listed, read, decided once. Other users do not see them.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp};

use crate::support::{RUNS, good, problem, refused, say};

const PROPOSALS: &str = "/v1/apps/test/proposals";
const MISSING: &str = "prop_ffffffffffffffffffffffffffffffff";

async fn start() -> TestApp {
    TestApp::with(Setup::app("tools = [\"risky\"]")).await
}

/// A run that waits for a yes, as a client that does not stream sees it.
async fn waiting(app: &TestApp) -> Value {
    app.upstream.script([Reply::stream().call(ScriptedCall::new("risky", r#"{"n":1}"#))]);
    let result = good(app.post(RUNS, &json!({ "message": "Do it", "stream": false })).await);
    assert_eq!(result["status"], "waiting", "{result}");
    result
}

fn id(result: &Value) -> String {
    result["proposals"][0]["id"].as_str().unwrap().to_owned()
}

async fn decide(app: &TestApp, id: &str, word: &str, key: Option<&str>) -> Answer {
    let mut request = app.request(Method::POST, &format!("/v1/proposals/{id}/{word}"));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    app.send(request).await
}

async fn ids(app: &TestApp, query: &str) -> Vec<String> {
    let page = good(app.get(&format!("{PROPOSALS}{query}")).await);
    page["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_waiting_run_names_its_proposals_and_a_yes_lets_it_go_on() {
    let app = start().await;
    let result = waiting(&app).await;
    insta::assert_json_snapshot!("a_waiting_run", result);
    let id = id(&result);
    assert_eq!(good(app.get(&format!("/v1/proposals/{id}")).await), result["proposals"][0]);
    assert_eq!(ids(&app, "?open=true").await, [id.as_str()]);

    app.upstream.script([Reply::says("Done.")]);
    let decided = good(decide(&app, &id, "confirm", None).await);
    assert_eq!(decided["status"], "confirmed");
    app.service.idle().await;
    let run = format!("/v1/runs/{}", result["runId"].as_str().unwrap());
    assert_eq!(good(app.get(&run).await)["status"], "completed");
    assert_eq!(ids(&app, "?open=true").await, [""; 0]);
    assert_eq!(ids(&app, "").await, [id.as_str()]);
    assert_eq!(ids(&app, "?open=false").await, [id.as_str()]);
}

#[tokio::test]
async fn a_proposal_is_decided_once() {
    let app = start().await;
    for (word, status) in [("confirm", "confirmed"), ("reject", "rejected")] {
        let id = id(&waiting(&app).await);
        app.upstream.script([Reply::says("Well.")]);
        for _ in 0..2 {
            assert_eq!(good(decide(&app, &id, word, Some(word)).await)["status"], status);
        }
        app.service.idle().await;
        for again in ["confirm", "reject"] {
            let detail = refused(decide(&app, &id, again, None).await, 409, "proposal_decided");
            assert!(detail.contains(status), "{detail}");
        }
        let other = if word == "confirm" { "reject" } else { "confirm" };
        assert!(!(200..300).contains(&decide(&app, &id, other, Some(word)).await.status));
        assert_eq!(good(app.get(&format!("/v1/proposals/{id}")).await)["status"], status);
    }
}

/// A proposal that outlives its run becomes an action of its own, once.
#[tokio::test]
async fn a_proposal_without_a_run_is_carried_out_when_it_is_confirmed() {
    let app = TestApp::with(Setup::app("tools = [\"markdown\", \"proposals\"]")).await;
    let file = json!({ "path": "a.md", "content": "# One\n" });
    let input = json!({ "tool": "createMarkdownFile", "input": file, "note": "You asked for it." });
    let call = ScriptedCall::new("createProposal", &input.to_string());
    app.upstream.script([Reply::stream().call(call), Reply::says("I have left you a proposal.")]);
    say(&app, "Propose it").await;
    let open = good(app.get(&format!("{PROPOSALS}?open=true")).await)["data"][0].clone();
    assert_eq!((&open["tool"], &open["input"]), (&json!("createMarkdownFile"), &file));
    assert_eq!((&open["note"], &open["runId"]), (&json!("You asked for it."), &Value::Null));
    refused(app.get("/v1/apps/test/files/a.md").await, 404, "not_found");

    let id = open["id"].as_str().unwrap();
    let confirmed = good(decide(&app, id, "confirm", Some("k")).await);
    assert_eq!(confirmed["status"], "confirmed");
    assert_eq!(good(decide(&app, id, "confirm", Some("k")).await), confirmed);
    refused(decide(&app, id, "confirm", None).await, 409, "proposal_decided");
    refused(decide(&app, id, "reject", None).await, 409, "proposal_decided");
    assert_eq!(app.get("/v1/apps/test/files/a.md").await.status, 200);
    let action = good(app.get(&format!("/v1/actions/{}", confirmed["actionId"].as_str().unwrap())).await);
    assert_eq!((&action["status"], &action["runId"]), (&json!("complete"), &Value::Null));
    good(app.post(&format!("/v1/actions/{}/undo", action["id"].as_str().unwrap()), &json!({})).await);
    refused(app.get("/v1/apps/test/files/a.md").await, 404, "not_found");
}

#[tokio::test]
async fn a_request_that_means_nothing_is_refused() {
    let app = start().await;
    for wrong in ["?open=yes", "?open=", "?limit=0", "?cursor=x", "?open=true&open=true"] {
        refused(app.get(&format!("{PROPOSALS}{wrong}")).await, 422, "invalid_request");
    }
    refused(app.get("/v1/apps/nobody/proposals").await, 404, "not_found");
    for missing in [MISSING, "prop_1", "act_ffffffffffffffffffffffffffffffff"] {
        refused(app.get(&format!("/v1/proposals/{missing}")).await, 404, "not_found");
        refused(decide(&app, missing, "confirm", None).await, 404, "not_found");
        refused(decide(&app, missing, "reject", None).await, 404, "not_found");
    }
    refused(decide(&app, MISSING, "confirm", Some("a b")).await, 400, "invalid_idempotency_key");
}

/// A proposal to another user is answered like one that does not exist, and stays open.
#[tokio::test]
async fn what_is_not_yours_does_not_exist() {
    let app = start().await;
    let id = id(&waiting(&app).await);
    let key = NewKey { user: "bob".into(), app: None, admin: true, ..NewKey::default() };
    let token = app.service.add_key(key, None).await.unwrap().token.unwrap();
    let send =
        async |method: Method, path: &str| app.send(app.request(method, path).bearer_auth(&token)).await;
    for (method, what) in [(Method::GET, ""), (Method::POST, "/confirm"), (Method::POST, "/reject")] {
        let expected = problem(send(method.clone(), &format!("/v1/proposals/{MISSING}{what}")).await);
        assert_eq!(expected["detail"], "there is no such proposal, or it is not yours");
        assert_eq!(problem(send(method, &format!("/v1/proposals/{id}{what}")).await), expected);
    }
    assert_eq!(good(send(Method::GET, PROPOSALS).await), json!({ "data": [], "next": null }));
    assert_eq!(app.count("SELECT count(*) FROM proposals WHERE status = 'open'"), 1);
}
