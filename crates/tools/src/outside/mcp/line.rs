//! The line to a server for one user, or for all: opened when it is needed, opened again with patience after it broke, and
//! left alone for a while once it has broken too often.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::McpState;
use rmcp::model::Tool;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::connection::{Address, Connection, Dial, Mark};
use crate::Failed;

/// Failures in a row after which a server is left alone.
const MAX_FAILURES: u32 = 5;

/// For so long.
const REST: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How old what is known of a server's tools may be when one of them is called.
const FRESH: Duration = Duration::from_secs(2);

pub(super) struct Line {
    /// Held by whoever opens the line or asks what the server offers, so that others wait for the same answer.
    turn: Semaphore,
    /// Held for a few lines at a time, never over an await.
    state: Mutex<State>,
}

impl Default for Line {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), state: Mutex::default() }
    }
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Of the address it was opened with: another credential is another address.
    mark: Option<Mark>,
    /// What it offers, as of when.
    listed: Option<(Instant, Arc<Vec<Tool>>)>,
    failures: u32,
    not_before: Option<Instant>,
    last_error: Option<String>,
    used: Option<Instant>,
}

/// How a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub state: McpState,
    pub last_error: Option<String>,
}

/// A server that can be asked, and the tools it offers.
pub(super) struct Reached {
    pub(super) connection: Arc<Connection>,
    pub(super) tools: Arc<Vec<Tool>>,
}

impl Line {
    /// The server with its tools as of a moment ago. Nothing has been asked of it if this fails.
    pub(super) async fn reach(
        &self,
        server: &str,
        address: Address,
        dial: &Dial<'_>,
    ) -> Result<Reached, Failed> {
        let _turn = self.turn.acquire().await; // never closed
        let connection = self.connected(server, address, dial).await?;
        if connection.take_changed() || dial.anew {
            self.state().listed = None;
        }
        if let Some(tools) = self.state().fresh() {
            return Ok(Reached { connection, tools });
        }
        match connection.tools().await {
            Ok(tools) => {
                let tools = Arc::new(tools);
                self.state().listed = Some((Instant::now(), Arc::clone(&tools)));
                Ok(Reached { connection, tools })
            }
            Err(reason) => {
                let mut state = self.state();
                state.connection = None;
                Err(state.failed(server, dial.hidden.text(&reason)))
            }
        }
    }

    async fn connected(
        &self,
        server: &str,
        address: Address,
        dial: &Dial<'_>,
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
        let connection = Arc::new(opened.map_err(|reason| state.failed(server, reason))?);
        (state.connection, state.mark) = (Some(Arc::clone(&connection)), Some(mark));
        Ok(connection)
    }

    /// Lets go of the server.
    pub(super) fn close(&self) {
        self.state().connection = None;
    }

    /// A call was answered.
    pub(super) fn worked(&self) {
        let mut state = self.state();
        (state.failures, state.not_before, state.last_error) = (0, None, None);
    }

    /// A call was cut off.
    pub(super) fn broke(&self, server: &str, connection: &Arc<Connection>, reason: String) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
        }
        state.failed(server, reason);
    }

    pub(super) fn health(&self) -> Health {
        let state = self.state();
        let resting =
            state.failures >= MAX_FAILURES && state.not_before.is_some_and(|at| at > Instant::now());
        let connected = state.connection.as_ref().is_some_and(|connection| !connection.is_closed());
        let last_error = state.last_error.clone();
        let state = if resting {
            McpState::Open
        } else if connected {
            McpState::Connected
        } else if state.failures > 0 {
            McpState::Failing
        } else {
            McpState::Idle
        };
        Health { state, last_error }
    }

    /// When it was last needed; none while somebody waits for it.
    pub(super) fn last_used(&self) -> Option<Instant> {
        self.state().used.filter(|_| self.turn.available_permits() > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What the server offers, if that is known well enough.
    fn fresh(&self) -> Option<Arc<Vec<Tool>>> {
        self.listed.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, tools)| Arc::clone(tools))
    }

    /// Until when it makes no sense to try again; or that it makes none for so long that nobody waits.
    fn pause(&self, server: &str) -> Result<Option<Instant>, Failed> {
        let Some(at) = self.not_before.filter(|at| *at > Instant::now()) else { return Ok(None) };
        if self.failures < MAX_FAILURES {
            return Ok(Some(at));
        }
        let seconds = at.saturating_duration_since(Instant::now()).as_secs() + 1;
        let message = format!(
            "the server {server:?} has failed {} times; it is tried again in {seconds} s",
            self.failures
        );
        Err(Failed::new("unavailable", message))
    }

    fn failed(&mut self, server: &str, reason: String) -> Failed {
        self.failures = self.failures.saturating_add(1);
        let doubled = FIRST_PAUSE.saturating_mul(1 << (self.failures - 1).min(8));
        let pause = if self.failures >= MAX_FAILURES { REST } else { doubled.min(LONGEST_PAUSE) };
        self.not_before = Some(Instant::now() + pause);
        self.listed = None;
        tracing::warn!(server, reason, failures = self.failures, "a server of tools failed");
        let message = format!("the server {server:?} cannot be used: {reason}");
        self.last_error = Some(reason);
        Failed::new("unavailable", message)
    }
}
