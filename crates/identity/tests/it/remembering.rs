//! Verified tokens are remembered, and forgotten in time.

use identity::TokenRefusal;
use serde_json::json;

use crate::support::{Fixture, NOW, TestKey, claims};

#[tokio::test]
async fn a_verified_token_is_remembered_until_it_expires() {
    let key = TestKey::ed("1");
    let token = key.token(&claims(json!({ "exp": NOW + 600 })));
    let fixture = Fixture::with_keys(&[&key]).await;
    assert!(!fixture.issuers.is_verified_already(&token));
    let first = fixture.verify(&token).await.unwrap();
    assert!(fixture.issuers.is_verified_already(&token));
    assert_eq!(fixture.verify(&token).await.unwrap(), first);
    fixture.clock.advance(600 + 59);
    assert!(fixture.issuers.is_verified_already(&token));
    assert!(fixture.verify(&token).await.is_ok());
    fixture.clock.advance(1);
    assert!(!fixture.issuers.is_verified_already(&token));
    assert_eq!(fixture.refusal(&token).await, TokenRefusal::Expired);
}

#[tokio::test]
async fn a_refused_token_is_not_remembered() {
    let key = TestKey::ed("1");
    let token = key.token(&claims(json!({ "nbf": NOW + 61 })));
    let fixture = Fixture::with_keys(&[&key]).await;
    assert_eq!(fixture.refusal(&token).await, TokenRefusal::NotYetValid);
    assert!(!fixture.issuers.is_verified_already(&token));
    fixture.clock.advance(1);
    assert!(fixture.verify(&token).await.is_ok());
}

#[tokio::test]
async fn a_changed_set_makes_all_tokens_be_checked_again() {
    let (old, new) = (TestKey::ed("1"), TestKey::ed("2"));
    let token = old.token(&claims(json!({})));
    let fixture = Fixture::with_keys(&[&old]).await;
    assert!(fixture.verify(&token).await.is_ok());
    fixture.clock.advance(60);
    fixture.publish(&[&new]);
    assert!(fixture.verify(&new.token(&claims(json!({})))).await.is_ok());
    assert!(!fixture.issuers.is_verified_already(&token));
    assert_eq!(fixture.refusal(&token).await, TokenRefusal::UnknownKey);
}

#[tokio::test]
async fn the_same_set_loaded_again_keeps_tokens_verified() {
    let key = TestKey::ed("1");
    let token = key.token(&claims(json!({ "exp": u64::MAX })));
    let fixture = Fixture::with_keys(&[&key]).await;
    assert!(fixture.verify(&token).await.is_ok());
    fixture.clock.advance(3600);
    fixture.publish(&[&key]);
    let another = key.token(&claims(json!({ "sub": "grace", "exp": u64::MAX })));
    assert!(fixture.verify(&another).await.is_ok());
    assert_eq!(fixture.requests(), 2);
    assert!(fixture.issuers.is_verified_already(&token));
}
