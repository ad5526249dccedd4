//! Requests for files. Redirects are followed here, because the servers of weights answer with little else.

use std::time::Duration;

use reqwest::header::{ETAG, HeaderMap, LOCATION};
use reqwest::{Response, StatusCode, Url};

use super::error::PullError;
use crate::{cause, http};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long nothing at all may arrive. A download as such may take as long as it likes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;
/// Hugging Face's SHA-256 of a large file, said before it sends one to where the file is.
const LINKED_HASH: &str = "x-linked-etag";
/// Only Hugging Face says this; its own entity tags of large files are their SHA-256.
const ITS_OWN: &str = "x-repo-commit";

pub(super) struct FileAnswer {
    /// A success, or that the range asked for is not there.
    pub(super) reply: Response,
    /// The SHA-256 of the file, as the server says.
    pub(super) sha256: Option<String>,
}

pub(super) async fn ask(url: &Url, headers: &HeaderMap) -> Result<FileAnswer, PullError> {
    let (mut at, mut sha256) = (url.clone(), None);
    for _ in 0..=MAX_REDIRECTS {
        let unreachable = |error: reqwest::Error| PullError::Unreachable {
            url: without_secrets(&at),
            reason: cause(&error),
        };
        let client =
            http::builder(at.as_str()).connect_timeout(CONNECT_TIMEOUT).read_timeout(IDLE_TIMEOUT).build();
        let request = client.map_err(unreachable)?.get(at.clone()).headers(headers.clone());
        let reply = request.send().await.map_err(unreachable)?;
        sha256 = sha256.or_else(|| hash_in(reply.headers()));
        let status = reply.status();
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            let location = reply.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            at = next(&at, location)?;
        } else if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(FileAnswer { reply, sha256 });
        } else {
            return Err(PullError::Refused { url: without_secrets(&at), status });
        }
    }
    let reason = format!("it redirects more than {MAX_REDIRECTS} times");
    Err(PullError::Url { what: without_secrets(url), reason })
}

fn hash_in(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| {
        let value = headers.get(name)?.to_str().ok()?;
        Some(value.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase())
    };
    let own = || headers.contains_key(ITS_OWN).then(|| text(ETAG.as_str())).flatten();
    text(LINKED_HASH).or_else(own).filter(|hash| is_sha256(hash))
}

fn next(at: &Url, location: Option<&str>) -> Result<Url, PullError> {
    let trouble = |reason: &str| PullError::Url { what: without_secrets(at), reason: reason.to_owned() };
    let location = location.ok_or_else(|| trouble("it redirects, but does not say where"))?;
    let to = at.join(location).map_err(|_| trouble("it redirects to something that is not a URL"))?;
    match (at.scheme(), to.scheme()) {
        (_, "https") | ("http", "http") => Ok(to),
        ("https", "http") => Err(trouble("it redirects from https to http")),
        _ => Err(trouble("it redirects to something other than http or https")),
    }
}

pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A URL without what may be secret in it.
pub(super) fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username(""); // these two fail only for URLs without a host
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_is_never_lost_on_the_way() {
        let (safe, open) =
            (Url::parse("https://a.test/x/y").unwrap(), Url::parse("http://a.test/x/y").unwrap());
        let led =
            |at: &Url, to: &str| next(at, Some(to)).map(String::from).map_err(|error| error.to_string());
        assert_eq!(led(&safe, "../z").as_deref(), Ok("https://a.test/z"));
        assert_eq!(led(&open, "https://b.test/").as_deref(), Ok("https://b.test/"));
        assert!(led(&safe, "http://a.test/z").unwrap_err().contains("from https to http"));
    }

    #[test]
    fn only_the_hashes_of_hugging_face_are_believed() {
        let hash = "AB".repeat(32);
        let found = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (reqwest::header::HeaderName::from_static(name), value.parse().unwrap())
            });
            hash_in(&pairs.collect())
        };
        let quoted = format!("\"{hash}\"");
        let lower = Some(hash.to_ascii_lowercase());
        assert_eq!(found(&[("x-linked-etag", &quoted), ("etag", "\"other\"")]), lower);
        assert_eq!(found(&[("x-repo-commit", "1"), ("etag", &quoted)]), lower);
        assert_eq!(found(&[("etag", &quoted)]), None);
        assert_eq!(found(&[("x-linked-etag", "\"1234\"")]), None);
    }
}
