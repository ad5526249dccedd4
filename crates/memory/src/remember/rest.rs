//! The end of a statement, and the rest of its message.

use std::ops::Range;

use super::sentences::Sentence;
use crate::phrases::{PhraseList, lists, word_count};
use crate::tombstone::spans::{WordSpan, spans};

lists! {
    static WORDS: RestWords = "rest.toml"; {
        /// Thanks and the like at the end.
        courtesies: PhraseList,
        /// Courtesies only after a pause.
        after_a_pause: PhraseList,
        /// Sentences that say nothing by themselves.
        alone: PhraseList,
        joining: PhraseList,
        questions: PhraseList,
        auxiliaries: PhraseList,
        asked_of: PhraseList,
        /// Things that people tell an assistant to do.
        tasks: PhraseList,
        /// Tasks that are never in a list of a person's habits.
        clear_tasks: PhraseList,
        objects: PhraseList,
        /// Statements with these words wait for help.
        pleas: PhraseList,
        /// "I need", "I wonder": a wish follows.
        wishes: PhraseList,
        first_person: PhraseList,
        second_person: PhraseList,
        /// First words of a sentence that is surely another statement.
        starts: PhraseList,
    }
}

/// The first sentence of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clause {
    /// In bytes, from where it begins.
    pub(super) length: usize,
    /// Something other than the statement came after it.
    pub(super) cut: bool,
    /// The sentence is itself a question.
    pub(super) asks: bool,
}

pub(super) fn clause(text: &str, asks: bool) -> Clause {
    let (stated, courteous) = without_courtesy(text);
    let words = spans(stated);
    match (0..words.len()).skip(1).find(|at| turns(stated, &words, *at, text.trim_end().ends_with('?'))) {
        Some(at) => {
            let length = at.checked_sub(1).and_then(|last| words.get(last)).map_or(0, |last| last.end);
            Clause { length, cut: true, asks: false }
        }
        None => Clause { length: stated.len(), cut: false, asks: asks && !courteous },
    }
}

/// How far the statement goes beyond its first sentence, and whether the message holds nothing else.
pub(super) fn follow(spoken: &str, stated: Range<usize>, later: &[Sentence<'_>]) -> (usize, bool) {
    let list = spoken.get(stated.clone()).is_some_and(is_list_item);
    let mut end = stated.end;
    let mut thanked = false;
    for sentence in later {
        if is_courtesy(sentence.text) {
            thanked = true;
            continue;
        }
        let known = spoken.get(stated.start..end).unwrap_or_default();
        let clause = clause(sentence.text, sentence.asks);
        let said = sentence.text.get(..clause.length).unwrap_or_default();
        let stays = is_statement(said, known) || (list && is_list_item(said));
        if thanked || !stays || clause.asks {
            return (end, false);
        }
        end = sentence.start + clause.length;
        if clause.cut {
            return (end, false);
        }
    }
    (end, true)
}

fn is_list_item(text: &str) -> bool {
    let text = text.trim_start();
    let numbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = numbered.len() < text.len() && numbered.starts_with(['.', ')']);
    number || text.starts_with("- ") || text.starts_with("* ") || text.starts_with("• ")
}

/// Without white space, closing signs and quotes around it.
pub(super) fn trimmed(words: &str) -> &str {
    let words = words.trim().trim_end_matches(is_closing).trim_end();
    let pairs = [('"', '"'), ('\u{201c}', '\u{201d}'), ('\'', '\''), ('«', '»')];
    let inner = pairs.iter().find_map(|(open, close)| words.strip_prefix(*open)?.strip_suffix(*close));
    inner.map_or(words, |inner| inner.trim().trim_end_matches(is_closing))
}

fn is_closing(c: char) -> bool {
    c.is_whitespace() || matches!(c, '.' | '!' | '?' | ',' | ';' | ':' | '…' | '-' | '–' | '—')
}

pub(super) fn is_courtesy(sentence: &str) -> bool {
    let said: Vec<String> = spans(sentence).into_iter().map(|span| span.word).collect();
    let said = said.join(" ");
    let lists = [&WORDS.courtesies, &WORDS.after_a_pause, &WORDS.alone];
    said.is_empty() || lists.iter().any(|list| list.contains(&said))
}

/// The text without thanks at its end, and whether there were any.
fn without_courtesy(text: &str) -> (&str, bool) {
    let mut stated = text.trim_end_matches(is_closing);
    let mut courteous = false;
    while let Some(shorter) = without_one(stated) {
        stated = shorter.trim_end_matches(is_closing);
        courteous = true;
    }
    (stated, courteous)
}

fn without_one(text: &str) -> Option<&str> {
    let words = spans(text);
    let begins = |list: &PhraseList| {
        let from = words.len().checked_sub(word_count(list.longest_end(&words)?))?;
        let before = from.checked_sub(1).and_then(|last| words.get(last))?;
        let start = words.get(from)?.start;
        Some((
            before.end,
            text.get(before.end..start)?.contains([',', ';', '.', '!', '-', '–', '—', '(', '\n']),
        ))
    };
    let paused = || begins(&WORDS.after_a_pause).filter(|(_, pause)| *pause);
    let (end, _) = begins(&WORDS.courtesies).or_else(paused)?;
    text.get(..end)
}

/// True if at this word the sentence goes over to something else than a statement.
fn turns(text: &str, words: &[WordSpan], at: usize, asks: bool) -> bool {
    let word = |at: usize| words.get(at).map_or("", |span| span.word.as_str());
    let before = at.checked_sub(1).and_then(|last| words.get(last)).map_or(0, |span| span.end);
    let gap = words.get(at).and_then(|span| text.get(before..span.start)).unwrap_or_default();
    let pause = gap.contains([',', ';', '–', '—', '(', ':', '\n']) || gap.contains(" - ");
    let joined = WORDS.joining.contains(word(at));
    if !pause && !joined {
        return false;
    }
    let next = (at..words.len()).find(|next| !WORDS.joining.contains(word(*next))).unwrap_or(words.len());
    let (first, second) = (word(next), word(next + 1));
    let asked = WORDS.questions.contains(first)
        && (asks || WORDS.auxiliaries.contains(second) || first.contains('\''));
    let put =
        WORDS.auxiliaries.contains(first) && (second == "you" || (asks && WORDS.asked_of.contains(second)));
    let told = WORDS.tasks.contains(first) && matches!(second, "me" | "us" | "please");
    let clear = WORDS.clear_tasks.contains(first) && WORDS.objects.contains(second);
    let led = joined && word(at) != "and" && WORDS.tasks.contains(first) && WORDS.objects.contains(second);
    let begged = matches!(first, "please" | "pls" | "let's" | "lets") && !second.is_empty();
    let broken = asks && (gap.contains([';', '–', '—']) || gap.contains(" - "));
    asked || put || told || clear || led || begged || broken
}

/// True if the words may be something to do now, or the beginning of a question, and not only something to keep:
/// "remember to write me a poem", "I already tried that", "I like to cook and write".
pub(super) fn expects_more(words: &str) -> bool {
    let said = spans(words);
    said.first().is_some_and(is_task) || leads_to_task(words) || is_plea(&said)
}

fn is_task(span: &WordSpan) -> bool {
    WORDS.tasks.contains(&span.word)
}

/// True if the words go on with something to do now: "I am vegan and suggest a dinner".
pub(crate) fn leads_to_task(words: &str) -> bool {
    let said = spans(words);
    let after = |(one, two): (&WordSpan, &WordSpan)| {
        let pause = words.get(one.end..two.start).is_some_and(|gap| gap.contains([',', ';', ':', '–', '—']));
        (pause || WORDS.joining.contains(&one.word)) && is_task(two)
    };
    said.iter().zip(said.iter().skip(1)).any(after)
}

/// "Remember to write …": a task of the assistant's.
pub(super) fn reminds_of_task(words: &str) -> bool {
    let said = spans(words);
    let verb = said.iter().skip_while(|span| span.word != "to").nth(1);
    verb.is_some_and(is_task)
}

fn is_plea(words: &[WordSpan]) -> bool {
    let word = |at: usize| words.get(at).map_or("", |span| span.word.as_str());
    let wish = word(0) == "i'd" || (word(0) == "i" && WORDS.wishes.contains(word(1)));
    wish || words.iter().any(|span| WORDS.pleas.contains(&span.word))
}

pub(super) fn is_first_person(text: &str) -> bool {
    spans(text).iter().any(|span| WORDS.first_person.contains(&span.word))
}

pub(super) fn is_second_person(text: &str) -> bool {
    spans(text).iter().any(|span| WORDS.second_person.contains(&span.word))
}

/// True if a sentence after the first is surely another statement.
fn is_statement(said: &str, known: &str) -> bool {
    let words = spans(said);
    let first =
        words.iter().position(|span| !matches!(span.word.as_str(), "also" | "and" | "but" | "plus" | "oh"));
    let Some(first) = first else { return false };
    let word = |at: usize| words.get(at).map_or("", |span| span.word.as_str());
    // A name that the statement has used before.
    let named = said.starts_with(char::is_uppercase)
        && spans(known).iter().any(|span| span.word == word(first) && is_capital(known, span));
    let starts = WORDS.starts.contains(word(first)) || named;
    let plea = is_plea(words.get(first..).unwrap_or_default());
    starts && !plea && words.len() > 2 && !is_second_person(said)
}

fn is_capital(text: &str, span: &WordSpan) -> bool {
    text.get(span.start..).is_some_and(|rest| rest.starts_with(char::is_uppercase))
}
