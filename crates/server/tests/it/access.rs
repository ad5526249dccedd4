//! Access: rights, expiry and rotation of keys, acting keys, sessions, pages of other origins, and attempts that fail.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::{HeaderMap, Method};
use jiff::SignedDuration;
use protocol::{ActsFor, Clock, KeyId, NewKey, Right, Rights};
use serde_json::{Value, json};
use server::{Proxying, PublicUrl};
use testkit::issuer::TestIssuer;
use testkit::still::StandingClock;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{RUNS, THREADS, good, refused, send_as};

const SESSION: &str = "/v1/session";
const KEYS: &str = "/v1/admin/keys";

fn key_of(user: &str) -> NewKey {
    NewKey { user: user.into(), ..NewKey::default() }
}

async fn made(app: &TestApp, key: NewKey) -> (KeyId, String) {
    let made = app.service.add_key(key, None).await.unwrap();
    (made.id, made.token.unwrap())
}

async fn status(app: &TestApp, token: &str) -> u16 {
    send_as(app, token, Method::GET, ("/v1/apps", &Value::Null)).await.status
}

/// The entry of an issuer whose tokens list apps.
fn identity_with_apps(issuer: &TestIssuer) -> identity::JwtIssuerConfig {
    identity::JwtIssuerConfig { app_claim: Some("apps".into()), ..issuer.config() }
}

/// The cookie of a new session, as browsers send it back.
async fn cookie(app: &TestApp, token: &str) -> String {
    let made = app.request(Method::POST, SESSION).bearer_auth(token).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let cookie = made.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_key_ends_at_its_time_and_its_last_use_is_noted() {
    let app = TestApp::start().await;
    let (_, root) = made(&app, NewKey { admin: true, ..key_of("root") }).await;
    let end = StandingClock.now() + SignedDuration::from_secs(100);
    let (id, ann) = made(&app, NewKey { expires_at: Some(end), ..key_of("ann") }).await;
    assert_eq!(status(&app, &ann).await, 200);
    app.service.idle().await;
    let list = good(send_as(&app, &root, Method::GET, (KEYS, &Value::Null)).await);
    let of_ann = list["data"].as_array().unwrap().iter().find(|key| key["id"] == id.to_string()).unwrap();
    assert_eq!(of_ann["usedAt"], json!(StandingClock.now()));
    assert_eq!(of_ann["rights"], json!(["read", "run"]));

    app.setup().clock.advance(Duration::from_secs(99));
    assert_eq!(status(&app, &ann).await, 200);
    app.setup().clock.advance(Duration::from_secs(1));
    refused(send_as(&app, &ann, Method::GET, ("/v1/apps", &Value::Null)).await, 401, "unauthorized");

    let past = json!({ "user": "eve", "expiresAt": "2020-01-01T00:00:00Z" });
    refused(send_as(&app, &root, Method::POST, (KEYS, &past)).await, 422, "invalid_request");
}

#[tokio::test]
async fn a_rotated_key_stays_good_for_the_overlap() {
    let app = TestApp::start().await;
    let (_, root) = made(&app, NewKey { admin: true, ..key_of("root") }).await;
    let (id, old) = made(&app, NewKey { app: Some("test".into()), ..key_of("ann") }).await;
    assert_eq!(status(&app, &old).await, 200);
    let path = format!("{KEYS}/{id}/rotate");
    let body = json!({ "overlapSeconds": 60 });
    let rotated = good(send_as(&app, &root, Method::POST, (&path, &body)).await);
    let new = rotated["token"].as_str().unwrap().to_owned();
    assert_eq!([status(&app, &old).await, status(&app, &new).await], [200, 200]);
    let second = send_as(&app, &root, Method::POST, (&path, &body)).await;
    assert_eq!(second.status, 409, "{second:?}");
    app.setup().clock.advance(Duration::from_secs(60));
    assert_eq!([status(&app, &old).await, status(&app, &new).await], [401, 200]);
    let me = good(send_as(&app, &new, Method::GET, (SESSION, &Value::Null)).await);
    assert_eq!((&me["user"], &me["apps"]), (&json!("ann"), &json!(["test"])));
    let long = json!({ "overlapSeconds": 31 * 24 * 60 * 60 });
    refused(send_as(&app, &root, Method::POST, (&path, &long)).await, 422, "invalid_request");
}

#[tokio::test]
async fn an_acting_key_speaks_for_users_and_both_names_are_written_down() {
    let app = TestApp::with(Setup::app("tools = [\"markdown\"]")).await;
    let (_, backend) = made(&app, NewKey { acts_for: Some(ActsFor::Any), ..key_of("backend") }).await;
    let arguments = json!({ "path": "a.md", "content": "A" }).to_string();
    app.upstream.program(move |request: &Value| {
        let is_told = request["messages"].to_string().contains("\"tool\"");
        if is_told {
            Reply::says("Done.")
        } else {
            Reply::stream().call(ScriptedCall::new("createMarkdownFile", &arguments))
        }
    });
    let post = |user: &str, body: Value| {
        app.request(Method::POST, RUNS).bearer_auth(&backend).header("x-rondo-user", user).json(&body)
    };
    let answer = app.send(post("alice", json!({ "message": "Write", "stream": false }))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    app.service.idle().await;
    let started = app.stored_log().into_iter().find(|event| event.kind == "run:start").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&started.body).unwrap()["actor"], "backend");
    let ledger = app.database();
    let intent: String = ledger
        .query_row("SELECT payload FROM ledger_payloads WHERE user = 'alice' ORDER BY position", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(intent.contains(r#""actor":"backend""#), "{intent}");
    let actions = app.request(Method::GET, "/v1/apps/test/actions").bearer_auth(&backend);
    let actions = good(app.send(actions.header("x-rondo-user", "alice")).await);
    assert_eq!(actions["data"][0]["actor"], "backend");

    // Users are as separate as with keys of their own.
    let bob = app.request(Method::GET, "/v1/apps/test/actions").bearer_auth(&backend);
    assert_eq!(good(app.send(bob.header("x-rondo-user", "bob")).await)["data"], json!([]));
    for wrong in ["", "al ice", "alic\u{e9}", &"a".repeat(201)] {
        let answer = app.send(post("x", json!({})).header("x-rondo-user", wrong)).await;
        assert_eq!(answer.status, 422, "{wrong}: {answer:?}");
    }
    let (_, ann) = made(&app, key_of("ann")).await;
    let plain = app.request(Method::GET, "/v1/apps").bearer_auth(&ann).header("x-rondo-user", "alice");
    refused(app.send(plain).await, 403, "acting_not_allowed");
}

#[tokio::test]
async fn names_of_an_issuer_are_not_for_keys() {
    let issuer = TestIssuer::new("main");
    let app = TestApp::with(Setup { issuers: vec![issuer.config()], ..Setup::default() }).await;
    let (_, root) = made(&app, NewKey { admin: true, ..key_of("root") }).await;
    let taken = json!({ "user": "main:ann" });
    let detail = refused(send_as(&app, &root, Method::POST, (KEYS, &taken)).await, 422, "invalid_request");
    assert!(detail.contains("[auth.jwt.main]"), "{detail}");
    let (_, backend) = made(&app, NewKey { acts_for: Some(ActsFor::Any), ..key_of("backend") }).await;
    let acting =
        app.request(Method::GET, "/v1/apps").bearer_auth(&backend).header("x-rondo-user", "main:ann");
    refused(app.send(acting).await, 422, "invalid_request");
}

#[tokio::test]
async fn a_jwt_is_a_user_with_its_apps_and_rights() {
    let issuer = TestIssuer::new("main");
    let mut config = identity_with_apps(&issuer);
    config.admin_claim = Some("roles=admin".into());
    let app = TestApp::with(Setup { issuers: vec![config], ..Setup::default() }).await;
    let end = StandingClock.now().as_second() + 600;
    let ann = issuer.token(&json!({ "sub": "ann", "exp": end, "apps": ["test"] }));
    let me = good(send_as(&app, &ann, Method::GET, (SESSION, &Value::Null)).await);
    assert_eq!(
        me,
        json!({
            "user": "main:ann", "apps": ["test"], "rights": ["read", "run"], "proof": "jwt",
            "expiresAt": StandingClock.now() + SignedDuration::from_secs(660), // with the leeway
        })
    );
    let elsewhere = issuer.token(&json!({ "sub": "ann", "exp": end, "apps": ["other"] }));
    refused(send_as(&app, &elsewhere, Method::GET, (THREADS, &Value::Null)).await, 404, "not_found");
    let admin = issuer.token(&json!({ "sub": "olga", "exp": end, "apps": ["test"], "roles": ["admin"] }));
    good(send_as(&app, &admin, Method::GET, (KEYS, &Value::Null)).await);
    refused(send_as(&app, &admin, Method::GET, ("/v1/admin/ledger", &Value::Null)).await, 403, "forbidden");
    // With an issuer, no request is served without a proof, although there is no key.
    refused(app.get("/v1/apps").await, 401, "unauthorized");
    for (wrong, says) in [
        (issuer.token(&json!({ "sub": "ann", "exp": end - 10_000, "apps": ["test"] })), "expired"),
        (issuer.token(&json!({ "sub": "\u{430}nn", "exp": end, "apps": ["test"] })), "user"),
        (format!("{}.{}.", "e30", "e30"), ""),
        ("a".repeat(10_240), ""),
    ] {
        let detail = refused(
            send_as(&app, &wrong, Method::GET, ("/v1/apps", &Value::Null)).await,
            401,
            "unauthorized",
        );
        assert!(detail.contains(says) && !detail.contains(&wrong), "{detail}");
    }
}

#[tokio::test]
async fn a_session_is_a_cookie_that_ends_with_its_key() {
    let app = TestApp::start().await;
    let none = app.request(Method::POST, SESSION);
    refused(app.send(none).await, 409, "no_session_needed");
    let (id, ann) = made(&app, key_of("ann")).await;
    let cookie = cookie(&app, &ann).await;
    assert!(cookie.starts_with("rondo_session=rondo_session_"), "{cookie}");
    let with_cookie = |method: Method, path: &str| app.request(method, path).header("cookie", &cookie);
    let me = good(app.send(with_cookie(Method::GET, SESSION)).await);
    assert_eq!((&me["user"], &me["proof"]), (&json!("ann"), &json!("session")));

    let thread = |origin: Option<&str>| {
        let request = with_cookie(Method::POST, THREADS).json(&json!({}));
        origin.map(|origin| request.try_clone().unwrap().header("origin", origin)).unwrap_or(request)
    };
    refused(app.send(thread(None)).await, 403, "origin_not_allowed");
    refused(app.send(thread(Some("https://evil.example"))).await, 403, "origin_not_allowed");
    good(app.send(thread(Some(&app.url))).await);
    // A session does not make another one, and a secret of a session is no key.
    let again = with_cookie(Method::POST, SESSION).header("origin", &app.url);
    refused(app.send(again).await, 409, "key_or_jwt_required");
    let secret = cookie.split_once('=').unwrap().1.to_owned();
    assert_eq!(status(&app, &secret).await, 401);

    app.service.revoke_key(id, None).await.unwrap();
    refused(app.send(with_cookie(Method::GET, SESSION)).await, 401, "unauthorized");
}

#[tokio::test]
async fn a_session_ends_by_its_holder_by_an_admin_and_by_time() {
    let app = TestApp::start().await;
    let (_, ann) = made(&app, key_of("ann")).await;
    let (_, root) = made(&app, NewKey { admin: true, ..key_of("root") }).await;
    let seen = async |cookie: &str| {
        app.send(app.request(Method::GET, "/v1/apps").header("cookie", cookie)).await.status
    };
    let [own, by_admin, old] = [cookie(&app, &ann).await, cookie(&app, &ann).await, cookie(&app, &ann).await];
    let end = app.request(Method::DELETE, SESSION).header("cookie", &own).header("origin", &app.url);
    let ended = end.send().await.unwrap();
    assert_eq!(ended.status(), 204);
    assert!(ended.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!([seen(&own).await, seen(&by_admin).await], [401, 200]);

    let open = good(send_as(&app, &root, Method::GET, ("/v1/admin/sessions", &Value::Null)).await);
    assert_eq!(open["data"].as_array().unwrap().len(), 2);
    for session in open["data"].as_array().unwrap().iter().take(1) {
        let path = format!("/v1/admin/sessions/{}", session["id"].as_str().unwrap());
        assert_eq!(send_as(&app, &root, Method::DELETE, (&path, &Value::Null)).await.status, 204);
    }
    let left = [seen(&by_admin).await, seen(&old).await];
    assert!(left == [401, 200] || left == [200, 401], "{left:?}");
    app.setup().clock.advance(Duration::from_secs(12 * 60 * 60));
    assert_eq!([seen(&by_admin).await, seen(&old).await], [401, 401]);
    let audit = good(send_as(&app, &root, Method::GET, ("/v1/admin/audit", &Value::Null)).await);
    let kinds: Vec<&Value> = audit["data"].as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
    assert_eq!(kinds, ["session_ended", "key_made", "key_made"]);
    assert_eq!(audit["data"][0]["by"], "root");
}

#[tokio::test]
async fn an_open_stream_ends_with_the_access_that_it_was_opened_with() {
    let app = TestApp::start().await;
    let (id, ann) = made(&app, key_of("ann")).await;
    let thread = good(send_as(&app, &ann, Method::POST, (THREADS, &json!({}))).await);
    let events = format!("/v1/threads/{}/events", thread["id"].as_str().unwrap());
    let short = StandingClock.now() + SignedDuration::from_secs(1);
    let (_, brief) = made(&app, NewKey { expires_at: Some(short), ..key_of("ann") }).await;
    let cookie = cookie(&app, &ann).await;
    let open = async |name: &str, value: &str| {
        let stream = app.request(Method::GET, &events).header(name, value).send().await.unwrap();
        assert_eq!(stream.status(), 200);
        stream
    };
    let by_key = open("authorization", &format!("Bearer {ann}")).await;
    let by_session = open("cookie", &cookie).await;
    let expiring = open("authorization", &format!("Bearer {brief}")).await;
    let text = expiring.text().await.unwrap();
    assert!(text.contains("event: access:ended\ndata: {\"reason\":\"expired\""), "{text}");
    app.service.revoke_key(id, None).await.unwrap();
    for stream in [by_key, by_session] {
        let text = stream.text().await.unwrap();
        assert!(text.contains("event: access:ended\ndata: {\"reason\":\"revoked\""), "{text}");
    }
}

#[tokio::test]
async fn pages_of_allowed_origins_can_read_and_others_cannot() {
    let allowed = "https://app.example";
    let allow_origins = vec![PublicUrl::parse(allowed).unwrap()];
    let proxying = Proxying { allow_origins, ..Proxying::default() };
    let app = TestApp::with(Setup { proxying, ..Setup::default() }).await;
    let (_, ann) = made(&app, key_of("ann")).await;
    let headers = async |method: Method, origin: &str| -> (u16, HeaderMap) {
        let request = app.request(method.clone(), THREADS).bearer_auth(&ann).header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let response = request.json(&json!({})).send().await.unwrap();
        (response.status().as_u16(), response.headers().clone())
    };
    let (status, preflight) = headers(Method::OPTIONS, allowed).await;
    assert_eq!(status, 204);
    assert_eq!(preflight["access-control-allow-origin"], allowed);
    assert_eq!(preflight["access-control-max-age"], "7200");
    assert!(preflight["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    let (status, answer) = headers(Method::POST, allowed).await;
    assert_eq!((status, &answer["access-control-allow-credentials"]), (201, &"true".parse().unwrap()));
    for evil in [
        "https://evil.example",
        "https://app.example.evil",
        "http://app.example",
        "null",
        "https://app.example:444",
    ] {
        for method in [Method::OPTIONS, Method::GET, Method::POST] {
            let (status, answer) = headers(method.clone(), evil).await;
            let is_cors = |name: &str| name.starts_with("access-control");
            assert!(!answer.keys().any(|name| is_cors(name.as_str())), "{evil} {method}");
            assert!(method == Method::GET || status >= 400, "{evil} {method} {status}");
        }
    }
    // A cookie works from there, too.
    let cookie = cookie(&app, &ann).await;
    let request = app.request(Method::POST, THREADS).header("cookie", &cookie).header("origin", allowed);
    good(app.send(request.json(&json!({}))).await);
}

#[tokio::test]
async fn an_address_that_fails_too_often_waits_and_good_keys_go_on() {
    let mut setup = Setup::default();
    setup.limits.failed_attempts_per_minute = NonZeroU32::new(5).unwrap();
    let app = TestApp::with(setup).await;
    let (_, ann) = made(&app, key_of("ann")).await;
    let (_, bob) = made(&app, key_of("bob")).await;
    assert_eq!(status(&app, &ann).await, 200);
    for _ in 0..8 {
        let other_cookie = app.request(Method::GET, "/v1/apps").header("cookie", "theme=dark");
        refused(app.send(other_cookie).await, 401, "unauthorized"); // it carries no secret, so it is no attempt
    }
    let mut said = Vec::new();
    for attempt in 0..8 {
        said.push(status(&app, &format!("rondo_{attempt}")).await);
    }
    assert_eq!(said, [401, 401, 401, 401, 401, 429, 429, 429]);
    let refusal = app.request(Method::GET, "/v1/apps").bearer_auth("rondo_9").send().await.unwrap();
    assert!(refusal.headers().contains_key("retry-after"));
    assert_eq!([status(&app, &ann).await, status(&app, &bob).await], [200, 200], "good keys go on");
    assert_eq!(app.get("/v1/apps").await.status, 401, "no secret is no attempt");
}

#[tokio::test]
async fn what_admins_did_is_written_down_for_the_admins_of_the_app() {
    let app = TestApp::start().await;
    let (_, root) = made(&app, NewKey { admin: true, ..key_of("root") }).await;
    let body = json!({ "user": "warden", "app": "test", "rights": ["admin"] });
    let warden = good(send_as(&app, &root, Method::POST, (KEYS, &body)).await);
    let warden = warden["token"].as_str().unwrap();
    let key = good(send_as(&app, &root, Method::POST, (KEYS, &json!({ "user": "ann" }))).await);
    let path = format!("{KEYS}/{}", key["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(send_as(&app, &root, Method::DELETE, (&path, &Value::Null)).await.status, 204);
    }
    let audit = async |token: &str| -> Vec<(Value, Value, Value)> {
        let page = good(send_as(&app, token, Method::GET, ("/v1/admin/audit", &Value::Null)).await);
        let entries = page["data"].as_array().unwrap().clone();
        entries
            .into_iter()
            .map(|entry| (entry["number"].clone(), entry["kind"].clone(), entry["by"].clone()))
            .collect()
    };
    let entry = |number: u64, kind: &str, by: &str| (json!(number), json!(kind), json!(by));
    assert_eq!(
        audit(&root).await,
        [
            entry(4, "key_revoked", "root"),
            entry(3, "key_made", "root"),
            entry(2, "key_made", "root"),
            entry(1, "key_made", "local"),
        ]
    );
    assert_eq!(audit(warden).await, [entry(2, "key_made", "root")]);
    // An admin right alone gives no look at data of users.
    refused(send_as(&app, warden, Method::GET, (THREADS, &Value::Null)).await, 403, "forbidden");
    let page = good(send_as(&app, &root, Method::GET, ("/v1/admin/audit?limit=3", &Value::Null)).await);
    assert_eq!(page["next"], "2");
}

#[tokio::test]
async fn a_key_that_only_reads_can_search_and_follow() {
    let app = TestApp::start().await;
    let (_, reader) = made(&app, NewKey { rights: Some(Rights::of([Right::Read])), ..key_of("ann") }).await;
    good(
        send_as(&app, &reader, Method::POST, ("/v1/apps/test/memories/search", &json!({ "query": "tea" })))
            .await,
    );
    let detail = refused(
        send_as(&app, &reader, Method::POST, (RUNS, &json!({ "message": "Hi" }))).await,
        403,
        "forbidden",
    );
    assert!(detail.contains("--rights run"), "{detail}");
    refused(
        send_as(&app, &reader, Method::PATCH, ("/v1/me", &json!({ "name": "Ann" }))).await,
        403,
        "forbidden",
    );
}

#[tokio::test]
async fn a_session_of_a_jwt_ends_when_the_entry_of_its_issuer_changes() {
    let issuer = TestIssuer::new("main");
    let app = TestApp::with(Setup { issuers: vec![issuer.config()], ..Setup::default() }).await;
    let end = StandingClock.now().as_second() + 600;
    let cookie = cookie(&app, &issuer.token(&json!({ "sub": "ann", "exp": end }))).await;
    let seen = async |app: &TestApp| {
        app.send(app.request(Method::GET, "/v1/apps").header("cookie", &cookie)).await.status
    };
    assert_eq!(seen(&app).await, 200);
    let app = app.restart().await;
    assert_eq!(seen(&app).await, 200, "a restart changes nothing");
    let limited = identity_with_apps(&issuer);
    let app = app.restart_with(|setup| setup.issuers = vec![limited]).await;
    assert_eq!(seen(&app).await, 401);
    // A user who is not the machine's own is not told which apps there are.
    let none = issuer.token(&json!({ "sub": "ann", "exp": end, "apps": [] }));
    let detail = refused(send_as(&app, &none, Method::GET, (THREADS, &Value::Null)).await, 404, "not_found");
    assert!(!detail.contains("there is test"), "{detail}");
}

#[tokio::test]
async fn a_key_that_is_older_than_an_issuer_is_no_user_of_it() {
    let issuer = TestIssuer::new("main");
    let app = TestApp::start().await;
    let (_, old) = made(&app, key_of("main:ann")).await;
    let before = cookie(&app, &old).await;
    let app = app.restart_with(|setup| setup.issuers = vec![issuer.config()]).await;
    refused(send_as(&app, &old, Method::GET, ("/v1/apps", &Value::Null)).await, 403, "forbidden");
    let with_cookie = app.request(Method::GET, "/v1/apps").header("cookie", &before);
    refused(app.send(with_cookie).await, 403, "forbidden");
}

#[tokio::test]
async fn users_of_an_acting_key_are_no_admins() {
    let app = TestApp::start().await;
    let backend = NewKey { acts_for: Some(ActsFor::Any), admin: true, ..key_of("backend") };
    let (_, backend) = made(&app, backend).await;
    good(send_as(&app, &backend, Method::GET, (KEYS, &Value::Null)).await);
    let acting = app.request(Method::GET, KEYS).bearer_auth(&backend).header("x-rondo-user", "ann");
    refused(app.send(acting).await, 403, "admin_only");
}

#[tokio::test]
async fn behind_a_proxy_that_encrypts_the_cookie_is_secure() {
    let https = vec![PublicUrl::parse("https://agents.example").unwrap()];
    for proxying in [
        Proxying { behind_proxy: true, ..Proxying::default() },
        Proxying { public_urls: https, ..Proxying::default() },
    ] {
        let app = TestApp::with(Setup { proxying, ..Setup::default() }).await;
        let (_, ann) = made(&app, key_of("ann")).await;
        let made = app.request(Method::POST, SESSION).bearer_auth(&ann).send().await.unwrap();
        let cookie = made.headers()["set-cookie"].to_str().unwrap().to_owned();
        assert!(cookie.starts_with("__Host-rondo_session=") && cookie.ends_with("; Secure"), "{cookie}");
        let request =
            app.request(Method::GET, "/v1/apps").header("cookie", cookie.split(';').next().unwrap());
        good(app.send(request).await);
    }
}

#[tokio::test]
async fn below_a_path_everything_is_found_and_the_cookie_stays_there() {
    let base_path = Some(server::BasePath::parse("/agents").unwrap());
    let proxying = Proxying { base_path, behind_proxy: true, ..Proxying::default() };
    let app = TestApp::with(Setup { proxying, ..Setup::default() }).await;
    let (_, ann) = made(&app, key_of("ann")).await;
    let made = app.request(Method::POST, "/agents/v1/session").bearer_auth(&ann).send().await.unwrap();
    let cookie = made.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Secure-rondo_session="), "{cookie}");
    assert!(cookie.contains("; Path=/agents; ") && cookie.ends_with("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    // With the path, and without it: a proxy may have removed it, and commands on this machine do not know it.
    for path in ["/agents/v1/apps", "/v1/apps"] {
        good(app.send(app.request(Method::GET, path).header("cookie", cookie)).await);
    }
    let host = cookie.replace("__Secure-", "__Host-");
    refused(app.send(app.request(Method::GET, "/v1/apps").header("cookie", host)).await, 401, "unauthorized");
    let page = app.request(Method::GET, "/agents/").header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("\"./_console/"), "addresses of files are relative");
    // A client follows the redirect.
    let moved = app.request(Method::GET, "/agents").header("accept", "text/html").send().await.unwrap();
    assert_eq!((moved.status().as_u16(), moved.url().path()), (200, "/agents/"));
    let described = good(app.get("/agents/openapi.json").await);
    assert_eq!(described["servers"], json!([{ "url": "/agents" }]));
    for path in ["/agents/nothing", "/agents2/v1/apps", "/agents/agents/v1/apps"] {
        let asked = app.request(Method::GET, path).header("cookie", cookie);
        refused(app.send(asked).await, 404, "not_found");
    }
}

#[tokio::test]
async fn a_body_that_ends_after_its_key_changes_nothing() {
    let app = TestApp::start().await;
    let (id, thief) = made(&app, NewKey { admin: true, ..key_of("thief") }).await;
    made(&app, NewKey { admin: true, ..key_of("root") }).await;
    let body = r#"{"user":"eve","admin":true}"#;
    let (first, last) = body.split_at(body.len() - 1);
    let host = app.url.strip_prefix("http://").unwrap();
    let mut slow = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST {KEYS} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {thief}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{first}",
        body.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    // The server has the headers once it has answered others for longer than a quick body takes.
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        assert_eq!(status(&app, &thief).await, 200);
    }
    app.service.revoke_key(id, None).await.unwrap();
    slow.write_all(last.as_bytes()).await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert_eq!(app.count("SELECT count(*) FROM keys WHERE user = 'eve'"), 0);
}

#[tokio::test]
async fn a_thing_that_is_called_search_is_not_read_only() {
    let app = TestApp::start().await;
    let (_, reader) = made(&app, NewKey { rights: Some(Rights::of([Right::Read])), ..key_of("ann") }).await;
    for (method, path) in [
        (Method::PUT, "/v1/apps/test/credentials/search"),
        (Method::DELETE, "/v1/apps/test/personas/search"),
        (Method::PUT, "/v1/apps/test/files/search"),
    ] {
        refused(send_as(&app, &reader, method, (path, &json!({ "value": "x" }))).await, 403, "forbidden");
    }
}

#[tokio::test]
async fn behind_a_proxy_nobody_is_the_machines_own_user() {
    let proxying = Proxying { behind_proxy: true, ..Proxying::default() };
    let app = TestApp::with(Setup { proxying, ..Setup::default() }).await;
    refused(app.get("/v1/apps").await, 401, "unauthorized");
    let control = app.service.control_token().unwrap();
    let (path, none) = ("/control/keys", Value::Null);
    refused(send_as(&app, &control, Method::DELETE, (path, &none)).await, 403, "forbidden");
}

#[tokio::test]
async fn headers_that_decide_about_access_come_once() {
    let app = TestApp::start().await;
    let (_, ann) = made(&app, key_of("ann")).await;
    let twice = app.request(Method::POST, THREADS).bearer_auth(&ann).json(&json!({}));
    let twice = twice.header("origin", &app.url).header("origin", "https://evil.example");
    refused(app.send(twice).await, 403, "host_not_allowed");
    let twice = app.request(Method::GET, "/v1/apps").bearer_auth(&ann).header("authorization", "Bearer x");
    refused(app.send(twice).await, 401, "unauthorized");
}

#[tokio::test]
async fn access_to_some_apps_has_no_profile_of_all_apps() {
    let issuer = TestIssuer::new("main");
    let config = identity_with_apps(&issuer);
    let app = TestApp::with(Setup { issuers: vec![config], ..Setup::default() }).await;
    let end = StandingClock.now().as_second() + 600;
    for (apps, status) in [(json!([]), 422), (json!(["test", "other"]), 422), (json!(["test"]), 200)] {
        let token = issuer.token(&json!({ "sub": "ann", "exp": end, "apps": apps }));
        let answer = send_as(&app, &token, Method::PATCH, ("/v1/me", &json!({ "name": "Ann" }))).await;
        assert_eq!(answer.status, status, "{apps}: {answer:?}");
    }
}

#[tokio::test]
async fn who_leaves_while_signing_out_is_signed_out() {
    let app = TestApp::start().await;
    let (_, ann) = made(&app, key_of("ann")).await;
    let cookie = cookie(&app, &ann).await;
    let request = app.request(Method::DELETE, SESSION).header("cookie", &cookie).header("origin", &app.url);
    let writing = app.database();
    writing.execute_batch("BEGIN IMMEDIATE").unwrap(); // the end of the session waits for this
    let gone = tokio::time::timeout(Duration::from_millis(200), request.send()).await;
    assert!(gone.is_err(), "the client has left before the answer");
    writing.execute_batch("ROLLBACK").unwrap();
    app.service.idle().await;
    let seen = app.send(app.request(Method::GET, "/v1/apps").header("cookie", &cookie)).await;
    assert_eq!(seen.status, 401);
}
