//! O1: every run has ended, or waits for the user; and one that was given up has a reason in its log.

use protocol::RunStatus;

use crate::record::Violation;

use super::case::{Case, violation};
use super::log::{LoggedRun, RowId, StoredLog, hex};

/// Times a step may begin again after a crash; once more, and its run is given up.
const MAX_RESTARTS: usize = 2;

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let each = case.log.runs.iter().filter_map(|(id, run)| {
        let what = complaint(case.log, id, run)?;
        Some(violation("O1", format!("run {} of message {:?} {what}", hex(id), run.tag)))
    });
    each.collect()
}

fn complaint(log: &StoredLog, id: &RowId, run: &LoggedRun) -> Option<String> {
    match run.status {
        RunStatus::Queued | RunStatus::Running => {
            Some(format!("is {} after all is quiet", run.status.name()))
        }
        RunStatus::Waiting => {
            let open = |run: &Option<RowId>, status: &str| run.as_ref() == Some(id) && status == "open";
            let asked = log.proposals.values().any(|proposal| open(&proposal.run, &proposal.status));
            let asked = asked || log.waiting_for_client.contains(id);
            (!asked).then(|| "waits, and nobody was asked anything".to_owned())
        }
        RunStatus::Interrupted if run.stop.as_deref() != Some("interrupted") && !is_given_up(run) => {
            Some("was interrupted without a cause in its log".to_owned())
        }
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled | RunStatus::Interrupted => None,
    }
}

/// Whether one of its steps began as often as it may.
fn is_given_up(run: &LoggedRun) -> bool {
    run.resets.iter().filter(|reset| reset.usage.is_none()).count() > MAX_RESTARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::log::{Proposal, Reset};
    use crate::oracle::tests::sample::{self, RUN};

    fn found(change: impl FnOnce(&mut StoredLog)) -> Vec<Violation> {
        let (trial, mut log) = sample::good();
        change(&mut log);
        check(&Case::new(&trial, &log))
    }

    fn with_status(status: RunStatus, stop: Option<&str>) -> Vec<Violation> {
        found(|log| {
            let run = log.runs.get_mut(&RUN).unwrap();
            (run.status, run.stop) = (status, stop.map(str::to_owned));
        })
    }

    #[test]
    fn a_run_that_is_still_under_way_is_found() {
        assert_eq!(found(|_| {}), []);
        for status in [RunStatus::Queued, RunStatus::Running, RunStatus::Waiting] {
            assert_eq!(with_status(status, None).len(), 1, "{status:?}");
        }
    }

    #[test]
    fn a_run_may_wait_for_an_open_proposal_only() {
        for (status, wrong) in [("open", 0), ("confirmed", 1)] {
            let found = found(|log| {
                log.runs.get_mut(&RUN).unwrap().status = RunStatus::Waiting;
                log.proposals.insert([9; 16], Proposal { run: Some(RUN), status: status.into() });
            });
            assert_eq!(found.len(), wrong, "{found:?}");
        }
    }

    #[test]
    fn an_interruption_needs_a_cause() {
        assert_eq!(with_status(RunStatus::Interrupted, None).len(), 1);
        assert_eq!(with_status(RunStatus::Interrupted, Some("interrupted")), []);
        let crashed = found(|log| {
            let run = log.runs.get_mut(&RUN).unwrap();
            run.status = RunStatus::Interrupted;
            run.resets = (1..=3).map(|seq| Reset { seq, usage: None }).collect();
        });
        assert_eq!(crashed, []);
    }
}
