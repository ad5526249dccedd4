//! `rondo import` and `rondo export`: all of a user's things in, or none; and out again.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::process::Ended;
use crate::world::{APPS, World};

const OWN: [&str; 2] = ["--app", "trailhead"];

fn sample() -> String {
    Path::new(APPS).join("trailhead/sample").display().to_string()
}

fn succeeded(ended: &Ended) -> &str {
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{ended:?}");
    &ended.output
}

async fn import(world: &World, from: &str, whose: &[&str]) -> Ended {
    world.run(&[&["import", from], OWN.as_slice(), whose].concat()).await
}

async fn export(world: &World, whose: &[&str]) -> Value {
    let ended = world.run(&[&["export"], OWN.as_slice(), whose].concat()).await;
    serde_json::from_str(succeeded(&ended)).unwrap()
}

/// An export with each id replaced by what names the record to a person, so that two of them can be compared.
fn readable(mut export: Value) -> Value {
    let names: BTreeMap<String, String> = export["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| {
            let data = &record["data"];
            let name = ["name", "content", "rationale"].iter().find_map(|field| data[field].as_str());
            (record["id"].as_str().unwrap().to_owned(), name.unwrap().to_owned())
        })
        .collect();
    let mut text = export.to_string();
    for (id, name) in &names {
        text = text.replace(&format!("\"{id}\""), &Value::from(name.as_str()).to_string());
    }
    assert!(!text.contains("rec_"), "an id refers to no record: {text}");
    export = serde_json::from_str(&text).unwrap();
    export["records"].as_array_mut().unwrap().sort_by_key(|record| record["id"].to_string());
    export
}

#[tokio::test]
async fn the_sample_of_trailhead_goes_in_and_comes_out_whole() {
    let world = World::with(&["trailhead"]).await;
    let first = import(&world, &sample(), &[]).await;
    assert_eq!(succeeded(&first), "     5  assessment\n    14  evidence\n     3  part\n");
    let exported = export(&world, &[]).await;
    let records = exported["records"].as_array().unwrap();
    let named = |name: &str| records.iter().find(|record| record["data"]["name"] == name).unwrap();
    let (reader, proofreader) = (named("The Child Who Reads Aloud"), named("The Proofreader"));
    assert_eq!(proofreader["data"]["protects"], json!([reader["id"]]));
    assert_eq!(export(&world, &["--user", "ada"]).await, json!({ "records": [], "files": [] }));

    // Another user can have what one user exports, with records of their own.
    world.write("all.json", &exported.to_string());
    succeeded(&import(&world, "all.json", &["--user", "ada"]).await);
    let adas = export(&world, &["--user", "ada"]).await;
    assert_ne!(adas["records"][0]["id"], exported["records"][0]["id"]);
    assert_eq!(readable(adas), readable(exported.clone()));

    // A running server imports it, too, and gives ids of its own.
    let server = world.serve().await;
    assert_eq!(export(&world, &[]).await, exported);
    succeeded(&import(&world, "all.json", &["--again"]).await);
    let (_, parts) = server.get("/v1/apps/trailhead/records/part").await;
    let parts = parts["data"].as_array().unwrap();
    assert_eq!(parts.len(), 6);
    for part in parts.iter().filter(|part| part["data"]["name"] == "The Proofreader") {
        let of = part["data"]["protects"][0].as_str().unwrap();
        let (status, reader) = server.get(&format!("/v1/apps/trailhead/records/part/{of}")).await;
        assert_eq!((status, &reader["data"]["age"]), (200, &json!(8)));
    }
}

#[tokio::test]
async fn what_the_user_has_already_is_not_imported_a_second_time() {
    let world = World::with(&["trailhead"]).await;
    succeeded(&import(&world, &sample(), &[]).await);
    let exported = export(&world, &[]).await;
    world.write("all.json", &exported.to_string());
    world.write("note.json", &json!({ "files": [{ "path": "a.md", "content": "one" }] }).to_string());
    world.write("other.json", &json!({ "files": [{ "path": "a.md", "content": "two" }] }).to_string());
    assert_eq!(succeeded(&import(&world, "note.json", &[]).await), "     1  files\n");
    for running in [false, true] {
        let _server = if running { Some(world.serve().await) } else { None };
        for from in [&sample(), "all.json"] {
            assert_eq!(succeeded(&import(&world, from, &[]).await), "    22  already there\n");
        }
        assert_eq!(succeeded(&import(&world, "note.json", &[]).await), "     1  already there\n");
        let refused = import(&world, "other.json", &[]).await;
        assert!(refused.errors.contains("the user has another file with this name"), "{refused:?}");
        assert_eq!(export(&world, &[]).await["records"], exported["records"]);
    }

    // A new record among them is added, and names what is there.
    let records = exported["records"].as_array().unwrap();
    let proofreader = records.iter().find(|record| record["data"]["name"] == "The Proofreader").unwrap();
    let about =
        json!({ "type": "pattern", "content": "New", "confidence": 0.5, "partId": proofreader["id"] });
    let mut more = exported.clone();
    let new = json!({ "type": "evidence", "data": about });
    more["records"].as_array_mut().unwrap().insert(0, new);
    world.write("more.json", &more.to_string());
    let said = "     1  evidence\n    22  already there\n";
    assert_eq!(succeeded(&import(&world, "more.json", &[]).await), said);
    let after = export(&world, &[]).await;
    let added = after["records"].as_array().unwrap().iter().find(|record| record["data"]["content"] == "New");
    assert_eq!(added.unwrap()["data"]["partId"], proofreader["id"]);
    assert_eq!(after["records"].as_array().unwrap().len(), 23);
}

/// A part rests on evidence, and evidence is about the part.
#[tokio::test]
async fn records_that_refer_to_each_other_and_files_come_back() {
    let world = World::with(&["trailhead"]).await;
    let evidence = json!({ "type": "pattern", "content": "Again", "confidence": 0.5, "partId": "p" });
    let part = json!({ "name": "It", "status": "active", "evidence": ["e"], "relationships": [{ "partId": "p", "type": "cares_for" }] });
    let text = "# Überblick\r\n\r\n```\n# no heading\n```\r\n";
    let bundle = json!({
        "records": [
            { "id": "e", "type": "evidence", "data": evidence },
            { "id": "p", "type": "part", "data": part }
        ],
        "files": [{ "path": "notes/my overview.md", "content": text }]
    });
    world.write("bundle.json", &bundle.to_string());
    let output = "     1  evidence\n     1  part\n     1  files\n";
    assert_eq!(succeeded(&import(&world, "bundle.json", &[]).await), output);
    let own = export(&world, &[]).await;
    assert_eq!(own["files"], bundle["files"]);

    let _server = world.serve().await;
    let key = world.run(&["keys", "add", "ada", "--app", "trailhead"]).await;
    assert_eq!(key.code, Some(0), "{key:?}");
    let key = key.output.trim_end().to_owned();
    assert_eq!(succeeded(&import(&world, "bundle.json", &["--key", &key]).await), output);
    assert_eq!(readable(export(&world, &["--key", &key]).await), readable(own.clone()));
    assert_eq!(export(&world, &[]).await, own, "nobody else's were touched");
}

#[tokio::test]
async fn one_mistake_keeps_everything_out_and_is_named() {
    let world = World::with(&["trailhead"]).await;
    let good = json!({ "type": "pattern", "content": "Again", "confidence": 0.5 });
    world.write("in/evidence.json", &json!([good, { "type": "pattern", "confidence": 2 }]).to_string());
    world.write(
        "in/more.json",
        &json!([
            { "type": "dream", "data": {} },
            { "id": "x", "type": "part", "data": { "name": "A", "status": "active", "relationships": [{ "partId": "nobody", "type": "protects" }] } },
            { "id": "x", "type": "part", "data": { "name": "B", "status": "active", "userId": "ada" } }
        ])
        .to_string(),
    );
    world
        .write("in/notes.json", &json!({ "files": [{ "path": "../secret.md", "content": "" }] }).to_string());
    for running in [false, true] {
        let _server = if running { Some(world.serve().await) } else { None };
        let refused = import(&world, "in", &[]).await;
        assert_eq!((refused.code, refused.output.as_str()), (Some(1), ""));
        let errors = &refused.errors;
        assert!(errors.starts_with("rondo: nothing was imported:\n  "), "{errors}");
        for problem in [
            "evidence.json[1]: ",
            "more.json[0]: no record type \"dream\"; there is assessment, evidence, part",
            "more.json[1]: there is no part \"nobody\"",
            "more.json[2]: the id \"x\" is given twice",
            "userId",
            "notes.json: file \"../secret.md\": ",
        ] {
            assert!(errors.contains(problem), "{problem} is missing: {errors}");
        }
        assert_eq!(export(&world, &[]).await, json!({ "records": [], "files": [] }));
    }
    let many: Vec<Value> = (0..30).map(|_| json!({ "type": "dream", "data": {} })).collect();
    world.write("many.json", &Value::from(many).to_string());
    let refused = import(&world, "many.json", &[]).await;
    assert!(refused.errors.ends_with("\n  and 20 more\n"), "{}", refused.errors);
}

/// A fault that only shows while the data is written undoes all that was written before it.
#[tokio::test]
async fn a_failure_on_the_way_leaves_nothing_behind() {
    let world = World::with(&["trailhead"]).await;
    let evidence = json!({ "type": "pattern", "content": "Again", "confidence": 0.5 });
    let file = |path: &str, bytes: usize| json!({ "path": path, "content": "x".repeat(bytes) });
    let bundle = json!({
        "records": [{ "type": "evidence", "data": evidence }],
        "files": [file("small.md", 1), file("large.md", 256 * 1024 + 1)]
    });
    world.write("bundle.json", &bundle.to_string());
    for running in [false, true] {
        let _server = if running { Some(world.serve().await) } else { None };
        let refused = import(&world, "bundle.json", &[]).await;
        assert_eq!((refused.code, refused.output.as_str()), (Some(1), ""));
        assert!(refused.errors.starts_with("rondo: large.md: "), "{}", refused.errors);
        assert!(refused.errors.ends_with("; nothing was stored\n"), "{}", refused.errors);
        assert_eq!(export(&world, &[]).await, json!({ "records": [], "files": [] }));
    }
}

#[tokio::test]
async fn what_cannot_be_taken_is_said_in_a_line() {
    let world = World::with(&["trailhead", "studio"]).await;
    world.write("half.json", "[");
    world.write("none/readme.txt", "");
    let line = |ended: &Ended, part: &str| {
        assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.errors.contains(part) && ended.errors.lines().count() == 1, "{}", ended.errors);
    };
    line(&import(&world, "half.json", &[]).await, "half.json: EOF");
    line(&import(&world, "missing.json", &[]).await, "missing.json: ");
    line(&import(&world, "none", &[]).await, "none has 0 .json files");
    line(&import(&world, &sample(), &["--key", "rondo_00"]).await, "name the user with --user");
    let other = world.run(&["import", &sample(), "--app", "other"]).await;
    line(&other, "there is no app \"other\"; there is studio, trailhead");
    let without = world.run(&["import", &sample(), "--app", "studio"]).await;
    assert!(without.code == Some(1) && without.errors.contains("no record type"), "{without:?}");

    for nobody in ["", "two words", "Zoë", &"x".repeat(201)] {
        assert_eq!(import(&world, &sample(), &["--user", nobody]).await.code, Some(2), "{nobody:?}");
    }
    let out = ["export", "--app", "trailhead", "--out", "mine.json"];
    succeeded(&world.run(&out).await);
    line(&world.run(&out).await, "mine.json: ");
    let _server = world.serve().await;
    line(&import(&world, &sample(), &["--user", "ada"]).await, "rondo keys add ada --app trailhead");
    assert_eq!(world.run(&["keys", "add", "ada"]).await.code, Some(0));
    line(&import(&world, &sample(), &["--key", "rondo_00"]).await, "401");
}
