//! Which sections of an app's records a message calls for: by words that the app names, by names that occur in the
//! records, and by what was learned of examples.

mod learning;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use app::{ANY_SECTION, App, CONTINUES, Classifier, Section};
use memory::classify::{self, Mention, SaidWords};
use memory::words;
use serde_json::Value;

pub use self::learning::{ExampleVectors, SectionRates, chosen_sections, cross_validate, learn_sections};

/// From this score on, a message needs some section, even if none of its words names one.
const OPEN: f32 = 0.5;
/// From this score on, a part of a name from the records is meant as that name.
const AJAR: f32 = -1.0;
/// From this score on, a message that needs some section needs this one. It is low: a section that is shown in vain
/// costs little, and a section that is missing may harm the user.
const WANTED: f32 = -2.8;
/// So far below the best section another one still comes, even if none is likely.
const NEAR_BEST: f32 = 0.5;
/// From this score on, a message goes on with the one before.
const GOES_ON: f32 = 0.0;

/// Records of each type, as names are looked for in them.
pub type RecordsByType = BTreeMap<String, Vec<Value>>;

/// A message, and what an embedder made of it: the one that was there when the app's examples were learned.
#[derive(Debug, Clone, Copy)]
pub struct SaidMessage<'a> {
    pub text: &'a str,
    pub vector: Option<&'a [f32]>,
}

/// How much each section is called for by a message, or by the one before it if this one goes on with it. At zero it is
/// not.
pub fn choose_sections(
    app: &App,
    sections: &[&Section],
    records: &RecordsByType,
    (said, before): (SaidMessage<'_>, Option<SaidMessage<'_>>),
) -> Vec<f32> {
    let Some(classifier) = &app.classifier else {
        let (words, names) = (by_words(sections, said.text), by_names(sections, records, said.text));
        let whole = names.into_iter().map(|name| if name == Some(Mention::Whole) { 1.0 } else { 0.0 });
        return words.into_iter().zip(whole).map(|(words, name)| words + name).collect();
    };
    let (mut scores, goes_on) = judge_message(classifier, sections, records, said);
    if let (Some(before), true) = (before, goes_on) {
        let (earlier, _) = judge_message(classifier, sections, records, before);
        scores = scores.into_iter().zip(earlier).map(|(now, then)| now.max(then / 2.0)).collect();
    }
    scores
}

/// How much a message by itself calls for each section, and whether it goes on with the one before.
fn judge_message(
    classifier: &Classifier,
    sections: &[&Section],
    records: &RecordsByType,
    said: SaidMessage<'_>,
) -> (Vec<f32>, bool) {
    let learned = classify::scores(classifier, said.text, said.vector);
    let score = |name: &str| {
        let at = classifier.matters.iter().position(|matter| matter.name == name);
        at.and_then(|at| learned.get(at).copied())
    };
    let (words, names) = (by_words(sections, said.text), by_names(sections, records, said.text));
    let any = score(ANY_SECTION).unwrap_or(f32::MIN);
    let names: Vec<f32> = names.into_iter().map(|name| sureness(name, any)).collect();
    let is_open = any > OPEN || words.iter().chain(&names).any(|score| *score > 0.0);
    let best = sections.iter().filter_map(|section| score(&section.name)).fold(f32::MIN, f32::max);
    let wanted = |section: &&Section| match score(&section.name) {
        Some(score) if is_open && score > WANTED.min(best - NEAR_BEST) => likelihood(score),
        Some(_) | None => 0.0,
    };
    let learned: Vec<f32> = sections.iter().map(wanted).collect();
    let sum = |((words, names), learned): ((f32, f32), f32)| words + names + learned;
    let scores = words.into_iter().zip(names).zip(learned).map(sum).collect();
    (scores, score(CONTINUES).is_some_and(|score| score > GOES_ON))
}

/// The score that a name in the message adds to its section, given how likely the message needs any.
fn sureness(mention: Option<Mention>, any: f32) -> f32 {
    match mention {
        Some(Mention::Whole) => 1.0,
        Some(Mention::Part) if any > AJAR => 1.0,
        Some(Mention::Part) | None => 0.0,
    }
}

fn likelihood(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// One for each trigger that the message holds.
pub(crate) fn by_words(sections: &[&Section], message: &str) -> Vec<f32> {
    let said = words::terms(message);
    let all: HashSet<&str> = said.iter().map(String::as_str).collect();
    let holds = |trigger: &String| {
        let phrase = words::terms(trigger);
        match phrase.as_slice() {
            [] => message.to_lowercase().contains(&trigger.to_lowercase()),
            [word] => all.contains(word.as_str()),
            phrase => said.windows(phrase.len()).any(|window| window == phrase),
        }
    };
    let score = |section: &&Section| section.triggers.iter().filter(|trigger| holds(trigger)).count() as f32;
    sections.iter().map(score).collect()
}

/// For each section the surest mention of a name that its records hold.
fn by_names(sections: &[&Section], records: &RecordsByType, message: &str) -> Vec<Option<Mention>> {
    let said = SaidWords::of(message);
    let of_section = |section: &&Section| {
        let rows = section.records.iter().filter_map(|kind| records.get(kind)).flatten();
        let values =
            rows.flat_map(|row| section.names.iter().filter_map(move |field| row.get(field)?.as_str()));
        values.filter_map(|value| said.mention(value)).max()
    };
    sections.iter().map(of_section).collect()
}
