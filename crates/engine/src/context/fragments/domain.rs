//! What the app's records say about the matter: sections of the app's folder, chosen by the message and the model's window.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use app::{Fragment, Section, SectionData};
use protocol::{LeftOut, Warning};
use serde_json::Value;
use store::RecordQuery;

use crate::context::gather::Sources;
use crate::context::{Fence, Piece, capped};
use crate::sections::{SaidMessage, by_words, choose_sections};

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
    let scores = scores(from, &fitting, message, before).await?;
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    ranked.retain(|(index, score)| *score > 0.0 || fitting.get(*index).is_some_and(|section| section.always));
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let order: Vec<usize> = ranked.into_iter().map(|(index, _)| index).collect();
    write(from, &fitting, &order).await
}

/// How much each has to do with the message.
async fn scores(
    from: &Sources<'_>,
    sections: &[&Section],
    message: &str,
    before: Option<&str>,
) -> Result<Vec<f32>, store::Error> {
    let named = sections.iter().filter(|section| !section.names.is_empty());
    let records = records(from, named.flat_map(|section| &section.records)).await?;
    let Some(classifier) = &from.app.classifier else {
        let said = SaidMessage { text: message, vector: None };
        let scores = choose_sections(from.app, sections, &records, (said, None));
        return Ok(by_meaning(from, sections, scores, (message, before)).await);
    };
    let embeds = classifier.embedder.is_some() && classifier.embedder.as_deref() == from.recall.model();
    let (now, then) = tokio::join!(vector(from, embeds, Some(message)), vector(from, embeds, before));
    let said = SaidMessage { text: message, vector: now.as_deref() };
    let before = before.map(|text| SaidMessage { text, vector: then.as_deref() });
    Ok(choose_sections(from.app, sections, &records, (said, before)))
}

async fn vector(from: &Sources<'_>, embeds: bool, text: Option<&str>) -> Option<Arc<[f32]>> {
    match text {
        Some(text) if embeds => from.recall.vector(text).await,
        Some(_) | None => None,
    }
}

/// Where nothing was learned: how near each is in meaning, added to its score, or what the words before call for.
async fn by_meaning(
    from: &Sources<'_>,
    sections: &[&Section],
    mut scores: Vec<f32>,
    (message, before): (&str, Option<&str>),
) -> Vec<f32> {
    let about: Vec<String> = sections.iter().map(|section| section.about()).collect();
    let alike = from.recall.likeness(message, &about).await.unwrap_or_default();
    for (score, alike) in scores.iter_mut().zip(alike) {
        if alike >= MIN_LIKENESS {
            *score += alike;
        }
    }
    if let (Some(before), true) = (before, scores.iter().all(|score| *score < 1.0)) {
        let earlier = by_words(sections, before);
        scores = scores.iter().zip(earlier).map(|(now, then)| now.max(then / 2.0)).collect();
    }
    scores
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
