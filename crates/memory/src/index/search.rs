//! Nearness to a question: several signs of it, each from 0 to 1, weighted and added.
//!
//! The weights were fitted on conversations with questions whose answers' places are known; `cargo xtask eval locomo`
//! measures them. None of the signs depends on what else is found, so that scores of different searches compare. Memories
//! and pieces of documents, where there are vectors, are weighed apart from what was said.

mod single_items;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::people::NOBODY;
use super::threads::{NO_THREAD, ThreadOrder};
use super::{
    Hit, Index, IndexedKind, ItemRef, MAX_HITS, Query, RecallFilter, SearchMethod, Slot, SlotFacts, index,
};
use crate::dates::{self, TimeSpan};
use crate::words;

/// How fast repeating a word stops to matter, and how much long texts are held against.
const SATURATION: f32 = 0.9;
const LENGTH_PENALTY: f32 = 0.4;

/// The words are in the item, the rarer the better.
const WORDS: f32 = 0.1;
/// The words are in the item or near it.
const AROUND: f32 = 0.2;
/// The item means the same.
const MEANING: f32 = 0.3;
/// The item was said by the person that the question asks about.
const SPEAKER: f32 = 0.12;
/// The item says enough to answer something.
const SUBSTANCE: f32 = 0.12;
/// Its thread has more that is near.
const THREAD: f32 = 0.32;
/// The item follows a question that is near.
const ANSWER: f32 = 0.14;
/// The item is from the time asked about.
const DATE: f32 = 0.2;
/// Importance and recency only decide between items that are as near as each other.
const IMPORTANCE: f32 = 0.002;
const RECENCY: f32 = 0.001;

/// Different terms of a question that are looked up. One for each bit of a mask.
const MAX_QUESTION_TERMS: usize = 32;
/// Bytes of a question that are read.
const MAX_QUESTION_BYTES: usize = 16_384;
/// Slots above which only the best by their own signs are examined further. The next two constants say about how many,
/// and by how many levels they are found.
const MANY: usize = 16_384;
const KEPT_OF_MANY: usize = 8_192;
const LEVELS: usize = 1_024;
/// How many neighbours on each side count as near.
const NEAR: usize = 2;
/// How many of a thread's nearest items stand for it.
const BEST_OF_THREAD: usize = 3;
/// Terms from which on an item says enough.
const ENOUGH_TERMS: f32 = 30.0;
/// Days in which nearness to a span fades: people tell things after they happened, and seldom before.
const DAYS_AFTER: f32 = 14.0;
const DAYS_BEFORE: f32 = 7.0;
/// Days after which half of an item's recency is gone.
const RECENT_DAYS: f32 = 30.0;
const DAY_SECONDS: f32 = 86_400.0;

/// With `only`, by slot, whether it may be found.
pub(super) fn search(index: &Index, query: &Query<'_>, only: Option<&[bool]>) -> Vec<Hit> {
    let limit = query.limit.min(MAX_HITS);
    if limit == 0 || index.is_empty() {
        return Vec::new();
    }
    let question = Question::read(index, query);
    let wanted = Wanted { query, only };
    match query.method {
        SearchMethod::Words => best_hits(index, &wanted, limit, all_slots(&question.words)),
        SearchMethod::Vectors => {
            best_hits(index, &wanted, limit, all_slots(question.meaning.as_deref().unwrap_or_default()))
        }
        SearchMethod::Hybrid if single_items::is_for(&question, query.among) => {
            let scores = single_items::by_meaning(index, &question, query.among);
            best_hits(index, &wanted, limit, scores.into_iter())
        }
        SearchMethod::Hybrid => {
            best_hits(index, &wanted, limit, by_everything(index, &question, &wanted).into_iter())
        }
    }
}

/// The slots that a search may find.
struct Wanted<'a> {
    query: &'a Query<'a>,
    only: Option<&'a [bool]>,
}

impl Wanted<'_> {
    fn accepts(&self, slot: usize, facts: &SlotFacts) -> bool {
        let is_kind = match self.query.among {
            RecallFilter::Memories => facts.kind == IndexedKind::Memory,
            RecallFilter::Messages => facts.kind == IndexedKind::Message,
            RecallFilter::Both => facts.kind == IndexedKind::Memory || facts.kind == IndexedKind::Message,
            RecallFilter::Documents => facts.kind == IndexedKind::Chunk,
        };
        let is_then = |span: TimeSpan| span.start.as_second() <= facts.at && facts.at < span.end.as_second();
        let is_one = |only: &[bool]| only.get(slot).is_some_and(|only| *only);
        is_kind && self.query.within.is_none_or(is_then) && self.only.is_none_or(is_one)
    }
}

/// A question as it is read, and how near each slot is to it by itself.
struct Question {
    terms: Vec<Term>,
    /// By slot, which of the terms it has.
    masks: Vec<u32>,
    words: Vec<f32>,
    meaning: Option<Vec<f32>>,
    asked: AskedPerson,
    /// By slot, whether it is from or, for a memory, about the one asked about.
    theirs: Vec<bool>,
    span: Option<TimeSpan>,
}

struct Term {
    text: String,
    times: u32,
    /// The rarer, the more.
    weight: f32,
    /// Whether it is a name, a number or of another language than English.
    tells: bool,
}

/// Whom a question is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskedPerson {
    Speaker(u32),
    Writer,
    Anybody,
}

impl Question {
    fn read(index: &Index, query: &Query<'_>) -> Self {
        let text = read_part(query.text);
        let is_of_people = query.among != RecallFilter::Documents;
        let (names, rest): (Vec<&str>, Vec<&str>) = words::tokens(text)
            .partition(|token| is_of_people && !index.people.speakers_named(token).is_empty());
        let terms = match query.method {
            SearchMethod::Vectors => Vec::new(),
            SearchMethod::Words | SearchMethod::Hybrid => terms(index, text, &rest.join(" ")),
        };
        let (words, masks) = by_words(index, &terms);
        let vector = query.vector.filter(|_| query.method != SearchMethod::Words);
        // Memories are told apart by how far they are, too.
        let least = if query.among == RecallFilter::Memories { -1.0 } else { 0.0 };
        let asked = if is_of_people { person_asked_about(index, &names, text) } else { AskedPerson::Anybody };
        Self {
            words,
            masks,
            terms,
            meaning: vector.and_then(|vector| index.vectors.nearness(vector, index.facts.len(), least)),
            asked,
            theirs: slots_of_person(index, asked, &names),
            span: if is_of_people { dates::named_span(text, query.now, query.zone) } else { None },
        }
    }

    /// The most that an item can reach, answers apart.
    fn max_score(&self) -> f32 {
        let given = |weight: f32, is_given: bool| if is_given { weight } else { 0.0 };
        WORDS
            + AROUND
            + SUBSTANCE
            + THREAD
            + given(MEANING, self.meaning.is_some())
            + given(SPEAKER, self.asked != AskedPerson::Anybody)
            + given(DATE, self.span.is_some())
    }
}

/// As much of a question as is read.
fn read_part(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_QUESTION_BYTES)).unwrap_or(text)
}

fn person_asked_about(index: &Index, names: &[&str], text: &str) -> AskedPerson {
    let mut named: Vec<u32> = names.iter().flat_map(|name| index.people.speakers_named(name)).collect();
    named.sort_unstable();
    named.dedup();
    match named.as_slice() {
        [one] => AskedPerson::Speaker(*one),
        [] if words::is_about_the_writer(text) => AskedPerson::Writer,
        _ => AskedPerson::Anybody,
    }
}

fn slots_of_person(index: &Index, asked: AskedPerson, names: &[&str]) -> Vec<bool> {
    let mut theirs: Vec<bool> = match asked {
        AskedPerson::Speaker(asked) => index.people.speakers().iter().map(|said| *said == asked).collect(),
        AskedPerson::Writer => index.facts.iter().map(|facts| facts.is_users).collect(),
        AskedPerson::Anybody => return Vec::new(),
    };
    for term in words::terms(&names.join(" ")) {
        for posting in index.postings.of(&term) {
            let slot = super::index(posting.slot);
            let has_no_speaker = index.people.speakers().get(slot) == Some(&NOBODY);
            if let Some(theirs) = theirs.get_mut(slot) {
                *theirs |= has_no_speaker;
            }
        }
    }
    theirs
}

/// The different terms of what a text says beside names of speakers; if there are too many, the rarest of those that can
/// be found.
fn terms(index: &Index, text: &str, rest: &str) -> Vec<Term> {
    let telling: BTreeSet<String> = words::telling_terms(text).into_iter().collect();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for term in words::terms(rest) {
        *counts.entry(term).or_default() += 1;
    }
    let weigh = |(text, times): (String, u32)| {
        let with = index.postings.of(&text).len() as f32;
        let without = index.len() as f32 - with;
        let weight = ((without + 0.5) / (with + 0.5)).ln_1p();
        Term { times, weight, tells: telling.contains(&text), text }
    };
    let mut terms: Vec<Term> = counts.into_iter().map(weigh).collect();
    let is_known = |term: &Term| !index.postings.of(&term.text).is_empty();
    terms.sort_by(|a, b| is_known(b).cmp(&is_known(a)).then(b.weight.total_cmp(&a.weight)));
    terms.truncate(MAX_QUESTION_TERMS);
    terms
}

/// How near each slot is by its words, as a share of what is possible, and which of the terms it has.
fn by_words(index: &Index, terms: &[Term]) -> (Vec<f32>, Vec<u32>) {
    let mut near = vec![0.0; index.facts.len()];
    let mut masks = vec![0; index.facts.len()];
    let average = (index.postings.length() as f32 / index.len().max(1) as f32).max(1.0);
    let possible: f32 = terms.iter().map(|term| term.times as f32 * term.weight * (SATURATION + 1.0)).sum();
    for (bit, term) in terms.iter().enumerate() {
        let weight = term.times as f32 * term.weight * (SATURATION + 1.0) / possible;
        for posting in index.postings.of(&term.text) {
            let slot = super::index(posting.slot);
            let length = f32::from(posting.length) / average;
            let penalty = SATURATION * (1.0 - LENGTH_PENALTY + LENGTH_PENALTY * length);
            let times = f32::from(posting.times);
            if let Some((near, mask)) = near.get_mut(slot).zip(masks.get_mut(slot)) {
                *near += weight * times / (times + penalty);
                *mask |= 1 << bit;
            }
        }
    }
    (near, masks)
}

/// Every slot with its score.
fn all_slots(scores: &[f32]) -> impl Iterator<Item = (usize, f32)> {
    scores.iter().copied().enumerate()
}

/// Slots with all signs of nearness together. The signs of a slot itself are looked at first, and of very many slots
/// only the best by them go on: what their neighbours add is never enough for the rest.
fn by_everything(index: &Index, question: &Question, wanted: &Wanted<'_>) -> Vec<(usize, f32)> {
    let none = vec![0.0; question.words.len()];
    let meaning = question.meaning.as_deref().unwrap_or(&none);
    let around = neighbour_shares(&index.threads, &question.masks, &question.terms);
    let mut scores: Vec<f32> = question
        .words
        .iter()
        .zip(meaning)
        .zip(&around)
        .map(|((words, meaning), around)| WORDS * words + MEANING * meaning + AROUND * around)
        .collect();
    if let Some(span) = question.span {
        for (score, facts) in scores.iter_mut().zip(&index.facts) {
            *score += DATE * from_then(facts.at, span);
        }
    }
    if scores.len() > MANY {
        // Or what is not wanted could leave no room for what is.
        for (slot, (score, facts)) in scores.iter_mut().zip(&index.facts).enumerate() {
            *score = if wanted.accepts(slot, facts) { *score } else { 0.0 };
        }
    }
    let kept = best_of_many(&scores);
    let parts = if question.meaning.is_some() { 2.0 } else { 1.0 };
    let mut own = none.clone();
    for slot in &kept {
        let near = value_at(&question.words, *slot) + value_at(meaning, *slot);
        own.get_mut(*slot).into_iter().for_each(|own| *own = near / parts);
    }
    let threads = by_thread(index, &kept, &own);
    let most = question.max_score();
    let score = |slot: usize| {
        let theirs = question.theirs.get(slot).is_some_and(|theirs| *theirs);
        let speaker = if theirs { SPEAKER } else { 0.0 };
        let substance = SUBSTANCE * value_at(&index.substance, slot);
        let neighbours = by_neighbours(index, slot, &own, &threads);
        (slot, (value_at(&scores, slot) + substance + speaker + neighbours) / most)
    };
    kept.iter().copied().map(score).collect()
}

/// The slots that have a sign of their own, which the others need not be found for; of very many, the best.
fn best_of_many(scores: &[f32]) -> Vec<usize> {
    let best = scores.iter().copied().fold(0.0, f32::max);
    let level = |score: f32| ((score / best) * LEVELS as f32) as usize;
    let mut least = 0;
    if scores.len() > MANY && best > 0.0 {
        let mut counts = vec![0usize; LEVELS + 1];
        for score in scores {
            counts.get_mut(level(*score)).into_iter().for_each(|count| *count += 1);
        }
        let mut reached = 0;
        let enough = |count: &usize| {
            reached += count;
            reached >= KEPT_OF_MANY
        };
        least = counts.iter().rev().position(enough).map_or(0, |from_best| LEVELS - from_best);
    }
    let is_kept = |score: f32| score > 0.0 && (least == 0 || level(score) >= least);
    scores.iter().enumerate().filter(|(_, score)| is_kept(**score)).map(|(slot, _)| slot).collect()
}

/// The score that an item's thread, and the question before it, add to it.
fn by_neighbours(index: &Index, slot: usize, own: &[f32], threads: &[f32]) -> f32 {
    let Some(place) = index.threads.places().get(slot) else { return 0.0 };
    let thread =
        if place.thread == NO_THREAD { value_at(own, slot) } else { value_of(threads, place.thread) };
    let asks = index.asks.get(super::index(place.before)).copied().unwrap_or(false);
    let answer = if asks { value_of(own, place.before) } else { 0.0 };
    THREAD * thread + ANSWER * answer
}

/// By slot, which share of the terms by weight it or a neighbour has.
fn neighbour_shares(threads: &ThreadOrder, masks: &[u32], terms: &[Term]) -> Vec<f32> {
    let total: f32 = terms.iter().map(|term| term.weight).sum();
    let mut near = masks.to_vec();
    for (slot, mask) in masks.iter().enumerate().filter(|(_, mask)| **mask != 0) {
        let Ok(slot) = Slot::try_from(slot) else { break };
        if threads.place(slot).thread == NO_THREAD {
            continue; // only a message has neighbours
        }
        let (mut before, mut after) = (slot, slot);
        for _ in 0..NEAR {
            before = threads.place(before).before;
            after = threads.place(after).after;
            for neighbour in [before, after] {
                if let Some(near) = near.get_mut(index(neighbour)) {
                    *near |= mask;
                }
            }
        }
    }
    let tables = share_tables(terms, total);
    let share = |mask: &u32| {
        let bytes = tables.iter().zip(mask.to_le_bytes());
        bytes.map(|(table, byte)| table.get(usize::from(byte)).copied().unwrap_or(0.0)).sum()
    };
    near.iter().map(|mask| if *mask == 0 { 0.0 } else { share(mask) }).collect()
}

/// The worth of each value of each byte of a mask.
fn share_tables(terms: &[Term], total: f32) -> Vec<[f32; 256]> {
    const BITS: usize = u8::BITS as usize;
    let table = |terms: &[Term]| {
        let worth = |bit: usize| terms.get(bit).map_or(0.0, |term| term.weight / total);
        let of_byte = |byte: usize| (0..BITS).filter(|bit| byte >> bit & 1 == 1).map(worth).sum();
        std::array::from_fn(of_byte)
    };
    terms.chunks(BITS).map(table).collect()
}

/// By thread, how near its nearest items are on average.
fn by_thread(index: &Index, kept: &[usize], own: &[f32]) -> Vec<f32> {
    let mut best = vec![[0.0_f32; BEST_OF_THREAD]; index.threads.sizes().len()];
    for slot in kept {
        let Some(place) = index.threads.places().get(*slot) else { continue };
        let Some([first, second, third]) = best.get_mut(super::index(place.thread)) else { continue };
        let own = value_at(own, *slot);
        if own > *third {
            *third = own.min(*second);
            *second = own.min(*first).max(*second);
            *first = own.max(*first);
        }
    }
    let average = |(best, items): (&[f32; BEST_OF_THREAD], usize)| {
        best.iter().sum::<f32>() / items.clamp(1, BEST_OF_THREAD) as f32
    };
    best.iter().zip(index.threads.sizes()).map(average).collect()
}

/// A memory is made to say enough; short messages and pieces such as headings seldom do.
pub(super) fn substance(id: ItemRef, terms: usize) -> f32 {
    match id {
        ItemRef::Message(_) | ItemRef::Chunk(_) => ((terms as f32).ln_1p() / ENOUGH_TERMS.ln_1p()).min(1.0),
        ItemRef::Memory(_) => 1.0,
    }
}

/// How near a time is to a span: 1 within it.
fn from_then(at: i64, span: TimeSpan) -> f32 {
    let days = |seconds: i64| seconds as f32 / DAY_SECONDS;
    let (start, end) = (span.start.as_second(), span.end.as_second());
    let outside = if at < start {
        days(start - at) / DAYS_BEFORE
    } else if at >= end {
        days(at - end) / DAYS_AFTER
    } else {
        0.0
    };
    (1.0 - outside).max(0.0)
}

fn recency(now: i64, at: i64) -> f32 {
    let days = now.saturating_sub(at).max(0) as f32 / DAY_SECONDS;
    1.0 / (1.0 + days / RECENT_DAYS)
}

fn value_at(values: &[f32], slot: usize) -> f32 {
    values.get(slot).copied().unwrap_or(0.0)
}

fn value_of(values: &[f32], number: u32) -> f32 {
    value_at(values, index(number))
}

/// An item in the order of hits: the greater, the nearer; of equals, the newer.
#[derive(PartialEq)]
struct Ranked {
    score: f32,
    at: i64,
    id: ItemRef,
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.at.cmp(&other.at)).then(other.id.cmp(&self.id))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The items with the best scores above nothing, the best first.
fn best_hits(
    index: &Index,
    wanted: &Wanted<'_>,
    limit: usize,
    scores: impl Iterator<Item = (usize, f32)>,
) -> Vec<Hit> {
    let now = wanted.query.now.as_second();
    let (importance, recent) = match (wanted.query.method, wanted.query.among) {
        (SearchMethod::Words | SearchMethod::Vectors, _)
        | (SearchMethod::Hybrid, RecallFilter::Documents) => (0.0, 0.0),
        (SearchMethod::Hybrid, RecallFilter::Memories | RecallFilter::Messages | RecallFilter::Both) => {
            (IMPORTANCE, RECENCY)
        }
    };
    let mut best: BinaryHeap<Reverse<Ranked>> = BinaryHeap::with_capacity(limit + 1);
    let mut least = 0.0;
    for (slot, score) in scores {
        if score <= 0.0 || score + importance + recent < least {
            continue;
        }
        let Some((facts, Some(entry))) = index.facts.get(slot).zip(index.entries.get(slot)) else { continue };
        if !wanted.accepts(slot, facts) {
            continue;
        }
        let score = score + importance * facts.importance + recent * recency(now, facts.at);
        best.push(Reverse(Ranked { score, at: facts.at, id: entry.item.id }));
        if best.len() > limit {
            best.pop();
            least = best.peek().map_or(0.0, |Reverse(worst)| worst.score);
        }
    }
    let hit = |Reverse(ranked): Reverse<Ranked>| Hit { id: ranked.id, score: ranked.score.clamp(0.0, 1.0) };
    best.into_sorted_vec().into_iter().map(hit).collect()
}
