//! Emphasis, code and links within a line, as pieces of text in a style.

use anstyle::Style;
use comrak::nodes::NodeValue;
use comrak::{Arena, Node, Options};

use super::layout::TextSpan;
use super::{CODE, Look, REMARK};
use crate::terminal_text::printable;

/// Stands before a text, so that its beginning is never read as the mark of a list or a heading. The character has no
/// width.
const GUARD: &str = "\u{2060} ";

/// The text in pieces, each with its style. Without colours, the marks of Markdown are part of the text.
pub(super) fn spans(text: &str, base: Style, look: Look) -> Vec<TextSpan> {
    let mut options = Options::default();
    options.extension.strikethrough = true;
    let arena = Arena::new();
    let root = comrak::parse_document(&arena, &format!("{GUARD}{}", text.trim_start()), &options);
    let mut painter = Painter { look, spans: Vec::new() };
    root.children().for_each(|block| painter.walk(block, base));
    if let Some(first) = painter.spans.first_mut() {
        first.text = first.text.trim_start_matches(['\u{2060}', ' ']).to_owned();
    }
    painter.spans
}

struct Painter {
    look: Look,
    spans: Vec<TextSpan>,
}

impl Painter {
    fn walk(&mut self, node: Node<'_>, style: Style) {
        for child in node.children() {
            let data = child.data();
            self.paint(child, &data.value, style);
        }
    }

    fn paint(&mut self, node: Node<'_>, value: &NodeValue, style: Style) {
        if let NodeValue::Text(text) = value {
            self.push(text, style, false);
        } else if let NodeValue::HtmlInline(html) = value {
            self.push(html, style, false);
        } else if let NodeValue::Code(code) = value {
            self.code(&code.literal);
        } else if let NodeValue::Link(link) | NodeValue::Image(link) = value {
            self.link(node, style, &link.url);
        } else if matches!(value, NodeValue::Strong) {
            self.paint_marked(node, style.bold(), "**");
        } else if matches!(value, NodeValue::Emph) {
            self.paint_marked(node, style.italic(), "*");
        } else if matches!(value, NodeValue::Strikethrough) {
            self.paint_marked(node, style.strikethrough(), "~~");
        } else if matches!(value, NodeValue::SoftBreak | NodeValue::LineBreak) {
            self.push(" ", style, false);
        } else {
            self.walk(node, style);
        }
    }

    /// The text inside of marks: in a style, or else with the marks.
    fn paint_marked(&mut self, node: Node<'_>, style: Style, marks: &str) {
        if self.look.colours {
            return self.walk(node, style);
        }
        self.push(marks, Style::new(), false);
        self.walk(node, Style::new());
        self.push(marks, Style::new(), false);
    }

    fn code(&mut self, code: &str) {
        match self.look.colours {
            true => self.push(code, CODE, true),
            false => self.push(&format!("`{code}`"), Style::new(), true),
        }
    }

    /// The text of a link, and its address unless the text says it.
    fn link(&mut self, node: Node<'_>, style: Style, address: &str) {
        let first = self.spans.len();
        self.walk(node, self.look.style(style.underline()));
        let text: String = self.spans.iter().skip(first).map(|span| span.text.as_str()).collect();
        if !address.is_empty() && text != address && format!("mailto:{text}") != address {
            self.push(&format!(" ({address})"), self.look.style(REMARK), false);
        }
    }

    /// The parser decodes entities, so a control character can come out of it that did not go in.
    fn push(&mut self, text: &str, style: Style, exact: bool) {
        self.spans.push(TextSpan { text: printable(text).into_owned(), style, exact });
    }
}
