//! The MCP server, asked by every kind of identity, and the document that says who issues tokens.

use axum::http::Method;
use protocol::{ActsFor, Clock, Right, Rights};
use serde_json::json;
use service::NewKey;
use testkit::issuer::TestIssuer;
use testkit::{Setup, TestApp};

use super::support::key;
use super::wire::{hello, send_to};
use crate::support::{good, refused};

const METADATA: &str = "/.well-known/oauth-protected-resource";

async fn made(app: &TestApp, key: NewKey) -> String {
    app.service.add_key(key, None).await.unwrap().token.unwrap()
}

#[tokio::test]
async fn each_identity_gets_the_answer_that_it_must() {
    let (main, stranger) = (TestIssuer::new("main"), TestIssuer::new("stranger"));
    let app = TestApp::with(Setup { issuers: vec![main.config()], ..super::two_apps() }).await;
    let run = key(&app, "ann", Right::Run).await;
    let read = key(&app, "ann", Right::Read).await;
    let admin = made(
        &app,
        NewKey { rights: Some(Rights::of([Right::Admin])), user: "root".into(), ..NewKey::default() },
    )
    .await;
    let other =
        made(&app, NewKey { user: "ann".into(), app: Some("other".into()), ..NewKey::default() }).await;
    let acting =
        made(&app, NewKey { user: "shop".into(), acts_for: Some(ActsFor::Any), ..NewKey::default() }).await;
    let soon = app.setup().clock.now().as_second() + 600;
    let claims = json!({ "sub": "u1", "exp": soon });
    let (good_token, bad_token) = (main.token(&claims), stranger.token(&claims));
    let body = hello("2025-11-25", &json!({}));
    for (token, user, in_all, in_test) in [
        (None, None, 401, 401),
        (Some("rk_wrong"), None, 401, 401),
        (Some(bad_token.as_str()), None, 401, 401),
        (Some(run.as_str()), None, 200, 200),
        (Some(read.as_str()), None, 200, 200),
        (Some(good_token.as_str()), None, 200, 200),
        (Some(admin.as_str()), None, 403, 403),
        (Some(other.as_str()), None, 200, 404),
        (Some(acting.as_str()), Some("carl"), 200, 200),
        (Some(run.as_str()), Some("carl"), 403, 403),
    ] {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers: Vec<(&str, &str)> = Vec::new();
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        headers.extend(user.map(|user| ("x-rondo-user", user)));
        for (path, status) in [
            ("/mcp", in_all),
            ("/mcp/test", in_test),
            ("/mcp/none", if in_all == 200 { 404 } else { in_all }),
        ] {
            let reply = send_to(&app, (Method::POST, path), &headers, &body).await;
            assert_eq!(reply.status, status, "{path} {token:?} {user:?} {}", reply.body);
            let expected = format!("Bearer resource_metadata=\"{}{METADATA}{path}\"", app.url);
            assert_eq!(reply.challenge, (status == 401).then_some(expected));
        }
    }
    let bearer = format!("Bearer {acting}");
    let reply = send_to(&app, (Method::POST, "/mcp"), &[("authorization", &bearer)], &body).await;
    assert_eq!((reply.status, &reply.body["code"]), (403, &json!("user_required")), "{}", reply.body);
}

#[tokio::test]
async fn a_client_learns_who_issues_tokens() {
    let issuer = TestIssuer::new("main");
    let app = TestApp::with(Setup { issuers: vec![issuer.config()], ..Setup::default() }).await;
    for (path, resource) in [("", "/mcp"), ("/mcp", "/mcp"), ("/mcp/test", "/mcp/test")] {
        assert_eq!(
            good(app.get(&format!("{METADATA}{path}")).await),
            json!({
                "resource": format!("{}{resource}", app.url),
                "authorization_servers": [issuer.url()],
                "bearer_methods_supported": ["header"],
                "resource_name": "Rondo",
            })
        );
    }
    let app = TestApp::start().await;
    for path in ["", "/mcp", "/mcp/test"] {
        refused(app.get(&format!("{METADATA}{path}")).await, 404, "not_found");
    }
    key(&app, "ann", Right::Run).await;
    let reply = send_to(&app, (Method::POST, "/mcp"), &[], "{}").await;
    assert_eq!((reply.status, reply.challenge.as_deref()), (401, Some("Bearer")));
}
