//! The events of AG-UI, as far as we send them. A field that is absent is left out, because clients refuse null.

use protocol::{CallId, MessageId, RunId, Source, ThreadId, Usage};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(super) enum AgUiEvent<'a> {
    RunStarted {
        thread_id: &'a str,
        run_id: &'a str,
        protocol_version: &'a str,
    },
    RunFinished {
        thread_id: &'a str,
        run_id: &'a str,
        outcome: AgUiOutcome<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<AgUiResult<'a>>,
        #[serde(skip_serializing_if = "<[ModelUsage]>::is_empty")]
        usage: &'a [ModelUsage],
    },
    RunError {
        message: &'a str,
        code: &'a str,
        #[serde(skip_serializing_if = "<[ModelUsage]>::is_empty")]
        usage: &'a [ModelUsage],
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    TextMessageStart {
        message_id: &'a str,
        role: &'a str,
    },
    TextMessageContent {
        message_id: &'a str,
        delta: &'a str,
    },
    TextMessageEnd {
        message_id: &'a str,
    },
    ReasoningStart {
        message_id: &'a str,
    },
    ReasoningMessageStart {
        message_id: &'a str,
        role: &'a str,
    },
    ReasoningMessageContent {
        message_id: &'a str,
        delta: &'a str,
    },
    ReasoningMessageEnd {
        message_id: &'a str,
    },
    ReasoningEnd {
        message_id: &'a str,
    },
    ToolCallStart {
        tool_call_id: CallId,
        tool_call_name: &'a str,
        parent_message_id: &'a str,
    },
    ToolCallArgs {
        tool_call_id: CallId,
        delta: &'a str,
    },
    ToolCallEnd {
        tool_call_id: CallId,
    },
    ToolCallResult {
        message_id: String,
        tool_call_id: CallId,
        content: &'a str,
        role: &'a str,
    },
    StateSnapshot {
        snapshot: &'a Value,
    },
    StateDelta {
        delta: &'a [PatchOperation],
    },
    Custom {
        name: &'a str,
        value: CustomValue<'a>,
    },
}

/// How a run ended.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum AgUiOutcome<'a> {
    Success {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<CallId>,
    },
    Interrupt {
        interrupts: &'a [AgUiInterrupt],
    },
    Cancelled,
}

/// A call that waits for the user's approval.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgUiInterrupt {
    pub(super) id: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) tool_call_id: CallId,
    pub(super) response_schema: Value,
    pub(super) expires_at: String,
}

/// The outcome of a run, in our own ids.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgUiResult<'a> {
    pub(super) message_id: MessageId,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) memories_referenced: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<&'a Value>,
}

/// The tokens of one model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelUsage {
    pub(super) model: String,
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    reasoning_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cached_input_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ModelUsage {
    pub(super) fn of(model: String) -> Self {
        let (input_tokens, output_tokens, total_tokens) = (0, 0, 0);
        Self { model, input_tokens, output_tokens, total_tokens, reasoning_tokens: 0, cached_input_tokens: 0 }
    }

    pub(super) fn add(&mut self, usage: &Usage) {
        self.input_tokens += usage.input_tokens;
        self.output_tokens += usage.output_tokens;
        self.total_tokens += usage.total();
        self.reasoning_tokens += usage.reasoning_tokens;
        self.cached_input_tokens += usage.cached_input_tokens;
    }
}

/// An operation of JSON Patch.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum PatchOperation {
    Add { path: String, value: Value },
    Remove { path: String },
}

/// The values of our own events.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(super) enum CustomValue<'a> {
    Run {
        run_id: RunId,
        thread_id: ThreadId,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
    },
    Source(&'a Source),
}
