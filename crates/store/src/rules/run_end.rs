//! The end of a run that no process can drive, decided from its rows alone.

use protocol::{CallId, Failure, RunStatus, ToolComplete, ToolStatus};

use crate::{Error, ForcedEnd, Stop};

/// A tool call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    pub id: CallId,
    pub name: String,
    /// Whether its action was begun.
    pub begun: bool,
}

/// Whether a run is still to be ended. `ended` is known only to the owner of the epoch; [`Error::Fenced`] for another.
pub fn is_to_end(ended: Option<bool>) -> Result<bool, Error> {
    ended.map(|ended| !ended).ok_or(Error::Fenced)
}

/// The result of a call that will not be made any more.
pub fn abandoned_result(call: OpenCall, end: &ForcedEnd) -> ToolComplete {
    let (status, output) = match call.begun {
        true => (ToolStatus::Unknown, end.unknown.clone()),
        false => (ToolStatus::Cancelled, end.cancelled.clone()),
    };
    let OpenCall { id: call_id, name, .. } = call;
    ToolComplete {
        call_id,
        name,
        status,
        output,
        duration_ms: 0,
        outside: false,
        suspicious: false,
        by: None,
    }
}

/// How the run ends: as it was told to, if it was, and else with the error.
pub fn ending(stop: Option<Stop>, end: &ForcedEnd) -> (RunStatus, Option<Failure>) {
    match stop {
        Some(stop) => (stop.status(), None),
        None => (end.status, Some(end.error.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_of_an_earlier_epoch_ends_nothing() {
        assert!(matches!(is_to_end(None), Err(Error::Fenced)));
        assert_eq!([Some(true), Some(false)].map(|ended| is_to_end(ended).unwrap()), [false, true]);
    }
}
