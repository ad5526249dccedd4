//! Turns of a thread beside turns of a client: pure functions that tell which of them are the same.
//!
//! Texts are compared word by word, since clients trim and join texts in ways of their own. Images and documents are
//! counted.

use std::collections::HashMap;

use protocol::{EarlierTurn, MessageId, Role, TreeMessage};
use service::SpokenMessage;

use crate::contracts::APPROVAL_NOTICE;

/// The sign at the end of a text of which only the beginning is known.
const CUT: char = '…';

/// A turn as the client has it, ready to be compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpokenTurn {
    said: String,
    parts: usize,
    /// All that was answered, without what only this contract says.
    answer: String,
    /// Whether the client's answer ends with the notice of an approval, after which the thread may have more.
    is_open: bool,
}

impl SpokenTurn {
    pub(super) fn new(turn: &EarlierTurn) -> Self {
        let texts: Vec<&str> = turn.steps.iter().map(|step| step.text.as_str()).collect();
        let answer = texts.join("\n\n");
        let (answer, is_open) = match answer.find(APPROVAL_NOTICE) {
            Some(start) => (answer.get(..start).unwrap_or_default(), true),
            None => (answer.as_str(), false),
        };
        let (said, answer) = (words(&turn.text), words(answer));
        Self { said, parts: turn.parts.len(), answer, is_open }
    }
}

/// A turn as the thread has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredTurn {
    said: String,
    parts: usize,
    answer: String,
    is_answered: bool,
    /// Whether its run is under way, so that no client can know the answer yet.
    is_under_way: bool,
    /// Its last message.
    pub(super) last: MessageId,
}

impl StoredTurn {
    pub(super) fn is_same(&self, turn: &SpokenTurn) -> bool {
        let is_answer = self.is_under_way
            || self.answer == turn.answer
            || turn.is_open && self.answer.starts_with(&turn.answer);
        is_answer && self.said == turn.said && self.parts == turn.parts
    }
}

/// The messages of a path as turns. A message of the user without an answer is one turn with the next one.
pub(super) fn stored_turns(path: Vec<SpokenMessage>) -> Vec<StoredTurn> {
    let mut turns: Vec<StoredTurn> = Vec::new();
    for message in path {
        let text = words(&message.text);
        match (message.role, turns.last_mut()) {
            (Role::User, Some(turn)) if !turn.is_answered => {
                push_words(&mut turn.said, &text);
                turn.parts += message.parts;
                turn.last = message.id;
            }
            (Role::User, _) => turns.push(StoredTurn {
                said: text,
                parts: message.parts,
                answer: String::new(),
                is_answered: false,
                is_under_way: false,
                last: message.id,
            }),
            (Role::Assistant, Some(turn)) => {
                push_words(&mut turn.answer, &text);
                (turn.is_answered, turn.last) = (true, message.id);
            }
            (Role::Assistant, None) => turns.push(StoredTurn {
                said: String::new(),
                parts: 0,
                answer: text,
                is_answered: true,
                is_under_way: false,
                last: message.id,
            }),
        }
    }
    turns
}

/// Notes that the last turn is being answered, or waits for the client or the user. The client may have a part of the answer,
/// and the thread has none yet.
pub(super) fn mark_under_way(turns: &mut [StoredTurn]) {
    if let Some(turn) = turns.last_mut() {
        turn.is_under_way = !turn.is_answered;
    }
}

/// How many turns are the same, from the first on.
pub(super) fn matched_turns(stored: &[StoredTurn], spoken: &[SpokenTurn]) -> usize {
    stored.iter().zip(spoken).take_while(|(stored, turn)| stored.is_same(turn)).count()
}

/// Messages of a tree on whose path the client may be, the longest path first, each with the length of its path. Only the
/// beginnings of texts are looked at.
pub(super) fn likely_leaves(tree: &[TreeMessage], spoken: &[SpokenTurn]) -> Vec<(MessageId, usize)> {
    let mut children: HashMap<Option<MessageId>, Vec<&TreeMessage>> = HashMap::new();
    for message in tree {
        children.entry(message.parent_id).or_default().push(message);
    }
    let mut leaves = Vec::new();
    // A message, its turn, and the length of its path. A tree has each of its messages on one path only.
    let mut open: Vec<(&TreeMessage, usize, usize)> = Vec::new();
    let next_of = |of: Option<&TreeMessage>, turn: usize| {
        let of_id = of.map(|message| message.id);
        let is_answered = of.is_some_and(|message| message.role == Role::Assistant);
        let after = children.get(&of_id).into_iter().flatten();
        let at =
            move |next: &TreeMessage| if is_answered && next.role == Role::User { turn + 1 } else { turn };
        let fitting = after.filter(move |next| spoken.get(at(next)).is_some_and(|turn| may_be(next, turn)));
        fitting.map(move |next| (*next, at(next))).collect::<Vec<_>>()
    };
    open.extend(next_of(None, 0).into_iter().map(|(message, turn)| (message, turn, 1)));
    while let Some((message, turn, length)) = open.pop() {
        let next = next_of(Some(message), turn);
        if next.is_empty() {
            leaves.push((message.id, length));
        }
        open.extend(next.into_iter().map(|(next, turn)| (next, turn, length + 1)));
    }
    leaves.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
    leaves
}

fn may_be(message: &TreeMessage, turn: &SpokenTurn) -> bool {
    let beginning = words(message.text.trim_end_matches(CUT));
    match message.role {
        Role::User => turn.said.contains(&beginning),
        Role::Assistant => turn.is_open || turn.answer.contains(&beginning),
    }
}

/// The text with one blank between its words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn push_words(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests;
