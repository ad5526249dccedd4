//! Words on lines: text in styles is broken where it would leave the screen.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::LinePrefix;

/// A piece of text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextSpan {
    pub(super) text: String,
    pub(super) style: Style,
    /// Whether each of its spaces counts, as in code.
    pub(super) exact: bool,
}

/// Text without a space inside.
#[derive(Debug, Default)]
pub(super) struct StyledWord {
    /// Spaces before it.
    gap: usize,
    width: usize,
    parts: Vec<(Style, String)>,
}

impl StyledWord {
    fn push(&mut self, c: char, style: Style) {
        self.width += c.width().unwrap_or_default();
        match self.parts.last_mut() {
            Some((last, text)) if *last == style => text.push(c),
            _ => self.parts.push((style, c.to_string())),
        }
    }

    fn paint(&self, out: &mut String) {
        for (style, text) in &self.parts {
            out.push_str(&format!("{}{text}{}", style.render(), style.render_reset()));
        }
    }
}

/// The words of a text. A wide character is a word of its own, because its script writes no spaces.
pub(super) fn words(spans: &[TextSpan]) -> Vec<StyledWord> {
    let mut words: Vec<StyledWord> = Vec::new();
    let (mut gap, mut is_open) = (0_usize, false);
    for span in spans {
        for c in span.text.chars() {
            if c.is_whitespace() {
                gap = if span.exact { gap + 1 } else { gap.max(1) };
                is_open = false;
                continue;
            }
            let is_wide = c.width().is_some_and(|width| width > 1);
            if !is_open || is_wide {
                words.push(StyledWord { gap: std::mem::take(&mut gap), ..StyledWord::default() });
            }
            if let Some(word) = words.last_mut() {
                word.push(c, span.style);
            }
            is_open = !is_wide;
        }
    }
    words
}

/// Columns of the words on one line.
pub(super) fn text_columns(words: &[StyledWord]) -> usize {
    words.iter().enumerate().map(|(place, word)| word.width + if place == 0 { 0 } else { word.gap }).sum()
}

/// The text of a cell in lines of a width, each with its columns.
pub(super) fn cell_lines(words: &[StyledWord], width: usize) -> Vec<(String, usize)> {
    let mut lines: Vec<(String, usize)> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some((line, columns)) if *columns + word.gap + word.width <= width => {
                line.push_str(&" ".repeat(word.gap));
                word.paint(line);
                *columns += word.gap + word.width;
            }
            _ => {
                let mut line = String::new();
                word.paint(&mut line);
                lines.push((line, word.width));
            }
        }
    }
    lines
}

/// Writes the text of one line of the source, which may take several lines on the screen.
pub(super) struct LineWriter {
    width: usize,
    /// Before all lines but the first.
    indent: String,
    /// The column of the cursor.
    column: usize,
    /// Spaces before the next word.
    gap: usize,
    is_begun: bool,
}

impl LineWriter {
    /// Begins a line with its prefix.
    pub(super) fn begin(prefix: &LinePrefix, width: usize, out: &mut String) -> Self {
        let LinePrefix { indent, marker } = prefix;
        out.extend([indent, marker].map(String::as_str));
        let indent = format!("{indent}{}", " ".repeat(marker.width()));
        Self { width, column: indent.width(), indent, gap: 0, is_begun: false }
    }

    /// Writes the next piece of the text, given in styles and as the source has it.
    pub(super) fn write(&mut self, spans: &[TextSpan], source: &str, out: &mut String) {
        if source.starts_with(char::is_whitespace) {
            self.gap = self.gap.max(1);
        }
        for word in words(spans) {
            let gap = if self.is_begun { self.gap.max(word.gap) } else { 0 };
            if self.is_begun && self.column + gap + word.width > self.width {
                out.extend(["\n", &self.indent]);
                self.column = self.indent.width();
            } else {
                out.push_str(&" ".repeat(gap));
                self.column += gap;
            }
            word.paint(out);
            self.column += word.width;
            (self.gap, self.is_begun) = (0, true);
        }
        if source.ends_with(char::is_whitespace) {
            self.gap = 1;
        }
    }
}
