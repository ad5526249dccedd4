//! Runs of all users, as admins list them.

use protocol::{AppId, RunId, RunStatus};

use crate::{RunRow, TimeCursor};

/// Which runs an admin wants to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of any status when there is none.
    pub statuses: Vec<RunStatus>,
    /// Runs of these apps; of all apps when none.
    pub apps: Option<Vec<AppId>>,
}

/// A page of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ScannedRuns {
    pub runs: Vec<RunRow>,
    /// The place from which the list continues.
    pub next: Option<TimeCursor<RunId>>,
}

impl RunFilter {
    /// Whether only runs that have not ended are wanted.
    pub fn is_of_active(&self) -> bool {
        !self.statuses.is_empty() && !self.statuses.iter().any(|status| status.is_terminal())
    }

    pub fn fits(&self, run: &RunRow) -> bool {
        let is_wanted = self.statuses.is_empty() || self.statuses.contains(&run.status);
        is_wanted && self.apps.as_ref().is_none_or(|apps| apps.contains(&run.scope.app))
    }
}
