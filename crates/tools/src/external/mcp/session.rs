//! The session with an MCP server for one user, or for all: opened when it is needed, opened again with patience after it broke, and
//! left alone for a while once it has broken too often.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{BreakerRules, CircuitBreaker};
use protocol::McpState;
use rmcp::model::Tool;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::connection::{Address, AddressDigest, Connection, ConnectionOptions};
use crate::Failed;

/// A server is tried again with growing pauses, and not at all for a while after some failures in a row.
const RULES: BreakerRules = BreakerRules {
    failures_to_open: 5,
    rest: Duration::from_secs(60),
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(8),
};

/// How old what is known of a server's tools may be when one of them is called.
const FRESH: Duration = Duration::from_secs(2);

pub(super) struct McpSession {
    /// The task that connects or asks what the server offers holds the permit, so that others wait for the same answer.
    turn: Semaphore,
    /// Held for a few lines at a time, never over an await.
    state: Mutex<State>,
}

impl Default for McpSession {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), state: Mutex::default() }
    }
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Of the address it was opened with: another credential is another address.
    mark: Option<AddressDigest>,
    /// The tools it offers, as of when.
    listed: Option<(Instant, Arc<Vec<Tool>>)>,
    breaker: CircuitBreaker,
    last_error: Option<String>,
    used: Option<Instant>,
}

/// The state of a session, and its last failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpHealth {
    pub state: McpState,
    pub last_error: Option<String>,
}

/// A server that can be asked, and the tools it offers.
pub(super) struct ReachedMcpServer {
    pub(super) connection: Arc<Connection>,
    pub(super) tools: Arc<Vec<Tool>>,
}

impl McpSession {
    /// The server with its tools as of a moment ago. Nothing has been asked of it if this fails.
    pub(super) async fn reach(
        &self,
        server: &str,
        address: Address,
        dial: &ConnectionOptions<'_>,
    ) -> Result<ReachedMcpServer, Failed> {
        let _turn = self.turn.acquire().await; // never closed
        let connection = self.ensure_connection(server, address, dial).await?;
        if connection.take_changed() || dial.anew {
            self.state().listed = None;
        }
        if let Some(tools) = self.state().fresh_tools() {
            return Ok(ReachedMcpServer { connection, tools });
        }
        match connection.tools().await {
            Ok(tools) => {
                let tools = Arc::new(tools);
                self.state().listed = Some((Instant::now(), Arc::clone(&tools)));
                Ok(ReachedMcpServer { connection, tools })
            }
            Err(reason) => {
                let mut state = self.state();
                state.connection = None;
                Err(state.note_failure(server, dial.hidden.text(&reason)))
            }
        }
    }

    async fn ensure_connection(
        &self,
        server: &str,
        address: Address,
        dial: &ConnectionOptions<'_>,
    ) -> Result<Arc<Connection>, Failed> {
        let mark = address.mark();
        let wait = {
            let mut state = self.state();
            state.used = Some(Instant::now());
            match state.connection.as_ref().filter(|there| !there.is_closed() && state.mark == Some(mark)) {
                Some(connection) => return Ok(Arc::clone(connection)),
                None => {
                    (state.connection, state.listed) = (None, None);
                    state.pause(server)?
                }
            }
        };
        if let Some(until) = wait {
            tokio::time::sleep_until(until).await;
        }
        let opened = Connection::open(address, dial).await;
        let mut state = self.state();
        let connection = Arc::new(opened.map_err(|reason| state.note_failure(server, reason))?);
        (state.connection, state.mark) = (Some(Arc::clone(&connection)), Some(mark));
        Ok(connection)
    }

    /// Lets go of the server.
    pub(super) fn close(&self) {
        self.state().connection = None;
    }

    /// A call was answered.
    pub(super) fn note_success(&self) {
        let mut state = self.state();
        state.breaker.note_success();
        state.last_error = None;
    }

    /// A call was cut off.
    pub(super) fn note_break(&self, server: &str, connection: &Arc<Connection>, reason: String) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
        }
        state.note_failure(server, reason);
    }

    pub(super) fn health(&self) -> McpHealth {
        let state = self.state();
        let connected = state.connection.as_ref().is_some_and(|connection| !connection.is_closed());
        let last_error = state.last_error.clone();
        let state = if state.breaker.is_open(&RULES) {
            McpState::Open
        } else if connected {
            McpState::Connected
        } else if state.breaker.failures() > 0 {
            McpState::Failing
        } else {
            McpState::Idle
        };
        McpHealth { state, last_error }
    }

    /// When it was last needed; none while a call waits for it.
    pub(super) fn last_used(&self) -> Option<Instant> {
        self.state().used.filter(|_| self.turn.available_permits() > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The tools that the server offers, if they are known well enough.
    fn fresh_tools(&self) -> Option<Arc<Vec<Tool>>> {
        self.listed.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, tools)| Arc::clone(tools))
    }

    /// The moment before which another try makes no sense. An error if that is too far away to wait for it.
    fn pause(&self, server: &str) -> Result<Option<Instant>, Failed> {
        let wait = self.breaker.wait();
        let Some(until) = wait.filter(|_| self.breaker.is_open(&RULES)) else { return Ok(wait) };
        let seconds = until.saturating_duration_since(Instant::now()).as_secs() + 1;
        let message = format!(
            "the MCP server {server:?} has failed {} times; its circuit breaker is open for {seconds} s",
            self.breaker.failures()
        );
        Err(Failed::new("unavailable", message))
    }

    fn note_failure(&mut self, server: &str, reason: String) -> Failed {
        self.breaker.note_failure(&RULES);
        self.listed = None;
        tracing::warn!(server, reason, failures = self.breaker.failures(), "an MCP server failed");
        let message = format!("the MCP server {server:?} cannot be used: {reason}");
        self.last_error = Some(reason);
        Failed::new("unavailable", message)
    }
}
