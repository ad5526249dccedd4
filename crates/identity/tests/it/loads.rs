//! Loads of keys: one at a time, within bounds, and never from another place.

use std::time::Duration;

use futures_util::future::join_all;
use identity::JwksProblem;
use serde_json::{Value, json};
use testkit::upstream::Gate;
use testkit::web::WebReply;
use tokio::time::{Instant, timeout};

use crate::support::{Fixture, TestKey, claims, key_set, unavailable};

const CLIENTS: usize = 100;

fn tokens(key: &TestKey) -> Vec<String> {
    (0..CLIENTS).map(|user| key.token(&claims(json!({ "sub": user.to_string() })))).collect()
}

#[tokio::test]
async fn a_hundred_tokens_at_once_need_one_request() {
    let (first, second) = (TestKey::ed("1"), TestKey::ed("2"));
    let fixture = Fixture::silent().await;
    for (requests, key) in [(1, &first), (2, &second)] {
        let gate = Gate::new();
        fixture.reply(WebReply::json(&key_set(&[key])).wait(&gate));
        let tokens = tokens(key);
        let all = join_all(tokens.iter().map(|token| fixture.verify(token)));
        let opening = async {
            gate.reached().await;
            gate.open();
        };
        let (verified, ()) = tokio::join!(all, opening);
        assert!(verified.iter().all(Result::is_ok));
        assert_eq!(fixture.requests(), requests);
        fixture.clock.advance(60);
    }
}

#[tokio::test]
async fn a_failed_load_fails_all_that_wait_and_is_not_repeated_for_a_minute() {
    let key = TestKey::ed("1");
    let fixture = Fixture::silent().await;
    let gate = Gate::new();
    fixture.reply(WebReply::status(500).wait(&gate));
    let tokens = tokens(&key);
    let all = join_all(tokens.iter().map(|token| fixture.verify(token)));
    let (verified, ()) = tokio::join!(all, async {
        gate.reached().await;
        gate.open();
    });
    assert!(verified.iter().all(|result| result == &Err(unavailable())));
    assert!(unavailable().is_temporary());
    fixture.clock.advance(59);
    assert_eq!(fixture.refusal(&tokens[0]).await, unavailable());
    assert_eq!(fixture.requests(), 1);
    fixture.clock.advance(1);
    fixture.publish(&[&key]);
    assert!(fixture.verify(&tokens[0]).await.is_ok());
    assert_eq!(fixture.requests(), 2);
}

#[tokio::test]
async fn a_load_goes_on_when_the_client_that_caused_it_leaves() {
    let key = TestKey::ed("1");
    let fixture = Fixture::silent().await;
    let gate = Gate::new();
    fixture.reply(WebReply::json(&key_set(&[&key])).wait(&gate));
    let token = key.token(&claims(json!({})));
    tokio::select! {
        _ = fixture.verify(&token) => panic!("the gate is closed"),
        () = gate.reached() => {}
    }
    gate.open();
    assert!(fixture.verify(&token).await.is_ok());
    assert_eq!(fixture.requests(), 1);
}

#[tokio::test]
async fn an_issuer_that_never_answers_is_given_up_after_five_seconds() {
    let key = TestKey::ed("1");
    let fixture = Fixture::silent().await;
    let gate = Gate::new();
    fixture.reply(WebReply::json(&key_set(&[&key])).wait(&gate));
    let token = key.token(&claims(json!({})));
    // The clock of the runtime jumps to the next timer as soon as nothing else can happen.
    let pausing = async {
        gate.reached().await;
        tokio::time::pause();
        Instant::now()
    };
    let (verified, paused_at) =
        tokio::join!(timeout(Duration::from_secs(60), fixture.verify(&token)), pausing);
    assert_eq!(verified, Ok(Err(unavailable())));
    assert_eq!(fixture.issuers.key_problem("shop"), Some(JwksProblem::Timeout));
    // Timers are rounded to milliseconds.
    assert!(paused_at.elapsed() < Duration::from_secs(6), "{:?}", paused_at.elapsed());
}

#[tokio::test]
async fn documents_that_are_no_key_sets_are_typed_problems() {
    let key = TestKey::ed("1");
    let many: Vec<Value> = (0..101).map(|_| key.jwk()).collect();
    let padded = format!("{}{}", " ".repeat(256 * 1024), key_set(&[&key]));
    let cases = [
        (WebReply::endless(1 << 20), JwksProblem::TooLarge),
        (WebReply::text(&padded), JwksProblem::TooLarge),
        (WebReply::redirect(302, "/elsewhere"), JwksProblem::Status(302)),
        (WebReply::redirect(308, "/keys"), JwksProblem::Status(308)),
        (WebReply::status(404), JwksProblem::Status(404)),
        (WebReply::json(&key_set(&[&key])).with_status(203), JwksProblem::Status(203)),
        (WebReply::text("<html>"), JwksProblem::NotKeySet),
        (WebReply::text(""), JwksProblem::NotKeySet),
        (WebReply::json(&json!({})), JwksProblem::NotKeySet),
        (WebReply::json(&json!({ "keys": { "kid": "1" } })), JwksProblem::NotKeySet),
        (WebReply::json(&json!({ "keys": many })), JwksProblem::TooManyKeys),
        (WebReply::json(&key_set(&[&key])).half(), JwksProblem::Unreachable),
        (WebReply::broken(), JwksProblem::Unreachable),
    ];
    let fixture = Fixture::silent().await;
    let token = key.token(&claims(json!({})));
    for (reply, problem) in cases {
        fixture.clock.advance(60);
        fixture.reply(reply);
        assert_eq!(fixture.refusal(&token).await, unavailable(), "{problem}");
        assert_eq!(fixture.issuers.key_problem("shop"), Some(problem));
    }
}

#[tokio::test]
async fn a_set_with_strange_keys_serves_with_its_good_ones() {
    let key = TestKey::ed("1");
    let fixture = Fixture::silent().await;
    let mut keys = vec![json!({ "kty": "LATTICE" }), json!(7), json!({ "kty": ["EC"] }), json!({})];
    keys.push(key.jwk());
    fixture.reply(WebReply::json(&json!({ "keys": keys, "more": true })));
    assert!(fixture.verify(&key.token(&claims(json!({})))).await.is_ok());
}
