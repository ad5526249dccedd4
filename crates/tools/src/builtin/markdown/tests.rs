//! Files as the model sees and writes them, with a real store behind them.

use serde_json::json;
use store::MAX_FILE_BYTES;

use crate::tests::World;

const NOTES: &str = "# Notes\n\n## Goals\n\nrest\n";

fn section(path: &str, heading: &str, content: &str, mode: &str) -> serde_json::Value {
    json!({ "path": path, "heading": heading, "content": content, "mode": mode })
}

#[tokio::test]
async fn a_file_is_made_listed_read_and_written_by_section() {
    let world = World::new();
    let made = world.call("createMarkdownFile", json!({ "path": "notes/me.md", "content": NOTES })).await;
    assert_eq!(made, json!({ "path": "notes/me.md", "version": 1, "bytes": NOTES.len() }));
    world.call("createMarkdownFile", json!({ "path": "other.md", "content": "" })).await;

    let listed = world.call("listMarkdown", json!({ "prefix": "notes/" })).await;
    let file = &listed["files"][0];
    assert_eq!((listed["files"].as_array().unwrap().len(), &listed["more"]), (1, &json!(false)));
    assert_eq!((&file["path"], &file["bytes"]), (&json!("notes/me.md"), &json!(NOTES.len())));
    assert_eq!(file["headings"], json!(["# Notes", "## Goals"]));
    assert_eq!(world.call("listMarkdown", json!({})).await["files"].as_array().unwrap().len(), 2);

    let written =
        world.call("writeMarkdownSection", section("notes/me.md", "Goals", "sleep", "append")).await;
    assert_eq!(written["version"], 2);
    let read = world.call("readMarkdown", json!({ "path": "notes/me.md" })).await;
    let content = "# Notes\n\n## Goals\n\nrest\n\nsleep\n";
    assert_eq!(read, json!({ "path": "notes/me.md", "version": 2, "content": content }));
    let same = section("notes/me.md", "Goals", "rest\n\nsleep", "replace");
    let same = world.attempt("writeMarkdownSection", world.calling(same)).await;
    assert_eq!((same.writes, &same.output["unchanged"]), (vec![], &json!(true)));
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_with_a_reason() {
    let world = World::new();
    let twice = "# A\n## Log\n## Log\n";
    world.call("createMarkdownFile", json!({ "path": "a.md", "content": twice })).await;
    let again = json!({ "path": "a.md", "content": "x" });
    assert_eq!(world.refused("createMarkdownFile", again).await.0, "exists");
    assert_eq!(world.refused("readMarkdown", json!({ "path": "b.md" })).await.0, "not_found");
    let (error, message) = world.refused("writeMarkdownSection", section("a.md", "Log", "x", "append")).await;
    assert_eq!(error, "ambiguous_heading");
    assert_eq!(message, "\"Log\" is the heading on lines 2, 3; make them different");
    for (path, heading, content, mode, error) in [
        ("b.md", "Log", "x", "append", "not_found"),
        ("a.md", "##", "x", "append", "invalid_heading"),
        ("a.md", "two\nlines", "x", "append", "invalid_heading"),
        ("a.md", "A", "# B", "append", "invalid_content"),
        ("a.md", "A", "x", "insert", "invalid_arguments"),
    ] {
        let refused = world.refused("writeMarkdownSection", section(path, heading, content, mode)).await;
        assert_eq!(refused.0, error, "{path} {heading:?} {content:?} {mode}");
    }
    let most = "ü".repeat(MAX_FILE_BYTES / 2);
    world.call("createMarkdownFile", json!({ "path": "big.md", "content": most })).await;
    assert_eq!(
        world.refused("writeMarkdownSection", section("big.md", "A", "", "append")).await.0,
        "too_large"
    );
    let beyond = json!({ "path": "bigger.md", "content": format!("{most}ü") });
    assert_eq!(world.refused("createMarkdownFile", beyond).await.0, "too_large");
    let read = world.call("readMarkdown", json!({ "path": "big.md" })).await;
    assert_eq!(read["cut"], "49152 of 262144 bytes shown");
}

#[tokio::test]
async fn a_hostile_path_reaches_no_file() {
    let world = World::new();
    for path in ["../a.md", "/etc/a.md", "a/../../b.md", "a\\b.md", "a\0.md", "a.txt", "a//b.md", "~/a.md"] {
        for (tool, input) in [
            ("readMarkdown", json!({ "path": path })),
            ("createMarkdownFile", json!({ "path": path, "content": "x" })),
            ("writeMarkdownSection", section(path, "A", "x", "append")),
        ] {
            assert_eq!(world.refused(tool, input).await.0, "invalid_path", "{tool} {path:?}");
        }
    }
    assert_eq!(world.call("listMarkdown", json!({})).await, json!({ "files": [], "more": false }));
}

#[tokio::test]
async fn each_user_has_files_of_their_own() {
    let mut world = World::new();
    world.call("createMarkdownFile", json!({ "path": "a.md", "content": "mine" })).await;
    world.become_user("bob");
    assert_eq!(world.refused("readMarkdown", json!({ "path": "a.md" })).await.0, "not_found");
    world.call("createMarkdownFile", json!({ "path": "a.md", "content": "his" })).await;
    assert_eq!(world.call("readMarkdown", json!({ "path": "a.md" })).await["content"], "his");
}

#[tokio::test]
async fn a_write_that_was_undone_can_be_made_again() {
    let world = World::new();
    let input = json!({ "path": "a.md", "content": "one" });
    world.call("createMarkdownFile", input.clone()).await;
    let listed = world.call("listRecentActions", json!({ "tool": "createMarkdownFile" })).await;
    world.call("undoAction", json!({ "actionId": listed["actions"][0]["actionId"] })).await;
    assert_eq!(world.refused("readMarkdown", json!({ "path": "a.md" })).await.0, "not_found");
    let again = world.call("createMarkdownFile", input).await;
    let read = world.call("readMarkdown", json!({ "path": "a.md" })).await;
    assert_eq!((&read["version"], &read["content"]), (&again["version"], &json!("one")));
}
