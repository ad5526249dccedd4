//! `/` in a browser: a static page with the apps that its reader may see, and nothing that runs or loads.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Setup, TestApp};

use crate::support::{good, refused};

/// A page as a browser gets it.
struct Page {
    status: u16,
    policy: String,
    html: String,
}

async fn page(app: &TestApp, token: Option<&str>) -> Page {
    let mut request = app.request(Method::GET, "/").header("accept", "text/html,*/*;q=0.8");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(
        (header("cache-control"), header("x-content-type-options")),
        ("no-store".into(), "nosniff".into())
    );
    let (status, policy) = (response.status().as_u16(), header("content-security-policy"));
    Page { status, policy, html: response.text().await.unwrap() }
}

/// Two apps, and a model that is offered tools or not; the words of one would be markup if they were not escaped.
async fn with_two_apps(tools: bool) -> TestApp {
    let other = "name = \"<b>Other</b>\"\ndescription = \"a & \\\"b\\\" <script>alert(1)</script>\"\n";
    let files = [("../other/app.toml", other), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let mut setup = Setup { files, ..Setup::app("tools = [\"echo\"]") };
    setup.capabilities.tools = tools;
    TestApp::with(setup).await
}

#[tokio::test]
async fn without_keys_the_page_lists_all_apps() {
    let app = with_two_apps(true).await;
    let Page { status, policy, html } = page(&app, None).await;
    assert_eq!(status, 200);
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(html.contains("<small>test</small>") && html.contains("<small>other</small>"), "{html}");
    assert!(
        html.contains("&lt;b&gt;Other&lt;/b&gt;") && html.contains("a &amp; &quot;b&quot; &lt;script&gt;"),
        "{html}"
    );
    assert!(html.contains(&format!("curl -N {}/v1/apps/other/runs", app.url)), "{html}");
    assert!(html.contains("Answers with test-model.") && !html.contains("is not offered"), "{html}");
    for none in ["<script", "<link", "<img", " src=", " style=", "{{", "Authorization"] {
        assert!(!html.contains(none), "{none} in {html}");
    }
    assert!(html.contains("href=\"openapi.json\""), "{html}");
}

/// The hash is the one of the style as it is sent, or browsers would ignore it.
#[tokio::test]
async fn the_policy_allows_the_style_of_the_page() {
    use base64::Engine;
    use sha2::{Digest, Sha256};
    let app = TestApp::start().await;
    let Page { policy, html, .. } = page(&app, None).await;
    let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(style));
    assert!(policy.contains(&format!("style-src 'sha256-{hash}'")), "{policy}");
}

#[tokio::test]
async fn with_keys_the_page_names_no_app_without_one() {
    let app = with_two_apps(true).await;
    let key = NewKey { user: "ann".into(), app: Some("test".into()), admin: false, ..NewKey::default() };
    let token = app.service.add_key(key, None).await.unwrap().token.unwrap();
    for wrong in [None, Some("rondo_00")] {
        let Page { status, html, .. } = page(&app, wrong).await;
        assert_eq!(status, 200);
        for name in ["other", "Other", "<small>test", "test-model", "/v1/apps/test"] {
            assert!(!html.contains(name), "{name} in {html}");
        }
        assert!(html.contains("Authorization: Bearer") && html.contains("/v1/apps/APP/runs"), "{html}");
    }
    let html = page(&app, Some(&token)).await.html;
    assert!(html.contains("<small>test</small>") && !html.contains("<small>other</small>"), "{html}");
    assert!(html.contains("/v1/apps/test/runs") && html.contains("Authorization: Bearer"), "{html}");
    assert!(!html.contains(&token), "a key is not repeated");
}

#[tokio::test]
async fn the_page_says_that_a_model_gets_no_tools_or_that_there_is_none() {
    let app = with_two_apps(false).await;
    let html = page(&app, None).await.html;
    assert!(
        html.contains("This model is not offered the tools of the app, so it cannot use them: echo."),
        "{html}"
    );
    let app = TestApp::with(Setup { model: false, ..Setup::default() }).await;
    let html = page(&app, None).await.html;
    assert!(html.contains("No model is configured"), "{html}");
}

#[tokio::test]
async fn programs_get_json_and_other_methods_nothing() {
    let app = TestApp::start().await;
    let request = app.request(Method::GET, "/").header("accept", "application/json");
    let body = good(app.send(request).await);
    assert_eq!((&body["name"], &body["openapi"]), (&json!("Rondo"), &json!("/openapi.json")));
    let head = app.request(Method::HEAD, "/").send().await.unwrap();
    assert_eq!((head.status().as_u16(), head.headers().contains_key("content-security-policy")), (200, true));
    assert_eq!(head.text().await.unwrap(), "");
    refused(app.post("/", &json!({})).await, 405, "method_not_allowed");
    let icon = app.get("/favicon.ico").await;
    assert_eq!((icon.status, icon.body), (204, Value::Null));
    let rebound = app.request(Method::GET, "/").header("host", "rebind.example");
    refused(app.send(rebound).await, 403, "host_not_allowed");
}
