//! How a sentence begins that asks to remember something.

use super::rest;
use crate::phrases::{PhraseList, lists, starts_with, word_count};
use crate::tombstone::spans::{WordSpan, spans};

lists! {
    static WORDS: RequestWords = "request.toml"; {
        greetings: PhraseList,
        courtesies: PhraseList,
        polite: PhraseList,
        asking: PhraseList,
        wishing: PhraseList,
        strong: PhraseList,
        weak: PhraseList,
        asides: PhraseList,
        after_note: PhraseList,
        /// "Remember that time": `that` points at something instead of beginning a statement.
        pointed_at: PhraseList,
        question_words: PhraseList,
        subjects: PhraseList,
        determiners: PhraseList,
        verbs: PhraseList,
    }
}

/// A request, and where in the sentence what is to be kept begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RememberRequest {
    pub(super) at: usize,
    pub(super) marker: Marker,
    pub(super) weight: Weight,
    /// "Can you remember that …": its question mark asks for nothing.
    pub(super) as_question: bool,
    /// With please, or asked for in a whole phrase.
    pub(super) polite: bool,
}

/// The words that lead from the request to the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    That,
    Colon,
    /// "Remember to …": the request itself is kept, as a reminder.
    To,
    /// Nothing: "Remember I'm allergic to nuts".
    Clause,
}

/// How surely such words mean that something is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Strong,
    /// Also said to introduce a task: "note that", "keep in mind that".
    Weak,
    /// Also said to make a point: "for the record".
    Aside,
}

impl RememberRequest {
    /// Whether the user expects no more of an answer than a confirmation.
    pub(super) fn may_be_whole(&self, words: &str) -> bool {
        let about_us = match self.weight {
            Weight::Strong => true,
            // "Note that …" is said like an order; "note …" alone is how many a remark begins.
            Weight::Weak => {
                matches!(self.marker, Marker::That | Marker::Colon) || rest::is_first_person(words)
            }
            Weight::Aside => false,
        };
        let task = rest::expects_more(words) || (self.marker == Marker::To && rest::reminds_of_task(words));
        about_us && !task && !rest::is_second_person(words) && !words.contains('?')
    }
}

/// How many courtesies and forms of asking may come before the request.
const MAX_LEAD: usize = 8;

struct SentenceReader<'s> {
    text: &'s str,
    words: Vec<WordSpan>,
    at: usize,
}

impl SentenceReader<'_> {
    fn word(&self, ahead: usize) -> Option<&str> {
        self.words.get(self.at + ahead).map(|span| span.word.as_str())
    }

    fn is_next(&self, phrase: &str) -> bool {
        starts_with(self.words.get(self.at..).unwrap_or_default(), phrase)
    }

    /// Takes the longest of the phrases that comes next.
    fn take<'p>(&mut self, phrases: &'p PhraseList) -> Option<&'p str> {
        let longest = phrases.longest_start(self.words.get(self.at..)?)?;
        self.at += word_count(longest);
        Some(longest)
    }

    /// The text between the last word taken and the next.
    fn gap(&self) -> &str {
        let from = self.at.checked_sub(1).and_then(|last| self.words.get(last)).map_or(0, |span| span.end);
        self.text.get(from..self.place()).unwrap_or_default()
    }

    fn place(&self) -> usize {
        self.words.get(self.at).map_or(self.text.len(), |span| span.start)
    }

    fn is_one_of(&self, ahead: usize, list: &PhraseList) -> bool {
        self.word(ahead).is_some_and(|word| list.contains(word))
    }
}

pub(super) fn read(sentence: &str) -> Option<RememberRequest> {
    let mut reader = SentenceReader { text: sentence, words: spans(sentence), at: 0 };
    let (as_question, polite) = lead(&mut reader);
    let begins = reader.place();
    let weights =
        [(&WORDS.strong, Weight::Strong), (&WORDS.weak, Weight::Weak), (&WORDS.asides, Weight::Aside)];
    let (phrase, weight) = weights
        .into_iter()
        .find_map(|(phrases, weight)| reader.take(phrases).map(|phrase| (phrase, weight)))?;
    let (at, marker) = content(&mut reader, phrase, begins)?;
    let remaining = reader.words.get(reader.at..).unwrap_or_default();
    let told = marker != Marker::Colon && is_recollection(remaining);
    // "Note: …" heads many texts that are not meant to be remembered.
    let heading = phrase == "note" && marker == Marker::Colon;
    let foreign = heading && !rest::is_first_person(sentence.get(at..).unwrap_or_default());
    (!told && !foreign).then_some(RememberRequest {
        at,
        marker,
        weight,
        as_question,
        polite: polite || as_question,
    })
}

/// Skips greetings and courtesies, and says whether the request is put as a question, and whether with a please.
fn lead(reader: &mut SentenceReader<'_>) -> (bool, bool) {
    let (mut as_question, mut polite) = (false, false);
    for _ in 0..MAX_LEAD {
        if reader.take(&WORDS.greetings).is_some() {
            let named = reader.words.get(reader.at + 1).zip(reader.words.get(reader.at));
            let gap = named.and_then(|(next, name)| reader.text.get(name.end..next.start));
            if gap.is_some_and(|gap| gap.contains([',', '!', '-', '–', '—'])) {
                reader.at += 1;
            }
        } else if reader.take(&WORDS.asking).is_some() {
            as_question = true;
        } else if reader.take(&WORDS.wishing).is_some() {
            polite = true;
        } else if let Some(courtesy) = reader.take(&WORDS.courtesies) {
            polite |= WORDS.polite.contains(courtesy);
        } else {
            break;
        }
    }
    (as_question, polite)
}

/// Returns the place at which the statement begins after the phrase of the request.
fn content(reader: &mut SentenceReader<'_>, phrase: &str, begins: usize) -> Option<(usize, Marker)> {
    if let Some(at) = after_colon(reader) {
        return Some((at, Marker::Colon));
    }
    let last = phrase.rsplit(' ').next().unwrap_or_default();
    let is_note = last == "note";
    if is_note && reader.take(&WORDS.after_note).is_some() {
        if let Some(at) = after_colon(reader) {
            return Some((at, Marker::Colon));
        }
        let detailed = reader.text.get(reader.place()..).is_some_and(|rest| rest.contains(':'));
        if detailed && !matches!(reader.word(0), Some("that" | "this" | "it")) {
            return Some((reader.place(), Marker::Clause));
        }
    }
    if reader.is_next("that") {
        let pointed = reader.is_one_of(1, &WORDS.pointed_at) || reader.word(1).is_none();
        reader.at += 1;
        let at = after_colon(reader).unwrap_or(reader.place());
        return (!pointed).then_some((at, Marker::That));
    }
    if matches!(last, "fact" | "this" | "following" | "memory") {
        return None;
    }
    let reminds = (is_note && phrase != "note") || matches!(last, "remember" | "forget");
    if reminds && reader.is_next("to") {
        return reader.word(1).is_some().then_some((begins, Marker::To));
    }
    (!reader.is_one_of(0, &WORDS.question_words) && is_clause(reader))
        .then(|| (reader.place(), Marker::Clause))
}

/// The place after a colon or dash that comes next, if there is anything after it.
fn after_colon(reader: &SentenceReader<'_>) -> Option<usize> {
    let gap = reader.gap();
    let sign = gap.char_indices().find(|(at, c)| {
        let dash = matches!(c, '-' | '–' | '—') && gap.get(..*at).is_some_and(|before| before.ends_with(' '));
        *c == ':' || dash
    });
    let (at, c) = sign?;
    let from = reader.place() - gap.len() + at + c.len_utf8();
    let rest = reader.text.get(from..)?;
    reader.word(0)?;
    Some(from + (rest.len() - rest.trim_start().len()))
}

/// True if what follows is a statement by itself, such as "my name is Ann" and unlike "my name".
fn is_clause(reader: &SentenceReader<'_>) -> bool {
    if reader.word(1).is_none() {
        return false;
    }
    if reader.is_one_of(0, &WORDS.subjects) {
        return true;
    }
    let named = reader.text.get(reader.place()..).is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let mut later = reader.words.iter().skip(reader.at + 1);
    (named || reader.is_one_of(0, &WORDS.determiners)) && later.any(|span| WORDS.verbs.contains(&span.word))
}

/// "I told you", "you said", "we talked": this asks to recall, not to keep.
fn is_recollection(words: &[WordSpan]) -> bool {
    let mut said = words.iter().map(|span| span.word.as_str());
    let (first, second, third) = (said.next(), said.next(), said.next());
    match (first, second) {
        (Some("i"), Some("said" | "mentioned")) | (Some("we"), Some("talked" | "discussed" | "spoke")) => {
            true
        }
        (Some("i"), Some("told" | "asked" | "showed" | "gave" | "sent" | "wanted")) => third == Some("you"),
        (Some("you"), Some("said" | "told" | "mentioned" | "promised" | "wrote" | "gave")) => true,
        _ => false,
    }
}
