//! All problems of a folder: every part that can be read is checked, even when another part is broken.

use serde::de::DeserializeOwned;

use crate::source::{FileText, Problem};

/// More problems are no help to the reader.
const MAX_PROBLEMS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl Problems {
    /// The value that was read. A failure gives the default, and its reason is kept.
    pub(super) fn value_or_default<T: Default>(&mut self, read: Result<T, impl Into<Problems>>) -> T {
        read.unwrap_or_else(|wrong| {
            self.0.extend(wrong.into().0);
            self.0.truncate(MAX_PROBLEMS);
            T::default()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, if there was no problem.
    pub(super) fn into_result<T>(self, made: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(made) } else { Err(self) }
    }

    /// In the order of the files and their lines.
    pub(super) fn sorted(mut self) -> Vec<Problem> {
        self.0.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        self.0.dedup();
        self.0
    }
}

/// The text as a value, without the tables that do not fit; what is wrong with each of them is kept. Where the keys before
/// the first table, or the text as TOML, are wrong, there is nothing.
pub(super) fn tables<T: DeserializeOwned + Default>(source: &FileText<'_>, problems: &mut Problems) -> T {
    let mut text = source.text.to_owned();
    for _ in 0..MAX_PROBLEMS {
        let problem = match (FileText { file: source.file, text: &text }).toml() {
            Ok(value) => return value,
            Err(problem) => problem,
        };
        let line = problem.line.unwrap_or_default();
        problems.value_or_default::<()>(Err(problem));
        match without_table(&text, line).filter(|text| text.parse::<toml::Table>().is_ok()) {
            Some(rest) => text = rest,
            None => break,
        }
    }
    T::default()
}

/// The text with the table that a line is in made blank, so that every other line stays where it is.
fn without_table(text: &str, line: usize) -> Option<String> {
    text.parse::<toml::Table>().ok()?;
    let lines: Vec<&str> = text.split('\n').collect();
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let first = lines.get(..line)?.iter().rposition(is_header)?;
    let next = lines.iter().skip(line).position(is_header).map_or(lines.len(), |after| line + after);
    let blank = |(index, line): (usize, &&str)| {
        if (first..next).contains(&index) { " ".repeat(line.len()) } else { (*line).to_owned() }
    };
    Some(lines.iter().enumerate().map(blank).collect::<Vec<_>>().join("\n"))
}
