//! `rondo actions`: what tools did, and whether the ledger is whole.

use testkit::sql::Connection;
use testkit::upstream::{Reply, ScriptedCall};

use crate::process::within;
use crate::world::World;

const SAID: &str = r#"{"expression":"123457 + 1"}"#;

async fn a_run(world: &World) {
    world
        .upstream
        .script([Reply::stream().call(ScriptedCall::new("calculate", SAID)), Reply::says("There.")]);
    let ended = world.run(&["chat", "Add it up."]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
}

async fn verify(world: &World) -> (Option<i32>, String) {
    let ended = world.run(&["actions", "verify"]).await;
    (ended.code, ended.output)
}

#[tokio::test]
async fn they_are_listed_and_their_ledger_holds() {
    let world = World::new().await;
    assert_eq!(verify(&world).await, (Some(0), "scopes   0\nentries  0\nerased   0\nfaults   0\n".into()));
    a_run(&world).await;
    a_run(&world).await;
    for running in [false, true] {
        let server = if running { Some(world.serve().await) } else { None };
        let expected = "scopes   1\nentries  4\nerased   0\nfaults   0\n";
        assert_eq!(verify(&world).await, (Some(0), expected.into()), "running: {running}");
        let listed = world.run(&["actions", "list", "--app", "studio"]).await;
        assert_eq!((listed.code, listed.errors.as_str()), (Some(0), ""));
        assert_eq!(listed.output.lines().count(), 2);
        for line in listed.output.lines() {
            assert!(line.starts_with("act_"), "{line}");
            assert!(line.ends_with(&format!("  complete   read          calculate  {SAID}")), "{line}");
        }
        let one = world.run(&["actions", "list", "--app", "studio", "--limit", "1"]).await.output;
        assert_eq!(one.lines().collect::<Vec<_>>(), [listed.output.lines().next().unwrap()], "the newest");
        if let Some(server) = server {
            server.process.signal("TERM");
            assert_eq!(server.process.ended().await.code, Some(0));
        }
    }
    let others = world.run(&["actions", "list", "--app", "studio", "--user", "ada"]).await;
    assert_eq!((others.code, others.output.as_str()), (Some(0), ""), "nothing was done for them");
    for wrong in ["0", "1001", "x"] {
        let refused = world.run(&["actions", "list", "--app", "studio", "--limit", wrong]).await;
        assert_eq!(refused.code, Some(2), "{wrong}");
    }
}

#[tokio::test]
async fn deleting_a_thread_erases_what_was_said_and_the_ledger_still_holds() {
    let world = World::new().await;
    a_run(&world).await;
    let server = world.serve().await;
    let (_, threads) = server.get("/v1/apps/studio/threads").await;
    let thread = threads["data"][0]["id"].as_str().unwrap().to_owned();
    let deleted =
        server.request(reqwest::Method::DELETE, &format!("/v1/threads/{thread}")).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    let erased =
        async { while !server.get("/v1/apps/studio/actions").await.1["data"][0]["input"].is_null() {} };
    within("what was said to be erased", erased).await;
    server.process.signal("TERM");
    assert_eq!(server.process.ended().await.code, Some(0));
    let (code, output) = verify(&world).await;
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("faults   0\n") && !output.contains("erased   0\n"), "{output}");
    let listed = world.run(&["actions", "list", "--app", "studio"]).await.output;
    assert!(listed.ends_with("calculate  erased\n"), "{listed}");
}

/// An attacker who can write to the database, and removes what protects it.
#[tokio::test]
async fn a_changed_word_is_found() {
    let world = World::new().await;
    a_run(&world).await;
    assert_eq!(verify(&world).await.0, Some(0));
    let database = Connection::open(world.path("data/rondo.db")).unwrap();
    let changed = database
        .execute("UPDATE ledger_payloads SET payload = replace(payload, '123457', '123456')", [])
        .unwrap();
    assert_ne!(changed, 0);
    drop(database);
    for running in [false, true] {
        let _server = if running { Some(world.serve().await) } else { None };
        let ended = world.run(&["actions", "verify"]).await;
        assert_eq!(ended.code, Some(1), "running: {running}: {ended:?}");
        assert!(
            ended.output.contains("\nBAD   ") && !ended.output.contains("faults   0"),
            "{}",
            ended.output
        );
        assert!(ended.errors.starts_with("rondo: the ledger has "), "{}", ended.errors);
    }
}
