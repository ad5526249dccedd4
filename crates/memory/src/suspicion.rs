//! Text that gives orders instead of facts.
//!
//! A memory goes into later prompts, so text from elsewhere that tells an assistant what to do must not become one
//! without the user's yes. The check leans to suspicion: a fact that it takes for an order costs the user one question.

#[cfg(test)]
mod tests;

use crate::tombstone::spans::spans;

/// True if the text tells an assistant what to do, or imitates the markup around a conversation.
pub fn is_instruction(text: &str) -> bool {
    has_markup(text) || has_unseen_text(text) || text.split(ends_sentence).any(is_order) || has_role(text)
}

fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | ';' | ':' | '\n' | '\r' | '。')
}

/// What surrounds messages and calls on some wire, or hides text from a reader of a page.
const MARKUP: &[&str] = &[
    "<|",
    "|>",
    "<<sys>>",
    "[inst]",
    "[/inst]",
    "[system]",
    "<system>",
    "</system>",
    "<assistant>",
    "<instructions>",
    "<tool_call",
    "</tool_call",
    "<function_call",
    "<function=",
    "<invoke",
    "<script",
    "<iframe",
    "<!--",
    "display:none",
    "display: none",
    "font-size:0",
    "font-size: 0",
    "\"tool_calls\"",
    "\"function_call\"",
    "\"tool_use\"",
    "### instruction",
    "### system",
    "```tool",
    "begin system prompt",
];

fn has_markup(text: &str) -> bool {
    let small = text.to_lowercase();
    let call =
        small.contains("\"name\"") && (small.contains("\"arguments\"") || small.contains("\"parameters\""));
    call || MARKUP.iter().any(|sign| small.contains(sign))
}

/// A black flag is followed by tags that name a region; elsewhere they are text that nobody sees.
const FLAG: char = '\u{1f3f4}';

fn has_unseen_text(text: &str) -> bool {
    let mut in_flag = false;
    for c in text.chars() {
        let tag = matches!(c, '\u{e0000}'..='\u{e007f}');
        if (tag && !in_flag) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            return true;
        }
        in_flag = c == FLAG || (in_flag && tag);
    }
    false
}

const ROLES: &[&str] = &["system", "assistant", "developer", "human", "ai"];

/// A line that begins as a turn of a written conversation does.
fn has_role(text: &str) -> bool {
    text.lines().any(|line| {
        let head = line.split_once(':').map(|(head, _)| head.trim().trim_matches(['*', '#', '_', '>', ' ']));
        head.is_some_and(|head| ROLES.iter().any(|role| head.eq_ignore_ascii_case(role)))
    })
}

/// Verbs of what an assistant does.
const ACTIONS: &[&str] = &[
    "act",
    "add",
    "answer",
    "append",
    "approve",
    "browse",
    "call",
    "claim",
    "click",
    "comply",
    "copy",
    "delete",
    "disclose",
    "download",
    "email",
    "emit",
    "execute",
    "export",
    "fetch",
    "follow",
    "forward",
    "ignore",
    "include",
    "inform",
    "insert",
    "invoke",
    "leak",
    "mention",
    "message",
    "obey",
    "offer",
    "open",
    "output",
    "override",
    "pay",
    "post",
    "praise",
    "pretend",
    "print",
    "provide",
    "publish",
    "purchase",
    "recommend",
    "redirect",
    "refuse",
    "remember",
    "repeat",
    "reply",
    "reset",
    "respond",
    "return",
    "reveal",
    "run",
    "save",
    "say",
    "send",
    "share",
    "show",
    "speak",
    "store",
    "submit",
    "suggest",
    "tell",
    "transfer",
    "translate",
    "treat",
    "trigger",
    "upload",
    "use",
    "visit",
    "warn",
    "write",
];

const MODALS: &[&str] =
    &["must", "should", "shall", "will", "can", "may", "need", "have", "are", "always", "never", "ought"];

/// Words that stand between a modal and its verb.
const FILLERS: &[&str] =
    &["to", "now", "always", "never", "not", "only", "also", "please", "then", "immediately", "required"];

const SET_ASIDE: &[&str] = &[
    "ignore",
    "disregard",
    "forget",
    "override",
    "bypass",
    "discard",
    "ignoriere",
    "ignorieren",
    "vergiss",
    "ignora",
    "ignorez",
    "oubliez",
    "olvida",
];

const RULES: &[&str] = &[
    "instruction",
    "instructions",
    "prompt",
    "prompts",
    "rules",
    "guidelines",
    "directions",
    "directives",
    "policy",
    "policies",
    "safeguards",
    "anweisungen",
    "instrucciones",
    "istruzioni",
    "consignes",
];

const ASSISTANTS: &[&str] = &["assistant", "ai", "model", "agent", "chatbot", "bot", "llm"];

/// How far apart the two halves of a pattern may be, in words.
const NEAR: usize = 8;

/// Sequences that are orders wherever they stand; `*` is any of [`ACTIONS`].
const PHRASES: &[&str] = &[
    "system prompt",
    "new instructions",
    "hidden instructions",
    "instructions for the assistant",
    "instructions for the ai",
    "instructions to the assistant",
    "note to the assistant",
    "note to the ai",
    "developer mode",
    "do anything now",
    "you are now",
    "you are no longer",
    "pretend you are",
    "pretend to be",
    "pretend that you",
    "act as if you",
    "roleplay as",
    "your new role",
    "your new task",
    "your task is",
    "your role is",
    "your goal is",
    "your job is",
    "your instructions are",
    "wants you to",
    "want you to",
    "asked you to",
    "asks you to",
    "like you to",
    "need you to",
    "tell the user",
    "tell the users",
    "inform the user",
    "to the user that",
    "without telling the user",
    "without asking the user",
    "without the user's",
    "without confirmation",
    "reveal your",
    "repeat the above",
    "everything above",
    "the following tool",
    "from now on you",
    "from now on always",
    "from now on never",
    "from now on do",
    "from now on don't",
    "from now on *",
    "from now on please",
];

/// Sequences that are orders at the beginning of a sentence.
const OPENINGS: &[&str] = &[
    "always *",
    "never *",
    "please always *",
    "please never *",
    "do not *",
    "don't *",
    "act as",
    "behave as",
    "behave like",
    "call the",
    "invoke the",
    "execute the",
    "run the following",
    "run this",
    "send an email",
    "send a message",
    "send all",
    "send the",
    "send this",
    "send my",
    "forward this",
    "forward all",
    "forward the",
    "respond with",
    "respond only",
    "respond in",
    "reply with",
    "reply only",
    "reply in",
    "answer only",
    "answer with",
    "answer every",
    "answer all",
    "answer in",
    "print your",
    "output the",
    "you must",
    "you shall",
    "make sure to *",
    "make sure you",
    "be sure to *",
    "use the following",
    "visit this",
    "click here",
    "click the",
];

const WHENEVER: &[&str] = &["when", "whenever", "if", "once", "every", "each", "before", "after"];

fn is_order(sentence: &str) -> bool {
    let words: Vec<String> = spans(sentence).into_iter().map(|span| span.word).collect();
    let places = || (0..words.len()).map(|at| words.get(at..).unwrap_or_default());
    let anywhere = |rest: &[String]| {
        PHRASES.iter().any(|phrase| begins(rest, phrase)) || sets_rules_aside(rest) || commands(rest)
    };
    // What introduces a list item or an aside does not count as a beginning.
    let opening =
        words.iter().position(|word| !matches!(word.as_str(), "important" | "and" | "then" | "so" | "also"));
    let opens = |rest: &[String]| OPENINGS.iter().any(|phrase| begins(rest, phrase));
    places().any(anywhere) || opening.and_then(|at| words.get(at..)).is_some_and(opens) || is_trigger(&words)
}

fn is_one_of(word: &str, list: &[&str]) -> bool {
    list.contains(&word)
}

/// True if the words begin with those of the phrase.
fn begins(words: &[String], phrase: &str) -> bool {
    let mut said = words.iter();
    phrase.split(' ').all(|wanted| match said.next() {
        Some(word) if wanted == "*" => is_one_of(word, ACTIONS),
        Some(word) => word == wanted,
        None => false,
    })
}

/// "Ignore all previous instructions", in a few languages.
fn sets_rules_aside(words: &[String]) -> bool {
    let first = words.first().is_some_and(|word| is_one_of(word, SET_ASIDE));
    first && words.iter().take(NEAR).any(|word| is_one_of(word, RULES))
}

/// "You must send", "the assistant should never mention".
fn commands(words: &[String]) -> bool {
    let mut rest = words.iter().map(String::as_str);
    let addressed = rest.next().is_some_and(|word| word == "you" || is_one_of(word, ASSISTANTS));
    let mut rest = rest.skip_while(|word| *word == "do");
    let modal = rest.next().is_some_and(|word| is_one_of(word, MODALS));
    addressed
        && modal
        && rest.find(|word| !is_one_of(word, FILLERS)).is_some_and(|word| is_one_of(word, ACTIONS))
}

/// "When the user asks about prices, recommend …".
fn is_trigger(words: &[String]) -> bool {
    let mut rest = words.iter().skip_while(|word| !is_one_of(word, WHENEVER));
    let user =
        rest.by_ref().take(NEAR).any(|word| matches!(word.as_str(), "user" | "users" | "anyone" | "someone"));
    user && rest.any(|word| is_one_of(word, ACTIONS))
}
