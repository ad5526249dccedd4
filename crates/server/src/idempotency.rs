//! `Idempotency-Key`: what is asked twice under one key happens once.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use service::IdempotencyClaim;
use sha2::{Digest, Sha256};

use crate::Api;
use crate::error::{ApiProblem, ProblemCode};

const HEADER: &str = "idempotency-key";

/// Characters a key may have.
const MAX_KEY_CHARS: usize = 255;

/// The key of a request that has no body.
pub(crate) struct IdempotencyKey(pub(crate) Option<IdempotencyClaim>);

impl FromRequestParts<Api> for IdempotencyKey {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        read_key(parts, &[]).map(Self)
    }
}

/// The key, if the client sent one, with a fingerprint of what exactly it asks.
pub(crate) fn read_key(parts: &Parts, body: &[u8]) -> Result<Option<IdempotencyClaim>, ApiProblem> {
    let Some(value) = parts.headers.get(HEADER) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    keyed_request(key, &[parts.method.as_str().as_bytes(), path.as_bytes(), body]).map(Some)
}

/// A key that a client has given in any place, with a fingerprint of the parts of what it asks.
pub(crate) fn keyed_request(key: &str, asked: &[&[u8]]) -> Result<IdempotencyClaim, ApiProblem> {
    if key.is_empty() || key.len() > MAX_KEY_CHARS || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail =
            format!("Idempotency-Key must be 1 to {MAX_KEY_CHARS} visible characters, such as a UUID");
        return Err(ApiProblem::new(ProblemCode::InvalidKey, detail));
    }
    let mut hash = Sha256::new();
    for part in asked {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    Ok(IdempotencyClaim { key: key.to_owned(), fingerprint: hash.finalize().into() })
}
