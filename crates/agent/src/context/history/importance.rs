//! How much an earlier message matters, from 0 to 1. It says which ones stay when not all fit.
//!
//! ```text
//! importance = 0.20 if the user said it, 0.10 if the assistant did
//!            + 0.15 × min(1, words / 60)                       longer ones say more, up to a point
//!            + 0.10 if it asks something
//!            + 0.20 × min(1, facts / 4)                        numbers, dates and names in it
//!            + 0.15 if it shares most words of a pin           the user marked this as important
//!            + 0.20 × (its own words that later messages use again) / 3, at most 0.20
//! ```
//! The newest of the candidates gets [`RECENCY`] on top and the oldest nothing, so that of equals the newer stays.

use std::collections::{HashMap, HashSet};

use memory::words::{self, tokens};
use protocol::Role;

use super::PastTurn;

/// The worth of being the newest.
const RECENCY: f32 = 0.15;

/// Words of a message that are looked at.
const MAX_WORDS: usize = 400;

/// The importance of each turn, in order.
pub(super) fn of(turns: &[PastTurn], pins: &[&str]) -> Vec<f32> {
    let terms: Vec<HashSet<String>> = turns.iter().map(|past| distinct_terms(&past.turn.text)).collect();
    let pins: Vec<HashSet<String>> = pins.iter().map(|pin| distinct_terms(pin)).collect();
    let mut later: HashMap<&str, usize> = HashMap::new();
    let mut out = Vec::with_capacity(turns.len());
    for (index, (past, own)) in turns.iter().zip(&terms).enumerate().rev() {
        let used_again = own.iter().filter(|term| later.contains_key(term.as_str())).count();
        let said_before = terms.iter().take(index).map(|earlier| own.intersection(earlier).count()).max();
        // A word that earlier messages use, too, says nothing about this message.
        let used_again = used_again.saturating_sub(said_before.unwrap_or(0));
        let recency = RECENCY * (index + 1) as f32 / turns.len() as f32;
        out.push(by_itself(past, own, &pins) + 0.20 * (used_again as f32 / 3.0).min(1.0) + recency);
        for term in own {
            *later.entry(term).or_default() += 1;
        }
    }
    out.reverse();
    out
}

fn distinct_terms(text: &str) -> HashSet<String> {
    words::terms(text).into_iter().take(MAX_WORDS).collect()
}

/// The importance of a message without the others.
fn by_itself(past: &PastTurn, own: &HashSet<String>, pins: &[HashSet<String>]) -> f32 {
    let text = &past.turn.text;
    let role = match past.turn.role {
        Some(Role::User) => 0.20,
        Some(Role::Assistant) => 0.10,
        None => return 0.0,
    };
    let count = tokens(text).take(MAX_WORDS).count();
    let length = 0.15 * (count as f32 / 60.0).min(1.0);
    let asks = if text.contains('?') || memory::words::asks(text) { 0.10 } else { 0.0 };
    let facts = 0.20 * (facts(text) as f32 / 4.0).min(1.0);
    let is_pinned = |pin: &HashSet<String>| !pin.is_empty() && pin.intersection(own).count() * 2 > pin.len();
    let pinned = if pins.iter().any(is_pinned) { 0.15 } else { 0.0 };
    role + length + asks + facts + pinned
}

/// Numbers, and words that begin with a capital where no sentence does.
fn facts(text: &str) -> usize {
    let mut begins = true;
    let mut count = 0;
    for word in text.split_whitespace().take(MAX_WORDS) {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let number = bare.chars().any(|c| c.is_ascii_digit());
        let name = !begins && bare.chars().count() > 1 && bare.starts_with(char::is_uppercase);
        count += usize::from(number || name);
        begins = word.ends_with(['.', '!', '?', ':']);
    }
    count
}

#[cfg(test)]
mod tests {
    use protocol::MessageId;
    use uuid::Uuid;

    use super::*;
    use crate::transcript::{MessageTrouble, MessageTurn};

    fn past(role: Role, text: &str) -> PastTurn {
        let turn = MessageTurn {
            role: Some(role),
            text: text.into(),
            parts: Vec::new(),
            steps: Vec::new(),
            results: Vec::new(),
            memories_referenced: Vec::new(),
            trouble: MessageTrouble::default(),
        };
        PastTurn { id: MessageId::new(Uuid::nil()), seq: 1, turn }
    }

    fn alone(role: Role, text: &str) -> f32 {
        of(&[past(role, text)], &[]).first().copied().unwrap()
    }

    #[test]
    fn facts_questions_length_and_the_speaker_count() {
        let small_talk = alone(Role::User, "ok thanks");
        assert!(alone(Role::User, "She takes 10mg of Lisinopril at 8am") > small_talk + 0.1);
        assert!(alone(Role::User, "is that so?") > alone(Role::User, "that is so"));
        assert!(alone(Role::User, "ok thanks") > alone(Role::Assistant, "ok thanks"));
        assert!(alone(Role::User, &"and so on ".repeat(30)) > small_talk);
    }

    #[test]
    fn what_later_messages_come_back_to_counts_more() {
        let first = past(Role::User, "the walker is in the hallway closet");
        let other = past(Role::Assistant, "fine");
        let unrelated = past(Role::User, "what about lunch");
        let related = past(Role::User, "is the walker still in the closet");
        let forgotten = of(&[first.clone(), other.clone(), unrelated], &[]);
        let used = of(&[first, other, related], &[]);
        assert!(used[0] > forgotten[0] + 0.05, "{used:?} {forgotten:?}");
    }

    #[test]
    fn what_a_pin_says_counts_more_and_the_newer_of_equals_wins() {
        let turns = [past(Role::User, "allergic to penicillin"), past(Role::User, "fond of oranges")];
        let plain = of(&turns, &[]);
        let pinned = of(&turns, &["allergic to penicillin"]);
        assert!(pinned[0] > plain[0] && pinned[1] == plain[1]);
        assert!(plain[1] > plain[0]);
    }
}
