//! The chunks of the AI SDK's UI message stream, as far as we send them.
//!
//! Older clients refuse fields and kinds that they do not know, so there are none of our own: what is ours is in
//! `data-…` parts and in the metadata of the message.

use protocol::{CallId, MessageId, ProposalId, Remembered, RunId, ThreadId, Usage};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum UiChunk<'a> {
    Start {
        message_id: RunId,
        message_metadata: Begun<'a>,
    },
    StartStep,
    FinishStep,
    /// Voids all that was sent of this step. Clients before version 7 do not know it.
    ResetStep,
    TextStart {
        id: &'a str,
    },
    TextDelta {
        id: &'a str,
        delta: &'a str,
    },
    TextEnd {
        id: &'a str,
    },
    ReasoningStart {
        id: &'a str,
    },
    ReasoningDelta {
        id: &'a str,
        delta: &'a str,
    },
    ReasoningEnd {
        id: &'a str,
    },
    ToolInputStart {
        tool_call_id: CallId,
        tool_name: &'a str,
        #[serde(flatten)]
        made_here: Option<MadeHere>,
    },
    ToolInputDelta {
        tool_call_id: CallId,
        input_text_delta: &'a str,
    },
    ToolInputAvailable {
        tool_call_id: CallId,
        tool_name: &'a str,
        input: &'a Value,
        #[serde(flatten)]
        made_here: Option<MadeHere>,
    },
    ToolApprovalRequest {
        approval_id: ProposalId,
        tool_call_id: CallId,
    },
    ToolOutputAvailable {
        tool_call_id: CallId,
        output: &'a Value,
        #[serde(flatten)]
        made_here: Option<MadeHere>,
    },
    ToolOutputError {
        tool_call_id: CallId,
        error_text: &'a str,
        #[serde(flatten)]
        made_here: Option<MadeHere>,
    },
    ToolOutputDenied {
        tool_call_id: CallId,
    },
    SourceUrl {
        source_id: &'a str,
        url: &'a str,
        title: &'a str,
    },
    SourceDocument {
        source_id: &'a str,
        media_type: &'a str,
        title: &'a str,
    },
    /// The memory that the message asked for.
    DataMemory {
        id: String,
        data: &'a Remembered,
    },
    /// The memories in the prompt.
    DataMemories {
        data: RecalledMemories<'a>,
    },
    Finish {
        finish_reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message_metadata: Option<Ended<'a>>,
    },
    Abort,
    Error {
        error_text: &'a str,
    },
}

/// Without these, a client looks for the tool on its own side, which is right only for a tool that it runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MadeHere {
    dynamic: bool,
    provider_executed: bool,
}

impl MadeHere {
    /// The fields of a call that the server makes; none for one that the client makes.
    pub(super) fn of_call(by_client: bool) -> Option<Self> {
        (!by_client).then_some(Self { dynamic: true, provider_executed: true })
    }
}

/// The metadata of an answer when it begins.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Begun<'a> {
    pub(super) run_id: RunId,
    pub(super) thread_id: ThreadId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
}

/// The metadata of an answer when it is complete.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ended<'a> {
    /// The answer as the thread has it.
    pub(super) answer_id: MessageId,
    /// The model that stood in for the run's own, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    pub(super) usage: Usage,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) memories_referenced: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<&'a Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct RecalledMemories<'a> {
    pub(super) ids: &'a [String],
}
