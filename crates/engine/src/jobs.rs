//! Work in the background: claimed, done with its effect in one transaction, tried again, given up.
//!
//! One loop looks for work. It registers interest before it looks, so that a job enqueued in between is not missed,
//! and sleeps until the next one is due.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use protocol::{Event, Summary};
use store::{JobRow, MAX_JOB_ATTEMPTS, MemoryExtraction, NewJob, Retry, Spent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Engine;
use crate::engine::{MAX_STORE_FAILURES, STORE_PAUSE};

mod ask;
mod embed;
mod extract;
mod naming;
mod summarise;

/// Names a thread after its first answer.
pub(crate) const NAME_THREAD: &str = "name_thread";

/// Looks for memories in what the user said.
pub(crate) const EXTRACT: &str = "extract_memories";

/// Summarises the older part of a conversation.
pub(crate) const SUMMARISE: &str = "summarise";

/// Makes vectors of what a user has that has none.
pub(crate) const EMBED: &str = "embed";

pub(crate) use extract::of_message;

/// Purges what was deleted and forgets what is too old to matter.
const SWEEP: &str = "sweep";

/// Jobs under way at once. Most of them wait for a model; of one user there are never more than eight.
const MAX_RUNNING: usize = 64;

/// Work that comes round: its kind, and how often. A key per turn makes it one job, whoever adds it.
const SCHEDULES: &[(&str, SignedDuration)] = &[(SWEEP, SignedDuration::from_hours(1))];

/// The wait before the second attempt; each further one is four times as long.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);

/// The wait before the next attempt of a job that could not begin, because other calls hold its user's budget.
const EARLY_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// The longest sleep between looks, in case a notice is lost.
const POLL: Duration = Duration::from_secs(30);

/// Looks for work until the engine lets go. It never waits for a job: what comes round and what expires does so however
/// much is under way.
pub(crate) async fn work(engine: Engine) {
    let turns = Arc::new(Semaphore::new(MAX_RUNNING));
    let mut looked = engine.now();
    loop {
        looked = add_scheduled(&engine, looked).await;
        let noticed = engine.job_notice();
        tokio::pin!(noticed);
        noticed.as_mut().enable();
        if let Err(error) = engine.expire_proposals().await {
            tracing::warn!(%error, "expired proposals were not closed; it will be tried again");
        }
        engine.give_up_missing_apps().await;
        let turn = Arc::clone(&turns).try_acquire_owned().ok();
        let has_room = turn.is_some();
        if let Some(turn) = turn {
            match engine.store().claim().await {
                Ok(Some(job)) => {
                    begin(&engine, job, turn);
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
        let _ = tokio::time::timeout(until_due(&engine, has_room).await, noticed).await;
    }
}

/// Does a job in the background. Its end may let in another one of its line, its user or anybody, so it is looked again.
fn begin(engine: &Engine, job: JobRow, turn: OwnedSemaphorePermit) {
    let worker = engine.clone();
    let thread = job.thread;
    engine.in_background(async move {
        run(&worker, job).await;
        drop(turn);
        worker.notice_jobs();
        if let Some(thread) = thread {
            worker.sweep_if_deleted(thread).await; // a thread is purged when no job of it works
        }
    });
}

/// Adds each scheduled job whose turn began since `looked`. Gives the time up to which that is now done.
async fn add_scheduled(engine: &Engine, looked: Timestamp) -> Timestamp {
    let now = engine.now();
    for (kind, key) in turns(looked, now) {
        let job = NewJob { id: engine.fresh_job(), kind, key, delay: Duration::ZERO };
        if let Err(error) = engine.store().schedule(job).await {
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
async fn until_due(engine: &Engine, has_room: bool) -> Duration {
    let store = engine.store();
    let next = if has_room { store.next_due().await.ok().flatten() } else { None };
    let due = [next, store.next_expiry().await.ok().flatten()];
    let wait = |due: Timestamp| Duration::try_from(due.duration_since(engine.now())).unwrap_or_default();
    due.into_iter().flatten().map(wait).min().unwrap_or(POLL).min(POLL)
}

/// One attempt. A panic is a failed attempt like any other.
async fn run(engine: &Engine, job: JobRow) {
    if needs_app(&job.kind)
        && let Some(later) = engine.job_waits_for_app(&job).await
    {
        return postpone(engine, &job, later).await;
    }
    let attempt = AssertUnwindSafe(perform(engine, &job)).catch_unwind();
    let outcome = attempt.await.unwrap_or_else(|_| Err(Unfinished::from("the job panicked".to_owned())));
    let paid = outcome.as_ref().map_or_else(|unfinished| unfinished.spent.clone(), Done::paid);
    let left = match outcome {
        Ok(Done { extraction: Some(extraction), .. }) => {
            let extracted = engine.store().extract(&job, extraction).await;
            engine.embed_soon(&job.scope).await;
            extracted.map(drop)
        }
        Ok(Done { summary: Some(summary), spent, .. }) => {
            engine.store().summarise(&job, Some(summary), spent).await
        }
        Ok(Done { effect, spent, extraction: None, summary: None }) => {
            engine.store().complete(&job, effect, spent).await
        }
        Err(unfinished) => failed(engine, &job, unfinished).await,
    };
    let left = match left {
        Err(store::Error::Changed(reason)) => {
            failed(engine, &job, Unfinished { spent: paid.clone(), ..reason.into() }).await
        }
        left => left,
    };
    if let Err(error) = left {
        tracing::warn!(job = %job.id, %error, "the outcome of a job was not recorded; it will run again");
        give_back(engine, &job, error, paid).await;
    }
}

/// Whether the job can do nothing without its app.
fn needs_app(kind: &str) -> bool {
    [NAME_THREAD, EXTRACT, SUMMARISE].contains(&kind)
}

/// Leaves a job for later whose app is missing. That is no failure of the job.
async fn postpone(engine: &Engine, job: &JobRow, later: Timestamp) {
    let reason = "its app is missing".to_owned();
    if let Err(error) = engine.store().fail(job, reason, Retry::Uncounted(later), None).await {
        tracing::warn!(job = %job.id, %error, "a job was not postponed; it will run again");
        give_back(engine, job, error, None).await;
    }
}

/// Lets a job run again whose outcome the store did not take, as soon as it takes anything. Otherwise no other of its
/// line would ever run.
async fn give_back(engine: &Engine, job: &JobRow, mut error: store::Error, paid: Option<Spent>) {
    let reason = format!("its outcome could not be written down: {error}");
    let retry = retry(job.attempts, engine.now());
    let mut failures = 0;
    while !matches!(error, store::Error::Fenced | store::Error::Closed) && failures < MAX_STORE_FAILURES {
        failures += u32::from(!matches!(error, store::Error::Full));
        tokio::time::sleep(STORE_PAUSE).await;
        match engine.store().fail(job, reason.clone(), retry, paid.clone()).await {
            Ok(()) => return engine.notice_jobs(),
            Err(again) => error = again,
        }
    }
}

async fn failed(engine: &Engine, job: &JobRow, unfinished: Unfinished) -> Result<(), store::Error> {
    let Unfinished { reason: error, spent, is_early } = unfinished;
    let later = engine.now().checked_add(EARLY_RETRY).unwrap_or(engine.now());
    let retry = if is_early { Retry::Uncounted(later) } else { retry(job.attempts, engine.now()) };
    let dead = retry == Retry::Never;
    tracing::warn!(job = %job.id, kind = job.kind, attempt = job.attempts, dead, error, "a job failed");
    engine.store().fail(job, error, retry, spent).await
}

/// What a job has come to, to be committed with it.
#[derive(Debug, Default)]
struct Done {
    effect: Option<Event>,
    /// What a model was paid for it.
    spent: Option<Spent>,
    /// What becomes of memories; it is an effect of its own.
    extraction: Option<MemoryExtraction>,
    /// A summary and its text.
    summary: Option<(Summary, String)>,
}

impl Done {
    fn extraction(extraction: MemoryExtraction) -> Self {
        Self { extraction: Some(extraction), ..Self::default() }
    }

    /// What a model was paid for it.
    fn paid(&self) -> Option<Spent> {
        self.extraction.as_ref().map_or(&self.spent, |extraction| &extraction.spent).clone()
    }
}

/// Why an attempt has come to nothing, for people, and what a model was paid for it all the same.
#[derive(Debug)]
struct Unfinished {
    reason: String,
    spent: Option<Spent>,
    /// The model was not asked, because other calls hold what the user may spend. The attempt does not count.
    is_early: bool,
}

impl From<String> for Unfinished {
    fn from(reason: String) -> Self {
        Self { reason, spent: None, is_early: false }
    }
}

/// Does the work.
async fn perform(engine: &Engine, job: &JobRow) -> Result<Done, Unfinished> {
    match job.kind.as_str() {
        NAME_THREAD => naming::name(engine, job).await,
        EXTRACT => extract::extract(engine, job).await,
        SUMMARISE => summarise::summarise(engine, job).await,
        EMBED => Ok(embed::embed(engine, job).await?),
        SWEEP => {
            engine.clone().embed_all().await;
            engine.sweep();
            Ok(Done::default())
        }
        _ => Err("no such kind of job".to_owned().into()),
    }
}

/// Two seconds, eight, thirty-two, and so on, up to a quarter more, so that many do not come back at once.
fn retry(attempts: u32, now: Timestamp) -> Retry {
    if attempts >= MAX_JOB_ATTEMPTS {
        return Retry::Never;
    }
    let wait = FIRST_BACKOFF * 4u32.saturating_pow(attempts.saturating_sub(1));
    let jitter = wait.mul_f64(fastrand::f64() / 4.0);
    let wait = SignedDuration::try_from(wait + jitter).unwrap_or(SignedDuration::from_secs(60));
    now.checked_add(wait).map_or(Retry::Never, Retry::At)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_comes_round_once_a_turn() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let due = |looked, now| turns(at(looked), at(now)).collect::<Vec<_>>();
        assert_eq!(due(7_200, 7_200), []);
        assert_eq!(due(7_200, 10_799), []);
        assert_eq!(due(10_799, 10_800), [(SWEEP, "3".to_owned())]);
        assert_eq!(due(0, 86_400), [(SWEEP, "24".to_owned())], "turns that were slept through come together");
    }

    #[test]
    fn attempts_are_further_and_further_apart_and_then_over() {
        let now = Timestamp::UNIX_EPOCH;
        for (attempt, seconds) in [(1, 2), (2, 8), (3, 32), (4, 128)] {
            let Retry::At(at) = retry(attempt, now) else { panic!("attempt {attempt} was the last") };
            let wait = at.duration_since(now).as_millis();
            assert!((seconds * 1000..=seconds * 1250).contains(&wait), "attempt {attempt}: {wait} ms");
        }
        assert_eq!(retry(5, now), Retry::Never, "J4: dead after five");
    }
}
