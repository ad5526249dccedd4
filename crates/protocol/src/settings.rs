//! Settings of a model, by a caller, a persona or an app, without any provider's names.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Settings of a model. Absent fields have the app's own values. A setting that a provider does not have is left out.
/// The app defines the ranges of numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// The repeat penalty of local models. If a provider has only a frequency penalty and none is set, this number is
    /// used for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_penalty: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_format: Option<OutputFormat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<Effort>,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    Text,
    /// The answer is one JSON object.
    Json,
}

/// The amount of reasoning of a model that can reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
}

impl Effort {
    pub fn name(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
        }
    }
}

impl Settings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these settings, with those of `base` for absent fields. A repeat penalty here overrides a frequency
    /// penalty of the base, because either can stand for the other.
    pub fn or(self, base: &Self) -> Self {
        let inherited = base.frequency_penalty.filter(|_| self.repeat_penalty.is_none());
        Self {
            temperature: self.temperature.or(base.temperature),
            max_tokens: self.max_tokens.or(base.max_tokens),
            top_p: self.top_p.or(base.top_p),
            frequency_penalty: self.frequency_penalty.or(inherited),
            presence_penalty: self.presence_penalty.or(base.presence_penalty),
            repeat_penalty: self.repeat_penalty.or(base.repeat_penalty),
            output_format: self.output_format.or(base.output_format),
            reasoning_effort: self.reasoning_effort.or(base.reasoning_effort),
        }
    }

    /// The frequency penalty for a provider that has no repeat penalty.
    pub fn frequency_or_repeat_penalty(&self) -> Option<f64> {
        self.frequency_penalty.or(self.repeat_penalty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_overrides_its_base_field_by_field() {
        let base = Settings { temperature: Some(0.7), repeat_penalty: Some(0.5), ..Settings::default() };
        let request = Settings { temperature: Some(0.2), top_p: Some(0.9), ..Settings::default() };
        let merged = request.or(&base);
        assert_eq!(merged.temperature, Some(0.2));
        assert_eq!(merged.top_p, Some(0.9));
        assert_eq!(merged.frequency_or_repeat_penalty(), Some(0.5), "one word for both kinds of model");
    }

    #[test]
    fn the_newer_of_two_words_for_repetition_counts() {
        let base = Settings { frequency_penalty: Some(0.3), ..Settings::default() };
        let request = Settings { repeat_penalty: Some(0.9), ..Settings::default() };
        assert_eq!(request.or(&base).frequency_or_repeat_penalty(), Some(0.9));
        let base = Settings { repeat_penalty: Some(0.9), ..Settings::default() };
        let request = Settings { frequency_penalty: Some(0.3), ..Settings::default() };
        let merged = request.or(&base);
        assert_eq!((merged.frequency_or_repeat_penalty(), merged.repeat_penalty), (Some(0.3), Some(0.9)));
    }
}
