//! Sections of a Markdown text: where they are, and how one is written while every other byte stays.
//!
//! A heading at the top level begins a section, which goes on to the next one of the same level or a higher one. A
//! line that looks like a heading in a code block, a quotation or a list is none.

#[cfg(test)]
mod tests;

use comrak::nodes::NodeValue;
use comrak::{Arena, Options};

/// The level of a heading that is added, unless another is asked for.
const NEW_LEVEL: u8 = 2;
const MAX_LEVEL: usize = 6;
/// Some editors begin a file with it.
const BYTE_ORDER_MARK: char = '\u{feff}';
pub(super) const MAX_HEADING_CHARS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) level: u8,
    /// As it is written, without what makes it a heading.
    pub(super) text: String,
    /// From 1.
    pub(super) line: usize,
    /// The place at which its first line begins.
    start: usize,
    /// The place at which its last line ends, before the line break.
    end: usize,
}

impl Heading {
    fn level_and_text(&self) -> (u8, &str) {
        (self.level, &self.text)
    }
}

/// A heading that the model asks for, as `Heading` or `## Heading`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SectionHeading {
    level: Option<u8>,
    text: String,
}

impl SectionHeading {
    /// None if it cannot be a heading.
    pub(super) fn parse(asked: &str) -> Option<Self> {
        let (level, text) = read_heading(asked);
        let plain = !text.is_empty() && text.chars().count() <= MAX_HEADING_CHARS;
        (plain && !asked.trim().contains(char::is_control)).then_some(Self { level, text })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Replace,
    Append,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SectionError {
    /// The heading is there more than once, on these lines.
    Ambiguous(Vec<usize>),
    /// The content would become part of other sections, or they of it.
    Spills { level: u8 },
}

/// The headings at the top level, in order.
pub(super) fn headings(text: &str) -> Vec<Heading> {
    let lines = lines(text);
    let mut options = Options::default();
    options.extension.front_matter_delimiter = Some("---".into());
    let arena = Arena::new();
    let root = comrak::parse_document(&arena, text, &options);
    let heading = |node: comrak::Node<'_>| {
        let data = node.data();
        let NodeValue::Heading(heading) = &data.value else { return None };
        let (first, last) = (data.sourcepos.start.line, data.sourcepos.end.line);
        let of = |line: usize| lines.get(line.checked_sub(1)?).copied();
        let ((start, _), (_, end)) = (of(first)?, of(last)?);
        let written = text.get(start..end).unwrap_or_default();
        let text = if heading.setext { without_underline(written) } else { read_heading(written).1 };
        Some(Heading { level: heading.level, text, line: first, start, end })
    };
    root.children().filter_map(heading).collect()
}

/// The text with the section's body written. A heading that is missing is added at the end.
pub(super) fn write(
    text: &str,
    wanted: &SectionHeading,
    content: &str,
    mode: Mode,
) -> Result<String, SectionError> {
    let before = headings(text);
    let ending = if lines(text).first().is_some_and(|(_, end)| text.get(*end..).is_some_and(starts_crlf)) {
        "\r\n"
    } else {
        "\n"
    };
    let content = without_blank_edges(content, ending);
    let all: Vec<(u8, &str)> = before.iter().map(Heading::level_and_text).collect();
    let Some((index, heading)) = find(&before, wanted)? else {
        let added_heading = (wanted.level.unwrap_or(NEW_LEVEL), wanted.text.as_str());
        let written = add_section(text, added_heading, &content, ending);
        let kept = keeps_headings(&written, &[all, vec![added_heading]].concat(), &[]);
        return kept.then_some(written).ok_or(SectionError::Spills { level: added_heading.0 });
    };
    let next = before.iter().enumerate().skip(index + 1).find(|(_, other)| other.level <= heading.level);
    let (next, end) = next.map_or((all.len(), text.len()), |(next, heading)| (next, heading.start));
    let written = match mode {
        Mode::Replace => replace_content(text, (heading.end, end), &content, ending),
        Mode::Append => append_content(text, (heading.start, end), &content, ending),
    };
    let (until, after) = (all.get(..=index).unwrap_or_default(), all.get(next..).unwrap_or_default());
    let kept = keeps_headings(&written, until, after);
    kept.then_some(written).ok_or(SectionError::Spills { level: heading.level })
}

/// Which heading is meant: of the level asked for if there is one, else of any.
fn find<'a>(
    headings: &'a [Heading],
    wanted: &SectionHeading,
) -> Result<Option<(usize, &'a Heading)>, SectionError> {
    let named = || headings.iter().enumerate().filter(|(_, heading)| heading.text == wanted.text);
    let exact: Vec<_> = named().filter(|(_, heading)| Some(heading.level) == wanted.level).collect();
    let found = if exact.is_empty() { named().collect() } else { exact };
    match found.as_slice() {
        [] => Ok(None),
        [found] => Ok(Some(*found)),
        several => Err(SectionError::Ambiguous(several.iter().map(|(_, heading)| heading.line).collect())),
    }
}

fn replace_content(text: &str, (heading_end, end): (usize, usize), content: &str, ending: &str) -> String {
    let (head, tail) = (text.get(..heading_end).unwrap_or_default(), text.get(end..).unwrap_or_default());
    let gap = if tail.is_empty() { "" } else { ending };
    let body = if content.is_empty() { String::new() } else { format!("{ending}{content}{ending}") };
    format!("{head}{ending}{body}{gap}{tail}")
}

/// Puts the content behind the last line that is not blank; nothing that was there changes.
fn append_content(text: &str, (start, end): (usize, usize), content: &str, ending: &str) -> String {
    if content.is_empty() {
        return text.to_owned();
    }
    let section = text.get(start..end).unwrap_or_default();
    let spoken = lines(section).into_iter().rev();
    let last = spoken.map(|(from, to)| (section.get(from..to).unwrap_or_default(), to));
    let at = start + last.into_iter().find(|(line, _)| !line.trim().is_empty()).map_or(0, |(_, to)| to);
    let (head, tail) = (text.get(..at).unwrap_or_default(), text.get(at..).unwrap_or_default());
    let blank = end.saturating_sub(at);
    let breaks = lines(tail.get(..blank).unwrap_or_default()).len();
    let needed = if end < text.len() { 2 } else { 1 };
    let gap = if breaks < needed { ending } else { "" };
    format!("{head}{ending}{ending}{content}{gap}{tail}")
}

fn add_section(text: &str, (level, heading): (u8, &str), content: &str, ending: &str) -> String {
    let gap = match text {
        "" => String::new(),
        whole if whole.ends_with(['\n', '\r']) => ending.to_owned(),
        _ => ending.repeat(2),
    };
    let marks = "#".repeat(level.into());
    let body = if content.is_empty() { String::new() } else { format!("{ending}{content}{ending}") };
    format!("{text}{gap}{marks} {heading}{ending}{body}")
}

/// Whether the headings are still these at the beginning and these at the end, with only deeper ones between. A fence
/// that is not closed would swallow what follows it.
fn keeps_headings(written: &str, first: &[(u8, &str)], last: &[(u8, &str)]) -> bool {
    let now = headings(written);
    let now: Vec<(u8, &str)> = now.iter().map(Heading::level_and_text).collect();
    let Some(between) = now.len().checked_sub(first.len() + last.len()) else { return false };
    let level = first.last().map_or(0, |(level, _)| *level);
    let deeper = now.iter().skip(first.len()).take(between).all(|(other, _)| *other > level);
    deeper && now.starts_with(first) && now.ends_with(last)
}

/// The content without blank lines around it, with the file's line breaks.
fn without_blank_edges(content: &str, ending: &str) -> String {
    let plain = content.replace("\r\n", "\n").replace('\r', "\n");
    let first = plain.find(|c: char| !c.is_whitespace()).unwrap_or(plain.len());
    let start = plain.get(..first).and_then(|blank| blank.rfind('\n')).map_or(0, |line| line + 1);
    plain.get(start..).unwrap_or_default().trim_end().replace('\n', ending)
}

/// The level and the text of `## Text ##`, or the text alone.
fn read_heading(line: &str) -> (Option<u8>, String) {
    let line = line.trim_start_matches(BYTE_ORDER_MARK).trim();
    let rest = line.trim_start_matches('#');
    let marks = line.len() - rest.len();
    let marked = (1..=MAX_LEVEL).contains(&marks) && (rest.is_empty() || rest.starts_with([' ', '\t']));
    let text = if marked { rest.trim() } else { line };
    let open = text.trim_end_matches('#');
    let closed = open.is_empty() || open.len() < text.len() && open.ends_with([' ', '\t']);
    let text = if closed { open.trim_end() } else { text };
    (u8::try_from(marks).ok().filter(|_| marked), text.to_owned())
}

/// The text of a heading that is underlined, its lines in one.
fn without_underline(written: &str) -> String {
    let mut lines: Vec<&str> = lines(written)
        .into_iter()
        .filter_map(|(start, end)| written.get(start..end))
        .map(str::trim)
        .collect();
    lines.pop();
    lines.join(" ")
}

/// Returns the place at which each line begins, and that at which it ends before its line break: `\n`, `\r\n` or `\r`,
/// as Markdown has it.
fn lines(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut lines = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let rest = bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
        let end = start + length;
        lines.push((start, end));
        let broken = text.get(end..).is_some_and(starts_crlf);
        start = end + if broken { 2 } else { 1 };
    }
    lines
}

fn starts_crlf(text: &str) -> bool {
    text.starts_with("\r\n")
}
