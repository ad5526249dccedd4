//! Front matter: `key: value` lines between two `---` lines at the top of a Markdown file, and the text below them.
//!
//! It is a small part of YAML: one line a key, texts with or without quotes, lists with commas, comments after `#`.

#[cfg(test)]
mod tests;

use std::ops::{Bound, Range, RangeInclusive};

use crate::Within;
use crate::source::bounds::WholeNumber;
use crate::source::{FileText, Problem, Spanned, did_you_mean};

const FENCE: &str = "---";
/// Entries of one list.
const MAX_ENTRIES: usize = 100;

/// A file's front matter and its text.
pub(crate) struct Front<'a> {
    source: FileText<'a>,
    lines: Vec<Line<'a>>,
    /// The text after the front matter.
    pub(crate) body: &'a str,
    /// The line of the file, from 1, on which the body begins.
    pub(crate) body_line: usize,
}

/// One key and its value.
struct Line<'a> {
    /// One of the known keys.
    key: &'static str,
    /// As written, without what surrounds it.
    value: &'a str,
    /// The place at which the value begins.
    offset: usize,
}

impl<'a> Front<'a> {
    /// Takes the file apart. A key may also be written in camel case; one that is not known is refused.
    pub(crate) fn parse(source: FileText<'a>, known: &[&'static str]) -> Result<Self, Problem> {
        let mut front = Self { source, lines: Vec::new(), body: source.text, body_line: 1 };
        let mut lines = source.text.split_inclusive('\n');
        let first = lines.next().unwrap_or_default();
        if first.trim_end() != FENCE {
            return Ok(front);
        }
        let mut offset = first.len();
        for (number, line) in lines.enumerate() {
            if line.trim_end() == FENCE {
                front.body = source.text.get(offset + line.len()..).unwrap_or_default();
                front.body_line = number + 3;
                return Ok(front);
            }
            let text = without_comment(line).trim_end();
            if !text.trim().is_empty() {
                front.add(offset, text, known)?;
            }
            offset += line.len();
        }
        Err(source.problem(0..0, "the front matter does not end", "end it with a line of three dashes"))
    }

    fn add(&mut self, offset: usize, line: &'a str, known: &[&'static str]) -> Result<(), Problem> {
        let Some((written, value)) = line.split_once(':') else {
            return Err(self.source.problem(
                offset..offset,
                format!("{:?} is not a key with a value", line.trim()),
                "write \"key: value\" on one line",
            ));
        };
        let name = snake_case(written.trim());
        let Some(key) = known.iter().copied().find(|key| *key == name) else {
            let remedy = did_you_mean(&name, known)
                .unwrap_or_else(|| format!("the keys here are {}", known.join(", ")));
            return Err(self.source.problem(
                offset..offset,
                format!("unknown key {:?}", written.trim()),
                remedy,
            ));
        };
        if self.lines.iter().any(|line| line.key == key) {
            let message = format!("the key {key:?} is given twice");
            return Err(self.source.problem(offset..offset, message, "remove one"));
        }
        let offset = offset + line.len() - value.trim_start().len();
        if value.trim().is_empty() {
            let remedy = "write a value, or remove the line to get the default";
            return Err(self.source.problem(offset..offset, format!("{key} is empty"), remedy));
        }
        self.lines.push(Line { key, value: value.trim(), offset });
        Ok(())
    }

    /// A problem with the value of a key, or with the file as a whole if it has none.
    pub(crate) fn problem(
        &self,
        key: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        match self.line(key) {
            Some(line) => self.source.problem(line.span(), message, remedy),
            None => Problem::of(self.source.file, message, remedy),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, Problem> {
        let Some(line) = self.line(key) else { return Ok(None) };
        let Some(text) = unquoted(line.value) else {
            return Err(self.problem(
                key,
                format!("{key} has a quote that is not closed"),
                "close the quote",
            ));
        };
        self.source.text(key, Some(Spanned::new(line.span(), text.to_owned())))
    }

    pub(crate) fn number(&self, key: &str, within: Within) -> Result<Option<f64>, Problem> {
        let low = Bound::Included(within.low);
        let Some(value) = self.parsed_value::<f64>(key, "a number")? else { return Ok(None) };
        self.source.number(key, Some(value), low, within.high)
    }

    pub(crate) fn whole_number<N: WholeNumber>(
        &self,
        key: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<N>, Problem> {
        let Some(value) = self.parsed_value::<i64>(key, "a whole number")? else { return Ok(None) };
        self.source.whole_number(key, Some(value), range)
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Problem> {
        Ok(self.parsed_value::<bool>(key, "true or false")?.map(Spanned::into_inner))
    }

    /// Texts with commas between them; brackets around them and quotes around each may be left out.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>, Problem> {
        let Some(line) = self.line(key) else { return Ok(Vec::new()) };
        let inner = match line.value.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(|| {
                self.problem(key, format!("{key} has a bracket that is not closed"), "close the bracket")
            })?,
            None => line.value,
        };
        let mut entries = entries(inner);
        if entries.last().is_some_and(|last| last.trim().is_empty()) {
            entries.pop(); // a comma at the end, or an empty list
        }
        if entries.len() > MAX_ENTRIES {
            return Err(self.problem(
                key,
                format!("{key} has more than {MAX_ENTRIES} entries"),
                "name fewer",
            ));
        }
        let text = |entry: &str| match unquoted(entry.trim()).map(str::trim) {
            Some("") => Err(self.problem(key, format!("an entry of {key} is empty"), "remove the comma")),
            Some(text) => Ok(text.to_owned()),
            None => {
                Err(self.problem(key, format!("{key} has a quote that is not closed"), "close the quote"))
            }
        };
        entries.into_iter().map(text).collect()
    }

    fn parsed_value<T: std::str::FromStr>(
        &self,
        key: &str,
        kind: &str,
    ) -> Result<Option<Spanned<T>>, Problem> {
        let Some(line) = self.line(key) else { return Ok(None) };
        let value = unquoted(line.value).and_then(|text| text.trim().parse().ok());
        let Some(value) = value else {
            return Err(self.problem(key, format!("{key} is {:?}", line.value), format!("write {kind}")));
        };
        Ok(Some(Spanned::new(line.span(), value)))
    }

    fn line(&self, key: &str) -> Option<&Line<'a>> {
        self.lines.iter().find(|line| line.key == key)
    }
}

impl Line<'_> {
    fn span(&self) -> Range<usize> {
        self.offset..self.offset + self.value.len()
    }
}

/// `maxTokens` as `max_tokens`.
fn snake_case(key: &str) -> String {
    let mut name = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The places, by bytes, of those characters that stand outside of quotes. A quote opens where a value may begin, so
/// that the apostrophe of a word is none.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut open, mut may_open) = (None, true);
    text.char_indices().filter(move |(_, c)| {
        let c = *c;
        if open.is_some() {
            if open == Some(c) {
                open = None;
            }
            return false;
        }
        if may_open && matches!(c, '"' | '\'') {
            open = Some(c);
            return false;
        }
        may_open = matches!(c, ':' | ',' | '[') || (may_open && c.is_whitespace());
        true
    })
}

/// A comment begins with a `#` that begins the line or follows a blank.
fn without_comment(line: &str) -> &str {
    let mut after_blank = true;
    for (place, c) in outside_quotes(line) {
        if c == '#' && after_blank {
            return line.get(..place).unwrap_or_default();
        }
        after_blank = c.is_whitespace();
    }
    line
}

fn entries(list: &str) -> Vec<&str> {
    let (mut entries, mut start) = (Vec::new(), 0);
    for (place, _) in outside_quotes(list).filter(|(_, c)| *c == ',') {
        entries.push(list.get(start..place).unwrap_or_default());
        start = place + 1;
    }
    entries.push(list.get(start..).unwrap_or_default());
    entries
}

/// The text in the quotes, if there are any; none if they do not end where the value does.
fn unquoted(value: &str) -> Option<&str> {
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return Some(value) };
    value.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains(quote))
}
