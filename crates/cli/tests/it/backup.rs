//! `rondo backup` and `rondo audit`, beside a server at work and without one (D2, D4).

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use testkit::upstream::{Gate, Reply};

use crate::cut::{Cut, reply, status};
use crate::process::{Process, within};
use crate::world::{World, read_text};

#[tokio::test]
async fn a_backup_beside_a_server_at_work_is_restored_by_starting_with_it() {
    let world = World::new().await;
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |_| Reply::stream().text("Half").wait(&held).text(" and half."));
    let server = world.serve().await;
    let mut frames = server.say("Tell me").await;
    let cut = Cut::of(read_text(&mut frames, "Half").await, &frames);
    let (made, _) = server.post("/v1/apps/studio/memories", &json!({ "text": "likes tea" })).await;
    assert_eq!(made, 201);
    let copied = world.run(&["backup", "copies/first"]).await;
    assert_eq!(copied.code, Some(0), "{copied:?}");
    for part in [
        "1 threads, 1 runs",
        ", checked\n",
        "the copy contains the vault key",
        "not in the backup: pulled models",
        "RONDO_DATA=",
    ] {
        assert!(copied.output.contains(part), "{part}: {copied:?}");
    }
    let audited = world.run(&["audit"]).await;
    assert_eq!(audited.code, Some(0), "{audited:?}");
    assert!(audited.output.starts_with("nothing wrong: 1 threads, 1 runs, "), "{audited:?}");
    let key = std::fs::metadata(world.path("copies/first/vault.key")).unwrap().permissions();
    assert_eq!(key.mode() & 0o777, 0o600);
    let seen = cut.before.last().unwrap().id;
    server.process.kill();
    gate.open();

    let command = &mut world.rondo(&["serve"]);
    let server = crate::world::Server::start(command.env("RONDO_DATA", world.path("copies/first"))).await;
    let events = format!("/v1/runs/{}/events", cut.run);
    let whole = within("the run to end", server.follow(&events, 0).await.all()).await;
    assert_eq!((status(&whole), reply(&whole)), ("completed", "Half and half."));
    assert!(whole.last().unwrap().id > seen + 1_000_000, "numbers that may have been seen are left out");
    let (_, memories) = server.get("/v1/apps/studio/memories").await;
    assert!(memories.to_string().contains("likes tea"), "{memories}");
    server.process.kill();
    assert_eq!(testkit::audit(&world.path("copies/first")), Vec::<String>::new());
}

#[tokio::test]
async fn a_backup_without_a_server_says_where_the_key_is() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let command = |args: &[&str]| {
        let mut command = world.rondo(args);
        command.env("RONDO_VAULT_KEY", "0f".repeat(32));
        command
    };
    let server = crate::world::Server::start(&mut command(&["serve"])).await;
    assert_eq!(status(&server.say("Hello").await.all().await), "completed");
    server.process.kill();
    std::fs::create_dir(world.path("empty")).unwrap();
    let copied = Process::start(&mut command(&["backup", "empty"])).ended().await;
    assert_eq!(copied.code, Some(0), "{copied:?}");
    assert!(copied.output.contains("which is in RONDO_VAULT_KEY"), "{copied:?}");
    let files: Vec<_> =
        std::fs::read_dir(world.path("empty")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["rondo.db"]);
    assert_eq!(testkit::audit(&world.path("empty")), Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_backed_up_is_refused_with_a_reason() {
    let world = World::new().await;
    for command in [&["backup", "copy"][..], &["audit"]] {
        let refused = world.run(command).await;
        assert_eq!(refused.code, Some(1));
        assert!(refused.errors.contains("there is no database in"), "{refused:?}");
    }
    assert!(!world.path("data").exists(), "nothing is made of a mistake");
    world.serve().await.process.kill();
    world.write("full/of.txt", "things");
    for (folder, reason) in [
        ("full", "exists already and is not empty"),
        ("full/of.txt", "of.txt"),
        ("data/copy", "is in the data folder"),
        ("data", "is in the data folder"),
        ("full/../data/copy", "is in the data folder"),
        ("..", "is not the path of a folder"),
    ] {
        let refused = world.run(&["backup", folder]).await;
        assert_eq!(refused.code, Some(1), "{folder}");
        assert!(refused.errors.contains(reason), "{folder}: {refused:?}");
    }
    assert_eq!(std::fs::read_to_string(world.path("full/of.txt")).unwrap(), "things");
    testkit::sql::Connection::open(world.path("data/rondo.db"))
        .unwrap()
        .pragma_update(None, "user_version", 1000)
        .unwrap();
    for command in [&["backup", "copy"][..], &["audit"]] {
        let refused = world.run(command).await;
        assert_eq!(refused.code, Some(1));
        assert!(refused.errors.contains("made by a newer version"), "{refused:?}");
    }
    assert!(!world.path("copy").exists());
}

/// The remains of a backup that was cut are not taken for one, and the next makes good for it.
#[tokio::test]
async fn a_backup_that_is_killed_leaves_nothing_that_looks_like_one() {
    let world = World::new().await;
    testkit::earlier::database(&world.path("data"), testkit::earlier::VERSIONS, 1_000);
    world.serve().await.process.kill();
    let mut delay = std::time::Duration::ZERO;
    loop {
        let mut copying = Process::start(&mut world.rondo(&["backup", "copy"]));
        copying.close_input();
        let whole = tokio::time::timeout(delay, copying.output.contains("checked")).await.is_ok();
        copying.kill();
        if world.path("copy").exists() {
            assert_eq!(testkit::audit(&world.path("copy")), Vec::<String>::new());
            break;
        }
        assert!(!whole, "it said that it was done");
        delay += delay / 4 + std::time::Duration::from_millis(10);
    }
    std::fs::remove_dir_all(world.path("copy")).unwrap();
    world.write("copy.partial/rondo.db", "half of one");
    let copied = world.run(&["backup", "copy"]).await;
    assert_eq!(copied.code, Some(0), "{copied:?}");
    assert!(copied.output.contains("1000 threads, 2000 runs"), "{copied:?}");
    assert!(!world.path("copy.partial").exists());
}

#[tokio::test]
async fn an_audit_says_what_is_wrong_and_fails() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let server = world.serve().await;
    assert_eq!(status(&server.say("Hello").await.all().await), "completed");
    server.process.kill();
    let damage = "DROP TRIGGER events_kept; DELETE FROM events WHERE seq = 2";
    testkit::sql::Connection::open(world.path("data/rondo.db")).unwrap().execute_batch(damage).unwrap();
    let audited = world.run(&["audit"]).await;
    assert_eq!(audited.code, Some(1));
    assert!(audited.output.starts_with("BAD   a thread's sequence has a gap: "), "{audited:?}");
    assert!(audited.errors.contains("restore a backup"), "{audited:?}");
}
