//! How well tools fit a message, by words alone. Small models are offered only the tools that fit best.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde::Deserialize;
use serde_json::Value;

use crate::ToolSpec;

/// A tool that fits less is not offered.
const MIN_FIT: f32 = 1.0;
/// Points for a word that the message shares with the name, the description or the parameters of a tool.
const NAME_WORD: f32 = 2.0;
const DESCRIPTION_WORD: f32 = 0.7;
const PARAMETER_WORD: f32 = 0.5;
/// Points for a cue.
const STRONG_CUE: f32 = 2.5;
const WEAK_CUE: f32 = 0.5;
const STRONG_VERB: f32 = 1.0;
const WEAK_VERB: f32 = 0.3;
/// Points for words about the user, and against questions of general knowledge.
const PERSONAL: f32 = 0.7;
const GENERAL: f32 = 1.5;
/// Bytes of a message that are looked at.
const MAX_MESSAGE_BYTES: usize = 2000;
/// Endings that are taken off words, the longest first.
const ENDINGS: [&str; 8] = ["ations", "ation", "ings", "ing", "ed", "es", "s", "ly"];
const MIN_STEM: usize = 3;
/// Digits of an id.
const MIN_ID: usize = 16;

/// A tool of a list, by its place, and how well it fits a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolFit {
    pub index: usize,
    pub fit: f32,
}

/// The tools that fit the message, the best first. `most` limits their number.
pub fn fitting_tools(message: &str, tools: &[ToolSpec], most: usize) -> Vec<ToolFit> {
    let Some(rules) = RULES.as_ref() else { return Vec::new() };
    let message = MessageWords::new(rules, message);
    let fits =
        tools.iter().enumerate().map(|(index, tool)| ToolFit { index, fit: rules.fit(&message, tool) });
    let is_possible = |fit: &ToolFit| tools.get(fit.index).is_some_and(|tool| message.can_call(tool));
    let mut fits: Vec<ToolFit> = fits.filter(|fit| fit.fit >= MIN_FIT).filter(is_possible).collect();
    fits.sort_by(|one, other| other.fit.total_cmp(&one.fit));
    fits.truncate(most);
    fits
}

#[derive(Deserialize)]
struct RawRules {
    stop_words: String,
    verbs: String,
    general: String,
    personal: String,
    cue: Vec<RawCue>,
}

#[derive(Deserialize)]
struct RawCue {
    #[serde(default)]
    verb: bool,
    name_words: String,
    description_words: String,
    strong: Vec<String>,
    weak: Vec<String>,
}

/// The rules of `cues.toml`.
struct Rules {
    stop_words: BTreeSet<String>,
    verbs: BTreeSet<String>,
    general: Regex,
    personal: Regex,
    cues: Vec<Cue>,
}

/// Messages that ask for a kind of tool.
struct Cue {
    is_verb: bool,
    name_words: BTreeSet<String>,
    description_words: BTreeSet<String>,
    strong: RegexSet,
    weak: RegexSet,
}

/// Tests read the rules, so they are always there.
static RULES: LazyLock<Option<Rules>> =
    LazyLock::new(|| Rules::parse(include_str!("tool_fit/cues.toml")).ok());

/// A message, prepared once for all tools.
struct MessageWords {
    text: String,
    stems: BTreeSet<String>,
}

impl MessageWords {
    fn new(rules: &Rules, message: &str) -> Self {
        let shown = message.get(..message.floor_char_boundary(MAX_MESSAGE_BYTES)).unwrap_or(message);
        Self { text: shown.trim().to_lowercase(), stems: rules.stems(shown) }
    }

    /// False for a tool that needs an id where the message has none: a small model would make one up.
    fn can_call(&self, tool: &ToolSpec) -> bool {
        let required = tool.parameters.get("required").and_then(Value::as_array).into_iter().flatten();
        let needs_id = required.filter_map(Value::as_str).any(|name| name == "id" || name.ends_with("Id"));
        let is_id =
            |word: &str| word.len() >= MIN_ID && word.chars().all(|letter| letter.is_ascii_hexdigit());
        !needs_id || self.text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_id)
    }
}

impl Rules {
    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let raw: RawRules = toml::from_str(text)?;
        let set = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<String>>();
        let cue = |raw: RawCue| {
            Ok(Cue {
                is_verb: raw.verb,
                name_words: set(&raw.name_words),
                description_words: set(&raw.description_words),
                strong: RegexSet::new(raw.strong)?,
                weak: RegexSet::new(raw.weak)?,
            })
        };
        let cues: Result<Vec<Cue>, regex::Error> = raw.cue.into_iter().map(cue).collect();
        Ok(Self {
            stop_words: set(&raw.stop_words),
            verbs: set(&raw.verbs).iter().map(|verb| stem(verb)).collect(),
            general: Regex::new(&raw.general)?,
            personal: Regex::new(&raw.personal)?,
            cues: cues?,
        })
    }

    fn stems(&self, text: &str) -> BTreeSet<String> {
        let content = words(text).into_iter().filter(|word| !self.stop_words.contains(word));
        content.map(|word| stem(&word)).collect()
    }

    fn fit(&self, message: &MessageWords, tool: &ToolSpec) -> f32 {
        let name: BTreeSet<String> = self.stems(&tool.name).difference(&self.verbs).cloned().collect();
        let description = self.stems(&tool.description);
        let parameters = self.stems(&parameter_text(&tool.parameters));
        let in_description = message.stems.intersection(&description).filter(|stem| !name.contains(*stem));
        let known = |stem: &&String| !name.contains(*stem) && !description.contains(*stem);
        let in_parameters = message.stems.intersection(&parameters).filter(known);
        let mut fit = NAME_WORD * message.stems.intersection(&name).count() as f32
            + DESCRIPTION_WORD * in_description.count() as f32
            + PARAMETER_WORD * in_parameters.count() as f32;
        let (subjects, verbs): (Vec<&Cue>, Vec<&Cue>) =
            self.cues.iter().filter(|cue| cue.is_for(tool)).partition(|cue| !cue.is_verb);
        fit += subjects.iter().map(|cue| cue.points(&message.text, STRONG_CUE, WEAK_CUE)).sum::<f32>();
        if fit <= 0.0 {
            return 0.0;
        }
        fit += verbs.iter().map(|cue| cue.points(&message.text, STRONG_VERB, WEAK_VERB)).sum::<f32>();
        let is_clear = subjects.iter().any(|cue| cue.strong.is_match(&message.text));
        if !is_clear && self.general.is_match(&message.text) {
            fit -= GENERAL;
        }
        if self.personal.is_match(&message.text) { fit + PERSONAL } else { fit }
    }
}

impl Cue {
    fn is_for(&self, tool: &ToolSpec) -> bool {
        let has =
            |text: &str, wanted: &BTreeSet<String>| words(text).iter().any(|word| wanted.contains(word));
        has(&tool.name, &self.name_words) || has(&tool.description, &self.description_words)
    }

    fn points(&self, message: &str, strong: f32, weak: f32) -> f32 {
        if self.strong.is_match(message) {
            strong
        } else if self.weak.is_match(message) {
            weak
        } else {
            0.0
        }
    }
}

/// Names, descriptions and values of the parameters.
fn parameter_text(schema: &Value) -> String {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let text = |(name, property): (&String, &Value)| {
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let values = property.get("enum").and_then(Value::as_array).into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        format!("{name} {description} {}", values.join(" "))
    };
    properties.map(text).collect::<Vec<_>>().join(" ")
}

/// The words of a text in small letters. `camelCase` is two words.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in text.chars() {
        let goes_on = before.is_alphabetic() && !(before.is_lowercase() && letter.is_uppercase());
        if letter.is_alphabetic() {
            match words.last_mut().filter(|_| goes_on) {
                Some(word) => word.extend(letter.to_lowercase()),
                None => words.push(letter.to_lowercase().collect()),
            }
        }
        before = letter;
    }
    words
}

/// A word without its ending, as far as English words go.
fn stem(word: &str) -> String {
    let long = |rest: &&str| rest.chars().count() >= MIN_STEM;
    let cut = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending).filter(long)).unwrap_or(word);
    let cut = cut.strip_suffix('e').filter(|rest| rest.chars().count() > MIN_STEM).unwrap_or(cut);
    match cut.strip_suffix('y').filter(long) {
        Some(rest) => format!("{rest}i"),
        None => cut.to_owned(),
    }
}
