//! JWTs of a real identity provider, `oidc-provider` of npm, whose keys are found by discovery.

use std::process::Command;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::upstream::Reply;

use crate::process::Process;
use crate::world::{Server, World, send};
use crate::{package, rondo, script, write_app};

/// Resources for which the provider issues tokens for Rondo, and one for another service.
const RS256: &str = "urn:rondo:rs256";
const ES256: &str = "urn:rondo:es256";
const OTHER: &str = "urn:other";

/// After this many seconds, a key that is not known is looked for again.
const LOAD_PAUSE: &str = "60";

/// Starts the provider with new keys.
async fn provider(port: u16) -> Process {
    package("oidc-provider/package.json");
    let script = script("oidc.mjs", include_str!("oidc.mjs"));
    let provider = Process::start(Command::new("node").arg(&script).arg(port.to_string()));
    provider.errors.line("ready").await;
    provider
}

/// An access token of alice, as any client gets one.
async fn token(port: u16, resource: Option<&str>) -> String {
    let resource = resource.map(|resource| format!("&resource={resource}")).unwrap_or_default();
    let form = format!("grant_type=client_credentials&scope=chat{resource}");
    let client = Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("http://127.0.0.1:{port}/token")).basic_auth("alice", Some("secret"));
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let (status, answer) = send(request.body(form)).await;
    assert_eq!(status, 200, "{answer}");
    answer["access_token"].as_str().unwrap().to_owned()
}

async fn session(server: &Server, token: &str) -> (u16, Value) {
    send(server.request(Method::GET, "/v1/session").bearer_auth(token)).await
}

/// The server of the test, with a wall clock that the file `ahead` moves forward.
async fn serve(world: &World, port: u16) -> Server {
    write_app(world, "");
    let issuer = format!("http://127.0.0.1:{port}");
    world.write("rondo.toml", &format!("[auth.jwt.main]\nissuer = {issuer:?}\naudience = \"rondo\"\n"));
    let shim = world.path("clock.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim);
    cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/clock.c")).arg("-ldl");
    assert!(cc.status().expect("there is a C compiler, as for SQLite").success());
    let mut command = rondo(world, &["serve"]);
    Server::start(command.env("LD_PRELOAD", shim).env("CLOCK_AHEAD", world.path("ahead"))).await
}

#[tokio::test]
async fn tokens_of_an_openid_provider_name_users_and_new_keys_are_found() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (world, first) = (World::new().await, provider(port).await);
    world.upstream.program(|_| Reply::says("Hello, Alice."));
    let server = serve(&world, port).await;
    for resource in [RS256, ES256] {
        let token = token(port, Some(resource)).await;
        let (status, access) = session(&server, &token).await;
        assert_eq!(
            (status, &access["user"], &access["proof"]),
            (200, &json!("main:alice"), &json!("jwt")),
            "{access}"
        );
        let request = server.request(Method::POST, "/v1/apps/demo/runs").bearer_auth(&token);
        let (status, run) = send(request.json(&json!({ "message": "Hi", "stream": false }))).await;
        assert_eq!((status, &run["reply"]), (200, &json!("Hello, Alice.")), "{run}");
    }
    let old = token(port, Some(RS256)).await;
    assert_eq!(session(&server, &old).await.0, 200);
    let (opaque, foreign) = (token(port, None).await, token(port, Some(OTHER)).await);
    for (wrong, why) in [(&opaque, "not a signed JWT"), (&foreign, "for another audience")] {
        let (status, problem) = session(&server, wrong).await;
        assert_eq!((status, &problem["code"]), (401, &json!("unauthorized")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    }

    first.kill();
    let _second = provider(port).await;
    world.write("ahead", LOAD_PAUSE);
    for resource in [RS256, ES256] {
        let (status, access) = session(&server, &token(port, Some(resource)).await).await;
        assert_eq!((status, &access["user"]), (200, &json!("main:alice")), "{access}");
    }
    let (status, problem) = session(&server, &old).await;
    assert_eq!(
        (status, &problem["code"]),
        (401, &json!("unauthorized")),
        "a removed key signs for nobody: {problem}"
    );
}
