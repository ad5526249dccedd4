//! Loads the document with the keys of an issuer: over HTTP, or from a file.
//!
//! A server that answers slowly, endlessly or with a redirect gives a typed problem within a bounded time.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reqwest::header::ACCEPT;
use reqwest::{Client, Url, redirect, retry};
use tokio::time::timeout;

use crate::config::{JwksSource, JwtIssuerConfig, JwtIssuerFault};
use crate::problem::JwksProblem;
use crate::wire::OpenIdConfiguration;

/// For everything: finding the host, connecting, and reading one or two documents.
const MAX_LOAD_TIME: Duration = Duration::from_secs(5);
const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// A checked source.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    Url(Url),
    Discovery { issuer: String, url: Url },
    File(PathBuf),
}

/// One version of a key file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileVersion {
    modified: SystemTime,
    bytes: u64,
}

/// The answer of a source.
pub(crate) enum KeyDocument {
    /// The file is the version that is known.
    SameFile,
    Content {
        bytes: Vec<u8>,
        file: Option<FileVersion>,
    },
}

impl KeySource {
    pub(crate) fn new(config: &JwtIssuerConfig) -> Result<Self, JwtIssuerFault> {
        match &config.keys {
            JwksSource::Url(url) => Ok(Self::Url(key_url(url).ok_or(JwtIssuerFault::KeyAddress)?)),
            JwksSource::File(path) => Ok(Self::File(path.clone())),
            JwksSource::Discovery => {
                let url = format!("{}{DISCOVERY_PATH}", config.issuer.trim_end_matches('/'));
                let url = key_url(&url).ok_or(JwtIssuerFault::KeyAddress)?;
                Ok(Self::Discovery { issuer: config.issuer.clone(), url })
            }
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    pub(crate) async fn load(&self, known: Option<FileVersion>) -> Result<KeyDocument, JwksProblem> {
        timeout(MAX_LOAD_TIME, self.load_slowly(known)).await.unwrap_or(Err(JwksProblem::Timeout))
    }

    async fn load_slowly(&self, known: Option<FileVersion>) -> Result<KeyDocument, JwksProblem> {
        let bytes = match self {
            Self::Url(url) => fetch(url.clone()).await?,
            Self::Discovery { issuer, url } => fetch(discover(issuer, url).await?).await?,
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path, known.as_ref()));
                return read.await.unwrap_or(Err(JwksProblem::File(ErrorKind::Other)));
            }
        };
        Ok(KeyDocument::Content { bytes, file: None })
    }
}

/// A URL that keys may come from. Only this machine is trusted without encryption, because an attacker who can change
/// the keys on their way can sign in as every user.
fn key_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let has_password = !url.username().is_empty() || url.password().is_some();
    let is_permitted = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    (url.has_host() && is_permitted && !has_password).then_some(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The URL of the keys, as the issuer publishes it.
async fn discover(issuer: &str, url: &Url) -> Result<Url, JwksProblem> {
    let document = fetch(url.clone()).await?;
    let found: OpenIdConfiguration =
        serde_json::from_slice(&document).map_err(|_| JwksProblem::NotDiscovery)?;
    if found.issuer != issuer {
        return Err(JwksProblem::OtherIssuer);
    }
    let keys = key_url(&found.jwks_uri).ok_or(JwksProblem::KeyAddress)?;
    // An issuer elsewhere must not make this server send requests to its own machine.
    if url.scheme() == "https" && keys.scheme() != "https" {
        return Err(JwksProblem::KeyAddress);
    }
    Ok(keys)
}

/// A client is made for each request: requests are rare, so a connection is not worth keeping.
async fn fetch(url: Url) -> Result<Vec<u8>, JwksProblem> {
    let builder =
        Client::builder().no_proxy().redirect(redirect::Policy::none()).retry(retry::never()).referer(false);
    // Without encryption there is nothing to verify, and a machine without certificates can still use a local issuer.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    let client = builder.build().map_err(|_| JwksProblem::Tls)?;
    let request = client.get(url).header(ACCEPT, "application/json");
    let mut response = request.send().await.map_err(|_| JwksProblem::Unreachable)?;
    if response.status() != 200 {
        return Err(JwksProblem::Status(response.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| JwksProblem::Unreachable)? {
        if body.len() + chunk.len() > MAX_DOCUMENT_BYTES {
            return Err(JwksProblem::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn read_file(path: &Path, known: Option<&FileVersion>) -> Result<KeyDocument, JwksProblem> {
    let failure = |error: std::io::Error| JwksProblem::File(error.kind());
    let metadata = fs::metadata(path).map_err(failure)?;
    // Opening a pipe would wait for a writer.
    if !metadata.is_file() {
        return Err(JwksProblem::File(ErrorKind::InvalidInput));
    }
    let version = FileVersion { modified: metadata.modified().map_err(failure)?, bytes: metadata.len() };
    if known == Some(&version) {
        return Ok(KeyDocument::SameFile);
    }
    let file = fs::File::open(path).map_err(failure)?;
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failure)?;
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(JwksProblem::TooLarge);
    }
    Ok(KeyDocument::Content { bytes, file: Some(version) })
}

#[cfg(test)]
mod tests;
