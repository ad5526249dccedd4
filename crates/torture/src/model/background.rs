//! The model's answers when the server works in the background: a name, memories, a summary. All of it is made of the
//! programs it is shown, so that words of one user in another's memories can be seen.

use serde_json::{Value, json};

use crate::program::MessageProgram;

pub(super) const TITLE_PROMPT: &str = include_str!("../../apps/alpha/title.md");
pub(super) const MEMORY_PROMPT: &str = include_str!("../../apps/alpha/extract.md");
pub(super) const SUMMARY_PROMPT: &str = include_str!("../../apps/beta/summarise.md");

/// The reported cost of each, input and output.
pub(super) const TITLE_TOKENS: (u64, u64) = (31, 5);
pub(super) const MEMORY_TOKENS: (u64, u64) = (41, 9);
pub(super) const SUMMARY_TOKENS: (u64, u64) = (51, 13);
pub(super) const OTHER_TOKENS: (u64, u64) = (17, 3);

/// Changes of one answer, as many as are taken.
const MAX_CHANGES: usize = 20;

pub(super) fn title(first: &str) -> String {
    match MessageProgram::parse(first) {
        Some(program) => format!("{} of {}", program.tag, program.canary),
        // A long message is shown in part.
        None => {
            value(first, "tag").map_or_else(|| "Without a program".into(), |tag| format!("{tag} in part"))
        }
    }
}

/// One memory for each program of the batch, resting on its tag.
pub(super) fn memories(batch: &str) -> String {
    let programs = batch.lines().filter_map(cited_message);
    let change = |(label, program): (&str, MessageProgram)| {
        json!({
            "action": "create",
            "ids": [],
            "message": label,
            "quote": program.tag,
            "text": format!("{} said {}", program.canary, program.tag),
            "kind": "fact",
        })
    };
    json!({"changes": programs.map(change).take(MAX_CHANGES).collect::<Vec<Value>>()}).to_string()
}

/// The label of a message of the user's in a batch, and the program that it is.
fn cited_message(line: &str) -> Option<(&str, MessageProgram)> {
    let (label, rest) = line.split_once(" (user, ")?;
    let (_, quoted) = rest.split_once("): ")?;
    let said: String = serde_json::from_str(quoted).ok()?;
    MessageProgram::parse(&said).map(|program| (label, program))
}

pub(super) fn summary(turns: &str) -> String {
    let said: Vec<&str> = turns.lines().filter_map(|line| line.strip_prefix("USER: ")).collect();
    let first = said.first().and_then(|line| Some((value(line, "tag")?, value(line, "canary")?)));
    let last = said.last().and_then(|line| value(line, "tag"));
    match (first, last) {
        (Some((first, canary)), Some(last)) => {
            format!("{canary} asked for {} programs, from {first} to {last}", said.len())
        }
        _ => "Earlier programs were carried out".into(),
    }
}

/// A text field of a program that may not be there whole.
fn value<'t>(program: &'t str, field: &str) -> Option<&'t str> {
    let (_, rest) = program.split_once(&format!("\"{field}\":\""))?;
    rest.split_once('"').map(|(value, _)| value)
}
