//! A sentence of a comment begins with its subject, so that a reader understands it without the sentences around it.
//!
//! Questions may begin with any word. Comments behind code in the same line are not read.

use super::Finding;
use crate::source::RustFile;

/// Words that name no subject.
const VAGUE: &[&str] = &["What", "Whose", "Those", "Such"];
/// Words that point to a text which a reader of documentation may not see.
const VAGUE_IN_DOCS: &[&str] = &["The same"];
const REMEDY: &str =
    "name the subject first: \"The rows that a run writes\", \"Returns the rows that a run writes\"";

/// A paragraph of a comment, or an item of a list in it.
#[derive(Default)]
struct Paragraph {
    is_doc: bool,
    text: String,
    /// Where each line begins in the text, with its number.
    lines: Vec<(usize, usize)>,
}

pub(super) fn check(path: &str, text: &str, file: &RustFile) -> Vec<Finding> {
    // Few files have these words at all.
    if !VAGUE.iter().chain(VAGUE_IN_DOCS).any(|words| text.contains(words)) {
        return Vec::new();
    }
    paragraphs(text, file).iter().flat_map(|paragraph| check_paragraph(path, paragraph)).collect()
}

fn check_paragraph(path: &str, paragraph: &Paragraph) -> Vec<Finding> {
    let of_docs = VAGUE_IN_DOCS.iter().filter(|_| paragraph.is_doc);
    let vague: Vec<&str> = VAGUE.iter().chain(of_docs).copied().collect();
    let mut findings = Vec::new();
    for (at, sentence) in sentences(&paragraph.text) {
        let first = vague.iter().find(|words| begins_with(sentence, words));
        if let Some(words) = first.filter(|_| !is_question(sentence)) {
            let line = paragraph.line_at(at);
            let what = format!("a sentence of a comment begins with \"{words}\"");
            findings.push(Finding::new(path, line, what, REMEDY));
        }
    }
    findings
}

/// The paragraphs of all comments that have lines of their own, without blocks of code.
fn paragraphs(text: &str, file: &RustFile) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let (mut before, mut is_open, mut in_code) = ("", false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let Some((marker, words)) = comment(line).filter(|_| !file.is_code_line(number)) else {
            (before, is_open, in_code) = ("", false, false);
            continue;
        };
        if marker != before {
            (before, is_open, in_code) = (marker, false, false);
        }
        if words.starts_with("```") {
            (is_open, in_code) = (false, !in_code);
        } else if in_code || words.is_empty() {
            is_open = false;
        } else {
            let item = words.strip_prefix("- ").or_else(|| words.strip_prefix("* "));
            if item.is_some() || !is_open {
                paragraphs.push(Paragraph { is_doc: marker != "//", ..Paragraph::default() });
                is_open = true;
            }
            if let Some(paragraph) = paragraphs.last_mut() {
                paragraph.push(number, item.unwrap_or(words).trim_start());
            }
        }
    }
    paragraphs
}

/// The marker of a comment, and its words, if the line begins with one.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    ["///", "//!", "//"].into_iter().find_map(|marker| Some((marker, line.strip_prefix(marker)?.trim())))
}

impl Paragraph {
    fn push(&mut self, number: usize, words: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.lines.push((self.text.len(), number));
        self.text.push_str(words);
    }

    fn line_at(&self, place: usize) -> usize {
        let begun = self.lines.iter().rev().find(|(begin, _)| *begin <= place);
        begun.map_or(0, |(_, number)| *number)
    }
}

/// The sentences of a text, each with its place. A sentence ends at a sign before a blank, or with the text.
fn sentences(text: &str) -> Vec<(usize, &str)> {
    let mut sentences = Vec::new();
    let mut begin = 0;
    for (end, _) in text.match_indices(' ') {
        let Some(sentence) = text.get(begin..end) else { continue };
        if without_closing_signs(sentence).ends_with(['.', '!', '?']) {
            sentences.push((begin, sentence));
            begin = end + 1;
        }
    }
    sentences.extend(text.get(begin..).map(|rest| (begin, rest)));
    sentences
}

fn begins_with(sentence: &str, words: &str) -> bool {
    let rest = sentence.strip_prefix(words);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

fn is_question(sentence: &str) -> bool {
    without_closing_signs(sentence).ends_with('?')
}

fn without_closing_signs(sentence: &str) -> &str {
    sentence.trim_end_matches(['"', '”', ')', '*'])
}
