//! The loop that looks for jobs: each is claimed, done with its effect in one transaction, tried again, given up.
//!
//! It registers interest before it looks, so that a job enqueued in between is not missed, and sleeps until the next one
//! is due.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use store::rules::jobs::is_last_attempt;
use store::{JobRow, JobUsage, NewJob, Retry};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Agent;
use crate::jobs::{self, JobEffect, Patience, SweepStore, UnfinishedJob};
use crate::tasks::{MAX_STORE_FAILURES, STORE_PAUSE};

/// Jobs under way at once. Most of them wait for a model; of one user there are never more than eight.
const MAX_RUNNING: usize = 64;

/// Scheduled work: its kind, and how often. The key of a turn makes it one job, even if several nodes add it.
const SCHEDULES: &[(&str, SignedDuration)] = &[(SweepStore::NAME, SignedDuration::from_hours(1))];

/// The wait before the second attempt; each further one is four times as long.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);

/// The pauses of a long patience, the first after the first attempt: from seconds to most of a day.
const LONG_PAUSES: [Duration; 8] = [
    Duration::from_secs(5),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 60 * 60),
    Duration::from_secs(6 * 60 * 60),
    Duration::from_secs(12 * 60 * 60),
    Duration::from_secs(20 * 60 * 60),
];

/// Each further pause of a long patience.
const LAST_LONG_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// The wait before the next attempt of a job that could not begin, because other calls hold its user's budget.
const EARLY_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// The longest sleep between looks, in case a notice is lost.
const POLL: Duration = Duration::from_secs(30);

/// Starts due jobs until the task is abandoned at shutdown. It never waits for a job, so schedules and expiries are on
/// time however many jobs are running.
pub(super) async fn look_for_jobs(agent: Agent) {
    let turns = Arc::new(Semaphore::new(MAX_RUNNING));
    let mut looked = agent.world.now();
    loop {
        looked = add_scheduled(&agent, looked).await;
        let noticed = agent.world.bus.has_work.notified();
        tokio::pin!(noticed);
        noticed.as_mut().enable();
        if let Err(error) = agent.expire_waiting().await {
            tracing::warn!(%error, "calls that waited too long were not closed; it will be tried again");
        }
        agent.give_up_missing_apps().await;
        let turn = Arc::clone(&turns).try_acquire_owned().ok();
        let has_room = turn.is_some();
        if let Some(turn) = turn {
            match agent.world.store.claim().await {
                Ok(Some(job)) => {
                    begin(&agent, job, turn);
                    continue;
                }
                Ok(None) => {}
                Err(store::Error::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "looking for jobs failed; it will be tried again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
        let _ = tokio::time::timeout(until_due(&agent, has_room).await, noticed).await;
    }
}

/// Runs a job in the background. At its end another job may run, of the same thread, user or any other, so the loop
/// looks again.
fn begin(agent: &Agent, job: JobRow, turn: OwnedSemaphorePermit) {
    let worker = agent.clone();
    let thread = job.thread;
    agent.world.tasks.spawn(async move {
        run(&worker, job).await;
        drop(turn);
        worker.world.notice_jobs();
        if let Some(thread) = thread {
            worker.world.sweeper.sweep_if_deleted(thread).await; // a thread is purged when no job of it works
        }
    });
}

/// Adds each scheduled job whose turn began since `looked`. Gives the time up to which that is now done.
async fn add_scheduled(agent: &Agent, looked: Timestamp) -> Timestamp {
    let now = agent.world.now();
    for (kind, key) in turns(looked, now) {
        let job = NewJob { id: agent.world.ids.job(), kind, key, delay: Duration::ZERO };
        if let Err(error) = agent.world.store.schedule(job).await {
            tracing::warn!(kind, %error, "a scheduled job was not added; it will be tried again");
            return looked;
        }
    }
    now
}

/// The scheduled jobs whose turn began after `looked`, by kind and the number of the turn.
fn turns(looked: Timestamp, now: Timestamp) -> impl Iterator<Item = (&'static str, String)> {
    SCHEDULES.iter().filter_map(move |(kind, every)| {
        let turn = |at: Timestamp| at.as_second().div_euclid(every.as_secs());
        (turn(now) != turn(looked)).then(|| (*kind, turn(now).to_string()))
    })
}

/// How long there is nothing to do; jobs do not count when there is no room for one.
async fn until_due(agent: &Agent, has_room: bool) -> Duration {
    let store = &agent.world.store;
    let next = if has_room { store.next_due().await.ok().flatten() } else { None };
    let due = [next, store.next_expiry().await.ok().flatten()];
    let wait = |due: Timestamp| Duration::try_from(due.duration_since(agent.world.now())).unwrap_or_default();
    due.into_iter().flatten().map(wait).min().unwrap_or(POLL).min(POLL)
}

/// One attempt. A panic is a failed attempt like any other.
async fn run(agent: &Agent, job: JobRow) {
    let kind = jobs::kind_of(&job);
    if kind.is_some_and(|kind| kind.needs_app)
        && let Some(later) = agent.job_waits_for_app(&job).await
    {
        return postpone(agent, &job, later).await;
    }
    let attempt = async {
        match kind {
            Some(kind) => kind.job.run(&agent.world, &job).await,
            None => Err(UnfinishedJob::from("the server does not know this kind of job".to_owned())),
        }
    };
    let outcome = AssertUnwindSafe(attempt).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_| Err(UnfinishedJob::from("the job panicked".to_owned())));
    let paid = outcome.as_ref().map_or_else(|unfinished| unfinished.spent.clone(), JobEffect::usage);
    let left = match outcome {
        Ok(effect) => effect.commit(&agent.world, &job).await,
        Err(unfinished) => fail_job(agent, &job, unfinished).await,
    };
    let left = match left {
        Err(store::Error::Changed(reason)) => {
            fail_job(agent, &job, UnfinishedJob { spent: paid.clone(), ..reason.into() }).await
        }
        left => left,
    };
    if let Err(error) = left {
        tracing::warn!(job = %job.id, %error, "the outcome of a job was not recorded; it will run again");
        give_back(agent, &job, error, paid).await;
    }
}

/// Leaves a job for later whose app is missing. That is no failure of the job.
async fn postpone(agent: &Agent, job: &JobRow, later: Timestamp) {
    let reason = "the app of the job is missing".to_owned();
    if let Err(error) = agent.world.store.fail(job, reason, Retry::Uncounted(later), None).await {
        tracing::warn!(job = %job.id, %error, "a job was not postponed; it will run again");
        give_back(agent, job, error, None).await;
    }
}

/// Lets a job run again whose outcome the store did not take, as soon as it takes anything. Otherwise no other of its
/// line would ever run.
async fn give_back(agent: &Agent, job: &JobRow, mut error: store::Error, paid: Option<JobUsage>) {
    let reason = format!("the outcome of the job could not be stored: {error}");
    let retry = retry(job, agent.world.now());
    let mut failures = 0;
    while !matches!(error, store::Error::Fenced | store::Error::Closed) && failures < MAX_STORE_FAILURES {
        failures += u32::from(!error.lasts());
        tokio::time::sleep(STORE_PAUSE).await;
        match agent.world.store.fail(job, reason.clone(), retry, paid.clone()).await {
            Ok(()) => return agent.world.notice_jobs(),
            Err(again) => error = again,
        }
    }
}

async fn fail_job(agent: &Agent, job: &JobRow, unfinished: UnfinishedJob) -> Result<(), store::Error> {
    let UnfinishedJob { reason: error, spent, is_early, is_final } = unfinished;
    let later = agent.world.now().checked_add(EARLY_RETRY).unwrap_or(agent.world.now());
    let retry = match (is_final, is_early) {
        (true, _) => Retry::Never,
        (false, true) => Retry::Uncounted(later),
        (false, false) => retry(job, agent.world.now()),
    };
    let dead = retry == Retry::Never;
    tracing::warn!(job = %job.id, kind = job.kind, attempt = job.attempts, dead, error, "a job failed");
    agent.world.store.fail(job, error, retry, spent).await
}

fn patience_of(job: &JobRow) -> Patience {
    jobs::kind_of(job).map_or(Patience::Short, |kind| kind.patience)
}

/// The next attempt of a job, if it may have another. Pauses get up to a quarter longer, so that many do not come back at
/// once.
fn retry(job: &JobRow, now: Timestamp) -> Retry {
    if is_last_attempt(&job.kind, job.attempts) {
        return Retry::Never;
    }
    let wait = pause(patience_of(job), job.attempts);
    let jitter = wait.mul_f64(fastrand::f64() / 4.0);
    let wait = SignedDuration::try_from(wait + jitter).unwrap_or(SignedDuration::from_secs(60));
    now.checked_add(wait).map_or(Retry::Never, Retry::At)
}

/// The pause after this number of attempts. A short patience waits two seconds, eight, thirty-two, and so on.
fn pause(patience: Patience, attempts: u32) -> Duration {
    match patience {
        Patience::Short => FIRST_BACKOFF * 4u32.saturating_pow(attempts.saturating_sub(1)),
        Patience::Long => {
            let place = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
            LONG_PAUSES.get(place).copied().unwrap_or(LAST_LONG_PAUSE)
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, JobId, Scope, UserId};
    use store::{JobStatus, WEBHOOK_JOB};
    use uuid::Uuid;

    use super::*;

    fn job(kind: &str, attempts: u32) -> JobRow {
        JobRow {
            id: JobId::new(Uuid::nil()),
            kind: kind.into(),
            key: String::new(),
            scope: Scope { app: AppId::new("app"), user: UserId::new("alice") },
            thread: None,
            status: JobStatus::Running,
            attempts,
            epoch: 1,
            run_at: Timestamp::UNIX_EPOCH,
            error: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_schedule_comes_round_once_a_turn() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let due = |looked, now| turns(at(looked), at(now)).collect::<Vec<_>>();
        assert_eq!(due(7_200, 7_200), []);
        assert_eq!(due(7_200, 10_799), []);
        assert_eq!(due(10_799, 10_800), [(SweepStore::NAME, "3".to_owned())]);
        assert_eq!(
            due(0, 86_400),
            [(SweepStore::NAME, "24".to_owned())],
            "turns that were slept through come together"
        );
    }

    #[test]
    fn attempts_are_further_and_further_apart_and_then_over() {
        let now = Timestamp::UNIX_EPOCH;
        for (attempt, seconds) in [(1, 2), (2, 8), (3, 32), (4, 128)] {
            let Retry::At(at) = retry(&job(SweepStore::NAME, attempt), now) else {
                panic!("attempt {attempt} was the last")
            };
            let wait = at.duration_since(now).as_millis();
            assert!((seconds * 1000..=seconds * 1250).contains(&wait), "attempt {attempt}: {wait} ms");
        }
        assert_eq!(retry(&job(SweepStore::NAME, 5), now), Retry::Never, "J4: dead after five");
        let pauses: Vec<Duration> = (1..10).map(|attempt| pause(Patience::Long, attempt)).collect();
        assert!(pauses.is_sorted(), "{pauses:?}");
        let days = pauses.iter().sum::<Duration>().as_secs() / (24 * 60 * 60);
        assert_eq!(days, 2);
        assert!(matches!(retry(&job(WEBHOOK_JOB, 9), now), Retry::At(_)));
        assert_eq!(retry(&job(WEBHOOK_JOB, 10), now), Retry::Never);
    }
}
