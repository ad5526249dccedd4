//! A valid token with one character changed is no valid token.

use serde_json::json;

use crate::support::{Fixture, TestKey, claims};

#[tokio::test]
async fn no_token_with_a_changed_character_verifies() {
    for key in [TestKey::rsa("k"), TestKey::ec("k"), TestKey::ed("k")] {
        let token = key.token(&claims(json!({ "admin": false })));
        let fixture = Fixture::with_keys(&[&key]).await;
        assert!(fixture.verify(&token).await.is_ok());
        for at in 0..token.len() {
            let byte = token.as_bytes()[at];
            let neighbours = [byte ^ 1, byte ^ 2, byte ^ 4, byte ^ 8, byte ^ 16, byte ^ 32];
            for other in neighbours.into_iter().chain(*b"A_-.=\0 ").filter(|other| *other != byte) {
                let mut bytes = token.clone().into_bytes();
                bytes[at] = other;
                let changed = String::from_utf8(bytes).unwrap();
                assert!(fixture.verify(&changed).await.is_err(), "{at}: {other}: {changed}");
            }
            let (before, after) = token.split_at(at);
            let shorter = format!("{before}{}", &after[1..]);
            let longer = format!("{before}A{after}");
            assert!(fixture.verify(before).await.is_err(), "cut at {at}");
            assert!(fixture.verify(&shorter).await.is_err(), "{at} left out");
            assert!(fixture.verify(&longer).await.is_err(), "one more at {at}");
        }
        assert!(fixture.verify(&token).await.is_ok());
        assert_eq!(fixture.requests(), 1);
    }
}
