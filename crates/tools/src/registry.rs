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

use crate::policy::{self, Ruling, Subject};
use crate::{Calling, Done, Failed, Outcome, Taint, Tool, ToolSpec};

/// Bytes of a result that are kept. The rest is cut, with a note.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The `error` of a call that took too long.
const TIMEOUT: &str = "timeout";

/// Schema violations told to the model at once.
const MAX_VIOLATIONS: usize = 5;

/// Arguments that look like somebody's identity.
const IDENTITIES: &[&str] = &["userId", "user_id", "user", "appId", "app_id", "app", "scope", "tenant"];

/// An app's tools.
pub struct Registry {
    tools: HashMap<String, Entry>,
    /// In the order the app names them, so that the prompt's prefix stays the same.
    specs: Arc<[ToolSpec]>,
}

/// A call that may begin, as far as its tool is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub effect: Effect,
    pub outside: bool,
    pub ruling: Ruling,
    /// Calls that share this are made one after the other.
    pub exclusive: Option<String>,
    pub marker: Option<String>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    arguments: Validator,
}

impl Registry {
    /// Fails with the name of a tool whose schema is none, and why.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, (String, String)> {
        let specs: Arc<[ToolSpec]> = tools.iter().map(|tool| tool.spec()).collect();
        let mut entries = HashMap::new();
        for (tool, spec) in tools.into_iter().zip(specs.iter()) {
            let arguments = jsonschema::validator_for(&spec.parameters).map_err(|error| {
                (spec.name.clone(), format!("its parameters are not a JSON Schema: {error}"))
            })?;
            entries.insert(spec.name.clone(), Entry { tool, arguments });
        }
        Ok(Self { tools: entries, specs })
    }

    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// Looks a call up, checks its arguments and rules on it. Nothing is begun.
    pub async fn prepare(
        &self,
        name: &str,
        calling: &Calling<'_>,
        taint: &Taint,
    ) -> Result<Prepared, Failed> {
        let entry = self.entry(name)?;
        validate(&entry.arguments, &calling.input)?;
        let tool = &entry.tool;
        let checked = AssertUnwindSafe(tool.check(calling)).catch_unwind().await;
        checked.unwrap_or_else(|_| Err(crashed(name)))?;
        let (effect, outside) = (tool.effect(), tool.is_outside());
        let (policy, lasting, flows) = (tool.policy(), tool.is_lasting(), tool.flows());
        let subject = Subject { effect, outside, policy, lasting, flows, input: &calling.input };
        let ruling = match policy::rule(&subject, taint) {
            Ruling::Allow if tool.is_unusual(&calling.input) => Ruling::Ask,
            ruling @ (Ruling::Allow | Ruling::Ask | Ruling::Deny) => ruling,
        };
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Prepared {
            effect,
            outside,
            ruling,
            exclusive: owned(tool.exclusive()),
            marker: owned(tool.marker()),
        })
    }

    /// What a tool does to the world, if there is one of that name.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.tools.get(name).map(|entry| entry.tool.effect())
    }

    /// Whether it acts beyond this server, if there is one of that name.
    pub fn is_outside(&self, name: &str) -> bool {
        self.tools.get(name).is_some_and(|entry| entry.tool.is_outside())
    }

    /// Whether nobody can know what became of a call to this tool that was cut: it acts elsewhere, and doing it again
    /// would do it twice.
    pub fn is_beyond_knowing(&self, name: &str) -> bool {
        self.is_outside(name) && !self.effect(name).is_some_and(is_repeatable)
    }

    /// Whether a call of it may have changed something elsewhere, as soon as it has begun.
    pub fn changes_elsewhere(&self, name: &str) -> bool {
        self.is_outside(name) && self.effect(name) != Some(Effect::Read)
    }

    /// What taking back a call of this tool does, if the tool itself can.
    pub fn undo_effect(&self, name: &str) -> Option<Effect> {
        self.tools.get(name).and_then(|entry| entry.tool.undo_effect())
    }

    /// Runs a call that was prepared. Never fails: what goes wrong is told to the model.
    pub async fn run(&self, name: &str, calling: Calling<'_>, timeout: Duration) -> Outcome {
        let entry = match self.entry(name) {
            Ok(entry) => entry,
            Err(failed) => return failed.into(),
        };
        let (tool, effect, stop) = (&entry.tool, entry.tool.effect(), calling.stop);
        let call = again_if_harmless(effect, stop, || tool.call(calling.clone()));
        let timeout = tool.patience().map_or(timeout, |most| most.min(timeout));
        let result = bounded(name, timeout, call).await;
        let outcome = outcome(result, self.changes_elsewhere(name));
        Outcome { outside: tool.is_outside(), ..outcome }
    }

    /// Takes back a call that acted outside. Never fails either.
    pub async fn undo(&self, name: &str, calling: Calling<'_>, output: &Value, timeout: Duration) -> Outcome {
        let entry = match self.entry(name) {
            Ok(entry) => entry,
            Err(failed) => return failed.into(),
        };
        let (tool, effect, stop) = (&entry.tool, entry.tool.undo_effect(), calling.stop);
        let effect = effect.unwrap_or(Effect::Irreversible);
        let call = again_if_harmless(effect, stop, || tool.undo(calling.clone(), output));
        outcome(bounded(name, timeout, call).await, true)
    }

    fn entry(&self, name: &str) -> Result<&Entry, Failed> {
        self.tools.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            let message = format!("there is no tool of that name; there are: {}", names.join(", "));
            Failed::new("unknown_tool", message)
        })
    }
}

/// A call, and once more after a failure that another try may mend, where that does no harm.
async fn again_if_harmless<F: Future<Output = Result<Done, Failed>>>(
    effect: Effect,
    stop: &CancellationToken,
    call: impl Fn() -> F,
) -> Result<Done, Failed> {
    match call().await {
        Err(failed) if is_repeatable(effect) => match failed.again {
            Some(pause) if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() => {
                call().await
            }
            Some(_) | None => Err(failed),
        },
        result => result,
    }
}

/// A call within its time, with its panics caught.
async fn bounded(
    name: &str,
    timeout: Duration,
    call: impl Future<Output = Result<Done, Failed>>,
) -> Result<Done, Failed> {
    match tokio::time::timeout(timeout, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(result) => result.unwrap_or_else(|_| Err(crashed(name))),
        Err(_) => Err(timed_out(timeout)),
    }
}

/// Nobody says of a call that changes things elsewhere that it failed, when it may have happened.
fn outcome(result: Result<Done, Failed>, changes: bool) -> Outcome {
    match result {
        Ok(Done { output, writes, sources }) => {
            Outcome { status: ToolStatus::Complete, output: capped(output), writes, sources, outside: false }
        }
        Err(failed) => {
            let outcome = if failed.uncertain && changes {
                Outcome::unknown_because(&failed.message)
            } else {
                Outcome::from(failed)
            };
            Outcome { output: capped(outcome.output), ..outcome }
        }
    }
}

fn crashed(name: &str) -> Failed {
    tracing::error!(tool = name, "a tool panicked");
    Failed::uncertain("crashed", "the tool crashed; nothing is known of its result")
}

/// What is said of a call that took too long.
pub(crate) fn timed_out(timeout: Duration) -> Failed {
    Failed::uncertain(TIMEOUT, format!("the tool gave no answer within {} s", timeout.as_secs()))
}

/// Whether doing it again does nothing more.
pub(crate) fn is_repeatable(effect: Effect) -> bool {
    match effect {
        Effect::Read | Effect::Idempotent => true,
        Effect::Reversible | Effect::Irreversible => false,
    }
}

/// What does not fit, in words for the model.
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

/// The output, or a text that holds the beginning of it. What nests deeper than JSON may becomes its own text, too.
fn capped(output: Value) -> Value {
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
