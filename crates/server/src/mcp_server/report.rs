//! A run as a tool result: bounded, and the same for all tools that show one.

use jiff::Timestamp;
use protocol::{
    CallId, ClientCallView, Failure, ProposalId, ProposalView, RunId, RunResult, RunStatus, ThreadId,
};
use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::Value;

use crate::error::ApiProblem;

/// Bytes of an answer in a result.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Bytes of the input of a call in a result; of a larger one only its beginning is shown.
const MAX_INPUT_BYTES: usize = 16 * 1024;

/// Said of a run that waits for approvals.
const APPROVALS_OPEN: &str = "the run waits for approvals: ask the user about each of them, decide it with the tool \
    answer (id, approve), and read the answer with the tool get";

/// Said of a run that waits for results.
const CALLS_OPEN: &str = "the run waits for the results of tool calls: give each with the tool answer (id, result), \
    and read the answer with the tool get";

/// Said of a run that is still at work.
const AT_WORK: &str = "the run is not at its end: read the answer with the tool get";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunReport {
    run: RunId,
    thread: ThreadId,
    status: RunStatus,
    answer: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    answer_cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    approvals: Vec<OpenApproval>,
    calls: Vec<ReportedCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenApproval {
    id: ProposalId,
    tool: String,
    input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    expires_at: Timestamp,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportedCall {
    id: CallId,
    name: String,
    input: Value,
    expires_at: Timestamp,
}

/// A run as a result. Its note says what to do next, or what else there is to say.
pub(super) fn run_report(result: RunResult, said: Option<&str>) -> CallToolResult {
    let note = said.or(match result.status {
        RunStatus::Waiting if !result.proposals.is_empty() => Some(APPROVALS_OPEN),
        RunStatus::Waiting => Some(CALLS_OPEN),
        RunStatus::Queued | RunStatus::Running => Some(AT_WORK),
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled | RunStatus::Interrupted => None,
    });
    let answer_cut = result.reply.len() > MAX_ANSWER_BYTES;
    structured_result(&RunReport {
        run: result.run_id,
        thread: result.thread_id,
        status: result.status,
        answer: beginning(&result.reply, MAX_ANSWER_BYTES).to_owned(),
        answer_cut,
        data: result.data.filter(|_| !answer_cut),
        approvals: result.proposals.into_iter().map(open_approval).collect(),
        calls: result.client_calls.into_iter().map(open_call).collect(),
        error: result.error,
        note: note.map(str::to_owned),
    })
}

/// A value as the structured content of a result, and as its text.
pub(super) fn structured_result(value: &impl Serialize) -> CallToolResult {
    CallToolResult::structured(serde_json::to_value(value).unwrap_or_default())
}

/// A failure that the client and its model can read.
pub(super) fn failed_result(problem: &ApiProblem) -> CallToolResult {
    CallToolResult::error(vec![rmcp::model::ContentBlock::text(problem.line())])
}

fn open_approval(proposal: ProposalView) -> OpenApproval {
    let ProposalView { id, tool, input, note, expires_at, .. } = proposal;
    OpenApproval { id, tool, input: shown_input(input), note, expires_at }
}

fn open_call(call: ClientCallView) -> ReportedCall {
    let ClientCallView { id, name, input, expires_at, .. } = call;
    ReportedCall { id, name, input: shown_input(input), expires_at }
}

/// The input of a call, or the beginning of its text if it is large.
fn shown_input(input: Value) -> Value {
    let text = input.to_string();
    if text.len() <= MAX_INPUT_BYTES {
        return input;
    }
    Value::String(format!("{}…", beginning(&text, MAX_INPUT_BYTES)))
}

/// The text up to a number of bytes.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
