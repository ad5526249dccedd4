//! `rondo migrate-from`: the examples of docs/migration.md, imported as written there.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::process::Ended;
use crate::world::World;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migration.md");

/// The text of each block of code of a kind, in order.
fn blocks(kind: &str) -> Vec<String> {
    let docs = std::fs::read_to_string(DOCS).unwrap();
    let opening = format!("```{kind}\n");
    let parts = docs.split(&opening).skip(1);
    parts.map(|part| part.split("\n```").next().unwrap().to_owned()).collect()
}

/// Runs a command of the docs, which begins with `rondo`.
async fn run(world: &World, command: &str, more: &[&str]) -> Ended {
    let args: Vec<&str> = command.split_whitespace().skip(1).chain(more.iter().copied()).collect();
    world.run(&args).await
}

fn count(ended: &Ended, what: &str) -> u64 {
    let line = ended.output.lines().find(|line| line.starts_with(what));
    let line = line.unwrap_or_else(|| panic!("no {what}: {ended:?}"));
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[tokio::test]
async fn each_example_of_the_docs_is_imported_once() {
    let world = World::new().await;
    let commands: Vec<String> =
        blocks("sh").into_iter().filter(|block| block.contains("migrate-from")).collect();
    let files = blocks("json");
    assert_eq!((commands.len(), files.len()), (3, 3), "three products");
    for (command, file) in commands.iter().zip(&files) {
        let name = command.split_whitespace().nth(3).unwrap();
        world.write(name, file);
        let dry = run(&world, command, &["--dry-run"]).await;
        assert_eq!((count(&dry, "conversations"), count(&dry, "memories")), (1, 1), "{dry:?}");
        let first = run(&world, command, &[]).await;
        assert_eq!((first.code, first.errors.as_str()), (Some(0), ""), "{first:?}");
        let counts =
            |ended: &Ended| ["conversations", "turns", "memories", "already"].map(|what| count(ended, what));
        let turns = count(&dry, "turns");
        assert_eq!(counts(&first), [1, turns, 1, 0], "{first:?}");
        let second = run(&world, command, &[]).await;
        assert_eq!(counts(&second), [0, 0, 0, 1], "a second import changes nothing: {second:?}");
        assert_eq!(count(&second, "duplicates"), 1);
    }
    let server = world.serve().await;
    let (_, threads) = server.get("/v1/apps/studio/threads").await;
    assert_eq!(threads["data"].as_array().unwrap().len(), 3);
    world.audit();
}

#[tokio::test]
async fn an_archive_is_read_without_being_unpacked() {
    let world = World::new().await;
    let mut archive = zip::ZipWriter::new(std::fs::File::create(world.path("export.zip")).unwrap());
    for (name, text) in [("user.json", "{}"), ("conversations.json", blocks("json")[0].as_str())] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    let ended = world.run(&["migrate-from", "chatgpt", "export.zip", "--app", "studio"]).await;
    assert_eq!((ended.code, count(&ended, "conversations")), (Some(0), 1), "{ended:?}");
}

#[tokio::test]
async fn a_broken_file_says_where_and_what_came_before_it_stays() {
    let world = World::new().await;
    let good: Value = serde_json::from_str(&blocks("json")[0]).unwrap();
    let list = json!([good[0], { "title": "No id" }]).to_string();
    world.write("odd.json", &list);
    let odd = world.run(&["migrate-from", "chatgpt", "odd.json", "--app", "studio"]).await;
    assert_eq!((odd.code, count(&odd, "conversations"), count(&odd, "left")), (Some(1), 1, 1), "{odd:?}");
    assert!(odd.output.contains("conversation 1 (No id): has no conversation_id"), "{odd:?}");
    world.write("cut.json", &list[..list.len() - 9]);
    let cut = world.run(&["migrate-from", "chatgpt", "cut.json", "--app", "studio"]).await;
    assert_eq!(cut.code, Some(1));
    assert!(cut.errors.contains("cut.json: line 1, column"), "{cut:?}");
    let none = world.run(&["migrate-from", "letta", "missing.af", "--app", "studio"]).await;
    assert!(none.code == Some(1) && none.errors.contains("missing.af"), "{none:?}");
}
