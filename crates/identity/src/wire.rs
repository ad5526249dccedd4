//! JSON documents of issuers, with the names that RFC 7517 and `OpenID` Connect give them.

use serde::Deserialize;
use serde_json::Value;

/// A JWK Set. Each key is read alone, because one strange key must not hide the others.
#[derive(Debug, Deserialize)]
pub(crate) struct JwkSet {
    pub(crate) keys: Vec<Value>,
}

/// A JSON Web Key.
#[derive(Debug, Deserialize)]
pub(crate) struct Jwk {
    pub(crate) kty: String,
    #[serde(rename = "use")]
    pub(crate) purpose: Option<String>,
    pub(crate) key_ops: Option<Vec<String>>,
    pub(crate) alg: Option<String>,
    pub(crate) kid: Option<String>,
    pub(crate) crv: Option<String>,
    pub(crate) x: Option<String>,
    pub(crate) y: Option<String>,
    pub(crate) n: Option<String>,
    pub(crate) e: Option<String>,
}

/// The parts of `/.well-known/openid-configuration` that are used.
#[derive(Debug, Deserialize)]
pub(crate) struct OpenIdConfiguration {
    pub(crate) issuer: String,
    pub(crate) jwks_uri: String,
}
