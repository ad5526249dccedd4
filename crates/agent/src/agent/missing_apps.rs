//! Work that waits for a missing app. The folder of an app can be away for a moment, as during a deploy or before a
//! volume is mounted, or for good. Runs, jobs and actions of the app stay as they are, without a task, and continue
//! when it is back. After a day the app counts as gone. The time when it went missing is stored, so restarts do not
//! matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use protocol::{AppId, ThreadId};
use store::{ActionRow, JobRow, RunRow};

use super::Agent;
use crate::Error;

/// How long an app may be missing before it counts as gone.
const APP_PATIENCE: SignedDuration = SignedDuration::from_hours(24);

/// A job looks for its app again after as long as the app is missing already, within these bounds.
const FIRST_JOB_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_JOB_PAUSE: SignedDuration = SignedDuration::from_mins(10);

/// The apps that are missing, by name. Locked for a look, never over an await.
#[derive(Default)]
pub(super) struct MissingApps(Mutex<BTreeMap<AppId, MissingApp>>);

/// A missing app, with the unfinished work that waits for it.
struct MissingApp {
    since: Timestamp,
    /// Threads with a run that waits.
    threads: BTreeSet<ThreadId>,
    /// Actions without a run that an earlier process had begun.
    actions: Vec<ActionRow>,
}

impl MissingApp {
    fn missing_since(since: Timestamp) -> Self {
        Self { since, threads: BTreeSet::new(), actions: Vec::new() }
    }

    fn is_gone(&self, now: Timestamp) -> bool {
        self.since.checked_add(APP_PATIENCE).is_ok_and(|until| until <= now)
    }
}

impl Agent {
    fn missing_apps(&self) -> MutexGuard<'_, BTreeMap<AppId, MissingApp>> {
        self.inner.missing.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the apps that earlier processes noted as missing. An app that is there again is removed from the list.
    pub(crate) async fn read_missing_apps(&self) -> Result<(), Error> {
        for (app, since) in self.world.store.missing_apps().await? {
            if self.world.app(&app).is_some() {
                self.world.store.note_found(&app).await?;
            } else {
                self.missing_apps().insert(app, MissingApp::missing_since(since));
            }
        }
        Ok(())
    }

    /// Whether a run waits for its app. It is then taken up when the app is back, or gone. A run that was told to stop
    /// does not wait: stopping needs no app.
    pub(crate) async fn run_waits_for_app(&self, run: &RunRow) -> bool {
        let thread = run.thread;
        run.stop.is_none()
            && self
                .waits_for(&run.scope.app, |app| {
                    app.threads.insert(thread);
                })
                .await
    }

    /// Whether a run waits for its app before this process has read its log. Nodes may serve different apps for a
    /// while, and the database has the files of the version that the run began with. So a node reads the log first.
    pub(crate) async fn run_waits_unseen(&self, run: &RunRow) -> bool {
        let has_waited = |app: &MissingApp| app.threads.contains(&run.thread);
        let is_known = self.missing_apps().get(&run.scope.app).is_some_and(has_waited);
        let may_be_stored = self.world.store.node().is_some() && !is_known;
        !may_be_stored && self.run_waits_for_app(run).await
    }

    /// Whether an action that an earlier process had begun waits for its app.
    pub(crate) async fn action_waits_for_app(&self, action: &ActionRow) -> bool {
        self.waits_for(&action.scope.app, |app| app.actions.push(action.clone())).await
    }

    /// When a job is to look for its app again, if it waits for it.
    pub(crate) async fn job_waits_for_app(&self, job: &JobRow) -> Option<Timestamp> {
        if !self.waits_for(&job.scope.app, |_| ()).await {
            return None;
        }
        let now = self.world.now();
        let since = self.missing_apps().get(&job.scope.app).map_or(now, |app| app.since);
        now.checked_add(now.duration_since(since).clamp(FIRST_JOB_PAUSE, LONGEST_JOB_PAUSE)).ok()
    }

    /// Notes work that waits for an app. False if it does not wait: the app is there, or counts as gone.
    async fn waits_for(&self, app: &AppId, note: impl FnOnce(&mut MissingApp)) -> bool {
        if self.world.app(app).is_some() {
            return false;
        }
        let is_known = self.missing_apps().contains_key(app);
        let since = if is_known { self.world.now() } else { self.note_missing(app).await };
        {
            let mut missing = self.missing_apps();
            let missing = missing.entry(app.clone()).or_insert_with(|| MissingApp::missing_since(since));
            if missing.is_gone(self.world.now()) {
                return false;
            }
            note(missing);
        }
        if self.world.app(app).is_some() {
            self.resume_app(app); // the app came back before this wait was noted
        }
        true
    }

    /// Notes that an app is missing, and returns since when. If the store fails, the app counts as gone later.
    async fn note_missing(&self, app: &AppId) -> Timestamp {
        tracing::warn!(%app, "the app's folder is missing; its unfinished runs, jobs and actions wait for it, for a day at most");
        self.world.store.note_missing(app).await.unwrap_or_else(|error| {
            tracing::warn!(%app, %error, "the time since when an app is missing was not stored");
            self.world.now()
        })
    }

    /// Resumes the runs, jobs and actions that waited for an app, once it is served again.
    pub(crate) fn resume_app(&self, app: &AppId) {
        let Some(found) = self.missing_apps().remove(app) else { return };
        let (agent, app) = (self.clone(), app.clone());
        self.world.tasks.spawn(async move {
            tracing::info!(%app, runs = found.threads.len(), "the app is back; its waiting runs, jobs and actions continue");
            if let Err(error) = agent.world.store.note_found(&app).await {
                tracing::warn!(%app, %error, "the return of an app was not stored");
            }
            agent.resume_runs_and_actions(found.threads, found.actions).await;
        });
    }

    /// Ends the runs and actions whose app counts as gone.
    pub(crate) async fn give_up_missing_apps(&self) {
        let now = self.world.now();
        let (mut threads, mut actions) = (BTreeSet::new(), Vec::new());
        for missing in self.missing_apps().values_mut().filter(|missing| missing.is_gone(now)) {
            threads.append(&mut missing.threads);
            actions.append(&mut missing.actions);
        }
        // Each look for jobs calls this function, which wakes that look. Without this check, it would never sleep.
        if !threads.is_empty() || !actions.is_empty() {
            self.resume_runs_and_actions(threads, actions).await;
        }
    }

    async fn resume_runs_and_actions(&self, threads: BTreeSet<ThreadId>, actions: Vec<ActionRow>) {
        for action in actions {
            self.finish_begun(action).await;
        }
        for thread in threads {
            if let Err(error) = self.take_up(thread).await {
                tracing::error!(%thread, %error, "a run that waited for its app was not resumed; the next start of the server resumes it");
            }
        }
        self.world.notice_jobs();
    }
}
