//! The user, the apps and the admin of a token.

use identity::{JwksSource, JwtIssuerConfig, JwtIssuers, TokenRefusal};
use serde_json::{Value, json};
use testkit::web::{Web, WebReply};

use crate::support::{AUDIENCE, Fixture, ISSUER, MovedClock, TestKey, claims, key_set};

#[tokio::test]
async fn a_user_name_has_visible_ascii_characters_only() {
    let key = TestKey::ed("k");
    let fixture = Fixture::with_keys(&[&key]).await;
    let refusal = TokenRefusal::UserNotAcceptable { claim: "sub".into() };
    let names = [
        json!(""),
        json!("ada lovelace"),
        json!(" "),
        json!("ada\n"),
        json!("ada\u{0}"),
        json!("ada\u{7f}"),
        json!("аda"), // begins with a Cyrillic letter
        json!("ada\u{200b}"),
        json!("ａｄａ"),
        json!("adá"),
        json!("x".repeat(201 - "shop:".len())),
        json!(7),
        json!(true),
        Value::Null,
    ];
    for name in names {
        let token = key.token(&claims(json!({ "sub": name })));
        assert_eq!(fixture.refusal(&token).await, refusal, "{name:?}");
    }
    let array = key.token(&claims(json!({ "sub": ["ada"] })));
    assert_eq!(fixture.refusal(&array).await, TokenRefusal::Malformed);
    for name in
        ["x".repeat(200 - "shop:".len()), "a".into(), "auth0|5f7c8ec7".into(), "ada@example.com".into()]
    {
        let token = key.token(&claims(json!({ "sub": name })));
        assert_eq!(fixture.verify(&token).await.unwrap().user, format!("shop:{name}"));
    }
}

#[tokio::test]
async fn a_claim_is_found_by_its_literal_name() {
    let key = TestKey::ed("k");
    let fixture = Fixture::configured(|config| {
        config.user_claim = "https://app.example/user".into();
        config.app_claim = Some("https://app.example/apps".into());
        config.admin_claim = Some("https://app.example/roles?v=1=admin".into());
        config.prefix = String::new();
    })
    .await;
    fixture.publish(&[&key]);
    let own = json!({
        "https://app.example/user": "grace", "https://app.example/apps": "notes tasks",
        "https://app.example/roles?v=1": ["reader", "admin"],
    });
    let verified = fixture.verify(&key.token(&claims(own))).await.unwrap();
    assert_eq!((verified.user.as_str(), verified.admin), ("grace", true));
    assert_eq!(verified.apps, Some(vec!["notes".into(), "tasks".into()]));
    let nested = json!({ "https://app": { "example/user": "grace" } });
    let refusal = TokenRefusal::UserNotAcceptable { claim: "https://app.example/user".into() };
    assert_eq!(fixture.refusal(&key.token(&claims(nested))).await, refusal);
}

#[tokio::test]
async fn refusals_do_not_repeat_what_a_token_says() {
    let key = TestKey::ed("k");
    let fixture = Fixture::with_keys(&[&key]).await;
    for changes in [
        json!({ "sub": "geheim é" }),
        json!({ "iss": "geheim" }),
        json!({ "aud": "geheim" }),
        json!({ "exp": "geheim" }),
    ] {
        let refusal = fixture.refusal(&key.token(&claims(changes))).await;
        assert!(!format!("{refusal} {refusal:?}").contains("geheim"), "{refusal}");
    }
}

#[tokio::test]
async fn no_issuer_can_name_a_user_of_another() {
    let key = TestKey::ed("k");
    let web = Web::start().await;
    web.on("GET", "/", [WebReply::json(&key_set(&[&key]))]);
    let plain = JwtIssuerConfig {
        prefix: String::new(),
        ..JwtIssuerConfig::new("plain", ISSUER, AUDIENCE, JwksSource::Url(web.url()))
    };
    let other = JwtIssuerConfig::new("shop", "https://shop", AUDIENCE, JwksSource::Url(web.url()));
    let issuers = JwtIssuers::new(vec![plain, other], MovedClock::new()).unwrap();
    let token = |user: &str| key.token(&claims(json!({ "sub": user })));
    assert_eq!(issuers.verify(&token("ada")).await.unwrap().user, "ada");
    let refusal = TokenRefusal::UserNotAcceptable { claim: "sub".into() };
    assert_eq!(issuers.verify(&token("shop:ada")).await, Err(refusal));
    assert_eq!(issuers.issuer_of_name("shop:ada"), Some("shop"));
    assert_eq!(issuers.issuer_of_name("ada"), None);
    let entry = issuers.entry_of("plain");
    assert!(
        entry.starts_with(&format!("plain {ISSUER} ")) && issuers.has_entry(&entry) && !issuers.is_empty()
    );
    assert!(!issuers.has_entry("") && !issuers.has_entry("plain"));
    assert!(JwtIssuers::new(Vec::new(), MovedClock::new()).unwrap().is_empty());
}
