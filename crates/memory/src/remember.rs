//! Messages that ask to remember something.
//!
//! Recognised without a model, in English, and only at the beginning of a sentence. Being wrong costs more than
//! missing something: a message that is taken whole gets a confirmation for an answer, so in doubt it is not whole,
//! and in more doubt nothing was asked.

mod request;
mod rest;
mod sentences;
#[cfg(test)]
mod tests;

use store::MAX_MEMORY_BYTES;

use crate::secrets::FoundSecret;
use request::{Marker, RememberRequest, Weight};
use sentences::Sentence;

pub(crate) use rest::leads_to_task;
pub(crate) use sentences::{sentences, unquoted_part};

/// A request to keep something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RememberCommand<'m> {
    Keep(Statement<'m>),
    /// The command with nothing after it.
    Nothing,
    /// The command with more after it than a memory can hold.
    TooLong,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'m> {
    /// The text to keep.
    pub content: String,
    /// The words of the message it rests on.
    pub words: &'m str,
    /// Nothing else is in the message, so no model need be asked.
    pub whole: bool,
}

const COMMAND: &str = "/remember";

/// Longer messages are pasted text.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// In longer messages a request to remember introduces something else.
const MAX_WHOLE_BYTES: usize = 1000;

pub fn read_command(message: &str) -> Option<RememberCommand<'_>> {
    let text = message.trim();
    if let Some(rest) = after_command(text, COMMAND) {
        return Some(command(rest));
    }
    if text.len() > MAX_MESSAGE_BYTES {
        return None;
    }
    let spoken = unquoted_part(text);
    let all = sentences(spoken);
    let mut earlier = false;
    for (at, sentence) in all.iter().enumerate() {
        let later = all.get(at + 1..).unwrap_or_default();
        let found = sentence.opens_plainly.then(|| request::read(sentence.text)).flatten();
        match found.filter(|request| !earlier || may_come_later(request, sentence.text)) {
            Some(request) => {
                let mut statement = statement(spoken, sentence, &request, later)?;
                statement.whole &= !earlier && spoken.len() == text.len();
                return Some(RememberCommand::Keep(statement));
            }
            None => earlier |= !rest::is_courtesy(sentence.text),
        }
    }
    None
}

/// The text after a command such as `/pin`, if the message begins with it.
pub(crate) fn after_command<'m>(message: &'m str, command: &str) -> Option<&'m str> {
    let (head, rest) = message.trim().split_at_checked(command.len())?;
    let is_command = head.eq_ignore_ascii_case(command) && !rest.starts_with(|c: char| !is_after_command(c));
    is_command.then(|| rest.trim_start_matches(is_after_command).trim_end())
}

fn is_after_command(c: char) -> bool {
    c.is_whitespace() || c == ':'
}

/// The command takes all that follows, but for a question at its end.
fn command(mut words: &str) -> RememberCommand<'_> {
    let that = words.split_at_checked(4).filter(|(head, _)| head.eq_ignore_ascii_case("that"));
    if let Some((_, said)) = that.filter(|(_, said)| !said.starts_with(|c: char| !c.is_whitespace())) {
        words = said.trim_start();
    }
    let all = sentences(words);
    let said = all.iter().rposition(|sentence| !sentence.asks).and_then(|last| all.get(last));
    let whole = !all.last().is_some_and(|last| last.asks);
    if let Some(last) = said.filter(|_| !whole) {
        words = words.get(..last.start + last.text.len()).unwrap_or(words).trim_end();
    }
    if !words.chars().any(char::is_alphanumeric) {
        return RememberCommand::Nothing;
    }
    let content = clean_spaces(words);
    if content.len() > MAX_MEMORY_BYTES {
        return RememberCommand::TooLong;
    }
    RememberCommand::Keep(Statement { content, words, whole })
}

/// After other sentences only what is clearly said to be kept counts: prose is full of "note that".
fn may_come_later(request: &RememberRequest, sentence: &str) -> bool {
    let said = sentence.get(request.at..).unwrap_or_default();
    let urged = request.weight == Weight::Strong || request.polite;
    urged && request.marker != Marker::To && rest::is_first_person(said)
}

fn statement<'m>(
    spoken: &'m str,
    sentence: &Sentence<'_>,
    request: &RememberRequest,
    later: &[Sentence<'_>],
) -> Option<Statement<'m>> {
    let first = rest::clause(sentence.text.get(request.at..)?, sentence.asks && !request.as_question);
    if first.asks {
        return None;
    }
    let start = sentence.start + request.at;
    let mut end = start + first.length;
    let mut whole = !first.cut;
    let long = spoken.len() > MAX_WHOLE_BYTES;
    if whole && !long {
        (end, whole) = rest::follow(spoken, start..end, later);
    }
    let words = rest::trimmed(spoken.get(start..end)?);
    let whole = whole && !long && request.may_be_whole(words);
    let content = match request.marker {
        Marker::To => capitalised(&clean_spaces(words)),
        Marker::That | Marker::Colon | Marker::Clause => clean_spaces(words),
    };
    let enough = content.split_whitespace().nth(1).is_some();
    (enough && content.len() <= MAX_MEMORY_BYTES).then_some(Statement { content, words, whole })
}

/// One space between words, one line break between lines.
fn clean_spaces(words: &str) -> String {
    let lines = words.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

/// The result of a request to remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RememberOutcome<'a> {
    Saved(&'a str),
    /// The statement was known in these words already.
    Known(&'a str),
    Refused(FoundSecret),
    TooLong,
    HowTo,
}

/// How much of a memory a confirmation repeats, in characters.
const MAX_REPEATED: usize = 300;

/// The assistant's answer to a request that needs no model.
pub fn confirmation(outcome: RememberOutcome<'_>) -> String {
    match outcome {
        RememberOutcome::Saved(text) => format!("I'll remember that: {}", shortened(text)),
        RememberOutcome::Known(text) => format!("I already know that: {}", shortened(text)),
        RememberOutcome::Refused(secret) => format!(
            "I won't save that, because it looks like {}. Secrets are safer in a password manager.",
            secret.kind
        ),
        RememberOutcome::TooLong => {
            "That is too long for me to remember. Please say it in fewer words.".to_owned()
        }
        RememberOutcome::HowTo => format!(
            "Tell me what to remember after the command, for example: {COMMAND} I am allergic to nuts."
        ),
    }
}

/// The beginning of a text, with a sign if it goes on.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_REPEATED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}
