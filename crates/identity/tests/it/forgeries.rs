//! Forged tokens: the attacks of RFC 8725, and tokens that are no tokens.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use identity::{JwksSource, JwtAlgorithm, JwtIssuerConfig, JwtIssuers, TokenRefusal};
use serde_json::{Value, json};
use testkit::web::WebReply;

use crate::support::{AUDIENCE, Fixture, ISSUER, MovedClock, NOW, TestKey, claims, encode, key_set, merged};

/// Every token is refused for its reason, and a good token of the same key is accepted afterwards.
async fn expect_refusals(key: &TestKey, tokens: Vec<(&str, String, TokenRefusal)>) {
    let fixture = Fixture::with_keys(&[key]).await;
    for (what, token, expected) in tokens {
        assert_eq!(fixture.verify(&token).await, Err(expected), "{what}");
        assert!(!fixture.issuers.is_verified_already(&token), "{what}");
    }
    assert_eq!(fixture.verify(&key.token(&claims(json!({})))).await.unwrap().user, "shop:ada");
}

fn with_header(key: &TestKey, changes: Value) -> String {
    key.token_of(&merged(key.header(), changes), &claims(json!({})))
}

#[tokio::test]
async fn each_algorithm_verifies_with_and_without_a_key_id() {
    for key in [TestKey::rsa("r"), TestKey::ec("e"), TestKey::ed("d")] {
        let fixture = Fixture::with_keys(&[&TestKey::ed("other"), &TestKey::ec("another"), &key]).await;
        for header in [key.header(), json!({ "alg": key.algorithm() })] {
            let token = key.token_of(&header, &claims(json!({})));
            let verified = fixture.verify(&token).await.unwrap();
            assert_eq!((verified.user.as_str(), verified.apps, verified.admin), ("shop:ada", None, false));
            assert_eq!(verified.expires_at.as_second(), NOW + 3600 + 60);
        }
        assert_eq!(fixture.requests(), 1);
    }
}

#[tokio::test]
async fn a_token_without_a_signature_algorithm_is_refused() {
    let key = TestKey::ed("k");
    let mut tokens = Vec::new();
    for name in ["none", "None", "NONE", "nOnE", "", "HS384", "RS512", "PS256", "eddsa", "Ed25519"] {
        let signed = with_header(&key, json!({ "alg": name }));
        let unsigned = format!("{}.", signed.rsplit_once('.').unwrap().0);
        tokens.push((name, signed, TokenRefusal::AlgorithmNotAllowed));
        tokens.push((name, unsigned, TokenRefusal::AlgorithmNotAllowed));
    }
    for alg in [json!(7), json!(["EdDSA"]), Value::Null] {
        tokens.push(("no name", with_header(&key, json!({ "alg": alg })), TokenRefusal::Malformed));
    }
    expect_refusals(&key, tokens).await;
}

#[tokio::test]
async fn a_public_key_is_no_secret() {
    let key = TestKey::rsa("k");
    let jwk = key.jwk();
    let [pkcs1, x509] = key.rsa_ders();
    let pem = |label: &str, der: &[u8]| {
        let lines: Vec<String> = STANDARD
            .encode(der)
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8_lossy(line).into())
            .collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n")).into_bytes()
    };
    let n = jwk["n"].as_str().unwrap();
    let secrets = [
        ("PEM", pem("PUBLIC KEY", &x509)),
        ("PEM of PKCS#1", pem("RSA PUBLIC KEY", &pkcs1)),
        ("DER", x509),
        ("DER of PKCS#1", pkcs1),
        ("the text of n", n.as_bytes().to_vec()),
        ("n", base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(n).unwrap()),
        ("the whole key", jwk.to_string().into_bytes()),
        ("nothing", Vec::new()),
    ];
    let mut tokens = Vec::new();
    for (what, secret) in secrets {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        for (name, expected) in
            [("HS256", TokenRefusal::AlgorithmNotAllowed), ("RS256", TokenRefusal::BadSignature)]
        {
            let header = json!({ "alg": name, "kid": "k" }).to_string();
            let message = format!("{}.{}", encode(header), encode(claims(json!({})).to_string()));
            let tag = hmac::sign(&secret, message.as_bytes());
            tokens.push((what, format!("{message}.{}", encode(tag)), expected));
        }
    }
    expect_refusals(&key, tokens).await;
}

#[tokio::test]
async fn a_secret_in_a_key_set_is_never_used() {
    let secret = encode([7; 32]);
    let jwk = json!({ "kty": "oct", "kid": "s", "alg": "HS256", "k": secret });
    let fixture = Fixture::silent().await;
    fixture.reply(WebReply::json(&json!({ "keys": [jwk, TestKey::ed("k").jwk()] })));
    let message =
        format!("{}.{}", encode(r#"{"alg":"HS256","kid":"s"}"#), encode(claims(json!({})).to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), message.as_bytes());
    assert_eq!(
        fixture.refusal(&format!("{message}.{}", encode(tag))).await,
        TokenRefusal::AlgorithmNotAllowed
    );
}

#[tokio::test]
async fn a_key_serves_its_own_algorithm_only() {
    let (rsa, ec, ed) = (TestKey::rsa("r"), TestKey::ec("e"), TestKey::ed("d"));
    let fixture = Fixture::with_keys(&[&rsa, &ec, &ed]).await;
    for key in [&rsa, &ec, &ed] {
        for other in [&rsa, &ec, &ed].into_iter().filter(|other| other.kid != key.kid) {
            let token = with_header(key, json!({ "alg": other.algorithm() }));
            assert_eq!(fixture.refusal(&token).await, TokenRefusal::UnknownKey);
            let token = with_header(key, json!({ "alg": other.algorithm(), "kid": other.kid }));
            assert_eq!(fixture.refusal(&token).await, TokenRefusal::BadSignature);
            let token = with_header(key, json!({ "alg": other.algorithm(), "kid": null }));
            assert_eq!(fixture.refusal(&token).await, TokenRefusal::BadSignature);
        }
    }
}

#[tokio::test]
async fn an_algorithm_that_is_not_configured_is_refused_even_if_the_key_is_published() {
    let key = TestKey::ec("k");
    let fixture = Fixture::configured(|config| config.algorithms = vec![JwtAlgorithm::RS256]).await;
    // Nothing is published, so a request for keys would fail the test.
    assert_eq!(fixture.refusal(&key.token(&claims(json!({})))).await, TokenRefusal::AlgorithmNotAllowed);
}

#[tokio::test]
async fn a_token_for_somebody_else_is_refused() {
    let key = TestKey::ed("k");
    let token = |changes: Value| key.token(&claims(changes));
    let mut tokens = Vec::new();
    for aud in
        [json!("other"), json!(["other", "RONDO"]), json!([]), json!(7), json!([7, AUDIENCE]), Value::Null]
    {
        tokens.push(("aud", token(json!({ "aud": aud })), TokenRefusal::WrongAudience));
    }
    let shorter = ISSUER.trim_end_matches('/');
    for iss in [json!("https://evil.example/"), json!(shorter), json!([ISSUER]), json!(""), Value::Null] {
        tokens.push(("iss", token(json!({ "iss": iss })), TokenRefusal::UnknownIssuer));
    }
    expect_refusals(&key, tokens).await;
    let fixture = Fixture::with_keys(&[&key]).await;
    assert!(fixture.verify(&token(json!({ "aud": ["other", AUDIENCE] }))).await.is_ok());
}

#[tokio::test]
async fn times_are_compared_with_the_clock_and_the_leeway() {
    let key = TestKey::ed("k");
    let token = |changes: Value| key.token(&claims(changes));
    let time = |claim| TokenRefusal::TimeNotAcceptable { claim };
    let mut tokens = vec![
        ("exp", token(json!({ "exp": NOW - 60 })), TokenRefusal::Expired),
        ("exp 0", token(json!({ "exp": 0 })), TokenRefusal::Expired),
        ("nbf", token(json!({ "nbf": NOW + 61 })), TokenRefusal::NotYetValid),
        ("nbf far", token(json!({ "nbf": u64::MAX })), TokenRefusal::NotYetValid),
        ("iat", token(json!({ "iat": NOW + 61 })), TokenRefusal::IssuedInFuture),
        ("no exp", token(json!({ "exp": null })), time("exp")),
    ];
    for value in [json!(-1), json!("1772370000"), json!(true)] {
        tokens.push(("exp", token(json!({ "exp": value })), time("exp")));
    }
    for value in [json!([NOW + 3600]), json!({ "s": NOW + 3600 })] {
        tokens.push(("exp", token(json!({ "exp": value })), TokenRefusal::Malformed));
    }
    tokens.push(("nbf", token(json!({ "nbf": "0" })), time("nbf")));
    tokens.push(("iat", token(json!({ "iat": -5 })), time("iat")));
    let huge = claims(json!({})).to_string().replace(&(NOW + 3600).to_string(), "1e400");
    tokens.push(("1e400", key.token_of_texts(&key.header().to_string(), &huge), TokenRefusal::Malformed));
    expect_refusals(&key, tokens).await;
    let fixture = Fixture::with_keys(&[&key]).await;
    for changes in [json!({ "exp": NOW - 59 }), json!({ "nbf": NOW + 60, "iat": NOW + 60 })] {
        assert!(fixture.verify(&token(changes)).await.is_ok());
    }
    let endless = fixture.verify(&token(json!({ "exp": u64::MAX }))).await.unwrap();
    assert_eq!(endless.expires_at, jiff::Timestamp::MAX);
}

#[tokio::test]
async fn headers_cannot_bring_a_key_or_change_the_rules() {
    let (key, own) = (TestKey::ed("k"), TestKey::ed("k"));
    let mut tokens = vec![
        ("crit", with_header(&key, json!({ "crit": ["exp"] })), TokenRefusal::CriticalHeader),
        ("empty crit", with_header(&key, json!({ "crit": [] })), TokenRefusal::CriticalHeader),
        ("b64", with_header(&key, json!({ "b64": false })), TokenRefusal::CriticalHeader),
        (
            "b64 and crit",
            with_header(&key, json!({ "b64": true, "crit": ["b64"] })),
            TokenRefusal::CriticalHeader,
        ),
        ("kid", with_header(&key, json!({ "kid": 7 })), TokenRefusal::Malformed),
        ("kid as a path", with_header(&key, json!({ "kid": "../../dev/null" })), TokenRefusal::UnknownKey),
    ];
    // A request to this port would be an answer that no test waits for, and the key is not the published one.
    let injections = [
        json!({ "jwk": own.jwk() }),
        json!({ "jku": "http://127.0.0.1:9/keys" }),
        json!({ "x5u": "http://127.0.0.1:9/chain" }),
        json!({ "x5c": ["AAAA"] }),
    ];
    for injection in injections {
        tokens.push((
            "a key in the header",
            with_header(&own, injection.clone()),
            TokenRefusal::BadSignature,
        ));
        let header = merged(merged(own.header(), injection), json!({ "kid": "new" }));
        tokens.push(("with a new id", own.token_of(&header, &claims(json!({}))), TokenRefusal::UnknownKey));
    }
    for kind in ["dpop+jwt", "logout+jwt", "secevent+jwt", "application/logout+jwt", "JWE", "", "JWT "] {
        tokens.push(("typ", with_header(&key, json!({ "typ": kind })), TokenRefusal::WrongType));
    }
    tokens.push(("typ", with_header(&key, json!({ "typ": 1 })), TokenRefusal::WrongType));
    expect_refusals(&key, tokens).await;
    let fixture = Fixture::with_keys(&[&key]).await;
    for kind in ["jwt", "at+jwt", "AT+JWT", "application/at+jwt", "Application/JWT"] {
        assert!(fixture.verify(&with_header(&key, json!({ "typ": kind }))).await.is_ok(), "{kind}");
    }
}

#[tokio::test]
async fn a_name_must_not_occur_twice() {
    let key = TestKey::ed("k");
    let (header, body) = (key.header().to_string(), claims(json!({})).to_string());
    let doubled = |text: &str, more: &str| text.replacen('{', &format!("{{{more},"), 1);
    let tokens = vec![
        ("sub", key.token_of_texts(&header, &doubled(&body, r#""sub":"root""#))),
        ("escaped", key.token_of_texts(&header, &doubled(&body, r#""\u0073ub":"root""#))),
        ("equal", key.token_of_texts(&header, &doubled(&body, r#""sub":"ada""#))),
        ("another claim", key.token_of_texts(&header, &doubled(&body, r#""x":1,"x":1"#))),
        ("alg", key.token_of_texts(&doubled(&header, r#""alg":"none""#), &body)),
        ("kid", key.token_of_texts(&doubled(&header, r#""kid":"k""#), &body)),
    ];
    let tokens = tokens.into_iter().map(|(what, token)| (what, token, TokenRefusal::Malformed)).collect();
    expect_refusals(&key, tokens).await;
}

#[tokio::test]
async fn other_shapes_are_no_tokens() {
    let key = TestKey::ed("k");
    let token = key.token(&claims(json!({})));
    let [header, body, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    // The last character of 64 bytes has four unused bits; a lenient reader takes all of them for the same signature.
    let last = signature.chars().last().unwrap();
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let next = alphabet.chars().nth(alphabet.find(last).unwrap() + 1).unwrap();
    let sloppy = format!("{}{next}", token.strip_suffix(last).unwrap());
    let deep = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
    let deep = body_with(&deep);
    let shapes = vec![
        ("nothing", String::new()),
        ("one part", header.to_owned()),
        ("two parts", format!("{header}.{body}")),
        ("four parts", format!("{token}.")),
        ("five parts, as of a JWE", format!("{header}.{body}.{signature}.{body}.{signature}")),
        ("a dot before", format!(".{token}")),
        ("two dots", token.replacen('.', "..", 1)),
        ("no header", format!(".{body}.{signature}")),
        ("no claims", format!("{header}..{signature}")),
        ("padding", format!("{token}==")),
        ("unused bits", sloppy),
        ("a space before", format!(" {token}")),
        ("a line after", format!("{token}\n")),
        ("the other alphabet", format!("{header}.{body}.+/{}", &signature[2..])),
        ("an array", key.token_of_texts(&key.header().to_string(), "[]")),
        ("a header that is a string", key.token_of_texts(r#""EdDSA""#, &claims(json!({})).to_string())),
        ("no JSON", key.token_of_texts(&key.header().to_string(), "{")),
        ("two objects", key.token_of_texts(&key.header().to_string(), "{}{}")),
        ("deep JSON", key.token_of_texts(&key.header().to_string(), &deep)),
        ("not ASCII", format!("{token}é")),
    ];
    let mut tokens: Vec<_> =
        shapes.into_iter().map(|(what, token)| (what, token, TokenRefusal::Malformed)).collect();
    tokens.push(("no signature", format!("{header}.{body}."), TokenRefusal::BadSignature));
    tokens.push((
        "a short signature",
        format!("{header}.{body}.{}", &signature[..80]),
        TokenRefusal::BadSignature,
    ));
    tokens.push(("zeros", format!("{header}.{body}.{}", encode([0; 64])), TokenRefusal::BadSignature));
    expect_refusals(&key, tokens).await;
}

fn body_with(value: &str) -> String {
    claims(json!({})).to_string().replacen('{', &format!(r#"{{"x":{value},"#), 1)
}

#[tokio::test]
async fn a_long_token_is_refused_before_it_is_read() {
    let key = TestKey::ed("k");
    let long = |bytes: usize| key.token(&claims(json!({ "x": "x".repeat(bytes) })));
    let fixture = Fixture::with_keys(&[&key]).await;
    let ten = long(7_500);
    assert!(ten.len() > 10_000);
    assert_eq!(fixture.refusal(&ten).await, TokenRefusal::TooLarge);
    assert_eq!(fixture.refusal(&"x".repeat(8 * 1024 + 1)).await, TokenRefusal::TooLarge);
    assert_eq!(fixture.refusal(&"x".repeat(8 * 1024)).await, TokenRefusal::Malformed);
    let largest = (5_000..7_500).rev().map(long).find(|token| token.len() <= 8 * 1024).unwrap();
    assert!(largest.len() > 8 * 1024 - 4);
    assert!(fixture.verify(&largest).await.is_ok());
}

#[tokio::test]
async fn issuers_do_not_share_keys() {
    let (first, second) = (Fixture::silent().await.web, Fixture::silent().await.web);
    let (one, two) = (TestKey::ec("k1"), TestKey::ec("k1"));
    first.on("GET", "/", [WebReply::json(&key_set(&[&one]))]);
    second.on("GET", "/", [WebReply::json(&key_set(&[&two]))]);
    let entry = |name: &str, issuer: &str, url: String| {
        JwtIssuerConfig::new(name, issuer, AUDIENCE, JwksSource::Url(url))
    };
    let entries = vec![entry("one", "https://one", first.url()), entry("two", "https://two", second.url())];
    let issuers = JwtIssuers::new(entries, MovedClock::new()).unwrap();
    let token = |key: &TestKey, iss: &str| key.token(&claims(json!({ "iss": iss })));
    assert_eq!(issuers.verify(&token(&one, "https://one")).await.unwrap().user, "one:ada");
    assert_eq!(issuers.verify(&token(&two, "https://two")).await.unwrap().user, "two:ada");
    for (key, iss) in [(&one, "https://two"), (&two, "https://one")] {
        assert_eq!(issuers.verify(&token(key, iss)).await, Err(TokenRefusal::BadSignature));
    }
}

#[tokio::test]
async fn one_issuer_with_two_audiences_is_two_entries() {
    let (first, second) = (Fixture::silent().await.web, Fixture::silent().await.web);
    let (web, phone) = (TestKey::ed("w"), TestKey::ed("p"));
    first.on("GET", "/", [WebReply::json(&key_set(&[&web]))]);
    second.on("GET", "/", [WebReply::json(&key_set(&[&phone]))]);
    let entry = |name: &str, url: String| JwtIssuerConfig::new(name, ISSUER, name, JwksSource::Url(url));
    let issuers =
        JwtIssuers::new(vec![entry("web", first.url()), entry("phone", second.url())], MovedClock::new());
    let issuers = issuers.unwrap();
    let token = |key: &TestKey, aud: Value| key.token(&claims(json!({ "aud": aud })));
    assert_eq!(issuers.verify(&token(&phone, json!("phone"))).await.unwrap().issuer, "phone");
    assert_eq!(issuers.verify(&token(&web, json!("web"))).await.unwrap().issuer, "web");
    assert_eq!(issuers.verify(&token(&phone, json!(["web", "phone"]))).await.unwrap().issuer, "phone");
    assert_eq!(issuers.verify(&token(&phone, json!("web"))).await, Err(TokenRefusal::UnknownKey));
    assert_eq!(issuers.verify(&token(&phone, json!("desk"))).await, Err(TokenRefusal::WrongAudience));
}
