//! Keys: who may speak, and that users never see each other.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::Reply;
use testkit::{Answer, TestApp};

use crate::support::{Names, RUNS, THREADS, good, problem, refused, repeating, rows};

const UNKNOWN: &str = "ffffffffffffffffffffffffffffffff";

/// A user with a key.
struct User<'a> {
    app: &'a TestApp,
    token: String,
}

impl<'a> User<'a> {
    async fn new(app: &'a TestApp, user: &str) -> Self {
        Self::with(app, NewKey { user: user.into(), app: None, admin: false, ..NewKey::default() }).await
    }

    async fn with(app: &'a TestApp, key: NewKey) -> Self {
        Self { app, token: app.service.add_key(key, None).await.unwrap().token.unwrap() }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let mut request = self.app.request(method, path).bearer_auth(&self.token);
        if !body.is_null() {
            request = request.json(body);
        }
        self.app.send(request).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn say(&self, message: &str) -> Names {
        let result = self.send(Method::POST, RUNS, &json!({ "message": message, "stream": false })).await;
        let result = good(result);
        assert_eq!(result["status"], "completed", "{result}");
        let name = |field: &str| result[field].as_str().unwrap().to_owned();
        Names { run: name("runId"), thread: name("threadId") }
    }
}

/// Every request there is that names a thread or a run, with a body that would be good.
fn requests(names: &Names) -> Vec<(Method, String, Value)> {
    let (run, thread) = (names.run_path(), names.thread_path());
    vec![
        (Method::GET, thread.clone(), Value::Null),
        (Method::GET, names.messages_path(), Value::Null),
        (Method::GET, names.channel_path(), Value::Null),
        (Method::PATCH, thread.clone(), json!({ "title": "Mine" })),
        (Method::DELETE, thread, Value::Null),
        (Method::GET, run.clone(), Value::Null),
        (Method::GET, names.events_path(), Value::Null),
        (Method::POST, format!("{run}/cancel"), Value::Null),
        (Method::POST, format!("{run}/undo"), Value::Null),
        (Method::POST, RUNS.into(), json!({ "message": "x", "threadId": names.thread })),
        (Method::POST, "/test/stream".into(), json!({ "message": "x", "sessionId": names.thread })),
    ]
}

fn unknown() -> Names {
    Names { run: format!("run_{UNKNOWN}"), thread: format!("thr_{UNKNOWN}") }
}

#[tokio::test]
async fn without_keys_everybody_on_this_machine_is_one_user() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    good(app.get("/v1/admin/keys").await);
    good(app.get("/v1/apps").await);
    crate::support::say(&app, "Hi").await;
    assert_eq!(app.count("SELECT count(*) FROM threads WHERE user = 'local'"), 1);
}

/// Once there is a key, no request is served without a good one, and the answer does not say what was wrong with it.
#[tokio::test]
async fn with_a_key_nobody_comes_in_without_one() {
    let app = TestApp::start().await;
    let ann = User::new(&app, "ann").await;
    let gone = app
        .service
        .add_key(NewKey { user: "ann".into(), app: None, admin: true, ..NewKey::default() }, None)
        .await
        .unwrap();
    app.service.revoke_key(gone.id, None).await.unwrap();
    let before = rows(&app);
    let bad = [
        String::new(),
        "Bearer".into(),
        "Bearer ".into(),
        "Bearer rondo_".into(),
        format!("Bearer {}", gone.token.clone().unwrap()),
        format!("Bearer {}x", ann.token),
        format!("Bearer {}", ann.token.to_uppercase()),
        format!("Basic {}", ann.token),
        ann.token.clone(),
    ];
    let mut paths = requests(&unknown());
    paths.extend(
        ["/v1/apps", THREADS, "/v1/admin/jobs", "/v1/admin/keys", "/v1/admin/ledger"]
            .map(|path| (Method::GET, path.to_owned(), Value::Null)),
    );
    let things = ["actions", "proposals", "records/part", "files", "files/a.md", "memories"];
    paths.extend(things.map(|thing| (Method::GET, format!("/v1/apps/test/{thing}"), Value::Null)));
    for undecided in [format!("actions/act_{UNKNOWN}/undo"), format!("proposals/prop_{UNKNOWN}/confirm")] {
        paths.push((Method::POST, format!("/v1/{undecided}"), Value::Null));
    }
    paths.push((Method::POST, "/v1/admin/keys".into(), json!({ "user": "eve", "admin": true })));
    let mut told = Vec::new();
    for (method, path, body) in &paths {
        for header in bad.iter().map(Some).chain([None]) {
            let mut request = app.request(method.clone(), path).json(body);
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 401, "{method} {path} with {header:?}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            let mut problem: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            problem.as_object_mut().unwrap().remove("requestId");
            told.push(problem);
        }
    }
    assert!(told.iter().all(|problem| *problem == told[0] && problem["code"] == "unauthorized"), "{told:?}");
    assert_eq!(rows(&app), before);
    for open in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(app.get(open).await.status, 200, "{open}");
    }
    // The scheme's name has no case.
    let request =
        app.request(Method::GET, "/v1/apps").header("authorization", format!("bearer {}", ann.token));
    good(app.send(request).await);
}

/// A thing of another user is answered exactly as if it did not exist.
#[tokio::test]
async fn two_users_never_see_each_other() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (ann, bob) = (User::new(&app, "ann").await, User::new(&app, "bob").await);
    let (hers, his) = (ann.say("Ann's").await, bob.say("Bob's").await);
    app.service.idle().await;
    let before = rows(&app);
    for (user, foreign) in [(&ann, &his), (&bob, &hers)] {
        for ((method, path, body), (_, missing, nothing)) in
            requests(foreign).into_iter().zip(requests(&unknown()))
        {
            let answer = problem(user.send(method.clone(), &path, &body).await);
            assert_eq!(answer["status"], 404, "{method} {path}: {answer}");
            assert_eq!(answer, problem(user.send(method, &missing, &nothing).await), "{path}");
        }
    }
    assert_eq!(rows(&app), before);
    for (user, own) in [(&ann, &hers), (&bob, &his)] {
        let list = good(user.get(THREADS).await);
        assert_eq!(list["data"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list["data"][0]["id"], own.thread.as_str());
        good(user.get(&own.run_path()).await);
    }
    // A message of hers is no parent in his thread.
    let parent = good(ann.get(&hers.messages_path()).await)["data"][0]["id"].clone();
    let body = json!({ "message": "x", "threadId": his.thread, "parentId": parent });
    refused(bob.send(Method::POST, RUNS, &body).await, 404, "not_found");
}

/// Two keys of one user are one user.
#[tokio::test]
async fn a_user_may_have_several_keys() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (desk, phone) = (User::new(&app, "ann").await, User::new(&app, "ann").await);
    let names = desk.say("Hi").await;
    assert_eq!(good(phone.get(&names.messages_path()).await)["data"][1]["text"], "Re: Hi");
}

#[tokio::test]
async fn a_key_for_one_app_is_good_for_no_other() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Yes.")]);
    let key =
        |app: &str| NewKey { user: "ann".into(), app: Some(app.into()), admin: false, ..NewKey::default() };
    let refusal = app.service.add_key(key("other"), None).await.unwrap_err();
    assert_eq!(refusal.code(), "invalid_request");
    let here = User::with(&app, key("test")).await.token;
    let there = User::with(&app, key("test")).await.token;
    let names = User { app: &app, token: here.clone() }.say("Hi").await;
    app.service.idle().await;
    // There is but one app; make the second key one for another.
    let last = "UPDATE keys SET app = 'other' WHERE id = (SELECT max(id) FROM keys)";
    app.database().execute(last, []).unwrap();
    let app = app.restart().await;
    let (here, there) = (User { app: &app, token: here }, User { app: &app, token: there });
    let apps = good(here.get("/v1/apps").await)["data"].as_array().map(Vec::len);
    assert_eq!(apps, Some(1));
    assert_eq!(good(there.get("/v1/apps").await), json!({ "data": [], "next": null }));
    good(here.get(&names.thread_path()).await);
    let before = rows(&app);
    for (method, path, body) in requests(&names) {
        let answer = there.send(method.clone(), &path, &body).await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
    }
    refused(there.get(THREADS).await, 404, "not_found");
    refused(there.send(Method::POST, THREADS, &json!({})).await, 404, "not_found");
    assert_eq!(rows(&app), before);
}

#[tokio::test]
async fn looking_after_the_server_is_for_administrators() {
    let app = TestApp::start().await;
    let root =
        User::with(&app, NewKey { user: "root".into(), app: None, admin: true, ..NewKey::default() }).await;
    let ann = User::new(&app, "ann").await;
    let eve = json!({ "user": "eve", "admin": true });
    let key = format!("/v1/admin/keys/key_{UNKNOWN}");
    for (method, path, body) in [
        (Method::GET, "/v1/admin/jobs", &Value::Null),
        (Method::GET, "/v1/admin/keys", &Value::Null),
        (Method::POST, "/v1/admin/keys", &eve),
        (Method::DELETE, key.as_str(), &Value::Null),
    ] {
        refused(ann.send(method, path, body).await, 403, "admin_only");
    }
    assert_eq!(app.count("SELECT count(*) FROM keys"), 2);

    let made = root.send(Method::POST, "/v1/admin/keys", &json!({ "user": "bob" })).await;
    assert_eq!(made.status, 201);
    let made = good(made);
    let bob = User { app: &app, token: made["token"].as_str().unwrap().to_owned() };
    good(bob.get(THREADS).await);
    let list = good(root.get("/v1/admin/keys").await);
    let users: Vec<_> = list["data"].as_array().unwrap().iter().map(|key| &key["user"]).collect();
    assert_eq!(users, ["root", "ann", "bob"]);
    assert!(!list.to_string().contains(&bob.token), "{list}");

    // Revoked, it is good for nothing from the next request on.
    let path = format!("/v1/admin/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(root.send(Method::DELETE, &path, &Value::Null).await.status, 204);
    refused(bob.get(THREADS).await, 401, "unauthorized");
    let list = good(root.get("/v1/admin/keys").await);
    assert!(list["data"][2]["revokedAt"].is_string(), "{list}");
    refused(root.send(Method::DELETE, &key, &Value::Null).await, 404, "not_found");
    for bad in
        [json!({ "user": "" }), json!({ "user": "a b" }), json!({ "user": "x", "app": "no" }), json!({})]
    {
        refused(root.send(Method::POST, "/v1/admin/keys", &bad).await, 422, "invalid_request");
    }
}

/// X2: the data folder has no key in clear text.
#[tokio::test]
async fn a_key_is_nowhere_in_the_data_folder() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let ann = User::new(&app, "ann").await;
    ann.say("Hi").await;
    let secret = ann.token.strip_prefix("rondo_").unwrap().as_bytes();
    let mut files = 0;
    for entry in std::fs::read_dir(app.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 0);
}
