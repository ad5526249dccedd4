//! Settings of a request that a provider may refuse by name, and how its refusals name them.
//!
//! Providers write differently: OpenAI gives `param`, others a place in the body, most only a sentence. A finding is
//! one of the names below or nothing, so nothing of a provider's text is passed on.

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

/// The complaint of a provider about settings that it does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The settings it named, in that order.
    pub(crate) named: Vec<ModelSetting>,
    pub(crate) complaint: SettingComplaint,
}

/// The fault of the setting.
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

/// The names that wires have for each setting, the one that people use first.
const NAMES: [(ModelSetting, &str); 7] = [
    (ModelSetting::Temperature, "temperature"),
    (ModelSetting::TopP, "top_p topp"),
    (ModelSetting::FrequencyPenalty, "frequency_penalty frequencypenalty repeat_penalty"),
    (ModelSetting::PresencePenalty, "presence_penalty presencepenalty"),
    (ModelSetting::TokenLimit, "max_tokens max_completion_tokens max_output_tokens num_predict"),
    (
        ModelSetting::Effort,
        "reasoning_effort reasoning.effort reasoning output_config.effort effort thinking think",
    ),
    (ModelSetting::StreamOptions, "stream_options stream_options.include_usage"),
];

/// Fields that entries of models add for the sake of one provider.
const EXTRAS: &str = "stop seed tool_choice parallel_tool_calls verbosity logprobs top_logprobs logit_bias top_k \
    min_p n user store metadata service_tier safety_identifier prompt_cache_key \
    prompt_cache_retention";

impl ModelSetting {
    /// The setting of this name, as a wire writes it.
    fn of_name(name: &str) -> Option<Self> {
        let has = |names: &str| names.split(' ').any(|known| known == name);
        let known = NAMES.iter().find(|(_, names)| has(names)).map(|(setting, _)| *setting);
        known.or_else(|| EXTRAS.split(' ').find(|extra| *extra == name).map(Self::Extra))
    }

    /// Every name it may have among the fields of a request, the one that people use first.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let own = if let Self::Extra(name) = self { Some(name) } else { None };
        let known = NAMES.iter().filter(move |(setting, _)| *setting == self);
        own.into_iter().chain(known.flat_map(|(_, names)| names.split(' ')))
    }

    /// The name that people use.
    pub fn name(self) -> &'static str {
        self.names().next().unwrap_or_default()
    }
}

/// The complaint of a refusal about settings, if it says that one is not taken. `places` are the names it gives outside its
/// sentence; `code` and `message` are in lower case.
pub(crate) fn find_complaint(places: &[String], codes: &[String], message: &str) -> Option<Unsupported> {
    let codes = |wanted: &[&str]| codes.iter().any(|code| wanted.contains(&code.as_str()));
    let says = |phrases: &str| phrases.split('|').any(|phrase| message.contains(phrase));
    if !codes(&REFUSING_CODES) && !says(REFUSING_PHRASES) {
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
    let complaint = if says("cannot both|only one of|mutually exclusive") {
        SettingComplaint::Together
    } else if named.contains(&ModelSetting::Effort)
        && says("reasoning_effort to 'none'|reasoning_effort to \"none\"")
    {
        SettingComplaint::ThinkingWithTools
    } else if codes(&["unsupported_value"]) || says(VALUE_PHRASES) {
        SettingComplaint::Value
    } else {
        SettingComplaint::Refused
    };
    Some(Unsupported { named, complaint })
}

const VALUE_PHRASES: &str = "unsupported value|supported values are|must be one of";
const REFUSING_CODES: [&str; 4] =
    ["unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"];

/// A value out of range is the caller's mistake, and none of these.
const REFUSING_PHRASES: &str = "may only be set to|only the default|unsupported|not supported|does not support|\
    doesn't support|no longer supported|not permitted|not allowed|not accepted|not available|\
    deprecated for this model|is deprecated|unrecognized|unknown parameter|unknown name|\
    unknown field|cannot both|supported values are|must be one of";

/// The words of a sentence, where underscores and dots inside them belong to them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    text.split(move |c: char| !inside(c)).map(|word| word.trim_matches('.')).filter(|word| !word.is_empty())
}
