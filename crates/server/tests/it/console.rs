//! `/` in a browser: the page of the console, the files that it loads, and what both forbid.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Setup, TestApp};

use crate::support::{good, refused};

/// A file as a browser gets it.
struct Sent {
    status: u16,
    headers: Vec<(String, String)>,
    text: String,
}

impl Sent {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

async fn fetch(app: &TestApp, path: &str, asked: &[(&str, &str)]) -> Sent {
    let request = app.request(Method::GET, path).header("accept", "text/html,*/*;q=0.8");
    let request = asked.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let headers = response.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let status = response.status().as_u16();
    Sent { status, headers, text: String::from_utf8_lossy(&response.bytes().await.unwrap()).into_owned() }
}

/// The files that the page names.
fn named(html: &str) -> Vec<String> {
    let parts = html.split("\"./").skip(1);
    parts.filter_map(|part| part.split_once('"')).map(|(path, _)| format!("/{path}")).collect()
}

#[tokio::test]
async fn the_page_and_its_files_are_served_with_a_strict_policy() {
    let app = TestApp::start().await;
    let page = fetch(&app, "/", &[]).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(
        (page.header("cache-control"), page.header("x-content-type-options")),
        ("no-cache", "nosniff")
    );
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    for none in ["<style", " style=", "javascript:", "http://", "https://"] {
        assert!(!page.text.contains(none), "{none} in {}", page.text);
    }
    assert!(page.text.contains("<noscript>") && page.text.contains("href=\"openapi.json\""), "{}", page.text);
    let files = named(&page.text);
    assert!(
        files.iter().any(|file| file.ends_with(".js")) && files.iter().any(|file| file.ends_with(".css"))
    );
    for file in &files {
        let sent = fetch(&app, file, &[]).await;
        assert_eq!(sent.status, 200, "{file}");
        assert!(sent.header("cache-control").contains("immutable"), "{file}");
        assert_eq!(sent.header("content-security-policy"), policy, "{file}");
        let kind = if file.ends_with(".js") { "text/javascript; charset=utf-8" } else { "" };
        assert!(
            kind.is_empty() || sent.header("content-type") == kind,
            "{file}: {}",
            sent.header("content-type")
        );
    }
}

#[tokio::test]
async fn a_file_is_compressed_for_who_takes_it_and_sent_once() {
    let app = TestApp::start().await;
    let plain = fetch(&app, "/", &[]).await;
    assert_eq!(plain.header("content-encoding"), "");
    let script = named(&plain.text).into_iter().find(|file| file.ends_with(".js")).unwrap();
    let whole = fetch(&app, &script, &[]).await.text.len();
    let packed = fetch(&app, &script, &[("accept-encoding", "gzip, br")]).await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "accept-encoding"));
    assert!(packed.text.len() < whole, "{} of {whole} bytes", packed.text.len());
    let again = fetch(&app, "/", &[("if-none-match", plain.header("etag"))]).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    let missing = fetch(&app, "/_console/old-00000000.js", &[]).await;
    assert_eq!(missing.status, 404);
    assert!(missing.text.contains("newer version"), "{}", missing.text);
}

/// The page is the same for all visitors, so it does not tell which apps there are.
#[tokio::test]
async fn the_page_names_no_app() {
    let app = TestApp::with(Setup::app("description = \"Orchard\"")).await;
    let before = fetch(&app, "/", &[]).await.text;
    let key = NewKey { user: "ann".into(), ..NewKey::default() };
    app.service.add_key(key, None).await.unwrap();
    let after = fetch(&app, "/", &[]).await;
    assert_eq!((after.status, after.text == before, before.contains("Orchard")), (200, true, false));
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
