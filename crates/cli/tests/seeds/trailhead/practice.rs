//! Points that a certified therapist would look for, and the report of an undo.

use reqwest::Method;
use serde_json::json;
use testkit::web::{self, Web};

use super::*;

/// Returns the instructions of the model in a first conversation.
async fn instructions() -> String {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    product.say(&server, "Hi").await;
    asked(&product)[0]["messages"][0]["content"].as_str().unwrap().to_owned()
}

fn holds(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "nothing says {words:?}");
    }
}

#[tokio::test]
async fn a_part_that_wants_to_die_is_danger_and_nothing_of_it_is_recorded() {
    let text = instructions().await;
    holds(
        &text,
        &[
            "\"a part of me wants to die\"",
            "It is the same danger when it is said of a part",
            "record nothing: no evidence, no assessment, no note, no memory, no proposal",
            "whether they are safe right now",
        ],
    );
    for line in ["988", "116 123", "3114", "024", "13 11 14", "188"] {
        assert!(text.contains(&format!("| {line}")), "{line} is no line of a country");
    }
}

#[tokio::test]
async fn what_is_summarised_agrees_with_the_rule_for_danger() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says(&"I hear you, and I am here. ".repeat(150)));
    let mut thread = None;
    for number in 0..9 {
        let message = format!("{number}. {}", "It is tight before every deadline. ".repeat(60));
        let mut body = json!({ "message": message });
        if let Some(thread) = thread {
            body["threadId"] = thread;
        }
        thread = Some(product.answer(&server, body).await["threadId"].clone());
    }
    let summarises = |body: &Value| {
        body["messages"][0]["content"].to_string().contains("the notes that a companion keeps")
    };
    let told = crate::process::within("a summary", async {
        loop {
            if let Some(request) =
                product.upstream().requests().into_iter().find(|request| summarises(&request.body))
            {
                return request.body["messages"][0]["content"].as_str().unwrap().to_owned();
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    holds(
        &told,
        &["also of a part that wants to", "whether they said that they are safe", "not whom they called"],
    );
}

#[tokio::test]
async fn blended_parts_are_unblended_and_polarised_ones_are_both_heard() {
    let text = instructions().await;
    holds(
        &text,
        &["**Unblending.**", "how the user feels towards it", "**Polarised protectors.** Take no side"],
    );
}

#[tokio::test]
async fn exiles_and_burdens_are_left_to_a_therapist() {
    let text = instructions().await;
    holds(
        &text,
        &[
            "**Exiles are not worked with here.**",
            "never guide witnessing, retrieval or unburdening",
            "a therapist who is trained in IFS",
        ],
    );
}

#[tokio::test]
async fn the_user_is_told_what_is_recorded_and_how_a_part_is_assessed() {
    let (product, server) = with_sample().await;
    let text = instructions().await;
    holds(
        &text,
        &["The user knows what is written down.", "It is their number", "ask the user how much at ease"],
    );
    let part = part_called(&server, "The Night Scroller").await;
    let assessment =
        json!({ "partId": part["id"], "score": 5, "givenBy": "user", "rationale": "It waited." });
    output(&product, &server, "createPartAssessment", assessment.clone()).await;
    assert_eq!(record(&server, "assessment", "waited").await["data"], assessment);
}

#[tokio::test]
async fn a_relationship_has_a_type_and_parts_can_be_polarised() {
    let (product, server) = with_sample().await;
    let (one, other) =
        (part_called(&server, "The Proofreader").await, part_called(&server, "The Night Scroller").await);
    let polarised = json!({ "partId": other["id"], "type": "polarised_with" });
    assert_eq!(one["data"]["relationships"][1]["type"], "polarised_with", "the sample has two of them");
    let change = json!({ "id": one["id"], "relationships": [polarised] });
    output(&product, &server, "updatePartAttributes", change).await;
    assert_eq!(part_called(&server, "The Proofreader").await["data"]["relationships"], json!([polarised]));
    let untyped = json!({ "id": one["id"], "relationships": [{ "partId": other["id"] }] });
    assert_eq!(
        does(&product, &server, "updatePartAttributes", untyped).await["output"]["error"],
        "invalid_arguments"
    );
}

const NOTICE: &str = r#"
[tool.setReminder]
description = "Sets a reminder in the user's calendar."
effect = "idempotent"
parameters = { type = "object" }
[tool.setReminder.http]
method = "PUT"
url = "WEB/reminder"
[[tool.setReminder.flow]]
"#;

#[tokio::test]
async fn the_report_of_an_undo_names_everything_the_run_did() {
    let (product, web) = (Product::new(APP).await, Web::start().await);
    let app = product.world.path("apps").join(APP).join("app.toml");
    let declared = std::fs::read_to_string(&app).unwrap() + &NOTICE.replace("WEB", &web.url());
    std::fs::write(&app, declared).unwrap();
    product.world.write("rondo.toml", &format!("[egress]\nallow = [{:?}]", web.host()));
    web.on("PUT", "/reminder", [web::WebReply::json(&json!({ "set": true }))]);
    product.import_sample().await;
    let server = product.serve().await;
    let part = part_called(&server, "The Night Scroller").await;
    let input = json!({ "id": part["id"], "age": 17 });
    plays_calls(
        &product,
        &[
            ("addEvidence", evidence("Left work on time.")),
            ("setReminder", json!({})),
            (
                "createProposal",
                json!({ "tool": "updatePartAttributes", "input": input, "note": "Older, it says." }),
            ),
        ],
    );
    let frames = product.say(&server, "Please.").await;
    let run = of(&frames, "run:start")[0]["runId"].as_str().unwrap().to_owned();
    let (status, report) = act(&server, &format!("/v1/runs/{run}/undo")).await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(report["undone"].as_array().unwrap().len(), 1, "the evidence: {report}");
    let refused = &report["refused"][0];
    assert_eq!(
        (&refused["tool"], report["refused"].as_array().unwrap().len()),
        (&json!("setReminder"), 1),
        "{report}"
    );
    assert!(refused["reason"].as_str().unwrap().contains("external"), "{report}");
    let open = list(&server, "proposals?open=true").await;
    assert_eq!((&report["proposals"], open.len()), (&json!(open), 1), "{report}");
    let confirm = format!("/v1/proposals/{}/confirm", id(&open[0]));
    assert_eq!(act(&server, &confirm).await.0, 200);
    let (_, report) = act(&server, &format!("/v1/runs/{run}/undo")).await;
    let reasons = report["refused"].to_string();
    assert!(
        report["proposals"] == json!([])
            && reasons.contains("the user has confirmed the proposal since then"),
        "{report}"
    );
}

#[tokio::test]
async fn a_refused_message_of_a_chat_front_end_leaves_no_conversation_behind() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    for wrong in [
        json!({ "id": "chat-1", "messages": [] }),
        json!({ "id": "chat-1", "messages": [{ "id": "m1", "role": "user", "parts": [{ "type": "text", "text": " " }] }] }),
    ] {
        let (status, _) = send(server.request(Method::POST, "/api/chat").json(&wrong)).await;
        assert!((400..500).contains(&status), "{wrong} was taken: {status}");
    }
    let (_, threads) = server.get(&product.path("threads")).await;
    assert_eq!(threads["data"], json!([]));
    let message = json!({ "id": "m1", "role": "user", "parts": [{ "type": "text", "text": "Hello" }] });
    let right = json!({ "id": "chat-1", "messages": [message], "trigger": "submit-message" });
    let answer = server.request(Method::POST, "/api/chat").json(&right).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let (_, threads) = server.get(&product.path("threads")).await;
    assert_eq!(threads["data"].as_array().unwrap().len(), 1, "{threads}");
}
