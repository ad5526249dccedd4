//! The memory model in the background: what it sees, what of its answer is kept, how much.

use model::{Capabilities, ProviderKind};

use super::*;

const VEGAN: &str = r#"[{"action": "create", "ids": [], "text": "The user is vegan", "kind": "preference",
    "message": "u1", "quote": "I am vegan"}]"#;

async fn update_of(app: &TestApp, thread: &str) -> Value {
    let mut channel = app.follow(&format!("/v1/threads/{thread}/events"), None).await;
    channel.read_until("memory:update").await.pop().unwrap().data
}

#[tokio::test]
async fn a_fact_with_the_users_words_becomes_a_memory() {
    let app = start(EXTRACTING).await;
    extracts(&app, VEGAN);
    let thread = thread_of(&app.say("By the way, I am vegan these days.").await);
    let update = update_of(&app, &thread).await;
    app.service.idle().await;
    let memory = &memories(&app).await[0];
    assert_eq!(update["created"], json!([memory["id"]]));
    assert_eq!((&memory["text"], &memory["kind"]), (&json!("The user is vegan"), &json!("preference")));
    let history = app.get(&format!("/v1/memories/{}/history", memory["id"].as_str().unwrap())).await.body;
    assert_eq!(history["sources"][0]["words"], "I am vegan", "why it is known: {history}");
    assert_eq!(history["sources"][0]["threadId"], json!(thread));
    let seen = app.upstream.requests().into_iter().find(|request| is_extraction(&request.body)).unwrap();
    // Whether the answer is there already is a matter of luck.
    let shown: Vec<String> =
        last(&seen).lines().filter(|line| !line.starts_with("assistant")).map(Into::into).collect();
    insta::assert_snapshot!("what_the_memory_model_sees", shown.join("\n"));
}

#[tokio::test]
async fn what_the_user_did_not_say_is_not_kept() {
    let app = start(EXTRACTING).await;
    extracts(
        &app,
        r#"[{"action": "create", "ids": [], "text": "The user is rich", "kind": "fact", "message": "u1", "quote": "I am rich"},
            {"action": "create", "ids": [], "text": "The assistant is fine", "kind": "fact", "message": "a1", "quote": "Fine."}]"#,
    );
    app.say("By the way, I am vegan these days.").await;
    app.service.idle().await;
    assert_eq!(memories(&app).await.len(), 0);
    assert_eq!(app.count("SELECT count(*) FROM events WHERE kind = 'memory:update'"), 0);
}

#[tokio::test]
async fn several_messages_are_one_call() {
    let app = start("[memory]\ninject = \"all\"\nextract = true\nextract_delay_seconds = 3600\n").await;
    extracts(&app, "[]");
    let thread = thread_of(&app.say("I live in Oslo.").await);
    say_in(&app, &thread, "I have a dog.").await;
    app.database().execute("UPDATE jobs SET run_at = 0 WHERE kind = 'extract_memories'", []).unwrap();
    app.say("Good morning").await; // makes the worker look
    app.service.idle().await;
    let asked: Vec<_> = app.upstream.requests().into_iter().filter(|r| is_extraction(&r.body)).collect();
    assert_eq!(asked.len(), 1, "two jobs, and nothing left for the second");
    assert!(last(&asked[0]).contains("Oslo") && last(&asked[0]).contains("dog"), "{}", last(&asked[0]));
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE kind = 'extract_memories' AND status = 'done'"), 2);
}

#[tokio::test]
async fn what_a_model_cannot_take_is_cut_and_what_it_refuses_stands_in_nobodys_way() {
    let capabilities = Capabilities { context_window: 8_192, ..Capabilities::of_kind(ProviderKind::Cloud) };
    let app = TestApp::with(Setup { capabilities, ..Setup::app(EXTRACTING) }).await;
    extracts(&app, "[]");
    app.say(&"I like long stories. ".repeat(600)).await;
    app.service.idle().await;
    let asked = app.upstream.requests().into_iter().find(|request| is_extraction(&request.body)).unwrap();
    assert!(last(&asked).len() < 8_192 * 3, "{} bytes", last(&asked).len());

    app.upstream
        .program(|request| if is_extraction(request) { Reply::status(400) } else { Reply::says("Fine.") });
    let thread = thread_of(&app.say("I live in Oslo.").await);
    app.service.idle().await;
    app.database().execute("UPDATE jobs SET run_at = 0 WHERE status = 'ready'", []).unwrap();
    app.say("Hello").await; // makes the worker look
    app.service.idle().await;
    let looked_at = format!(
        "SELECT count(*) FROM threads WHERE extracted > 0 AND lower(hex(id)) = '{}'",
        thread.strip_prefix("thr_").unwrap()
    );
    assert_eq!(app.count(&looked_at), 1, "the second refusal is the last");
}

#[tokio::test]
async fn no_message_is_looked_at_twice() {
    let app = start(EXTRACTING).await;
    extracts(&app, "[]");
    let thread = thread_of(&app.say("I live in Oslo.").await);
    app.service.idle().await;
    say_in(&app, &thread, "I moved to Rome.").await;
    app.service.idle().await;
    let asked: Vec<_> = app.upstream.requests().into_iter().filter(|r| is_extraction(&r.body)).collect();
    assert_eq!(asked.len(), 2);
    let asked = last(&asked[1]);
    let (before, now) = asked.split_once("The conversation, oldest first").unwrap();
    assert!(!now.contains("I live in Oslo"), "that was looked at before: {now}");
    assert!(
        before.contains("not citable") && before.contains("I live in Oslo"),
        "it helps to understand: {before}"
    );
}

#[tokio::test]
async fn a_contradiction_takes_the_place_of_what_was_so() {
    let app = start(EXTRACTING).await;
    let oslo = add(&app, "The user lives in Oslo").await;
    extracts(
        &app,
        r#"[{"action": "update", "ids": ["m1"], "text": "The user lives in Rome", "kind": "fact",
             "message": "u1", "quote": "I moved to Rome"}]"#,
    );
    app.say("I moved to Rome last week.").await;
    app.service.idle().await;
    assert_eq!(known(&app).await, ["The user lives in Rome"]);
    let history = app.get(&format!("/v1/memories/{oslo}/history")).await.body;
    assert_eq!(history["versions"][0]["text"], "The user lives in Oslo");
    assert!(!history["versions"][0]["validUntil"].is_null(), "it was so until now: {history}");
}

#[tokio::test]
async fn over_the_limit_the_least_used_expire_and_are_not_deleted() {
    let app = start(&format!("answer = \"structured\"\n{EXTRACTING}")).await;
    let mut ids = Vec::new();
    for text in ["likes maps", "has two sons", "plays chess"] {
        ids.push(add(&app, text).await);
    }
    let used = [ids[0].clone(), ids[2].clone()];
    let answered = testkit::upstream::Gate::new();
    let held = answered.clone();
    app.upstream.program(move |request| {
        if is_extraction(request) {
            return Reply::stream().wait(&held).text(&format!(r#"{{"changes": {VEGAN}}}"#));
        }
        Reply::says(&json!({ "memoriesReferenced": used, "response": "I see." }).to_string())
    });
    app.say("I am vegan now. What do you know?").await;
    answered.open(); // what the answer used has been counted
    app.service.idle().await;
    let mut left = known(&app).await;
    left.sort();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(!left.contains(&"has two sons".to_owned()), "nobody had used it: {left:?}");
    let expired = app.get("/v1/apps/test/memories?status=expired").await.body;
    assert_eq!(expired["data"][0]["text"], "has two sons");
    let back = app.post(&format!("/v1/memories/{}/restore", ids[1]), &json!({})).await;
    assert_eq!((back.status, &back.body["status"]), (200, &json!("active")));
}

#[tokio::test]
async fn a_model_that_answers_nonsense_costs_two_calls_and_no_more() {
    let app = start(EXTRACTING).await;
    app.upstream.program(|request| Reply::says(if is_extraction(request) { "no idea" } else { "Fine." }));
    app.say("I am vegan.").await;
    app.service.idle().await;
    let failed =
        "SELECT count(*) FROM jobs WHERE kind = 'extract_memories' AND attempts = 1 AND status = 'ready'";
    assert_eq!(app.count(failed), 1, "it is tried again later");
    let due = "UPDATE jobs SET run_at = 0 WHERE kind = 'extract_memories'";
    app.database().execute(due, []).unwrap();
    app.say("Hello").await; // makes the worker look
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE kind = 'extract_memories' AND status = 'done'"), 1);
    assert_eq!(memories(&app).await.len(), 0);
}

#[tokio::test]
async fn a_request_to_remember_causes_no_extraction() {
    let app = start(EXTRACTING).await;
    extracts(&app, VEGAN);
    app.say("Remember that I am vegan.").await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE kind = 'extract_memories'"), 0);
    assert_eq!(app.upstream.requests().len(), 0);
}

#[tokio::test]
async fn the_apps_records_and_prompt_are_shown_to_the_memory_model() {
    let schema = r#"{"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"], "additionalProperties": false}"#;
    let files = vec![
        ("records/lesson_plan.json".to_owned(), schema.to_owned()),
        ("extract.md".to_owned(), "Look for how the learner learns.".to_owned()),
    ];
    let toml = "[memory]\ninject = \"all\"\nextract = true\nextract_delay_seconds = 0\nextract_context = [\"lesson_plan\"]";
    let app = TestApp::with(Setup { files, ..Setup::app(toml) }).await;
    extracts(&app, "[]");
    let made = app.post("/v1/apps/test/records/lesson_plan", &json!({ "topic": "fractions" })).await;
    assert_eq!(made.status, 201, "{made:?}");
    app.say("I learn best with pictures.").await;
    app.service.idle().await;
    let seen = app.upstream.requests().into_iter().find(|request| is_extraction(&request.body)).unwrap();
    let shown = texts(&seen);
    assert_eq!(shown[0], "Look for how the learner learns.");
    assert!(shown[1].contains("fractions") && shown[1].contains("not citable"), "{}", shown[1]);
}
