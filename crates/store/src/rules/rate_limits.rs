//! Rate limits: how much a user does in an app, counted by the minute of the clock and compared with the app's limits.

use jiff::Timestamp;
use protocol::{DAY_SECONDS, MINUTE_SECONDS, Quota, Used, UserLimits};

use crate::Error;

const MILLIS: i64 = 1_000;

/// A minute in which a user did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinuteRow {
    /// Its first millisecond.
    pub minute: i64,
    pub runs: u64,
    pub tokens: u64,
}

/// Refuses a run that would go beyond a limit. A run that waits for its thread takes no place among those that work: it
/// takes the place of the run before it.
pub fn check(limits: &UserLimits, used: &Used, at: Timestamp, begins: bool) -> Result<(), Error> {
    let exhausted = limits.allowances(used, at).into_iter().filter(|allowance| allowance.left == 0);
    let refusing = exhausted.filter(|allowance| begins || allowance.quota != Quota::Running);
    // A user who waits for the longest limit is not refused again by another.
    match refusing.max_by_key(|allowance| allowance.retry_after()) {
        Some(refusing) => Err(Error::Limited(refusing)),
        None => Ok(()),
    }
}

/// The use with one more run, which works at once or waits for its thread.
pub fn with_run(used: Used, begins: bool) -> Used {
    Used {
        minute_runs: used.minute_runs.saturating_add(1),
        day_runs: used.day_runs.saturating_add(1),
        running: used.running.saturating_add(u64::from(begins)),
        ..used
    }
}

/// The first millisecond of the minute that a moment is in.
pub fn minute_of(millis: i64) -> i64 {
    window_start(millis, MINUTE_SECONDS)
}

/// The first millisecond of the day that a moment is in, and the first of the next day.
pub fn day_of(millis: i64) -> (i64, i64) {
    let day = window_start(millis, DAY_SECONDS);
    (day, day + DAY_SECONDS * MILLIS)
}

fn window_start(millis: i64, window_seconds: i64) -> i64 {
    millis - millis.rem_euclid(window_seconds * MILLIS)
}

/// Adds a minute of the day to what was used by a moment.
pub fn add_minute(used: &mut Used, row: MinuteRow, millis: i64) {
    used.day_runs = used.day_runs.saturating_add(row.runs);
    used.day_tokens = used.day_tokens.saturating_add(row.tokens);
    if row.minute == minute_of(millis) {
        (used.minute_runs, used.minute_tokens) = (row.runs, row.tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_lasts_longest_refuses_and_a_waiting_run_takes_no_place() {
        let at = Timestamp::UNIX_EPOCH;
        let limits = UserLimits { runs_per_minute: Some(1), runs_per_day: Some(1), ..UserLimits::default() };
        let used = Used { minute_runs: 1, day_runs: 1, ..Used::default() };
        let refused = check(&limits, &used, at, true);
        assert!(matches!(refused, Err(Error::Limited(allowance)) if allowance.quota == Quota::RunsDay));
        let running = UserLimits { max_running: Some(1), ..UserLimits::default() };
        let used = Used { running: 1, ..Used::default() };
        assert!(check(&running, &used, at, true).is_err());
        assert!(check(&running, &used, at, false).is_ok());
    }

    #[test]
    fn a_run_that_waits_for_its_thread_counts_and_does_not_work() {
        let used = Used { minute_runs: 2, day_runs: 7, minute_tokens: 5, day_tokens: 9, running: 1 };
        assert_eq!(with_run(used, true), Used { minute_runs: 3, day_runs: 8, running: 2, ..used });
        assert_eq!(with_run(used, false), Used { minute_runs: 3, day_runs: 8, ..used });
    }

    #[test]
    fn minutes_add_up_to_the_day_and_one_of_them_is_now() {
        let now = 3 * 60_000 + 5;
        assert_eq!((minute_of(now), day_of(now)), (180_000, (0, 86_400_000)));
        let mut used = Used::default();
        for (minute, tokens) in [(0, 5), (180_000, 7)] {
            add_minute(&mut used, MinuteRow { minute, runs: 1, tokens }, now);
        }
        let expected =
            Used { minute_runs: 1, minute_tokens: 7, day_runs: 2, day_tokens: 12, ..Used::default() };
        assert_eq!(used, expected);
    }
}
