//! A token as it was sent: its parts are read, and nothing in it is believed yet.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::config::JwtAlgorithm;
use crate::refusal::TokenRefusal;
use crate::unique_object::UniqueObject;

/// Bytes of a token. Tokens travel in a header, and many proxies allow no more for all headers.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Media types of access tokens. Other types, such as `logout+jwt`, are signed with the same keys for other purposes.
const TOKEN_TYPES: [&str; 2] = ["jwt", "at+jwt"];
const MEDIA_TYPE_PREFIX: &str = "application/";
/// `b64` changes what is signed, and is critical by its definition (RFC 7797).
const CRITICAL_HEADERS: [&str; 2] = ["crit", "b64"];

/// The readable content of a token. Its signature is not checked.
pub(crate) struct CompactToken {
    pub(crate) algorithm: JwtAlgorithm,
    pub(crate) kid: Option<String>,
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) claims: Map<String, Value>,
}

/// A longer token is refused before any of it is read.
pub(crate) fn is_too_large(token: &str) -> bool {
    token.len() > MAX_TOKEN_BYTES
}

impl CompactToken {
    pub(crate) fn parse(token: &str) -> Result<Self, TokenRefusal> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenRefusal::Malformed);
        };
        let header = json_object(header)?;
        let algorithm = check_header(&header)?;
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(TokenRefusal::Malformed),
        };
        let claims = json_object(payload)?;
        URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenRefusal::Malformed)?;
        let Some(Value::String(issuer)) = claims.get("iss") else { return Err(TokenRefusal::UnknownIssuer) };
        let audiences = claims.get("aud").and_then(strings).ok_or(TokenRefusal::WrongAudience)?;
        Ok(Self { algorithm, kid, issuer: issuer.clone(), audiences, claims })
    }
}

/// Headers that name keys (`jwk`, `jku`, `x5u`, `x5c`) are not read at all: keys come from the configured source only.
fn check_header(header: &Map<String, Value>) -> Result<JwtAlgorithm, TokenRefusal> {
    let Some(Value::String(algorithm)) = header.get("alg") else { return Err(TokenRefusal::Malformed) };
    let algorithm = JwtAlgorithm::from_name(algorithm).ok_or(TokenRefusal::AlgorithmNotAllowed)?;
    if CRITICAL_HEADERS.iter().any(|name| header.contains_key(*name)) {
        return Err(TokenRefusal::CriticalHeader);
    }
    match header.get("typ") {
        None => Ok(algorithm),
        Some(Value::String(kind)) if is_token_type(kind) => Ok(algorithm),
        Some(_) => Err(TokenRefusal::WrongType),
    }
}

fn is_token_type(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    TOKEN_TYPES.contains(&kind.strip_prefix(MEDIA_TYPE_PREFIX).unwrap_or(&kind))
}

fn json_object(part: &str) -> Result<Map<String, Value>, TokenRefusal> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenRefusal::Malformed)?;
    let UniqueObject(object) = serde_json::from_slice(&json).map_err(|_| TokenRefusal::Malformed)?;
    Ok(object)
}

/// A string, or an array of strings.
fn strings(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}
