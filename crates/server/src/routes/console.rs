//! `/` in a browser: the web console. Its files are in the binary, compressed. They hold no data: the page reads the API
//! with the rights of its user.

use std::io::Read;

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::error::{ApiProblem, ProblemCode};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A file of the console: its path below the page, and its content, compressed with gzip.
type ConsoleFile = (&'static str, &'static [u8]);

/// The page first, then the files that it loads.
const FILES: &[ConsoleFile] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

const PAGE: &str = "index.html";

/// The path of files whose names contain the hash of their content.
pub(super) const HASHED: &str = "/_console/{file}";

/// Only files of this server run and load; nothing is sent elsewhere; no page frames this one. Images are those of
/// messages, and previews of files that the user adds.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; font-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The name of a file with a hash never stands for other content.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// The page is asked for each time, and sent again only if it has changed.
const EACH_TIME: &str = "no-cache";

/// Bytes of a file at most, when it is sent without compression.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of the hash in an `ETag`.
const TAG_BYTES: usize = 12;

/// The page, or a short JSON object for who accepts no page.
pub(super) async fn page(headers: HeaderMap) -> Response {
    if wants_json(&headers) {
        let body = json!({ "name": "Rondo", "version": VERSION, "openapi": "/openapi.json" });
        return ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response();
    }
    respond(PAGE, EACH_TIME, &headers)
}

/// A file that the page loads.
pub(super) async fn hashed_file(Path(file): Path<String>, headers: HeaderMap) -> Response {
    respond(&format!("_console/{file}"), FOREVER, &headers)
}

/// Nothing at all: browsers ask for it beside other pages. The console names its own icon.
pub(super) async fn favicon() -> StatusCode {
    StatusCode::NO_CONTENT
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.contains("application/json") && !accepted.contains("text/html") && !accepted.contains("*/*")
}

fn respond(path: &str, caching: &'static str, asked: &HeaderMap) -> Response {
    let Some((name, compressed)) = FILES.iter().find(|(name, _)| *name == path) else {
        let detail = "the console has no such file; open / again, because the server has a newer version";
        return ApiProblem::new(ProblemCode::NotFound, detail).into_response();
    };
    let tag = tag(compressed);
    let mut response =
        if asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            content(compressed, accepts_gzip(asked))
        };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let of_origin = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(of_origin, HeaderValue::from_static("same-origin"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

fn content(compressed: &'static [u8], as_gzip: bool) -> Response {
    if as_gzip {
        return ([(header::CONTENT_ENCODING, "gzip")], Bytes::from_static(compressed)).into_response();
    }
    let mut plain = Vec::new();
    match GzDecoder::new(compressed).take(MAX_FILE_BYTES).read_to_end(&mut plain) {
        Ok(_) => plain.into_response(),
        Err(_) => ApiProblem::from(service::Error::Internal).into_response(),
    }
}

/// Whether the list of encodings has gzip, and not with a weight of zero.
fn accepts_gzip(asked: &HeaderMap) -> bool {
    let listed = asked.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    listed.split(',').any(|entry| {
        let (name, weight) = entry.split_once(';').unwrap_or((entry, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0_f32));
        matches!(name.trim(), "gzip" | "*") && !refused
    })
}

fn tag(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    let digits: String = hash.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_console_has_a_known_type() {
        for (name, _) in FILES {
            assert_ne!(media_type(name), "application/octet-stream", "{name}");
        }
    }

    #[test]
    fn gzip_is_sent_only_to_who_takes_it() {
        let takes = |value: &'static str| {
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        for yes in ["gzip", "deflate, gzip, br", "gzip;q=0.5", "*"] {
            assert!(takes(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "identity, gzip; q=0"] {
            assert!(!takes(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
