//! Decisions on a tool call before it reaches its tool: loops, the bound on calls, and tools that were not offered.

use ::tools::CallOutcome;
use protocol::{Call, ToolStatus};

use crate::state::{INVALID_ARGUMENTS, NOT_OFFERED, RunState};

use super::{MAX_CALLS_PER_RUN, REPEATS_STOPPED};

/// The decision on a call before it reaches a tool.
pub(crate) enum CallVerdict {
    /// Its tool and the policy of its app have the say.
    Run { approved: bool, begun: bool },
    /// The call is not run, and this is its result.
    Refuse(CallOutcome),
}

/// Decides for each call of the step whether it runs, counting the ones before it.
pub(crate) fn call_verdicts(state: &RunState, calls: &[Call]) -> Vec<CallVerdict> {
    let earlier = state.calls().saturating_sub(state.last().map_or(0, |step| step.calls.len()));
    let room = MAX_CALLS_PER_RUN.saturating_sub(earlier);
    calls.iter().enumerate().map(|(index, call)| verdict(state, calls, index, call, room)).collect()
}

fn verdict(state: &RunState, calls: &[Call], index: usize, call: &Call, room: usize) -> CallVerdict {
    let refuse =
        |status, error, message: &str| CallVerdict::Refuse(CallOutcome::refused(status, error, message));
    if call.raw.is_some() {
        let message =
            "the arguments were not a complete JSON object, or nested too deep; the call was not run";
        return refuse(ToolStatus::Failed, INVALID_ARGUMENTS, message);
    }
    let same_later =
        calls.iter().skip(index + 1).filter(|other| other.name == call.name && other.input == call.input);
    let times =
        state.repeat_count(call).saturating_sub(u32::try_from(same_later.count()).unwrap_or(u32::MAX));
    if times >= REPEATS_STOPPED {
        let message =
            format!("this same call was made {times} times; it was not run again. Answer with what you have");
        return refuse(ToolStatus::Denied, "loop_detected", &message);
    }
    if index >= room {
        let message = format!("a run may make {MAX_CALLS_PER_RUN} calls; this one was not run");
        return refuse(ToolStatus::Denied, "too_many_calls", &message);
    }
    CallVerdict::Run { approved: state.is_approved(call.id), begun: state.has_begun(call.id) }
}

/// The outcome of a call with good arguments, if its request did not offer the tool. `is_known` says whether the app
/// has a tool of this name. If it does not, and other tools were offered, there is no outcome here: the model is told
/// which tools there are.
pub(crate) fn unoffered_outcome(
    call: &Call,
    offered: &[::tools::ToolSpec],
    is_known: bool,
) -> Option<CallOutcome> {
    let is_offered = offered.iter().any(|tool| tool.name == call.name) || !offered.is_empty() && !is_known;
    let message =
        "no such tool was offered, so the call was not run; answer in words, and say what you cannot do";
    (!is_offered).then(|| CallOutcome::refused(ToolStatus::Denied, NOT_OFFERED, message))
}
