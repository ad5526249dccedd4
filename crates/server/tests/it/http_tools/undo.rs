//! An action in an external system is undone by another request, once (E4). A tool without undo needs approval.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::web::{self, Web};
use testkit::{Answer, TestApp, audit};

use super::{setup, tool};
use crate::support::{Names, RUNS, good, refused, told};

const TICKETS: &str = r#"
[tool.open]
description = "Opens a ticket."
effect = "reversible"
parameters = { type = "object", properties = { project = { type = "string" } } }
[tool.open.http]
method = "POST"
url = "WEB/{{ input.project }}/tickets"
result = "/ticket"
[[tool.open.flow]]
[tool.open.undo]
method = "UNDO"
url = "WEB/{{ input.project }}/tickets/{{ output.id }}"
headers = { "X-Trace" = "{{ call.key }}" }
"#;

/// An app whose undo is a request of this method.
async fn start(web: &Web, method: &str) -> TestApp {
    TestApp::with(setup(web, &TICKETS.replace("UNDO", method))).await
}

/// A run that opens tickets with these ids, one after the other.
async fn opened(app: &TestApp, web: &Web, ids: &[&str]) -> Names {
    let mut replies = Vec::new();
    for id in ids {
        web.on("POST", "/a%20b/tickets", [web::WebReply::json(&json!({ "ticket": { "id": id } }))]);
        let input = json!({ "project": "a b" }).to_string();
        replies.push(Reply::stream().call(ScriptedCall::new("open", &input)));
    }
    replies.push(Reply::says("Done."));
    app.upstream.script(replies);
    told(app, json!({ "message": "Open them" })).await
}

async fn actions(app: &TestApp, names: &Names) -> Vec<Value> {
    let page = good(app.get(&format!("/v1/apps/test/actions?run={}", names.run)).await);
    page["data"].as_array().unwrap().clone()
}

async fn undo(app: &TestApp, action: &Value, key: Option<&str>) -> Answer {
    let path = format!("/v1/actions/{}/undo", action["id"].as_str().unwrap());
    crate::support::keyed(app, key, Method::POST, (&path, &Value::Null)).await
}

#[tokio::test]
async fn e4_an_action_is_undone_outside_once() {
    let web = Web::start().await;
    let app = start(&web, "DELETE").await;
    let names = opened(&app, &web, &["7/8"]).await;
    let action = actions(&app, &names).await.remove(0);
    assert_eq!((&action["output"], &action["undoable"]), (&json!({ "id": "7/8" }), &json!(true)));
    web.on("DELETE", "/a%20b/tickets/7%2F8", [web::WebReply::status(204)]);
    let by = good(undo(&app, &action, Some("k")).await);
    assert_eq!((&by["status"], &by["undoOf"]), (&json!("complete"), &action["id"]));
    assert_eq!(
        good(undo(&app, &action, Some("k")).await)["id"],
        by["id"],
        "the same request, the same answer"
    );
    let detail = refused(undo(&app, &action, None).await, 409, "cannot_undo");
    assert_eq!(detail, "the action was undone already");
    let undone = good(app.get(&format!("/v1/actions/{}", action["id"].as_str().unwrap())).await);
    assert_eq!(
        (&undone["undone"], &undone["undoable"], &undone["undoneBy"]),
        (&json!(true), &json!(false), &by["id"])
    );
    refused(undo(&app, &by, None).await, 409, "cannot_undo");
    let arrivals = web.arrivals();
    assert_eq!(arrivals.len(), 2);
    let key = |index: usize| arrivals[index].header("idempotency-key");
    assert!(key(1).is_some() && key(0) != key(1), "the undo has a key of its own");
    assert_eq!(arrivals[1].header("x-trace"), key(1));
    assert_eq!(app.service.verify_ledger(None).await.unwrap().faults.len(), 0);
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn a_preview_names_the_request_and_sends_nothing() {
    let web = Web::start().await;
    let app = start(&web, "DELETE").await;
    let names = opened(&app, &web, &["7/8"]).await;
    let action = actions(&app, &names).await.remove(0);
    let path = format!("/v1/actions/{}/undo", action["id"].as_str().unwrap());
    let preview = good(app.get(&path).await);
    let change = &preview["changes"][0];
    assert_eq!((&preview["possible"], &change["kind"]), (&json!(true), &json!("external")));
    assert_eq!((&change["id"], &change["before"]), (&json!("open"), &Value::Null));
    assert_eq!(change["after"]["method"], "DELETE");
    let url = change["after"]["url"].as_str().unwrap();
    assert!(url.ends_with("/a%20b/tickets/7%2F8"), "{url}");
    assert_eq!(change["label"], format!("DELETE {url}"));
    assert_eq!(web.arrivals().len(), 1, "only the ticket was opened");
    let of_run = good(app.get(&format!("{}/undo", names.run_path())).await);
    assert_eq!(of_run["actions"][0], preview);
    web.on("DELETE", "/a%20b/tickets/7%2F8", [web::WebReply::status(204)]);
    good(undo(&app, &action, None).await);
    let after = good(app.get(&path).await);
    assert_eq!(
        (&after["possible"], &after["reason"]),
        (&json!(false), &json!("the action was undone already"))
    );
}

#[tokio::test]
async fn e4_an_undo_that_failed_can_be_tried_again() {
    let web = Web::start().await;
    let app = start(&web, "POST").await;
    let names = opened(&app, &web, &["1"]).await;
    let action = actions(&app, &names).await.remove(0);
    web.on(
        "POST",
        "/a%20b/tickets/1",
        [web::WebReply::text("it is locked").with_status(423), web::WebReply::status(200)],
    );
    let detail = refused(undo(&app, &action, None).await, 409, "cannot_undo");
    assert_eq!(detail, "the undo failed: the server answered with the status 423: it is locked");
    assert_eq!(actions(&app, &names).await[0]["undoable"], true);
    good(undo(&app, &action, None).await);
    assert_eq!(actions(&app, &names).await[0]["undoable"], false);
    assert_eq!(web.arrivals().len(), 3);
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn e4_an_undo_of_which_nobody_knows_is_not_tried_again() {
    for method in ["POST", "DELETE"] {
        let web = Web::start().await;
        let app = start(&web, method).await;
        let names = opened(&app, &web, &["1"]).await;
        let action = actions(&app, &names).await.remove(0);
        let reply = if method == "POST" { web::WebReply::broken() } else { web::WebReply::status(500) };
        web.on(method, "/a%20b/tickets/1", [reply]);
        let detail = refused(undo(&app, &action, None).await, 409, "cannot_undo");
        assert!(detail.contains("it is not known whether the undo took effect"), "{detail}");
        let detail = refused(undo(&app, &action, None).await, 409, "cannot_undo");
        assert!(detail.contains("has no known result"), "{detail}");
        assert_eq!(web.arrivals().len(), 2);
        assert_eq!(app.service.verify_ledger(None).await.unwrap().faults.len(), 0);
        assert_eq!(audit(&app.data()), [""; 0]);
    }
}

#[tokio::test]
async fn e4_a_run_is_undone_newest_first_and_what_stays_is_named() {
    let web = Web::start().await;
    let app = start(&web, "DELETE").await;
    let names = opened(&app, &web, &["1", "2", "3"]).await;
    web.on("DELETE", "/a%20b/tickets/3", [web::WebReply::status(200)]);
    web.on("DELETE", "/a%20b/tickets/2", [web::WebReply::text("no").with_status(403)]);
    web.on("DELETE", "/a%20b/tickets/1", [web::WebReply::status(200)]);
    let undo =
        async || good(app.send(app.request(Method::POST, &format!("{}/undo", names.run_path()))).await);
    let report = undo().await;
    assert_eq!(report["undone"].as_array().map(Vec::len), Some(2), "{report}");
    let refused = &report["refused"][0];
    assert_eq!(refused["tool"], "open");
    assert!(refused["reason"].as_str().unwrap().ends_with("with the status 403: no"), "{report}");
    let paths: Vec<String> = web.arrivals().split_off(3).into_iter().map(|arrival| arrival.path).collect();
    assert_eq!(paths, ["3", "2", "1"].map(|id| format!("/a%20b/tickets/{id}")));
    web.on("DELETE", "/a%20b/tickets/2", [web::WebReply::status(200)]);
    let report = undo().await;
    assert_eq!((report["undone"].as_array().map(Vec::len), &report["refused"]), (Some(3), &json!([])));
    assert_eq!(web.arrivals().len(), 7, "only what was left was asked for again");
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn e4_two_undos_at_once_arrive_as_one() {
    let web = Web::start().await;
    let app = start(&web, "DELETE").await;
    let names = opened(&app, &web, &["1"]).await;
    let action = actions(&app, &names).await.remove(0);
    let gate = Gate::new();
    web.on("DELETE", "/a%20b/tickets/1", [web::WebReply::status(200).wait(&gate)]);
    let (first, second) = tokio::join!(undo(&app, &action, None), async {
        gate.reached().await;
        let second = undo(&app, &action, None).await;
        gate.open();
        second
    });
    good(first);
    assert_eq!(refused(second, 409, "cannot_undo"), "an undo of the action is running");
    assert_eq!(web.arrivals().len(), 2);
}

const PAY: &str = "method = 'POST'\nurl = 'WEB/pay'";

fn paying(more: &str) -> String {
    tool("pay", "irreversible", PAY).replace("policy = 'allow'\n", more)
}

async fn confirm(app: &TestApp, proposal: &str) -> Answer {
    app.send(app.request(Method::POST, &format!("/v1/proposals/{proposal}/confirm"))).await
}

#[tokio::test]
async fn what_cannot_be_undone_asks_first_and_an_approval_is_one_request() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &paying(""))).await;
    for word in ["reject", "confirm"] {
        app.upstream.script([Reply::stream().call(ScriptedCall::new("pay", "{}"))]);
        let waiting = good(app.post(RUNS, &json!({ "message": "Pay", "stream": false })).await);
        assert_eq!(waiting["status"], "waiting", "{waiting}");
        assert_eq!(web.arrivals().len(), 0);
        let proposal = waiting["proposals"][0]["id"].as_str().unwrap();
        app.upstream.script([Reply::says("Well.")]);
        web.on("POST", "/pay", (word == "confirm").then(|| web::WebReply::json(&json!({ "paid": true }))));
        good(app.send(app.request(Method::POST, &format!("/v1/proposals/{proposal}/{word}"))).await);
        app.service.idle().await;
        refused(confirm(&app, proposal).await, 409, "proposal_decided");
    }
    assert_eq!(web.arrivals().len(), 1);
    let page = good(app.get("/v1/apps/test/actions?tool=pay").await);
    let statuses: Vec<&Value> =
        page["data"].as_array().unwrap().iter().map(|action| &action["status"]).collect();
    assert_eq!(statuses, ["complete", "denied"]);
    let paid = &page["data"][0];
    assert_eq!(paid["undoable"], false);
    refused(undo(&app, paid, None).await, 409, "cannot_undo");
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn a_proposal_of_its_own_is_one_request_and_what_nobody_knows_is_unknown() {
    let web = Web::start().await;
    let pay = paying("") + "timeout_seconds = 1\n";
    let app = TestApp::with(setup(&web, &format!("tools = ['proposals']\n{pay}"))).await;
    for (reply, status) in [
        (web::WebReply::json(&json!({ "paid": true })), "complete"),
        (web::WebReply::text("late").wait(&Gate::new()), "unknown"),
        (web::WebReply::broken(), "unknown"),
        (web::WebReply::text("no funds").with_status(402), "failed"),
    ] {
        let before = web.arrivals().len();
        let input = json!({ "tool": "pay", "input": {}, "note": status }).to_string();
        app.upstream.script([
            Reply::stream().call(ScriptedCall::new("createProposal", &input)),
            Reply::says("Proposed."),
        ]);
        told(&app, json!({ "message": "Propose it" })).await;
        let open = good(app.get("/v1/apps/test/proposals?open=true").await);
        web.on("POST", "/pay", [reply]);
        let confirmed = good(confirm(&app, open["data"][0]["id"].as_str().unwrap()).await);
        let action = good(app.get(&format!("/v1/actions/{}", confirmed["actionId"].as_str().unwrap())).await);
        assert_eq!((&action["status"], &action["runId"]), (&json!(status), &Value::Null), "{action}");
        assert_eq!(web.arrivals().len(), before + 1);
        let key = action["id"].as_str().unwrap().replace("act_", "call_");
        assert_eq!(web.arrivals()[before].header("idempotency-key"), Some(key.as_str()));
    }
    assert_eq!(audit(&app.data()), [""; 0]);
}
