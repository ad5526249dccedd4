//! What is forgotten is gone from everywhere a model looks, until it is restored.

use super::*;

const SEARCHING: &str = "tools = [\"memory\"]\n[memory]\ninject = \"top\"\nhistory = true\nextract = true\nextract_delay_seconds = 0\n";

#[tokio::test]
async fn forgotten_words_reach_no_prompt_until_they_are_restored() {
    for vectors in [false, true] {
        let app = if vectors { with_vectors(SEARCHING).await } else { start(SEARCHING).await };
        // A model that repeats what it is told, in other words.
        app.upstream.program(|request| {
            let told = request["messages"].to_string().contains("Ingrid");
            match is_extraction(request) {
                true => Reply::says(r#"{"changes": []}"#),
                false if told => Reply::says("Sure! Tromso is where Ingrid, your sister, lives. Nice place."),
                false => Reply::says("I do not know."),
            }
        });
        app.say("Remember that my sister Ingrid lives in Tromso.").await;
        let id = memories(&app).await[0]["id"].as_str().unwrap().to_owned();
        app.say("Where does my sister live, and who is she?").await;
        let before = last(app.upstream.requests().iter().rev().find(|r| !is_extraction(&r.body)).unwrap());
        assert!(before.contains("Ingrid"), "{before}");

        app.engine.idle().await;
        forget(&app, &id).await;
        app.say("Tell me where my sister lives, please.").await;
        app.engine.idle().await;
        let found = app.get("/v1/apps/test/search?q=sister%20Ingrid%20Tromso").await.body;
        assert!(!found.to_string().contains("Ingrid"), "{found}");
        let after = app.upstream.requests().into_iter().skip(1).filter(|r| last(r).contains("Tell me where"));
        for request in after {
            assert!(!texts(&request).concat().contains("Ingrid"), "{request:?}");
        }
        assert_eq!(app.count("SELECT count(*) FROM vectors v JOIN memories m ON m.id = v.item"), 0);

        let back = app.post(&format!("/v1/memories/{id}/restore"), &json!({})).await;
        assert_eq!(back.status, 200, "{back:?}");
        app.say("Once more: where does my sister live?").await;
        let restored =
            last(app.upstream.requests().iter().rev().find(|r| last(r).contains("Once more")).unwrap());
        assert!(restored.contains("Ingrid"), "{restored}");
    }
}

#[tokio::test]
async fn a_deleted_thread_is_recalled_no_more() {
    let app = start(SEARCHING).await;
    extracts(&app, "[]");
    let thread = thread_of(&app.say("We spent August in a lighthouse near Bergen").await);
    let found = app.get("/v1/apps/test/search?q=lighthouse").await.body;
    assert!(found.to_string().contains("Bergen"), "{found}");
    app.engine.idle().await;
    app.send(app.request(Method::DELETE, &format!("/v1/threads/{thread}"))).await;
    let found = app.get("/v1/apps/test/search?q=lighthouse").await.body;
    assert_eq!(found["data"], json!([]));
}

#[tokio::test]
async fn the_same_conversation_goes_on_without_the_forgotten_words() {
    let app = start(SEARCHING).await;
    extracts(&app, "[]");
    let thread = thread_of(&app.say("Remember that my sister Ingrid lives in Tromso.").await);
    let id = memories(&app).await[0]["id"].as_str().unwrap().to_owned();
    forget(&app, &id).await;
    say_in(&app, &thread, "What were we talking about?").await;
    let request = app.upstream.requests().into_iter().find(|request| !is_extraction(&request.body)).unwrap();
    let sent = texts(&request).concat();
    assert!(!sent.contains("Ingrid") && sent.contains("[forgotten]"), "{sent}");
    let shown = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    assert!(shown.to_string().contains("Ingrid"), "the user still sees what was said");
}
