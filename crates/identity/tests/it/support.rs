//! Keys that sign, a clock that a test moves, and an issuer on a real socket.

use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::{JwksSource, JwtIssuerConfig, JwtIssuers, TokenRefusal, VerifiedToken};
use jiff::{SignedDuration, Timestamp};
use protocol::Clock;
use serde_json::{Map, Value, json};
use testkit::web::{Web, WebReply};

pub(crate) const ISSUER: &str = "https://sign-in.example/";
pub(crate) const AUDIENCE: &str = "rondo";
/// 2026-03-01 12:00.
pub(crate) const NOW: i64 = 1_772_366_400;
const KEY_PATH: &str = "/keys";

/// A clock that a test moves.
pub(crate) struct MovedClock(Mutex<Timestamp>);

impl MovedClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Timestamp::from_second(NOW).unwrap())))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        let mut now = self.0.lock().unwrap();
        *now += SignedDuration::from_secs(seconds);
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
    Ed(Box<Ed25519KeyPair>),
}

/// A key of an issuer, with both halves.
pub(crate) struct TestKey {
    pub(crate) kid: &'static str,
    pair: Pair,
}

impl TestKey {
    pub(crate) fn rsa(kid: &'static str) -> Self {
        Self { kid, pair: Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())) }
    }

    pub(crate) fn ec(kid: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { kid, pair: Pair::Ec(Box::new(pair)) }
    }

    pub(crate) fn ed(kid: &'static str) -> Self {
        Self { kid, pair: Pair::Ed(Box::new(Ed25519KeyPair::generate().unwrap())) }
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// The public half, as the issuer publishes it.
    pub(crate) fn jwk(&self) -> Value {
        let common = json!({ "kid": self.kid, "alg": self.algorithm(), "use": "sig" });
        let own = match &self.pair {
            Pair::Rsa(pair) => {
                let numbers = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({ "kty": "RSA", "n": encode(&numbers.n), "e": encode(&numbers.e) })
            }
            Pair::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) })
            }
            Pair::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref()) })
            }
        };
        merged(common, own)
    }

    /// The public half of an RSA key in the two encodings that programs use.
    pub(crate) fn rsa_ders(&self) -> [Vec<u8>; 2] {
        let Pair::Rsa(pair) = &self.pair else { panic!("an RSA key is needed") };
        let public = pair.public_key();
        [public.as_ref().to_vec(), public.as_der().unwrap().as_ref().to_vec()]
    }

    pub(crate) fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// The header of an ordinary token.
    pub(crate) fn header(&self) -> Value {
        json!({ "alg": self.algorithm(), "kid": self.kid, "typ": "JWT" })
    }

    /// An ordinary token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_of(&self.header(), claims)
    }

    pub(crate) fn token_of(&self, header: &Value, claims: &Value) -> String {
        self.token_of_texts(&header.to_string(), &claims.to_string())
    }

    pub(crate) fn token_of_texts(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = encode(self.signature(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Claims of an ordinary token, changed by these. A null removes a claim.
pub(crate) fn claims(changes: Value) -> Value {
    let ordinary = json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": NOW, "exp": NOW + 3600 });
    merged(ordinary, changes)
}

/// The first object with the values of the second. A null removes a value.
pub(crate) fn merged(first: Value, second: Value) -> Value {
    let (Value::Object(mut first), Value::Object(second)) = (first, second) else { panic!("two objects") };
    first.extend(second);
    first.retain(|_, value| !value.is_null());
    Value::Object(Map::from_iter(first))
}

pub(crate) fn key_set(keys: &[&TestKey]) -> Value {
    let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
    json!({ "keys": keys })
}

/// One issuer on a real socket, and the server's view of it.
pub(crate) struct Fixture {
    pub(crate) web: Web,
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) issuers: Arc<JwtIssuers>,
}

impl Fixture {
    /// The issuer publishes nothing yet.
    pub(crate) async fn silent() -> Self {
        Self::configured(|_| ()).await
    }

    pub(crate) async fn configured(change: impl FnOnce(&mut JwtIssuerConfig)) -> Self {
        let web = Web::start().await;
        let clock = MovedClock::new();
        let mut config = config(&web);
        change(&mut config);
        let issuers = Arc::new(JwtIssuers::new(vec![config], clock.clone()).unwrap());
        Self { web, clock, issuers }
    }

    /// The issuer publishes these keys once.
    pub(crate) async fn with_keys(keys: &[&TestKey]) -> Self {
        let fixture = Self::silent().await;
        fixture.publish(keys);
        fixture
    }

    /// The answer to the next request for keys.
    pub(crate) fn publish(&self, keys: &[&TestKey]) {
        self.reply(WebReply::json(&key_set(keys)));
    }

    pub(crate) fn reply(&self, reply: WebReply) {
        self.web.on("GET", KEY_PATH, [reply]);
    }

    pub(crate) async fn verify(&self, token: &str) -> Result<VerifiedToken, TokenRefusal> {
        self.issuers.verify(token).await
    }

    pub(crate) async fn refusal(&self, token: &str) -> TokenRefusal {
        match self.verify(token).await {
            Err(refusal) => refusal,
            Ok(verified) => panic!("the token was accepted: {verified:?}"),
        }
    }

    /// How often the keys were asked for.
    pub(crate) fn requests(&self) -> usize {
        self.web.arrivals().len()
    }
}

pub(crate) fn config(web: &Web) -> JwtIssuerConfig {
    let keys = JwksSource::Url(format!("{}{KEY_PATH}", web.url()));
    JwtIssuerConfig::new("shop", ISSUER, AUDIENCE, keys)
}

pub(crate) fn unavailable() -> TokenRefusal {
    TokenRefusal::KeysNotAvailable { issuer: "shop".into() }
}
