//! Keys that come and go, and issuers that are down.

use identity::{JwksProblem, TokenRefusal};
use serde_json::json;
use testkit::upstream::Gate;
use testkit::web::WebReply;

use crate::support::{Fixture, TestKey, claims, key_set};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

#[tokio::test]
async fn a_new_key_is_found_and_the_keys_are_asked_for_once_a_minute() {
    let (old, new, never) = (TestKey::ed("1"), TestKey::ec("2"), TestKey::ed("3"));
    let token = |key: &TestKey| key.token(&claims(json!({})));
    let fixture = Fixture::with_keys(&[&old]).await;
    assert!(fixture.verify(&token(&old)).await.is_ok());
    // The first key that is missing is looked for at once, though the keys were loaded a moment ago.
    fixture.clock.advance(1);
    fixture.publish(&[&old, &new]);
    assert!(fixture.verify(&token(&new)).await.is_ok());
    assert_eq!(fixture.requests(), 2);
    fixture.clock.advance(MINUTE - 1);
    for _ in 0..50 {
        assert_eq!(fixture.refusal(&token(&never)).await, TokenRefusal::UnknownKey);
    }
    assert_eq!(fixture.requests(), 2);
    fixture.clock.advance(1);
    fixture.reply(WebReply::status(500));
    for _ in 0..50 {
        assert_eq!(fixture.refusal(&token(&never)).await, TokenRefusal::UnknownKey);
    }
    assert_eq!(fixture.requests(), 3);
    assert!(fixture.verify(&token(&old)).await.is_ok());
}

#[tokio::test]
async fn a_token_without_a_key_id_finds_a_new_key_too() {
    let (old, new) = (TestKey::ed("1"), TestKey::ed("2"));
    let token = |key: &TestKey| key.token_of(&json!({ "alg": "EdDSA" }), &claims(json!({})));
    let fixture = Fixture::with_keys(&[&old]).await;
    assert!(fixture.verify(&token(&old)).await.is_ok());
    fixture.clock.advance(MINUTE);
    fixture.publish(&[&new]);
    assert!(fixture.verify(&token(&new)).await.is_ok());
    assert_eq!(fixture.refusal(&token(&old)).await, TokenRefusal::BadSignature);
    assert_eq!(fixture.requests(), 2);
}

#[tokio::test]
async fn at_most_sixteen_keys_are_tried() {
    let keys: Vec<TestKey> = (0..17).map(|_| TestKey::ed("same")).collect();
    let fixture = Fixture::with_keys(&keys.iter().collect::<Vec<_>>()).await;
    let accepted = async |key: &TestKey, header| {
        fixture.verify(&key.token_of(&header, &claims(json!({})))).await.is_ok()
    };
    for header in [json!({ "alg": "EdDSA" }), json!({ "alg": "EdDSA", "kid": "same" })] {
        assert!(accepted(&keys[15], header.clone()).await);
        assert!(!accepted(&keys[16], header).await);
    }
}

#[tokio::test]
async fn a_removed_key_ends_its_tokens_within_the_hour() {
    let (old, new) = (TestKey::ed("1"), TestKey::ed("2"));
    let token = old.token(&claims(json!({ "exp": u64::MAX })));
    let fixture = Fixture::with_keys(&[&old]).await;
    assert!(fixture.verify(&token).await.is_ok());
    fixture.clock.advance(HOUR - 1);
    assert!(fixture.verify(&token).await.is_ok());
    assert_eq!(fixture.requests(), 1);
    fixture.clock.advance(1);
    fixture.publish(&[&new]);
    assert_eq!(fixture.refusal(&token).await, TokenRefusal::UnknownKey);
    assert!(!fixture.issuers.is_verified_already(&token));
    assert_eq!(fixture.requests(), 2);
}

#[tokio::test]
async fn an_empty_set_takes_all_keys_away() {
    let key = TestKey::ed("1");
    let token = key.token(&claims(json!({ "exp": u64::MAX })));
    let fixture = Fixture::with_keys(&[&key]).await;
    assert!(fixture.verify(&token).await.is_ok());
    fixture.clock.advance(HOUR);
    fixture.publish(&[]);
    assert_eq!(fixture.refusal(&token).await, TokenRefusal::UnknownKey);
}

#[tokio::test]
async fn the_last_set_counts_while_the_issuer_is_down() {
    let (old, new) = (TestKey::ed("1"), TestKey::ed("2"));
    let token = |key: &TestKey| key.token(&claims(json!({ "exp": u64::MAX })));
    let fixture = Fixture::with_keys(&[&old]).await;
    assert!(fixture.verify(&token(&old)).await.is_ok());
    for (failures, reply) in
        [WebReply::status(500), WebReply::broken(), WebReply::endless(1 << 20)].into_iter().enumerate()
    {
        fixture.clock.advance(HOUR);
        fixture.reply(reply);
        for _ in 0..10 {
            assert!(fixture.verify(&token(&old)).await.is_ok());
        }
        // Waits for the load, which goes on in the background after the first failure.
        assert_eq!(fixture.refusal(&token(&new)).await, TokenRefusal::UnknownKey);
        assert_eq!(fixture.requests(), 2 + failures);
    }
    assert_eq!(fixture.issuers.key_problem("shop"), Some(JwksProblem::TooLarge));
    fixture.clock.advance(MINUTE - 1);
    assert!(fixture.verify(&token(&old)).await.is_ok());
    assert_eq!(fixture.requests(), 4);
    fixture.clock.advance(1);
    fixture.publish(&[&new]);
    assert!(fixture.verify(&token(&new)).await.is_ok());
    assert_eq!(fixture.issuers.key_problem("shop"), None);
    assert_eq!(fixture.refusal(&token(&old)).await, TokenRefusal::UnknownKey);
    assert_eq!(fixture.requests(), 5);
}

#[tokio::test]
async fn nobody_waits_for_an_issuer_that_was_down_before() {
    let key = TestKey::ed("1");
    let token = key.token(&claims(json!({ "exp": u64::MAX })));
    let fixture = Fixture::with_keys(&[&key]).await;
    assert!(fixture.verify(&token).await.is_ok());
    fixture.clock.advance(HOUR);
    fixture.reply(WebReply::status(503));
    assert!(fixture.verify(&token).await.is_ok());
    fixture.clock.advance(MINUTE);
    let gate = Gate::new();
    fixture.reply(WebReply::status(503).wait(&gate));
    assert!(fixture.verify(&token).await.is_ok());
    gate.reached().await;
    assert!(fixture.verify(&token).await.is_ok());
    assert_eq!(fixture.requests(), 3);
    // The gate is closed, so a wait for the answer would have ended as a time-out.
    assert_eq!(fixture.issuers.key_problem("shop"), Some(JwksProblem::Status(503)));
}

#[tokio::test]
async fn a_search_for_an_unknown_key_delays_no_other_token() {
    let (key, never) = (TestKey::ed("1"), TestKey::ed("2"));
    let fixture = Fixture::with_keys(&[&key]).await;
    let token = |key: &TestKey, user: &str| key.token(&claims(json!({ "sub": user })));
    assert!(fixture.verify(&token(&key, "ada")).await.is_ok());
    fixture.clock.advance(MINUTE);
    let gate = Gate::new();
    fixture.reply(WebReply::json(&key_set(&[&key])).wait(&gate));
    let unknown = token(&never, "ada");
    let others = async {
        gate.reached().await;
        let verified = fixture.verify(&token(&key, "grace")).await;
        gate.open();
        verified
    };
    let (unknown, other) = tokio::join!(fixture.verify(&unknown), others);
    assert_eq!((unknown, other.unwrap().user), (Err(TokenRefusal::UnknownKey), "shop:grace".into()));
    // The gate was closed until the other token was verified, so a wait would have ended as a time-out.
    assert_eq!(fixture.issuers.key_problem("shop"), None);
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_stop_loads() {
    let (old, new) = (TestKey::ed("1"), TestKey::ed("2"));
    let token = |key: &TestKey| key.token(&claims(json!({ "iat": null })));
    let fixture = Fixture::with_keys(&[&old]).await;
    assert!(fixture.verify(&token(&old)).await.is_ok());
    fixture.clock.advance(-24 * HOUR);
    fixture.publish(&[&new]);
    assert!(fixture.verify(&token(&new)).await.is_ok());
    assert_eq!(fixture.requests(), 2);
}
