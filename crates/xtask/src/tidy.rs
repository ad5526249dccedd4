//! The house rules no compiler knows, checked over the files of the repository.
//!
//! Rust files are read as tokens, so a word in a comment or in a string is never mistaken for code.

mod bare_names;
pub(crate) mod cycles;
mod machine;
mod patches;
mod rooms;
mod sentences;
mod sizes;
mod test_places;
#[cfg(test)]
mod tests;
pub(crate) mod type_names;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use crate::source::{RustFile, SourceFile, SourceTree, relative_path};

/// Names that hold nothing of ours. `data` is one only at the root.
const SKIPPED: &[&str] = &[".git", "target", "node_modules"];

/// One thing to put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the root, with forward slashes.
    path: String,
    line: usize,
    what: String,
    remedy: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.remedy)
    }
}

/// Checks every file under `root`. An empty list means that all is in order.
pub(crate) fn check(root: &Path) -> Vec<Finding> {
    let (mut findings, tree) = check_files(root);
    findings.extend(check_tree(&tree));
    findings.extend(patches::check(root, &tree));
    findings
}

/// The rules that look at all files together.
fn check_tree(tree: &SourceTree) -> Vec<Finding> {
    [bare_names::check(tree), cycles::check(tree), test_places::check(tree), type_names::check(tree)].concat()
}

/// The rules that look at one file, and all that was read.
fn check_files(root: &Path) -> (Vec<Finding>, SourceTree) {
    let members = members(root);
    let (mut findings, mut sources) = (Vec::new(), Vec::new());
    for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_ours) {
        let entry = match entry {
            Ok(entry) if entry.file_type().is_file() => entry,
            Ok(_) => continue,
            Err(error) => {
                let what = format!("cannot walk the repository: {error}");
                findings.push(Finding::new("", 0, what, "look why"));
                continue;
            }
        };
        let path = relative_path(root, entry.path());
        match std::fs::read(entry.path()).map(String::from_utf8) {
            Ok(Ok(text)) => {
                let (wrong, rust) = check_file(&path, &text, &members);
                findings.extend(wrong);
                sources.extend(rust.and_then(|rust| SourceFile::new(&path, rust)));
            }
            Ok(Err(_)) => {} // an image or the like, which has no rules
            Err(error) => {
                findings.push(Finding::new(&path, 0, format!("cannot be read: {error}"), "look why"))
            }
        }
    }
    (findings, SourceTree::new(sources))
}

/// Returns the findings in a file, and the file if it is Rust.
fn check_file(path: &str, text: &str, members: &BTreeSet<String>) -> (Vec<Finding>, Option<RustFile>) {
    let mut findings = machine::check(path, text);
    if rooms::is_manifest(path) {
        findings.extend(rooms::check(path, text, members));
    }
    if !path.ends_with(".rs") {
        return (findings, None);
    }
    findings.extend(sizes::check_text(path, text));
    match RustFile::parse(path, text) {
        Ok(file) => {
            findings.extend(sizes::check_functions(path, &file));
            findings.extend(words::check(path, text, &file));
            findings.extend(sentences::check(path, text, &file));
            (findings, Some(file))
        }
        Err(error) => {
            findings.push(Finding::new(path, 1, format!("does not parse: {error}"), "make it compile"));
            (findings, None)
        }
    }
}

/// The names of the crates there are.
fn members(root: &Path) -> BTreeSet<String> {
    let folders = root.join("crates").read_dir().into_iter().flatten().flatten();
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_ours(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let skipped = SKIPPED.contains(&name.as_ref());
    let data = entry.depth() == 1 && name == "data";
    !skipped && !data
}
