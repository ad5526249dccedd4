//! Records of the app that matter to the message: sections of the app's folder, chosen by the message and the model's window.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use app::{Fragment, Section, SectionData, SectionText};
use memory::words;
use protocol::{LeftOut, RecordView, Warning};
use serde_json::Value;
use store::RecordQuery;

use crate::context::PromptPiece;
use crate::context::gather::Sources;
use crate::sections::{SaidMessage, by_words, choose_sections};

/// Records of one type that a section is written from, the newest.
const MAX_RECORDS: usize = 500;

/// All sections together get at most 1/`SHARE` of the prompt.
const SHARE: usize = 2;

/// Where there is less room than this for each section, those that are furthest from the message give way.
const MIN_SECTION_TOKENS: usize = 60;

/// How near in meaning a section must be to the message when none of its words is in it.
const MIN_LIKENESS: f32 = 0.42;

/// The sections that were chosen.
#[derive(Debug, Default)]
pub(in crate::context) struct ChosenSections {
    pub(in crate::context) names: Vec<String>,
    pub(in crate::context) pieces: Vec<PromptPiece>,
    pub(in crate::context) left_out: Vec<LeftOut>,
    pub(in crate::context) warnings: Vec<Warning>,
}

impl ChosenSections {
    fn leave_out(&mut self, what: String, tokens: usize) {
        let fragment = Fragment::Domain.name().into();
        self.left_out.push(LeftOut { fragment, what, tokens: tokens as u64 });
    }
}

/// The sections for a message, in at most `room` tokens. A message that names no topic may follow one that does, so
/// `before` is the message before it.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    message: &str,
    before: Option<&str>,
    room: usize,
) -> Result<ChosenSections, store::Error> {
    let fitting: Vec<&Section> =
        from.app.sections.iter().filter(|section| from.window >= section.min_window).collect();
    if fitting.is_empty() {
        return Ok(ChosenSections::default());
    }
    let scores = scores(from, &fitting, message, before).await?;
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    ranked.retain(|(index, score)| *score > 0.0 || fitting.get(*index).is_some_and(|section| section.always));
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let order: Vec<usize> = ranked.into_iter().map(|(index, _)| index).collect();
    write(from, &fitting, &order, (message, room)).await
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
    let embeds = classifier.embedder.is_some() && classifier.embedder.as_deref() == from.world.recall.model();
    let (now, then) = tokio::join!(vector(from, embeds, Some(message)), vector(from, embeds, before));
    let said = SaidMessage { text: message, vector: now.as_deref() };
    let before = before.map(|text| SaidMessage { text, vector: then.as_deref() });
    Ok(choose_sections(from.app, sections, &records, (said, before)))
}

async fn vector(from: &Sources<'_>, embeds: bool, text: Option<&str>) -> Option<Arc<[f32]>> {
    match text {
        Some(text) if embeds => from.world.recall.vector(text).await,
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
    let about: Vec<String> = sections.iter().map(|section| section.text_to_compare()).collect();
    let alike = from.world.recall.likeness(message, &about).await.unwrap_or_default();
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

/// Writes those that say something. A section that does not fit is shortened by whole items; the items that the message
/// names are kept first.
async fn write(
    from: &Sources<'_>,
    sections: &[&Section],
    order: &[usize],
    (message, room): (&str, usize),
) -> Result<ChosenSections, store::Error> {
    // Before the records are read: what is erased meanwhile is not kept.
    let source = store::source::of_records(from.thread, from.world.store.erasures(from.scope).await?);
    let chosen: Vec<(usize, &Section)> =
        order.iter().filter_map(|index| Some((*index, *sections.get(*index)?))).collect();
    let records = records(from, chosen.iter().flat_map(|(_, section)| &section.records)).await?;
    let mut out = ChosenSections::default();
    let mut texts = render_sections(from, chosen, &records, &mut out);
    let room = from.app.context.domain_tokens.min(from.share(SHARE)).min(room);
    let places = (room / MIN_SECTION_TOKENS).max(1);
    for beyond in texts.split_off(places.min(texts.len())) {
        out.leave_out(format!("the section {:?}", beyond.section.name), beyond.tokens);
    }
    let wants: Vec<usize> = texts.iter().map(|text| text.tokens.min(text.section.max_tokens)).collect();
    let asked: HashSet<String> = words::terms(message).into_iter().collect();
    let named = |item: &str| {
        words::terms(item).into_iter().filter(|term| asked.contains(term)).collect::<HashSet<_>>().len()
    };
    let mut written = Vec::new();
    for (text, share) in texts.iter().zip(shares(&wants, room)) {
        let name = &text.section.name;
        let Some(short) = text.text.shorten_to(share, |text| from.counter.text(text), named) else {
            out.leave_out(format!("the section {name:?}"), text.tokens);
            continue;
        };
        if short.shown < short.all {
            let what = format!("{} of {} items of the section {name:?}", short.all - short.shown, short.all);
            out.leave_out(what, text.tokens.saturating_sub(from.counter.text(&short.text)));
        }
        written.push((text.place, name.clone(), short.text));
    }
    if written.is_empty() && !texts.is_empty() {
        out.pieces.push(PromptPiece::of_data(Fragment::Domain, &source, UNSHOWN.to_owned()));
    }
    written.sort_by_key(|(place, ..)| *place);
    for (_, name, text) in written {
        out.names.push(name);
        out.pieces.push(PromptPiece::of_data(Fragment::Domain, &source, text));
    }
    Ok(out)
}

/// A section that has something to say.
struct Said<'a> {
    place: usize,
    section: &'a Section,
    text: SectionText,
    /// The tokens of all of it.
    tokens: usize,
}

fn render_sections<'a>(
    from: &Sources<'_>,
    chosen: Vec<(usize, &'a Section)>,
    records: &BTreeMap<String, Vec<Value>>,
    out: &mut ChosenSections,
) -> Vec<Said<'a>> {
    let data = SectionData { records, now: from.now, zone: &from.zone, targets: &from.app.targets };
    let mut said = Vec::new();
    for (place, section) in chosen {
        match section.render(&data) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => {
                let tokens = from.counter.text(&text.full_text());
                said.push(Said { place, section, text, tokens });
            }
            Err(error) => {
                tracing::warn!(app = %from.app.id, section = section.name, error, "the template of a section failed, so the prompt does not have the section");
                let message = format!(
                    "the section {:?} is not in the prompt, because its template failed: {error}",
                    section.name
                );
                out.warnings.push(Warning { code: "section_failed".into(), message });
            }
        }
    }
    said
}

/// The tokens that each may take of the room: all it wants where that is no more than an equal part, and the others share the rest.
/// So a long list never pushes a short section out.
fn shares(wants: &[usize], room: usize) -> Vec<usize> {
    let mut smallest: Vec<usize> = (0..wants.len()).collect();
    smallest.sort_by_key(|place| wants.get(*place).copied());
    let (mut left, mut shares) = (room, vec![0; wants.len()]);
    for (done, place) in smallest.into_iter().enumerate() {
        let part = left / (wants.len() - done).max(1);
        if let (Some(share), Some(want)) = (shares.get_mut(place), wants.get(place)) {
            *share = part.min(*want);
            left -= *share;
        }
    }
    shares
}

async fn records(
    from: &Sources<'_>,
    kinds: impl Iterator<Item = &String>,
) -> Result<BTreeMap<String, Vec<Value>>, store::Error> {
    let kinds: BTreeSet<&String> = kinds.collect();
    let mut records = BTreeMap::new();
    for kind in kinds {
        let any = RecordQuery::default();
        let mut rows = store::newest_records(&from.world.store, from.scope, kind, any, MAX_RECORDS).await?;
        rows.reverse(); // the oldest first, as people list things
        records.insert(kind.clone(), rows.into_iter().map(with_id).collect());
    }
    Ok(records)
}

/// The text of a record, and the id by which others refer to it.
fn with_id(row: RecordView) -> Value {
    let mut data = row.data;
    if let Some(fields) = data.as_object_mut() {
        fields.insert("id".to_owned(), row.id.to_string().into());
    }
    data
}

/// Said in place of all sections, where a prompt has no room for any.
pub(in crate::context) const UNSHOWN: &str =
    "There are records that have to do with this message, but there is no room to show them here.";
