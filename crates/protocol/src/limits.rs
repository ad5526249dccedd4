//! The limits of one user in an app within a while, and the rest of each limit.
//!
//! Windows are fixed: the minute of the clock and the day, both UTC. So the rest of a limit and the time of its reset
//! are exact.

use jiff::Timestamp;

pub const MINUTE_SECONDS: i64 = 60;
pub const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Seconds until a retry when too many runs are active. Their ends are not known.
const RUNNING_RETRY_AFTER: u32 = 2;

/// The limits of one user; without a number there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserLimits {
    pub runs_per_minute: Option<u64>,
    pub runs_per_day: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    pub tokens_per_day: Option<u64>,
    /// Runs that work at once; a run that waits for the user does not count.
    pub max_running: Option<u64>,
}

/// The amounts that one user has used by now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    pub minute_runs: u64,
    pub minute_tokens: u64,
    pub day_runs: u64,
    pub day_tokens: u64,
    pub running: u64,
}

/// A counted amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    RunsMinute,
    RunsDay,
    TokensMinute,
    TokensDay,
    Running,
}

/// One limit, and the rest of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    pub quota: Quota,
    pub limit: u64,
    pub left: u64,
    /// Seconds until the whole limit is available again; none if that does not depend on time.
    pub resets_in: Option<u32>,
}

impl Quota {
    pub fn name(self) -> &'static str {
        match self {
            Quota::RunsMinute => "runs-minute",
            Quota::RunsDay => "runs-day",
            Quota::TokensMinute => "tokens-minute",
            Quota::TokensDay => "tokens-day",
            Quota::Running => "running",
        }
    }

    /// Seconds of the window, if there is one.
    pub fn window(self) -> Option<i64> {
        match self {
            Quota::RunsMinute | Quota::TokensMinute => Some(MINUTE_SECONDS),
            Quota::RunsDay | Quota::TokensDay => Some(DAY_SECONDS),
            Quota::Running => None,
        }
    }
}

impl UserLimits {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether anything is counted over a window.
    pub fn has_windows(&self) -> bool {
        *self != Self { max_running: self.max_running, ..Self::default() }
    }

    /// The limits that are set, with the rest of each at this moment.
    pub fn allowances(&self, used: &Used, at: Timestamp) -> Vec<Allowance> {
        let all = [
            (Quota::RunsMinute, self.runs_per_minute, used.minute_runs),
            (Quota::RunsDay, self.runs_per_day, used.day_runs),
            (Quota::TokensMinute, self.tokens_per_minute, used.minute_tokens),
            (Quota::TokensDay, self.tokens_per_day, used.day_tokens),
            (Quota::Running, self.max_running, used.running),
        ];
        let allowance = |(quota, limit, used): (Quota, Option<u64>, u64)| {
            let limit = limit?;
            let resets_in = quota.window().map(|window| until_next(window, at));
            Some(Allowance { quota, limit, left: limit.saturating_sub(used), resets_in })
        };
        all.into_iter().filter_map(allowance).collect()
    }
}

impl Allowance {
    /// Seconds after which one more can be requested.
    pub fn retry_after(&self) -> u32 {
        self.resets_in.unwrap_or(RUNNING_RETRY_AFTER)
    }
}

/// Whole seconds until a window ends, at least one.
fn until_next(window: i64, at: Timestamp) -> u32 {
    u32::try_from(window - at.as_second().rem_euclid(window)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_ends_with_its_minute_or_its_day() {
        for (now, minute, day) in [
            ("2026-11-15T00:00:00Z", 60, 86_400),
            ("2026-11-15T12:00:18Z", 42, 43_182),
            ("2026-11-15T23:59:59.999Z", 1, 1),
            ("1969-12-31T23:59:59Z", 1, 1),
        ] {
            assert_eq!((until_next(60, at(now)), until_next(86_400, at(now))), (minute, day), "{now}");
        }
    }

    #[test]
    fn only_what_is_limited_is_told_and_less_than_nothing_is_nothing() {
        let limits =
            UserLimits { tokens_per_minute: Some(100), max_running: Some(2), ..UserLimits::default() };
        let used = Used { minute_tokens: 250, running: 1, day_runs: 9, ..Used::default() };
        let told = limits.allowances(&used, at("2026-11-15T12:00:18Z"));
        let tokens = Allowance { quota: Quota::TokensMinute, limit: 100, left: 0, resets_in: Some(42) };
        let running = Allowance { quota: Quota::Running, limit: 2, left: 1, resets_in: None };
        assert_eq!(told, [tokens, running]);
        assert_eq!((tokens.retry_after(), running.retry_after()), (42, RUNNING_RETRY_AFTER));
        assert!(UserLimits::default().allowances(&used, Timestamp::UNIX_EPOCH).is_empty());
    }
}
