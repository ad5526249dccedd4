//! The tools of one app, and the path of a call through them.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use protocol::{Effect, MAX_JSON_DEPTH, ToolStatus, value_depth};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::facts::is_repeatable;
use crate::policy::{self, Ruling};
use crate::{CallOutcome, Calling, Failed, OfferedTool, Taint, ToolFacts, ToolOutput, ToolSpec};

/// Bytes of a result that are kept. The rest is cut, with a note.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The `error` of a call that took too long.
const TIMEOUT: &str = "timeout";

/// Schema violations told to the model at once.
const MAX_VIOLATIONS: usize = 5;

/// Names of arguments that look like the identity of a user.
const IDENTITIES: &[&str] = &["userId", "user_id", "user", "appId", "app_id", "app", "scope", "tenant"];

/// An app's tools.
pub struct ToolRegistry {
    tools: HashMap<String, Arc<RegisteredTool>>,
    /// In the order the app names them, so that the prompt's prefix stays the same.
    specs: Arc<[ToolSpec]>,
}

/// A tool of an app, with the schema that its arguments must fit.
pub struct RegisteredTool {
    offered: OfferedTool,
    arguments: Validator,
}

/// A call that may begin, as far as its tool is concerned.
pub struct PreparedCall<'a> {
    tool: &'a RegisteredTool,
    pub ruling: Ruling,
}

impl ToolRegistry {
    /// Fails with the name of a tool whose parameters are not a JSON Schema, and why.
    pub fn new(tools: Vec<OfferedTool>) -> Result<Self, (String, String)> {
        Self { tools: HashMap::new(), specs: Arc::new([]) }.with_tools(tools)
    }

    /// Returns these tools, and then others.
    pub(crate) fn with_tools(&self, others: Vec<OfferedTool>) -> Result<Self, (String, String)> {
        let specs = others.iter().map(|tool| &tool.spec);
        let specs: Arc<[ToolSpec]> = self.specs.iter().chain(specs).cloned().collect();
        let mut tools = self.tools.clone();
        for offered in others {
            let name = offered.spec.name.clone();
            let arguments = jsonschema::validator_for(&offered.spec.parameters)
                .map_err(|error| (name.clone(), format!("its parameters are not a JSON Schema: {error}")))?;
            tools.insert(name, Arc::new(RegisteredTool { offered, arguments }));
        }
        Ok(Self { tools, specs })
    }

    /// The names of the tools whose calls the client makes, in order.
    pub fn client_tools(&self) -> Vec<String> {
        let is_client = |name: &str| self.get(name).is_some_and(|tool| tool.facts().by_client);
        self.specs.iter().map(|spec| &spec.name).filter(|name| is_client(name)).cloned().collect()
    }

    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// The tool of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&RegisteredTool> {
        self.tools.get(name).map(Arc::as_ref)
    }

    /// The tool of that name, or an answer to the model that lists the names there are.
    pub fn find(&self, name: &str) -> Result<&RegisteredTool, Failed> {
        self.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            let message = format!("there is no tool of that name; there are: {}", names.join(", "));
            Failed::new("unknown_tool", message)
        })
    }
}

impl RegisteredTool {
    pub fn facts(&self) -> &ToolFacts {
        &self.offered.facts
    }

    /// The effect of an undo of a call of this tool, if the tool itself can undo it.
    pub fn undo_effect(&self) -> Option<Effect> {
        self.offered.undo.as_ref().map(|undo| undo.effect)
    }

    /// Checks the arguments of a call and rules on it. Nothing is begun.
    pub async fn prepare(&self, calling: &Calling<'_>, taint: &Taint) -> Result<PreparedCall<'_>, Failed> {
        validate(&self.arguments, &calling.input)?;
        let checked = AssertUnwindSafe(self.offered.tool.check(calling)).catch_unwind().await;
        checked.unwrap_or_else(|_| Err(crash_failure(self.name())))?;
        Ok(PreparedCall { tool: self, ruling: policy::rule(self.facts(), &calling.input, taint) })
    }

    /// Undoes a call that acted outside. Never fails: what goes wrong is told in the outcome.
    pub async fn undo(&self, calling: Calling<'_>, output: &Value, timeout: Duration) -> CallOutcome {
        let Some(undo) = &self.offered.undo else {
            return Failed::new("cannot_undo", "the tool has no undo").into();
        };
        let call = again_if_harmless(undo.effect, calling.stop, || undo.call.undo(calling.clone(), output));
        outcome(run_within_time(self.name(), timeout, call).await, true)
    }

    /// Says which request an undo of a call would make, without secrets. Nothing is sent.
    pub async fn describe_undo(&self, calling: Calling<'_>, output: &Value) -> Result<Value, Failed> {
        match &self.offered.undo {
            Some(undo) => undo.call.describe(calling, output).await,
            None => Err(Failed::new("cannot_undo", "the tool has no undo")),
        }
    }

    fn name(&self) -> &str {
        &self.offered.spec.name
    }
}

impl PreparedCall<'_> {
    /// Makes the call. Never fails: what goes wrong is told to the model.
    pub async fn run(&self, calling: Calling<'_>, timeout: Duration) -> CallOutcome {
        let (tool, facts) = (&self.tool.offered.tool, self.tool.facts());
        let call = again_if_harmless(facts.effect, calling.stop, || tool.call(calling.clone()));
        let timeout = facts.time_limit.map_or(timeout, |most| most.min(timeout));
        let result = run_within_time(self.tool.name(), timeout, call).await;
        CallOutcome { outside: facts.external, ..outcome(result, facts.changes_elsewhere()) }
    }
}

/// A call, and once more after a failure that another try may mend, where that does no harm.
async fn again_if_harmless<F: Future<Output = Result<ToolOutput, Failed>>>(
    effect: Effect,
    stop: &CancellationToken,
    call: impl Fn() -> F,
) -> Result<ToolOutput, Failed> {
    match call().await {
        Err(failed) if is_repeatable(effect) => match failed.again {
            Some(pause) if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() => {
                // The first try may still have done something, however the second ends.
                call()
                    .await
                    .map_err(|second| Failed { uncertain: second.uncertain || failed.uncertain, ..second })
            }
            Some(_) | None => Err(failed),
        },
        result => result,
    }
}

/// A call within its time, with its panics caught.
async fn run_within_time(
    name: &str,
    timeout: Duration,
    call: impl Future<Output = Result<ToolOutput, Failed>>,
) -> Result<ToolOutput, Failed> {
    match tokio::time::timeout(timeout, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(result) => result.unwrap_or_else(|_| Err(crash_failure(name))),
        Err(_) => Err(timed_out(timeout)),
    }
}

/// A call that changes things elsewhere is not called failed if it may have happened.
fn outcome(result: Result<ToolOutput, Failed>, changes: bool) -> CallOutcome {
    match result {
        Ok(ToolOutput { output, writes, sources }) => CallOutcome {
            status: ToolStatus::Complete,
            output: capped_output(output),
            writes,
            sources,
            outside: false,
        },
        Err(failed) => {
            let outcome = if failed.uncertain && changes {
                CallOutcome::unknown_because(&failed.message)
            } else {
                CallOutcome::from(failed)
            };
            CallOutcome { output: capped_output(outcome.output), ..outcome }
        }
    }
}

fn crash_failure(name: &str) -> Failed {
    tracing::error!(tool = name, "a tool panicked");
    Failed::uncertain("crashed", "the tool crashed; its result is not known")
}

/// The failure of a call that took too long.
pub(crate) fn timed_out(timeout: Duration) -> Failed {
    Failed::uncertain(TIMEOUT, format!("the tool gave no answer within {} s", timeout.as_secs()))
}

/// Checks a value, and says in words for the model where it does not fit.
pub(crate) fn validate(schema: &Validator, value: &Value) -> Result<(), Failed> {
    let violations: Vec<String> = schema
        .iter_errors(value)
        .take(MAX_VIOLATIONS)
        .map(|error| match error.instance_path().to_string() {
            root if root.is_empty() => format!("{error}{}", about_identity(&error)),
            path => format!("{path}: {error}"),
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(Failed::new("invalid_arguments", violations.join("; "))) }
}

/// Models that name a user in their arguments are told why that cannot be.
fn about_identity(error: &ValidationError<'_>) -> &'static str {
    let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else { return "" };
    if unexpected.iter().any(|name| IDENTITIES.contains(&name.as_str())) {
        " (who is speaking is known to the server; do not name users or apps)"
    } else {
        ""
    }
}

/// The output, or a text that holds the beginning of it. A value that nests deeper than JSON may becomes its own text,
/// too.
pub(crate) fn capped_output(output: Value) -> Value {
    let size = output.as_str().map_or_else(|| output.to_string().len(), str::len);
    let too_deep = value_depth(&output) > MAX_JSON_DEPTH;
    if size <= MAX_OUTPUT_BYTES && too_deep {
        return Value::String(output.to_string());
    }
    if size <= MAX_OUTPUT_BYTES {
        return output;
    }
    let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
    let kept = text.get(..text.floor_char_boundary(MAX_OUTPUT_BYTES)).unwrap_or_default();
    Value::String(format!("{kept}\n[cut: {} of {} bytes kept]", kept.len(), text.len()))
}
