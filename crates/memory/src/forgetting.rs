//! Messages that ask to forget something, and the answers to the question whether that is to be.
//!
//! Recognised without a model, in English, German, Spanish and French, and only if the whole message asks it. Nothing is
//! forgotten by such a message alone: the user is shown what is meant, and says yes or no.

#[cfg(test)]
mod tests;
mod tongues;

use crate::remember::{leads_to_task, sentences, spoken};
use crate::tombstone::spans::{Span, spans};
use tongues::{Phrases, TONGUES, Tongue};

/// Longer messages say more than that something is to be forgotten.
const MAX_BYTES: usize = 300;

/// Words of a yes or a no; a longer answer says something else.
const MAX_ANSWER_WORDS: usize = 6;

/// Courtesies and forms of asking that may come before the request.
const MAX_LEAD: usize = 8;

/// Memories that a question shows.
pub const MAX_SHOWN: usize = 10;

/// How much of a memory a question repeats, in characters.
const MAX_REPEATED: usize = 300;

/// A request to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgetRequest<'m> {
    /// The language it is asked in, such as `en`.
    pub language: &'static str,
    pub about: About<'m>,
}

/// What is to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'m> {
    /// What was said last.
    Last,
    /// What is known of this, in the user's words.
    Topic(&'m str),
    /// All that is known of the user.
    Everything,
}

/// What came of a request to forget, or of the answer to the question that followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetReply<'a> {
    /// These are meant, by their texts.
    Ask(&'a [String]),
    Forgotten,
    Kept,
    /// Nothing of what was said last is known.
    NothingOfLast,
    /// Nothing about it is known.
    NothingAbout,
    /// There is more than can be shown and asked about.
    TooMuch,
}

/// What the message asks to forget; none if it is no such request, or asks for more.
pub fn asked(message: &str) -> Option<ForgetRequest<'_>> {
    let text = message.trim();
    if text.len() > MAX_BYTES || spoken(text).len() != text.len() {
        return None;
    }
    let all = sentences(text);
    let mut said = all.iter().filter(|sentence| !is_courtesy(sentence.text));
    let sentence = said.next().filter(|sentence| sentence.opens_plainly)?;
    if said.next().is_some() {
        return None;
    }
    TONGUES.iter().find_map(|tongue| {
        let words: Vec<String> = spans(sentence.text).into_iter().map(|span| span.word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if is_in(tongue.everything, &without(&[tongue.courtesies], &words)) {
            return Some(ForgetRequest { language: tongue.code, about: About::Everything });
        }
        let about = read(tongue, sentence.text, sentence.asks)?;
        Some(ForgetRequest { language: tongue.code, about })
    })
}

/// Whether the message says yes or no to a question, and nothing else; none if it says something else.
pub fn answer(message: &str) -> Option<bool> {
    let words = spans(message);
    let said: Vec<&str> = words.iter().map(|span| span.word.as_str()).collect();
    if said.len() > MAX_ANSWER_WORDS || message.contains('?') {
        return None;
    }
    let is_one_of = |list: fn(&Tongue) -> Phrases| {
        TONGUES.iter().any(|tongue| {
            let plain = without(&[tongue.courtesies], &said);
            is_in(list(tongue), &plain) || is_in(list(tongue), &said.join(" "))
        })
    };
    if is_one_of(|tongue| tongue.yes) {
        return Some(true);
    }
    is_one_of(|tongue| tongue.no).then_some(false)
}

/// The assistant's answer, in the language of the request.
pub fn reply(language: &str, reply: ForgetReply<'_>) -> String {
    let tongue = TONGUES.iter().find(|tongue| tongue.code == language).unwrap_or(&tongues::ENGLISH);
    match reply {
        ForgetReply::Ask([one]) => tongue.ask_one.replace("{}", &repeated(one)),
        ForgetReply::Ask(several) => {
            let lines: Vec<String> =
                several.iter().take(MAX_SHOWN).map(|text| format!("- {}", repeated(text))).collect();
            tongue.ask_several.replace("{}", &lines.join("\n"))
        }
        ForgetReply::Forgotten => tongue.forgotten.to_owned(),
        ForgetReply::Kept => tongue.kept.to_owned(),
        ForgetReply::NothingOfLast => tongue.nothing_of_last.to_owned(),
        ForgetReply::NothingAbout => tongue.nothing_about.to_owned(),
        ForgetReply::TooMuch => tongue.too_much.to_owned(),
    }
}

/// One line, and not too long.
fn repeated(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_REPEATED) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}

fn is_courtesy(sentence: &str) -> bool {
    let words = spans(sentence);
    let said: Vec<&str> = words.iter().map(|span| span.word.as_str()).collect();
    TONGUES.iter().any(|tongue| without(&[tongue.courtesies, tongue.leads], &said).is_empty())
}

fn is_in(phrases: Phrases, said: &str) -> bool {
    phrases.split('|').any(|phrase| phrase == said)
}

/// The words without these phrases, wherever they stand.
fn without(lists: &[Phrases], said: &[&str]) -> String {
    let mut left = Vec::new();
    let mut at = 0;
    while let Some(word) = said.get(at) {
        let rest = said.get(at..).unwrap_or_default();
        match lists.iter().copied().filter_map(|phrases| longest(phrases, rest)).max() {
            Some(count) => at += count,
            None => {
                left.push(*word);
                at += 1;
            }
        }
    }
    left.join(" ")
}

/// How many words the longest of the phrases has with which these words begin.
fn longest(phrases: Phrases, said: &[&str]) -> Option<usize> {
    let begins = |phrase: &str| {
        let count = phrase.split(' ').count();
        let same = said.len() >= count && phrase.split(' ').zip(said).all(|(wanted, word)| wanted == *word);
        same.then_some(count)
    };
    phrases.split('|').filter(|phrase| !phrase.is_empty()).filter_map(begins).max()
}

/// What a sentence of this language asks to forget.
fn read<'m>(tongue: &Tongue, sentence: &'m str, asks: bool) -> Option<About<'m>> {
    let all = spans(sentence);
    let mut words = all.as_slice();
    let mut is_put_as_question = false;
    for _ in 0..MAX_LEAD {
        if let Some(count) = longest(tongue.asking, &plain(words)) {
            (words, is_put_as_question) = (words.get(count..)?, true);
        } else if let Some(count) = longest(tongue.leads, &plain(words)) {
            words = words.get(count..)?;
        } else {
            break;
        }
    }
    // "Did I forget that?" asks for something else.
    if asks && !is_put_as_question {
        return None;
    }
    let words = after_verb(tongue, words, is_put_as_question)?;
    let about = about(tongue, sentence, without_ends(tongue, words))?;
    match about {
        About::Topic(topic) if leads_to_task(topic) => None,
        About::Topic(_) | About::Last | About::Everything => Some(about),
    }
}

fn plain(words: &[Span]) -> Vec<&str> {
    words.iter().map(|span| span.word.as_str()).collect()
}

/// What follows the verb, or stands before it where the language puts it last.
fn after_verb<'s>(tongue: &Tongue, words: &'s [Span], is_put_as_question: bool) -> Option<&'s [Span]> {
    if let Some(count) = longest(tongue.verbs, &plain(words)) {
        return words.get(count..);
    }
    let (last, rest) = words.split_last()?;
    (is_put_as_question && is_in(tongue.last_verbs, &last.word)).then_some(rest)
}

/// Without courtesies at either end.
fn without_ends<'s>(tongue: &Tongue, mut words: &'s [Span]) -> &'s [Span] {
    while let Some(count) = longest(tongue.courtesies, &plain(words)) {
        words = words.get(count..).unwrap_or_default();
    }
    let ends = |words: &[Span]| {
        let said = plain(words);
        let fitting = tongue.courtesies.split('|').filter_map(|phrase| {
            let count = phrase.split(' ').count();
            let tail = said.get(said.len().checked_sub(count)?..)?;
            tail.iter().copied().eq(phrase.split(' ')).then_some(count)
        });
        fitting.max()
    };
    while let Some(count) = ends(words) {
        words = words.get(..words.len() - count).unwrap_or_default();
    }
    words
}

fn about<'m>(tongue: &Tongue, sentence: &'m str, words: &[Span]) -> Option<About<'m>> {
    let said = plain(words);
    if is_in(tongue.last, &said.join(" ")) {
        return Some(About::Last);
    }
    let topic = |from: usize, least: usize| {
        let rest = words.get(from..)?;
        let ends = rest.iter().rev().take_while(|span| is_in(tongue.tails, &span.word)).count();
        let rest = rest.get(..rest.len() - ends).filter(|rest| rest.len() >= least)?;
        let (first, last) = (rest.first()?, rest.last()?);
        sentence.get(first.start..last.end).map(About::Topic)
    };
    if let Some(count) = longest(tongue.about, &said) {
        return topic(count, 1);
    }
    if let Some(count) = longest(tongue.clauses, &said) {
        return topic(count, 2);
    }
    let first = said.first()?;
    if is_in(tongue.own, first) { topic(0, 2) } else { None }
}
