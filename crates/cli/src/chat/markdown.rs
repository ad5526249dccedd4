//! Markdown on a terminal while it streams. Text appears as soon as nothing that follows can change its look: a word of a
//! paragraph when it is complete, a line of code when it ends, a table when all its rows are there. Nothing that is on the
//! screen is ever written again.

mod inline;
mod layout;
mod open_marks;
mod table;
#[cfg(test)]
mod tests;

use anstyle::{AnsiColor, Style};

use layout::LineWriter;
use open_marks::settled_bytes;

/// Spaces before a line of code.
const CODE_INDENT: &str = "  ";

/// Columns of a thematic break, and of the spaces before a nested list at most.
const MAX_RULE_COLUMNS: usize = 40;
const MAX_INDENT_COLUMNS: usize = 24;

/// Columns of a line of text at most: longer lines are hard to read.
const MAX_TEXT_COLUMNS: usize = 100;

/// Digits of a number before an item of a list.
const MAX_NUMBER_DIGITS: usize = 9;

/// How texts look on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Whether colours and emphasis are shown. Otherwise the marks of Markdown stay where they are.
    pub(super) colours: bool,
    /// The width of the terminal.
    pub(super) columns: usize,
}

impl Look {
    /// The style, where styles are shown.
    pub(super) fn style(self, style: Style) -> Style {
        if self.colours { style } else { Style::new() }
    }

    /// The text in a style.
    pub(super) fn paint(self, style: Style, text: &str) -> String {
        let style = self.style(style);
        format!("{}{text}{}", style.render(), style.render_reset())
    }

    fn text_columns(self) -> usize {
        self.columns.min(MAX_TEXT_COLUMNS)
    }
}

/// Remarks beside an answer.
pub(super) const REMARK: Style = Style::new().dimmed();

const CODE: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));

/// A text that streams in pieces.
pub(super) struct MarkdownStream {
    look: Look,
    /// The line of the source that is not complete.
    line: String,
    /// Set while a part of that line is on the screen.
    open: Option<OpenLine>,
    /// Set inside a block of code.
    fence: Option<CodeFence>,
    /// Rows that may become a table.
    rows: Vec<String>,
}

/// A line of text on the screen.
struct OpenLine {
    /// Bytes of the source line that are shown.
    shown: usize,
    /// The style of text without marks.
    base: Style,
    writer: LineWriter,
}

/// The opening fence of a block of code.
struct CodeFence {
    mark: char,
    marks: usize,
}

impl MarkdownStream {
    pub(super) fn new(look: Look) -> Self {
        Self { look, line: String::new(), open: None, fence: None, rows: Vec::new() }
    }

    /// Whether the cursor is at the beginning of a line.
    pub(super) fn is_at_line_start(&self) -> bool {
        self.open.is_none()
    }

    /// Takes a piece of the text, and returns all that can be shown now.
    pub(super) fn feed(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for part in piece.split_inclusive('\n') {
            match part.strip_suffix('\n') {
                Some(part) => {
                    self.line.push_str(part);
                    self.end_line(&mut out);
                }
                None => {
                    self.line.push_str(part);
                    self.advance(&mut out);
                }
            }
        }
        out
    }

    /// Ends the text, and returns the rest of it. The cursor is then at the beginning of a line.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        if !self.line.is_empty() {
            self.end_line(&mut out);
        }
        self.end_table(&mut out);
        self.fence = None;
        out
    }

    /// Shows what is certain of a line that is not complete.
    fn advance(&mut self, out: &mut String) {
        if self.fence.is_some() {
            return;
        }
        if self.open.is_none() {
            if is_whole_line_needed(&self.line) {
                return;
            }
            self.open_line(out);
        }
        self.write(settled_bytes, out);
    }

    fn end_line(&mut self, out: &mut String) {
        if let Some(fence) = &self.fence {
            if fence.is_closed_by(&self.line) {
                self.fence = None;
            } else {
                let code = self.look.paint(CODE, self.line.trim_end());
                out.extend([CODE_INDENT, &code, "\n"]);
            }
        } else if self.open.is_none() && self.line.trim_start().starts_with('|') {
            self.rows.push(std::mem::take(&mut self.line));
        } else {
            self.end_text(out);
        }
        self.line.clear();
        self.open = None;
    }

    fn end_text(&mut self, out: &mut String) {
        if self.open.is_none() {
            self.end_table(out);
            if let Some((fence, language)) = CodeFence::open(&self.line) {
                if !language.is_empty() {
                    let language = self.look.paint(REMARK, &language);
                    out.extend([CODE_INDENT, &language, "\n"]);
                }
                self.fence = Some(fence);
                return;
            }
            if is_rule(&self.line) {
                out.push_str(&"─".repeat(self.look.columns.min(MAX_RULE_COLUMNS)));
            } else if !self.line.trim().is_empty() {
                self.open_line(out);
            }
        }
        self.write(str::len, out);
        out.push('\n');
    }

    /// Shows what is before the text of a line: the mark of a quotation or of a list.
    fn open_line(&mut self, out: &mut String) {
        self.end_table(out);
        let (prefix, text) = LinePrefix::of(&self.line);
        let heading = heading_marks(text).filter(|_| prefix.marker.is_empty() && self.look.colours);
        let base = if heading.is_some() { Style::new().bold() } else { Style::new() };
        let writer = LineWriter::begin(&prefix, self.look.text_columns(), out);
        let shown = self.line.len() - text.len() + heading.unwrap_or_default();
        self.open = Some(OpenLine { shown, base, writer });
    }

    /// Shows more of the open line; `ready` says how many bytes of the rest.
    fn write(&mut self, ready: impl FnOnce(&str) -> usize, out: &mut String) {
        let Some(open) = &mut self.open else { return };
        let rest = self.line.get(open.shown..).unwrap_or_default();
        let text = rest.get(..ready(rest)).unwrap_or_default();
        if !text.is_empty() {
            open.writer.write(&inline::spans(text, open.base, self.look), text, out);
            open.shown += text.len();
        }
    }

    fn end_table(&mut self, out: &mut String) {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return;
        }
        match table::table(&rows, self.look) {
            Some(table) => out.push_str(&table),
            None => rows.iter().for_each(|row| out.extend([row.as_str(), "\n"])),
        }
    }
}

impl CodeFence {
    /// The fence that a line opens, and the language of the code.
    fn open(line: &str) -> Option<(Self, String)> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let language = line.trim_start_matches(mark);
        let marks = line.len() - language.len();
        (marks >= 3 && !language.contains('`')).then(|| (Self { mark, marks }, language.trim().to_owned()))
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.marks && line.chars().all(|mark| mark == self.mark)
    }
}

/// The signs before the text of a line.
#[derive(Debug, PartialEq, Eq)]
struct LinePrefix {
    /// The marks of quotations, and the spaces of a nested list.
    indent: String,
    /// The mark of an item of a list.
    marker: String,
}

impl LinePrefix {
    /// The prefix of a line, and the text after it.
    fn of(line: &str) -> (Self, &str) {
        let (mut indent, mut rest) = (String::new(), line);
        while let Some(inner) = rest.trim_start().strip_prefix('>') {
            indent.push_str("│ ");
            rest = inner.strip_prefix(' ').unwrap_or(inner);
        }
        let text = rest.trim_start();
        let spaces = rest.chars().take_while(|c| c.is_whitespace()).map(|c| if c == '\t' { 4 } else { 1 });
        indent.push_str(&" ".repeat(spaces.sum::<usize>().min(MAX_INDENT_COLUMNS)));
        let (marker, text) = list_marker(text).unwrap_or((String::new(), text));
        (Self { indent, marker }, text)
    }
}

/// The mark of an item of a list as it is shown, and the text of the item.
fn list_marker(text: &str) -> Option<(String, &str)> {
    if let Some(item) = text.strip_prefix(['-', '*', '+']) {
        return Some(("• ".to_owned(), item.strip_prefix(' ')?.trim_start()));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) =
        text.split_at_checked(digits).filter(|_| (1..=MAX_NUMBER_DIGITS).contains(&digits))?;
    let item = rest.strip_prefix(['.', ')'])?.strip_prefix(' ')?;
    Some((format!("{number}. "), item.trim_start()))
}

/// Bytes of the marks before the text of a heading.
fn heading_marks(text: &str) -> Option<usize> {
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let is_heading = (1..=6).contains(&level) && text.get(level..).is_some_and(|rest| rest.starts_with(' '));
    is_heading.then_some(level + 1)
}

fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    let Some(first) = marks.next().filter(|first| matches!(first, '-' | '*' | '_')) else { return false };
    let rest: Vec<char> = marks.collect();
    rest.len() >= 2 && rest.iter().all(|mark| *mark == first)
}

/// Whether the beginning of a line does not yet say what the line is: only marks, a fence, or a row of a table.
fn is_whole_line_needed(line: &str) -> bool {
    let text = line.trim_start();
    let only_marks =
        text.chars().all(|c| c.is_whitespace() || c.is_ascii_punctuation() || c.is_ascii_digit());
    only_marks || text.starts_with('|') || text.starts_with("```") || text.starts_with("~~~")
}
