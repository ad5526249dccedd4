//! Work in the background: claimed, done with its effect in one transaction, tried again, given up.
//!
//! One loop looks for work. It registers interest before it looks, so that a job enqueued in between is not missed,
//! and sleeps until the next one is due.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use model::{Error, Model, Piece, Request};
use protocol::{Event, Summary, Usage};
use store::{Extraction, JobRow, MAX_JOB_ATTEMPTS, NewJob, Retry, Spent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Engine;
use crate::engine::{MAX_STORE_FAILURES, STORE_PAUSE};

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

/// Jobs under way at once.
const MAX_RUNNING: usize = 4;

/// Work that comes round: its kind, and how often. A key per turn makes it one job, whoever adds it.
const SCHEDULES: &[(&str, SignedDuration)] = &[(SWEEP, SignedDuration::from_hours(1))];

/// The wait before the second attempt; each further one is four times as long.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);

/// The longest sleep between looks, in case a notice is lost.
const POLL: Duration = Duration::from_secs(30);

/// Looks for work until the engine lets go.
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
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        match engine.store().claim().await {
            Ok(Some(job)) => {
                let worker = engine.clone();
                engine.in_background(async move {
                    run(&worker, job).await;
                    drop(turn);
                });
                continue;
            }
            Ok(None) => {}
            Err(store::Error::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "looking for jobs failed; it will be tried again");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
        drop(turn);
        let _ = tokio::time::timeout(until_due(&engine).await, noticed).await;
    }
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

async fn until_due(engine: &Engine) -> Duration {
    let store = engine.store();
    let due = [store.next_due().await.ok().flatten(), store.next_expiry().await.ok().flatten()];
    let wait = |due: Timestamp| Duration::try_from(due.duration_since(engine.now())).unwrap_or_default();
    due.into_iter().flatten().map(wait).min().unwrap_or(POLL).min(POLL)
}

/// One attempt. A panic is a failed attempt like any other.
async fn run(engine: &Engine, job: JobRow) {
    let attempt = AssertUnwindSafe(perform(engine, &job)).catch_unwind();
    let outcome = attempt.await.unwrap_or_else(|_| Err("the job panicked".to_owned()));
    let left = match outcome {
        Ok(Done { extraction: Some(extraction), turn, .. }) => {
            let extracted = engine.store().extract(&job, extraction).await;
            drop(turn); // the next one sees what this one has done
            engine.embed_soon(&job.scope).await;
            extracted.map(drop)
        }
        Ok(Done { summary: Some(summary), spent, turn, .. }) => {
            let committed = engine.store().summarise(&job, Some(summary), spent).await;
            drop(turn);
            committed
        }
        Ok(Done { effect, spent, extraction: None, summary: None, turn: _ }) => {
            engine.store().complete(&job, effect, spent).await
        }
        Err(error) => failed(engine, &job, error).await,
    };
    let left = match left {
        Err(store::Error::Changed(reason)) => failed(engine, &job, reason).await,
        left => left,
    };
    if let Err(error) = left {
        tracing::warn!(job = %job.id, %error, "the outcome of a job was not recorded; it will run again");
        give_back(engine, &job, error).await;
    }
}

/// Lets a job run again whose outcome the store did not take, as soon as it takes anything.
async fn give_back(engine: &Engine, job: &JobRow, mut error: store::Error) {
    let (reason, retry) = ("its outcome could not be written down", retry(job.attempts, engine.now()));
    let mut failures = 0;
    while error.may_pass() && failures < MAX_STORE_FAILURES {
        failures += u32::from(!matches!(error, store::Error::Full));
        tokio::time::sleep(STORE_PAUSE).await;
        match engine.store().fail(job, reason.to_owned(), retry).await {
            Ok(()) => return engine.notice_jobs(),
            Err(again) => error = again,
        }
    }
}

async fn failed(engine: &Engine, job: &JobRow, error: String) -> Result<(), store::Error> {
    let retry = retry(job.attempts, engine.now());
    let dead = retry == Retry::Never;
    tracing::warn!(job = %job.id, kind = job.kind, attempt = job.attempts, dead, error, "a job failed");
    engine.store().fail(job, error, retry).await
}

/// What a job has come to, to be committed with it.
#[derive(Debug, Default)]
struct Done {
    effect: Option<Event>,
    /// What a model was paid for it.
    spent: Option<Spent>,
    /// What becomes of memories; it is an effect of its own.
    extraction: Option<Extraction>,
    /// A summary and its text.
    summary: Option<(Summary, String)>,
    /// Held until it is committed.
    turn: Option<OwnedSemaphorePermit>,
}

impl Done {
    fn extraction(extraction: Extraction) -> Self {
        Self { extraction: Some(extraction), ..Self::default() }
    }
}

/// Does the work. An error says why not, for people.
async fn perform(engine: &Engine, job: &JobRow) -> Result<Done, String> {
    match job.kind.as_str() {
        NAME_THREAD => naming::name(engine, job).await,
        EXTRACT => extract::extract(engine, job).await,
        SUMMARISE => summarise::summarise(engine, job).await,
        EMBED => embed::embed(engine, job).await,
        SWEEP => {
            engine.clone().embed_all().await;
            engine.purge().await.map(|()| Done::default()).map_err(|error| error.to_string())
        }
        _ => Err("no such kind of job".to_owned()),
    }
}

/// Asks a model for a text of at most so many bytes, and says what that has cost.
async fn ask(model: &Model, request: &Request, most: usize) -> Result<(String, Spent), Error> {
    let mut stream = model.chat.stream(request).await?;
    let (mut answer, mut usage) = (String::new(), None);
    while let Some(piece) = stream.next().await {
        match piece? {
            Piece::Text(text) if answer.len() + text.len() <= most => answer.push_str(&text),
            Piece::Usage(counted) => usage = Some(counted),
            Piece::Text(_)
            | Piece::Reasoning(_)
            | Piece::CallStart { .. }
            | Piece::CallInput { .. }
            | Piece::Model(_)
            | Piece::Provider(_)
            | Piece::Finish(_) => {}
        }
    }
    let estimated = || Usage {
        input_tokens: model.tokens().request(request) as u64,
        output_tokens: model.tokens().text(&answer) as u64,
        estimated: true,
        ..Usage::default()
    };
    let usage = model.priced(usage.unwrap_or_else(estimated));
    Ok((answer, Spent { model: model.name().to_owned(), usage }))
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
