//! Studio's history when its rows cannot be right: the damage is bounded, named in the log, and stops no user.

use testkit::sql::params;

use super::*;

/// As many as were once found in one message.
const FOUND: usize = 37_130;

/// A conversation with one call, `6 * 7`, and its result.
async fn with_a_call() -> (Product, Server, String) {
    let (product, server) = studio([calculates("6 * 7"), Reply::says("It is 42.")]).await;
    let frames = say(&server, None, "What is 6 times 7?").await;
    assert_eq!(of(&frames, "tool:complete")[0]["status"], "complete");
    let id = session(&frames);
    (product, server, id)
}

/// Puts `more` results of the same call beside the first, each of them wrong.
fn multiply(product: &Product, more: usize) {
    let write = unguarded(product);
    // The server may be writing. A transaction that reads first would not wait for it.
    write.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (run, body): (Vec<u8>, String) = write
        .query_row("SELECT run, body FROM events WHERE kind = 'tool:complete'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!(body.contains("42"), "{body}");
    for number in 0..more {
        let sql = "INSERT INTO events (thread, seq, run, kind, at, body)
            SELECT id, ?1, ?2, 'tool:complete', 0, ?3 FROM threads";
        write
            .execute(sql, params![1_000 + i64::try_from(number).unwrap(), run, body.replace("42", "666")])
            .unwrap();
    }
    write.execute("UPDATE threads SET next_seq = ?1", [100_000]).unwrap();
    write.execute_batch("COMMIT").unwrap();
}

/// Asks once more, and expects an answer as if nothing were wrong. Gives back what the model saw.
async fn still_answers(product: &Product, server: &Server, id: &str) -> Value {
    product.upstream().script([Reply::says("Still here.")]);
    let frames = say(server, Some(id), "Are you there?").await;
    assert_eq!((status(&frames), answer(&frames)), ("completed", "Still here."));
    product.last_request()
}

#[tokio::test]
async fn tens_of_thousands_of_results_for_one_call_stop_nobody_and_one_is_shown() {
    let (product, server, id) = with_a_call().await;
    multiply(&product, FOUND - 1);
    let request = still_answers(&product, &server, &id).await;
    assert_eq!(roles(&request), ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert!(content(&request, 3).contains("42"), "the first result counts");
    assert!(!request.to_string().contains("666"), "and no other");
    let stored = messages(&server, &id).await;
    assert_eq!((stored.len(), stored[1]["toolResults"].as_array().unwrap().len()), (4, 1));
}

#[tokio::test]
async fn the_log_says_how_many_were_found_and_how_many_are_allowed() {
    let (product, server, id) = with_a_call().await;
    product.upstream().script([Reply::says("Fine.")]);
    say(&server, Some(&id), "How are you?").await;
    assert!(!server.process.errors.text().contains("corrupt"), "what is right is not warned of");
    multiply(&product, 299);
    still_answers(&product, &server, &id).await;
    let warning = server.process.errors.line("more tool results than calls allow").await;
    let parts = ["WARN", id.as_str(), "found=300", "allowed=2"];
    assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
}

#[tokio::test]
async fn more_than_a_hundred_results_of_one_message_are_warned_of_and_stay_if_they_are_sound() {
    let product = Product::new("studio").await;
    product.upstream().program(|request| {
        let turns = request["messages"].as_array().unwrap().len();
        let call =
            |number: usize| ("calculate", json!({ "expression": format!("{turns} * 1000 + {number}") }));
        if turns > 100 { Reply::says("Done.") } else { calls(&(0..30).map(call).collect::<Vec<_>>()) }
    });
    let server = product.serve().await;
    let frames = say(&server, None, "Count").await;
    assert_eq!(of(&frames, "tool:complete").iter().filter(|end| end["status"] == "complete").count(), 120);
    let stored = messages(&server, &session(&frames)).await[1].clone();
    let count = |field: &str| stored[field].as_array().unwrap().len();
    assert_eq!((count("toolCalls"), count("toolResults")), (120, 120));
    let warning = server.process.errors.line("very many tool results").await;
    assert!(warning.contains("WARN") && warning.contains("results=120"), "{warning}");
    let request = still_answers(&product, &server, &session(&frames)).await;
    assert_eq!(
        roles(&request).iter().filter(|role| **role == "tool").count(),
        120,
        "each call still has its answer"
    );
    assert!(!request.to_string().contains("no result was recorded"), "and every answer is the tool's own");
    assert!(!server.process.errors.text().contains("corrupt"), "what is right is not called corrupt");
}

#[tokio::test]
async fn only_where_results_repeat_or_exceed_calls_a_hundred_are_the_most() {
    let product = Product::new("studio").await;
    product.upstream().program(|request| {
        let turns = request["messages"].as_array().unwrap().len();
        let call =
            |number: usize| ("calculate", json!({ "expression": format!("{turns} * 1000 + {number}") }));
        match request.get("tools") {
            Some(_) => calls(&(0..20).map(call).collect::<Vec<_>>()),
            None => Reply::says("Done."),
        }
    });
    let server = product.serve().await;
    let id = session(&say(&server, None, "Count").await);
    let stored = || async { messages(&server, &id).await[1]["toolResults"].as_array().unwrap().len() };
    assert_eq!(stored().await, 200, "two hundred sound ones stay two hundred");
    let database = unguarded(&product);
    let repeat = "INSERT INTO events (thread, seq, run, kind, at, body)
        SELECT thread, 10000, run, kind, at, body FROM events WHERE kind = 'tool:complete' ORDER BY seq LIMIT 1";
    database.execute(repeat, []).unwrap();
    database.execute("UPDATE threads SET next_seq = 20000", []).unwrap();
    assert_eq!(stored().await, 100, "one that repeats a call makes all of them doubtful");
}

#[tokio::test]
async fn a_call_without_a_result_and_a_result_without_a_call_are_made_whole() {
    let (product, server, id) = with_a_call().await;
    let database = unguarded(&product);
    database.execute("DELETE FROM events WHERE kind = 'tool:complete'", []).unwrap();
    let request = still_answers(&product, &server, &id).await;
    assert_eq!(roles(&request), ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(request["messages"][2]["tool_calls"][0]["id"], request["messages"][3]["tool_call_id"]);
    assert!(!content(&request, 3).contains("42"), "{request}");

    let (product, server, id) = with_a_call().await;
    unguarded(&product)
        .execute("DELETE FROM events WHERE kind = 'step:end' AND body LIKE '%calculate%'", [])
        .unwrap();
    let request = still_answers(&product, &server, &id).await;
    assert_eq!(roles(&request), ["system", "user", "assistant", "user"]);
}

#[tokio::test]
async fn the_store_takes_neither_a_second_result_nor_a_change_of_the_first() {
    let (product, server, id) = with_a_call().await;
    let database = database(&product);
    for damage in [
        "INSERT INTO tool_results SELECT * FROM tool_results",
        "INSERT INTO events (thread, seq, run, kind, at, body)
            SELECT e.thread, t.next_seq, e.run, e.kind, e.at, e.body FROM events e JOIN threads t ON t.id = e.thread
            WHERE e.kind = 'tool:complete'",
        "UPDATE events SET body = replace(body, '42', '666') WHERE kind = 'tool:complete'",
        "DELETE FROM events WHERE kind = 'tool:complete'",
    ] {
        assert!(database.execute(damage, []).is_err(), "{damage}");
    }
    assert_eq!(messages(&server, &id).await[1]["toolResults"].as_array().unwrap().len(), 1);
}
