//! The public keys of an issuer, read from a JWK Set. A key that cannot be trusted for a signature is left out.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;

use crate::config::JwtAlgorithm;
use crate::problem::JwksProblem;
use crate::wire::{Jwk, JwkSet};

/// Keys in one set.
const MAX_KEYS: usize = 100;
/// Keys that are tried for one token.
const MAX_TRIED_KEYS: usize = 16;
/// Bits of an RSA modulus. Shorter ones can be broken, and longer ones take too much time.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Bits of an RSA exponent. The exponent 1 would accept every signature.
const RSA_EXPONENT_BITS: std::ops::RangeInclusive<usize> = 2..=33;
/// Bytes of a coordinate on P-256, and of a key on Ed25519.
const COORDINATE_BYTES: usize = 32;
/// Begins a point with both coordinates.
const UNCOMPRESSED_POINT: u8 = 4;

/// The keys of one document.
pub(crate) struct KeySet {
    keys: Vec<IssuerKey>,
    /// Keys of the document that are not used here, such as keys for encryption.
    pub(crate) left_out: usize,
}

/// A key that is good for exactly one algorithm.
pub(crate) struct IssuerKey {
    kid: Option<String>,
    algorithm: JwtAlgorithm,
    pub(crate) public: DecodingKey,
}

impl KeySet {
    pub(crate) fn parse(document: &[u8]) -> Result<Self, JwksProblem> {
        let set: JwkSet = serde_json::from_slice(document).map_err(|_| JwksProblem::NotKeySet)?;
        if set.keys.len() > MAX_KEYS {
            return Err(JwksProblem::TooManyKeys);
        }
        let all = set.keys.len();
        let jwks = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<IssuerKey> = jwks.filter_map(IssuerKey::from_jwk).collect();
        Ok(Self { left_out: all - keys.len(), keys })
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys that may have signed a token. Without a key id, all keys for the algorithm are tried.
    pub(crate) fn candidates(
        &self,
        kid: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> impl Iterator<Item = &IssuerKey> {
        let has_id = move |key: &&IssuerKey| kid.is_none_or(|kid| key.kid.as_deref() == Some(kid));
        self.keys.iter().filter(move |key| key.algorithm == algorithm).filter(has_id).take(MAX_TRIED_KEYS)
    }
}

impl IssuerKey {
    /// None if the key is of another kind, for another purpose, or too weak.
    fn from_jwk(jwk: Jwk) -> Option<Self> {
        let algorithm = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", None) => JwtAlgorithm::RS256,
            ("EC", Some("P-256")) => JwtAlgorithm::ES256,
            ("OKP", Some("Ed25519")) => JwtAlgorithm::EdDSA,
            // Keys of the kind `oct` are secrets, and a secret in a public document is known to everybody.
            _ => return None,
        };
        let for_signatures = jwk.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        let verifies =
            jwk.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|one| one == "verify"));
        let agrees = jwk.alg.as_deref().is_none_or(|name| name == algorithm.name());
        if !(for_signatures && verifies && agrees) {
            return None;
        }
        let public = match algorithm {
            JwtAlgorithm::RS256 => rsa_key(&bytes(jwk.n.as_deref())?, &bytes(jwk.e.as_deref())?),
            JwtAlgorithm::ES256 => ec_key(&bytes(jwk.x.as_deref())?, &bytes(jwk.y.as_deref())?),
            JwtAlgorithm::EdDSA => ed_key(&bytes(jwk.x.as_deref())?),
        };
        Some(Self { kid: jwk.kid, algorithm, public: public? })
    }
}

fn bytes(text: Option<&str>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok()
}

/// Some issuers write zeros before the number, which the library refuses.
fn rsa_key(modulus: &[u8], exponent: &[u8]) -> Option<DecodingKey> {
    let (n, e) = (without_zeros(modulus), without_zeros(exponent));
    let is_odd = e.last().is_some_and(|byte| byte % 2 == 1);
    if !RSA_BITS.contains(&bits(n)) || !RSA_EXPONENT_BITS.contains(&bits(e)) || !is_odd {
        return None;
    }
    RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).ok()?;
    Some(DecodingKey::from_rsa_raw_components(n, e))
}

/// Both lengths are checked, because bytes of one coordinate could otherwise count for the other.
fn ec_key(x: &[u8], y: &[u8]) -> Option<DecodingKey> {
    if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
        return None;
    }
    let point = [&[UNCOMPRESSED_POINT], x, y].concat();
    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).ok()?;
    Some(DecodingKey::from_ec_der(&point))
}

fn ed_key(x: &[u8]) -> Option<DecodingKey> {
    if x.len() != COORDINATE_BYTES {
        return None;
    }
    ParsedPublicKey::new(&ED25519, x).ok()?;
    Some(DecodingKey::from_ed_der(x))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// Of a number without zeros before it.
fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    number.len() * 8 - unused
}

#[cfg(test)]
mod tests;
