//! Memories that the user manages, and those that are found in what was said.

use serde_json::{Value, json};
use testkit::Setup;
use testkit::upstream::Reply;

use crate::model::repeats;
use crate::stage::{Scenario, sweep};

const MEMORIES: &str = "/v1/apps/test/memories";

fn path(memory: &Value) -> String {
    format!("/v1/memories/{}", memory["id"].as_str().expect("a memory"))
}

#[tokio::test]
async fn a_memory_is_added_edited_forgotten_and_restored() {
    sweep(Scenario::new("memory by hand", Setup::default, 12), async |client| {
        let tea = client.post("add", MEMORIES, &json!({ "text": "Likes green tea." })).await?;
        client.post("add another", MEMORIES, &json!({ "text": "Has a dog." })).await?;
        client.patch("edit", &path(&tea), &json!({ "text": "Likes black tea." })).await?;
        client.delete("forget", &path(&tea)).await?;
        client.act("restore", &format!("{}/restore", path(&tea))).await?;
        client.delete("forget again", &path(&tea)).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn memories_are_imported_and_switched_off() {
    sweep(Scenario::new("memory settings", Setup::default, 4), async |client| {
        client.post("add", MEMORIES, &json!({ "text": "Likes green tea." })).await?;
        let off = client.put("off", &format!("{MEMORIES}/settings"), &json!({ "enabled": false })).await?;
        client.check(off["enabled"] == false, "memory is off");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_memory_is_found_in_what_was_said() {
    let setup =
        || Setup::app("[memory]\ninject = \"all\"\nextract = true\nextract_delay_seconds = 0\nkeep = 3\n");
    let scenario = Scenario::new("extraction", setup, 20).says(|request, before| {
        if request["response_format"]["json_schema"]["name"] != "memories" {
            return repeats(request, before);
        }
        let change = json!({ "action": "create", "ids": [], "text": "The user is vegan", "kind": "preference",
            "message": "u1", "quote": "I am vegan" });
        Reply::says(&json!({ "changes": [change] }).to_string())
    });
    sweep(scenario, async |client| {
        client.turn("send", "By the way, I am vegan these days.").await?;
        Ok(())
    })
    .await;
}
