//! Signs that give an order away by its form: the markup around a conversation, invisible text, a written turn.

use crate::phrases::{PhraseList, lists};

lists! {
    static SIGNS: OrderSigns = "data/signs.toml"; {
        /// Text around messages and calls on some wire, or that hides text from a reader of a page.
        markup: PhraseList,
        /// Speakers of a written conversation.
        roles: PhraseList,
    }
}

pub(super) fn has_markup(text: &str) -> bool {
    let small = text.to_lowercase();
    let call =
        small.contains("\"name\"") && (small.contains("\"arguments\"") || small.contains("\"parameters\""));
    let turn =
        small.contains("\"role\"") && (small.contains("\"system\"") || small.contains("\"developer\""));
    call || turn || SIGNS.markup.iter().any(|sign| small.contains(sign))
}

/// A black flag is followed by tags that name a region; elsewhere they are invisible text.
const FLAG: char = '\u{1f3f4}';

pub(super) fn has_unseen_text(text: &str) -> bool {
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

/// A line that begins as a turn of a written conversation does.
pub(super) fn has_role(text: &str) -> bool {
    text.lines().any(|line| {
        let head = line.split_once(':').map(|(head, _)| head.trim().trim_matches(['*', '#', '_', '>', ' ']));
        head.is_some_and(|head| SIGNS.roles.iter().any(|role| head.eq_ignore_ascii_case(role)))
    })
}
