//! The one executor of tool calls: for runs, for proposals that outlive their run, and for undo.

use std::sync::Arc;
use std::time::Duration;

use ::tools::{Calling, Failed, Outcome, Prepared, Registry, Taint};
use jiff::tz::TimeZone;
use protocol::{CallId, Scope, ToolStatus};
use serde_json::{Value, json};
use store::ActionEnd;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::apps::ServedApp;
use crate::world::World;

/// Makes calls of an app's tools for one user.
pub(crate) struct Executor<'a> {
    world: &'a World,
    scope: &'a Scope,
    tools: Arc<Registry>,
    /// How long one call may take.
    timeout: Duration,
    stop: &'a CancellationToken,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(
        world: &'a World,
        scope: &'a Scope,
        tools: Arc<Registry>,
        timeout: Duration,
        stop: &'a CancellationToken,
    ) -> Self {
        Self { world, scope, tools, timeout, stop }
    }

    /// With the tools that the app has now.
    pub(crate) fn of_app(
        world: &'a World,
        scope: &'a Scope,
        serving: &ServedApp,
        stop: &'a CancellationToken,
    ) -> Self {
        Self::new(world, scope, serving.tools(), serving.app.limits.tool_timeout, stop)
    }

    /// A call on its way, outside of any thread and in UTC.
    pub(crate) fn calling(&self, id: CallId, input: Value) -> Calling<'a> {
        calling(self.world, self.scope, id, input, self.stop)
    }

    /// Looks the call up, checks its arguments and rules on it. Nothing is begun.
    pub(crate) async fn prepare(
        &self,
        tool: &str,
        calling: &Calling<'_>,
        taint: &Taint,
    ) -> Result<Prepared, Failed> {
        self.tools.prepare(tool, calling, taint).await
    }

    /// Makes a call that was prepared.
    pub(crate) async fn call(&self, tool: &str, calling: Calling<'_>) -> ExecutedCall {
        let begun = Instant::now();
        ExecutedCall::since(begun, self.tools.run(tool, calling, self.timeout).await)
    }

    /// Makes a call that its user has approved, if it still can be made.
    pub(crate) async fn call_approved(&self, tool: &str, calling: Calling<'_>) -> ExecutedCall {
        let begun = Instant::now();
        match self.prepare(tool, &calling, &Taint::new()).await {
            Ok(_) => self.call(tool, calling).await,
            Err(failed) => ExecutedCall::since(begun, failed.into()),
        }
    }

    /// Takes back a call that acted outside and had this output.
    pub(crate) async fn undo(&self, tool: &str, calling: Calling<'_>, output: &Value) -> ExecutedCall {
        let begun = Instant::now();
        ExecutedCall::since(begun, self.tools.undo(tool, calling, output, self.timeout).await)
    }
}

/// A call of a tool that no run makes.
pub(crate) fn calling<'a>(
    world: &'a World,
    scope: &'a Scope,
    id: CallId,
    input: Value,
    stop: &'a CancellationToken,
) -> Calling<'a> {
    Calling {
        id,
        input,
        scope,
        thread: None,
        run: None,
        store: &world.store,
        vault: &world.vault,
        recall: &world.recall,
        ids: &world.ids,
        now: world.now(),
        zone: TimeZone::UTC,
        stop,
    }
}

/// The outcome of a call, and how long the call took.
pub(crate) struct ExecutedCall {
    pub(crate) outcome: Outcome,
    pub(crate) duration_ms: u64,
}

impl ExecutedCall {
    pub(crate) fn since(begun: Instant, outcome: Outcome) -> Self {
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Self { outcome, duration_ms }
    }

    /// A call of an app that is no longer served.
    pub(crate) fn without_app() -> Self {
        let gone = Failed::new("app_gone", "the app of this call is no longer there");
        Self { outcome: gone.into(), duration_ms: 0 }
    }

    /// The result of the call where the store refused what it writes: the call came too late, or a memory says the same
    /// already. Any other failure stays one.
    pub(crate) fn without_writes(self, error: store::Error) -> Result<Self, store::Error> {
        let (status, output) = if let store::Error::Changed(reason) = error {
            (ToolStatus::Failed, json!({ "error": "conflict", "message": reason }))
        } else if let store::Error::Known(memory) = error {
            (self.outcome.status, ::tools::known_already(memory))
        } else {
            return Err(error);
        };
        let outside = self.outcome.outside;
        let outcome = Outcome { status, output, writes: Vec::new(), sources: Vec::new(), outside };
        Ok(Self { outcome, ..self })
    }

    /// The end of an action that no run made.
    pub(crate) fn action_end(&self) -> ActionEnd {
        let Outcome { status, output, writes, .. } = self.outcome.clone();
        ActionEnd { status, output, duration_ms: self.duration_ms, writes }
    }
}
