//! HTTP only: the accept loop, auth, routes, server-sent events, problem documents and OpenAPI.
//!
//! A handler turns a request into one call of the service and the service's answer into a response; nothing here knows
//! how a run works. [`serve`] is the whole face of the crate, [`serve_router`] the same loop over any router.

mod allowance;
mod auth;
mod base_path;
mod body;
mod contracts;
mod error;
mod event_stream;
mod idempotency;
mod io;
mod mcp_server;
mod middleware;
mod openapi;
mod path;
mod peer;
mod proxying;
mod query;
mod routes;
mod serve;
mod sse;
mod stream_permits;
mod tls;
mod upload;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use identity::JwtIssuers;
use service::Service;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use base_path::BasePath;
pub use peer::IsTls;
pub use proxying::{Proxying, PublicUrl};
pub use serve::{serve, serve_router};
pub use tls::{
    ServerTls, TlsFileError, TlsFileKind, TlsFiles, TlsPair, certificate_fingerprint, fingerprint,
};

/// Failed attempts to authenticate in a minute, for each address.
const FAILED_ATTEMPTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// Limits of one client, connection or request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// Connections of one address at once; more are closed. Proxies that are trusted have no limit of their own. Without a
    /// number, 1024 for all but loopback.
    pub max_connections_per_address: Option<usize>,
    /// Request line and headers together.
    pub max_header_bytes: usize,
    /// From the opening of a connection, or the end of the last response, to the end of a request's headers.
    pub header_timeout: Duration,
    pub max_body_bytes: usize,
    /// From the end of the headers to the end of the body.
    pub body_timeout: Duration,
    /// How long a client may take no byte of what is being sent to it.
    pub write_timeout: Duration,
    /// Runs and threads that one user follows at once; four times as many answers are waited for.
    pub max_streams_per_user: usize,
    /// The longest silence on an event stream.
    pub heartbeat: Duration,
    /// Failed attempts to authenticate in a minute, for each address.
    pub failed_attempts_per_minute: NonZeroU32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 16_384,
            max_connections_per_address: None,
            max_header_bytes: 16 * 1024,
            header_timeout: Duration::from_secs(10),
            max_body_bytes: 2 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(20),
            max_streams_per_user: 16,
            heartbeat: Duration::from_secs(15),
            failed_attempts_per_minute: FAILED_ATTEMPTS_PER_MINUTE,
        }
    }
}

/// Settings of the server beside its service.
#[derive(Clone, Default)]
pub struct ServerSettings {
    pub limits: ServerLimits,
    /// The app that answers at `/api/chat` when a request names none.
    pub chat_app: Option<String>,
    pub proxying: Proxying,
    /// The user for whom the holder of the control token speaks; the machine's own user and admin when absent. A command
    /// that opens the data folder may act for any user.
    pub control_user: Option<String>,
    /// The issuers of JWTs whose users may speak.
    pub issuers: Option<Arc<JwtIssuers>>,
    /// The certificate of a server that speaks TLS. Without one it speaks plain HTTP.
    pub tls: Option<ServerTls>,
}

impl From<ServerLimits> for ServerSettings {
    fn from(limits: ServerLimits) -> Self {
        Self { limits, ..Self::default() }
    }
}

/// The two moments of stopping. Between them the server takes no new work but still answers, so that runs can end and
/// probes can see that it is going.
#[derive(Debug, Clone)]
pub struct Shutdown {
    /// Event streams end at once, and `/readyz` turns red.
    pub streams: CancellationToken,
    /// Nothing more is accepted.
    pub all: CancellationToken,
}

/// Both moments at once.
impl From<CancellationToken> for Shutdown {
    fn from(all: CancellationToken) -> Self {
        Self { streams: all.child_token(), all }
    }
}

/// The state that every handler has at hand.
#[derive(Clone)]
struct Api {
    service: Service,
    limits: ServerLimits,
    chat_app: Option<Arc<str>>,
    control_user: Option<Arc<str>>,
    proxying: Arc<Proxying>,
    issuers: Arc<JwtIssuers>,
    attempts: Arc<auth::FailedAttempts>,
    /// Streams that follow a run or a thread.
    following: stream_permits::StreamPermits,
    /// Requests that wait for the answer to their message.
    answering: stream_permits::StreamPermits,
    /// Calls of MCP clients that wait for the answer to their message.
    asking: stream_permits::StreamPermits,
    /// Held by each upload until it is stored.
    uploads: Arc<Semaphore>,
    /// The share of each user in them.
    uploading: stream_permits::StreamPermits,
    /// Sessions of MCP clients.
    mcp_sessions: Arc<mcp_server::McpSessions>,
    shutdown: Shutdown,
    /// The address we listen on; a loopback one turns the check of `Host` on.
    bound: IpAddr,
    /// `/openapi.json`, encoded when it is first asked for.
    document: Arc<openapi::ApiDocument>,
}
