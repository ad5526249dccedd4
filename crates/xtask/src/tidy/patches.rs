//! Every planted bug is a patch that applies to the code as it is now, uses types that are there, and says which check
//! finds it.

use std::collections::HashSet;
use std::path::Path;

use super::Finding;
use crate::planted;
use crate::source::SourceTree;

pub(super) fn check(root: &Path, tree: &SourceTree) -> Vec<Finding> {
    let bugs = match planted::bugs(root) {
        Ok(bugs) => bugs,
        Err(error) => {
            let what = format!("the planted bugs cannot be read: {error}");
            return vec![Finding::new("crates/torture/planted", 0, what, "look why")];
        }
    };
    let mut findings = Vec::new();
    for bug in bugs.iter().filter(|bug| bug.checks.is_empty()) {
        let remedy = "add a line such as `Found by: O5` above the patch";
        findings.push(Finding::new(&bug.patch, 1, "no check is named that finds the bug", remedy));
    }
    let tokens = tree.files.iter().flat_map(|file| &file.rust.tokens);
    let known: HashSet<&str> =
        tokens.map(|token| token.text.as_str()).filter(|text| is_type_name(text)).collect();
    for bug in &bugs {
        let patch = std::fs::read_to_string(root.join(&bug.patch)).unwrap_or_default();
        findings.extend(unknown_types(&patch, &known).into_iter().map(|(line, name)| {
            let what = format!("the patch uses the type `{name}`, which is in no source");
            Finding::new(&bug.patch, line, what, "give it the name that the type has now")
        }));
    }
    if !bugs.is_empty() && !root.join(".git").exists() {
        println!("NOT RUN: patches of planted bugs: this is no git repository");
        return findings;
    }
    for bug in &bugs {
        match planted::check_patch(root, bug) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => {
                let what = format!("the patch does not apply: {}", why.replace('\n', "; "));
                findings.push(Finding::new(&bug.patch, 1, what, "adapt it to the code as it is now"));
            }
            Err(error) => {
                println!("NOT RUN: patches of planted bugs: git does not run: {error}");
                break;
            }
        }
    }
    findings
}

/// Names of types in the lines that a patch adds, where no source has the name. A type that was renamed leaves the patch
/// applicable, but the patched code does not compile.
fn unknown_types<'p>(patch: &'p str, known: &HashSet<&str>) -> Vec<(usize, &'p str)> {
    let added = (1..).zip(patch.lines()).filter_map(|(number, line)| Some((number, line.strip_prefix('+')?)));
    let is_code = |(_, line): &(usize, &str)| !line.starts_with("++ ");
    let code =
        added.filter(is_code).map(|(number, line)| (number, line.split("//").next().unwrap_or_default()));
    let words = code.flat_map(|(number, line)| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_').map(move |word| (number, word))
    });
    words.filter(|(_, word)| is_type_name(word) && !known.contains(word)).collect()
}

/// Whether a word is written as a type: with a capital first and small letters after it.
fn is_type_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_uppercase()) && word.contains(|c: char| c.is_lowercase())
}
