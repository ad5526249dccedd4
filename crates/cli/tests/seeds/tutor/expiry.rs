//! How memories go: five stay, and what is used little and long known goes first.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply};

use super::{
    asked, change, choice, finds, known, object, plays, refers, remember, system, thread_of, tutor, update,
};
use crate::product::Product;
use crate::world::{Server, send};

const NEW: &str = "Understands halves.";

/// Brings in memories with the days on which they were made, and gives back their ids by text.
async fn known_since(product: &Product, server: &Server, memories: &[(&str, &str)]) -> Value {
    let lines: String = memories.iter().map(|(text, day)| format!("- {text} — level, {day}\n")).collect();
    let import = server.request(Method::POST, &product.path("memories/import"));
    let (code, report) = send(import.header("content-type", "text/markdown").body(lines)).await;
    assert_eq!((code, &report["imported"]), (200, &json!(memories.len())), "{report}");
    let (_, page) = server.get(&product.path("memories")).await;
    page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|memory| (memory["text"].as_str().unwrap().to_owned(), memory["id"].clone()))
        .collect()
}

/// An answer that refers to these memories, and then one memory more. Gives back what the thread's channel says.
async fn one_more(product: &Product, server: &Server, referred: &[&str]) -> Value {
    let gate = Gate::new();
    let (held, answer) = (gate.clone(), object(referred, "Fine."));
    plays(
        product,
        move |_| Reply::says(&answer),
        move |_| {
            let found = change("create", &[], Some(NEW), "I understand halves");
            Reply::stream().wait(&held).text(&json!({ "changes": [found] }).to_string())
        },
    );
    let thread = thread_of(&product.say(server, "I understand halves now.").await);
    gate.open(); // only now, so that the answer has counted
    update(server, &thread).await
}

#[tokio::test]
async fn five_memories_stay_and_a_sixth_makes_one_expire() {
    let (product, server) = tutor().await;
    for text in ["Likes chess.", "Likes trains.", "Draws first."] {
        remember(&product, &server, text).await;
    }
    let fourth = one_more(&product, &server, &[]).await;
    assert_eq!(fourth.get("expired"), None, "there is room for it: {fourth}");
    remember(&product, &server, "Has a test in May.").await;
    remember(&product, &server, "Reads slowly.").await;
    plays(
        &product,
        |_| Reply::says(&object(&[], "Fine.")),
        |_| finds(&[change("create", &[], Some("Understands quarters."), "I understand quarters")]),
    );
    let thread = thread_of(&product.say(&server, "I understand quarters now.").await);
    let over = update(&server, &thread).await;
    assert_eq!(
        (over["created"].as_array().unwrap().len(), over["expired"].as_array().unwrap().len()),
        (1, 2),
        "{over}"
    );
    assert_eq!(known(&product, &server, "active").await.len(), 5);
    assert_eq!(
        known(&product, &server, "expired").await,
        ["Likes chess.", "Likes trains."],
        "the oldest of those unused"
    );
}

#[tokio::test]
async fn of_those_that_nobody_used_the_oldest_expires() {
    let (product, server) = tutor().await;
    let days = [
        ("Likes chess.", "2024-03-05"),
        ("Likes trains.", "2024-03-03"),
        ("Draws first.", "2024-03-04"),
        ("Reads slowly.", "2024-03-02"),
        ("Has a test in May.", "2024-03-06"),
    ];
    let ids = known_since(&product, &server, &days).await;
    let update = one_more(&product, &server, &[]).await;
    assert_eq!(update["expired"], json!([ids["Reads slowly."]]));
    assert_eq!(known(&product, &server, "expired").await, ["Reads slowly."]);
}

#[tokio::test]
async fn what_answers_refer_to_stays_though_it_is_the_oldest() {
    let (product, server) = tutor().await;
    let days = [
        ("Likes chess.", "2024-03-05"),
        ("Likes trains.", "2024-03-03"),
        ("Draws first.", "2024-03-04"),
        ("Reads slowly.", "2024-03-02"),
        ("Has a test in May.", "2024-03-06"),
    ];
    let ids = known_since(&product, &server, &days).await;
    let used = ids["Reads slowly."].as_str().unwrap();
    let update = one_more(&product, &server, &[used]).await;
    assert_eq!(update["expired"], json!([ids["Likes trains."]]), "the next oldest goes in its place");
    assert!(known(&product, &server, "active").await.contains(&"Reads slowly.".to_owned()));
}

/// One use against eight days, and against twelve.
#[tokio::test]
async fn a_use_weighs_as_much_as_ten_days() {
    for (day, goes) in [("2024-03-09", "Likes trains."), ("2024-03-13", "Likes chess.")] {
        let (product, server) = tutor().await;
        let days = [
            ("Likes chess.", "2024-03-01"),
            ("Likes trains.", day),
            ("Draws first.", "2024-06-01"),
            ("Reads slowly.", "2024-06-01"),
            ("Has a test in May.", "2024-06-01"),
        ];
        let ids = known_since(&product, &server, &days).await;
        let update = one_more(&product, &server, &[ids["Likes chess."].as_str().unwrap()]).await;
        assert_eq!(update["expired"], json!([ids[goes]]), "{day}");
    }
}

#[tokio::test]
async fn the_more_often_a_memory_is_used_the_longer_it_stays() {
    let (product, server) = tutor().await;
    let days = [
        ("Likes chess.", "2024-03-01"),
        ("Likes trains.", "2024-03-15"),
        ("Draws first.", "2024-06-01"),
        ("Reads slowly.", "2024-06-01"),
        ("Has a test in May.", "2024-06-01"),
    ];
    let ids = known_since(&product, &server, &days).await;
    let chess = ids["Likes chess."].as_str().unwrap();
    for _ in 0..2 {
        refers(&product, &[chess]);
        product.say(&server, "Hello.").await;
    }
    let update = one_more(&product, &server, &[]).await;
    assert_eq!(update["expired"], json!([ids["Likes trains."]]), "two uses are more than fourteen days");
}

#[tokio::test]
async fn what_has_expired_is_in_no_prompt_but_can_be_brought_back() {
    let (product, server) = tutor().await;
    let days = ["2024-03-01", "2024-03-02", "2024-03-03", "2024-03-04", "2024-03-05"];
    let texts = ["Likes chess.", "Likes trains.", "Draws first.", "Reads slowly.", "Has a test in May."];
    let memories: Vec<_> = texts.into_iter().zip(days).collect();
    let ids = known_since(&product, &server, &memories).await;
    let gone = ids["Likes chess."].as_str().unwrap();
    one_more(&product, &server, &[]).await;
    // From here on nothing else expires.
    plays(&product, |_| Reply::says(&object(&[], "Fine.")), |_| Reply::silence());
    product.say(&server, "Hello.").await;
    let requests = asked(&product);
    let last = requests.last().unwrap();
    assert_eq!(choice(last).as_array().unwrap().len(), 5);
    assert!(!choice(last).to_string().contains(gone) && !system(last).contains("Likes chess."));
    let (code, back) = server.post(&format!("/v1/memories/{gone}/restore"), &json!({})).await;
    assert_eq!((code, &back["status"]), (200, &json!("active")));
    product.say(&server, "Hello.").await;
    assert!(choice(asked(&product).last().unwrap()).to_string().contains(gone));
}
