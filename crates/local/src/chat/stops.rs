//! Texts that end an answer where they appear.

use serde_json::Value;

const MAX_STOPS: usize = 8;
const MAX_STOP_BYTES: usize = 256;

/// Looks for stop texts in an answer, and holds back what may become one.
#[derive(Default)]
pub(super) struct Stops {
    texts: Vec<String>,
    held: String,
}

/// The result of a piece of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) text: String,
    pub(super) stopped: bool,
}

impl Stops {
    /// One text or a list of them. Other values are left out.
    pub(super) fn from_value(value: Option<&Value>) -> Self {
        let list = match value {
            Some(Value::Array(list)) => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let texts = list.iter().filter_map(Value::as_str);
        let texts = texts.filter(|text| (1..=MAX_STOP_BYTES).contains(&text.len())).take(MAX_STOPS);
        Self { texts: texts.map(str::to_owned).collect(), held: String::new() }
    }

    pub(super) fn push(&mut self, text: &str) -> Passed {
        self.held.push_str(text);
        let found = self.texts.iter().filter_map(|stop| self.held.find(stop)).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return Passed { text: std::mem::take(&mut self.held), stopped: true };
        }
        let kept = self.texts.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        Passed { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// Text that was held back in vain.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes at the end of the text that the stop text, or another mark, begins with.
pub(super) fn overlap(text: &str, stop: &str) -> usize {
    let most = text.len().min(stop.len() - 1);
    let begins = |length: &usize| stop.get(..*length).is_some_and(|start| text.ends_with(start));
    (1..=most).rev().find(begins).unwrap_or(0)
}
