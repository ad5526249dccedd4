//! `rondo keys`: who may speak to the server, and how commands on its machine reach it.

use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::Reply;

use crate::process::Process;
use crate::world::{Server, World, files, send};

/// Makes a key and gives back its token, which is all that is printed. Notes are beside it.
async fn add(world: &World, args: &[&str]) -> String {
    let made = world.run(&[&["keys", "add"], args].concat()).await;
    assert_eq!(made.code, Some(0), "{}", made.errors);
    assert!(is_note(&made.errors), "{}", made.errors);
    let token = made.output.strip_suffix('\n').expect("a line");
    let secret = token.strip_prefix("rondo_").expect("a token begins like one");
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    token.to_owned()
}

/// Whether a text is the note on what a first key changes.
fn is_note(errors: &str) -> bool {
    let mut lines = errors.lines();
    lines.next().is_some_and(|line| line.starts_with("note: the id of the key is key_"))
        && lines.all(|line| line.starts_with("note: access without a key ends now"))
}

async fn get(server: &Server, path: &str, token: &str) -> (u16, Value) {
    send(server.request(Method::GET, path).bearer_auth(token)).await
}

/// Says something as the holder of a token, and gives back the thread and the run.
async fn say(server: &Server, token: &str) -> (String, String) {
    let body = json!({ "message": "Hello", "stream": false });
    let request = server.request(Method::POST, "/v1/apps/studio/runs").json(&body).bearer_auth(token);
    let (status, answer) = send(request).await;
    assert_eq!(status, 200, "{answer}");
    let text = |name: &str| answer[name].as_str().unwrap_or_else(|| panic!("no {name}: {answer}")).to_owned();
    (text("threadId"), text("runId"))
}

/// The id of a user's key, as the list shows it.
async fn key_of(world: &World, user: &str) -> String {
    let listed = world.run(&["keys", "list"]).await;
    assert_eq!((listed.code, listed.errors.as_str()), (Some(0), ""));
    let line = listed.output.lines().find(|line| line.contains(&format!("  {user}  ")));
    line.and_then(|line| line.split(' ').next()).expect("the user's key is listed").to_owned()
}

#[tokio::test]
async fn users_with_keys_do_not_see_each_other() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let alice = add(&world, &["alice"]).await; // no server runs
    let server = Server::start(world.rondo(&["serve"]).env("RONDO_LOG", "trace")).await;
    let bob = add(&world, &["bob", "--app", "studio"]).await; // through the running server
    let root = add(&world, &["root", "--admin"]).await;
    for (token, expected) in [(&*alice, 200), (&bob, 200), ("rondo_00", 401), ("", 401)] {
        assert_eq!(get(&server, "/v1/apps", token).await.0, expected, "{token}");
    }
    assert_eq!(server.get("/v1/apps").await.0, 401);
    let (thread, run) = say(&server, &alice).await;
    for path in [format!("/v1/threads/{thread}"), format!("/v1/runs/{run}")] {
        assert_eq!(get(&server, &path, &alice).await.0, 200);
        for other in [&bob, &root] {
            assert_eq!(get(&server, &path, other).await.0, 404, "{path}");
        }
    }
    let (_, threads) = get(&server, "/v1/apps/studio/threads", &bob).await;
    assert_eq!(threads["data"], json!([]));
    for (token, expected) in [(&alice, 403), (&root, 200)] {
        assert_eq!(get(&server, "/v1/admin/keys", token).await.0, expected);
    }

    let revoked = world.run(&["keys", "revoke", &key_of(&world, "alice").await]).await;
    assert_eq!(revoked.code, Some(0), "{}", revoked.errors);
    assert_eq!(get(&server, "/v1/apps", &alice).await.0, 401, "at once");
    assert_eq!(get(&server, "/v1/apps", &bob).await.0, 200);
    let listed = world.run(&["keys", "list"]).await.output;
    assert!(listed.lines().count() == 3 && listed.contains("revoked  alice  all apps"), "{listed}");
    assert!(
        listed.contains("valid    bob    studio    read,run ")
            && listed.contains("root   all apps  admin,read,run"),
        "{listed}"
    );
    server.process.signal("TERM");
    let ended = server.process.ended().await;
    for token in [&alice, &bob, &root] {
        let secret = token.strip_prefix("rondo_").unwrap();
        assert!(!listed.contains(secret) && !ended.errors.contains(secret), "a token is shown once");
        for (path, bytes) in files(&world.path("data")) {
            let holds =
                bytes.windows(secret.len()).any(|window| window.eq_ignore_ascii_case(secret.as_bytes()));
            assert!(!holds, "{} holds a token", path.display());
        }
    }
    world.audit();
}

#[tokio::test]
async fn mistakes_are_said_in_a_line() {
    let world = World::new().await;
    let nobody = format!("key_{}", "0".repeat(32));
    for running in [false, true] {
        let _server = if running { Some(world.serve().await) } else { None };
        for args in [["add", "two words"].as_slice(), &["add", "x", "--app", "none"], &["revoke", &nobody]] {
            let refused = world.run(&[&["keys"], args].concat()).await;
            assert_eq!((refused.code, refused.output.as_str()), (Some(1), ""), "{args:?}");
            assert!(
                refused.errors.starts_with("rondo: ") && refused.errors.lines().count() == 1,
                "{}",
                refused.errors
            );
        }
        assert_eq!(world.run(&["keys", "list"]).await.output, "");
    }
}

#[tokio::test]
async fn other_machines_are_served_only_with_keys() {
    let world = World::new().await;
    let serve = || {
        let mut command = world.rondo(&["serve", "--listen", "0.0.0.0:0"]);
        command.env("RONDO_BEHIND_PROXY", "true");
        command
    };
    let refused = Process::start(&mut serve()).ended().await;
    let expected = "rondo: other machines can reach 0.0.0.0:0, and there is no key: make one with `rondo keys \
                    add USER`, configure [auth.jwt.NAME], or listen on 127.0.0.1\n";
    assert_eq!((refused.code, refused.errors.as_str()), (Some(1), expected));
    assert!(!world.path("data/control.json").exists());
    let token = add(&world, &["alice"]).await;
    let process = Process::start(&mut serve());
    let line = process.errors.line("serving on http://0.0.0.0:").await;
    let port = line.trim_end().rsplit_once("0.0.0.0:").unwrap().1.split(' ').next().unwrap();
    let apps = format!("http://127.0.0.1:{port}/v1/apps");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    assert_eq!(send(client.get(&apps)).await.0, 401);
    assert_eq!(send(client.get(&apps).bearer_auth(&token)).await.0, 200);
    let key = key_of(&world, "alice").await; // commands reach it there too
    assert_eq!(world.run(&["keys", "revoke", &key]).await.code, Some(0));
    assert_eq!(send(client.get(&apps)).await.0, 401, "without any key it serves nobody");
    process.signal("TERM");
    assert_eq!(process.ended().await.code, Some(0));
    let refused = Process::start(&mut serve()).ended().await;
    assert_eq!((refused.code, refused.errors.as_str()), (Some(1), expected), "a revoked key is none");
}

#[tokio::test]
async fn a_proxy_serves_others_only_with_keys() {
    let world = World::new().await;
    world.write("rondo.toml", "[server]\npublic_url = \"https://agents.example\"\n");
    let refused = world.run(&["serve"]).await;
    let expected = "rondo: other machines can reach server.public_url (https://agents.example), and there is \
        no \
                    key: make one with `rondo keys add USER`, configure [auth.jwt.NAME], or remove it\n";
    assert_eq!((refused.code, refused.errors.as_str()), (Some(1), expected));
    let here = Server::start(world.rondo(&["serve"]).env("RONDO_PUBLIC_URL", "http://localhost:3000")).await;
    assert_eq!(here.get("/v1/apps").await.0, 200, "a front end on this machine needs none");
    here.process.kill();
    let token = add(&world, &["alice"]).await;
    let server = world.serve().await;
    let apps = || server.request(Method::GET, "/v1/apps").header("host", "agents.example");
    assert_eq!(send(apps()).await.0, 401);
    assert_eq!(send(apps().bearer_auth(&token)).await.0, 200);
}

#[tokio::test]
async fn the_way_to_the_server_is_its_own_users_alone_and_goes_with_it() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let control = world.path("data/control.json");
    let server = world.serve().await;
    let mode = std::fs::metadata(&control).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let alice = add(&world, &["alice"]).await;
    let chat = world.run(&["chat", "Hello"]).await; // needs no key and no address
    assert_eq!((chat.code, chat.output.as_str(), chat.errors.as_str()), (Some(0), "Hello.\n", ""));
    let refused = world.run(&["chat", "--url", &server.url, "Hello"]).await;
    assert!(refused.code == Some(1) && refused.errors.contains("401"), "{}", refused.errors);
    let chat = world.run(&["chat", "--url", &server.url, "--key", &alice, "Hello"]).await;
    assert_eq!((chat.code, chat.errors.as_str()), (Some(0), ""));

    let stale: Value = serde_json::from_slice(&std::fs::read(&control).unwrap()).unwrap();
    server.process.kill();
    assert!(control.exists(), "nobody was there to remove it");
    add(&world, &["bob"]).await;
    let chat = world.run(&["chat", "Hello"]).await; // through a server of its own, keys or not
    assert_eq!((chat.code, chat.output.as_str(), chat.errors.as_str()), (Some(0), "Hello.\n", ""));
    assert_eq!(world.run(&["keys", "list"]).await.output.lines().count(), 2);

    let server = world.serve().await;
    let token = stale["token"].as_str().unwrap();
    assert_eq!(get(&server, "/v1/apps", token).await.0, 401, "a token dies with its process");
    server.process.signal("TERM");
    assert_eq!(server.process.ended().await.code, Some(0));
    assert!(!control.exists());
}

/// Another process has taken the address that a killed server left behind.
#[tokio::test]
async fn a_stranger_at_the_old_address_is_not_mistaken_for_the_server() {
    let (world, other) = (World::new().await, World::new().await);
    let server = world.serve().await;
    server.process.kill();
    let stranger = other.serve().await;
    let stale = json!({ "url": stranger.url, "token": "rondo_old" });
    world.write("data/control.json", &stale.to_string());
    add(&world, &["alice"]).await;
    assert_eq!(key_of(&world, "alice").await.split('_').next(), Some("key"));
    assert_eq!(other.run(&["keys", "list"]).await.output, "", "it was not made there");
}

#[tokio::test]
async fn all_keys_can_be_removed_again_on_the_machine() {
    let world = World::new().await;
    for running in [false, true] {
        let server = if running { Some(world.serve().await) } else { None };
        let first = world.run(&["keys", "add", "alice"]).await;
        assert!(is_note(&first.errors) && first.errors.contains("`rondo keys open`"), "{}", first.errors);
        let second = world.run(&["keys", "add", "bob"]).await.errors;
        assert!(is_note(&second) && second.lines().count() == 1, "{second}");
        assert_eq!(world.run(&["keys", "revoke", &key_of(&world, "bob").await]).await.code, Some(0));
        if let Some(server) = &server {
            assert_eq!(server.get("/v1/apps").await.0, 401);
        }
        let unasked = world.run(&["keys", "open"]).await;
        assert_eq!((unasked.code, unasked.output.as_str()), (Some(1), ""));
        assert!(unasked.errors.contains("--yes"), "{}", unasked.errors);
        let opened = world.run(&["keys", "open", "--yes"]).await;
        let expected = "2 keys are removed; requests on this machine need no key now\n";
        assert_eq!((opened.code, opened.output.as_str(), opened.errors.as_str()), (Some(0), expected, ""));
        assert_eq!(world.run(&["keys", "list"]).await.output, "");
        if let Some(server) = &server {
            assert_eq!(server.get("/v1/apps").await.0, 200);
            let told = get(server, "/v1/apps", first.output.trim()).await;
            assert_eq!(told.0, 200, "a key that is gone is as none");
        }
    }
    world.audit();
}

#[tokio::test]
async fn a_server_that_others_can_reach_keeps_its_keys() {
    let world = World::new().await;
    world.write("rondo.toml", "[server]\npublic_url = \"https://agents.example\"\n");
    add(&world, &["alice"]).await;
    let server = world.serve().await;
    let refused = world.run(&["keys", "open", "--yes"]).await;
    assert_eq!((refused.code, refused.output.as_str()), (Some(1), ""));
    assert!(refused.errors.contains("other machines can reach this server"), "{}", refused.errors);
    assert_eq!(server.get("/v1/apps").await.0, 401);
}
