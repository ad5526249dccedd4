//! Results that come back over the border: without controls that hide or reorder text, and without secrets.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{Failed, ToolOutput};

/// A value shorter than this is not looked for: it would be found in everything.
const MIN_SECRET_BYTES: usize = 4;

/// The characters that are encoded in URLs: all but letters and digits, or less, as RFC 3986, forms and JavaScript have it.
const ENCODINGS: &[&AsciiSet] = &[
    NON_ALPHANUMERIC,
    &PLAINER.remove(b'~'),
    &PLAINER.remove(b'*'),
    &PLAINER.remove(b'~').remove(b'*').remove(b'!').remove(b'\'').remove(b'(').remove(b')'),
];
const PLAINER: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Secrets that must stay hidden, in every spelling in which they may come back.
#[derive(Clone, Default)]
pub(crate) struct Hidden {
    /// The spelling, and what stands in its place.
    spellings: Vec<(String, String)>,
}

impl Hidden {
    /// Hides a value under its name.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        if value.len() < MIN_SECRET_BYTES {
            return;
        }
        let quoted = Value::from(value).to_string();
        let quoted = quoted
            .strip_prefix('"')
            .and_then(|quoted| quoted.strip_suffix('"'))
            .unwrap_or_default()
            .to_owned();
        let mut spellings = vec![
            value.to_owned(),
            quoted.replace('/', "\\/"),
            quoted,
            STANDARD.encode(value),
            STANDARD_NO_PAD.encode(value),
            URL_SAFE.encode(value),
            URL_SAFE_NO_PAD.encode(value),
        ];
        for encoding in ENCODINGS {
            let upper = utf8_percent_encode(value, encoding).to_string();
            let lower = in_small_digits(&upper);
            spellings.extend([upper.replace("%20", "+"), lower.replace("%20", "+"), upper, lower]);
        }
        for spelling in spellings {
            if !self.spellings.iter().any(|(known, _)| *known == spelling) {
                self.spellings.push((spelling, format!("[{name} is hidden]")));
            }
        }
        // The longest first: a shorter spelling may be the beginning of a longer one.
        self.spellings.sort_by_key(|(spelling, _)| std::cmp::Reverse(spelling.len()));
    }

    /// The result of a call without secrets.
    pub(crate) fn hide_in_result(&self, result: Result<ToolOutput, Failed>) -> Result<ToolOutput, Failed> {
        match result {
            Ok(done) => {
                let mut sources = done.sources;
                for source in &mut sources {
                    source.id = self.text(&source.id);
                    source.title = self.text(&source.title);
                    source.place = self.text(&source.place);
                }
                Ok(ToolOutput { output: self.value(done.output), sources, ..done })
            }
            Err(failed) => Err(Failed { message: self.text(&failed.message), ..failed }),
        }
    }

    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = clean(text);
        for (spelling, instead) in &self.spellings {
            if text.contains(spelling.as_str()) {
                text = text.replace(spelling.as_str(), instead);
            }
        }
        text
    }

    pub(crate) fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (self.text(&name), self.value(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

/// The text with the digits of each `%2F` in lower case.
fn in_small_digits(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.push('%');
        text.push_str(&digits.to_ascii_lowercase());
        text.push_str(rest);
    }
    text
}

/// The text without what a reader would not see: control characters and the sequences of terminals, marks that reorder
/// text, characters without width, and tags. Joiners stay between letters that need them.
pub(crate) fn clean(text: &str) -> String {
    if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t'))
    {
        return text.to_owned();
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut rest),
            '\n' | '\t' => kept.push(c),
            '\r' if rest.peek() != Some(&'\n') => kept.push('\n'),
            '\u{200c}' | '\u{200d}' => {
                let joins = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !is_unseen(c));
                if joins(kept.chars().next_back()) && joins(rest.peek().copied()) {
                    kept.push(c);
                }
            }
            _ if is_unseen(c) => {}
            _ => kept.push(c),
        }
    }
    kept
}

/// Leaves out the rest of a terminal's sequence.
fn skip_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            while rest.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')).is_some() {}
            rest.next_if(|c| matches!(c, '\u{40}'..='\u{7e}'));
        }
        Some(']' | 'P' | '^' | '_') => {
            rest.next();
            while rest.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\n')).is_some() {}
        }
        Some(_) | None => {}
    }
}

fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_reader_would_not_see_is_left_out() {
        for (dirty, clean_text) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("a\u{0}b\u{7}c\u{9b}d", "abcd"),
            ("line\r\nnext\rlast", "line\nnext\nlast"),
            ("ad\u{200b}min\u{2060}", "admin"),
            ("a\u{202e}b\u{2066}c\u{200f}", "abc"),
            ("x\u{e0041}\u{e0042}y", "xy"),
            ("p\u{200d}q", "pq"),
            ("👩\u{200d}🚀", "👩\u{200d}🚀"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("Grüße, 東京", "Grüße, 東京"),
        ] {
            assert_eq!(clean(dirty), clean_text, "{dirty:?}");
        }
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_spelt() {
        let mut hidden = Hidden::default();
        hidden.add("weather", "s3cr3t/\"key\"+");
        for spelling in [
            "s3cr3t/\"key\"+",
            "s3cr3t/\\\"key\\\"+",
            "s3cr3t%2F%22key%22%2B",
            "s3cr3t%2f%22key%22%2b",
            "s3cr3t\\/\\\"key\\\"+",
            "czNjcjN0LyJrZXkiKw==",
            "czNjcjN0LyJrZXkiKw",
        ] {
            let told = hidden.text(&format!("got {spelling} from you"));
            assert_eq!(told, "got [weather is hidden] from you", "{spelling}");
        }
        let split = hidden.text("s3cr3t\u{200b}/\"key\"+");
        assert_eq!(split, "[weather is hidden]", "not even with something unseen in it");
    }

    #[test]
    fn results_and_failures_are_told_without_secrets_at_any_depth() {
        let mut hidden = Hidden::default();
        hidden.add("weather", "hushhush");
        hidden.add("short", "abc");
        let output = json!({ "a": ["x hushhush", { "hushhush": 1 }], "b": "abc" });
        let done = hidden.hide_in_result(Ok(output.into())).unwrap();
        assert_eq!(
            done.output,
            json!({ "a": ["x [weather is hidden]", { "[weather is hidden]": 1 }], "b": "abc" })
        );
        let failed = hidden.hide_in_result(Err(Failed::new("http_error", "401 for hushhush"))).unwrap_err();
        assert_eq!(failed.message, "401 for [weather is hidden]");
    }
}
