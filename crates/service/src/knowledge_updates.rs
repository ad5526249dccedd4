//! Which apps' documents are being brought up to date, one update of an app at a time, and what was wrong with them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use app::{App, Problem};
use protocol::AppId;
use tokio::sync::Semaphore;

/// Updates of all apps. One of them reads files at a time.
pub(crate) struct KnowledgeUpdates {
    apps: Mutex<BTreeMap<AppId, AppUpdates>>,
    pub(crate) turn: Semaphore,
}

#[derive(Debug, Default)]
struct AppUpdates {
    state: UpdateState,
    /// For users: the first problem of the folder, and how many more there are.
    problem: Option<String>,
    /// For the log: all of them.
    logged: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum UpdateState {
    #[default]
    Idle,
    UnderWay,
    /// Under way, and the folder may have changed since it began.
    OnceMore,
}

impl Default for KnowledgeUpdates {
    fn default() -> Self {
        Self { apps: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl KnowledgeUpdates {
    /// Requests an update. True if the caller has to begin it.
    pub(crate) fn ask(&self, app: &AppId) -> bool {
        let mut apps = self.apps();
        let state = &mut apps.entry(app.clone()).or_default().state;
        let is_idle = *state == UpdateState::Idle;
        *state = if is_idle { UpdateState::UnderWay } else { UpdateState::OnceMore };
        is_idle
    }

    /// One update is over. True if there has to be another.
    pub(crate) fn is_wanted_again(&self, app: &AppId) -> bool {
        let mut apps = self.apps();
        let state = &mut apps.entry(app.clone()).or_default().state;
        let again = *state == UpdateState::OnceMore;
        *state = if again { UpdateState::UnderWay } else { UpdateState::Idle };
        again
    }

    /// The problem of an app's documents, for its users.
    pub(crate) fn problem(&self, app: &AppId) -> Option<String> {
        self.apps().get(app)?.problem.clone()
    }

    /// Notes the problems of an app's documents. Gives those that are new to the log.
    pub(crate) fn note(&self, app: &App, problems: &[Problem]) -> Vec<String> {
        let logged: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let more = match problems.len() {
            0 | 1 => String::new(),
            count => format!(" (and {} more: see `rondo apps check`)", count - 1),
        };
        let mut apps = self.apps();
        let noted = apps.entry(app.id.clone()).or_default();
        let new = logged.iter().filter(|problem| !noted.logged.contains(problem)).cloned().collect();
        noted.logged = logged;
        // Users of the app need not know where it is on this machine.
        noted.problem = problems.first().map(|first| {
            let file = first.file.strip_prefix(&app.folder).unwrap_or(&first.file).to_owned();
            format!("{}{more}", Problem { file, ..first.clone() })
        });
        new
    }

    fn apps(&self) -> MutexGuard<'_, BTreeMap<AppId, AppUpdates>> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_update_of_an_app_runs_at_a_time_and_one_more_for_all_who_ask_meanwhile() {
        let updates = KnowledgeUpdates::default();
        let (one, other) = (AppId::new("one"), AppId::new("other"));
        assert!(updates.ask(&one) && updates.ask(&other), "each app has its own");
        assert!(!updates.ask(&one) && !updates.ask(&one));
        assert!(updates.is_wanted_again(&one) && !updates.is_wanted_again(&one));
        assert!(!updates.is_wanted_again(&other));
        assert!(updates.ask(&one), "then all begins anew");
    }
}
