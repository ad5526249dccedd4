//! Files: written, read in both forms, replaced under the version they have, deleted. Other users do not see them.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Answer, TestApp};

use crate::support::{good, problem, refused};

const FILES: &str = "/v1/apps/test/files";
const KIB: usize = 1024;

fn at(path: &str) -> String {
    format!("{FILES}/{path}")
}

async fn put(app: &TestApp, path: &str, content: impl Into<Vec<u8>>) -> Answer {
    let request = app.request(Method::PUT, &at(path)).header("content-type", "text/markdown");
    app.send(request.body(content.into())).await
}

async fn put_as(app: &TestApp, path: &str, header: (&str, &str)) -> Answer {
    app.send(app.request(Method::PUT, &at(path)).header(header.0, header.1).body("text")).await
}

async fn content(app: &TestApp, path: &str) -> String {
    app.request(Method::GET, &at(path)).send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn a_file_is_written_read_listed_and_deleted() {
    let app = TestApp::start().await;
    let text = "# Plan\r\n\r\n- Größe: ½ 👋\n";
    let made = good(put(&app, "trips/My plan.md", text).await);
    insta::assert_json_snapshot!("a_new_file", made);
    put(&app, "a.md", "").await;

    let response = app.request(Method::GET, &at("trips/My%20plan.md")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["etag"], "\"1\"");
    assert_eq!(response.headers()["content-type"], "text/markdown; charset=utf-8");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    assert_eq!(response.bytes().await.unwrap(), text.as_bytes());
    let request = app.request(Method::GET, &at("trips/My plan.md")).header("accept", "application/json");
    let file = good(app.send(request).await);
    assert_eq!((&file["content"], &file["version"]), (&json!(text), &json!(1)));

    let list = good(app.get(FILES).await);
    let paths: Vec<_> = list["data"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["a.md", "trips/My plan.md"]);
    assert_eq!((&list["data"][1], &list["next"]), (&made, &Value::Null));

    assert_eq!(app.send(app.request(Method::DELETE, &at("a.md"))).await.status, 204);
    refused(app.get(&at("a.md")).await, 404, "not_found");
    refused(app.send(app.request(Method::DELETE, &at("a.md"))).await, 404, "not_found");
    assert_eq!(good(put(&app, "a.md", "again").await)["version"], 3);
}

#[tokio::test]
async fn a_file_is_replaced_only_under_the_version_it_has() {
    let app = TestApp::start().await;
    put(&app, "a.md", "one").await;
    assert_eq!(good(put_as(&app, "a.md", ("if-match", "\"1\"")).await)["version"], 2);
    let detail = refused(put_as(&app, "a.md", ("if-match", "\"1\"")).await, 409, "changed");
    assert!(detail.contains("version is 2"), "{detail}");
    refused(put_as(&app, "a.md?version=1", ("accept", "*/*")).await, 409, "changed");
    assert_eq!(good(put_as(&app, "a.md?version=1", ("if-match", "\"2\"")).await)["version"], 3);
    assert_eq!(good(put_as(&app, "a.md?version=3", ("accept", "*/*")).await)["version"], 4);
    refused(put_as(&app, "new.md", ("if-match", "\"1\"")).await, 409, "changed");
    let late = app.request(Method::DELETE, &at("a.md")).header("if-match", "\"3\"");
    refused(app.send(late).await, 409, "changed");
    for wrong in ["3", "*", "W/\"3\"", "\"x\"", "\"-1\"", "\"\"", "\""] {
        refused(put_as(&app, "a.md", ("if-match", wrong)).await, 422, "invalid_request");
    }
    refused(put_as(&app, "a.md?version=x", ("accept", "*/*")).await, 422, "invalid_request");
    assert_eq!(content(&app, "a.md").await, "text");
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_is_refused() {
    let app = TestApp::start().await;
    for wrong in [
        "a.txt",
        "a",
        ".md/",
        "a//b.md",
        "%2e%2e%2fa.md",
        "a%2F%2e%2e%2Fb.md",
        "a%2F%2E%2Fb.md",
        "%2Fetc%2Fpasswd.md",
        "a%5Cb.md",
        "a%00.md",
        "a%0A.md",
        "C%3A/a.md",
        &format!("{}.md", "x".repeat(254)),
    ] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let answer = app.send(app.request(method.clone(), &at(wrong)).body("x")).await;
            let is_refused = [404, 422].contains(&answer.status) && answer.body["code"] != "internal";
            assert!(is_refused, "{method} {wrong}: {answer:?}");
        }
    }
    good(put(&app, &format!("{}.md", "x".repeat(253)), "x").await);
    assert_eq!(app.count("SELECT count(*) FROM files"), 1);
}

#[tokio::test]
async fn a_content_that_is_none_is_refused() {
    let app = TestApp::start().await;
    refused(put(&app, "a.md", vec![b'x', 0xff]).await, 400, "invalid_utf8");
    refused(put(&app, "a.md", vec![b'x'; 256 * KIB + 1]).await, 413, "too_large");
    refused(put(&app, "a.md", vec![b'x'; 2048 * KIB + 1]).await, 413, "body_too_large");
    for wrong in ["application/json", "text/html", "multipart/form-data; boundary=x", "text"] {
        refused(put_as(&app, "a.md", ("content-type", wrong)).await, 415, "unsupported_media_type");
    }
    refused(app.get("/v1/apps/nobody/files").await, 404, "not_found");
    refused(app.get("/v1/apps/nobody/files/a.md").await, 404, "not_found");
    assert_eq!(app.count("SELECT count(*) FROM files"), 0);
    good(put(&app, "a.md", vec![b'x'; 256 * KIB]).await);
    for right in ["text/plain; charset=utf-8", "Text/Markdown"] {
        good(put_as(&app, "a.md", ("content-type", right)).await);
    }
    good(app.send(app.request(Method::PUT, &at("a.md")).body("no type")).await);
}

#[tokio::test]
async fn under_a_key_a_file_is_written_once_and_deleted_once() {
    let app = TestApp::start().await;
    let keyed = async |method: Method, key: &str, body: &'static str| {
        app.send(app.request(method, &at("a.md")).header("idempotency-key", key).body(body)).await
    };
    assert_eq!(good(keyed(Method::PUT, "a", "one").await)["version"], 1);
    good(put(&app, "a.md", "two").await);
    assert_eq!(good(keyed(Method::PUT, "a", "one").await)["version"], 2);
    assert_eq!(content(&app, "a.md").await, "two");
    refused(keyed(Method::PUT, "a", "other").await, 422, "idempotency_key_reused");
    for _ in 0..2 {
        assert_eq!(keyed(Method::DELETE, "b", "").await.status, 204);
    }
    refused(keyed(Method::DELETE, "c", "").await, 404, "not_found");
    good(put(&app, "a.md", "three").await);
    assert_eq!(keyed(Method::DELETE, "b", "").await.status, 204);
    assert_eq!(content(&app, "a.md").await, "three");
}

#[tokio::test]
async fn there_is_room_for_a_thousand_files() {
    let app = TestApp::start().await;
    put(&app, "a.md", "x").await;
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
        INSERT INTO files SELECT (SELECT app FROM files), (SELECT user FROM files), 'f' || i || '.md',
            1, 1, 'x', 0, NULL FROM n";
    app.database().execute(fill, []).unwrap();
    refused(put(&app, "b.md", "x").await, 409, "files_full");
    good(put(&app, "a.md", "changed").await);
    assert_eq!(app.send(app.request(Method::DELETE, &at("f7.md"))).await.status, 204);
    good(put(&app, "b.md", "x").await);
}

/// A file of another user is answered like one that does not exist.
#[tokio::test]
async fn what_is_not_yours_does_not_exist() {
    let app = TestApp::start().await;
    let key = async |user: &str| {
        let key = NewKey { user: user.into(), app: Some("test".into()), admin: false, ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let (ann, bob) = (key("ann").await, key("bob").await);
    let send = async |token: &str, method: Method, path: &str| {
        app.send(app.request(method, &at(path)).bearer_auth(token).body("Ann's")).await
    };
    good(send(&ann, Method::PUT, "a.md").await);
    for method in [Method::GET, Method::DELETE] {
        let expected = problem(send(&bob, method.clone(), "b.md").await);
        assert_eq!(expected["detail"], "there is no such file, or it is not yours");
        assert_eq!(problem(send(&bob, method, "a.md").await), expected);
    }
    let list = app.send(app.request(Method::GET, FILES).bearer_auth(&bob)).await;
    assert_eq!(good(list), json!({ "data": [], "next": null }));
    // Each has a file of the name.
    assert_eq!(good(send(&bob, Method::PUT, "a.md").await)["version"], 1);
    assert_eq!(app.count("SELECT count(*) FROM files"), 2);
}
