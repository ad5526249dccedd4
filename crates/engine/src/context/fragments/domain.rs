//! What the app's records say about the matter: sections of the app's folder, chosen by the message and the model's window.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use app::{Fragment, Section, SectionData};
use memory::words::Words;
use protocol::{LeftOut, Warning};
use serde_json::Value;
use store::RecordQuery;

use crate::context::gather::Sources;
use crate::context::{Fence, Piece, capped};

/// Records of one type that a section is written from, the newest.
const MAX_RECORDS: usize = 500;

/// A part of the prompt that all sections may take at most: one in so many.
const SHARE: usize = 4;

/// How near in meaning a section must be to the message when none of its words is in it.
const MIN_LIKENESS: f32 = 0.42;

/// Bytes of a section's text for each token it may take; a little more than there are.
const BYTES_PER_TOKEN: usize = 4;

/// What was chosen.
#[derive(Debug, Default)]
pub(in crate::context) struct Chosen {
    pub(in crate::context) names: Vec<String>,
    pub(in crate::context) pieces: Vec<Piece>,
    pub(in crate::context) left_out: Vec<LeftOut>,
    pub(in crate::context) warnings: Vec<Warning>,
}

/// The sections for a message. One that says nothing of a matter may follow one that does, so that is looked at next.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    message: &str,
    before: Option<&str>,
) -> Result<Chosen, store::Error> {
    let fitting: Vec<&Section> =
        from.app.sections.iter().filter(|section| from.window >= section.min_window).collect();
    if fitting.is_empty() {
        return Ok(Chosen::default());
    }
    let mut scores = scores(from, &fitting, message).await;
    if let (Some(before), true) = (before, scores.iter().all(|score| *score < 1.0)) {
        let earlier = scores_by_words(&fitting, before);
        scores = scores.iter().zip(earlier).map(|(now, then)| now.max(then / 2.0)).collect();
    }
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    ranked.retain(|(index, score)| *score > 0.0 || fitting.get(*index).is_some_and(|section| section.always));
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let order: Vec<usize> = ranked.into_iter().map(|(index, _)| index).collect();
    write(from, &fitting, &order).await
}

/// How much each has to do with the message: words it is triggered by, or else what it means.
async fn scores(from: &Sources<'_>, sections: &[&Section], message: &str) -> Vec<f32> {
    let mut scores = scores_by_words(sections, message);
    let about: Vec<String> = sections.iter().map(|section| section.about()).collect();
    let Some(alike) = from.recall.likeness(message, &about).await else { return scores };
    for (score, alike) in scores.iter_mut().zip(alike) {
        if alike >= MIN_LIKENESS {
            *score += alike;
        }
    }
    scores
}

/// One for each trigger that the message holds.
fn scores_by_words(sections: &[&Section], message: &str) -> Vec<f32> {
    let words = Words::default();
    let said = words.terms(message);
    let all: HashSet<&str> = said.iter().map(String::as_str).collect();
    let holds = |trigger: &String| {
        let phrase = words.terms(trigger);
        match phrase.as_slice() {
            [] => message.to_lowercase().contains(&trigger.to_lowercase()),
            [word] => all.contains(word.as_str()),
            phrase => said.windows(phrase.len()).any(|window| window == phrase),
        }
    };
    let score = |section: &&Section| section.triggers.iter().filter(|trigger| holds(trigger)).count() as f32;
    sections.iter().map(score).collect()
}

/// Writes them, the nearest first as long as there is room, and then in the app's order.
async fn write(from: &Sources<'_>, sections: &[&Section], order: &[usize]) -> Result<Chosen, store::Error> {
    // Before the records are read: what is erased meanwhile is not kept.
    let source = store::source::of_records(from.thread, from.store.erasures(from.scope).await?);
    let chosen: Vec<(usize, &&Section)> =
        order.iter().filter_map(|index| Some((*index, sections.get(*index)?))).collect();
    let records = records(from, chosen.iter().flat_map(|(_, section)| &section.records)).await?;
    let data = SectionData { records: &records, now: from.now, zone: &from.zone };
    let (mut out, mut written) = (Chosen::default(), Vec::new());
    let mut left = from.app.context.domain_tokens.min(from.share(SHARE));
    for (index, section) in chosen {
        let text = match section.render(&data) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => capped(&text, section.max_tokens * BYTES_PER_TOKEN),
            Err(error) => {
                tracing::warn!(app = %from.app.id, section = section.name, error, "a section was not written");
                let message = format!("the section {:?} could not be written: {error}", section.name);
                out.warnings.push(Warning { code: "section_failed".into(), message });
                continue;
            }
        };
        let tokens = from.counter.text(&text);
        let Some(rest) = left.checked_sub(tokens) else {
            out.left_out.push(LeftOut {
                fragment: Fragment::Domain.name().into(),
                what: format!("the section {:?}", section.name),
                tokens: tokens as u64,
            });
            continue;
        };
        left = rest;
        written.push((index, section.name.clone(), text));
    }
    written.sort_by_key(|(index, ..)| *index);
    for (_, name, text) in written {
        out.names.push(name);
        out.pieces.push(Piece::of_data(Fragment::Domain, &source, text));
    }
    Ok(out)
}

async fn records(
    from: &Sources<'_>,
    kinds: impl Iterator<Item = &String>,
) -> Result<BTreeMap<String, Vec<Value>>, store::Error> {
    let kinds: BTreeSet<&String> = kinds.collect();
    let mut records = BTreeMap::new();
    for kind in kinds {
        let any = RecordQuery::default();
        let mut rows = store::newest_records(from.store, from.scope, kind, any, MAX_RECORDS).await?;
        rows.reverse(); // the oldest first, as people list things
        records.insert(kind.clone(), rows.into_iter().map(|row| row.data).collect());
    }
    Ok(records)
}

pub(super) fn text(pieces: &[&Piece], fence: &Fence) -> String {
    super::paragraphs("What the records say.", pieces, fence)
}
