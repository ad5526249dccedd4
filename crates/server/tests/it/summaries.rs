//! Summaries: those that stand for the older part of a thread, or all that were made.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::Reply;

use crate::support::{good, refused, say, say_in, send_as, token};

fn of(thread: &str) -> String {
    format!("/v1/threads/{thread}/summaries")
}

fn texts(page: &Value) -> Vec<(u64, &str)> {
    let data = page["data"].as_array().unwrap();
    data.iter()
        .map(|view| (view["level"].as_u64().unwrap(), view["text"].as_str().unwrap_or("gone")))
        .collect()
}

/// A summary of level 0 that one of level 1 took the place of. The text of the latter is gone.
fn summarise(app: &TestApp) {
    let database = app.database();
    let sql = "INSERT INTO summaries SELECT randomblob(16), thread, 1, NULL, min(id), max(id), min(seq), max(seq),
            4, zeroblob(16), NULL, 0 FROM messages;
        INSERT INTO summaries SELECT randomblob(16), m.thread, 0, NULL, m.id, m.id, m.seq, m.seq, 1,
            x'00000000000000000000000000000001', s.id, 0 FROM messages m, summaries s
            WHERE m.seq = (SELECT min(seq) FROM messages);
        INSERT INTO texts SELECT app, user, 'thr_' || lower(hex(id)), x'00000000000000000000000000000001', 'They met.'
            FROM threads;";
    database.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_thread_shows_what_stands_for_its_older_part_or_all_there_was() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Yes."));
    let names = say(&app, "Hi").await;
    say_in(&app, &names.thread, "And now?").await;
    assert_eq!(good(app.get(&of(&names.thread)).await), json!({ "data": [], "next": null }));
    summarise(&app);
    let newest = good(app.get(&of(&names.thread)).await);
    assert_eq!(texts(&newest), [(1, "gone")]);
    assert_eq!(newest["data"][0]["messages"], 4);
    assert!(newest["data"][0]["fromMessageId"].as_str().unwrap().starts_with("msg_"));
    let all = good(app.get(&format!("{}?all=true", of(&names.thread))).await);
    let mut found = texts(&all);
    found.sort_unstable();
    assert_eq!(found, [(0, "They met."), (1, "gone")]);
    assert_eq!(good(app.get(&format!("{}?all=false", of(&names.thread))).await), newest);
    for wrong in ["?all=", "?all=yes", "?all=true&all=true"] {
        refused(app.get(&format!("{}{wrong}", of(&names.thread))).await, 422, "invalid_request");
    }
}

#[tokio::test]
async fn the_summaries_of_others_do_not_exist() {
    let app = TestApp::start().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    let made = good(send_as(&app, &ann, Method::POST, ("/v1/apps/test/threads", &json!({}))).await);
    let place = of(made["id"].as_str().unwrap());
    good(send_as(&app, &ann, Method::GET, (&place, &Value::Null)).await);
    refused(send_as(&app, &bob, Method::GET, (&place, &Value::Null)).await, 404, "not_found");
    refused(send_as(&app, &ann, Method::GET, (&of("thr_1"), &Value::Null)).await, 404, "not_found");
}
