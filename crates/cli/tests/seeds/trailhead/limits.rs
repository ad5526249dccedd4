//! The limits of one user in a minute and a day, and at once.

use reqwest::{Method, Response};
use serde_json::json;
use testkit::upstream::Gate;

use super::*;

/// The limits in `app.toml`.
const RUNS_PER_MINUTE: usize = 20;
const MAX_RUNNING: usize = 4;
const SECONDS_OF_A_DAY: u64 = 86_400;

async fn says(product: &Product, server: &Server, key: Option<&str>) -> Response {
    let request = server.request(Method::POST, &product.path("runs"));
    let request = key.into_iter().fold(request, |request, key| request.bearer_auth(key));
    request.json(&json!({ "message": "Hi", "stream": false })).send().await.unwrap()
}

fn header(response: &Response, name: &str) -> String {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
}

/// Checks that it was refused for its pace, and returns how many seconds to wait.
async fn refused(response: Response) -> u64 {
    assert_eq!(response.status(), 429);
    let seconds = header(&response, "retry-after").parse().expect("it says when to come back");
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["code"], "rate_limited", "{problem}");
    seconds
}

#[tokio::test]
async fn so_many_runs_a_minute_and_each_answer_says_how_many_are_left() {
    let (product, server) = empty().await;
    plays(&product, |_, _| Reply::says("Hello."));
    let first = says(&product, &server, None).await;
    assert_eq!(first.status(), 200);
    assert!(
        header(&first, "ratelimit-policy").contains("\"runs-minute\";q=20;w=60"),
        "{:?}",
        first.headers()
    );
    assert!(header(&first, "ratelimit").contains("\"runs-minute\";r=19;t="), "{:?}", first.headers());
    let mut answered = 1;
    let last = loop {
        let response = says(&product, &server, None).await;
        if response.status() != 200 {
            break response;
        }
        answered += 1;
        assert!(answered <= 2 * RUNS_PER_MINUTE, "not more than two minutes of the clock can have");
    };
    assert!(refused(last).await <= 60);
    assert!(answered >= RUNS_PER_MINUTE);
}

#[tokio::test]
async fn so_many_tokens_a_day_for_one_user_and_not_for_all_together() {
    let product = Product::new(APP).await;
    let mut keys = Vec::new();
    for user in ["ada", "grace"] {
        let ended = product.run(&["keys", "add", user]).await;
        keys.push(
            ended.output.split_whitespace().find(|word| word.starts_with("rondo_")).unwrap().to_owned(),
        );
    }
    let server = product.serve().await;
    plays(&product, |_, _| Reply::says("Hello.").usage(2_000_000, 5));
    assert_eq!(says(&product, &server, Some(&keys[0])).await.status(), 200);
    let wait = refused(says(&product, &server, Some(&keys[0])).await).await;
    assert!(wait <= SECONDS_OF_A_DAY);
    assert_eq!(says(&product, &server, Some(&keys[1])).await.status(), 200, "it is each user's own");
}

#[tokio::test]
async fn so_many_runs_at_once_and_a_refused_one_leaves_nothing_behind() {
    let (product, server) = empty().await;
    let gate = Gate::new();
    let held = gate.clone();
    plays(&product, move |_, _| Reply::stream().text("Hel").wait(&held).text("lo."));
    let mut open = Vec::new();
    for _ in 0..MAX_RUNNING {
        let mut stream = product.ask(&server, json!({ "message": "Hi" })).await;
        stream.read_until("text:delta").await;
        open.push(stream);
    }
    let fifth = server.request(Method::POST, &product.path("runs")).json(&json!({ "message": "Hi" }));
    refused(fifth.send().await.unwrap()).await;
    assert_eq!(list(&server, "threads").await.len(), MAX_RUNNING, "nothing was stored");
    gate.open();
    for stream in open {
        assert_eq!(crate::product::status(&stream.all().await), "completed");
    }
    assert_eq!(says(&product, &server, None).await.status(), 200, "then there is room again");
}
