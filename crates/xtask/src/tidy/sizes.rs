//! A file fits in the head, a function on a screen, and both say what they are.

use super::Finding;
use crate::source::RustFile;

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 60;
/// A test tells a story from top to bottom, which splitting would only scatter.
const MAX_TEST_FUNCTION_LINES: usize = 100;
/// Fewer words are a place-holder.
const MIN_DOC_WORDS: usize = 3;

pub(super) fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let doc = text.lines().next().and_then(|line| line.strip_prefix("//!")).unwrap_or_default();
    if doc.split_whitespace().count() < MIN_DOC_WORDS {
        let remedy = "begin the file with `//!` and a sentence on what it is";
        findings.push(Finding::new(path, 1, "the file has no module doc", remedy));
    }
    let lines = text.lines().count();
    if lines > MAX_FILE_LINES {
        let what = format!("the file has {lines} lines, more than {MAX_FILE_LINES}");
        findings.push(Finding::new(path, MAX_FILE_LINES + 1, what, "split it by subject"));
    }
    findings
}

pub(super) fn check_functions(path: &str, file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in &file.functions {
        let test = file.is_test(function.line);
        let max = if test { MAX_TEST_FUNCTION_LINES } else { MAX_FUNCTION_LINES };
        if function.lines > max {
            let what = format!("function `{}` has {} lines, more than {max}", function.name, function.lines);
            findings.push(Finding::new(
                path,
                function.line,
                what,
                "move its steps into functions with names",
            ));
        }
    }
    findings
}
