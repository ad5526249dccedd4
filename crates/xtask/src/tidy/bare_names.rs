//! Words that say nothing by themselves are no name of a function, a method or a module.
//!
//! A file is a module, so its name is checked where the module is declared.

use super::Finding;
use crate::source::{DeclaredName, SourceFile, SourceTree};

const BARE: &[&str] = &[
    "asked", "deeds", "desk", "edge", "found", "given", "gone", "held", "here", "instead", "it", "kept",
    "known", "meant", "named", "once", "outside", "pace", "said", "seen", "shelf", "theirs", "them", "there",
    "told", "wanted", "which", "who", "whole", "whose",
];
const REMEDY: &str = "name it after what it is or does, with a noun of the glossary";

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let functions = file.rust.function_names.iter().map(|name| ("function", name));
        let modules = file.rust.modules.iter().map(|module| ("module", &module.declaration));
        let bare = functions.chain(modules).filter(|(_, name)| is_bare(&name.name));
        findings.extend(
            bare.filter(|(_, name)| !file.is_test_line(name.line))
                .map(|(kind, name)| finding(file, kind, name)),
        );
    }
    findings
}

fn is_bare(name: &str) -> bool {
    BARE.contains(&name)
}

fn finding(file: &SourceFile, kind: &str, name: &DeclaredName) -> Finding {
    let what = format!("the {kind} `{}` has a name that says nothing by itself", name.name);
    Finding::new(&file.path, name.line, what, REMEDY)
}
