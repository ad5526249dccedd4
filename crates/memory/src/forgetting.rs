//! Messages that ask to forget something, and the answers to the question whether that is to be.
//!
//! Recognised without a model, in English, German, Spanish and French, and only if the whole message asks it. Nothing is
//! forgotten by such a message alone: the server shows the user which memories are meant, and the user says yes or no.

mod languages;
#[cfg(test)]
mod tests;

use crate::phrases::{PhraseList, word_count};
use crate::remember::{leads_to_task, sentences, shortened, unquoted_part};
use crate::tombstone::spans::{WordSpan, spans};
use languages::{FORGET_LANGUAGES, ForgetLanguage};

/// Longer messages say more than that something is to be forgotten.
const MAX_BYTES: usize = 300;

/// Words of an answer that is a yes or a no. A longer answer says something else.
const MAX_ANSWER_WORDS: usize = 6;

/// Courtesies and forms of asking that may come before the request.
const MAX_LEAD: usize = 8;

/// Memories that a question shows.
pub const MAX_SHOWN: usize = 10;

/// A request to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgetRequest<'m> {
    /// The language it is asked in, such as `en`.
    pub language: &'static str,
    pub about: About<'m>,
}

/// The thing to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'m> {
    /// The message before the request.
    Last,
    /// All memories about this topic, in the user's words.
    Topic(&'m str),
    /// All that is known of the user.
    Everything,
}

/// The result of a request to forget, or of the answer to the question that followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetReply<'a> {
    /// The memories that are meant, by their texts.
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

/// The request in the message; none if it is no request to forget, or asks for more.
pub fn read_request(message: &str) -> Option<ForgetRequest<'_>> {
    let text = message.trim();
    if text.len() > MAX_BYTES || unquoted_part(text).len() != text.len() {
        return None;
    }
    let all = sentences(text);
    let mut said = all.iter().filter(|sentence| !is_courtesy(sentence.text));
    let sentence = said.next().filter(|sentence| sentence.opens_plainly)?;
    if said.next().is_some() {
        return None;
    }
    let words = spans(sentence.text);
    FORGET_LANGUAGES.iter().find_map(|tongue| {
        let about = if tongue.everything.contains(&without_phrases(&[&tongue.courtesies], &words)) {
            About::Everything
        } else {
            read(tongue, sentence.text, sentence.asks)?
        };
        Some(ForgetRequest { language: &tongue.code, about })
    })
}

/// Whether the message says yes or no to a question, and nothing else; none if it says something else.
pub fn answer(message: &str) -> Option<bool> {
    let words = spans(message);
    if words.len() > MAX_ANSWER_WORDS || message.contains('?') {
        return None;
    }
    let is_one_of = |list: fn(&ForgetLanguage) -> &PhraseList| {
        FORGET_LANGUAGES.iter().any(|tongue| {
            let plain = without_phrases(&[&tongue.courtesies], &words);
            list(tongue).contains(&plain) || list(tongue).contains(&joined_words(&words))
        })
    };
    if is_one_of(|tongue| &tongue.yes) {
        return Some(true);
    }
    is_one_of(|tongue| &tongue.no).then_some(false)
}

/// The assistant's answer, in the language of the request.
pub fn reply(language: &str, reply: ForgetReply<'_>) -> String {
    let [english, ..] = &*FORGET_LANGUAGES;
    let tongue = FORGET_LANGUAGES.iter().find(|tongue| tongue.code == language).unwrap_or(english);
    match reply {
        ForgetReply::Ask([one]) => tongue.ask_one.replace("{}", &in_one_line(one)),
        ForgetReply::Ask(several) => {
            let lines: Vec<String> =
                several.iter().take(MAX_SHOWN).map(|text| format!("- {}", in_one_line(text))).collect();
            tongue.ask_several.replace("{}", &lines.join("\n"))
        }
        ForgetReply::Forgotten => tongue.forgotten.clone(),
        ForgetReply::Kept => tongue.kept.clone(),
        ForgetReply::NothingOfLast => tongue.nothing_of_last.clone(),
        ForgetReply::NothingAbout => tongue.nothing_about.clone(),
        ForgetReply::TooMuch => tongue.too_much.clone(),
    }
}

fn in_one_line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_courtesy(sentence: &str) -> bool {
    let words = spans(sentence);
    FORGET_LANGUAGES
        .iter()
        .any(|tongue| without_phrases(&[&tongue.courtesies, &tongue.leads], &words).is_empty())
}

fn joined_words(words: &[WordSpan]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    words.join(" ")
}

/// The words without these phrases, wherever they stand.
fn without_phrases(lists: &[&PhraseList], mut words: &[WordSpan]) -> String {
    let mut left: Vec<&str> = Vec::new();
    while let [word, after @ ..] = words {
        match lists.iter().filter_map(|phrases| longest_phrase(phrases, words)).max() {
            Some(count) => words = words.get(count..).unwrap_or_default(),
            None => {
                left.push(&word.word);
                words = after;
            }
        }
    }
    left.join(" ")
}

/// How many words the longest of the phrases has with which these words begin.
fn longest_phrase(phrases: &PhraseList, words: &[WordSpan]) -> Option<usize> {
    phrases.longest_start(words).map(word_count)
}

/// The thing that a sentence of this language asks to forget.
fn read<'m>(tongue: &ForgetLanguage, sentence: &'m str, asks: bool) -> Option<About<'m>> {
    let all = spans(sentence);
    let mut words = all.as_slice();
    let mut is_put_as_question = false;
    for _ in 0..MAX_LEAD {
        if let Some(count) = longest_phrase(&tongue.asking, words) {
            (words, is_put_as_question) = (words.get(count..)?, true);
        } else if let Some(count) = longest_phrase(&tongue.leads, words) {
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
    let about = read_topic(tongue, sentence, without_ends(tongue, words))?;
    match about {
        About::Topic(topic) if leads_to_task(topic) => None,
        About::Topic(_) | About::Last | About::Everything => Some(about),
    }
}

/// The words after the verb, or before it where the language puts it last.
fn after_verb<'s>(
    tongue: &ForgetLanguage,
    words: &'s [WordSpan],
    is_put_as_question: bool,
) -> Option<&'s [WordSpan]> {
    if let Some(count) = longest_phrase(&tongue.verbs, words) {
        return words.get(count..);
    }
    let (last, rest) = words.split_last()?;
    (is_put_as_question && tongue.last_verbs.contains(&last.word)).then_some(rest)
}

/// Without courtesies at either end.
fn without_ends<'s>(tongue: &ForgetLanguage, mut words: &'s [WordSpan]) -> &'s [WordSpan] {
    while let Some(count) = longest_phrase(&tongue.courtesies, words) {
        words = words.get(count..).unwrap_or_default();
    }
    while let Some(count) = tongue.courtesies.longest_end(words).map(word_count) {
        words = words.get(..words.len() - count).unwrap_or_default();
    }
    words
}

fn read_topic<'m>(tongue: &ForgetLanguage, sentence: &'m str, words: &[WordSpan]) -> Option<About<'m>> {
    if tongue.last.contains(&joined_words(words)) {
        return Some(About::Last);
    }
    let topic = |from: usize, least: usize| {
        let rest = words.get(from..)?;
        let ends = rest.iter().rev().take_while(|span| tongue.tails.contains(&span.word)).count();
        let rest = rest.get(..rest.len() - ends).filter(|rest| rest.len() >= least)?;
        let (first, last) = (rest.first()?, rest.last()?);
        sentence.get(first.start..last.end).map(About::Topic)
    };
    if let Some(count) = longest_phrase(&tongue.about, words) {
        return topic(count, 1);
    }
    if let Some(count) = longest_phrase(&tongue.clauses, words) {
        return topic(count, 2);
    }
    if tongue.own.contains(&words.first()?.word) { topic(0, 2) } else { None }
}
