//! The cookie of a browser's session.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};

use crate::peer::IsTls;
use crate::{Api, Proxying};

/// The cookie's name over https. Browsers take such a name only from this very host, and only over https.
const SECURE_NAME: &str = "__Host-rondo_session";
/// The cookie's name over https below a path: browsers take [`SECURE_NAME`] for a whole host only.
const SECURE_NAME_BELOW_A_PATH: &str = "__Secure-rondo_session";
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

/// The cookie of a session as this client gets and sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionCookie<'a> {
    path: &'a str,
    pub(crate) is_secure: bool,
}

impl<'a> SessionCookie<'a> {
    pub(crate) fn of(api: &'a Api, parts: &Parts) -> Self {
        Self::new(api, is_secure(api, parts))
    }

    pub(crate) fn new(api: &'a Api, is_secure: bool) -> Self {
        Self { path: api.proxying.cookie_path(), is_secure }
    }

    fn name(self) -> &'static str {
        match (self.is_secure, self.path) {
            (true, "/") => SECURE_NAME,
            (true, _) => SECURE_NAME_BELOW_A_PATH,
            (false, _) => PLAIN_NAME,
        }
    }

    /// The `Set-Cookie` header of a session that lasts `seconds`. With 0 seconds, the browser removes the cookie.
    pub(crate) fn header(self, secret: &str, seconds: i64) -> String {
        let (name, path, secure) = (self.name(), self.path, if self.is_secure { "; Secure" } else { "" });
        format!("{name}={secret}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }

    /// The secret in a session's cookie. Of two cookies of the name, none counts: one of them was planted. Over https, the
    /// plain name does not count either, because another host of the site could have planted it.
    pub(crate) fn secret(self, parts: &Parts) -> Option<&str> {
        let cookies = parts.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let wanted = self.name();
        let mut found = pairs.by_ref().filter(|(name, _)| *name == wanted);
        let (_, secret) = found.next()?;
        let is_twice = found.next().is_some();
        (!is_twice && !secret.is_empty()).then_some(secret)
    }
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
        SessionCookie { path: "/", is_secure }.secret(&parts).map(str::to_owned)
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
        let header = |path, is_secure| SessionCookie { path, is_secure }.header("abc", 60);
        let rest = "HttpOnly; SameSite=Strict; Max-Age=60";
        assert_eq!(header("/", true), format!("__Host-rondo_session=abc; Path=/; {rest}; Secure"));
        assert_eq!(header("/", false), format!("rondo_session=abc; Path=/; {rest}"));
        assert_eq!(
            header("/agents", true),
            format!("__Secure-rondo_session=abc; Path=/agents; {rest}; Secure")
        );
        assert_eq!(header("/agents", false), format!("rondo_session=abc; Path=/agents; {rest}"));
    }
}
