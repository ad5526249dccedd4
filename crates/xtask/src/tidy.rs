//! The house rules no compiler knows, checked over the files of the repository.
//!
//! Rust files are read as tokens, so a word in a comment or in a string is never mistaken for code.

mod machine;
mod rooms;
mod rust;
mod sizes;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use rust::RustFile;

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
    let members = members(root);
    let mut findings = Vec::new();
    for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_ours) {
        let entry = match entry {
            Ok(entry) if entry.file_type().is_file() => entry,
            Ok(_) => continue,
            Err(error) => {
                findings.push(Finding::new(
                    "",
                    0,
                    format!("cannot walk the repository: {error}"),
                    "look why",
                ));
                continue;
            }
        };
        let path = relative(root, entry.path());
        match std::fs::read(entry.path()) {
            // What is not text is an image or the like, and has no rules.
            Ok(bytes) => findings
                .extend(String::from_utf8(bytes).iter().flat_map(|text| check_file(&path, text, &members))),
            Err(error) => {
                findings.push(Finding::new(&path, 0, format!("cannot be read: {error}"), "look why"))
            }
        }
    }
    findings
}

fn check_file(path: &str, text: &str, members: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = machine::check(path, text);
    if path.ends_with(".rs") {
        findings.extend(sizes::check_text(path, text));
        match RustFile::parse(path, text) {
            Ok(file) => {
                findings.extend(sizes::check_functions(path, &file));
                findings.extend(words::check(path, &file));
            }
            Err(error) => {
                findings.push(Finding::new(path, 1, format!("does not parse: {error}"), "make it compile"))
            }
        }
    }
    if rooms::is_manifest(path) {
        findings.extend(rooms::check(path, text, members));
    }
    findings
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

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
