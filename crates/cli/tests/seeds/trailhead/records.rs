//! Evidence first, then a part, then the user's approval; and what is kept of every call.

use serde_json::json;

use super::*;

fn yes_sayer(evidence: &[String]) -> Value {
    json!({ "name": "The Yes-Sayer", "category": "manager", "evidence": evidence })
}

#[tokio::test]
async fn evidence_is_recorded_and_listed() {
    let (product, server) = with_sample().await;
    let made = output(&product, &server, "addEvidence", evidence("Agreed before thinking.")).await;
    let stored = record(&server, "evidence", "agreed").await;
    assert!(made.to_string().contains(&id(&stored)), "the model learns its id: {made}");
    assert_eq!(stored["data"], evidence("Agreed before thinking."));
    let listed = output(&product, &server, "listEvidence", json!({ "type": "pattern" })).await.to_string();
    assert!(listed.contains(&id(&stored)) && listed.contains("every deadline"), "{listed}");
    assert!(!listed.contains("behavior"), "only what was asked for: {listed}");
}

#[tokio::test]
async fn a_part_without_three_recorded_pieces_of_evidence_is_refused() {
    let (product, server) = with_sample().await;
    let found = loose_evidence(&server).await;
    let invented: Vec<String> = (0..3).map(|n| format!("rec_{n:032x}")).collect();
    let twice = [found[0].clone(), found[1].clone(), found[1].clone()];
    for few in [&found[..2], &invented[..], &twice[..]] {
        plays_calls(&product, &[("createEmergingPart", yes_sayer(few))]);
        let answer = product.answer(&server, json!({ "message": "Add it." })).await;
        assert_eq!(answer["status"], "completed", "nobody is asked: {answer}");
        assert_eq!(answer["toolResults"][0]["success"], false, "{answer}");
    }
    let mixed = [found[0].clone(), found[1].clone(), invented[0].clone()];
    let ended = does(&product, &server, "createEmergingPart", yes_sayer(&mixed)).await;
    assert_eq!(ended["output"]["error"], "evidence_required", "{ended}");
    assert_eq!(list(&server, "records/part").await.len(), 3, "nothing was created");
}

#[tokio::test]
async fn a_part_is_created_once_the_user_has_said_yes() {
    let (product, server) = with_sample().await;
    let found = loose_evidence(&server).await;
    plays_calls(&product, &[("createEmergingPart", yes_sayer(&found[..3]))]);
    let mut stream = product.ask(&server, json!({ "message": "Add it." })).await;
    let open = stream.read_until("proposal:open").await.pop().unwrap().data;
    assert_eq!(open["input"]["name"], "The Yes-Sayer", "the user sees what is to be created");
    assert_eq!(list(&server, "records/part").await.len(), 3, "nothing before the yes");
    let proposal = open["proposalId"].as_str().unwrap();
    assert_eq!(act(&server, &format!("/v1/proposals/{proposal}/confirm")).await.0, 200);
    let rest = stream.all().await;
    assert_eq!((reply(&rest), crate::product::status(&rest)), ("Done.", "completed"));
    let made = part_called(&server, "The Yes-Sayer").await["data"].clone();
    assert_eq!((&made["status"], &made["evidence"]), (&json!("emerging"), &json!(found[..3])));
}

#[tokio::test]
async fn a_no_creates_nothing_and_the_model_is_told() {
    let (product, server) = with_sample().await;
    let found = loose_evidence(&server).await;
    plays_calls(&product, &[("createEmergingPart", yes_sayer(&found))]);
    let mut stream = product.ask(&server, json!({ "message": "Add it." })).await;
    let open = stream.read_until("proposal:open").await.pop().unwrap().data;
    let proposal = open["proposalId"].as_str().unwrap();
    assert_eq!(act(&server, &format!("/v1/proposals/{proposal}/reject")).await.0, 200);
    let rest = stream.all().await;
    assert_eq!(outcome(&rest, "createEmergingPart")["status"], "denied");
    let told = results(asked(&product).last().unwrap())[0].to_string();
    assert!(told.contains("the user said no"), "{told}");
    assert_eq!(list(&server, "records/part").await.len(), 3);
}

#[tokio::test]
async fn every_call_is_kept_with_its_input_and_output() {
    let (product, server) = empty().await;
    let wanted = [
        ("addEvidence", evidence("One.")),
        ("listEvidence", json!({})),
        ("searchParts", json!({ "query": "x" })),
    ];
    plays_calls(&product, &wanted);
    let frames = product.say(&server, "Note this.").await;
    let actions = list(&server, "actions").await;
    assert_eq!(actions.len(), 3, "reading and writing alike");
    for (tool, input) in wanted {
        let action = actions.iter().find(|action| action["tool"] == tool).unwrap();
        assert_eq!((&action["input"], &action["status"]), (&input, &json!("complete")));
        assert_eq!(action["output"], outcome(&frames, tool)["output"]);
    }
}

#[tokio::test]
async fn every_call_is_kept_with_its_time_its_user_and_its_conversation() {
    let (product, server) = empty().await;
    plays_calls(&product, &[("addEvidence", evidence("One."))]);
    let stream = product.ask(&server, json!({ "message": "Note this." })).await;
    let (thread, run) = (stream.header("x-thread-id"), stream.header("x-run-id"));
    stream.all().await;
    let action = list(&server, &format!("actions?thread={thread}&tool=addEvidence")).await[0].clone();
    assert_eq!(action["status"], "complete", "{action}");
    assert_eq!(
        (&action["userId"], &action["threadId"], &action["runId"]),
        (&json!("local"), &json!(thread), &json!(run))
    );
    let (_, view) = server.get(&format!("/v1/threads/{thread}")).await;
    // Without the letter at their ends, texts of times sort as the times do.
    let text = |value: &Value| value.as_str().unwrap().trim_end_matches('Z').to_owned();
    assert!(text(&view["createdAt"]) <= text(&action["startedAt"]), "{action}");
    assert!(
        text(&action["startedAt"]) <= text(&view["updatedAt"]) && action["durationMs"].is_number(),
        "{action}"
    );
}
