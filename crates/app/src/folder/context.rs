//! `[history]` and `summarise.md`: how the conversation is shown in a prompt.

use std::path::Path;

use serde::Deserialize;

use crate::source::{FileText, Problem, Spanned, bounds};
use crate::{HistoryRules, HistoryStyle, Summarise};

use super::{MAX_TOKENS, optional_text};

/// Below this not even the newest message has room.
const MIN_HISTORY_TOKENS: i64 = 256;
/// A summary of less would not be shorter.
const MIN_SUMMARISED_TOKENS: i64 = 100;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawHistory {
    style: HistoryStyle,
    #[serde(deserialize_with = "bounds::whole_number::<MIN_HISTORY_TOKENS, MAX_TOKENS, _, _>")]
    budget: Option<u32>,
    summarise: Option<bool>,
    #[serde(deserialize_with = "bounds::text")]
    summarise_model: Option<String>,
    summarise_after: Option<Spanned<i64>>,
}

/// How the conversation is shown, and the text of `summarise.md` if there is one.
pub(super) fn history(
    source: &FileText<'_>,
    dir: &Path,
    raw: RawHistory,
) -> Result<(HistoryRules, Option<String>), Problem> {
    let prompt = optional_text(&dir.join("summarise.md"), "say how to summarise a conversation")?;
    let budget = raw.budget.unwrap_or(HistoryRules::DEFAULT_BUDGET);
    let after = source.whole_number(
        "history.summarise_after",
        raw.summarise_after,
        MIN_SUMMARISED_TOKENS..=i64::from(budget),
    )?;
    let summarise = Summarise {
        prompt: prompt.clone(),
        model: raw.summarise_model,
        after: after.unwrap_or(Summarise::default_after(budget)),
    };
    let history = HistoryRules {
        style: raw.style,
        budget,
        summarise: raw.summarise.unwrap_or(true).then_some(summarise),
    };
    Ok((history, prompt))
}
