//! The past in a prompt, and where it stands.

use super::*;

/// A look goes on behind those it has seen, however many there are.
#[tokio::test]
async fn after_a_change_of_the_model_everybodys_vectors_are_made() {
    let app = with_vectors(TOP).await;
    add(&app, "likes green tea").await;
    app.service.idle().await;
    app.database()
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
             INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
                 SELECT unhex(printf('%032x', 1000000 + i)), app, printf('user%04d', i), text, kind, status, source, 0, 0
                     FROM memories, n;
             INSERT INTO items (app, user, kind, id)
                 SELECT app, user, 'memory', id FROM memories WHERE user LIKE 'user%';",
        )
        .unwrap();
    let app = app.restart().await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM vectors WHERE user LIKE 'user%'"), 1_100);
}

#[tokio::test]
async fn the_nearest_memories_stand_before_the_message_with_their_ids() {
    for app in [start(TOP).await, with_vectors(TOP).await] {
        app.upstream.program(|_| Reply::says("Fish."));
        let cat = add(&app, "The user's cat is called Miso and eats salmon").await;
        for number in 0..20 {
            add(&app, &format!("The user once rented house number {number} on a hill")).await;
        }
        app.service.idle().await;
        let log = app.say("What does my cat eat?").await;
        let sent = last(&app.upstream.requests()[0]);
        assert!(sent.starts_with("Relevant context about the user"), "{sent}");
        assert!(sent.ends_with(">\n\nWhat does my cat eat?"), "{sent}");
        assert!((1..=5).contains(&sent.matches("- mem_").count()), "five at most: {sent}");
        let first = sent.lines().nth(2).unwrap();
        assert!(first.starts_with(&format!("- {cat}: ")), "the best comes first: {first}");
        let loaded = log.iter().find(|frame| frame.event == "context:loaded").unwrap();
        assert_eq!(loaded.data["memories"][0], json!(cat));
    }
}

#[tokio::test]
async fn what_comes_before_the_newest_message_stays_the_same_from_turn_to_turn() {
    let app = start(TOP).await;
    app.upstream.program(|_| Reply::says("I see."));
    add(&app, "likes green tea").await;
    add(&app, "plays the cello").await;
    let thread = thread_of(&app.say("Which tea do I like?").await);
    say_in(&app, &thread, "And which instrument do I play, the cello?").await;
    let requests = app.upstream.requests();
    let (first, second) = (texts(&requests[0]), texts(&requests[1]));
    assert_eq!(first[0], second[0], "the system prompt");
    assert_eq!(second[1], "Which tea do I like?", "what was recalled for an earlier message is gone with it");
    assert_eq!((first.len(), second.len()), (2, 4));
}

#[tokio::test]
async fn earlier_conversations_are_recalled_and_this_one_is_not() {
    let app = start(TOP).await;
    app.upstream.program(|_| Reply::says("Noted."));
    app.say("We spent August in a lighthouse near Bergen").await;
    let thread = thread_of(&app.say("Good evening").await);
    say_in(&app, &thread, "Where was the lighthouse we spent August in?").await;
    let requests = app.upstream.requests();
    let sent = last(&requests[2]);
    assert!(sent.contains("From earlier conversations") && sent.contains("lighthouse near Bergen"), "{sent}");
    assert!(!sent.contains("Good evening"), "{sent}");
}

#[tokio::test]
async fn what_is_recalled_keeps_to_its_budget() {
    let app = start("[memory]\ninject = \"top\"\nrecall_tokens = 50\n").await;
    app.upstream.program(|_| Reply::says("Yes."));
    for number in 0..5 {
        add(&app, &format!("boat number {number} {}", "is painted blue and red ".repeat(4))).await;
    }
    app.say("Which boat is painted blue?").await;
    let sent = last(&app.upstream.requests()[0]);
    assert_eq!(sent.matches("- mem_").count(), 1, "{sent}");
}

#[tokio::test]
async fn the_off_switch_turns_everything_off_and_deletes_nothing() {
    let app = start(&format!("tools = [\"memory\"]\n{EXTRACTING}")).await;
    app.upstream.program(|request| {
        assert!(!is_extraction(request), "nothing is looked for");
        Reply::says("Hello.")
    });
    add(&app, "likes green tea").await;
    let off = app
        .send(app.request(Method::PUT, "/v1/apps/test/memories/settings").json(&json!({"enabled": false})));
    assert_eq!(off.await.status, 200);
    app.say("Which tea do I like? Remember that I hate coffee.").await;
    app.service.idle().await;
    let requests = app.upstream.requests();
    assert!(!texts(&requests[0]).concat().contains("green tea"));
    assert_eq!(known(&app).await, ["likes green tea"]);
}

#[tokio::test]
async fn a_new_embedding_model_takes_over_while_words_go_on_finding() {
    let app = with_vectors(TOP).await;
    app.upstream.program(|_| Reply::says("Tea."));
    add(&app, "likes green tea").await;
    app.say("Which tea do I like?").await;
    app.service.idle().await;
    let vectors = "SELECT count(*) FROM vectors WHERE model = 'words'";
    assert!(app.count(vectors) >= 2, "the memory and what was said");
    let app =
        app.restart_with(|setup| setup.embedder = Some(std::sync::Arc::new(WordVectors("others")))).await;
    app.say("Which green tea was it that I like?").await;
    let sent = last(app.upstream.requests().last().unwrap());
    assert!(sent.contains("likes green tea"), "{sent}");
    app.service.idle().await;
    assert_eq!(
        app.count("SELECT count(*) FROM vectors WHERE model = 'others'"),
        app.count("SELECT count(*) FROM items WHERE kind IN ('memory', 'message')"),
        "everything has its vector of the new model"
    );
}
