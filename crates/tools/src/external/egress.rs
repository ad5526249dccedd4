//! The only way out for tools: public hosts on the usual ports, and what the operator opens beside them.
//!
//! A name is looked up by a resolver that gives only addresses that may be reached, so what is connected to is what was
//! checked. Addresses that stand in a URL never reach a resolver and are checked by themselves, for every hop of a
//! redirect again. There is no proxy, no cookie, and no other code follows a redirect.

mod address;
mod allow;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, Url, redirect, retry};

use crate::Failed;

pub use allow::{Allowed, NotAllowable};

/// Bytes of an answer that are read. The rest is left where it is.
pub(crate) const MAX_ANSWER_BYTES: usize = 10 * 1024 * 1024;

/// Redirects that are followed, each to an address that is checked like the first.
const MAX_REDIRECTS: usize = 3;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Idle connections kept for one host.
const MAX_IDLE: usize = 8;

const AGENT: &str = concat!("rondo/", env!("CARGO_PKG_VERSION"));

/// The client of all tools that reach outside. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Egress {
    allowed: Arc<Allowed>,
    /// Follows a name only to public addresses and to networks that are open.
    public: Arc<OnceLock<Client>>,
    /// Follows a name wherever it leads; for names the operator has opened.
    opened: Arc<OnceLock<Client>>,
}

/// A request on its way out.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Sent to this host and to no other that it redirects to.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// The status by which a server, or what stands before it, says that a request took too long to arrive.
const REQUEST_TIMEOUT: u16 = 408;

/// An answer, read to its end or to the bound.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// There was more than is read.
    pub(crate) cut: bool,
}

/// Why there is no answer, in words that tell nothing of what is behind the border.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EgressError {
    #[error(
        "the egress rules block {0}: it is not a public address. The operator can allow it under [egress] in \
         rondo.toml"
    )]
    Closed(String),
    #[error("{0} could not be reached")]
    Unreached(String),
    #[error("{0} answered with a redirect, and redirects are not followed")]
    Redirected(String),
    /// The request has left.
    #[error("the connection to {0} broke before there was an answer")]
    Broken(String),
    #[error("the server answered with the status {0}")]
    Refused(u16),
}

impl EgressError {
    /// Whether another try may do.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Closed(_) | Self::Redirected(_) | Self::Refused(_) => false,
            Self::Unreached(_) | Self::Broken(_) => true,
        }
    }

    /// The failure of a call for this reason. Another try is made if the caller wants one and it may help.
    pub(super) fn to_failure(&self, retry: bool) -> Failed {
        let again = (retry && self.is_passing()).then_some(Duration::ZERO);
        let failed = Failed::new("unreachable", self.to_string());
        Failed { uncertain: self.may_have_arrived(), again, ..failed }
    }

    /// Whether the request may have arrived.
    pub(crate) fn may_have_arrived(&self) -> bool {
        match self {
            Self::Closed(_) | Self::Unreached(_) => false,
            Self::Redirected(_) | Self::Broken(_) => true,
            Self::Refused(status) => may_have_happened(*status),
        }
    }
}

/// Whether a server that answers with this status, which is none of success, may have done what it was asked. That it did
/// nothing is certain only where it says that the request is at fault: one that failed on its own side, or that has
/// waited too long, may have done it before.
pub(super) fn may_have_happened(status: u16) -> bool {
    !(400..500).contains(&status) || status == REQUEST_TIMEOUT
}

impl Egress {
    /// The root certificates are read at the first request. A server whose tools reach no host does not need them.
    pub fn new(allowed: Allowed) -> Self {
        Self { allowed: Arc::new(allowed), public: Arc::default(), opened: Arc::default() }
    }

    /// Sends a request and reads the answer. Redirects are followed where nothing but a look is asked for.
    pub(crate) async fn send(&self, request: Outgoing) -> Result<Incoming, EgressError> {
        let Outgoing { method, mut url, mut headers, mut body } = request;
        for _ in 0..=MAX_REDIRECTS {
            let hop = Outgoing {
                method: method.clone(),
                url: url.clone(),
                headers: headers.clone(),
                body: body.take(),
            };
            let response = self.open(hop).await?;
            if !response.status().is_redirection() || !response.headers().contains_key(LOCATION) {
                return read(response).await;
            }
            let next = redirect_target(&method, &url, &response)?;
            if next.origin() != url.origin() {
                headers = harmless_headers(&headers);
            }
            url = next;
        }
        Err(EgressError::Redirected(host(&url)))
    }

    /// Sends a request and gives the answer as it begins. No redirect is followed.
    pub(super) async fn open(&self, request: Outgoing) -> Result<Response, EgressError> {
        let Outgoing { method, url, headers, body } = request;
        let mut sending = self.client(&url)?.request(method, url.clone()).headers(headers);
        if let Some(body) = body {
            sending = sending.body(body);
        }
        sending.send().await.map_err(|error| egress_error(&url, error))
    }

    /// The client that may speak to the host of a URL. It follows no redirect.
    fn client(&self, url: &Url) -> Result<&Client, EgressError> {
        let any = self.reaches_any(url)?;
        let client = if any { &self.opened } else { &self.public };
        if let Some(client) = client.get() {
            return Ok(client);
        }
        let resolver = Resolver { allowed: Arc::clone(&self.allowed), any };
        let made = new_client(resolver).map_err(|error| egress_error(url, error))?;
        Ok(client.get_or_init(|| made))
    }

    /// Whether the operator has opened the name in this URL, wherever it leads. An error if the host is closed to tools.
    fn reaches_any(&self, url: &Url) -> Result<bool, EgressError> {
        let closed = || EgressError::Closed(host(url));
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some()
        {
            return Err(closed());
        }
        let port = url.port_or_known_default().ok_or_else(closed)?;
        match url.host().ok_or_else(closed)? {
            url::Host::Domain(name) if self.allowed.name(name.trim_end_matches('.'), port) => Ok(true),
            url::Host::Domain(_) if Allowed::port(port) => Ok(false),
            url::Host::Domain(_) => Err(closed()),
            url::Host::Ipv4(address) => self.literal(address.into(), port).ok_or_else(closed),
            url::Host::Ipv6(address) => self.literal(address.into(), port).ok_or_else(closed),
        }
    }

    fn literal(&self, address: std::net::IpAddr, port: u16) -> Option<bool> {
        let open = address::is_public(address) && Allowed::port(port) || self.allowed.address(address, port);
        open.then_some(false)
    }
}

fn new_client(resolver: Resolver) -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(AGENT)
        .dns_resolver(Arc::new(resolver))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE)
        .build()
}

/// Returns the target of a redirect, if it is followed at all: a request that changes something is not sent to another
/// host.
fn redirect_target(method: &Method, url: &Url, response: &Response) -> Result<Url, EgressError> {
    let refused = || EgressError::Redirected(host(url));
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(refused());
    }
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    location.and_then(|location| url.join(location).ok()).ok_or_else(refused)
}

/// The headers that may be sent to a host that the request was not made for.
fn harmless_headers(headers: &HeaderMap) -> HeaderMap {
    let harmless = headers.iter().filter(|(name, _)| **name == ACCEPT);
    harmless.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Reads an answer to its end, or to the bound.
pub(super) async fn read(response: Response) -> Result<Incoming, EgressError> {
    let url = response.url().clone();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let (mut body, mut cut) = (Vec::new(), false);
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| egress_error(&url, error))?;
        let room = MAX_ANSWER_BYTES - body.len();
        cut = chunk.len() > room;
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if cut {
            break;
        }
    }
    Ok(Incoming { status, headers, body, cut })
}

fn egress_error(url: &Url, error: reqwest::Error) -> EgressError {
    if is_closed(&error) {
        return EgressError::Closed(host(url));
    }
    // The reason may name addresses, so it is for the operator; the URL may hold a secret.
    let error = error.without_url();
    tracing::warn!(host = %host(url), error = ?error, "a tool could not reach a host");
    if error.is_connect() || error.is_builder() {
        EgressError::Unreached(host(url))
    } else {
        EgressError::Broken(host(url))
    }
}

fn is_closed(error: &reqwest::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source()).any(|error| error.is::<NothingOpen>())
}

/// The host and its port, for people.
fn host(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => "this address".to_owned(),
    }
}

/// Gives the addresses of a name that may be reached.
#[derive(Debug)]
struct Resolver {
    allowed: Arc<Allowed>,
    /// The operator has opened the name, wherever it leads.
    any: bool,
}

/// A name leads nowhere that may be reached.
#[derive(Debug, thiserror::Error)]
#[error("the egress rules allow no address of this name")]
struct NothingOpen;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (allowed, any) = (Arc::clone(&self.allowed), self.any);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let open = |address: &SocketAddr| {
                any || address::is_public(address.ip()) || allowed.network(address.ip())
            };
            let addresses: Vec<SocketAddr> = found.filter(open).collect();
            if addresses.is_empty() {
                return Err(NothingOpen.into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

impl Incoming {
    pub(crate) fn content_type(&self) -> &str {
        self.headers.get(CONTENT_TYPE).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default()
    }
}
