//! The tools one by one: parts, assessments, evidence, proposals, notes, and undo.

use reqwest::Method;
use serde_json::json;

use super::*;

#[tokio::test]
async fn every_kind_of_tool_is_offered_and_the_model_is_free_to_use_them() {
    const ALL: [&str; 18] = [
        "addEvidence",
        "createEmergingPart",
        "createMarkdownFile",
        "createPartAssessment",
        "createProposal",
        "getPartDetails",
        "listEvidence",
        "listMarkdown",
        "listPartAssessments",
        "listRecentActions",
        "readMarkdown",
        "save_memory",
        "searchParts",
        "undoAction",
        "updatePartAttributes",
        "updateProposal",
        "update_profile",
        "writeMarkdownSection",
    ];
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    product.say(&server, "Hi").await;
    let body = asked(&product)[0].clone();
    let mut names: Vec<&str> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ALL);
    assert!(body["tool_choice"].is_null() || body["tool_choice"] == "auto", "{}", body["tool_choice"]);
}

#[tokio::test]
async fn parts_are_found_by_their_name_and_by_what_is_known_of_them() {
    let (product, server) = with_sample().await;
    for (query, name) in [
        ("proofreader", "The Proofreader"),
        ("laughed at", "The Child Who Reads Aloud"),
        ("firefighter", "The Night Scroller"),
    ] {
        let found = output(&product, &server, "searchParts", json!({ "query": query })).await;
        assert!(found.to_string().contains(&format!("\"name\":\"{name}\"")), "{query}: {found}");
    }
    let none = output(&product, &server, "searchParts", json!({ "query": "xylophone" })).await;
    assert!(!none.to_string().contains("rec_"), "{none}");
}

#[tokio::test]
async fn a_part_is_shown_whole() {
    let (product, server) = with_sample().await;
    let part = part_called(&server, "The Proofreader").await;
    let shown = output(&product, &server, "getPartDetails", json!({ "id": part["id"] })).await;
    for (field, value) in part["data"].as_object().unwrap() {
        assert!(shown.to_string().contains(&format!("\"{field}\":{value}")), "{field} is missing: {shown}");
    }
}

#[tokio::test]
async fn what_is_known_of_a_part_is_changed_and_the_rest_stays() {
    let (product, server) = with_sample().await;
    let part = part_called(&server, "The Night Scroller").await;
    let change = json!({ "id": part["id"], "status": "active", "fear": "That it gets loud." });
    output(&product, &server, "updatePartAttributes", change).await;
    let mut expected = part["data"].clone();
    expected["status"] = json!("active");
    expected["fear"] = json!("That it gets loud.");
    assert_eq!(part_called(&server, "The Night Scroller").await["data"], expected);
}

#[tokio::test]
async fn how_a_part_is_doing_is_recorded() {
    let (product, server) = with_sample().await;
    let part = part_called(&server, "The Night Scroller").await;
    let assessment = json!({ "partId": part["id"], "score": 5, "rationale": "It waited ten minutes." });
    output(&product, &server, "createPartAssessment", assessment.clone()).await;
    let stored = record(&server, "assessment", "waited").await;
    assert_eq!(stored["data"], assessment);
    let beyond = json!({ "partId": part["id"], "score": 11, "rationale": "Too good." });
    assert_eq!(does(&product, &server, "createPartAssessment", beyond).await["status"], "failed");
}

#[tokio::test]
async fn earlier_assessments_of_a_part_are_listed() {
    let (product, server) = with_sample().await;
    let part = part_called(&server, "The Proofreader").await;
    let listed =
        output(&product, &server, "listPartAssessments", json!({ "partId": part["id"] })).await.to_string();
    let of_the_part = list(&server, &format!("records/assessment?field.partId={}", id(&part))).await;
    assert_eq!(of_the_part.len(), 3);
    assert!(of_the_part.iter().all(|one| listed.contains(&id(one))), "{listed}");
    assert_eq!(listed.matches("rationale").count(), 3, "those of other parts are not there: {listed}");
}

#[tokio::test]
async fn a_proposal_waits_for_the_user_and_is_carried_out_on_a_yes() {
    let (product, server) = with_sample().await;
    let part = part_called(&server, "The Night Scroller").await;
    let input = json!({ "id": part["id"], "status": "integrated" });
    let proposal = json!({ "tool": "updatePartAttributes", "input": input, "note": "It trusts you now." });
    output(&product, &server, "createProposal", proposal).await;
    let open = list(&server, "proposals?open=true").await;
    assert_eq!((open.len(), &open[0]["note"]), (1, &json!("It trusts you now.")));
    assert_eq!(part_called(&server, "The Night Scroller").await["data"]["status"], "acknowledged");
    let (status, decided) = act(&server, &format!("/v1/proposals/{}/confirm", id(&open[0]))).await;
    assert_eq!((status, &decided["status"]), (200, &json!("confirmed")), "{decided}");
    assert_eq!(part_called(&server, "The Night Scroller").await["data"]["status"], "integrated");
}

#[tokio::test]
async fn a_proposal_is_reworded_and_withdrawn_and_then_has_another_status() {
    let (product, server) = with_sample().await;
    let input = json!({ "id": part_called(&server, "The Night Scroller").await["id"], "age": 17 });
    output(&product, &server, "createProposal", json!({ "tool": "updatePartAttributes", "input": input }))
        .await;
    let proposal = id(&list(&server, "proposals?open=true").await[0]);
    let path = format!("/v1/proposals/{proposal}");
    output(&product, &server, "updateProposal", json!({ "proposalId": proposal, "note": "Older, it says." }))
        .await;
    let (_, reworded) = server.get(&path).await;
    assert_eq!((&reworded["status"], &reworded["note"]), (&json!("open"), &json!("Older, it says.")));
    output(&product, &server, "updateProposal", json!({ "proposalId": proposal, "withdraw": true })).await;
    assert_eq!(server.get(&path).await.1["status"], "withdrawn");
    assert_eq!(act(&server, &format!("{path}/confirm")).await.0, 409, "it can no longer be confirmed");
}

#[tokio::test]
async fn notes_are_created_listed_and_read() {
    let (product, server) = empty().await;
    let note = json!({ "path": "practices.md", "content": "# Practices\n\n## Mornings\nBreathe.\n" });
    output(&product, &server, "createMarkdownFile", note.clone()).await;
    let again = does(&product, &server, "createMarkdownFile", note.clone()).await;
    assert_eq!(again["output"]["error"], "exists", "nothing is overwritten");
    let listed = output(&product, &server, "listMarkdown", json!({})).await.to_string();
    assert!(listed.contains("practices.md") && listed.contains("Mornings"), "{listed}");
    let read = output(&product, &server, "readMarkdown", json!({ "path": "practices.md" })).await;
    assert!(read.to_string().contains("## Mornings\\nBreathe."), "{read}");
}

#[tokio::test]
async fn one_section_of_a_note_is_written() {
    let (product, server) = empty().await;
    let file = product.path("files/overview.md");
    let text = "# Overview\n\n## Focus\n\nSleep.\n\n## Later\nKept.\n";
    let put = server.request(Method::PUT, &file).header("content-type", "text/markdown").body(text);
    assert_eq!(send(put).await.0, 200);
    let section =
        json!({ "path": "overview.md", "heading": "Focus", "content": "Deadlines.", "mode": "replace" });
    output(&product, &server, "writeMarkdownSection", section).await;
    let now = server.request(Method::GET, &file).send().await.unwrap().text().await.unwrap();
    assert_eq!(now, text.replace("Sleep.", "Deadlines."));
}

#[tokio::test]
async fn what_was_done_is_listed_for_the_model_and_undone_by_it() {
    let (product, server) = empty().await;
    output(&product, &server, "addEvidence", evidence("A secret.")).await;
    let listed =
        output(&product, &server, "listRecentActions", json!({ "tool": "addEvidence" })).await.to_string();
    let action = id(&list(&server, "actions?tool=addEvidence").await[0]);
    assert!(listed.contains(&action) && listed.contains("A secret."), "{listed}");
    output(&product, &server, "undoAction", json!({ "actionId": action })).await;
    assert!(list(&server, "records/evidence").await.is_empty(), "the record is gone");
    assert_eq!(server.get(&format!("/v1/actions/{action}")).await.1["undone"], true);
}
