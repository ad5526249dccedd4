//! Tool calls in an answer, told apart from its words. The grammar has seen to it that they are calls.

use serde_json::Value;

use super::stops::overlap;
use crate::grammar::{CALL_BEGIN, CALL_END};

/// Divides an answer into words and calls, and holds back what may become a call.
#[derive(Debug, Default)]
pub(super) struct CallScanner {
    held: String,
    inside: bool,
    found: usize,
}

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatAnswerPart {
    Words(String),
    Call { index: usize, name: String, json: String },
}

impl CallScanner {
    pub(super) fn push(&mut self, text: &str) -> Vec<ChatAnswerPart> {
        self.held.push_str(text);
        let mut parts = Vec::new();
        // Each turn but the last takes a mark off what is held.
        loop {
            let mark = if self.inside { CALL_END } else { CALL_BEGIN };
            let Some((before, after)) = self.held.split_once(mark) else { break };
            let (before, after) = (before.to_owned(), after.to_owned());
            self.held = after;
            if self.inside {
                parts.push(self.call(&before));
            } else {
                parts.extend(self.words(before));
            }
            self.inside = !self.inside;
        }
        if !self.inside {
            let kept = overlap(&self.held, CALL_BEGIN);
            let rest = self.held.split_off(self.held.len() - kept);
            let words = std::mem::replace(&mut self.held, rest);
            parts.extend(self.words(words));
        }
        parts
    }

    pub(super) fn found_any(&self) -> bool {
        self.found > 0
    }

    /// Text that was held back in vain: the beginning of a call that was cut, as the text it is.
    pub(super) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if std::mem::take(&mut self.inside) { format!("{CALL_BEGIN}{held}") } else { held }
    }

    /// White space between calls is nothing that was said.
    fn words(&self, text: String) -> Option<ChatAnswerPart> {
        let said = !text.is_empty() && (self.found == 0 || !text.trim().is_empty());
        said.then_some(ChatAnswerPart::Words(text))
    }

    fn call(&mut self, text: &str) -> ChatAnswerPart {
        let call = serde_json::from_str::<Value>(text).ok().and_then(|call| {
            let name = call.get("name")?.as_str()?.to_owned();
            Some((name, call.get("arguments")?.to_string()))
        });
        let Some((name, json)) = call else {
            return ChatAnswerPart::Words(format!("{CALL_BEGIN}{text}{CALL_END}"));
        };
        self.found += 1;
        ChatAnswerPart::Call { index: self.found - 1, name, json }
    }
}
