//! "Remember that …": kept without a model, or kept and answered.

use super::*;

#[tokio::test]
async fn what_the_user_asks_to_remember_is_kept_without_a_model() {
    for app in [start(TOP).await, with_vectors(TOP).await] {
        let log = app.say("Please remember that my cat is called Miso.").await;
        assert_eq!(answer(&log), "I'll remember that: my cat is called Miso");
        assert_eq!(log.last().unwrap().data["status"], "completed");
        assert_eq!(app.upstream.requests().len(), 0, "nobody was asked");
        assert_eq!(app.count("SELECT count(*) FROM messages"), 2, "both are part of the conversation");
        let memory = &memories(&app).await[0];
        assert_eq!((&memory["text"], &memory["status"]), (&json!("my cat is called Miso"), &json!("active")));
        let loaded = log.iter().find(|frame| frame.event == "context:loaded").unwrap();
        assert_eq!(loaded.data["remembered"]["memoryId"], memory["id"]);
        let words = "SELECT count(*) FROM memory_sources WHERE words = 'my cat is called Miso' AND message IS NOT NULL";
        assert_eq!(app.count(words), 1, "it rests on what was said");

        let again = app.say("/remember my cat is called miso").await;
        assert!(answer(&again).starts_with("I already know that"), "{again:?}");
        assert_eq!(memories(&app).await.len(), 1, "and is kept once");
    }
}

#[tokio::test]
async fn a_request_with_a_question_is_kept_and_answered() {
    let app = start(TOP).await;
    app.upstream.script([Reply::says("Lentils.")]);
    let log = app.say("Note that I am vegan, so what should I cook?").await;
    assert_eq!(answer(&log), "Lentils.");
    assert_eq!(known(&app).await, ["I am vegan"]);
    assert!(last(&app.upstream.requests()[0]).contains("has just been saved to memory"));
}

#[tokio::test]
async fn questions_about_memory_are_for_the_model() {
    let app = start(TOP).await;
    app.upstream.script([Reply::says("Yes.")]);
    assert_eq!(answer(&app.say("Do you remember that my cat is called Miso?").await), "Yes.");
    assert_eq!(memories(&app).await.len(), 0);
}

#[tokio::test]
async fn a_secret_is_not_kept_and_not_repeated() {
    let app = start(TOP).await;
    let log = app.say("Remember that my card is 4111 1111 1111 1111").await;
    assert!(answer(&log).starts_with("I won't save that"), "{log:?}");
    assert_eq!(memories(&app).await.len(), 0);
    let loaded = log.iter().find(|frame| frame.event == "context:loaded").unwrap();
    assert!(!loaded.data.to_string().contains("4111"), "{loaded:?}");
}

#[tokio::test]
async fn the_command_alone_says_how_it_is_used() {
    let app = start(TOP).await;
    assert!(answer(&app.say("/remember").await).contains("/remember I am"), "it shows an example");
    assert_eq!(app.upstream.requests().len(), 0);
}

#[tokio::test]
async fn an_app_without_memory_asks_its_model() {
    let app = start("").await;
    app.upstream.script([Reply::says("Will do.")]);
    assert_eq!(answer(&app.say("Remember that my cat is called Miso.").await), "Will do.");
    assert_eq!(memories(&app).await.len(), 0);
}

#[tokio::test]
async fn a_restart_after_any_event_keeps_it_once() {
    // The note of what was loaded and the memory are one commit: cut before it there is neither, after it both.
    let app = start(TOP).await;
    let log = app.say("Remember that I moved to Oslo.").await;
    for cut in 1..log.len() {
        let app = start(TOP).await;
        let run = {
            let mut frames = app
                .stream("/v1/apps/test/runs", &json!({ "message": "Remember that I moved to Oslo." }))
                .await;
            for _ in 0..cut {
                frames.next().await;
            }
            frames.header("x-run-id")
        };
        let app = app.restart().await;
        let rest = app.follow(&format!("/v1/runs/{run}/events"), Some(0)).await.all().await;
        assert_eq!(answer(&rest), "I'll remember that: I moved to Oslo", "cut after {cut}");
        assert_eq!(known(&app).await, ["I moved to Oslo"], "cut after {cut}");
    }
}
