//! Bugs that can be planted on purpose, to see that the crash harness finds each of them. Without the feature `planted`
//! there are none, and what asks for one costs nothing.

/// One mistake an agent server is easily made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Events are published before they are committed.
    SendBeforePersist,
    /// A call that acts outside and cannot be repeated runs again after a crash.
    RerunNonidempotent,
    /// The key of a request is written after what it did.
    IdemOutsideTx,
    /// A cancel is told to the run, and not written down.
    CancelInMemory,
    /// Jobs are written after what causes them.
    JobAfterCommit,
    /// The best of everybody's memories are found first, and those of others left out then.
    TopkThenFilter,
    /// A call may have two results.
    ResultTwice,
    /// A reader begins to listen once it has read the log.
    SeamGap,
    /// A history that is too long is cut between a call and its result.
    TrimBetweenPair,
    /// A request is answered before what it did is committed.
    AckBeforeCommit,
}

impl Bug {
    pub const ALL: [Bug; 10] = [
        Bug::SendBeforePersist,
        Bug::RerunNonidempotent,
        Bug::IdemOutsideTx,
        Bug::CancelInMemory,
        Bug::JobAfterCommit,
        Bug::TopkThenFilter,
        Bug::ResultTwice,
        Bug::SeamGap,
        Bug::TrimBetweenPair,
        Bug::AckBeforeCommit,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Bug::SendBeforePersist => "send_before_persist",
            Bug::RerunNonidempotent => "rerun_nonidempotent",
            Bug::IdemOutsideTx => "idem_outside_tx",
            Bug::CancelInMemory => "cancel_in_memory",
            Bug::JobAfterCommit => "job_after_commit",
            Bug::TopkThenFilter => "topk_then_filter",
            Bug::ResultTwice => "result_twice",
            Bug::SeamGap => "seam_gap",
            Bug::TrimBetweenPair => "trim_between_pair",
            Bug::AckBeforeCommit => "ack_before_commit",
        }
    }

    pub fn parse(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| bug.name() == name)
    }

    /// Whether this process has the bug.
    #[cfg(feature = "planted")]
    pub fn is_planted(self) -> bool {
        PLANTED.get() == Some(&self)
    }

    #[cfg(not(feature = "planted"))]
    pub const fn is_planted(self) -> bool {
        false
    }

    /// Plants it for as long as this process lives. The first one stays.
    #[cfg(feature = "planted")]
    pub fn plant(self) {
        let _ = PLANTED.set(self);
    }
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::OnceLock<Bug> = std::sync::OnceLock::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_known_by_its_name_and_is_not_there_by_itself() {
        for bug in Bug::ALL {
            assert_eq!(Bug::parse(bug.name()), Some(bug));
            assert!(!bug.is_planted());
        }
        assert_eq!(Bug::parse("none"), None);
    }
}
