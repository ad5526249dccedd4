//! Jobs: at least once in execution, once in effect. A user's jobs never keep those of others waiting.

use jiff::Timestamp;
use protocol::{Event, Kind, Scope};

use crate::{Error, JobRow, JobStatus, MAX_JOB_ATTEMPTS, MAX_WEBHOOK_ATTEMPTS, Retry, WEBHOOK_JOB};

/// Jobs of one user that are at work at once. A back end claims the first job of the line that is due longest, of the user
/// who has waited longest and has fewer than these at work. A line is a kind of job in one thread.
pub const MAX_WORKING_PER_USER: u64 = 8;

/// No job is due later than this, the first millisecond of the year 9000: what is later cannot be read as a time.
const LATEST_MS: i64 = 221_845_392_000_000;

/// Why a job is ready again that a process had begun which is gone.
pub const PROCESS_ENDED: &str = "the process ended while the job ran";

/// How much longer than one that is done a dead job is kept, in milliseconds: thirty days.
const DEAD_KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// When a job is due that is added now with a delay, all in milliseconds.
pub fn due_at(at: i64, delay: std::time::Duration) -> i64 {
    at.saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)).min(LATEST_MS)
}

/// The key of a scope's own job. A key is good for all scopes, so this one is made of the scope, too.
pub fn scope_key(scope: &Scope, key: &str) -> Result<String, Error> {
    serde_json::to_string(&[scope.app.as_str(), scope.user.as_str(), key]).map_err(|_| Error::Aborted)
}

/// Attempts after which a job of a kind is dead. The delivery of a webhook has more, because it waits for another
/// system.
pub fn max_attempts(kind: &str) -> u32 {
    if kind == WEBHOOK_JOB { MAX_WEBHOOK_ATTEMPTS } else { MAX_JOB_ATTEMPTS }
}

/// Whether a job of a kind was begun as often as it may be, so that it is dead if this attempt fails.
pub fn is_last_attempt(kind: &str, attempts: u32) -> bool {
    attempts >= max_attempts(kind)
}

/// The state of a job whose process ended in the midst of an attempt. After the last attempt the job is dead: it may be
/// what killed the process.
pub fn after_process_end(kind: &str, attempts: u32) -> JobStatus {
    if is_last_attempt(kind, attempts) { JobStatus::Dead } else { JobStatus::Ready }
}

/// A job after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobMove {
    pub status: JobStatus,
    pub run_at: Timestamp,
    /// Whether the attempt counts.
    pub counts: bool,
}

/// The state of a job that failed.
pub fn after_failure(job: &JobRow, retry: Retry) -> JobMove {
    match retry {
        Retry::At(run_at) => JobMove { status: JobStatus::Ready, run_at, counts: true },
        Retry::Uncounted(run_at) => JobMove { status: JobStatus::Ready, run_at, counts: false },
        Retry::Never => JobMove { status: JobStatus::Dead, run_at: job.run_at, counts: true },
    }
}

/// Whether a job that an admin wants to be tried again has to be made ready. One that waits or is at work is tried anyway.
pub fn is_to_retry(job: &JobRow) -> Result<bool, Error> {
    match job.status {
        JobStatus::Dead => Ok(true),
        JobStatus::Ready | JobStatus::Running => Ok(false),
        JobStatus::Done => Err(Error::Changed("the job is done; only a dead job can be tried again".into())),
    }
}

/// Whether the effect of a job comes too late to count: a title for a thread that its user has named meanwhile.
pub fn is_late(effect: &Event, thread_has_title: bool) -> bool {
    effect.kind() == Kind::ThreadNamed && thread_has_title
}

/// Dead jobs from before this moment are forgotten, where done ones from before `done_before` are.
pub fn dead_before(done_before: i64) -> i64 {
    done_before.saturating_sub(DEAD_KEPT_MS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_time_a_job_is_due_can_be_read() {
        assert_eq!(due_at(5, Duration::from_millis(7)), 12);
        assert!(Timestamp::from_millisecond(due_at(i64::MAX, Duration::MAX)).is_ok());
    }

    #[test]
    fn a_job_that_was_begun_as_often_as_it_may_be_is_dead() {
        let left = |kind, attempts| after_process_end(kind, attempts);
        assert_eq!([left("name_thread", 4), left("name_thread", 5)], [JobStatus::Ready, JobStatus::Dead]);
        assert_eq!([left(WEBHOOK_JOB, 9), left(WEBHOOK_JOB, 10)], [JobStatus::Ready, JobStatus::Dead]);
        assert_eq!(left("of another version", u32::MAX), JobStatus::Dead);
    }
}
