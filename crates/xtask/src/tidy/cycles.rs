//! No two top-level modules of a crate import each other.
//!
//! Paths are read off the tokens, those inside of macros included: `crate::a::B`, `super::a`, groups, and names that the
//! root of the crate re-exports from a module. Names behind a `*` are not resolved. Tests may import anything.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::source::{SourceFile, SourceTree, Token};

const REMEDY: &str = "move what both need into a module below them";

/// Two modules that import each other, each with the place of one such import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwoWayPair {
    pub(crate) crate_name: String,
    pub(crate) first: Import,
    pub(crate) second: Import,
}

/// One module uses another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) path: String,
    pub(crate) line: usize,
}

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let finding = |pair: TwoWayPair| {
        let TwoWayPair { first, second, .. } = pair;
        let what = format!(
            "the modules `{}` and `{}` import each other; the other import is {}:{}",
            first.from, first.to, second.path, second.line
        );
        Finding::new(&first.path, first.line, what, REMEDY)
    };
    pairs(tree).into_iter().map(finding).collect()
}

/// All pairs of all crates and programs.
pub(crate) fn pairs(tree: &SourceTree) -> Vec<TwoWayPair> {
    let bases: BTreeSet<&str> = tree.files.iter().map(|file| file.base.as_str()).collect();
    bases.into_iter().flat_map(|base| pairs_of_base(tree, base)).collect()
}

fn pairs_of_base(tree: &SourceTree, base: &str) -> Vec<TwoWayPair> {
    let files: Vec<&SourceFile> = tree.files.iter().filter(|file| file.base == base).collect();
    let exports = Exports::read(&files);
    let mut imports: BTreeMap<(String, String), Import> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let Some(from) = file.module.first() else { continue };
        for (path, line) in paths(file).into_iter().filter(|(_, line)| !file.rust.is_test(*line)) {
            let Some(to) = exports.top_module(&path).filter(|to| to != from) else { continue };
            let import = Import { from: from.clone(), to: to.clone(), path: file.path.clone(), line };
            imports.entry((from.clone(), to)).or_insert(import);
        }
    }
    let crate_name = files.first().map(|file| file.crate_name.clone()).unwrap_or_default();
    let there = imports.iter().filter(|((from, to), _)| from < to);
    let both =
        there.filter_map(|((from, to), first)| Some((first, imports.get(&(to.clone(), from.clone()))?)));
    both.map(|(first, second)| TwoWayPair {
        crate_name: crate_name.clone(),
        first: first.clone(),
        second: second.clone(),
    })
    .collect()
}

/// The top-level modules of a crate, and which of them a name at its root comes from.
struct Exports {
    modules: BTreeSet<String>,
    names: BTreeMap<String, String>,
}

impl Exports {
    fn read(files: &[&SourceFile]) -> Self {
        let modules: BTreeSet<String> =
            files.iter().filter_map(|file| file.module.first().cloned()).collect();
        let mut names = BTreeMap::new();
        for root in files.iter().filter(|file| file.module.is_empty()) {
            for used in root_uses(root) {
                let UsedPath { path, name } = used;
                if let Some(module) = path.first().filter(|module| modules.contains(*module)) {
                    names.insert(name, module.clone());
                }
            }
        }
        Self { modules, names }
    }

    /// The top-level module that a path from the root leads to.
    fn top_module(&self, path: &[String]) -> Option<String> {
        let first = path.first()?;
        if self.modules.contains(first) { Some(first.clone()) } else { self.names.get(first).cloned() }
    }
}

/// A path that a `use` names, and the name that it gets.
struct UsedPath {
    path: Vec<String>,
    name: String,
}

/// The paths in the `use` items of the root of a crate.
fn root_uses(root: &SourceFile) -> Vec<UsedPath> {
    let tokens = &root.rust.tokens;
    let mut uses = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text == "use" {
            let mut reader = PathReader { tokens, at: at + 1 };
            let mut prefix = Vec::new();
            reader.tree(&mut prefix, &mut uses);
        }
    }
    for used in &mut uses {
        used.path.retain(|segment| segment != "crate" && segment != "self");
    }
    uses
}

/// Every path that begins at the root of the crate or is relative to its module, as a path from the root, with its line.
fn paths(file: &SourceFile) -> Vec<(Vec<String>, usize)> {
    let tokens = &file.rust.tokens;
    let mut paths = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_start =
            matches!(token.text.as_str(), "crate" | "super" | "self") && is_separator(tokens, at + 1);
        // `super::super` is one path.
        let is_within = at.checked_sub(2).is_some_and(|before| is_separator(tokens, before));
        if !is_start || is_within || is_visibility(tokens, at) {
            continue;
        }
        let mut used = Vec::new();
        PathReader { tokens, at }.tree(&mut Vec::new(), &mut used);
        let mut here: Vec<String> = file.module.clone();
        here.extend(file.rust.modules_around(token.line).map(str::to_owned));
        paths.extend(used.into_iter().map(|used| (absolute_path(&here, used.path), token.line)));
    }
    paths
}

/// A path as it is written in a module, from the root of the crate.
fn absolute_path(module: &[String], path: Vec<String>) -> Vec<String> {
    let mut from: Vec<String> = module.to_vec();
    for segment in path {
        match segment.as_str() {
            "crate" => from.clear(),
            "super" => drop(from.pop()),
            "self" => {}
            _ => from.push(segment),
        }
    }
    from
}

/// Whether this is the path of a `pub(in crate::a)`, which imports nothing.
fn is_visibility(tokens: &[Token], at: usize) -> bool {
    let before = at.checked_sub(3).and_then(|first| tokens.get(first..at)).unwrap_or_default();
    before.iter().map(|token| token.text.as_str()).eq(["pub", "(", "in"])
}

/// Whether two colons begin at this token.
fn is_separator(tokens: &[Token], at: usize) -> bool {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| token.text == ":");
    is_colon(at) && is_colon(at + 1)
}

/// Reads a path, or the tree of paths of a `use`.
struct PathReader<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl PathReader<'_> {
    /// Adds every path of the tree that begins here.
    fn tree(&mut self, prefix: &mut Vec<String>, uses: &mut Vec<UsedPath>) {
        let depth = prefix.len();
        while let Some(token) = self.tokens.get(self.at) {
            if token.text == "{" {
                self.group(prefix, uses);
                break;
            }
            if !is_word(&token.text) {
                // `a::*` and `a::f::<T>` lead to `a` all the same.
                if prefix.len() > depth {
                    uses.push(UsedPath { path: prefix.clone(), name: token.text.clone() });
                }
                break;
            }
            prefix.push(token.text.clone());
            self.at += 1;
            if is_separator(self.tokens, self.at) {
                self.at += 2;
                continue;
            }
            let name = self.new_name().unwrap_or_else(|| prefix.last().cloned().unwrap_or_default());
            uses.push(UsedPath { path: prefix.clone(), name });
            break;
        }
        prefix.truncate(depth);
    }

    fn group(&mut self, prefix: &mut Vec<String>, uses: &mut Vec<UsedPath>) {
        self.at += 1;
        while let Some(token) = self.tokens.get(self.at) {
            match token.text.as_str() {
                "}" => {
                    self.at += 1;
                    return;
                }
                "," | "*" => self.at += 1,
                _ => {
                    let before = self.at;
                    self.tree(prefix, uses);
                    if self.at == before {
                        return; // no tree of a `use`
                    }
                }
            }
        }
    }

    /// The name behind `as`.
    fn new_name(&mut self) -> Option<String> {
        self.tokens.get(self.at).filter(|token| token.text == "as")?;
        let name = self.tokens.get(self.at + 1)?.text.clone();
        self.at += 2;
        Some(name)
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
