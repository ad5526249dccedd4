//! The memory model in the background: when it works, what it sees, and what becomes of what it finds.

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply};

use super::{
    change, finds, is_memory_model, is_naming, known, label, memory, object, plays, refers, remember,
    requests, text, thread_of, told, tutor, update,
};
use crate::process::within;
use crate::product::{of, status};

fn fine(_: &Value) -> Reply {
    Reply::says(&object(&[], "Fine."))
}

#[tokio::test]
async fn a_message_is_looked_at_whatever_becomes_of_its_answer() {
    let (product, server) = tutor().await;
    let gate = Gate::new();
    let held = gate.clone();
    plays(
        &product,
        move |_| Reply::stream().wait(&held).text(&object(&[], "Fine.")),
        |_| finds(&[change("create", &[], Some("Understands halves."), "I understand halves")]),
    );
    let frames = product.ask(&server, json!({ "message": "I understand halves now." })).await;
    let (run, thread) = (frames.header("x-run-id"), frames.header("x-thread-id"));
    within("the tutor's model", gate.reached()).await;
    assert_eq!(server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await.0, 202);
    assert_eq!(status(&frames.all().await), "cancelled");
    assert_eq!(update(&server, &thread).await["created"].as_array().unwrap().len(), 1);
    assert_eq!(known(&product, &server, "active").await, ["Understands halves."]);
}

#[tokio::test]
async fn no_answer_waits_for_the_memory_model() {
    let (product, server) = tutor().await;
    let gate = Gate::new();
    let held = gate.clone();
    plays(&product, fine, move |_| {
        let found = change("create", &[], Some("Understands halves."), "I understand halves");
        Reply::stream().wait(&held).text(&json!({ "changes": [found] }).to_string())
    });
    let thread = thread_of(&product.say(&server, "I understand halves now.").await);
    within("the memory model", gate.reached()).await;
    let again =
        product.ask(&server, json!({ "message": "And quarters?", "threadId": thread })).await.all().await;
    assert_eq!((text(&again).as_str(), status(&again)), ("Fine.", "completed"));
    assert_eq!(known(&product, &server, "active").await, Vec::<String>::new(), "it is still at work");
    gate.open();
    assert_eq!(update(&server, &thread).await["created"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_memory_model_sees_the_conversation_and_what_is_known() {
    let (product, server) = tutor().await;
    remember(&product, &server, "Struggles with thirds.").await;
    plays(&product, fine, |_| {
        finds(&[change("create", &[], Some("Understands halves."), "I understand halves")])
    });
    let thread = thread_of(&product.say(&server, "I understand halves now.").await);
    update(&server, &thread).await;
    let seen = &requests(&product, is_memory_model)[0];
    assert!(told(seen).contains("\"I understand halves now.\""), "{}", told(seen));
    assert!(told(seen).contains("\"Struggles with thirds.\""), "{}", told(seen));
    let prompt = std::fs::read_to_string(product.world.path("apps").join("tutor/extract.md")).unwrap();
    assert_eq!(
        seen["messages"][0]["content"].as_str().unwrap().trim(),
        prompt.trim(),
        "its instructions are its own"
    );
    assert!(seen.get("tools").is_none(), "and it has no tools");
}

#[tokio::test]
async fn the_memory_model_sees_the_lesson_plans() {
    let (product, server) = tutor().await;
    let plan = json!({ "subject": "Fractions", "goal": "Add thirds and sixths.", "steps": ["Fold", "Add"] });
    assert_eq!(server.post(&product.path("records/lesson_plan"), &plan).await.0, 201);
    plays(&product, fine, |_| {
        finds(&[change("create", &[], Some("Understands halves."), "I understand halves")])
    });
    let thread = thread_of(&product.say(&server, "I understand halves now.").await);
    update(&server, &thread).await;
    let seen = &requests(&product, is_memory_model)[0];
    assert!(told(seen).contains("Add thirds and sixths."), "{}", told(seen));
}

#[tokio::test]
async fn every_call_of_a_model_streams_those_in_the_background_too() {
    let (product, server) = tutor().await;
    plays(&product, fine, |_| {
        finds(&[change("create", &[], Some("Understands halves."), "I understand halves")])
    });
    let thread = thread_of(&product.say(&server, "I understand halves now.").await);
    update(&server, &thread).await;
    let mut channel = server.follow(&format!("/v1/threads/{thread}/events"), 0).await;
    within("the name", channel.read_until("thread:named")).await;
    assert_eq!((requests(&product, is_memory_model).len(), requests(&product, is_naming).len()), (1, 1));
    assert_eq!(requests(&product, |body| body["stream"] != json!(true)), Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_new_becomes_a_memory_with_the_learners_words() {
    let (product, server) = tutor().await;
    plays(&product, fine, |_| {
        finds(&[
            change("create", &[], Some("Understands halves."), "I understand halves"),
            change("create", &[], Some("Is a genius."), "I am a genius"),
        ])
    });
    let thread = thread_of(&product.say(&server, "I understand halves now.").await);
    let update = update(&server, &thread).await;
    assert_eq!(
        known(&product, &server, "active").await,
        ["Understands halves."],
        "and nothing that was not said"
    );
    let made = memory(&server, update["created"][0].as_str().unwrap()).await;
    assert_eq!((&made["text"], &made["kind"]), (&json!("Understands halves."), &json!("level")));
    assert_eq!(
        (&made["source"]["by"], &made["source"]["words"]),
        (&json!("extracted"), &json!("I understand halves"))
    );
}

#[tokio::test]
async fn what_is_otherwise_now_is_updated() {
    let (product, server) = tutor().await;
    let id = remember(&product, &server, "Struggles with thirds.").await;
    plays(&product, fine, |body| {
        let labels = [label(body, "Struggles with thirds.")];
        finds(&[change("update", &labels, Some("Understands thirds."), "thirds are easy now")])
    });
    let thread = thread_of(&product.say(&server, "You know, thirds are easy now.").await);
    assert_eq!(update(&server, &thread).await, json!({ "updated": [id] }));
    assert_eq!(known(&product, &server, "active").await, ["Understands thirds."]);
    let (_, history) = server.get(&format!("/v1/memories/{id}/history")).await;
    assert_eq!(history["versions"][0]["text"], "Struggles with thirds.", "what was so stays on record");
}

#[tokio::test]
async fn what_belongs_together_becomes_one() {
    let (product, server) = tutor().await;
    let chess = remember(&product, &server, "Likes chess.").await;
    let club = remember(&product, &server, "Plays on Thursdays.").await;
    plays(&product, fine, |body| {
        let labels = [label(body, "Likes chess."), label(body, "Plays on Thursdays.")];
        finds(&[change("merge", &labels, Some("Likes chess and plays on Thursdays."), "chess on Thursdays")])
    });
    let thread = thread_of(&product.say(&server, "I play chess on Thursdays.").await);
    assert_eq!(update(&server, &thread).await, json!({ "updated": [chess], "merged": [club] }));
    assert_eq!(known(&product, &server, "active").await, ["Likes chess and plays on Thursdays."]);
    assert_eq!(known(&product, &server, "superseded").await, ["Plays on Thursdays."]);
    assert_eq!(memory(&server, &club).await["supersededBy"], json!(chess));
}

#[tokio::test]
async fn what_is_so_no_more_is_removed_and_can_be_brought_back() {
    let (product, server) = tutor().await;
    let id = remember(&product, &server, "Likes trains.").await;
    plays(&product, fine, |body| {
        finds(&[change("remove", &[label(body, "Likes trains.")], None, "I never liked trains")])
    });
    let thread = thread_of(&product.say(&server, "By the way, I never liked trains.").await);
    assert_eq!(update(&server, &thread).await, json!({ "removed": [id] }));
    assert_eq!(known(&product, &server, "active").await, Vec::<String>::new());
    assert_eq!(known(&product, &server, "removed").await, ["Likes trains."], "it is marked, not deleted");
    let (code, back) = server.post(&format!("/v1/memories/{id}/restore"), &json!({})).await;
    assert_eq!((code, &back["status"]), (200, &json!("active")));
}

#[tokio::test]
async fn every_client_of_the_thread_is_told_what_has_changed() {
    let (product, server) = tutor().await;
    plays(&product, fine, |_| {
        finds(&[change("create", &[], Some("Understands halves."), "I understand halves")])
    });
    let frames = product.say(&server, "I understand halves now.").await;
    assert!(
        of(&frames, "memory:update").is_empty(),
        "the run's own stream has ended by then, or leaves it out"
    );
    let thread = thread_of(&frames);
    let (first, second) = (update(&server, &thread).await, update(&server, &thread).await);
    assert_eq!(first, second);
    let id = first["created"][0].as_str().unwrap();
    assert_eq!(memory(&server, id).await["text"], "Understands halves.", "and by then it is there");
    refers(&product, &[id]);
    let next = product.say(&server, "Hello again.").await;
    assert_eq!(
        of(&next, "stream:complete")[0]["memoriesReferenced"],
        json!([id]),
        "in the next lesson it is used"
    );
}

#[tokio::test]
async fn memories_are_looked_for_while_the_answer_is_still_being_written() {
    let (product, server) = tutor().await;
    let gate = Gate::new();
    let held = gate.clone();
    plays(
        &product,
        move |_| Reply::stream().wait(&held).text(&object(&[], "Fine.")),
        |_| finds(&[change("create", &[], Some("Understands halves."), "I understand halves")]),
    );
    let frames = product.ask(&server, json!({ "message": "I understand halves now." })).await;
    let update = update(&server, &frames.header("x-thread-id")).await;
    assert_eq!(update["created"].as_array().unwrap().len(), 1, "{update}");
    assert_eq!(known(&product, &server, "active").await, ["Understands halves."]);
    gate.open();
    assert_eq!(status(&frames.all().await), "completed");
}
