//! Sandboxed tools: code of the app, as WebAssembly, that can only compute.
//!
//! A module gets the arguments as JSON and gives its answer as JSON. It can import nothing, so there is nothing it can
//! reach: no clock, no chance, no files, no network. Every call has an instance of its own, so that nothing stays from
//! one call, or one user, to the next. A call ends within its fuel, its memory and its time, with any code.

mod module_call;
mod program;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use app::SandboxTool;
use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::program::WasmProgram;
use crate::{Calling, Failed, OfferedTool, Tool, ToolFacts, ToolOutput, ToolSpec};

/// Calls of one tool that compute at the same time; others wait, within their time.
const MAX_CALLS_AT_ONCE: usize = 4;

pub(crate) struct WasmTool {
    program: Arc<WasmProgram>,
    timeout: Duration,
    places: Arc<Semaphore>,
}

impl WasmTool {
    /// Fails with the problem of the module, in words for its developer.
    pub(crate) fn new(tool: &SandboxTool) -> Result<Self, String> {
        Ok(Self {
            program: Arc::new(WasmProgram::load(&tool.module, tool.fuel, tool.memory_bytes)?),
            timeout: tool.timeout,
            places: Arc::new(Semaphore::new(MAX_CALLS_AT_ONCE)),
        })
    }

    /// The tool with its facts: code that can only compute changes nothing and stays here.
    pub(crate) fn into_offered_tool(self, spec: ToolSpec) -> OfferedTool {
        OfferedTool::new(spec, self, ToolFacts::default())
    }

    async fn compute(&self, input: Value, stop: CancellationToken) -> Result<Value, Failed> {
        let place = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(stop_failure()),
            place = Arc::clone(&self.places).acquire_owned() => place.map_err(|_| stop_failure())?,
        };
        let program = Arc::clone(&self.program);
        let computing = tokio::task::spawn_blocking(move || {
            let answer = program.run(&input.to_string(), &stop);
            // Held until the code has really ended, even when the caller has gone.
            drop(place);
            answer
        });
        computing.await.unwrap_or_else(|_| Err(Failed::new("crashed", "the sandbox of the tool crashed")))
    }
}

#[async_trait]
impl Tool for WasmTool {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let stop = calling.stop.child_token();
        // However this call ends, by its time or by being dropped, the code ends soon after.
        let _end = stop.clone().drop_guard();
        match tokio::time::timeout(self.timeout, self.compute(calling.input, stop)).await {
            Ok(answer) => answer.map(ToolOutput::from),
            Err(_) => {
                let message = format!("the tool gave no answer within {:?}", self.timeout);
                Err(Failed::new("timeout", message))
            }
        }
    }
}

fn stop_failure() -> Failed {
    Failed::new("stopped", "the call was stopped before the tool had an answer")
}
