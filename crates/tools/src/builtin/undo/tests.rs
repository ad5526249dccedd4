//! Recent actions and undo, on a real store.

use serde_json::{Value, json};

use crate::tests::World;

async fn recent(world: &World, input: Value) -> Vec<Value> {
    world.call("listRecentActions", input).await["actions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_was_done_is_listed_newest_first() {
    let world = World::new();
    world.call("createPart", json!({ "name": "Watcher", "role": "x".repeat(300) })).await;
    world.call("calculate", json!({ "expression": "6*7" })).await;
    let actions = recent(&world, json!({})).await;
    let tools: Vec<&Value> = actions.iter().map(|action| &action["tool"]).collect();
    assert_eq!(tools, ["calculate", "createPart"]);
    let undoable: Vec<&Value> = actions.iter().map(|action| &action["undoable"]).collect();
    assert_eq!(undoable, [&json!(false), &json!(true)]);
    assert_eq!(
        (&actions[0]["status"], &actions[0]["input"]),
        (&json!("complete"), &json!("{\"expression\":\"6*7\"}"))
    );
    let summary = actions[1]["input"].as_str().unwrap();
    assert_eq!((summary.chars().count(), summary.ends_with('…')), (201, true));
    let one = recent(&world, json!({ "tool": "createPart", "limit": 1 })).await;
    assert_eq!(one, actions[1..]);
    for limit in [0, 51] {
        assert_eq!(
            world.refused("listRecentActions", json!({ "limit": limit })).await.0,
            "invalid_arguments"
        );
    }
}

#[tokio::test]
async fn an_action_is_undone_once_and_an_undo_never() {
    let world = World::new();
    let part = world.call("createPart", json!({ "name": "Watcher" })).await["id"].clone();
    let action = recent(&world, json!({})).await[0]["actionId"].clone();
    let undone = world.call("undoAction", json!({ "actionId": action })).await;
    assert_eq!(undone, json!({ "actionId": action, "tool": "createPart", "undone": true }));
    assert_eq!(world.refused("getPart", json!({ "id": part })).await.0, "not_found");

    let again = world.refused("undoAction", json!({ "actionId": action })).await;
    assert_eq!(again, ("cannot_undo".into(), "the action was undone already".into()));
    let undo = recent(&world, json!({ "tool": "undoAction" })).await.remove(0);
    assert_eq!((&undo["undoable"], &undo["undone"]), (&json!(false), &json!(false)));
    let (error, message) = world.refused("undoAction", json!({ "actionId": undo["actionId"] })).await;
    assert_eq!((error.as_str(), message.contains("is an undo")), ("cannot_undo", true), "{message}");
}

#[tokio::test]
async fn what_changed_nothing_or_is_not_the_users_cannot_be_undone() {
    let mut world = World::new();
    world.call("calculate", json!({ "expression": "1" })).await;
    let read = recent(&world, json!({})).await[0]["actionId"].clone();
    assert_eq!(world.refused("undoAction", json!({ "actionId": read })).await.0, "cannot_undo");
    world.call("createPart", json!({ "name": "Watcher" })).await;
    let action = recent(&world, json!({ "tool": "createPart" })).await[0]["actionId"].clone();
    world.become_user("bob");
    assert_eq!(world.refused("undoAction", json!({ "actionId": action })).await.0, "not_found");
    assert_eq!(recent(&world, json!({})).await, Vec::<Value>::new());
    assert_eq!(
        world.refused("undoAction", json!({ "actionId": "the last one" })).await.0,
        "invalid_arguments"
    );
}
