//! The executor of tool calls: for runs, for proposals that outlive their run, and for undo.

use std::time::Duration;

use ::tools::{CallOutcome, Calling, Failed, PreparedCall, Taint, ToolRegistry};
use jiff::tz::TimeZone;
use protocol::{Call, CallId, Scope, ToolComplete, ToolStatus};
use serde_json::{Value, json};
use store::{ActionEnd, CallAnswer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// Makes calls of an app's tools for one user.
pub(crate) struct Executor<'a> {
    world: &'a World,
    scope: &'a Scope,
    /// How long one call may take.
    timeout: Duration,
    stop: &'a CancellationToken,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(
        world: &'a World,
        scope: &'a Scope,
        timeout: Duration,
        stop: &'a CancellationToken,
    ) -> Self {
        Self { world, scope, timeout, stop }
    }

    /// A call on its way, outside of any thread and in UTC.
    pub(crate) fn calling(&self, id: CallId, input: Value) -> Calling<'a> {
        calling(self.world, self.scope, id, input, self.stop)
    }

    /// Makes a call that was prepared.
    pub(crate) async fn call(&self, prepared: &PreparedCall<'_>, calling: Calling<'_>) -> ExecutedCall {
        let begun = Instant::now();
        ExecutedCall::with_duration_since(begun, prepared.run(calling, self.timeout).await)
    }

    /// Makes a call that its user has approved, if it still can be made.
    pub(crate) async fn call_approved(
        &self,
        tools: &ToolRegistry,
        tool: &str,
        calling: Calling<'_>,
    ) -> ExecutedCall {
        let begun = Instant::now();
        let outcome = match tools.find(tool) {
            Ok(tool) => match tool.prepare(&calling, &Taint::new()).await {
                Ok(prepared) => prepared.run(calling, self.timeout).await,
                Err(failed) => failed.into(),
            },
            Err(failed) => failed.into(),
        };
        ExecutedCall::with_duration_since(begun, outcome)
    }

    /// Undoes a call that acted outside and had this output.
    pub(crate) async fn undo(
        &self,
        tools: &ToolRegistry,
        tool: &str,
        calling: Calling<'_>,
        output: &Value,
    ) -> ExecutedCall {
        let begun = Instant::now();
        let outcome = match tools.find(tool) {
            Ok(tool) => tool.undo(calling, output, self.timeout).await,
            Err(failed) => failed.into(),
        };
        ExecutedCall::with_duration_since(begun, outcome)
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
    pub(crate) outcome: CallOutcome,
    pub(crate) duration_ms: u64,
}

impl ExecutedCall {
    pub(crate) fn with_duration_since(begun: Instant, outcome: CallOutcome) -> Self {
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Self { outcome, duration_ms }
    }

    /// The outcome of a call that a process which died had begun.
    pub(crate) fn of_second_try(self) -> Self {
        Self { outcome: self.outcome.of_second_try(), ..self }
    }

    /// A call of an app that is no longer served.
    pub(crate) fn without_app() -> Self {
        let gone = Failed::new("app_gone", "the app of this call no longer exists");
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
        let outcome = CallOutcome { status, output, writes: Vec::new(), sources: Vec::new(), outside };
        Ok(Self { outcome, ..self })
    }

    /// The end of an action that no run made.
    pub(crate) fn action_end(&self) -> ActionEnd {
        let CallOutcome { status, output, writes, .. } = self.outcome.clone();
        ActionEnd { status, output, duration_ms: self.duration_ms, writes }
    }

    /// The result of a call, for the log.
    pub(crate) fn complete(&self, call: &Call) -> ToolComplete {
        let CallOutcome { status, output, outside, .. } = &self.outcome;
        ToolComplete {
            call_id: call.id,
            name: call.name.clone(),
            status: *status,
            output: output.clone(),
            duration_ms: self.duration_ms,
            outside: *outside,
            suspicious: self.is_suspicious(),
            by: None,
        }
    }

    /// Whether the output came from outside and reads like instructions.
    fn is_suspicious(&self) -> bool {
        self.outcome.outside && is_instruction(&self.outcome.output)
    }

    /// The result of a call that the client has made.
    pub(crate) fn answer(self) -> CallAnswer {
        let suspicious = self.is_suspicious();
        let CallOutcome { status, output, outside, .. } = self.outcome;
        CallAnswer { status, output, outside, suspicious }
    }
}

/// The result of a call that was made in another system. Its text is external, like that of an external tool.
pub fn earlier_result(call: &Call, result: Option<String>, failed: bool) -> ToolComplete {
    let outcome = ::tools::earlier_outcome(result, failed);
    ExecutedCall { outcome, duration_ms: 0 }.complete(call)
}

/// Whether what came from outside reads like instructions, in any of its texts.
fn is_instruction(output: &Value) -> bool {
    let mut texts = String::new();
    add_texts(output, &mut texts);
    memory::suspicion::is_instruction(&texts)
}

/// All words of a result, a line each. How deep results nest is bounded where they come in.
fn add_texts(output: &Value, texts: &mut String) {
    match output {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => texts.extend([text.as_str(), "\n"]),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, texts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                texts.extend([name.as_str(), "\n"]);
                add_texts(value, texts);
            }
        }
    }
}
