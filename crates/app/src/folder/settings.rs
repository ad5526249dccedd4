//! `[settings]`: how the model is asked to answer.

use protocol::{Effort, OutputFormat, Settings};
use serde::Deserialize;

use crate::ranges::{Ranges, Within};
use crate::source::{FileText, Problem, Spanned};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSettings {
    temperature: Option<Spanned<f64>>,
    max_tokens: Option<Spanned<i64>>,
    top_p: Option<Spanned<f64>>,
    frequency_penalty: Option<Spanned<f64>>,
    presence_penalty: Option<Spanned<f64>>,
    repeat_penalty: Option<Spanned<f64>>,
    output_format: Option<OutputFormat>,
    reasoning_effort: Option<Effort>,
}

/// An app's own settings are within its own ranges.
pub(super) fn settings(
    source: &FileText<'_>,
    raw: RawSettings,
    ranges: &Ranges,
) -> Result<Settings, Problem> {
    let number = |field: &str, value, within| number(source, field, value, within);
    let tokens = ranges.max_tokens.low as i64..=ranges.max_tokens.high as i64;
    Ok(Settings {
        temperature: number("temperature", raw.temperature, ranges.temperature)?,
        max_tokens: source.whole_number("settings.max_tokens", raw.max_tokens, tokens)?,
        top_p: number("top_p", raw.top_p, ranges.top_p)?,
        frequency_penalty: number("frequency_penalty", raw.frequency_penalty, ranges.frequency_penalty)?,
        presence_penalty: number("presence_penalty", raw.presence_penalty, ranges.presence_penalty)?,
        repeat_penalty: number("repeat_penalty", raw.repeat_penalty, ranges.repeat_penalty)?,
        output_format: raw.output_format,
        reasoning_effort: raw.reasoning_effort,
    })
}

fn number(
    source: &FileText<'_>,
    field: &str,
    value: Option<Spanned<f64>>,
    within: Within,
) -> Result<Option<f64>, Problem> {
    source.number(&format!("settings.{field}"), value, std::ops::Bound::Included(within.low), within.high)
}
