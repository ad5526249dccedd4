//! An issuer of JWTs: its key set in a file, and tokens with any claims.

use std::path::PathBuf;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::{JwksSource, JwtIssuerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Signs with a key of its own. The file of its key set lives as long as it does.
pub struct TestIssuer {
    pair: Ed25519KeyPair,
    folder: TempDir,
    name: String,
}

impl TestIssuer {
    /// An issuer of this name, whose tokens are for the audience `rondo`.
    pub fn new(name: &str) -> Self {
        let pair = Ed25519KeyPair::generate().expect("a key");
        let folder = tempfile::tempdir().expect("a folder");
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let key =
            json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": name, "x": x });
        let issuer = Self { pair, folder, name: name.to_owned() };
        std::fs::write(issuer.key_file(), json!({ "keys": [key] }).to_string()).expect("a key set");
        issuer
    }

    fn key_file(&self) -> PathBuf {
        self.folder.path().join("jwks.json")
    }

    /// The exact `iss` of its tokens.
    pub fn url(&self) -> String {
        format!("https://{}.example", self.name)
    }

    pub fn config(&self) -> JwtIssuerConfig {
        JwtIssuerConfig::new(&self.name, &self.url(), "rondo", JwksSource::File(self.key_file()))
    }

    /// A token with these claims beside or over `iss` and `aud`.
    pub fn token(&self, claims: &Value) -> String {
        let mut all =
            serde_json::Map::from_iter([("iss".into(), json!(self.url())), ("aud".into(), json!("rondo"))]);
        all.extend(claims.as_object().expect("claims are an object").clone());
        self.sign(&json!({ "alg": "EdDSA", "typ": "JWT", "kid": self.name }), &all.into())
    }

    /// Any header and claims, with a signature that is good.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}
