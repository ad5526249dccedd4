//! The address of keys, found through `/.well-known/openid-configuration`.

use std::sync::Arc;

use identity::{JwksProblem, JwksSource, JwtIssuerConfig, JwtIssuers};
use serde_json::{Value, json};
use testkit::web::{Web, WebReply};

use crate::support::{AUDIENCE, MovedClock, TestKey, claims, key_set, unavailable};

const PATH: &str = "/tenant/.well-known/openid-configuration";

fn issuers(issuer: &str) -> (JwtIssuers, Arc<MovedClock>) {
    let clock = MovedClock::new();
    let config = JwtIssuerConfig::new("shop", issuer, AUDIENCE, JwksSource::Discovery);
    (JwtIssuers::new(vec![config], clock.clone()).unwrap(), clock)
}

#[tokio::test]
async fn the_keys_are_where_the_issuer_says() {
    let key = TestKey::ec("1");
    for slash in ["", "/"] {
        let web = Web::start().await;
        let issuer = format!("{}/tenant{slash}", web.url());
        let found =
            json!({ "issuer": issuer, "jwks_uri": format!("{}/certs", web.url()), "scopes_supported": [] });
        web.on("GET", PATH, [WebReply::json(&found)]);
        web.on("GET", "/certs", [WebReply::json(&key_set(&[&key]))]);
        let (issuers, _) = issuers(&issuer);
        let token = key.token(&claims(json!({ "iss": issuer })));
        assert_eq!(issuers.verify(&token).await.unwrap().user, "shop:ada");
    }
}

#[tokio::test]
async fn a_document_of_another_issuer_is_not_believed() {
    let web = Web::start().await;
    let issuer = format!("{}/tenant", web.url());
    let keys = format!("{}/certs", web.url());
    let (issuers, clock) = issuers(&issuer);
    let token = TestKey::ed("1").token(&claims(json!({ "iss": issuer })));
    let document =
        |issuer: Value, keys: Value| WebReply::json(&json!({ "issuer": issuer, "jwks_uri": keys }));
    let cases = [
        (document(json!("https://evil.example"), json!(keys)), JwksProblem::OtherIssuer),
        (document(json!(format!("{issuer}/")), json!(keys)), JwksProblem::OtherIssuer),
        (document(json!(issuer), json!("http://192.0.2.1/certs")), JwksProblem::KeyAddress),
        (document(json!(issuer), json!("file:///etc/passwd")), JwksProblem::KeyAddress),
        (document(json!(issuer), json!("/certs")), JwksProblem::KeyAddress),
        (document(json!(issuer), Value::Null), JwksProblem::NotDiscovery),
        (WebReply::text("{"), JwksProblem::NotDiscovery),
        (WebReply::endless(1 << 20), JwksProblem::TooLarge),
        (WebReply::redirect(302, "/certs"), JwksProblem::Status(302)),
    ];
    for (reply, problem) in cases {
        web.on("GET", PATH, [reply]);
        assert_eq!(issuers.verify(&token).await, Err(unavailable()));
        assert_eq!(issuers.key_problem("shop"), Some(problem));
        clock.advance(60);
    }
}
