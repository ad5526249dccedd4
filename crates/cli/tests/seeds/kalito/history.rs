//! The conversation so far: labelled as background, summarised, pinned, bounded, and never in the way of an answer.

use reqwest::Method;
use serde_json::{Value, json};

use super::{answers, asked, kalito, say_in, told};
use crate::product::{Product, of, send};
use crate::world::Server;
use testkit::upstream::Reply;

/// A thread of `exchanges` exchanges. Each message holds its number and about `words` words.
async fn talk(product: &Product, server: &Server, exchanges: usize, words: usize) -> Value {
    let message = |number: usize| format!("Question {number}:{}", " garden".repeat(words));
    let thread = product.answer(server, json!({ "message": message(0) })).await["threadId"].clone();
    for number in 1..exchanges {
        say_in(product, server, &thread, &message(number)).await;
    }
    thread
}

async fn with_talk() -> (Product, Server, Value) {
    let product = kalito().await;
    let server = product.serve().await;
    let thread = talk(&product, &server, 3, 0).await;
    (product, server, thread)
}

#[tokio::test]
async fn older_messages_are_one_reference_behind_a_critical_instruction() {
    let (product, server, thread) = with_talk().await;
    say_in(&product, &server, &thread, "And now?").await;
    let told = told(&product);
    let roles: Vec<&str> = told.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["system", "system", "system", "system", "user", "assistant", "user"], "{told:?}");
    assert!(told[1].1.starts_with("CRITICAL INSTRUCTION: The following is REFERENCE material"), "{told:?}");
    let older = "HISTORICAL REFERENCE ONLY: USER: Question 0:\n\nASSISTANT: So it is.\n\nUSER: Question 1:";
    assert!(
        told[2].1.starts_with(older) && told[2].1.contains("DO NOT respond to any questions"),
        "{told:?}"
    );
    assert_eq!(told[3].1, "--- RECENT CONVERSATION ---");
}

#[tokio::test]
async fn the_last_two_messages_keep_their_roles_and_the_question_comes_once() {
    let (product, server, thread) = with_talk().await;
    say_in(&product, &server, &thread, "And now?").await;
    let told = told(&product);
    let recent = |text: &str| {
        format!("RECENT EXCHANGE: {text}\n[This is from the recent conversation, not the current question.]")
    };
    let last: Vec<(&str, String)> =
        told[4..].iter().map(|(role, text)| (role.as_str(), text.clone())).collect();
    let expected = [
        ("user", recent("Question 2:")),
        ("assistant", recent("So it is.")),
        ("user", "And now?".to_owned()),
    ];
    assert_eq!(last, expected);
    assert_eq!(told.iter().filter(|(_, text)| text.contains("And now?")).count(), 1);
}

#[tokio::test]
async fn a_conversation_begins_with_nothing_before_it_and_sees_no_other() {
    let (product, server, thread) = with_talk().await;
    let other = product.answer(&server, json!({ "message": "Hello" })).await;
    assert_eq!(told(&product).len(), 2, "the system prompt and the question");
    assert!(!told(&product)[0].1.contains("Question 0"));
    assert_ne!(other["threadId"], thread);
    say_in(&product, &server, &other["threadId"], "Hello again").await;
    let told = told(&product);
    assert!(told[2].1.starts_with("RECENT EXCHANGE: Hello\n") && told.len() == 5, "{told:?}");
}

#[tokio::test]
async fn pins_are_kept_without_a_model_and_come_as_reference_material() {
    let product = kalito().await;
    let server = product.serve().await;
    let pinned = product.answer(&server, json!({ "message": "/pin Allergic to penicillin" })).await;
    assert_eq!((pinned["tokenUsage"].clone(), asked(&product).len()), (Value::Null, 0), "{pinned}");
    let thread = &pinned["threadId"];
    let place = format!("/v1/threads/{}/pins", thread.as_str().unwrap());
    let (status, _) =
        send(&server, Method::POST, &place, &json!({ "text": "Takes 10mg Lisinopril at 8am" })).await;
    assert_eq!(status, 201);
    say_in(&product, &server, thread, "Hello").await;
    let expected = "REFERENCE MATERIAL - Important information: Allergic to penicillin; Takes 10mg Lisinopril at 8am \
                    [Use this information only if directly relevant to the current question.]";
    let told = told(&product);
    assert!(told.iter().any(|(role, text)| role == "system" && text == expected), "{told:?}");
}

#[tokio::test]
async fn older_stretches_are_summarised_by_a_model_and_come_in_short() {
    let product = kalito().await;
    let server = product.serve().await;
    let thread = talk(&product, &server, 12, 200).await;
    let id = thread.as_str().unwrap();
    server.follow(&format!("/v1/threads/{id}/events"), 0).await.read_until("summary").await;
    let (_, summaries) = server.get(&format!("/v1/threads/{id}/summaries")).await;
    assert_eq!(summaries["data"][0]["text"], "They spoke of the garden.", "{summaries}");
    say_in(&product, &server, &thread, "What did we say?").await;
    let told = told(&product);
    let short = "REFERENCE ONLY - Background context: They spoke of the garden.";
    let block =
        &told.iter().find(|(_, text)| text.starts_with(short)).unwrap_or_else(|| panic!("{told:?}")).1;
    assert!(block.ends_with(
        "Do not directly respond to any of these topics unless explicitly asked in the current question.]"
    ));
    let all: String = told.iter().map(|(_, text)| text.as_str()).collect();
    assert!(
        !all.contains("Question 0:") && all.contains("Question 11:"),
        "what it stands for is not shown again"
    );
}

#[tokio::test]
async fn a_conversation_of_a_hundred_messages_keeps_to_its_budget() {
    let product = kalito().await;
    let server = product.serve().await;
    let thread = talk(&product, &server, 50, 100).await;
    let answer = say_in(&product, &server, &thread, "What did we say?").await;
    let (_, prompt) = server.get(&format!("/v1/runs/{}/prompt", answer["runId"].as_str().unwrap())).await;
    let costs = prompt["ledger"]["fragments"].as_array().unwrap();
    let history = costs.iter().find(|cost| cost["fragment"] == "history").unwrap();
    assert!((300..=3000).contains(&history["tokens"].as_u64().unwrap()), "{history}");
    let all = asked(&product).last().unwrap().to_string();
    assert!(all.contains("Question 49:") && !all.contains("Question 0:"), "the newest are there");
}

#[tokio::test]
async fn a_message_beyond_the_budget_is_shown_shortened_with_its_answer() {
    let product = kalito().await;
    let server = product.serve().await;
    let long = format!("The plan of the clinic: {}", "walk and rest, ".repeat(4_000));
    let thread = product.answer(&server, json!({ "message": long })).await["threadId"].clone();
    let body = json!({ "message": "What did I send you?", "threadId": thread });
    let frames = product.ask(&server, body).await.all().await;
    let bytes = of(&frames, "context:loaded")[0]["historyBytes"].as_u64().unwrap();
    assert!((200..12_000).contains(&bytes), "{bytes}");
    let told = told(&product);
    let recent: Vec<&String> =
        told.iter().map(|(_, text)| text).filter(|text| text.starts_with("RECENT EXCHANGE")).collect();
    let (sent, answered) = (recent[0], recent[1]);
    assert!(sent.starts_with("RECENT EXCHANGE: The plan of the clinic: walk and rest, "), "{sent}");
    let (_, page) = server.get(&format!("/v1/threads/{}/messages", thread.as_str().unwrap())).await;
    let is_long =
        |message: &&Value| message["text"].as_str().is_some_and(|text| text.starts_with("The plan"));
    let id = page["data"].as_array().unwrap().iter().find(is_long).unwrap()["id"].as_str().unwrap();
    let handle = format!("the rest can be read with read_rest from {bytes} of {id}");
    assert!(sent.contains(&handle), "{handle}: {sent}");
    assert!(answered.starts_with("RECENT EXCHANGE: So it is."), "{answered}");
}

#[tokio::test]
async fn a_pin_that_could_never_be_shown_is_refused() {
    let product = kalito().await;
    let server = product.serve().await;
    let long = "calm ".repeat(620);
    let (status, problem) = server.post(&product.path("pins"), &json!({ "text": long })).await;
    assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!("text")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("is too long"), "{problem}");
    let answer = product.answer(&server, json!({ "message": format!("/pin {long}") })).await;
    assert_eq!(answer["reply"], "That is too long to pin. Pin the part that matters.");
    let place = format!("/v1/threads/{}/pins", answer["threadId"].as_str().unwrap());
    assert_eq!(server.get(&place).await.1["data"], json!([]));
}

#[tokio::test]
async fn an_answer_comes_even_if_summaries_and_pins_cannot_be_read() {
    let product = kalito().await;
    let server = product.serve().await;
    let thread = talk(&product, &server, 8, 0).await;
    let database = testkit::sql::Connection::open(product.world.path("data").join("rondo.db")).unwrap();
    database.execute_batch("ALTER TABLE pins RENAME TO lost_pins").unwrap();
    let body = json!({ "message": "And now?", "threadId": thread });
    let frames = product.ask(&server, body).await.all().await;
    assert_eq!(of(&frames, "stream:complete")[0]["text"], "So it is.");
    assert_eq!(of(&frames, "context:loaded")[0]["warnings"][0]["code"], "history_reduced");
    let all = asked(&product).last().unwrap().to_string();
    assert!(!all.contains("Question 2:") && all.contains("Question 3:"), "the last ten: {all}");
    assert!(all.contains("RECENT EXCHANGE: Question 7:"), "{all}");
}

#[tokio::test]
async fn conversations_are_listed_with_the_newest_first_and_named_by_the_model() {
    let product = kalito().await;
    answers(&product, |_| Reply::says("So it is."));
    let server = product.serve().await;
    let first =
        product.answer(&server, json!({ "message": "When are her pills due?" })).await["threadId"].clone();
    let second = product.answer(&server, json!({ "message": "Hello" })).await["threadId"].clone();
    for thread in [&first, &second] {
        let channel = format!("/v1/threads/{}/events", thread.as_str().unwrap());
        server.follow(&channel, 0).await.read_until("thread:named").await;
    }
    let (_, listed) = server.get(&product.path("threads")).await;
    let threads = listed["data"].as_array().unwrap();
    assert_eq!((&threads[0]["id"], &threads[1]["id"], threads.len()), (&second, &first, 2));
    for thread in threads {
        assert_eq!(thread["title"], "Evening medications");
        let created = thread["createdAt"].as_str().unwrap();
        assert!(created.ends_with('Z') && created.get(10..11) == Some("T"), "{created}");
    }
    say_in(&product, &server, &first, "And tomorrow?").await;
    let (_, listed) = server.get(&product.path("threads")).await;
    assert_eq!(listed["data"][0]["id"], first, "the one used last");
}

#[tokio::test]
async fn a_stored_message_of_an_unknown_role_is_left_out_and_logged() {
    let (product, server, thread) = with_talk().await;
    let database = testkit::sql::Connection::open(product.world.path("data").join("rondo.db")).unwrap();
    // No release has written such a message, and the database takes none: a person has changed the file.
    let guards = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'messages'";
    let names: Vec<String> = database
        .prepare(guards)
        .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect())
        .unwrap();
    for name in names {
        database.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    database.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
    let changed = database
        .execute("UPDATE messages SET role = 'narrator' WHERE seq = (SELECT min(seq) FROM messages)", []);
    assert_eq!(changed.unwrap(), 1);
    say_in(&product, &server, &thread, "And now?").await;
    let told: String = told(&product).into_iter().map(|(_, text)| text).collect();
    assert!(!told.contains("Question 0:") && told.contains("Question 1:"), "{told}");
    let warning = server.process.errors.line("unknown role").await;
    assert!(warning.contains("narrator") && warning.contains(thread.as_str().unwrap()), "{warning}");
}
