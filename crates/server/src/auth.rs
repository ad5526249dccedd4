//! Who speaks: the holder of a key, or, as long as there is none, the one user of this machine. What then keeps
//! strangers out is where we listen, so this also refuses the two ways by which a web page could reach a server on the
//! user's own machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, header};
use protocol::{Principal, UserId};
use service::{Grant, LOCAL_USER, Service};

use crate::error::{ApiProblem, ProblemCode};
use crate::{Api, Proxying};

impl FromRequestParts<Api> for Principal {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let token = text(&parts.headers, header::AUTHORIZATION).and_then(bearer);
        if let Some(grant) = token.and_then(|token| api.service.grant(token)) {
            let is_control = grant.admin && grant.app.is_none() && grant.user == LOCAL_USER;
            return Ok(match api.control_user.as_deref().filter(|_| is_control) {
                Some(user) => Principal::authenticated(UserId::new(user)),
                None => principal(grant),
            });
        }
        if !api.service.has_keys() && api.bound.is_loopback() {
            return Ok(Principal::authenticated(UserId::new(LOCAL_USER)).as_admin());
        }
        // One answer for a missing, a wrong and a revoked key.
        Err(ApiProblem::new(
            ProblemCode::Unauthorized,
            "send a valid API key as Authorization: Bearer KEY; `rondo keys add USER` makes one",
        ))
    }
}

/// A user who asks, and the service that answers.
pub(crate) struct Caller {
    pub(crate) service: Service,
    pub(crate) principal: Principal,
}

impl FromRequestParts<Api> for Caller {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let principal = Principal::from_request_parts(parts, api).await?;
        Ok(Self { service: api.service.clone(), principal })
    }
}

fn principal(grant: Grant) -> Principal {
    let mut principal = Principal::authenticated(UserId::new(grant.user));
    if let Some(app) = grant.app {
        principal = principal.only_for(app);
    }
    if grant.admin { principal.as_admin() } else { principal }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Somebody who may look after the server.
pub(crate) struct Admin(pub(crate) Caller);

impl FromRequestParts<Api> for Admin {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let caller = Caller::from_request_parts(parts, api).await?;
        if caller.principal.is_admin() {
            return Ok(Self(caller));
        }
        Err(ApiProblem::new(
            ProblemCode::AdminOnly,
            "this request needs an admin key; `rondo keys add USER --admin` makes one",
        ))
    }
}

/// Somebody who holds the control token, and so can read the data folder. No key proves that.
pub(crate) struct ControlHolder;

impl FromRequestParts<Api> for ControlHolder {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let token = text(&parts.headers, header::AUTHORIZATION).and_then(bearer);
        if token.is_some_and(|token| api.service.is_control_token(token)) {
            return Ok(Self);
        }
        Err(ApiProblem::new(
            ProblemCode::Forbidden,
            "no key allows this request; run `rondo keys open` on the machine of the server",
        ))
    }
}

/// Refuses what a web page of another site may have sent.
pub(crate) fn check(
    bound: IpAddr,
    proxying: &Proxying,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(), ApiProblem> {
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
    if is_same_origin(origin, host) || proxying.is_origin(origin) {
        return Ok(());
    }
    let detail = format!(
        "web pages of other origins may not send this request: send it from your own server, or, if this \
         origin is a proxy in front of this server, write public_url = {origin:?} under [server] in \
         rondo.toml, or set RONDO_PUBLIC_URL"
    );
    Err(ApiProblem::new(ProblemCode::OriginNotAllowed, detail))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
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
        check(bound, &Proxying::default(), method, headers).err().map(|problem| problem.code())
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
            check(LOOPBACK, &proxying, method, &headers(host, origin)).err().map(|problem| problem.code())
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
            let problem = check(LOOPBACK, &Proxying::default(), &Method::POST, &headers(host, origin));
            format!("{:?}", problem.unwrap_err())
        };
        let host = told("agents.example", None);
        assert!(host.contains(r#"public_url = \"https://agents.example\" under [server]"#), "{host}");
        let origin = told("localhost", Some("https://agents.example"));
        assert!(origin.contains(r#"public_url = \"https://agents.example\" under [server]"#), "{origin}");
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
