//! Passages with a real store behind them.

use protocol::Ids as _;
use serde_json::json;
use store::{NewChunk, NewDocument};

use crate::tests::World;

async fn upload(world: &World, name: &str, texts: &[&str]) -> String {
    let ids = protocol::TimeOrderedIds;
    let chunk = |text: &&str| NewChunk {
        id: ids.chunk(),
        text: (*text).to_owned(),
        place: "page 1".into(),
        suspicious: false,
    };
    let document = NewDocument {
        quota: 1 << 30,
        id: ids.document(),
        name: name.into(),
        title: None,
        kind: "text",
        bytes: 10,
        pages: None,
        chunks: texts.iter().map(chunk).collect(),
    };
    world.store.add_document(&world.scope, document, None).await.unwrap().id.to_string()
}

#[tokio::test]
async fn passages_are_found_with_their_place_in_one_document_or_in_all() {
    let mut world = World::new();
    let plan = upload(&world, "plan.txt", &["The walker stands in the hall.", "Dinner is at six."]).await;
    let other = upload(&world, "house.txt", &["The walker is blue."]).await;
    let found = world.call("search_documents", json!({ "query": "where is the walker" })).await;
    assert_eq!(found["passages"].as_array().unwrap().len(), 2, "{found}");
    let one = json!({ "query": "walker", "documentId": other });
    let found = world.call("search_documents", one).await;
    let passage = &found["passages"][0];
    assert_eq!((&passage["document"], &passage["place"]), (&json!("house.txt"), &json!("page 1")), "{found}");
    let rest = world.call("read_rest", json!({ "id": plan, "from": 1 })).await;
    assert_eq!(rest, json!({ "text": "Dinner is at six.", "next": null }));
    assert_eq!(
        world.refused("search_documents", json!({ "query": "x", "documentId": "7" })).await.0,
        "invalid_arguments"
    );

    world.become_user("bob");
    assert_eq!(world.call("search_documents", json!({ "query": "walker" })).await, json!({ "passages": [] }));
    assert_eq!(world.refused("read_rest", json!({ "id": plan })).await.0, "not_found");
}
