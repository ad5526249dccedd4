//! Images: uploaded in every format, encoded anew, shown, listed, deleted, hidden from other users; and bad ones
//! refused.

use axum::http::{HeaderMap, Method};
use serde_json::{Value, json};
use testkit::pictures::{boasting_png, clear_png, data_url, jpeg, png};
use testkit::{Answer, Setup, TestApp};

use crate::support::{RUNS, delete, good, refused, send_as, token};

const IMAGES: &str = "/v1/apps/test/images";
const MIB: usize = 1024 * 1024;

async fn upload(app: &TestApp, media_type: &str, bytes: impl Into<Vec<u8>>) -> Answer {
    let request = app.request(Method::POST, &format!("{IMAGES}?name=cat.png"));
    app.send(request.header("content-type", media_type).body(bytes.into())).await
}

/// With a model that sees images.
async fn seeing() -> TestApp {
    let mut setup = Setup::default();
    setup.capabilities.vision = true;
    TestApp::with(setup).await
}

fn path(image: &Value) -> String {
    format!("/v1/images/{}", image["id"].as_str().unwrap())
}

/// The headers and the bytes of an image.
async fn shown(app: &TestApp, image: &Value) -> (HeaderMap, Vec<u8>) {
    let response = app.request(Method::GET, &path(image)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    (response.headers().clone(), response.bytes().await.unwrap().to_vec())
}

#[tokio::test]
async fn an_image_is_encoded_anew_and_shown_with_care() {
    let app = TestApp::start().await;
    let made = upload(&app, "image/png", png(80, 60)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = good(made);
    assert!(made["id"].as_str().unwrap().starts_with("img_"));
    let (headers, bytes) = shown(&app, &made).await;
    let expected = json!({
        "id": made["id"], "appId": "test", "mediaType": "image/jpeg", "width": 80, "height": 60,
        "bytes": bytes.len(), "name": "cat.png", "createdAt": made["createdAt"],
    });
    assert_eq!(made, expected);
    assert!(bytes.starts_with(&[0xff, 0xd8, 0xff]));
    let header = |name: &str| headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "image/jpeg");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(header("content-security-policy").contains("sandbox"));
    assert!(header("cache-control").starts_with("private"));
    let clear = good(upload(&app, "image/png", clear_png(8, 8)).await);
    assert_eq!(clear["mediaType"], "image/png");
    let listed = good(app.get(IMAGES).await);
    assert_eq!(listed, json!({ "data": [clear, made], "next": null }), "newest first");
    let first = good(app.get(&format!("{IMAGES}?limit=1")).await);
    let rest = format!("{IMAGES}?cursor={}", first["next"].as_str().unwrap());
    assert_eq!(good(app.get(&rest).await)["data"], json!([made]));
}

#[tokio::test]
async fn a_large_image_becomes_smaller_and_a_form_is_taken() {
    let app = TestApp::start().await;
    let large = good(upload(&app, "image/jpeg", jpeg(2600, 1300)).await);
    assert_eq!((&large["width"], &large["height"]), (&json!(2048), &json!(1024)));
    let head = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"C:\\\\dog.jpg\"\r\n\
        content-type: image/jpeg\r\n\r\n";
    let form = [head.as_bytes(), &jpeg(20, 10), b"\r\n--b--\r\n"].concat();
    let request = app
        .request(Method::POST, IMAGES)
        .header("content-type", "multipart/form-data; boundary=b")
        .body(form);
    let made = good(app.send(request).await);
    assert_eq!((&made["name"], &made["width"]), (&json!("dog.jpg"), &json!(20)));
    let unnamed = app.request(Method::POST, IMAGES).header("content-type", "image/png").body(png(5, 5));
    assert_eq!(good(app.send(unnamed).await).get("name"), None);
}

#[tokio::test]
async fn the_same_bytes_are_the_same_image_of_one_user() {
    let app = seeing().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    let send = async |token: &str| {
        let request = app.request(Method::POST, IMAGES).bearer_auth(token);
        good(app.send(request.header("content-type", "image/png").body(png(30, 30))).await)
    };
    let first = send(&ann).await;
    assert_eq!(send(&ann).await, first);
    let other = send(&bob).await;
    assert_ne!(other["id"], first["id"], "nobody learns what others have");
    assert_eq!(app.count("SELECT count(*) FROM image_contents"), 2);
    // An image of another user is as one that is not there.
    for method in [Method::GET, Method::DELETE] {
        refused(send_as(&app, &bob, method, (&path(&first), &Value::Null)).await, 404, "not_found");
    }
    let shows = json!({ "message": "What is it?", "parts": [{ "type": "image", "imageId": first["id"] }] });
    refused(send_as(&app, &bob, Method::POST, (RUNS, &shows)).await, 404, "not_found");
    assert_eq!(app.count("SELECT count(*) FROM runs"), 0);
}

#[tokio::test]
async fn an_image_is_deleted_with_its_content_once() {
    let app = TestApp::start().await;
    let made = good(upload(&app, "image/png", png(30, 30)).await);
    let request = || app.request(Method::DELETE, &path(&made)).header("idempotency-key", "k");
    assert_eq!(app.send(request()).await.status, 204);
    assert_eq!(app.send(request()).await.status, 204, "the same request again");
    refused(delete(&app, &path(&made)).await, 404, "not_found");
    refused(app.get(&path(&made)).await, 404, "not_found");
    assert_eq!(app.count("SELECT (SELECT count(*) FROM images) + (SELECT count(*) FROM image_contents)"), 0);
}

#[tokio::test]
async fn bad_uploads_are_refused_by_name_and_leave_nothing() {
    let app = TestApp::start().await;
    let svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    let truncated = png(200, 200)[..120].to_vec();
    for (media_type, bytes, status, code) in [
        ("image/svg+xml", svg.as_bytes().to_vec(), 415, "image_unsupported"),
        ("image/png", svg.as_bytes().to_vec(), 415, "image_unsupported"),
        ("image/png", b"MZ\x90\0".to_vec(), 415, "image_unsupported"),
        ("image/png", Vec::new(), 415, "image_unsupported"),
        ("image/png", jpeg(8, 8), 415, "image_type_mismatch"),
        ("text/html", png(8, 8), 415, "image_type_mismatch"),
        ("application/x-www-form-urlencoded", png(8, 8), 415, "image_type_mismatch"),
        ("image/png", truncated, 422, "image_unreadable"),
        ("image/png", boasting_png(10_000, 5_000), 413, "image_too_large"),
        ("image/png", boasting_png(60_000, 60_000), 413, "image_too_large"),
        ("image/png", boasting_png(3_000, 3_000), 422, "image_unreadable"),
        ("image/png", [png(8, 8), vec![0; 10 * MIB]].concat(), 413, "image_too_large"),
    ] {
        refused(upload(&app, media_type, bytes).await, status, code);
    }
    let named = app.request(Method::POST, &format!("{IMAGES}?name=a%0Ab"));
    refused(
        app.send(named.header("content-type", "image/png").body(png(8, 8))).await,
        422,
        "invalid_request",
    );
    assert_eq!(app.count("SELECT count(*) FROM images"), 0);
    // Bytes after an image are never kept.
    let polyglot = [png(8, 8), svg.as_bytes().to_vec()].concat();
    let made = good(upload(&app, "image/png", polyglot).await);
    let (_, bytes) = shown(&app, &made).await;
    assert!(!bytes.windows(6).any(|part| part == b"script"));
}

#[tokio::test]
async fn an_upload_that_no_message_shows_is_swept_after_a_day() {
    let app = TestApp::start().await;
    let made = good(upload(&app, "image/png", png(30, 30)).await);
    let aged = "UPDATE images SET unused_since = unused_since - 86400000 - 1";
    app.service.idle().await;
    app.database().execute(aged, []).unwrap();
    // An upload of equal bytes begins the day anew.
    assert_eq!(good(upload(&app, "image/png", png(30, 30)).await), made);
    let app = app.restart().await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM images"), 1);
    app.database().execute(aged, []).unwrap();
    let app = app.restart().await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT (SELECT count(*) FROM images) + (SELECT count(*) FROM image_contents)"), 0);
}

#[tokio::test]
async fn parts_of_a_wrong_form_are_refused_and_nothing_is_stored() {
    let app = seeing().await;
    let url = data_url("image/png", &png(8, 8));
    let image = json!({ "type": "image", "url": url });
    let unknown = "img_00000000000070008000000000000bad";
    let text = data_url("text/plain", b"A pump.");
    let program = data_url("application/x-msdownload", b"MZ\x90\0\x03");
    let many_documents = vec![json!({ "type": "document", "url": text, "name": "a.txt" }); 9];
    for (parts, status, code, words) in [
        (json!(vec![image.clone(); 100]), 422, "invalid_request", "at most 8 images"),
        (json!(many_documents), 422, "invalid_request", "at most 8 documents"),
        (json!([{ "type": "image" }]), 422, "invalid_request", "imageId"),
        (json!([{ "type": "image", "imageId": unknown, "url": url }]), 422, "invalid_request", "either"),
        (json!([{ "type": "image", "imageId": unknown }]), 404, "not_found", "image"),
        (
            json!([{ "type": "image", "url": "https://example.com/cat.png" }]),
            422,
            "invalid_request",
            "data URL",
        ),
        (json!([{ "type": "image", "url": "http://169.254.169.254/x" }]), 422, "invalid_request", "data URL"),
        (json!([{ "type": "image", "url": "data:image/png;base64,@@" }]), 422, "invalid_request", "base64"),
        (
            json!([{ "type": "image", "url": data_url("image/jpeg", &png(8, 8)) }]),
            415,
            "image_type_mismatch",
            "image/png",
        ),
        (
            json!([{ "type": "image", "url": data_url("image/svg+xml", b"<svg/>") }]),
            415,
            "image_unsupported",
            "PNG",
        ),
        (json!([image, { "type": "document", "url": text }]), 422, "invalid_request", "name"),
        (json!([{ "type": "document", "url": program, "name": "a.exe" }]), 415, "document_unsupported", ""),
        (json!([{ "type": "video", "url": url }]), 422, "invalid_request", "video"),
        (json!([{ "type": "image", "imageid": unknown }]), 422, "invalid_request", "imageid"),
    ] {
        let detail = refused(app.post(RUNS, &json!({ "message": "Hi", "parts": parts })).await, status, code);
        assert!(detail.contains(words), "{detail}");
    }
    let again = json!({ "regenerate": true, "threadId": "thr_00000000000070008000000000000bad",
        "parts": [{ "type": "image", "url": url }] });
    refused(app.post(RUNS, &again).await, 422, "invalid_request");
    refused(app.post(RUNS, &json!({ "message": "", "parts": [] })).await, 422, "invalid_request");
    assert_eq!(app.count("SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM threads)"), 0);
    assert_eq!(app.count("SELECT count(*) FROM documents WHERE deleted_at IS NULL"), 0);
    assert!(app.upstream.requests().is_empty());
}

#[tokio::test]
async fn a_message_may_be_as_large_as_its_images_and_no_larger() {
    let app = seeing().await;
    app.upstream.program(|_| testkit::upstream::Reply::says("Fine."));
    // More than another body, which the picture is padded to: what follows a picture is dropped.
    let large = [png(8, 8), vec![0; 4 * MIB]].concat();
    let body = json!({ "message": "Hi", "stream": false,
        "parts": [{ "type": "image", "url": data_url("image/png", &large) }] });
    assert_eq!(good(app.post(RUNS, &body).await)["status"], "completed");
    let too_large = json!({ "message": "x".repeat(17 * MIB) });
    refused(app.post(RUNS, &too_large).await, 413, "body_too_large");
}
