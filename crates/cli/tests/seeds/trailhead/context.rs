//! The context of the model: its instructions, the user, what happened before.

use reqwest::Method;
use serde_json::json;

use super::*;

/// Says something in a thread, and tells which thread it was.
async fn says(product: &Product, server: &Server, thread: Option<&str>, message: &str) -> String {
    let mut body = json!({ "message": message });
    if let Some(thread) = thread {
        body["threadId"] = json!(thread);
    }
    product.answer(server, body).await["threadId"].as_str().unwrap().to_owned()
}

async fn instructed() -> (Product, String) {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    says(&product, &server, None, "Hi").await;
    let body = asked(&product)[0].clone();
    assert_eq!(body["messages"][0]["role"], "system");
    (product, body["messages"][0]["content"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_instructions_teach_the_method() {
    let (_product, text) = instructed().await;
    for word in ["Internal Family Systems", "Managers", "Firefighters", "Exiles", "Self"] {
        assert!(text.contains(word), "{word} is not explained");
    }
}

#[tokio::test]
async fn the_instructions_ask_for_evidence_and_set_a_tone_that_is_not_clinical() {
    let (_product, text) = instructed().await;
    for word in ["Three distinct pieces of evidence", "createEmergingPart"] {
        assert!(text.contains(word), "evidence: {word}");
    }
    for word in ["warm", "not therapy", "do not diagnose", "emergency number"] {
        assert!(text.contains(word), "tone and boundaries: {word}");
    }
}

#[tokio::test]
async fn the_instructions_say_when_to_use_each_tool_and_what_to_do_when_one_fails() {
    let (product, text) = instructed().await;
    for tool in asked(&product)[0]["tools"].as_array().unwrap() {
        let name = tool["function"]["name"].as_str().unwrap();
        assert!(text.contains(&format!("`{name}`")), "{name} is not explained");
    }
    for error in ["invalid_arguments", "evidence_required", "not_found", "conflict", "denied"] {
        assert!(text.contains(&format!("`{error}`")), "nothing is said of {error}");
    }
}

#[tokio::test]
async fn the_model_knows_who_speaks_and_what_they_are_about() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    let me = json!({ "name": "Ana", "fields": { "pronouns": "she/her" } });
    assert_eq!(crate::product::send(&server, Method::PATCH, "/v1/me", &me).await.0, 200);
    let focus = json!({ "text": "Wants to sleep before deadlines.", "kind": "focus" });
    assert_eq!(server.post(&product.path("memories"), &focus).await.0, 201);
    says(&product, &server, None, "Hi").await;
    let prompt = prompt(&product);
    for known in ["Ana", "she/her", "Wants to sleep before deadlines."] {
        assert!(prompt.contains(known), "{known}: {prompt}");
    }
}

#[tokio::test]
async fn the_model_knows_the_parts_and_how_they_are_related() {
    let (product, server) = with_sample().await;
    plays(&product, |_, _| Reply::says("Hello."));
    says(&product, &server, None, "Hi").await;
    let prompt = prompt(&product);
    let child = id(&part_called(&server, "The Child Who Reads Aloud").await);
    for name in ["The Proofreader", "The Night Scroller", "The Child Who Reads Aloud"] {
        assert!(prompt.contains(name), "{name}: {prompt}");
    }
    assert!(prompt.contains(&format!("\"protects\":[\"{child}\"]")), "{prompt}");
    assert!(prompt.contains(&format!("\"relationships\":[{{\"partId\":\"{child}\"")), "{prompt}");
}

#[tokio::test]
async fn the_model_knows_what_was_changed_lately_and_the_last_conversations() {
    let (product, server) = empty().await;
    output(&product, &server, "addEvidence", evidence("Left work on time.")).await;
    let (made, thread) =
        server.post(&product.path("threads"), &json!({ "title": "Before the deadline" })).await;
    assert_eq!(made, 201);
    plays(&product, |_, _| Reply::says("Hello."));
    says(&product, &server, Some(&id(&thread)), "It is tight.").await;
    says(&product, &server, None, "Hi").await;
    let prompt = prompt(&product);
    for known in ["addEvidence", "Left work on time.", "\"Before the deadline\", 2 messages, 0 days ago"] {
        assert!(prompt.contains(known), "{known}: {prompt}");
    }
}

#[tokio::test]
async fn the_page_overview_says_who_the_user_is_and_what_they_work_on() {
    let (product, server) = empty().await;
    let page =
        "# Overview\n\n## Identity\nA cellist from Porto.\n\n## Current focus\nSleeping before deadlines.\n";
    output(&product, &server, "createMarkdownFile", json!({ "path": "overview.md", "content": page })).await;
    plays(&product, |_, _| Reply::says("Hello."));
    let thread = says(&product, &server, None, "Hi").await;
    for known in ["overview.md", "## Identity", "A cellist from Porto.", "Sleeping before deadlines."] {
        assert!(prompt(&product).contains(known), "{known}: {}", prompt(&product));
    }
    let removed = server.request(Method::DELETE, &product.path("files/overview.md"));
    assert!(send(removed).await.0 < 300);
    let gone = async {
        loop {
            says(&product, &server, Some(&thread), "And?").await;
            if !prompt(&product).contains("A cellist from Porto.") {
                break;
            }
        }
    };
    crate::process::within("the page to leave the snapshot", gone).await;
}

#[tokio::test]
async fn tools_write_the_page_a_memory_and_the_profile_and_all_of_it_is_undone() {
    let (product, server) = empty().await;
    output(&product, &server, "save_memory", json!({ "text": "Plays the cello.", "kind": "identity" })).await;
    let said = json!({ "name": "Ana", "fields": { "pronouns": "she/her" } });
    output(&product, &server, "update_profile", said).await;
    plays(&product, |_, _| Reply::says("Hello."));
    says(&product, &server, None, "Hi").await;
    for known in ["Plays the cello.", "Ana", "she/her"] {
        assert!(prompt(&product).contains(known), "{known}: {}", prompt(&product));
    }
    let (_, mine) = server.get(&format!("/v1/me?app={APP}")).await;
    assert_eq!((&mine["name"], &mine["fields"]["pronouns"]), (&json!("Ana"), &json!("she/her")), "{mine}");
    for action in list(&server, "actions?effect=reversible").await {
        assert_eq!(act(&server, &format!("/v1/actions/{}/undo", id(&action))).await.0, 200, "{action}");
    }
    says(&product, &server, None, "Hi").await;
    assert!(!prompt(&product).contains("she/her"), "{}", prompt(&product));
}

#[tokio::test]
async fn the_model_knows_how_and_when_the_user_comes_and_what_comes_up_again() {
    let (product, server) = with_sample().await;
    let part = id(&part_called(&server, "The Proofreader").await);
    for _ in 0..3 {
        output(&product, &server, "getPartDetails", json!({ "id": part })).await;
    }
    plays(&product, |_, _| Reply::says("Hello."));
    says(&product, &server, None, "Hi").await;
    let prompt = prompt(&product);
    for pattern in [
        "Session patterns:",
        "3 conversations, several a day; the last one 0 days ago",
        "Usual length: 2 messages",
        "Comes up again: \"The Proofreader\", in 3 of 3 conversations",
    ] {
        assert!(prompt.contains(pattern), "{pattern}: {prompt}");
    }
}

#[tokio::test]
async fn a_conversation_keeps_the_snapshot_it_began_with_and_the_next_has_a_new_one() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    let memories = product.path("memories");
    assert_eq!(server.post(&memories, &json!({ "text": "Has a cat." })).await.0, 201);
    let thread = says(&product, &server, None, "Hi").await;
    assert!(prompt(&product).contains("Has a cat."));
    assert_eq!(server.post(&memories, &json!({ "text": "Has a dog." })).await.0, 201);
    says(&product, &server, Some(&thread), "And?").await;
    assert!(prompt(&product).contains("Has a cat.") && !prompt(&product).contains("Has a dog."));
    says(&product, &server, None, "Hi").await;
    assert!(prompt(&product).contains("Has a dog."));
}

#[tokio::test]
async fn who_speaks_is_known_from_the_key_and_nobody_sees_another() {
    let product = Product::new(APP).await;
    let mut keys = Vec::new();
    for user in ["ada", "grace"] {
        let ended = product.run(&["keys", "add", user]).await;
        keys.push(
            ended.output.split_whitespace().find(|word| word.starts_with("rondo_")).unwrap().to_owned(),
        );
    }
    let server = product.serve().await;
    plays(&product, |_, _| Reply::says("Hello."));
    let part = json!({ "name": "The Planner", "status": "active" });
    let path = product.path("records/part");
    assert_eq!(send(server.request(Method::POST, &path).bearer_auth(&keys[0]).json(&part)).await.0, 201);
    let message = json!({ "message": "Hi", "stream": false });
    for (key, knows) in keys.iter().zip([true, false]) {
        let (status, _) =
            send(server.request(Method::POST, &product.path("runs")).bearer_auth(key).json(&message)).await;
        assert_eq!((status, prompt(&product).contains("The Planner")), (200, knows));
    }
    assert_eq!(server.post(&product.path("runs"), &message).await.0, 401, "and nobody without a key");
}

#[tokio::test]
async fn earlier_messages_of_the_conversation_are_in_the_prompt_in_their_order() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says(&format!("I hear you. {}", "Go on, and take your time. ".repeat(20))));
    let mut thread = None;
    for said in ["It began at school.", "Then came work.", "Then came the child.", "What was first?"] {
        thread = Some(says(&product, &server, thread.as_deref(), said).await);
    }
    let body = asked(&product).pop().unwrap();
    let spoken = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system");
    let roles: Vec<&str> = spoken.clone().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user", "assistant", "user"]);
    let texts: Vec<&str> =
        spoken.filter(|m| m["role"] == "user").map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["It began at school.", "Then came work.", "Then came the child.", "What was first?"]);
}

#[tokio::test]
async fn a_conversation_knows_how_far_it_has_come_when_an_answer_is_complete() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    let thread = says(&product, &server, None, "The deadline again").await;
    let path = format!("/v1/threads/{thread}");
    let mut channel = server.follow(&format!("{path}/events"), 0).await;
    let named = channel.read_until("thread:named").await.pop().unwrap();
    assert_eq!(named.data["title"], "What came up", "the model names it, as title.md asks");
    let (_, view) = server.get(&path).await;
    assert_eq!((&view["title"], &view["messageCount"]), (&json!("What came up"), &json!(2)), "{view}");
    assert!(
        view["activeRunId"].is_null() && view["updatedAt"].as_str() >= view["createdAt"].as_str(),
        "{view}"
    );
    let (_, page) = server.get(&format!("{path}/messages")).await;
    assert_eq!(view["headId"], page["data"][1]["id"], "the answer is its newest message");
}
