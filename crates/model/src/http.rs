//! The only place that opens sockets to a model provider.
//!
//! A request is one POST of JSON; the answer is read chunk by chunk under four bounds of time. Nothing is followed,
//! unpacked or taken from the environment: no redirects, no compression, no proxies. Dropping a [`AnswerBody`] closes the
//! connection.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use reqwest::{Response, Url, redirect, retry};
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

use crate::refusal::Refusal;
use crate::{Error, Phase};

/// As much of an error's body as is read, to see what kind of error it is.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// How long a client waits for the end of a body of which it needs nothing more.
const MAX_DRAIN: Duration = Duration::from_millis(50);

/// The address of a provider, and how long we wait for it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The name that people use; it appears in errors.
    pub provider: String,
    /// With the version, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// Sent as a bearer token; none for a local server.
    pub key: Option<ProviderKey>,
    pub timeouts: Timeouts,
}

/// A text that must not be seen: it cannot be printed, and only the header it is sent in reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey(String);

impl ProviderKey {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// How long each part of a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, encryption included.
    pub connect: Duration,
    /// From the start of the call until the first byte of the answer's body.
    pub first_byte: Duration,
    /// Between two chunks.
    pub idle: Duration,
    /// From the start of the call until the end of the answer.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
        }
    }
}

/// Why an [`Endpoint`] cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    #[error("the base URL must begin with http:// or https:// and name a host")]
    Url,
    #[error(
        "the base URL must not contain a user name or password; give the key with api_key_env or api_key_file"
    )]
    Credentials,
    #[error("the API key has characters that cannot be sent")]
    Key,
    #[error("TLS cannot be set up; are the root certificates of the system installed?")]
    Tls,
}

/// An endpoint's one path, ready to be called. Connections are kept and used again.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    inner: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    provider: String,
    timeouts: Timeouts,
}

/// An answer with status 200.
pub(crate) enum HttpAnswer {
    /// A stream of server-sent events.
    Events(AnswerBody),
    /// A stream of JSON texts, one a line.
    Lines(AnswerBody),
    /// One JSON text, asked for or not.
    Whole(AnswerBody),
}

/// How requests of a wire are dressed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Headers {
    pub(crate) key: KeyHeader,
    /// Sent with every request.
    pub(crate) fixed: &'static [(&'static str, &'static str)],
}

/// The header that carries the key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum KeyHeader {
    #[default]
    Bearer,
    /// `x-api-key`.
    ApiKey,
}

impl Client {
    /// `path` is appended to the base URL.
    pub(crate) fn new(endpoint: &Endpoint, path: &[&str], headers: Headers) -> Result<Self, InvalidEndpoint> {
        let mut url = Url::parse(&endpoint.base_url).map_err(|_| InvalidEndpoint::Url)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(InvalidEndpoint::Url);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidEndpoint::Credentials);
        }
        url.path_segments_mut().map_err(|()| InvalidEndpoint::Url)?.pop_if_empty().extend(path);
        Ok(Self {
            inner: connector(&url, endpoint.timeouts)?,
            url,
            headers: headers.with_key(endpoint.key.as_ref())?,
            provider: endpoint.provider.clone(),
            timeouts: endpoint.timeouts,
        })
    }

    /// The client with one more pair in its query.
    pub(crate) fn with_query(mut self, pair: Option<(&str, &str)>) -> Self {
        if let Some((name, value)) = pair {
            self.url.query_pairs_mut().append_pair(name, value);
        }
        self
    }

    /// Requests the content at the path, up to `limit` bytes. The caller bounds the time.
    pub(crate) async fn get(&self, limit: usize) -> Result<Vec<u8>, Error> {
        let begun = Instant::now();
        let request = self.inner.get(self.url.clone()).headers(self.headers.clone());
        let response = request.send().await.map_err(|error| unsent_error(&error))?;
        if response.status() != 200 {
            return Err(self.refusal_error(response).await);
        }
        AnswerBody::new(response, self.timeouts, begun).read_all(limit).await
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Sends the request and waits for the head of the answer.
    pub(crate) async fn post(&self, json: Vec<u8>) -> Result<HttpAnswer, Error> {
        let begun = Instant::now();
        let request = self.inner.post(self.url.clone()).headers(self.headers.clone()).body(json);
        let (deadline, phase) = self.first_deadline(begun);
        let response = match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unsent_error(&error)),
            Err(_) => return Err(Error::Timeout(phase)),
        };
        if response.status() != 200 {
            return Err(self.refusal_error(response).await);
        }
        if response.headers().contains_key(CONTENT_ENCODING) {
            return Err(Error::Broken("a compressed answer, which was not asked for".into()));
        }
        let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        let body = AnswerBody::new(response, self.timeouts, begun);
        match kind.as_deref() {
            None => Ok(HttpAnswer::Events(body)),
            Some(kind) if kind.starts_with(b"text/event-stream") => Ok(HttpAnswer::Events(body)),
            Some(kind) if kind.starts_with(b"application/x-ndjson") => Ok(HttpAnswer::Lines(body)),
            Some(kind) if kind.starts_with(b"application/json") => Ok(HttpAnswer::Whole(body)),
            Some(_) => Err(Error::Broken("neither an event stream nor JSON".into())),
        }
    }

    fn first_deadline(&self, begun: Instant) -> (Instant, Phase) {
        earlier_deadline(
            (begun + self.timeouts.first_byte, Phase::FirstByte),
            (begun + self.timeouts.total, Phase::Total),
        )
    }

    async fn refusal_error(&self, mut response: Response) -> Error {
        let mut body = Vec::new();
        let read = async {
            while body.len() < MAX_ERROR_BYTES
                && let Ok(Some(chunk)) = response.chunk().await
            {
                let room = MAX_ERROR_BYTES - body.len();
                body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            }
        };
        // The status alone is enough to go on, so a body that does not come is done without.
        let _ = timeout(self.timeouts.idle, read).await;
        Refusal::read(&body).error(response.status().as_u16(), response.headers(), &self.provider)
    }
}

fn connector(url: &Url, timeouts: Timeouts) -> Result<reqwest::Client, InvalidEndpoint> {
    let builder = reqwest::Client::builder()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(timeouts.connect);
    // Without encryption there is nothing to verify, and a machine without certificates can still use a local server.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|_| InvalidEndpoint::Tls)
}

impl Headers {
    fn with_key(self, key: Option<&ProviderKey>) -> Result<HeaderMap, InvalidEndpoint> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("text/event-stream, application/x-ndjson, application/json"),
        );
        for (name, value) in self.fixed {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(ProviderKey(key)) = key {
            let (name, value) = match self.key {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {key}")),
                KeyHeader::ApiKey => (HeaderName::from_static("x-api-key"), key.clone()),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| InvalidEndpoint::Key)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

/// Why no answer began. The library's own message names the URL, so it is not passed on.
fn unsent_error(error: &reqwest::Error) -> Error {
    if error.is_timeout() {
        return Error::Timeout(Phase::Connect); // the only time-out the library is given
    }
    let first: &(dyn std::error::Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    if let Some(io) = causes.find_map(|error| error.downcast_ref::<std::io::Error>()) {
        return Error::Unavailable { reason: io.kind().to_string(), after: None };
    }
    let reason =
        if error.is_connect() { "no connection" } else { "the connection was lost before an answer" };
    Error::Unavailable { reason: reason.into(), after: None }
}

/// Waits until a moment. If the alarm is set for an earlier moment, it goes off too soon, and is then set again for the right
/// one. So a stream sets its alarm about once in an idle time-out, and not for each chunk.
async fn ring_at(alarm: &mut Option<Pin<Box<Sleep>>>, moment: Instant) {
    let alarm = alarm.get_or_insert_with(|| Box::pin(sleep_until(moment)));
    if alarm.deadline() > moment {
        alarm.as_mut().reset(moment);
    }
    loop {
        alarm.as_mut().await;
        if Instant::now() >= moment {
            return;
        }
        alarm.as_mut().reset(moment);
    }
}

fn earlier_deadline(one: (Instant, Phase), other: (Instant, Phase)) -> (Instant, Phase) {
    if other.0 < one.0 { other } else { one }
}

/// The bytes of an answer on their way.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    response: Response,
    timeouts: Timeouts,
    begun: Instant,
    arrived: bool,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl AnswerBody {
    fn new(response: Response, timeouts: Timeouts, begun: Instant) -> Self {
        Self { response, timeouts, begun, arrived: false, alarm: None }
    }

    /// The next chunk, or none at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let next = if self.arrived {
            (Instant::now() + self.timeouts.idle, Phase::Idle)
        } else {
            (self.begun + self.timeouts.first_byte, Phase::FirstByte)
        };
        let (deadline, phase) = earlier_deadline(next, (self.begun + self.timeouts.total, Phase::Total));
        tokio::select! {
            biased;
            chunk = self.response.chunk() => {
                self.arrived = true;
                chunk.map_err(|_| Error::Broken("the connection was lost".into()))
            }
            () = ring_at(&mut self.alarm, deadline) => Err(Error::Timeout(phase)),
        }
    }

    /// Reads the rest of the body for a moment after the last useful part, because only a connection whose answer was
    /// read to its end can be used again.
    pub(crate) async fn drain(mut self) {
        let _ = timeout(MAX_DRAIN, async { while let Ok(Some(_)) = self.response.chunk().await {} }).await;
    }

    /// All of it, if it is no longer than `limit` bytes.
    pub(crate) async fn read_all(mut self, limit: usize) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if whole.len() + chunk.len() > limit {
                return Err(Error::Broken(format!("an answer longer than {limit} bytes")));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> Endpoint {
        Endpoint {
            provider: "test".into(),
            base_url: base_url.into(),
            key: Some(ProviderKey::new("sk-planted")),
            timeouts: Timeouts::default(),
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let endpoint = endpoint("http://localhost/v1");
        let client = Client::new(&endpoint, &["chat"], Headers::default()).unwrap();
        for text in [format!("{endpoint:?}"), format!("{endpoint:#?}"), format!("{client:?}")] {
            assert!(!text.contains("planted"), "{text}");
        }
    }

    #[test]
    fn the_path_is_appended_to_the_base_url() {
        for (base, url) in [
            ("http://h:1/v1", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
            ("http://h", "http://h/chat/completions"),
            ("http://h/a%20b?api-version=2", "http://h/a%20b/chat/completions?api-version=2"),
        ] {
            let client = Client::new(&endpoint(base), &["chat", "completions"], Headers::default()).unwrap();
            assert_eq!(client.url.as_str(), url);
        }
    }

    #[test]
    fn an_unusable_endpoint_is_refused() {
        let refused = |endpoint: &Endpoint| Client::new(endpoint, &["chat"], Headers::default()).err();
        for wrong in ["", "localhost:8080/v1", "ftp://h/v1", "file:///etc/passwd", "data:x", "http://"] {
            assert_eq!(refused(&endpoint(wrong)), Some(InvalidEndpoint::Url), "{wrong:?}");
        }
        assert_eq!(refused(&endpoint("http://a:b@h/v1")), Some(InvalidEndpoint::Credentials));
        let key = Some(ProviderKey::new("line\nbreak"));
        assert_eq!(refused(&Endpoint { key, ..endpoint("http://h/v1") }), Some(InvalidEndpoint::Key));
    }
}
