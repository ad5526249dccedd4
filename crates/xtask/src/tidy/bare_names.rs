//! Words that say nothing by themselves are no name of a function, a method or a module. Everyday phrases are no part of
//! such a name.
//!
//! A file is a module, so its name is checked where the module is declared.

use super::Finding;
use crate::source::{DeclaredName, SourceFile, SourceTree};

const BARE: &[&str] = &[
    "about", "absent", "alike", "alone", "apart", "around", "asked", "away", "before", "behind", "beside",
    "deeds", "desk", "edge", "existing", "found", "given", "gone", "held", "here", "instead", "it", "joined",
    "kept", "known", "learned", "lonely", "meant", "missed", "named", "obey", "offered", "once", "outside",
    "pace", "packed", "plucked", "retold", "said", "seen", "served", "shelf", "squeezed", "theirs", "them",
    "there", "told", "untaken", "untaught", "wanted", "which", "who", "whole", "whose", "within", "yielding",
];
const REMEDY: &str = "name it after what it is or does, with a noun of the glossary";

/// Everyday phrases, each with the words that name the operation.
const PHRASES: &[(&str, &str)] = &[
    ("take_back", "`undo`, `withdraw` or `revoke`"),
    ("takes_back", "`undoes`, `withdraws` or `revokes`"),
    ("let_go", "`release`, `remove` or `close`"),
    ("look_after", "`maintain`, `keep` or the noun of the duty"),
];

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let functions = file.rust.function_names.iter().map(|name| ("function", name));
        let modules = file.rust.modules.iter().map(|module| ("module", &module.declaration));
        let names = functions.chain(modules).filter(|(_, name)| !file.is_test_line(name.line));
        findings.extend(names.filter_map(|(kind, name)| check_name(file, kind, name)));
    }
    findings
}

fn check_name(file: &SourceFile, kind: &str, name: &DeclaredName) -> Option<Finding> {
    let finding = |what: String, remedy: &str| Finding::new(&file.path, name.line, what, remedy);
    if is_bare(&name.name) {
        let what = format!("the {kind} `{}` has a name that says nothing by itself", name.name);
        return Some(finding(what, REMEDY));
    }
    let (phrase, instead) = PHRASES.iter().find(|(phrase, _)| has_phrase(&name.name, phrase))?;
    let what = format!("the name of the {kind} `{}` has the everyday phrase `{phrase}`", name.name);
    Some(finding(what, &format!("write what the {kind} does, such as {instead}")))
}

fn is_bare(name: &str) -> bool {
    BARE.contains(&name)
}

/// Whether the name has the phrase as whole words.
fn has_phrase(name: &str, phrase: &str) -> bool {
    format!("_{name}_").contains(&format!("_{phrase}_"))
}
