//! The tools of one app, and the path of a call through them.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jsonschema::Validator;
use protocol::ToolStatus;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Failed, Outcome, Tool, ToolSpec};

/// Bytes of a result that are kept. The rest is cut, with a note.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Schema violations told to the model at once.
const MAX_VIOLATIONS: usize = 5;

/// An app's tools.
pub struct Registry {
    tools: HashMap<String, Entry>,
    /// In the order the app names them, so that the prompt's prefix stays the same.
    specs: Arc<[ToolSpec]>,
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

    /// Runs a call. Never fails: what goes wrong is told to the model.
    pub async fn run(
        &self,
        name: &str,
        input: Value,
        timeout: Duration,
        stop: &CancellationToken,
    ) -> Outcome {
        match self.try_run(name, input, timeout, stop).await {
            Ok(output) => Outcome { status: ToolStatus::Complete, output: capped(output) },
            Err(Failed { error, message }) => Outcome {
                status: ToolStatus::Failed,
                output: capped(json!({ "error": error, "message": message })),
            },
        }
    }

    async fn try_run(
        &self,
        name: &str,
        input: Value,
        timeout: Duration,
        stop: &CancellationToken,
    ) -> Result<Value, Failed> {
        let entry = self.tools.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            Failed::new(
                "unknown_tool",
                format!("there is no tool of that name; there are: {}", names.join(", ")),
            )
        })?;
        validate(&entry.arguments, &input)?;
        let call = AssertUnwindSafe(entry.tool.call(input, stop)).catch_unwind();
        match tokio::time::timeout(timeout, call).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                tracing::error!(tool = name, "a tool panicked");
                Err(Failed::new("crashed", "the tool crashed; nothing is known of its result"))
            }
            Err(_) => {
                Err(Failed::new("timeout", format!("the tool gave no answer within {} s", timeout.as_secs())))
            }
        }
    }
}

fn validate(arguments: &Validator, input: &Value) -> Result<(), Failed> {
    let violations: Vec<String> = arguments
        .iter_errors(input)
        .take(MAX_VIOLATIONS)
        .map(|error| match error.instance_path().to_string() {
            root if root.is_empty() => error.to_string(),
            path => format!("{path}: {error}"),
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(Failed::new("invalid_arguments", violations.join("; "))) }
}

/// The output, or a text that holds the beginning of it.
fn capped(output: Value) -> Value {
    let size = output.as_str().map_or_else(|| output.to_string().len(), str::len);
    if size <= MAX_OUTPUT_BYTES {
        return output;
    }
    let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
    let kept = text.get(..text.floor_char_boundary(MAX_OUTPUT_BYTES)).unwrap_or_default();
    Value::String(format!("{kept}\n[cut: {} of {} bytes kept]", kept.len(), text.len()))
}
