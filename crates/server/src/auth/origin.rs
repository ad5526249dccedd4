//! Web pages: which may reach this server, and the answers that let the pages of allowed origins read.
//!
//! Without keys, the address that the server listens on keeps strangers out, so this also refuses the two ways by which a
//! web page could reach a server on the user's own machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::{ApiProblem, ProblemCode};
use crate::peer::IsTls;
use crate::{Api, Proxying};

/// Methods that a page of an allowed origin may use.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Headers that such a page may send.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, accept, if-match, x-ai-sdk-version, x-rondo-user, \
     mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
);
/// Headers of an answer that such a page may read.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "x-request-id, x-run-id, x-thread-id, etag, location, retry-after, ratelimit, ratelimit-policy, \
     x-vercel-ai-ui-message-stream, mcp-session-id, www-authenticate",
);
/// For how long a browser may keep the answer to a preflight: two hours, in seconds.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("7200");

/// The answer to a preflight of an allowed origin; none for all other requests.
pub(crate) fn preflight(api: &Api, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let is_preflight = request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && text(headers, header::ORIGIN).is_some_and(|origin| api.proxying.is_allowed_origin(origin));
    is_preflight.then(|| {
        let allowed = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE),
        ];
        (StatusCode::NO_CONTENT, allowed).into_response()
    })
}

/// The origin of a request, if its pages are allowed to read the answer.
pub(crate) fn allowed_origin(api: &Api, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let is_allowed = origin.to_str().is_ok_and(|origin| api.proxying.is_allowed_origin(origin));
    is_allowed.then(|| origin.clone())
}

/// Lets the pages of an allowed origin read an answer. Others get no such header.
pub(crate) fn allow_origin(api: &Api, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    if api.proxying.allow_origins.is_empty() {
        return;
    }
    // A cache must not give the answer for one origin to another.
    headers.append(header::VARY, HeaderValue::from_name(header::ORIGIN));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
    }
}

/// Refuses a change that comes with a session's cookie, unless a page of this server or of an allowed origin has sent it:
/// browsers add cookies by themselves.
pub(crate) fn check_cookie_origin(api: &Api, parts: &Parts) -> Result<(), ApiProblem> {
    let headers = &parts.headers;
    let is_tls = parts.extensions.get::<IsTls>().is_some_and(|IsTls(is_tls)| *is_tls);
    // A page that came without encryption may be forged.
    let origin = text(headers, header::ORIGIN).filter(|origin| !is_tls || !origin.starts_with("http://"));
    if origin.is_some_and(|origin| is_trusted(&api.proxying, origin, text(headers, header::HOST))) {
        return Ok(());
    }
    let detail = "a request that changes something with a session's cookie needs the Origin header of a page of \
                  this server or of server.allow_origins: send it from such a page, or send a key or a JWT as \
                  Authorization: Bearer instead";
    Err(ApiProblem::new(ProblemCode::OriginNotAllowed, detail))
}

fn is_trusted(proxying: &Proxying, origin: &str, host: Option<&str>) -> bool {
    is_same_origin(origin, host) || proxying.is_origin(origin) || proxying.is_allowed_origin(origin)
}

/// Refuses what a web page of another site may have sent.
pub(crate) fn check_origin(
    bound: IpAddr,
    proxying: &Proxying,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(), ApiProblem> {
    if let Some(name) = [header::HOST, header::ORIGIN].iter().find(|name| is_repeated(headers, name)) {
        let detail = format!("send one {name} header, not several");
        return Err(ApiProblem::new(ProblemCode::HostNotAllowed, detail));
    }
    let host = text(headers, header::HOST);
    // A page can point its own name at 127.0.0.1, and then it is the same origin; but the name stays in `Host`.
    if bound.is_loopback() && !host.is_some_and(|host| is_ours(host, bound) || proxying.is_host(host)) {
        let host = host.unwrap_or_default();
        let detail = format!(
            "the Host header must be localhost, the address the server listens on, or the name in \
             server.public_url: if a proxy is in front of this server, write public_url = \"https://{host}\" \
             under [server] in rondo.toml, or set \
             RONDO_PUBLIC_URL"
        );
        return Err(ApiProblem::new(ProblemCode::HostNotAllowed, detail));
    }
    let origin =
        headers.contains_key(header::ORIGIN).then(|| text(headers, header::ORIGIN).unwrap_or_default());
    let Some(origin) = origin.filter(|_| !method.is_safe()) else { return Ok(()) };
    if is_trusted(proxying, origin, host) {
        return Ok(());
    }
    let detail = format!(
        "web pages of other origins may not send this request: to allow this origin, write allow_origins = \
         [{origin:?}] under [server] in rondo.toml; if it is a proxy in front of this server, write public_url = \
         {origin:?} there, or set RONDO_PUBLIC_URL"
    );
    Err(ApiProblem::new(ProblemCode::OriginNotAllowed, detail))
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_repeated(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_some()
}

fn is_ours(host: &str, bound: IpAddr) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) => [bound, Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].contains(&address),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// The scheme is not compared: behind a proxy that ends TLS we do not know our own.
fn is_same_origin(origin: &str, host: Option<&str>) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_bytes(origin.as_bytes()).unwrap());
        }
        headers
    }

    fn refusal(bound: IpAddr, method: &Method, headers: &HeaderMap) -> Option<ProblemCode> {
        check_origin(bound, &Proxying::default(), method, headers).err().map(|problem| problem.code())
    }

    #[test]
    fn on_loopback_only_our_own_names_are_hosts() {
        for ours in
            ["localhost", "LOCALHOST:8787", "127.0.0.1", "127.0.0.1:8787", "[::1]", "[::1]:1", "localhost:"]
        {
            assert_eq!(refusal(LOOPBACK, &Method::GET, &headers(ours, None)), None, "{ours}");
        }
        for foreign in
            ["rebind.example", "localhost.example:8787", "127.0.0.2", "192.168.0.1", "", "a b", "127.1"]
        {
            let refused = refusal(LOOPBACK, &Method::GET, &headers(foreign, None));
            assert_eq!(refused, Some(ProblemCode::HostNotAllowed), "{foreign:?}");
        }
        assert_eq!(refusal(LOOPBACK, &Method::GET, &HeaderMap::new()), Some(ProblemCode::HostNotAllowed));
        let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(refusal(second, &Method::GET, &headers("127.0.0.2:8787", None)), None);
    }

    #[test]
    fn behind_a_proxy_its_names_and_its_origins_are_ours() {
        let public_urls = ["https://agents.example", "http://localhost:3000"];
        let public_urls = public_urls.map(|url| crate::PublicUrl::parse(url).unwrap()).to_vec();
        let proxying = Proxying { public_urls, ..Proxying::default() };
        let refusal = |method: &Method, host: &str, origin: Option<&str>| {
            check_origin(LOOPBACK, &proxying, method, &headers(host, origin))
                .err()
                .map(|problem| problem.code())
        };
        let ours = "https://agents.example";
        // The proxy sends its own name on, or writes ours over it.
        for host in ["agents.example", "agents.example:443", "127.0.0.1:8787"] {
            assert_eq!(refusal(&Method::GET, host, None), None, "{host}");
            assert_eq!(refusal(&Method::POST, host, Some(ours)), None, "{host}");
            assert_eq!(refusal(&Method::POST, host, Some("http://localhost:3000")), None, "{host}");
            for foreign in ["https://evil.example", "https://agents.example.evil", "null"] {
                let refused = refusal(&Method::POST, host, Some(foreign));
                assert_eq!(refused, Some(ProblemCode::OriginNotAllowed), "{host} from {foreign}");
            }
        }
        assert_eq!(refusal(&Method::GET, "evil.example", Some(ours)), Some(ProblemCode::HostNotAllowed));
    }

    #[test]
    fn a_refusal_says_which_setting_would_allow_it() {
        let told = |host: &str, origin: Option<&str>| {
            let problem = check_origin(LOOPBACK, &Proxying::default(), &Method::POST, &headers(host, origin));
            format!("{:?}", problem.unwrap_err())
        };
        let host = told("agents.example", None);
        assert!(host.contains(r#"public_url = \"https://agents.example\" under [server]"#), "{host}");
        let origin = told("localhost", Some("https://agents.example"));
        assert!(
            origin.contains(r#"allow_origins = [\"https://agents.example\"] under [server]"#),
            "{origin}"
        );
        assert!(origin.contains(r#"public_url = \"https://agents.example\" there"#), "{origin}");
    }

    #[test]
    fn elsewhere_any_name_is_a_host() {
        assert_eq!(refusal(ANY, &Method::GET, &headers("agents.example", None)), None);
        assert_eq!(refusal(ANY, &Method::POST, &HeaderMap::new()), None);
    }

    #[test]
    fn another_origin_may_look_but_not_act() {
        for foreign in [
            "https://evil.example",
            "http://localhost:3000",
            "null",
            "",
            "http://localhost:8787.evil",
            "\u{e9}",
        ] {
            let headers = headers("localhost:8787", Some(foreign));
            for method in [Method::POST, Method::PATCH, Method::DELETE] {
                assert_eq!(
                    refusal(LOOPBACK, &method, &headers),
                    Some(ProblemCode::OriginNotAllowed),
                    "{foreign:?}"
                );
            }
            assert_eq!(refusal(LOOPBACK, &Method::GET, &headers), None);
        }
        let same = headers("localhost:8787", Some("http://localhost:8787"));
        assert_eq!(refusal(LOOPBACK, &Method::POST, &same), None);
        let proxied = headers("agents.example", Some("https://Agents.example"));
        assert_eq!(refusal(ANY, &Method::POST, &proxied), None);
    }
}
