//! A proxy in front of the server: under which names others reach it, and whose word on a client's address counts.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::BasePath;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Proxies that one request is followed back through; a longer list is not a list of proxies.
const MAX_HOPS: usize = 32;

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// The operator's settings for proxies in front of the server. A server without a proxy needs none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxying {
    /// The addresses at which browsers and others reach the server.
    pub public_urls: Vec<PublicUrl>,
    /// The proxies that may say whom a request comes from.
    pub trusted_proxies: Vec<IpNet>,
    /// Origins of other web pages that may use this server.
    pub allow_origins: Vec<PublicUrl>,
    /// Whether a proxy encrypts all requests of other machines.
    pub behind_proxy: bool,
    /// The path below which browsers reach the server.
    pub base_path: Option<BasePath>,
}

impl Proxying {
    /// Whether the settings let other machines reach the server.
    pub fn is_for_others(&self) -> bool {
        self.behind_proxy || self.public_urls.iter().any(|url| !url.is_local())
    }

    /// The public URL of this name, or else the first one.
    pub(crate) fn public_url_of(&self, host: &str) -> Option<&PublicUrl> {
        self.public_urls.iter().find(|url| url.is_host(host)).or(self.public_urls.first())
    }

    /// The path of this server's cookies.
    pub(crate) fn cookie_path(&self) -> &str {
        self.base_path.as_ref().map_or("/", BasePath::as_str)
    }

    pub(crate) fn is_host(&self, host: &str) -> bool {
        self.public_urls.iter().any(|url| url.is_host(host))
    }

    /// Whether browsers reach the server over https: all public URLs say so, or the one of this name. A proxy may send
    /// another name than its own.
    pub(crate) fn is_secure_host(&self, host: &str) -> bool {
        let all = !self.public_urls.is_empty() && self.public_urls.iter().all(|url| url.is_tls);
        self.behind_proxy || all || self.public_urls.iter().any(|url| url.is_tls && url.is_host(host))
    }

    /// Whether pages of this origin may use the server, though it is not the server's own.
    pub(crate) fn is_allowed_origin(&self, origin: &str) -> bool {
        self.allow_origins.iter().any(|url| url.is_origin(origin))
    }

    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        self.public_urls.iter().any(|url| url.is_origin(origin))
    }

    /// Returns the sender of a request that came from `peer`. Each proxy adds the address of its own sender to the end
    /// of the header. So the header is read from its end while the address before is of a trusted proxy. A client can
    /// forge the rest.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let is_trusted = |address: &IpAddr| self.trusted_proxies.iter().any(|net| net.contains(address));
        let values = headers.get_all(FORWARDED_FOR).iter();
        let hops: Vec<&[u8]> =
            values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).collect();
        let mut client = peer.to_canonical();
        for hop in hops.into_iter().rev().take(MAX_HOPS) {
            let said = std::str::from_utf8(hop).ok().and_then(|hop| address(hop.trim()));
            match said.filter(|_| is_trusted(&client)) {
                Some(before) => client = before.to_canonical(),
                None => break,
            }
        }
        client
    }
}

/// An address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// An address of the web that leads to this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    is_tls: bool,
    /// In lower case; an IPv6 address in brackets.
    host: String,
    port: u16,
    /// Empty, or from its slash on.
    path: String,
}

impl PublicUrl {
    /// The error says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "it is not a URL")?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err("it does not begin with https:// or http://"),
        };
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains(['@', '*']) || authority.host().is_empty() {
            return Err("it has more than a host and a port before its path");
        }
        if uri.query().is_some() || text.contains('#') {
            return Err("it has a part after its path, beginning with ? or #");
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => usual_port(is_tls),
            Some(_) | None => authority.port_u16().ok_or("its port is not a number from 0 to 65535")?,
        };
        let (host, path) =
            (authority.host().to_ascii_lowercase(), uri.path().trim_end_matches('/').to_owned());
        Ok(Self { is_tls, host, port, path })
    }

    /// Whether it leads to this machine for those on it, and nowhere for others.
    pub fn is_local(&self) -> bool {
        match address(&self.host) {
            Some(address) => address.to_canonical().is_loopback(),
            None => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }

    /// Whether it is an origin and nothing more.
    pub fn is_origin_itself(&self) -> bool {
        self.path.is_empty()
    }

    /// Whether a proxy there encrypts requests.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The port does not matter: some proxies leave it out, and a name that is ours is ours on every port.
    fn is_host(&self, host: &str) -> bool {
        host.parse::<Authority>().is_ok_and(|authority| authority.host().eq_ignore_ascii_case(&self.host))
    }

    fn is_origin(&self, origin: &str) -> bool {
        Self::parse(origin).is_ok_and(|origin| {
            (origin.is_tls, &origin.host, origin.port) == (self.is_tls, &self.host, self.port)
                && origin.path.is_empty()
        })
    }
}

fn usual_port(is_tls: bool) -> u16 {
    if is_tls { HTTPS_PORT } else { HTTP_PORT }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_tls, host, port, path } = self;
        write!(f, "{}://{host}", if *is_tls { "https" } else { "http" })?;
        if *port != usual_port(*is_tls) {
            write!(f, ":{port}")?;
        }
        f.write_str(path)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn url(text: &str) -> PublicUrl {
        PublicUrl::parse(text).unwrap()
    }

    #[test]
    fn a_public_url_is_read_and_shown_in_one_spelling() {
        for (text, shown) in [
            ("https://agents.example", "https://agents.example"),
            ("https://Agents.Example:443/", "https://agents.example"),
            ("http://agents.example:443", "http://agents.example:443"),
            ("https://agents.example/rondo/", "https://agents.example/rondo"),
            ("http://[::1]:8443", "http://[::1]:8443"),
        ] {
            assert_eq!(url(text).to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_public_url_is_refused() {
        for wrong in [
            "",
            "agents.example",
            "//agents.example",
            "ftp://agents.example",
            "https://",
            "https:///path",
            "https://*.example",
            "https://ann@agents.example",
            "https://agents.example?x=1",
            "https://agents.example/#x",
            "https://agents.example:70000",
            "https://*.example/ ",
            "https://ägents.example",
        ] {
            assert!(PublicUrl::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_host_is_compared_by_its_name_and_an_origin_as_a_whole() {
        let ours = url("https://agents.example");
        for host in ["agents.example", "AGENTS.example", "agents.example:443", "agents.example:8443"] {
            assert!(ours.is_host(host), "{host}");
        }
        for host in ["example", "agents.example.evil", "evil.agents.example", "agents.example@evil", ""] {
            assert!(!ours.is_host(host), "{host}");
        }
        for origin in ["https://agents.example", "https://AGENTS.example", "https://agents.example:443"] {
            assert!(ours.is_origin(origin), "{origin}");
        }
        for origin in [
            "http://agents.example",
            "https://agents.example:8443",
            "https://agents.example.evil",
            "https://agents.example/x",
            "https://evil@agents.example",
            "null",
            "",
        ] {
            assert!(!ours.is_origin(origin), "{origin}");
        }
    }

    #[test]
    fn names_of_this_machine_are_not_for_others() {
        let proxying = |text: &str| Proxying { public_urls: vec![url(text)], ..Proxying::default() };
        for local in ["http://localhost:3000", "https://app.localhost", "http://127.0.0.2", "http://[::1]:1"]
        {
            assert!(!proxying(local).is_for_others(), "{local}");
        }
        for public in ["https://agents.example", "http://192.168.0.1", "https://localhost.example"] {
            assert!(proxying(public).is_for_others(), "{public}");
        }
    }

    #[test]
    fn a_forwarded_address_counts_as_far_as_proxies_are_trusted() {
        let trusted_proxies =
            ["127.0.0.1/32", "10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).to_vec();
        let proxying = Proxying { trusted_proxies, ..Proxying::default() };
        let client = |peer: &str, forwarded: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
            }
            proxying.client(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["203.0.113.7"]), "203.0.113.7");
        assert_eq!(client("::ffff:127.0.0.1", &["203.0.113.7:4711"]), "203.0.113.7");
        assert_eq!(client("fd00::1", &["[2001:db8::7]:1"]), "2001:db8::7");
        assert_eq!(client("203.0.113.9", &["1.2.3.4"]), "203.0.113.9", "a stranger says nothing");
        assert_eq!(client("127.0.0.1", &["1.2.3.4, 203.0.113.7"]), "203.0.113.7", "which the client made up");
        assert_eq!(client("127.0.0.1", &["1.2.3.4, 203.0.113.7, 10.1.1.1"]), "203.0.113.7");
        assert_eq!(client("127.0.0.1", &["1.2.3.4", "203.0.113.7", "10.1.1.1"]), "203.0.113.7");
        assert_eq!(client("127.0.0.1", &["203.0.113.7, unknown"]), "127.0.0.1");
        let mut odd = HeaderMap::new();
        odd.append(FORWARDED_FOR, HeaderValue::from_bytes(b"\xff, 203.0.113.7").unwrap());
        let said = proxying.client("127.0.0.1".parse().unwrap(), &odd).to_string();
        assert_eq!(said, "203.0.113.7", "bytes that are no text hide no address");
        assert_eq!(client("127.0.0.1", &[&vec!["10.0.0.1"; 1000].join(",")]), "10.0.0.1");
    }
}
