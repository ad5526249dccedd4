//! Where a statement ends, and what else a message holds.

use std::ops::Range;

use super::sentences::Sentence;
use crate::tombstone::spans::{Span, spans};

/// The first sentence of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clause {
    /// In bytes, from where it begins.
    pub(super) length: usize,
    /// Something other than the statement came after it.
    pub(super) cut: bool,
    /// It is itself a question.
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

/// Thanks and the like at the end; with `ok` and `right` only after a pause.
const COURTESIES: &[&str] = &[
    "thanks",
    "thank you",
    "thank you very much",
    "thank you so much",
    "thanks a lot",
    "thanks so much",
    "many thanks",
    "thanks in advance",
    "thx",
    "ty",
    "cheers",
    "please",
    "pls",
    "plz",
];

const AFTER_A_PAUSE: &[&str] = &[
    "ok",
    "okay",
    "alright",
    "will you",
    "would you",
    "could you",
    "can you",
    "got it",
    "yeah",
    "yes",
    "deal",
];

/// Sentences that say nothing by themselves.
const ALONE: &[&str] = &[
    "hi",
    "hey",
    "hello",
    "hi there",
    "hey there",
    "hello there",
    "good morning",
    "good evening",
    "good afternoon",
    "that's all",
    "that is all",
    "great",
    "perfect",
    "cool",
    "just so you know",
    "bye",
    "sorry",
    "one more thing",
    "quick note",
    "one thing",
];

pub(super) fn is_courtesy(sentence: &str) -> bool {
    let said: Vec<String> = spans(sentence).into_iter().map(|span| span.word).collect();
    let said = said.join(" ");
    said.is_empty() || [COURTESIES, AFTER_A_PAUSE, ALONE].iter().any(|list| list.contains(&said.as_str()))
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
    let ends = |phrase: &&&str| {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let from = words.len().checked_sub(wanted.len());
        let tail = from.and_then(|from| words.get(from..)).unwrap_or_default();
        !tail.is_empty() && tail.iter().map(|span| span.word.as_str()).eq(wanted)
    };
    let begins = |phrase: &&str| {
        let from = words.len().checked_sub(phrase.split(' ').count())?;
        let before = from.checked_sub(1).and_then(|last| words.get(last))?;
        let start = words.get(from)?.start;
        Some((
            before.end,
            text.get(before.end..start)?.contains([',', ';', '.', '!', '-', '–', '—', '(', '\n']),
        ))
    };
    let longest =
        |list: &[&'static str]| list.iter().filter(|phrase| ends(phrase)).max_by_key(|p| p.len()).copied();
    let thanks = longest(COURTESIES).and_then(|phrase| begins(&phrase)).map(|(end, _)| end);
    let paused = || longest(AFTER_A_PAUSE).and_then(|phrase| begins(&phrase)).filter(|(_, pause)| *pause);
    text.get(..thanks.or_else(|| paused().map(|(end, _)| end))?)
}

const JOINING: &[&str] = &["so", "and", "but", "then", "now", "also", "or", "anyway"];

const QUESTIONS: &[&str] =
    &["what", "what's", "how", "how's", "which", "where", "where's", "who", "who's", "why", "when"];

const AUXILIARIES: &[&str] = &[
    "can", "could", "would", "will", "should", "do", "does", "did", "is", "are", "may", "shall", "am", "was",
];

const ASKED_OF: &[&str] =
    &["you", "i", "we", "there", "it", "he", "she", "they", "that", "this", "my", "the"];

/// What people tell an assistant to do.
const TASKS: &[&str] = &[
    "add",
    "analyse",
    "analyze",
    "answer",
    "ask",
    "book",
    "calculate",
    "check",
    "compare",
    "compose",
    "compute",
    "continue",
    "convert",
    "count",
    "create",
    "describe",
    "design",
    "draft",
    "explain",
    "find",
    "fix",
    "generate",
    "give",
    "help",
    "include",
    "keep",
    "let",
    "list",
    "look",
    "make",
    "plan",
    "play",
    "propose",
    "read",
    "recommend",
    "remind",
    "repeat",
    "reply",
    "respond",
    "review",
    "rewrite",
    "schedule",
    "search",
    "send",
    "set",
    "show",
    "solve",
    "start",
    "suggest",
    "summarise",
    "summarize",
    "tell",
    "translate",
    "use",
    "write",
];

/// Of these no list of one's own habits consists.
const CLEAR_TASKS: &[&str] =
    &["suggest", "recommend", "tell", "explain", "summarise", "summarize", "translate", "give"];

const OBJECTS: &[&str] = &[
    "me",
    "us",
    "a",
    "an",
    "some",
    "the",
    "what",
    "how",
    "why",
    "when",
    "where",
    "who",
    "which",
    "if",
    "to",
    "this",
    "that",
    "it",
    "them",
    "my",
    "another",
    "all",
    "everything",
];

/// True if at this word the sentence goes over to something else than a statement.
fn turns(text: &str, words: &[Span], at: usize, asks: bool) -> bool {
    let word = |at: usize| words.get(at).map_or("", |span| span.word.as_str());
    let before = at.checked_sub(1).and_then(|last| words.get(last)).map_or(0, |span| span.end);
    let gap = words.get(at).and_then(|span| text.get(before..span.start)).unwrap_or_default();
    let pause = gap.contains([',', ';', '–', '—', '(', ':', '\n']) || gap.contains(" - ");
    let joined = JOINING.contains(&word(at));
    if !pause && !joined {
        return false;
    }
    let next = (at..words.len()).find(|next| !JOINING.contains(&word(*next))).unwrap_or(words.len());
    let (first, second) = (word(next), word(next + 1));
    let asked = QUESTIONS.contains(&first) && (asks || AUXILIARIES.contains(&second) || first.contains('\''));
    let put = AUXILIARIES.contains(&first) && (second == "you" || (asks && ASKED_OF.contains(&second)));
    let told = TASKS.contains(&first) && matches!(second, "me" | "us" | "please");
    let clear = CLEAR_TASKS.contains(&first) && OBJECTS.contains(&second);
    let led = joined && word(at) != "and" && TASKS.contains(&first) && OBJECTS.contains(&second);
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

fn is_task(span: &Span) -> bool {
    TASKS.contains(&span.word.as_str())
}

/// True if the words go on with something to do now: "I am vegan and suggest a dinner".
pub(crate) fn leads_to_task(words: &str) -> bool {
    let said = spans(words);
    let after = |(one, two): (&Span, &Span)| {
        let pause = words.get(one.end..two.start).is_some_and(|gap| gap.contains([',', ';', ':', '–', '—']));
        (pause || JOINING.contains(&one.word.as_str())) && is_task(two)
    };
    said.iter().zip(said.iter().skip(1)).any(after)
}

/// "Remember to write …": a task of the assistant's.
pub(super) fn reminds_of_task(words: &str) -> bool {
    let said = spans(words);
    let verb = said.iter().skip_while(|span| span.word != "to").nth(1);
    verb.is_some_and(|span| TASKS.contains(&span.word.as_str()))
}

/// Statements with these words wait for help.
const PLEAS: &[&str] = &[
    "understand",
    "stuck",
    "confused",
    "help",
    "error",
    "errors",
    "problem",
    "problems",
    "broken",
    "wrong",
    "advice",
    "idea",
    "ideas",
    "suggestions",
    "recommendations",
    "question",
    "questions",
    "answer",
    "wondering",
    "unsure",
    "looking",
    "tried",
];

/// "I need", "I wonder": what follows is a wish.
const WISHES: &[&str] = &["need", "want", "wonder", "wanted", "would", "hope", "think"];

fn is_plea(words: &[Span]) -> bool {
    let word = |at: usize| words.get(at).map_or("", |span| span.word.as_str());
    let wish = word(0) == "i'd" || (word(0) == "i" && WISHES.contains(&word(1)));
    wish || words.iter().any(|span| PLEAS.contains(&span.word.as_str()))
}

const FIRST_PERSON: &[&str] = &[
    "i", "i'm", "im", "i've", "ive", "i'd", "i'll", "my", "me", "mine", "myself", "we", "we're", "we've",
    "our", "us",
];

pub(super) fn is_first_person(text: &str) -> bool {
    spans(text).iter().any(|span| FIRST_PERSON.contains(&span.word.as_str()))
}

const SECOND_PERSON: &[&str] =
    &["you", "your", "yours", "you're", "you've", "you'll", "you'd", "u", "yourself"];

pub(super) fn is_second_person(text: &str) -> bool {
    spans(text).iter().any(|span| SECOND_PERSON.contains(&span.word.as_str()))
}

const STARTS: &[&str] = &[
    "i",
    "i'm",
    "im",
    "i've",
    "i'd",
    "i'll",
    "my",
    "we",
    "we're",
    "we've",
    "our",
    "he",
    "he's",
    "she",
    "she's",
    "they",
    "they're",
    "it",
    "it's",
    "the",
    "a",
    "an",
    "this",
    "these",
    "those",
    "his",
    "her",
    "their",
    "its",
    "there",
    "there's",
    "both",
    "all",
    "nobody",
    "everybody",
];

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
    let starts = STARTS.contains(&word(first)) || named;
    let plea = is_plea(words.get(first..).unwrap_or_default());
    starts && !plea && words.len() > 2 && !is_second_person(said)
}

fn is_capital(text: &str, span: &Span) -> bool {
    text.get(span.start..).is_some_and(|rest| rest.starts_with(char::is_uppercase))
}
