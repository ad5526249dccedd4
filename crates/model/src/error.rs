//! Errors of a model, by what the caller can do about them.

use std::time::Duration;

use crate::setting::Unsupported;

/// A wait that ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Connect,
    FirstByte,
    Idle,
    Total,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Connect => "connecting",
            Phase::FirstByte => "waiting for the first byte",
            Phase::Idle => "waiting for the next byte",
            Phase::Total => "answering",
        }
    }
}

/// Messages are ours: a provider's body may hold keys or prompts and is never passed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// 429. Try again after the wait, if one is given.
    #[error("the rate limit of the model provider is reached")]
    RateLimited { after: Option<Duration> },
    /// 429 because money ran out; waiting does not help.
    #[error("the model provider refused the request, because a quota or spending limit is used up")]
    Quota,
    /// 5xx, an overload notice, or no connection. Try again.
    #[error("the model provider is unavailable ({reason})")]
    Unavailable { reason: String, after: Option<Duration> },
    /// Try again.
    #[error("the model provider took too long while {}", .0.name())]
    Timeout(Phase),
    /// The stream broke, ended early or was not what the protocol says. Try again.
    #[error("the model provider's stream broke ({0})")]
    Broken(String),
    /// 401 or 403. The operator has to correct the key.
    #[error("the model provider refused the credentials (status {status}); check the key for {provider}")]
    Auth { status: u16, provider: String },
    /// The prompt does not fit. Shorten it.
    #[error("the prompt is longer than the model's context window; shorten it, or choose another model")]
    ContextLength,
    /// Any other 4xx. An equal request will be refused again.
    #[error("the model provider refused the request (status {status}): {summary}")]
    Rejected { status: u16, summary: String },
    /// Any other 4xx that names a setting which the provider does not take. Without that it may take the request; a
    /// model of the registry tries, so that its callers see this only as [`Error::Rejected`].
    #[error("the model provider refused the request (status {status}): {summary}")]
    Unsupported { status: u16, summary: String, refused: Unsupported },
}

/// The status that means "no such model", or that the server is not a model provider.
const NOT_FOUND: u16 = 404;

impl Error {
    /// A stable code for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Error::RateLimited { .. } => "provider_rate_limited",
            Error::Quota => "provider_quota",
            Error::Unavailable { .. } => "provider_unavailable",
            Error::Timeout(_) => "provider_timeout",
            Error::Broken(_) => "provider_stream_broken",
            Error::Auth { .. } => "provider_auth",
            Error::ContextLength => "context_too_long",
            Error::Rejected { status: NOT_FOUND, .. } => "provider_model_not_found",
            Error::Rejected { .. } | Error::Unsupported { .. } => "provider_rejected",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::RateLimited { .. } | Error::Unavailable { .. } | Error::Timeout(_) | Error::Broken(_)
        )
    }

    /// How long the provider asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Error::RateLimited { after } | Error::Unavailable { after, .. } = self { *after } else { None }
    }
}
