//! Tools over records, with a real store behind them.

use protocol::Effect;
use serde_json::{Value, json};

use super::*;
use crate::policy::Ruling;
use crate::tests::{TOML, World, app, catalog};

fn pair(error: &str, message: &str) -> (String, String) {
    (error.into(), message.into())
}

/// The ids of `number` pieces of evidence.
async fn evidence(world: &World, number: usize) -> Vec<Value> {
    let mut ids = Vec::new();
    for index in 0..number {
        ids.push(
            world.call("addEvidence", json!({ "content": format!("piece {index}") })).await["id"].clone(),
        );
    }
    ids
}

fn parameters(name: &str) -> Value {
    let registry = catalog().registry(&app(TOML).1, &[]).unwrap();
    let specs = registry.specs();
    specs.iter().find(|spec| spec.name == name).unwrap().parameters.clone()
}

#[test]
fn arguments_are_made_from_the_schema() {
    let id = json!({ "type": "string", "pattern": "^rec_[0-9a-f]{32}$", "description": "the id of the part record" });
    let expected = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "evidence"],
        "properties": {
            "name": { "type": "string", "minLength": 1 },
            "role": { "type": "string" },
            "evidence": {
                "type": "array",
                "items": { "type": "string", "pattern": "^rec_[0-9a-f]{32}$" },
                "minItems": 3,
                "maxItems": 100,
                "uniqueItems": true,
                "description": "the ids of at least 3 distinct evidence records that exist",
            },
        },
    });
    assert_eq!(parameters("createEmergingPart"), expected);
    assert_eq!(parameters("createPart")["required"], json!(["name"]), "what has a default is not asked for");
    assert!(parameters("createPart")["properties"].get("source").is_none(), "what is fixed is not offered");
    assert_eq!(parameters("getPart")["properties"], json!({ "id": id }));
    let update = parameters("updatePart");
    assert_eq!((&update["required"], &update["properties"]["id"]), (&json!(["id"]), &id));
    assert_eq!(update["properties"]["age"], json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }));
    assert_eq!(update["properties"]["name"], json!({ "type": "string", "minLength": 1 }), "it must stay");
    let list = parameters("listParts");
    let filters: Vec<&String> = list["properties"].as_object().unwrap().keys().collect();
    assert_eq!(filters, ["name", "status", "role", "source", "known", "friend", "evidence", "limit"]);
    assert_eq!(list["properties"]["limit"]["maximum"], 20);
    assert_eq!(list["properties"]["evidence"]["type"], "string", "a list is filtered by what it holds");
    assert_eq!(parameters("searchParts")["properties"]["limit"]["maximum"], 3);
}

#[tokio::test]
async fn a_record_is_made_read_found_changed_and_deleted() {
    let world = World::new();
    let made = world.call("createPart", json!({ "name": "Watcher", "role": "looks ahead" })).await;
    let data = json!({ "name": "Watcher", "role": "looks ahead", "status": "emerging", "source": "agent" });
    let id = made["id"].clone();
    assert_eq!(made, json!({ "id": id, "type": "part", "version": 1, "data": data }));
    let read = world.call("getPart", json!({ "id": id })).await;
    assert_eq!((&read["data"], &read["version"]), (&data, &json!(1)));

    let change = json!({ "id": id, "role": null, "status": "active", "age": 7 });
    let changed = world.call("updatePart", change).await;
    let data = json!({ "name": "Watcher", "status": "active", "source": "agent", "age": 7 });
    assert_eq!(changed, json!({ "id": id, "type": "part", "version": 2, "data": data }));

    for (tool, input, found) in [
        ("searchParts", json!({ "query": "watch" }), 1),
        ("searchParts", json!({ "query": "ahead" }), 0),
        ("searchParts", json!({ "query": "\" OR * NEAR(" }), 0),
        ("listParts", json!({}), 1),
        ("listParts", json!({ "status": "active" }), 1),
        ("listParts", json!({ "status": "emerging" }), 0),
    ] {
        let output = world.call(tool, input.clone()).await;
        assert_eq!(output["records"].as_array().unwrap().len(), found, "{tool} {input}");
    }
    let deleted = world.call("deletePart", json!({ "id": id })).await;
    assert_eq!(deleted, json!({ "id": id, "type": "part", "deleted": true }));
    for tool in ["getPart", "deletePart"] {
        assert_eq!(world.refused(tool, json!({ "id": id })).await.0, "not_found", "{tool}");
    }
}

#[tokio::test]
async fn a_change_that_changes_nothing_is_not_written() {
    let world = World::new();
    let made = world.call("createPart", json!({ "name": "Watcher" })).await;
    let same =
        world.attempt("updatePart", world.calling(json!({ "id": made["id"], "name": "Watcher" }))).await;
    assert_eq!((same.writes, same.output), (vec![], made.clone()));
    let nothing = world.refused("updatePart", json!({ "id": made["id"] })).await;
    assert_eq!(nothing, pair("nothing_to_change", "give at least one field beside the id"));
}

#[tokio::test]
async fn a_part_needs_three_pieces_of_evidence_that_exist() {
    let world = World::new();
    let ids = evidence(&world, 3).await;
    let unknown = || json!(world.ids.record());
    let few = json!({ "name": "W", "evidence": [ids[0], unknown(), unknown()] });
    let expected = "3 distinct evidence records are needed, 1 of the ids given exist; \
                    add evidence first with addEvidence";
    assert_eq!(world.refused("createEmergingPart", few).await, pair("evidence_required", expected));
    for wrong in [
        json!({ "name": "W" }),
        json!({ "name": "W", "evidence": [ids[0], ids[1]] }),
        json!({ "name": "W", "evidence": [ids[0], ids[1], ids[1]] }),
        json!({ "name": "W", "evidence": ["he said so", "three times", "honestly"] }),
    ] {
        assert_eq!(
            world.refused("createEmergingPart", wrong.clone()).await.0,
            "invalid_arguments",
            "{wrong}"
        );
    }
    let invented = json!({ "name": "W", "evidence": [ids[0], ids[1], ids[2], unknown()] });
    let expected = pair("not_found", "evidence: 1 of the ids do not exist");
    assert_eq!(world.refused("createEmergingPart", invented).await, expected);
    let part = world.call("createPart", json!({ "name": "Other" })).await["id"].clone();
    let other_kind = json!({ "name": "W", "evidence": [ids[0], ids[1], part] });
    assert_eq!(world.refused("createEmergingPart", other_kind).await.0, "evidence_required");
    let made = world.call("createEmergingPart", json!({ "name": "W", "evidence": ids })).await;
    assert_eq!(made["data"], json!({ "name": "W", "status": "emerging", "evidence": ids }));
}

#[tokio::test]
async fn somebody_elses_records_do_not_exist() {
    let mut world = World::new();
    let ids = evidence(&world, 3).await;
    let part = world.call("createPart", json!({ "name": "Watcher" })).await["id"].clone();
    world.become_user("bob");
    let stolen = json!({ "name": "W", "evidence": ids });
    assert_eq!(world.refused("createEmergingPart", stolen).await.0, "evidence_required");
    for (tool, input) in [
        ("getPart", json!({ "id": part })),
        ("updatePart", json!({ "id": part, "name": "Mine" })),
        ("deletePart", json!({ "id": part })),
        ("createPart", json!({ "name": "W", "friend": part })),
    ] {
        assert_eq!(world.refused(tool, input).await.0, "not_found", "{tool}");
    }
    assert_eq!(world.call("listParts", json!({})).await, json!({ "records": [], "more": false }));
    assert_eq!(world.call("searchParts", json!({ "query": "watcher" })).await["records"], json!([]));
}

#[tokio::test]
async fn a_field_that_names_a_record_must_name_one_of_its_type() {
    let world = World::new();
    let friend = world.call("createPart", json!({ "name": "Friend" })).await["id"].clone();
    let made = world.call("createPart", json!({ "name": "W", "friend": friend })).await;
    assert_eq!(made["data"]["friend"], friend);
    let evidence = evidence(&world, 1).await.remove(0);
    let wrong = world.refused("createPart", json!({ "name": "W", "friend": evidence })).await;
    let message = format!("/friend: there is no part record {}", evidence.as_str().unwrap());
    assert_eq!(wrong, pair("not_found", &message));
    assert_eq!(
        world.refused("createPart", json!({ "name": "W", "friend": "Bob" })).await.0,
        "invalid_arguments"
    );
    // A record that was named and is gone does not keep other fields from being changed.
    world.call("deletePart", json!({ "id": friend })).await;
    world.call("updatePart", json!({ "id": made["id"], "role": "alone" })).await;
    let again = json!({ "id": made["id"], "friend": friend });
    assert_eq!(world.refused("updatePart", again).await.0, "not_found");
    let cleared = world.call("updatePart", json!({ "id": made["id"], "friend": null })).await;
    assert!(cleared["data"].get("friend").is_none());
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_and_nobody_is_named_in_them() {
    let world = World::new();
    for input in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "W", "status": "gone" }),
        json!({ "name": "W", "source": "me" }),
        json!({ "name": "W", "role": null }),
        json!("W"),
    ] {
        assert_eq!(world.refused("createPart", input.clone()).await.0, "invalid_arguments", "{input}");
    }
    let known = "(who is speaking is known to the server; do not name users or apps)";
    for name in ["userId", "user_id", "user", "appId", "app_id", "app", "scope", "tenant"] {
        let (error, message) = world.refused("createPart", json!({ "name": "W", name: "bob" })).await;
        assert_eq!((error.as_str(), message.ends_with(known)), ("invalid_arguments", true), "{message}");
    }
    let (_, message) = world.refused("createPart", json!({ "name": "W", "size": 3 })).await;
    assert!(!message.contains(known), "{message}");
    assert_eq!(world.refused("searchParts", json!({ "query": "" })).await.0, "invalid_arguments");
    assert_eq!(
        world.refused("searchParts", json!({ "query": "a", "limit": 4 })).await.0,
        "invalid_arguments"
    );
    let huge = json!({ "name": "W", "role": "x".repeat(MAX_RECORD_BYTES) });
    assert_eq!(world.refused("createPart", huge).await.0, "too_large");
}

#[tokio::test]
async fn lists_say_when_there_is_more() {
    let world = World::new();
    for index in 0..4 {
        world.call("createPart", json!({ "name": format!("Watcher {index}") })).await;
    }
    let found = world.call("searchParts", json!({ "query": "watcher" })).await;
    assert_eq!((found["records"].as_array().unwrap().len(), &found["more"]), (3, &json!(true)));
    let one = world.call("listParts", json!({ "limit": 1 })).await;
    assert_eq!((one["records"].as_array().unwrap().len(), &one["more"]), (1, &json!(true)));
    assert_eq!(one["records"][0]["data"]["name"], "Watcher 3", "the newest change first");
    let all = world.call("listParts", json!({})).await;
    assert_eq!((all["records"].as_array().unwrap().len(), &all["more"]), (4, &json!(false)));
}

#[tokio::test]
async fn a_list_is_cut_between_records() {
    let world = World::new();
    for _ in 0..3 {
        world.call("createPart", json!({ "name": "W", "role": "x".repeat(30_000) })).await;
    }
    let found = world.call("listParts", json!({})).await;
    assert_eq!((found["records"].as_array().unwrap().len(), &found["more"]), (2, &json!(true)));
}

#[tokio::test]
async fn what_is_declared_rules_the_call() {
    let world = World::new();
    let registry = catalog().registry(&app(TOML).1, &[]).unwrap();
    let ids = evidence(&world, 3).await;
    let asked = world.calling(json!({ "name": "W", "evidence": ids }));
    let create = registry.find("createEmergingPart").unwrap();
    let prepared = create.prepare(&asked, &crate::Taint::new()).await.unwrap();
    assert_eq!((prepared.ruling, create.facts().effect), (Ruling::Ask, Effect::Reversible));
    assert_eq!(create.facts().exclusive, Some("records"));
    let list = registry.find("listParts").unwrap();
    let prepared = list.prepare(&world.calling(json!({})), &["web".to_owned()].into()).await.unwrap();
    assert_eq!((prepared.ruling, list.facts().effect), (Ruling::Allow, Effect::Read));
    assert_eq!(list.facts().exclusive, None);
}
