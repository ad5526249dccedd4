//! The real binary behind a real nginx, with the configuration that `docs/deploy.md` shows and TLS.
//!
//! `cargo xtask test` fetches nginx into `target/real-proxy`, unless the machine has one.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "helpers of tests may fail like the tests themselves, and are shared with tests that need more of them"
)]

#[path = "../it/process.rs"]
mod process;
#[path = "../it/world.rs"]
mod world;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use process::{PATIENCE, Process, within};
use reqwest::{Certificate, Client, Method, RequestBuilder};
use serde_json::json;
use testkit::Frames;
use testkit::upstream::{Gate, Reply};
use world::{Server, World, read_text, send};

const PAGE: &str = include_str!("../../../../docs/deploy.md");
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-proxy/usr/sbin/nginx");

/// The name that the page uses.
const NAME: &str = "agents.example";

/// From where the client of these tests comes, so that it is not the proxy's address.
const CLIENT: &str = "127.0.0.2";

/// A server behind nginx, and a user's key.
struct Proxied {
    world: World,
    server: Server,
    proxy: Process,
    client: Client,
    url: String,
    key: String,
}

/// Returns the only block of the page in this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n```{language}\n")).expect("the page shows one");
    rest.split_once("\n```").expect("it ends").0
}

/// A port that no process listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn certificate(world: &World) -> (PathBuf, PathBuf) {
    let (certificate, key) = (world.path("certificate.pem"), world.path("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=agents.example"]);
    for extension in ["subjectAltName=DNS:agents.example", "basicConstraints=critical,CA:FALSE"] {
        openssl.args(["-addext", extension]);
    }
    let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).output().expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

/// Replaces a part of the page that must be there.
fn put(text: &str, part: &str, instead: &str) -> String {
    assert!(text.contains(part), "the page does not say {part:?}");
    text.replace(part, instead)
}

/// Returns the configuration on the page, with the places of this test, and around it what nginx needs to run without
/// being installed.
fn configuration(world: &World, server: &Server, (tls, plain): (u16, u16)) -> String {
    let (certificate, key) = certificate(world);
    let shown = put(block("nginx"), "listen 443 ssl", &format!("listen 127.0.0.1:{tls} ssl"));
    let shown = put(&shown, "listen 80;", &format!("listen 127.0.0.1:{plain};"));
    let shown = put(&shown, "127.0.0.1:8787", server.address());
    let shown = put(&shown, "/etc/ssl/agents.example/fullchain.pem", certificate.to_str().unwrap());
    let shown = put(&shown, "/etc/ssl/agents.example/privkey.pem", key.to_str().unwrap());
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|what| format!("{what}_temp_path temporary_{what};\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{shown}\n}}\n"
    )
}

fn nginx() -> PathBuf {
    Some(PathBuf::from(UNPACKED)).filter(|path| path.exists()).unwrap_or_else(|| "nginx".into())
}

/// Starts nginx and waits until it takes connections.
async fn proxy(folder: &Path, port: u16) -> Process {
    let mut command = Command::new(nginx());
    command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "stderr"]);
    let proxy = Process::start(&mut command);
    let listens = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(!proxy.errors.text().contains("[emerg]"), "{}", proxy.errors.text());
            tokio::task::yield_now().await;
        }
    };
    within("nginx to listen", listens).await;
    proxy
}

impl Proxied {
    async fn start() -> Self {
        let world = World::new().await;
        let made = world.run(&["keys", "add", "alice"]).await;
        let (tls, plain) = (free_port(), free_port());
        let url = format!("https://{NAME}:{tls}");
        let settings = block("toml").split_once("[server]").expect("the page shows the section").1;
        let settings = put(settings, "https://agents.example", &url);
        world.write("rondo.toml", &format!("[log]\nlevel = \"debug\"\n[server]{settings}"));
        let server = world.serve().await;
        let folder = world.path("nginx");
        world.write("nginx/nginx.conf", &configuration(&world, &server, (tls, plain)));
        let proxy = proxy(&folder, tls).await;
        let certificate = std::fs::read(world.path("certificate.pem")).unwrap();
        let client = Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .resolve(NAME, SocketAddr::from(([127, 0, 0, 1], tls)))
            .local_address(Some(CLIENT.parse().unwrap()))
            .tls_certs_only([Certificate::from_pem(&certificate).unwrap()])
            .build()
            .unwrap();
        Self { world, server, proxy, client, url, key: made.output.trim().to_owned() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key)
    }

    /// A message as a web page of the origin sends it.
    fn say(&self, origin: &str) -> RequestBuilder {
        self.request(Method::POST, "/studio/stream")
            .header("origin", origin)
            .json(&json!({ "message": "Tell me" }))
    }
}

async fn stream(request: RequestBuilder) -> Frames {
    let response = request.send().await.expect("the proxy answers");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    Frames::new(response)
}

/// Were anything on the way to hold it back, the first half would never come: the second waits for it to be read.
#[tokio::test]
async fn events_come_through_as_they_are_made_and_resume_where_they_were_left() {
    let proxied = Proxied::start().await;
    let gate = Gate::new();
    proxied.world.upstream.script([Reply::stream().text("Half").wait(&gate).text(" and half")]);
    let mut frames = stream(proxied.say(&proxied.url)).await;
    let events = format!("/v1/runs/{}/events", frames.header("x-run-id"));
    let seen = within("the first half", read_text(&mut frames, "Half")).await;
    drop(frames); // the tab is closed, and opened again
    let last = seen.last().unwrap().id.to_string();
    let resumed = proxied.request(Method::GET, &events).header("last-event-id", &last);
    let resumed = stream(resumed).await;
    gate.open();
    let rest = within("the rest", resumed.all()).await;
    assert!(rest.iter().all(|frame| frame.id > seen.last().unwrap().id), "{rest:?}");
    assert_eq!(rest.last().unwrap().data["status"], "completed");
    let whole = stream(proxied.request(Method::GET, &events)).await.all().await;
    assert_eq!(whole, [seen, rest].concat(), "nothing is missing and nothing comes twice");
}

#[tokio::test]
async fn pages_of_the_public_url_may_act_and_others_may_not() {
    let proxied = Proxied::start().await;
    proxied.world.upstream.program(|_| Reply::says("Hello."));
    let frames = stream(proxied.say(&proxied.url)).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "completed");
    for foreign in ["https://evil.example", "https://agents.example", "null"] {
        let (status, problem) = send(proxied.say(foreign)).await;
        assert_eq!((status, &problem["code"]), (403, &json!("origin_not_allowed")), "{foreign}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains("public_url"), "{problem}");
    }
    let (status, description) = send(proxied.request(Method::GET, "/openapi.json")).await;
    assert_eq!((status, &description["servers"]), (200, &json!([{ "url": proxied.url }])));

    // Names that are not in the configuration stay foreign.
    let rebound = proxied.server.request(Method::GET, "/v1/apps").header("host", "rebind.example");
    let (status, problem) = send(rebound).await;
    assert_eq!((status, &problem["code"]), (403, &json!("host_not_allowed")), "{problem}");
    let setting = r#"public_url = "https://rebind.example""#;
    assert!(problem["detail"].as_str().unwrap().contains(setting), "{problem}");
}

#[tokio::test]
async fn the_log_names_the_client_and_not_the_proxy() {
    let proxied = Proxied::start().await;
    let apps = format!("{}/v1/apps", proxied.url);
    let stranger = || proxied.client.get(&apps).bearer_auth("rondo_wrong");
    for request in [stranger(), stranger().header("x-forwarded-for", "1.2.3.4")] {
        assert_eq!(send(request).await.0, 401);
    }
    assert_eq!(send(proxied.request(Method::GET, "/v1/models")).await.0, 200);
    let log = proxied.server.process.errors.contains("path=\"/v1/models\"").await;
    let refused: Vec<&str> =
        log.lines().filter(|line| line.contains("a key, a JWT or a session was refused")).collect();
    let named = refused.iter().filter(|line| line.contains(&format!("client=\"{CLIENT}\"")));
    assert_eq!((refused.len(), named.count()), (2, 2), "{refused:?}");
    assert!(!log.contains("1.2.3.4"), "anybody can write that");
}
