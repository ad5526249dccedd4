//! A snapshot: what was known when the thread began, and for as long as it goes on.

use super::*;

const SNAPSHOT: &str = "[memory]\ninject = \"snapshot\"\nsnapshot = [\"part\"]\n";

async fn with_parts() -> TestApp {
    let schema = r#"{"type": "object", "properties": {"name": {"type": "string"}, "status": {"type": "string"}},
        "required": ["name"], "additionalProperties": false}"#;
    let files = vec![("records/part.json".to_owned(), schema.to_owned())];
    TestApp::with(Setup { files, ..Setup::app(SNAPSHOT) }).await
}

fn system(app: &TestApp, index: usize) -> String {
    texts(&app.upstream.requests()[index])[0].clone()
}

#[tokio::test]
async fn a_thread_keeps_its_snapshot_byte_for_byte_but_for_what_is_forgotten() {
    let app = with_parts().await;
    app.upstream.program(|_| Reply::says("Welcome back."));
    let part = json!({ "name": "Watcher" });
    assert_eq!(app.post("/v1/apps/test/records/part", &part).await.status, 201);
    let ended = json!({ "name": "Old one", "status": "archived" });
    assert_eq!(app.post("/v1/apps/test/records/part", &ended).await.status, 201);
    let (sea, tea) = (add(&app, "grew up by the sea").await, add(&app, "likes green tea").await);
    let thread = thread_of(&app.say("Hello").await);
    let first = system(&app, 0);
    for part in ["Identity and focus:", "grew up by the sea", "Active records:", "Watcher", &tea] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    assert!(!first.contains("Old one"), "{first}");

    add(&app, "has a new dog").await;
    say_in(&app, &thread, "And now?").await;
    assert_eq!(system(&app, 1), first, "what is new waits for the next conversation");
    forget(&app, &sea).await;
    say_in(&app, &thread, "And now?").await;
    let line = first.lines().find(|line| line.contains("grew up by the sea")).unwrap();
    assert_eq!(system(&app, 2), first.replace(&format!("{line}\n"), ""), "only that is gone");
    app.say("A new conversation").await;
    assert!(system(&app, 3).contains("has a new dog"));
}
