//! `[limits]`: how much one user may do in a while.

use protocol::UserLimits;
use serde::Deserialize;

use crate::source::{FileText, Problem, Spanned};

const MAX_RUNS: i64 = 1_000_000;
const MAX_TOKENS: i64 = 1_000_000_000_000;
const MAX_RUNNING: i64 = 1_000;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLimits {
    runs_per_minute: Option<Spanned<i64>>,
    runs_per_day: Option<Spanned<i64>>,
    tokens_per_minute: Option<Spanned<i64>>,
    tokens_per_day: Option<Spanned<i64>>,
    max_running: Option<Spanned<i64>>,
}

pub(super) fn limits(source: &FileText<'_>, raw: RawLimits) -> Result<UserLimits, Problem> {
    let whole = |field: &str, value, most| source.whole_number(&format!("limits.{field}"), value, 1..=most);
    Ok(UserLimits {
        runs_per_minute: whole("runs_per_minute", raw.runs_per_minute, MAX_RUNS)?,
        runs_per_day: whole("runs_per_day", raw.runs_per_day, MAX_RUNS)?,
        tokens_per_minute: whole("tokens_per_minute", raw.tokens_per_minute, MAX_TOKENS)?,
        tokens_per_day: whole("tokens_per_day", raw.tokens_per_day, MAX_TOKENS)?,
        max_running: whole("max_running", raw.max_running, MAX_RUNNING)?,
    })
}
