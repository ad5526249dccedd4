//! A disk that is full, and one that fails: what was acknowledged stays, reads go on, and the rest is told why (D3).

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply};

use crate::cut::status;
use crate::process::{Process, within};
use crate::world::{Server, World, read_text};

/// Gives the data folder a small disk of its own, which others see only through the process that has it.
const DISK: &str = "mount -t tmpfs -o mode=700,size=\"$1\" tmpfs \"$RONDO_DATA\" && shift && exec \"$@\"";

/// The binary with its data folder on a disk of this size. None, with a note, if the test may not make such a disk.
fn rondo_on_disk(world: &World, size: &str, args: &[&str]) -> Option<Command> {
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
    let rondo = world.rondo(args);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--", "sh", "-c", DISK, "sh", size]);
    command.arg(rondo.get_program()).args(rondo.get_args()).current_dir(rondo.get_current_dir().unwrap());
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    command.envs(rondo.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(command)
}

async fn on_a_small_disk(world: &World) -> Option<Server> {
    Some(Server::start(&mut rondo_on_disk(world, "12m", &["serve"])?).await)
}

#[tokio::test]
async fn doctor_names_a_disk_without_room_for_a_first_start() {
    let world = World::new().await;
    for (size, finding) in [("1m", "BAD   data folder: "), ("4m", "ok    data folder: ")] {
        let Some(mut command) = rondo_on_disk(&world, size, &["doctor"]) else { return };
        let ended = Process::start(&mut command).ended().await;
        let line = ended.output.lines().find(|line| line.contains("data folder: "));
        assert!(line.is_some_and(|line| line.starts_with(finding)), "{size}: {ended:?}");
        assert_eq!(line.is_some_and(|line| line.contains("No space left on device")), size == "1m");
    }
}

/// The data folder as the process sees it.
fn inside(server: &Server, world: &World) -> PathBuf {
    let data = world.path("data");
    Path::new("/proc")
        .join(server.process.id().to_string())
        .join("root")
        .join(data.strip_prefix("/").unwrap())
}

/// Writes until there is no space left. The rest of the last block is filled as well.
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

/// Runs the binary on a disk that refuses to be written to as long as the file `switch` says with which error.
async fn on_a_switched_disk(world: &World) -> Server {
    let shim = world.path("disk.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim);
    cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/disk.c")).arg("-ldl");
    assert!(cc.status().expect("there is a C compiler, as for SQLite").success());
    let mut serve = world.rondo(&["serve"]);
    serve.env("LD_PRELOAD", shim).env("DISK_SWITCH", world.path("switch"));
    Server::start(&mut serve).await
}

/// The numbers that Linux gives when a user's quota is used up, and when a disk fails.
const EDQUOT: &str = "122";
const EIO: &str = "5";

#[tokio::test]
async fn a_quota_that_is_used_up_is_a_full_disk_and_heals_by_itself() {
    let world = World::new().await;
    let server = on_a_switched_disk(&world).await;
    assert_eq!(memory(&server, "likes tea").await, 201);
    std::fs::write(world.path("switch"), EDQUOT).unwrap();
    for _ in 0..3 {
        let (status, _, answer) =
            problem(&server, "/v1/apps/studio/memories", &json!({ "text": "no" })).await;
        assert_eq!((status, &answer["code"]), (507, &json!("disk_full")), "{answer}");
    }
    for path in ["/healthz", "/readyz", "/v1/apps/studio/memories"] {
        assert_eq!(server.get(path).await.0, 200, "{path}");
    }
    std::fs::remove_file(world.path("switch")).unwrap();
    assert_eq!(memory(&server, "likes coffee").await, 201, "without a restart");
    server.process.kill();
    world.audit();
    assert_eq!(memories(&world.path("data")), 2);
}

/// The content of such a disk is not known: the server says so, and ends, so that it is started again. The data that it
/// had promised is there then, and the run that was under way goes on.
#[tokio::test]
async fn a_disk_that_fails_ends_the_server_and_the_next_start_goes_on() {
    let world = World::new().await;
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |_| Reply::stream().text("I stay").wait(&held).text(" here."));
    let server = on_a_switched_disk(&world).await;
    assert_eq!(memory(&server, "likes tea").await, 201);
    let mut reader = server.say("Stay").await;
    read_text(&mut reader, "I stay").await;
    std::fs::write(world.path("switch"), EIO).unwrap();
    assert_eq!(memory(&server, "likes coffee").await, 503);
    let ended = within("the server to end", server.process.ended()).await;
    assert_eq!(ended.code, Some(1), "whoever looks after it starts it again: {}", ended.errors);
    for told in ["the store no longer writes, because the disk failed", "the server can no longer write"] {
        assert!(ended.errors.contains(told), "{told}: {}", ended.errors);
    }
    std::fs::remove_file(world.path("switch")).unwrap();
    gate.open();
    let server = world.serve().await;
    assert_eq!(memory(&server, "likes coffee").await, 201);
    let runs = "SELECT count(*) FROM runs WHERE status = 'completed'";
    server.process.errors.contains("resuming unfinished runs").await;
    within("the run to end", async {
        while counted(&world, runs) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.process.kill();
    world.audit();
    assert_eq!(memories(&world.path("data")), 2, "the one that failed is not there");
}

fn counted(world: &World, sql: &str) -> i64 {
    let conn = testkit::sql::Connection::open(world.path("data").join("rondo.db")).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}
