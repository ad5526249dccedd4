//! Settings of a request that a provider may refuse by name, and how its refusals name them.
//!
//! Providers write differently: OpenAI gives `param`, others a place in the body, most only a sentence. What is found
//! there is one of the names below or nothing, so nothing of a provider's text is passed on.

/// Names that are looked at in one refusal.
const MAX_NAMED: usize = 8;

/// A part of a request that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelSetting {
    Temperature,
    TopP,
    FrequencyPenalty,
    PresencePenalty,
    /// The longest answer.
    TokenLimit,
    /// How long it thinks.
    Effort,
    /// The wish for a count of tokens at the end of a stream.
    StreamOptions,
    /// A field of the provider's own, which a model's entry added.
    Extra(&'static str),
}

/// What a provider said of settings that it does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// What it named, in that order.
    pub(crate) named: Vec<ModelSetting>,
    pub(crate) complaint: SettingComplaint,
}

/// What is wrong with the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingComplaint {
    /// The model does not take it.
    Refused,
    /// The model does not take it with this value.
    Value,
    /// The model takes temperature or top-p, but not both.
    Together,
    /// The model takes tools only when it is told not to think.
    ThinkingWithTools,
}

/// The names that wires have for settings.
const NAMES: [(&str, ModelSetting); 21] = [
    ("temperature", ModelSetting::Temperature),
    ("top_p", ModelSetting::TopP),
    ("topp", ModelSetting::TopP),
    ("frequency_penalty", ModelSetting::FrequencyPenalty),
    ("frequencypenalty", ModelSetting::FrequencyPenalty),
    ("repeat_penalty", ModelSetting::FrequencyPenalty),
    ("presence_penalty", ModelSetting::PresencePenalty),
    ("presencepenalty", ModelSetting::PresencePenalty),
    ("max_tokens", ModelSetting::TokenLimit),
    ("max_completion_tokens", ModelSetting::TokenLimit),
    ("max_output_tokens", ModelSetting::TokenLimit),
    ("num_predict", ModelSetting::TokenLimit),
    ("reasoning_effort", ModelSetting::Effort),
    ("reasoning.effort", ModelSetting::Effort),
    ("reasoning", ModelSetting::Effort),
    ("output_config.effort", ModelSetting::Effort),
    ("effort", ModelSetting::Effort),
    ("thinking", ModelSetting::Effort),
    ("think", ModelSetting::Effort),
    ("stream_options", ModelSetting::StreamOptions),
    ("stream_options.include_usage", ModelSetting::StreamOptions),
];

/// Fields that entries of models add for the sake of one provider.
const EXTRAS: [&str; 18] = [
    "stop",
    "seed",
    "tool_choice",
    "parallel_tool_calls",
    "verbosity",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "top_k",
    "min_p",
    "n",
    "user",
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
];

impl ModelSetting {
    /// The setting of this name, as a wire writes it.
    fn of_name(name: &str) -> Option<Self> {
        let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, setting)| *setting);
        known.or_else(|| EXTRAS.iter().find(|extra| **extra == name).map(|extra| Self::Extra(extra)))
    }

    /// Every name it may have among the fields of a request.
    pub(crate) fn names(self) -> Vec<&'static str> {
        if let Self::Extra(name) = self {
            return vec![name];
        }
        NAMES.iter().filter(|(_, setting)| *setting == self).map(|(name, _)| *name).collect()
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::FrequencyPenalty => "frequency_penalty",
            Self::PresencePenalty => "presence_penalty",
            Self::TokenLimit => "max_tokens",
            Self::Effort => "reasoning_effort",
            Self::StreamOptions => "stream_options",
            Self::Extra(name) => name,
        }
    }
}

/// What a refusal says of settings, if it says that one is not taken. `places` are the names it gives outside its
/// sentence; `code` and `message` are in lower case.
pub(crate) fn unsupported(places: &[String], codes: &[String], message: &str) -> Option<Unsupported> {
    let codes = |wanted: &[&str]| codes.iter().any(|code| wanted.contains(&code.as_str()));
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if !codes(&REFUSING_CODES) && !says(&REFUSING_PHRASES) {
        return None;
    }
    let by_place =
        places.iter().filter_map(|place| ModelSetting::of_name(place.strip_prefix("body.").unwrap_or(place)));
    let mut named: Vec<ModelSetting> = Vec::new();
    for setting in by_place.chain(words(message).filter_map(ModelSetting::of_name)) {
        if !named.contains(&setting) && named.len() < MAX_NAMED {
            named.push(setting);
        }
    }
    if named.is_empty() {
        return None;
    }
    let complaint = if says(&["cannot both", "only one of", "mutually exclusive"]) {
        SettingComplaint::Together
    } else if named.contains(&ModelSetting::Effort)
        && says(&["reasoning_effort to 'none'", "reasoning_effort to \"none\""])
    {
        SettingComplaint::ThinkingWithTools
    } else if codes(&["unsupported_value"]) || says(&VALUE_PHRASES) {
        SettingComplaint::Value
    } else {
        SettingComplaint::Refused
    };
    Some(Unsupported { named, complaint })
}

const VALUE_PHRASES: [&str; 3] = ["unsupported value", "supported values are", "must be one of"];
const REFUSING_CODES: [&str; 4] =
    ["unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"];

/// A value out of range is the caller's mistake, and none of these.
const REFUSING_PHRASES: [&str; 20] = [
    "may only be set to",
    "only the default",
    "unsupported",
    "not supported",
    "does not support",
    "doesn't support",
    "no longer supported",
    "not permitted",
    "not allowed",
    "not accepted",
    "not available",
    "deprecated for this model",
    "is deprecated",
    "unrecognized",
    "unknown parameter",
    "unknown name",
    "unknown field",
    "cannot both",
    "supported values are",
    "must be one of",
];

/// The words of a sentence, where underscores and dots inside them belong to them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    text.split(move |c: char| !inside(c)).map(|word| word.trim_matches('.')).filter(|word| !word.is_empty())
}
