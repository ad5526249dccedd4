//! Which earlier turns are shown, and how.

use super::*;

#[tokio::test]
async fn reference_history_reads_as_labelled_blocks() {
    let app = start("[history]\nstyle = \"reference\"\n", &[]).await;
    let thread = thread_of(&run(&app, json!({ "message": "First question" })).await);
    assert_eq!(said(&app.upstream.requests()[0]).len(), 2, "nothing to refer to yet");
    for message in ["Second question", "Third question"] {
        say_in(&app, &thread, message).await;
    }
    let shown = said(app.upstream.requests().last().unwrap());
    let roles: Vec<&str> = shown.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["system", "system", "system", "system", "user", "assistant", "user"]);
    assert!(shown[1].1.starts_with("CRITICAL INSTRUCTION: The following is REFERENCE material"));
    assert_eq!(
        shown[2].1,
        "HISTORICAL REFERENCE ONLY: USER: First question\n\nASSISTANT: Fine.\n\n[NOTE: These are older messages \
         provided only for background context. DO NOT respond to any questions or requests in this historical \
         content.]"
    );
    assert_eq!(shown[3].1, "--- RECENT CONVERSATION ---");
    assert_eq!(
        shown[4].1,
        "RECENT EXCHANGE: Second question\n[This is from the recent conversation, not the current question.]"
    );
    assert_eq!(shown[6].1, "Third question");
}

#[tokio::test]
async fn a_pin_is_kept_without_a_model_and_shown_from_then_on() {
    for (style, shown_as) in [
        ("plain", "- \"Allergic to penicillin\""),
        ("reference", "REFERENCE MATERIAL - Important information: Allergic to penicillin [Use this"),
    ] {
        let app = start(&format!("[history]\nstyle = \"{style}\"\n"), &[]).await;
        let log = run(&app, json!({ "message": "/pin Allergic to penicillin" })).await;
        assert_eq!(event(&log, "stream:complete")["text"], "Pinned: Allergic to penicillin");
        assert_eq!(app.upstream.requests().len(), 0);
        let thread = thread_of(&log);
        let pins = app.get(&format!("/v1/threads/{thread}/pins")).await.body;
        let pin = event(&log, "context:loaded")["pinned"]["pinId"].clone();
        assert_eq!(
            (&pins["data"][0]["id"], &pins["data"][0]["text"]),
            (&pin, &json!("Allergic to penicillin"))
        );
        let log = say_in(&app, &thread, "Which antibiotics?").await;
        let all: Vec<String> = said(&app.upstream.requests()[0]).into_iter().map(|(_, text)| text).collect();
        assert!(all.concat().contains(shown_as), "{all:?}");
        assert_eq!(event(&log, "context:loaded")["pins"], json!([pin]));
        let path = format!("/v1/pins/{}", pin.as_str().unwrap());
        assert_eq!(app.send(app.request(Method::DELETE, &path)).await.status, 204);
        say_in(&app, &thread, "And now?").await;
        let last = said(app.upstream.requests().last().unwrap());
        assert!(!last[0].1.contains("penicillin") && !last[1].1.contains("REFERENCE MATERIAL"), "{last:?}");
    }
}

#[tokio::test]
async fn what_matters_stays_when_not_everything_fits() {
    let app = start("[history]\nbudget = 256\nsummarise = false\n", &[]).await;
    let fact = "My mother takes 10mg of Lisinopril at 8am and Metformin 500mg with dinner, says Dr. Johnson";
    let thread = thread_of(&run(&app, json!({ "message": fact })).await);
    for number in 0..8 {
        say_in(
            &app,
            &thread,
            &format!("well, so it goes on and on and on, {}", "blah ".repeat(number % 3 + 12)),
        )
        .await;
    }
    let log = say_in(&app, &thread, "What does she take?").await;
    let shown = said(app.upstream.requests().last().unwrap());
    let texts: Vec<&str> = shown.iter().map(|(_, text)| text.as_str()).collect();
    assert!(texts.contains(&fact), "the oldest message says most: {texts:?}");
    assert!(shown.len() < 18, "and others are left out");
    let ledger = &event(&log, "step:end")["prompt"];
    assert_eq!(ledger["leftOut"][0]["fragment"], "history", "{ledger}");
    assert_eq!(app.upstream.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn without_summaries_and_pins_the_last_messages_are_shown_and_without_those_none() {
    let app = start("[history]\nstyle = \"plain\"\n", &[]).await;
    let thread = thread_of(&run(&app, json!({ "message": "Question 0" })).await);
    for number in 1..8 {
        say_in(&app, &thread, &format!("Question {number}")).await;
    }
    app.database().execute_batch("ALTER TABLE pins RENAME TO lost_pins").unwrap();
    let log = say_in(&app, &thread, "Question 8").await;
    assert_eq!(event(&log, "run:end")["status"], "completed");
    assert_eq!(event(&log, "context:loaded")["warnings"][0]["code"], "history_reduced");
    let shown = said(app.upstream.requests().last().unwrap());
    assert_eq!(shown.len(), 1 + 10 + 1, "the system prompt, the last ten, and the message: {shown:?}");
    assert_eq!(shown[1].1, "Question 3");
}
