//! The cookie of a browser's session.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};

use crate::serve::IsTls;
use crate::{Api, Proxying};

/// The cookie's name over https. Browsers take such a name only from this very host, and only over https.
const SECURE_NAME: &str = "__Host-rondo_session";
/// The cookie's name over http, which a server on the user's own machine speaks.
const PLAIN_NAME: &str = "rondo_session";

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Whether the client speaks https: to this server, or to a proxy in front of it.
pub(crate) fn is_secure(api: &Api, parts: &Parts) -> bool {
    parts.extensions.get::<IsTls>().is_some_and(|IsTls(is_tls)| *is_tls)
        || is_secure_proxy(&api.proxying, &parts.headers)
}

fn is_secure_proxy(proxying: &Proxying, headers: &HeaderMap) -> bool {
    let said = headers.get(FORWARDED_PROTO).and_then(|value| value.to_str().ok());
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    said.is_some_and(|said| said.eq_ignore_ascii_case("https"))
        || proxying.is_secure_host(host.unwrap_or_default())
}

/// The `Set-Cookie` header of a session for so many seconds; none of them removes it.
pub(crate) fn cookie_with(secret: &str, seconds: i64, is_secure: bool) -> String {
    let (name, secure) = if is_secure { (SECURE_NAME, "; Secure") } else { (PLAIN_NAME, "") };
    format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

/// The secret in a session's cookie. Of two cookies of the name, none counts: one of them was planted. Over https, the plain
/// name does not count either, because another host of the site could have planted it.
pub(crate) fn session_secret(parts: &Parts, is_secure: bool) -> Option<&str> {
    let cookies = parts.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let wanted = if is_secure { SECURE_NAME } else { PLAIN_NAME };
    let mut found = pairs.by_ref().filter(|(name, _)| *name == wanted);
    let (_, secret) = found.next()?;
    let is_twice = found.next().is_some();
    (!is_twice && !secret.is_empty()).then_some(secret)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn secret(is_secure: bool, cookies: &[&str]) -> Option<String> {
        let mut request = Request::builder();
        for cookie in cookies {
            request = request.header(header::COOKIE, *cookie);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        session_secret(&parts, is_secure).map(str::to_owned)
    }

    #[test]
    fn a_session_is_found_among_other_cookies_and_once_only() {
        assert_eq!(secret(false, &["theme=dark; rondo_session=abc; x=1"]), Some("abc".into()));
        assert_eq!(secret(true, &["theme=dark", "__Host-rondo_session=abc"]), Some("abc".into()));
        assert_eq!(secret(true, &["rondo_session=abc"]), None, "another host may have planted it");
        assert_eq!(secret(false, &["rondo_session=abc; rondo_session=def"]), None);
        assert_eq!(secret(false, &["rondo_session="]), None);
        assert_eq!(secret(false, &["xrondo_session=abc", "rondo_session"]), None);
    }

    #[test]
    fn over_https_the_cookie_belongs_to_this_host_alone() {
        assert_eq!(
            cookie_with("abc", 60, true),
            "__Host-rondo_session=abc; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure"
        );
        assert_eq!(
            cookie_with("abc", 60, false),
            "rondo_session=abc; Path=/; HttpOnly; SameSite=Strict; Max-Age=60"
        );
    }
}
