//! Requests to other people's servers: clients that follow nothing, and bodies read within a bound.

use std::time::Duration;

use reqwest::{Client, ClientBuilder, Response, redirect};

use crate::CommandResult;
use crate::pinned_tls::pinned_config;

/// A client for a URL. Redirects are not followed, and nothing is taken from the environment.
pub(crate) fn builder(url: &str) -> ClientBuilder {
    let builder = Client::builder().no_proxy().redirect(redirect::Policy::none());
    // Without encryption there is nothing to verify, and a machine without certificates can still use a local server.
    if url.starts_with("http://") { builder.tls_certs_only([]) } else { builder }
}

/// Begins a client for the server of this machine, which has one of these certificates. Without any, the usual rules
/// hold.
pub(crate) fn own_builder(url: &str, certificates: &[String]) -> CommandResult<ClientBuilder> {
    let builder = builder(url);
    if certificates.is_empty() {
        return Ok(builder);
    }
    Ok(builder.tls_backend_preconfigured(pinned_config(certificates.to_vec())?))
}

/// A client for short questions.
pub(crate) fn client(url: &str, patience: Duration) -> Result<Client, reqwest::Error> {
    builder(url).timeout(patience).build()
}

/// The whole body; none if it is longer than `max` bytes.
pub(crate) async fn read_body(mut response: Response, max: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > max {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}
