//! Configuration text as typed values, or a [`Problem`] that says where it is wrong and what to write instead.
//!
//! The shape of a file is a serde type with `deny_unknown_fields`. A field names its bounds in `deserialize_with`, by the
//! functions of [`bounds`]. A value whose bounds are only known later is read inside [`Spanned`] and checked by a method
//! of [`FileText`].

pub mod bounds;
mod serde_text;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::{Bound, Range, RangeBounds, RangeInclusive};
use std::path::{Path, PathBuf};

use bounds::WholeNumber;
use serde::Serialize;
use serde::de::DeserializeOwned;
pub use serde_text::did_you_mean;
pub use toml::Spanned;

/// A configuration or prompt file larger than this is a mistake, not a long prompt.
pub const MAX_FILE_BYTES: u64 = 256 * 1024;

/// A problem with a file, for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, or the environment variable, that holds the mistake.
    pub file: PathBuf,
    /// From 1; none when the whole file is meant.
    pub line: Option<usize>,
    /// From 1, in characters.
    pub column: Option<usize>,
    pub message: String,
    /// The remedy: a text to write instead.
    pub remedy: String,
}

impl Problem {
    /// A problem with a file as a whole.
    pub fn of(file: &Path, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, column: None, message: message.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for Problem {}

/// Reads a file of at most [`MAX_FILE_BYTES`]. `if_missing` is the remedy when there is none.
pub fn read_file(file: &Path, if_missing: &str) -> Result<String, Problem> {
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => {
            let message = format!("the file is larger than {} KiB", MAX_FILE_BYTES / 1024);
            Err(Problem::of(file, message, "shorten it"))
        }
        Ok(_) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Problem::of(file, "there is no such file", if_missing))
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(Problem::of(file, "the file is not UTF-8 text", "save it as UTF-8"))
        }
        Err(error) => {
            Err(Problem::of(file, format!("cannot be read: {error}"), "check the path and its permissions"))
        }
    }
}

/// The files of a folder with this extension, by name; none where there is no such folder. `remedy` is for a folder that
/// cannot be read.
pub(crate) fn files_in(folder: &Path, extension: &str, remedy: &str) -> Result<Vec<PathBuf>, Problem> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let unreadable = |error: std::io::Error| Problem::of(folder, format!("cannot be read: {error}"), remedy);
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A file's text, able to point into itself.
#[derive(Debug, Clone, Copy)]
pub struct FileText<'a> {
    pub file: &'a Path,
    pub text: &'a str,
}

impl FileText<'_> {
    /// TOML text as a value, or the problem with its place.
    pub fn toml<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        toml::from_str(self.text).map_err(|error| match bounds::refusal_in(&error) {
            Some(refusal) => {
                let span = refusal.span.or(error.span()).unwrap_or(0..0);
                self.problem(span, refusal.message, refusal.remedy)
            }
            None => {
                let span = error.span().unwrap_or(0..0);
                let (message, remedy) = serde_text::explain(error.message(), self.key_before(span.start));
                self.problem(span, message, remedy)
            }
        })
    }

    /// A problem at a span of the text, as [`Spanned::span`] gives it.
    pub fn problem(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        let (line, column) = self.place(span.start);
        Problem { line: Some(line), column: Some(column), ..Problem::of(self.file, message, remedy) }
    }

    /// Line and column, from 1, of a byte offset.
    pub fn place(&self, offset: usize) -> (usize, usize) {
        let before = self.text_before(offset);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        (before.matches('\n').count() + 1, column)
    }

    /// A whole number within `range`, or a duration in seconds; `field` is its full name, such as `loop.max_steps`.
    pub fn whole_number<N: WholeNumber>(
        &self,
        field: &str,
        value: Option<Spanned<i64>>,
        range: RangeInclusive<i64>,
    ) -> Result<Option<N>, Problem> {
        let Some(value) = value else { return Ok(None) };
        let number = Some(*value.get_ref()).filter(|number| range.contains(number));
        let Some(number) = number.and_then(N::from_whole) else {
            let remedy = format!("write a whole number from {} to {}", range.start(), range.end());
            return Err(self.problem(value.span(), format!("{field} is {}", value.get_ref()), remedy));
        };
        Ok(Some(number))
    }

    /// A number from `lower` to `upper`, which NaN never is.
    pub fn number(
        &self,
        field: &str,
        value: Option<Spanned<f64>>,
        lower: Bound<f64>,
        upper: f64,
    ) -> Result<Option<f64>, Problem> {
        let Some(value) = value else { return Ok(None) };
        if (lower, Bound::Included(upper)).contains(value.get_ref()) {
            return Ok(Some(*value.get_ref()));
        }
        let remedy = match lower {
            Bound::Included(lower) => format!("write a number from {lower} to {upper}"),
            Bound::Excluded(lower) => format!("write a number above {lower}, at most {upper}"),
            Bound::Unbounded => format!("write a number of at most {upper}"),
        };
        Err(self.problem(value.span(), format!("{field} is {}", value.get_ref()), remedy))
    }

    /// A text that says something.
    pub fn text(&self, field: &str, value: Option<Spanned<String>>) -> Result<Option<String>, Problem> {
        match value {
            Some(value) if value.get_ref().trim().is_empty() => {
                Err(self.problem(value.span(), format!("{field} is empty"), bounds::EMPTY_REMEDY))
            }
            value => Ok(value.map(Spanned::into_inner)),
        }
    }

    /// The key whose value starts at `offset`, when it stands on the same line.
    fn key_before(&self, offset: usize) -> Option<&str> {
        let line = self.text_before(offset).rsplit('\n').next()?;
        line.trim_end().strip_suffix('=').map(str::trim).filter(|key| !key.is_empty())
    }

    fn text_before(&self, offset: usize) -> &str {
        self.text.get(..offset).unwrap_or(self.text)
    }
}
