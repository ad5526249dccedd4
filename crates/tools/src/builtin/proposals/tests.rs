//! Proposals of the model, with a real store behind them.

use jiff::{SignedDuration, Timestamp};
use protocol::{Decision, Principal, ProposalId};
use serde_json::{Value, json};
use store::PageOf;

use crate::tests::{World, app, catalog};

async fn propose(world: &World, input: Value) -> ProposalId {
    let made = world.call("createProposal", json!({ "tool": "createPart", "input": input })).await;
    made["proposalId"].as_str().unwrap().parse().unwrap()
}

async fn stored(world: &World, id: ProposalId) -> store::ProposalRow {
    world.store.proposal(&Principal::authenticated(world.scope.user.clone()), id).await.unwrap()
}

#[tokio::test]
async fn a_call_is_proposed_and_nothing_is_done() {
    let world = World::new();
    let input = json!({
        "tool": "createPart", "input": { "name": "Watcher" }, "note": "you spoke of it", "expiresInHours": 1,
    });
    let made = world.call("createProposal", input).await;
    let id: ProposalId = made["proposalId"].as_str().unwrap().parse().unwrap();
    let row = stored(&world, id).await;
    assert_eq!((row.tool.as_str(), &row.input), ("createPart", &json!({ "name": "Watcher" })));
    assert_eq!((row.note.as_deref(), row.decision, row.call), (Some("you spoke of it"), None, None));
    assert_eq!((&made["status"], &made["expiresAt"]), (&json!("open"), &json!(row.expires_at)));
    let hour = SignedDuration::from_mins(59)..=SignedDuration::from_mins(61);
    assert!(hour.contains(&row.expires_at.duration_since(row.created_at)));
    assert_eq!(world.call("listParts", json!({})).await["records"], json!([]));
    let usual = stored(&world, propose(&world, json!({ "name": "W" })).await).await;
    let three_days = SignedDuration::from_hours(71)..=SignedDuration::from_hours(73);
    assert!(three_days.contains(&usual.expires_at.duration_since(usual.created_at)));
}

#[tokio::test]
async fn only_a_call_that_could_be_made_is_proposed() {
    let world = World::new();
    for (tool, input, error) in [
        ("createProposal", json!({}), "invalid_arguments"),
        ("updateProposal", json!({}), "invalid_arguments"),
        ("undoAction", json!({}), "invalid_arguments"),
        ("fly", json!({}), "invalid_arguments"),
        ("createPart", json!({}), "invalid_arguments"),
        ("createPart", json!({ "name": "W", "userId": "bob" }), "invalid_arguments"),
        ("createPart", json!({ "name": "W", "friend": world.ids.record() }), "not_found"),
        ("readMarkdown", json!({ "path": "../a.md" }), "invalid_path"),
    ] {
        let refused = world.refused("createProposal", json!({ "tool": tool, "input": input })).await;
        assert_eq!(refused.0, error, "{tool}: {}", refused.1);
    }
    let evidence: Vec<_> = (0..3).map(|_| world.ids.record()).collect();
    let invented = json!({ "tool": "createEmergingPart", "input": { "name": "W", "evidence": evidence } });
    assert_eq!(world.refused("createProposal", invented).await.0, "evidence_required");
    for hours in [0, 721] {
        let input = json!({ "tool": "calculate", "input": { "expression": "1" }, "expiresInHours": hours });
        assert_eq!(world.refused("createProposal", input).await.0, "invalid_arguments", "{hours}");
    }
    let open =
        world.store.proposals(&world.scope, true, PageOf { after: None, limit: 10 }).await.unwrap().rows;
    assert_eq!(open, []);
}

#[tokio::test]
async fn what_the_app_denies_cannot_be_proposed_either() {
    let world = World::new();
    let toml = "tools = ['calculate', 'proposals']\n[tool.calculate]\npolicy = 'deny'";
    let registry = catalog().registry(&app(toml).1, &[]).unwrap();
    let calling = world.calling(json!({ "tool": "calculate", "input": { "expression": "1" } }));
    let tool = registry.find("createProposal").unwrap();
    let denied = tool.prepare(&calling, &crate::Taint::new()).await.err().unwrap();
    assert_eq!((denied.error, denied.message.as_str()), ("denied", "this app does not allow calculate"));
}

#[tokio::test]
async fn an_open_proposal_is_reworded_and_withdrawn() {
    let world = World::new();
    let id = propose(&world, json!({ "name": "Watcher" })).await;
    let before = stored(&world, id).await;
    let changed =
        world.call("updateProposal", json!({ "proposalId": id, "input": { "name": "Guard" } })).await;
    assert_eq!(changed, json!({ "proposalId": id, "status": "open", "expiresAt": before.expires_at }));
    let after = stored(&world, id).await;
    assert_eq!(after.input, json!({ "name": "Guard" }));
    assert_ne!(after.hash, before.hash, "a yes is for what was shown");
    world.call("updateProposal", json!({ "proposalId": id, "note": "a better name" })).await;
    assert_eq!(stored(&world, id).await.note.as_deref(), Some("a better name"));
    let wrong = world.refused("updateProposal", json!({ "proposalId": id, "input": { "name": "" } })).await;
    assert_eq!(wrong.0, "invalid_arguments");
    assert_eq!(world.refused("updateProposal", json!({ "proposalId": id })).await.0, "nothing_to_change");
    let both = json!({ "proposalId": id, "withdraw": true, "note": "x" });
    assert_eq!(world.refused("updateProposal", both).await.0, "invalid_arguments");
    let withdrawn = world.call("updateProposal", json!({ "proposalId": id, "withdraw": true })).await;
    assert_eq!(withdrawn, json!({ "proposalId": id, "status": "withdrawn" }));
    assert_eq!(stored(&world, id).await.decision, Some(Decision::Withdrawn));
    assert_eq!(
        world.refused("updateProposal", json!({ "proposalId": id, "note": "x" })).await.0,
        "not_found"
    );
}

#[tokio::test]
async fn a_proposal_of_somebody_else_or_of_the_past_is_out_of_reach() {
    let mut world = World::new();
    let id = propose(&world, json!({ "name": "Watcher" })).await;
    let late =
        crate::Calling { now: Timestamp::MAX, ..world.calling(json!({ "proposalId": id, "note": "x" })) };
    assert_eq!(world.attempt("updateProposal", late).await.output["error"], "expired");
    world.become_user("bob");
    assert_eq!(
        world.refused("updateProposal", json!({ "proposalId": id, "note": "x" })).await.0,
        "not_found"
    );
}
