//! The statements in the source of the store: its strings that begin like one, outside tests.

use std::path::Path;
use std::str::FromStr;

use proc_macro2::{Delimiter, Literal, TokenStream, TokenTree};
use syn::LitStr;

/// A statement as the source has it: its text with gaps where something is filled in.
pub(crate) struct Pattern {
    /// File and line.
    pub(crate) place: String,
    pub(crate) text: String,
    parts: Vec<String>,
}

const VERBS: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"];

pub(crate) fn is_statement(sql: &str) -> bool {
    sql.split_whitespace().next().is_some_and(|verb| VERBS.contains(&verb)) && sql.contains(' ')
}

/// The text with one space wherever there is any.
pub(crate) fn in_a_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Pattern {
    fn new(place: String, literal: &str) -> Self {
        let text = in_a_line(literal);
        let mut parts = vec![String::new()];
        let mut depth = 0;
        for c in text.chars() {
            match c {
                '{' => {
                    depth += 1;
                    parts.push(String::new());
                }
                '}' => depth -= 1,
                c if depth == 0 => parts.iter_mut().last().into_iter().for_each(|part| part.push(c)),
                _ => {}
            }
        }
        let parts = parts.iter().map(|part| part.trim().to_owned()).collect();
        Self { place, text, parts }
    }

    /// Whether this could have become that statement.
    pub(crate) fn matches(&self, sql: &str) -> bool {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else { return false };
        if self.parts.len() == 1 {
            return sql == first;
        }
        let Some(mut rest) =
            sql.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()))
        else {
            return false;
        };
        let middle = self.parts.len().saturating_sub(2);
        for part in self.parts.iter().skip(1).take(middle) {
            let Some((_, after)) = rest.split_once(part.as_str()) else { return false };
            rest = after;
        }
        true
    }
}

/// Folders and files whose statements are performed on PostgreSQL alone, or on both ends of a copy: the part `postgres`
/// of the tests has them.
const LEFT_OUT: &[&str] =
    &["tests", "tests.rs", "postgres", "copy", "copy_ends.rs", "session.rs", "node_log.rs"];

/// Every statement in the files under a folder, but for those that are left out.
pub(crate) fn patterns(folder: &Path) -> Result<Vec<Pattern>, Box<dyn std::error::Error>> {
    let mut patterns = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir()? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let file = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                let tokens = TokenStream::from_str(&std::fs::read_to_string(&path)?)?;
                collect(tokens, &file, &mut patterns);
            }
        }
    }
    patterns.sort_by(|one, other| one.place.cmp(&other.place));
    Ok(patterns)
}

fn collect(tokens: TokenStream, file: &str, patterns: &mut Vec<Pattern>) {
    let (mut is_doc, mut is_test) = (false, false);
    for tree in tokens {
        match tree {
            TokenTree::Group(group) if is_test && group.delimiter() == Delimiter::Brace => is_test = false,
            TokenTree::Group(group) => {
                let is_cfg_test =
                    group.delimiter() == Delimiter::Bracket && group.stream().to_string() == "cfg (test)";
                is_test |= is_cfg_test || group.stream().to_string() == "cfg(test)";
                collect(group.stream(), file, patterns);
            }
            TokenTree::Ident(ident) => is_doc = ident == "doc",
            TokenTree::Punct(punct) => {
                is_test &= punct.as_char() != ';';
                is_doc &= punct.as_char() == '=';
            }
            TokenTree::Literal(literal) => {
                if !is_doc {
                    patterns.extend(statement(&literal, file));
                }
                is_doc = false;
            }
        }
    }
}

fn statement(literal: &Literal, file: &str) -> Option<Pattern> {
    let text = syn::parse_str::<LitStr>(&literal.to_string()).ok()?.value();
    let place = format!("{file}:{:04}", literal.span().start().line);
    is_statement(&text).then(|| Pattern::new(place, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_knows_what_it_has_become() {
        let pattern = Pattern::new(String::new(), "SELECT {COLUMNS} FROM t\n  WHERE {which} ORDER BY id");
        assert!(pattern.matches("SELECT a, b FROM t WHERE 1 ORDER BY id"));
        assert!(!pattern.matches("SELECT a, b FROM t WHERE 1 ORDER BY number"));
        assert!(!pattern.matches("SELECT a, b FROM other WHERE 1 ORDER BY id"));
        assert!(Pattern::new(String::new(), "SELECT 1").matches("SELECT 1"));
        assert!(!Pattern::new(String::new(), "SELECT 1").matches("SELECT 12"));
    }

    #[test]
    fn statements_of_tests_and_words_about_statements_are_left_out() {
        let source = "/// SELECT from nothing\nconst A: &str = \"SELECT 1 FROM a\"; const B: &str = \"selected\";
            #[cfg(test)] mod tests { const C: &str = \"SELECT 1 FROM c\"; } const D: &str = \"DELETE FROM d\";";
        let mut found = Vec::new();
        collect(TokenStream::from_str(source).unwrap(), "f", &mut found);
        let texts: Vec<&str> = found.iter().map(|pattern| pattern.text.as_str()).collect();
        assert_eq!(texts, ["SELECT 1 FROM a", "DELETE FROM d"]);
    }
}
