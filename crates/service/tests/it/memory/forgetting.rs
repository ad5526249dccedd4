//! A forgotten memory is gone from everywhere a model looks, until it is restored.

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

        app.service.idle().await;
        forget(&app, &id).await;
        app.say("Tell me where my sister lives, please.").await;
        app.service.idle().await;
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
    app.service.idle().await;
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

const SAVING: &str = "tools = [\"memory\", \"undo\", \"documents\"]\n[memory]\ninject = \"snapshot\"\n";

/// A model that saves what it is told to, and looks for it or lists what was done when it is asked to.
fn saves(app: &TestApp, fact: &'static str) {
    app.upstream.program(move |request| {
        let messages = request["messages"].as_array().unwrap();
        let said = messages.iter().rev().find(|message| message["role"] == "user").unwrap().to_string();
        let answered = messages.last().unwrap()["role"] == "tool";
        if !answered && said.contains("Please save") {
            let arguments = json!({ "text": fact }).to_string();
            let thought = format!("I keep it: {fact}");
            return Reply::stream()
                .reasoning(&thought)
                .text(&thought)
                .call(ScriptedCall::new("save_memory", &arguments))
                .finish("tool_calls");
        }
        if !answered && said.contains("Please look") {
            let arguments = json!({ "query": "allergic nuts" }).to_string();
            return Reply::stream()
                .call(ScriptedCall::new("search_memories", &arguments))
                .finish("tool_calls");
        }
        if !answered && said.contains("Please list") {
            return Reply::stream().call(ScriptedCall::new("listRecentActions", "{}")).finish("tool_calls");
        }
        Reply::says("Done.")
    });
}

#[tokio::test]
async fn forgetting_reaches_calls_results_snapshots_prompts_and_the_list_of_actions() {
    // Longer than a line of a snapshot, with the telling words where it is cut.
    const FACT: &str = "Is allergic to macadamia nuts, and to nothing else at all that anybody has ever thought of in \
        all of these years of asking again and again at every table, whatever was on it, and also to pistachios";
    let app = start(SAVING).await;
    saves(&app, FACT);
    let first = app.say("Please save it.").await;
    let (thread, run) = (thread_of(&first), first[1].data["runId"].as_str().unwrap().to_owned());
    app.say("A thread with a snapshot of its own.").await;
    let snapshotted = thread_of(&app.say("Another one.").await);
    let id = memories(&app).await[0]["id"].as_str().unwrap().to_owned();
    let words = ["macadamia", "pistachios", "in all of these years"];
    let holds = |text: &str| words.iter().any(|word| text.contains(word));
    assert!(app.upstream.requests().iter().any(|request| holds(&request.body.to_string())));

    forget(&app, &id).await;
    let before = app.upstream.requests().len();
    for (thread, message) in [(&thread, "And now?"), (&thread, "Please list."), (&snapshotted, "And here?")] {
        say_in(&app, thread, message).await;
    }
    app.say("Please list what was done.").await;
    let sent = app.upstream.requests();
    assert!(sent.len() > before + 4);
    for request in &sent[before..] {
        assert!(!holds(&request.body.to_string()), "{}", request.body);
    }
    let hidden = app.get("/v1/apps/test/actions").await.body.to_string();
    assert!(!holds(&hidden) && hidden.contains("[forgotten]"), "{hidden}");
    let prompt = format!("/v1/runs/{run}/prompt");
    for step in [1, 2] {
        let shown = app.get(&format!("{prompt}?step={step}")).await.body.to_string();
        assert!(!holds(&shown), "{shown}");
    }

    let back = app.post(&format!("/v1/memories/{id}/restore"), &json!({})).await;
    assert_eq!(back.status, 200, "{back:?}");
    assert!(holds(&app.get("/v1/apps/test/actions").await.body.to_string()));
    assert!(holds(&app.get(&format!("{prompt}?step=2")).await.body.to_string()));
    say_in(&app, &thread, "And after all?").await;
    assert!(holds(&app.upstream.requests().last().unwrap().body.to_string()), "all of it is back");
}

#[tokio::test]
async fn a_purged_memory_stays_hidden_and_cannot_be_restored() {
    let app = start(SAVING).await;
    saves(&app, "Is allergic to macadamia nuts.");
    let thread = thread_of(&app.say("Please save it.").await);
    let id = memories(&app).await[0]["id"].as_str().unwrap().to_owned();
    app.say("Please look.").await;
    let looked = app.get("/v1/apps/test/actions?tool=search_memories").await.body["data"][0].clone();
    assert!(looked["output"].to_string().contains("macadamia"), "{looked}");
    assert!(!looked["input"].to_string().contains("macadamia"), "{looked}");
    let purge = || app.request(Method::DELETE, &format!("/v1/memories/{id}?purge=true"));
    for _ in 0..2 {
        let purged = app.send(purge().header("idempotency-key", "once")).await;
        assert_eq!(purged.status, 204, "{purged:?}");
    }
    assert_eq!(app.send(purge()).await.status, 404);
    assert_eq!(app.get(&format!("/v1/memories/{id}")).await.status, 404);
    assert_eq!(app.post(&format!("/v1/memories/{id}/restore"), &json!({})).await.status, 404);
    assert_eq!(app.get("/v1/apps/test/memories?status=all").await.body["data"], json!([]));

    let before = app.upstream.requests().len();
    say_in(&app, &thread, "And now?").await;
    for request in &app.upstream.requests()[before..] {
        let body = request.body.to_string();
        assert!(!body.contains("macadamia") && body.contains("[forgotten]"), "{body}");
    }
    let actions = app.get("/v1/apps/test/actions").await.body.to_string();
    assert!(!actions.contains("macadamia"), "{actions}");
    let erased = "SELECT count(*) FROM actions WHERE tool = 'search_memories' AND input IS NULL";
    assert_eq!(app.count(erased), 1, "what came out of it, which its event holds, had the words");
    assert_eq!(app.service.verify_ledger(None).await.unwrap().faults, Vec::<String>::new());
}
