//! Points that an experienced teacher would look for: practice that is spaced, memories by subject, and rules of the
//! trade.

use jiff::Span;
use jiff::tz::TimeZone;
use protocol::{Clock, SystemClock};
use reqwest::Method;

use super::*;
use crate::world::send;

/// Memories from a list, with their kinds and dates.
async fn import(product: &Product, server: &Server, list: &str) {
    let request = server
        .request(Method::POST, &product.path("memories/import"))
        .header("content-type", "text/markdown")
        .body(list.to_owned());
    assert_eq!(send(request).await.0, 200);
}

/// A day that many days ago.
fn day(days_ago: i64) -> String {
    let today = SystemClock.now().to_zoned(TimeZone::UTC).date();
    today.checked_sub(Span::new().days(days_ago)).unwrap().to_string()
}

#[tokio::test]
async fn what_was_learnt_is_due_for_practice_and_after_a_use_it_is_not() {
    let (product, server) = tutor().await;
    let list = format!(
        "- Understands halves — maths/level, {}\n- Wants to pass the test — maths/goal, {}\n- Knows thirds — maths/level, {}\n",
        day(9),
        day(9),
        day(0)
    );
    import(&product, &server, &list).await;
    let line = |at: usize, text: &str| {
        let request = asked(&product).remove(at);
        system(&request).lines().find(|line| line.contains(text)).unwrap().to_owned()
    };
    let (_, page) = server.get(&product.path("memories")).await;
    let halves = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|memory| memory["text"] == "Understands halves")
        .unwrap();
    refers(&product, &[halves["id"].as_str().unwrap()]);
    product.say(&server, "What shall we do today?").await;
    assert!(
        line(0, "Understands halves").ends_with("(due for practice, last used 9 days ago)"),
        "{}",
        line(0, "halves")
    );
    assert!(!line(0, "Wants to pass").contains("due"), "a goal is not practised");
    assert!(!line(0, "Knows thirds").contains("due"), "that was today");
    product.say(&server, "And now?").await;
    assert!(!line(1, "Understands halves").contains("due"), "it was used just now: {}", line(1, "halves"));
}

#[tokio::test]
async fn each_subject_has_room_for_five_memories_of_its_own() {
    let (product, server) = tutor().await;
    let mut list = String::new();
    for subject in ["maths", "french"] {
        for number in 0..5 {
            list += &format!("- {subject} fact {number} — {subject}/level, {}\n", day(20 - number));
        }
    }
    list += &format!("- Likes chess — interest, {}\n", day(30));
    import(&product, &server, &list).await;
    plays(
        &product,
        |_| Reply::says(&object(&[], "Well done.")),
        |_| {
            let kind = "french/level";
            let new = json!({ "action": "create", "ids": [], "text": "French fact 5", "kind": kind, "message": "u1", "quote": "I did it" });
            finds(&[new])
        },
    );
    let frames = product.say(&server, "I did it alone!").await;
    let told = update(&server, &thread_of(&frames)).await;
    assert_eq!(told["expired"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(
        known(&product, &server, "expired").await,
        ["french fact 0"],
        "the oldest of that subject alone"
    );
    assert_eq!(known(&product, &server, "active").await.len(), 11);
}

/// Returns the instructions of the tutor.
async fn instructions() -> String {
    let (product, server) = tutor().await;
    refers(&product, &[]);
    product.say(&server, "Hello").await;
    system(&asked(&product)[0]).to_owned()
}

fn holds(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "nothing says {words:?}");
    }
}

#[tokio::test]
async fn a_lesson_begins_with_a_question_from_memory() {
    let text = instructions().await;
    holds(
        &text,
        &[
            "Begin a lesson with one question from memory",
            "\"due for practice\"",
            "Let them answer before you say anything",
        ],
    );
}

#[tokio::test]
async fn hints_are_a_ladder_that_has_an_end() {
    let text = instructions().await;
    holds(
        &text,
        &["the ladder of hints", "One rung at a time", "6. The way out", "Nobody has to stay stuck"],
    );
}

#[tokio::test]
async fn work_that_is_marked_is_the_learners_own() {
    let text = instructions().await;
    holds(
        &text,
        &[
            "handed in for a mark",
            "you do not write the text, the solution or the code",
            "A test that is going on now",
        ],
    );
}

#[tokio::test]
async fn age_and_frustration_are_met() {
    let text = instructions().await;
    holds(
        &text,
        &[
            "which year or age",
            "With everybody under 18",
            "\"I am stupid\"",
            "Make the step so small that it works",
        ],
    );
}
