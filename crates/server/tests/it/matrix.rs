//! Every route, asked by every kind of identity. A route that has no row here fails the test.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an identity differs from another in a few kinds of routes"
)]
#![expect(clippy::panic, reason = "a route without a row fails the test")]

use std::collections::BTreeMap;

use axum::http::Method;
use protocol::{ActsFor, Clock, Right, Rights};
use serde_json::{Value, json};
use service::NewKey;
use sha2::{Digest, Sha256};
use testkit::issuer::TestIssuer;
use testkit::sql::SqlValue;
use testkit::still::StandingClock;
use testkit::upstream::Reply;
use testkit::{Answer, Setup, TestApp};

use crate::support::{good, send_as};

/// The subject of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// No user and no app.
    Public,
    /// The user, in all apps.
    User,
    /// The user in the app of the path.
    App,
    /// One thing of the user.
    Thing,
    /// The server, within the admin's apps.
    Admin,
    /// Something of one app that an admin manages.
    AdminOfApp,
    /// All apps at once.
    AdminOfAll,
    /// The session of the sender.
    Session,
}

/// The prefix of a path says what it is about; the longest one that fits counts.
const ROWS: &[(&str, About)] = &[
    ("/healthz", About::Public),
    ("/readyz", About::Public),
    ("/openapi.json", About::Public),
    ("/api/chat", About::User),
    ("/openai/v1", About::User),
    ("/{app}/stream", About::App),
    ("/ag-ui/{app}", About::App),
    ("/openai/v1/responses/{response}", About::Thing),
    ("/openai/v1/conversations/{conversation}", About::Thing),
    ("/v1/apps", About::User),
    ("/v1/apps/{app}/", About::App),
    ("/v1/me", About::User),
    ("/v1/models", About::User),
    ("/v1/usage", About::User),
    ("/v1/events", About::User),
    ("/v1/actions/{action}", About::Thing),
    ("/v1/calls/{call}", About::Thing),
    ("/v1/documents/{document}", About::Thing),
    ("/v1/images/{image}", About::Thing),
    ("/v1/memories/{memory}", About::Thing),
    ("/v1/pins/{pin}", About::Thing),
    ("/v1/proposals/{proposal}", About::Thing),
    ("/v1/runs/{run}", About::Thing),
    ("/v1/threads", About::User),
    ("/v1/threads/{thread}", About::Thing),
    ("/v1/session", About::Session),
    ("/v1/admin/jobs", About::Admin),
    ("/v1/admin/jobs/{job}", About::AdminOfApp),
    ("/v1/admin/runs", About::Admin),
    ("/v1/admin/runs/{run}", About::AdminOfApp),
    ("/v1/admin/stats", About::Admin),
    ("/v1/admin/usage", About::Admin),
    ("/v1/admin/keys", About::Admin),
    ("/v1/admin/keys/{key}", About::AdminOfApp),
    ("/v1/admin/sessions", About::Admin),
    ("/v1/admin/sessions/{session}", About::AdminOfApp),
    ("/v1/admin/audit", About::Admin),
    ("/v1/admin/ledger", About::AdminOfAll),
    ("/v1/admin/mcp", About::Admin),
    ("/v1/admin/mcp/{app}/{server}", About::AdminOfApp),
];

fn about(path: &str) -> Option<About> {
    let rows = ROWS.iter().filter(|(prefix, _)| {
        path == *prefix
            || path.strip_prefix(prefix).is_some_and(|rest| prefix.ends_with('/') || rest.starts_with('/'))
    });
    rows.max_by_key(|(prefix, _)| prefix.len()).map(|(_, about)| *about)
}

/// The answer that an identity must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The status is neither 401, 403 nor 429. A thing of another user is another question.
    Served,
    /// 404, or a refusal of the request's own contents.
    Missing,
    Problem(u16, &'static str),
}

const UNAUTHORIZED: Expected = Expected::Problem(401, "unauthorized");

/// A kind of sender.
struct Sender {
    name: &'static str,
    headers: Vec<(&'static str, String)>,
    expected: fn(About, bool) -> Expected,
}

impl Sender {
    /// Whether a request only reads. A search is posted because a question may be long, but the check of origins looks at
    /// the method alone.
    fn reads(&self, method: &Method, path: &str) -> bool {
        let is_foreign = self.headers.iter().any(|(name, value)| *name == "origin" && value.contains("evil"));
        method.is_safe() || path.ends_with("/search") && !is_foreign
    }
}

fn nobody(about: About, _: bool) -> Expected {
    if about == About::Public { Expected::Served } else { UNAUTHORIZED }
}

/// The user whose things are asked for.
fn owner(about: About, _: bool) -> Expected {
    match about {
        About::Public | About::User | About::App | About::Thing | About::Session => Expected::Served,
        About::Admin | About::AdminOfApp | About::AdminOfAll => Expected::Problem(403, "admin_only"),
    }
}

fn other_user(about: About, reads: bool) -> Expected {
    if about == About::Thing { Expected::Missing } else { owner(about, reads) }
}

/// A key for another app.
fn other_app(about: About, reads: bool) -> Expected {
    match about {
        About::App | About::Thing => Expected::Missing,
        about => owner(about, reads),
    }
}

fn read_only(about: About, reads: bool) -> Expected {
    match about {
        About::User | About::App | About::Thing if !reads => Expected::Problem(403, "forbidden"),
        about => owner(about, reads),
    }
}

fn acting_without_user(about: About, reads: bool) -> Expected {
    match about {
        About::User | About::App | About::Thing => Expected::Problem(403, "user_required"),
        // The identity itself may be asked for; a session would have no user.
        About::Session if !reads => Expected::Problem(403, "user_required"),
        about => owner(about, reads),
    }
}

fn not_acting(about: About, _: bool) -> Expected {
    if about == About::Public { Expected::Served } else { Expected::Problem(403, "acting_not_allowed") }
}

fn admin(about: About, reads: bool) -> Expected {
    match about {
        About::Admin | About::AdminOfApp | About::AdminOfAll => Expected::Served,
        about => other_user(about, reads),
    }
}

fn admin_of_other_app(about: About, reads: bool) -> Expected {
    match about {
        About::Admin => Expected::Served,
        About::AdminOfApp => Expected::Missing,
        About::AdminOfAll => Expected::Problem(403, "forbidden"),
        about => other_app(about, reads),
    }
}

fn cookie_of_wrong_origin(about: About, reads: bool) -> Expected {
    match about {
        _ if !reads => Expected::Problem(403, "origin_not_allowed"),
        about => owner(about, reads),
    }
}

async fn new_key(app: &TestApp, key: NewKey) -> String {
    app.service.add_key(key, None).await.unwrap().token.unwrap()
}

/// The things of the owner, by the names that paths have for them.
async fn things(app: &TestApp, owner: &str) -> BTreeMap<&'static str, String> {
    let made = async |path: &str, body: Value| {
        good(send_as(app, owner, Method::POST, (path, &body)).await)["id"].as_str().unwrap().to_owned()
    };
    let names = {
        let request = app.request(Method::POST, "/v1/apps/test/runs").bearer_auth(owner);
        let response = request.json(&json!({ "message": "Hi", "stream": false })).send().await.unwrap();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        (header("x-run-id"), header("x-thread-id"))
    };
    let memory = made("/v1/apps/test/memories", json!({ "text": "Ann likes tea." })).await;
    let pin = made("/v1/apps/test/pins", json!({ "text": "Tea." })).await;
    let (response, conversation) = (names.0.replace("run_", "resp_"), names.1.replace("thr_", "conv_"));
    let none = "00000000-0000-7000-8000-00000000dead";
    BTreeMap::from([
        ("app", "test".to_owned()),
        ("chat", names.1.clone()),
        ("model", "test".to_owned()),
        ("run", names.0),
        ("thread", names.1),
        ("memory", memory),
        ("pin", pin),
        ("action", format!("act_{none}")),
        ("call", format!("call_{none}")),
        ("document", format!("doc_{none}")),
        ("image", format!("img_{none}")),
        ("proposal", format!("prop_{none}")),
        ("record", format!("rec_{none}")),
        ("key", format!("key_{none}")),
        ("job", format!("job_{none}")),
        ("session", format!("sess_{none}")),
        ("persona", "nobody".to_owned()),
        ("name", "token".to_owned()),
        ("path", "notes.md".to_owned()),
        ("type", "part".to_owned()),
        ("server", "math".to_owned()),
        ("response", response),
        ("conversation", conversation),
    ])
}

fn filled(path: &str, things: &BTreeMap<&str, String>) -> String {
    let mut filled = path.to_owned();
    for (name, value) in things {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    assert!(!filled.contains('{'), "no value for a name in {path}");
    filled
}

/// The contents of all tables that a refused request could change.
fn fingerprint(app: &TestApp) -> Vec<u8> {
    let database = app.database();
    let mut tables =
        database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").unwrap();
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut hash = Sha256::new();
    // The last use of a key is noted, and an index keeps pages of its own.
    for name in names.iter().filter(|name| *name != "keys" && !name.contains("fts")) {
        let mut rows = database.prepare(&format!("SELECT * FROM {name:?}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            (0..columns)
                .for_each(|at| hash.update(format!("{name} {:?}", row.get::<_, SqlValue>(at).unwrap())));
        }
    }
    hash.finalize().to_vec()
}

fn check(sender: &Sender, route: &str, (about, reads): (About, bool), answer: &Answer) {
    let is_openai = route.contains(" /openai/");
    let code = if is_openai { &answer.body["error"]["code"] } else { &answer.body["code"] };
    let code = code.as_str().unwrap_or_default();
    // OpenAI has a name of its own for this one.
    let said = (answer.status, if code == "invalid_api_key" { "unauthorized" } else { code });
    let is_right = match (sender.expected)(about, reads) {
        Expected::Served => ![401, 403, 429].contains(&answer.status) && answer.status < 500,
        Expected::Missing => [400, 404, 409, 413, 415, 422].contains(&answer.status),
        Expected::Problem(status, code) => said == (status, code),
    };
    assert!(is_right, "{route} by {}: {said:?} {}", sender.name, answer.body);
    if answer.status >= 400 && is_openai {
        assert_eq!(answer.content_type, "application/json", "{route} by {}", sender.name);
        assert!(answer.body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{route}");
    } else if answer.status >= 400 {
        assert_eq!(answer.content_type, "application/problem+json", "{route} by {}", sender.name);
        assert!(answer.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{route}");
    }
}

#[tokio::test]
async fn every_route_answers_every_identity_as_it_must() {
    let (main, stranger) = (TestIssuer::new("main"), TestIssuer::new("stranger"));
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let setup = Setup { files, issuers: vec![main.config()], ..Setup::app("tools = [\"echo\"]") };
    let app = TestApp::with(setup).await;
    let key = |user: &str| NewKey { user: user.into(), ..NewKey::default() };
    let ann = new_key(&app, key("ann")).await;
    app.upstream.program(|_| Reply::says("Hello."));
    let things = things(&app, &ann).await;
    app.service.idle().await;
    let senders = senders(&app, &ann, (&main, &stranger)).await;

    let description = app.get("/openapi.json").await.body;
    let routes = routes(&description);
    let before = fingerprint(&app);
    for Route { method, path, about } in &routes {
        for sender in &senders {
            let reads = sender.reads(method, path);
            if changes_nothing(sender, *about, reads) {
                let answer = ask(&app, sender, method, &filled(path, &things)).await;
                check(sender, &format!("{method} {path}"), (*about, reads), &answer);
            }
        }
    }
    app.service.idle().await;
    assert_eq!(fingerprint(&app), before, "a refused request changed something");

    // Senders who are served may change something, so they come last. The end of a thing, a key or a session would be
    // the end of the test.
    for Route { method, path, about } in routes.iter().filter(|route| route.method != Method::DELETE) {
        for sender in &senders {
            let reads = sender.reads(method, path);
            if !changes_nothing(sender, *about, reads) {
                let answer = ask(&app, sender, method, &filled(path, &things)).await;
                check(sender, &format!("{method} {path}"), (*about, reads), &answer);
            }
        }
    }
}

/// A route as the description has it.
struct Route {
    method: Method,
    path: String,
    about: About,
}

fn routes(description: &Value) -> Vec<Route> {
    let mut routes = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        let about = about(path).unwrap_or_else(|| panic!("{path} has no row in this matrix"));
        for method in item.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            routes.push(Route { method, path: path.clone(), about });
        }
    }
    routes
}

fn changes_nothing(sender: &Sender, about: About, reads: bool) -> bool {
    reads || (sender.expected)(about, reads) != Expected::Served
}

async fn ask(app: &TestApp, sender: &Sender, method: &Method, path: &str) -> Answer {
    let mut request = app.request(method.clone(), path);
    for (name, value) in &sender.headers {
        request = request.header(*name, value);
    }
    if !method.is_safe() {
        request = request.json(&json!({}));
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    // A stream of events has no end.
    let body = if content_type.contains("json") { response.json().await.unwrap() } else { Value::Null };
    Answer { status, content_type, body }
}

async fn senders(app: &TestApp, ann: &str, (main, stranger): (&TestIssuer, &TestIssuer)) -> Vec<Sender> {
    let key = |user: &str| NewKey { user: user.into(), ..NewKey::default() };
    let bearer = |token: &str| ("authorization", format!("Bearer {token}"));
    let now = StandingClock.now().as_second();
    let revoked = app.service.add_key(key("ann"), None).await.unwrap();
    app.service.revoke_key(revoked.id, None).await.unwrap();
    let of_other = new_key(app, NewKey { app: Some("other".into()), ..key("ann") }).await;
    let bob = new_key(app, key("bob")).await;
    let backend = new_key(app, NewKey { acts_for: Some(ActsFor::Any), ..key("backend") }).await;
    let reader = NewKey { rights: Some(Rights::of([Right::Read])), ..key("ann") };
    let reader = new_key(app, reader).await;
    let root = new_key(app, NewKey { admin: true, ..key("root") }).await;
    let warden = NewKey { admin: true, app: Some("other".into()), ..key("warden") };
    let warden = new_key(app, warden).await;
    let made = app.request(Method::POST, "/v1/session").bearer_auth(ann).send().await.unwrap();
    let cookie = made.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let token = |claims: Value| bearer(&main.token(&claims));
    let as_user = ("x-rondo-user", "ann".to_owned());
    let sender = |name, headers, expected| Sender { name, headers, expected };
    vec![
        sender("nobody", vec![], nobody),
        sender("a wrong key", vec![bearer("rondo_0000")], nobody),
        sender("another scheme", vec![("authorization", "Basic YW5uOng=".into())], nobody),
        sender("a revoked key", vec![bearer(&revoked.token.unwrap())], nobody),
        sender("an expired JWT", vec![token(json!({ "sub": "ann", "exp": now - 3600 }))], nobody),
        sender(
            "a JWT of another issuer",
            vec![bearer(&stranger.token(&json!({ "sub": "ann", "exp": now + 3600 })))],
            nobody,
        ),
        sender("a JWT of another user", vec![token(json!({ "sub": "ann", "exp": now + 3600 }))], other_user),
        sender("the key of another app", vec![bearer(&of_other)], other_app),
        sender("another user", vec![bearer(&bob)], other_user),
        sender("another user who names the owner", vec![bearer(&bob), as_user.clone()], not_acting),
        sender("an acting key without a user", vec![bearer(&backend)], acting_without_user),
        sender("an acting key for the owner", vec![bearer(&backend), as_user], owner),
        sender("a key that only reads", vec![bearer(&reader)], read_only),
        sender("an admin of another app", vec![bearer(&warden)], admin_of_other_app),
        sender("an admin", vec![bearer(&root)], admin),
        sender("the owner", vec![bearer(ann)], owner),
        sender(
            "the cookie of a right origin",
            vec![("cookie", cookie.clone()), ("origin", app.url.clone())],
            owner,
        ),
        sender(
            "the cookie of a wrong origin",
            vec![("cookie", cookie), ("origin", "https://evil.example".into())],
            cookie_of_wrong_origin,
        ),
    ]
}

#[test]
fn a_route_without_a_row_is_noticed() {
    assert_eq!(about("/v1/new"), None);
    assert_eq!(about("/v1/apps/{app}/runs"), Some(About::App));
    assert_eq!(about("/v1/appsx"), None);
    assert_eq!(about("/v1/admin/keys/{key}/rotate"), Some(About::AdminOfApp));
}
