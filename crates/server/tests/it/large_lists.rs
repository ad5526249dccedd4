//! Lists of huge entries: every answer is bounded in bytes, and the pages together are the whole list.

use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::web::{self, Web};

use crate::http_tools::{peak_kib, setup};
use crate::support::{Names, good, say, say_in};

/// Messages of the user, and the calls that each answer rests on.
const EXCHANGES: usize = 5;
const CALLS: usize = 32;

/// Bytes of what comes out of a call.
const OUTPUT_BYTES: usize = 60_000;

/// The bytes that a page may have, with what its entries have besides their texts.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024 + 256 * 1024;

/// Memory that one page may take for a while: its rows, what is shown of them, and the answer, here and at the client.
const MAX_GROWTH_KIB: u64 = 96 * 1024;

const LOOK: &str = r#"
[tool.look]
description = "For tests."
policy = "allow"
effect = "read"
parameters = { type = "object", properties = { n = { type = "integer" } } }
[tool.look.http]
url = "WEB/look"
query = { n = "{{ input.n }}" }
"#;

/// A thread of messages with results of two megabytes each.
async fn talkative() -> (TestApp, Names) {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, LOOK)).await;
    let count = std::sync::atomic::AtomicUsize::new(0);
    app.upstream.program(move |_| {
        if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2 == 1 {
            return Reply::says("Done.");
        }
        let look = |number: usize| ScriptedCall::new("look", &json!({ "n": number }).to_string());
        (0..CALLS).fold(Reply::stream(), |reply, number| reply.call(look(number)))
    });
    let texts = (0..EXCHANGES * CALLS).map(|number| format!("{number} {}", "x".repeat(OUTPUT_BYTES)));
    web.on("GET", "/look", texts.map(|text| web::WebReply::text(&text)).collect::<Vec<_>>());
    let names = say(&app, "Look").await;
    for _ in 1..EXCHANGES {
        say_in(&app, &names.thread, "Look again").await;
    }
    app.service.idle().await;
    (app, names)
}

/// All entries of a list, page by page, and how many pages they took.
async fn all(app: &TestApp, path: &str, limit: usize) -> (Vec<Value>, usize) {
    let (mut all, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let join = if path.contains('?') { '&' } else { '?' };
        let page = good(app.get(&format!("{path}{join}limit={limit}{cursor}")).await);
        let (bytes, data) = (page.to_string().len(), page["data"].as_array().unwrap().clone());
        assert!(bytes <= MAX_BODY_BYTES || data.len() == 1, "{bytes} bytes of {} entries", data.len());
        pages += 1;
        all.extend(data);
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (all, pages),
        }
    }
}

#[tokio::test]
async fn messages_and_actions_with_huge_results_come_in_pages_of_bounded_size() {
    let (app, names) = talkative().await;
    let messages = names.messages_path();
    let before = peak_kib();
    let (large, pages) = all(&app, &messages, 1_000).await;
    let growth = peak_kib().saturating_sub(before);
    println!("{pages} pages took {growth} KiB");
    assert!(growth < MAX_GROWTH_KIB, "{growth} KiB");
    assert_eq!((large.len(), pages >= EXCHANGES / 2), (2 * EXCHANGES, true), "{pages} pages");
    let results: usize = large.iter().map(|message| message["toolResults"].as_array().unwrap().len()).sum();
    assert_eq!(results, EXCHANGES * CALLS);
    let (single, pages) = all(&app, &messages, 1).await;
    assert_eq!((single, pages), (large, 2 * EXCHANGES));

    let (actions, pages) = all(&app, "/v1/apps/test/actions?effect=read", 1_000).await;
    assert!(pages >= 2, "{pages} pages");
    let (fewer, _) = all(&app, "/v1/apps/test/actions?effect=read", 7).await;
    assert_eq!((actions.len(), &actions), (EXCHANGES * CALLS, &fewer));
    let output = |action: &Value| action["output"].as_str().unwrap().len() > OUTPUT_BYTES;
    assert!(actions.iter().all(output), "each with what came out of it");
    assert_eq!(app.service.verify_ledger(None).await.unwrap().faults, [""; 0]);
    let copies = "SELECT (SELECT count(*) FROM actions WHERE instr(output, 'xxxx'))
        + (SELECT count(*) FROM ledger_payloads WHERE instr(payload, 'xxxx'))";
    assert_eq!(app.count(copies), 0, "what came out is in the events and nowhere else");
}

#[tokio::test]
async fn pins_and_personas_that_are_too_many_for_one_page_have_a_next_one() {
    let app = TestApp::start().await;
    for number in 0..70 {
        let persona = json!({ "id": format!("p{number:02}"), "prompt": "x".repeat(64 * 1024) });
        assert_eq!(app.post("/v1/apps/test/personas", &persona).await.status, 201);
    }
    let (personas, pages) = all(&app, "/v1/apps/test/personas", 1_000).await;
    assert_eq!((personas.len(), pages), (70, 2));
    for number in 0..5 {
        assert_eq!(
            app.post("/v1/apps/test/pins", &json!({ "text": format!("pin {number}") })).await.status,
            201
        );
    }
    let whole = good(app.get("/v1/apps/test/pins").await);
    assert_eq!((whole["data"].as_array().unwrap().len(), &whole["next"]), (5, &Value::Null));
    let (pins, pages) = all(&app, "/v1/apps/test/pins", 2).await;
    assert_eq!((pins, pages), (whole["data"].as_array().unwrap().clone(), 3));
}
