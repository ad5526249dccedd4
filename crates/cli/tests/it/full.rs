//! A disk that is full, and one that fails: what was acknowledged stays, reads go on, and the rest is told why (D3).

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply};

use crate::cut::status;
use crate::process::within;
use crate::world::{Server, World, read_text};

/// A small disk of its own for the data, which others see only through the process that has it.
const DISK: &str = "mount -t tmpfs -o size=12m tmpfs \"$RONDO_DATA\" && exec \"$@\"";

/// Runs the binary with its data folder on the small disk. None, and a word about it, where nobody may make one.
async fn on_a_small_disk(world: &World) -> Option<Server> {
    std::fs::create_dir_all(world.path("data")).unwrap();
    let mut probe = Command::new("unshare");
    probe.args(["--user", "--map-root-user", "--mount", "--", "mount", "-t", "tmpfs", "tmpfs"]);
    let possible = probe.arg(world.path("data")).output().is_ok_and(|probe| probe.status.success());
    if !possible {
        eprintln!(
            "NOT RUN: this machine lets nobody mount a disk in a namespace; allow `unshare --user --mount`"
        );
        return None;
    }
    let serve = world.rondo(&["serve"]);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--", "sh", "-c", DISK, "sh"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(serve.get_current_dir().unwrap());
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(Server::start(&mut command).await)
}

/// The data folder as the process sees it.
fn inside(server: &Server, world: &World) -> PathBuf {
    let data = world.path("data");
    Path::new("/proc")
        .join(server.process.id().to_string())
        .join("root")
        .join(data.strip_prefix("/").unwrap())
}

/// Writes until there is no space left. What is left of the last block goes as well.
fn fill(file: &Path) {
    let mut file = std::fs::File::create(file).unwrap();
    for size in [64 * 1024, 4096, 1] {
        let block = vec![0; size];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }
}

async fn problem(server: &Server, path: &str, body: &Value) -> (u16, String, Value) {
    let response = server.request(Method::POST, path).json(body).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let kind = headers.get("content-type").map_or("", |kind| kind.to_str().unwrap()).to_owned();
    (status, kind, response.json().await.unwrap_or_default())
}

/// Has something remembered; the status of the answer.
async fn memory(server: &Server, text: &str) -> u16 {
    problem(server, "/v1/apps/studio/memories", &json!({ "text": text })).await.0
}

#[tokio::test]
async fn a_full_disk_refuses_writes_keeps_all_and_heals_by_itself() {
    let world = World::new().await;
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |body| match body.to_string().contains("Stay") {
        true => Reply::stream().text("I stay").wait(&held).text(" here."),
        false => Reply::says("Hello."),
    });
    let Some(server) = on_a_small_disk(&world).await else { return };
    assert_eq!(status(&server.say("Hello").await.all().await), "completed");
    let mut reader = server.say("Stay").await;
    read_text(&mut reader, "I stay").await;
    let filler = inside(&server, &world).join("filler");
    fill(&filler);
    // The log of the database has space of its own, which is used up first.
    let text = "likes tea ".repeat(300);
    let mut kept = 0;
    while memory(&server, &format!("{kept} {text}")).await == 201 {
        kept += 1;
    }
    for (path, body) in [
        ("/v1/apps/studio/memories", json!({ "text": text })),
        ("/v1/apps/studio/runs", json!({ "message": text })),
        ("/v1/apps/studio/threads", json!({ "title": "Tea" })),
    ] {
        let (status, kind, answer) = problem(&server, path, &body).await;
        assert_eq!((status, kind.as_str()), (507, "application/problem+json"), "{path}: {answer}");
        assert_eq!(answer["code"], "disk_full", "{path}: {answer}");
    }
    for path in ["/v1/apps/studio/threads", "/v1/apps/studio/memories", "/healthz"] {
        assert_eq!(server.get(path).await.0, 200, "{path}");
    }
    std::fs::remove_file(&filler).unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(memory(&server, "likes coffee").await, 201, "without a restart");
    assert!(begun.elapsed().as_secs() < 5);
    gate.open();
    let rest = within("the run to end", reader.all()).await;
    assert_eq!(status(&rest), "completed", "the reader stayed, and so did the run");
    // The disk is gone with the process; what it holds is looked at elsewhere.
    std::fs::create_dir(world.path("copy")).unwrap();
    for name in ["rondo.db", "rondo.db-wal"] {
        std::fs::copy(inside(&server, &world).join(name), world.path("copy").join(name)).unwrap();
    }
    assert_eq!(testkit::audit(&world.path("copy")), Vec::<String>::new());
    assert_eq!(memories(&world.path("copy")), kept + 1, "what was accepted is there, and nothing else");
}

fn memories(data: &Path) -> usize {
    let conn = testkit::sql::Connection::open(data.join("rondo.db")).unwrap();
    let number: i64 = conn.query_row("SELECT count(*) FROM memories", [], |row| row.get(0)).unwrap();
    usize::try_from(number).unwrap()
}

/// A file that may not grow is, to the database, a disk that fails: it stops, says so, and the next start has everything.
#[tokio::test]
async fn a_disk_that_fails_ends_all_writing_until_the_next_start() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Hello."));
    world.serve().await.process.kill();
    let serve = world.rondo(&["serve"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 6000; exec \"$@\"", "sh"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(serve.get_current_dir().unwrap());
    command.env_clear().envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let server = Server::start(&mut command).await;
    let text = "likes tea ".repeat(300);
    let mut kept = 0;
    let last = loop {
        match memory(&server, &format!("{kept} {text}")).await {
            201 => kept += 1,
            other => break other,
        }
    };
    assert_eq!(last, 503);
    assert_eq!(memory(&server, "and more").await, 503, "never again");
    server.process.errors.contains("the disk failed; mend it and restart").await;
    let (read, _) = server.get("/v1/apps/studio/threads").await;
    assert_eq!(read, 200, "reads go on");
    server.process.kill();
    let server = world.serve().await;
    assert_eq!(memory(&server, "likes coffee").await, 201);
    server.process.kill();
    world.audit();
    let there = memories(&world.path("data"));
    assert!((kept + 1..=kept + 2).contains(&there), "{there} of {kept}: the one that failed may be there");
}
