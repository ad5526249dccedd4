//! The table of clients and features in `docs/clients.md`, which is made of what the tests have found.
//!
//! Tests write a file for each feature of each client into `target/client-results`. A protocol is a section of the page. A
//! section is compared when there are results for it, so a part of the tests compares its own sections.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

const PAGE: &str = "docs/clients.md";
const RESULTS: &str = "target/client-results";

/// Names of protocols and features, in the order of the page.
const FEATURES: &str = "crates/cli/tests/protocols/features.json";

/// Whether the page is compared or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatrixAct {
    Compare,
    Write,
}

/// Forgets results of these protocols, before tests find new ones.
pub(crate) fn forget(root: &Path, protocols: &[&str]) {
    for (path, result) in results(root) {
        if protocols.iter().any(|protocol| result["protocol"] == **protocol) {
            let _ = fs::remove_file(path); // what cannot be removed is found again or complained about
        }
    }
}

/// Compares the page with the results of all protocols that have some, or writes it. Says whether all is well.
pub(crate) fn perform(root: &Path, act: MatrixAct) -> bool {
    match sections(root).and_then(|sections| take(&root.join(PAGE), &sections, act)) {
        Ok(()) => true,
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

fn take(page: &Path, sections: &[(String, String)], act: MatrixAct) -> Result<(), String> {
    let there = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let made = sections.iter().try_fold(there.clone(), |page, (protocol, section)| {
        replaced(&page, protocol, section).ok_or_else(|| format!("{PAGE} has no section {protocol}"))
    })?;
    match act {
        MatrixAct::Compare if made == there => Ok(()),
        MatrixAct::Compare => Err(format!(
            "{PAGE} does not say what the tests have found; run `cargo xtask matrix --write` and look at the difference"
        )),
        MatrixAct::Write => fs::write(page, made).map_err(|error| format!("{}: {error}", page.display())),
    }
}

/// The page with another table in a section. The section ends at the next heading.
fn replaced(page: &str, protocol: &str, section: &str) -> Option<String> {
    let heading = format!("## {protocol}\n");
    let begin = page.find(&heading)? + heading.len();
    let rest = page.get(begin..)?;
    let end = rest.find("\n## ").map_or(rest.len(), |end| end + 1);
    // Words before the table stay.
    let table = rest.get(..end)?.find("\n|").map_or(end, |table| table + 1);
    let gap = if end < rest.len() { "\n" } else { "" };
    Some(format!("{}{}{section}{gap}{}", page.get(..begin)?, rest.get(..table)?, rest.get(end..)?))
}

/// Each result with its file.
fn results(root: &Path) -> Vec<(std::path::PathBuf, Value)> {
    let entries = fs::read_dir(root.join(RESULTS)).into_iter().flatten().flatten();
    let read = |path: std::path::PathBuf| {
        let result = serde_json::from_str(&fs::read_to_string(&path).ok()?).ok()?;
        Some((path, result))
    };
    entries.filter_map(|entry| read(entry.path())).collect()
}

/// The tables of all protocols that have results. The error names a feature that nobody has looked at.
fn sections(root: &Path) -> Result<Vec<(String, String)>, String> {
    let features = fs::read_to_string(root.join(FEATURES)).map_err(|error| format!("{FEATURES}: {error}"))?;
    let features: Vec<(String, Vec<(String, String)>)> = ordered_features(&features)?;
    let results = results(root);
    let mut sections = Vec::new();
    for (protocol, features) in features {
        let of_protocol: Vec<&Value> = results
            .iter()
            .map(|(_, result)| result)
            .filter(|result| result["protocol"] == *protocol)
            .collect();
        if !of_protocol.is_empty() {
            let table = table(&features, &of_protocol).map_err(|why| format!("{protocol}: {why}"))?;
            sections.push((protocol, table));
        }
    }
    Ok(sections)
}

/// The names in the order of the file, which a map would not keep.
fn ordered_features(text: &str) -> Result<Vec<(String, Vec<(String, String)>)>, String> {
    let mut protocols: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some((name, rest)) = line.split_once(": ") else { continue };
        let unquoted = |text: &str| text.trim_end_matches(',').trim_matches('"').to_owned();
        match (rest, protocols.last_mut()) {
            ("{", _) => protocols.push((unquoted(name), Vec::new())),
            (words, Some((_, features))) => features.push((unquoted(name), unquoted(words))),
            (_, None) => return Err(format!("{FEATURES}: {line} belongs to no protocol")),
        }
    }
    Ok(protocols)
}

/// A table: a row for each feature, a column for each client.
fn table(features: &[(String, String)], results: &[&Value]) -> Result<String, String> {
    let text = |result: &Value, name: &str| result[name].as_str().unwrap_or_default().to_owned();
    let clients: BTreeSet<(String, String)> =
        results.iter().map(|result| (text(result, "client"), text(result, "version"))).collect();
    let cells: BTreeMap<(String, String), &Value> =
        results.iter().map(|result| ((text(result, "client"), text(result, "feature")), *result)).collect();
    let known = |feature: &str| features.iter().any(|(name, _)| name == feature);
    if let Some(result) = results.iter().find(|result| !known(&text(result, "feature"))) {
        return Err(format!("{FEATURES} has no feature {}", result["feature"]));
    }
    let mut page = String::from("|");
    let mut notes: Vec<String> = Vec::new();
    for (client, version) in &clients {
        let _ = write!(page, " | {client} {version}");
    }
    let _ = writeln!(page, " |\n|---|{}", "---|".repeat(clients.len()));
    for (feature, words) in features {
        let _ = write!(page, "| {words}");
        for (client, _) in &clients {
            let result = cells.get(&(client.clone(), feature.clone()));
            let result = result.ok_or_else(|| format!("no test has tried {feature} with {client}"))?;
            let _ = write!(page, " | {}", cell(result["absent"].as_str(), &mut notes));
        }
        page.push_str(" |\n");
    }
    for (index, note) in notes.iter().enumerate() {
        let _ = write!(page, "{}{} {note}", if index == 0 { "\n" } else { "; " }, superscript(index));
    }
    page.push_str(if notes.is_empty() { "" } else { ".\n" });
    Ok(page)
}

/// The words of a cell. A feature that does not apply has a note that says why.
fn cell(absent: Option<&str>, notes: &mut Vec<String>) -> String {
    let Some(why) = absent else { return "yes".into() };
    let index = notes.iter().position(|note| note == why).unwrap_or_else(|| {
        notes.push(why.to_owned());
        notes.len() - 1
    });
    format!("does not apply {}", superscript(index))
}

fn superscript(index: usize) -> String {
    format!("({})", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(client: &str, feature: &str, absent: Option<&str>) -> Value {
        json!({ "protocol": "P", "client": client, "version": "1", "feature": feature, "absent": absent })
    }

    fn features() -> Vec<(String, String)> {
        [("a", "does a"), ("b", "does b")].map(|(name, words)| (name.into(), words.into())).into()
    }

    #[test]
    fn a_table_says_what_works_and_why_something_does_not_apply() {
        let results = [
            result("x", "a", None),
            result("x", "b", Some("x has no b")),
            result("y", "a", None),
            result("y", "b", None),
        ];
        let table = table(&features(), &results.iter().collect::<Vec<_>>());
        let expected = "| | x 1 | y 1 |\n|---|---|---|\n| does a | yes | yes |\n\
            | does b | does not apply (1) | yes |\n\n(1) x has no b.\n";
        assert_eq!(table.as_deref(), Ok(expected));
    }

    #[test]
    fn a_feature_that_nobody_has_tried_is_an_error() {
        let results = [result("x", "a", None)];
        assert_eq!(
            table(&features(), &results.iter().collect::<Vec<_>>()),
            Err("no test has tried b with x".into())
        );
        let results = [result("x", "c", None)];
        assert!(table(&features(), &results.iter().collect::<Vec<_>>()).is_err());
    }

    #[test]
    fn only_the_table_of_a_section_is_replaced() {
        let page = "# Clients\n\n## P\n\nWords.\n\n| old |\n|---|\n\n(1) old.\n\n## Q\n\n| kept |\n";
        let made = replaced(page, "P", "| new |\n").unwrap_or_default();
        assert_eq!(made, "# Clients\n\n## P\n\nWords.\n\n| new |\n\n## Q\n\n| kept |\n");
        assert_eq!(replaced(&made, "P", "| new |\n"), Some(made.clone()));
        let last = replaced(page, "Q", "| new |\n").unwrap_or_default();
        assert!(last.ends_with("## Q\n\n| new |\n"), "{last}");
        assert_eq!(replaced(page, "R", ""), None);
    }

    #[test]
    fn features_keep_their_order() {
        let text = "{\n  \"P\": {\n    \"z\": \"does `z`\",\n    \"a\": \"does a: well\"\n  }\n}\n";
        let expected = vec![("z".to_owned(), "does `z`".to_owned()), ("a".into(), "does a: well".into())];
        assert_eq!(ordered_features(text), Ok(vec![("P".to_owned(), expected)]));
    }
}
