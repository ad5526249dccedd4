//! The table of clients and features in `docs/clients.md`, which is made of what the tests have found.
//!
//! Tests write a file for each feature of each client into `target/client-results`. A protocol is a section of the page. A
//! section is compared when there are results for it, so a part of the tests compares its own sections.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

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

/// One feature of one client, as a test has found it.
#[derive(Debug, Clone)]
struct Found {
    path: PathBuf,
    protocol: String,
    client: String,
    version: String,
    feature: String,
    /// Why the client does not have the feature; none if it works.
    absent: Option<String>,
}

/// A section of the page: a protocol, and its features by name and in words.
#[derive(Debug, PartialEq, Eq)]
struct ProtocolFeatures {
    protocol: String,
    features: Vec<(String, String)>,
}

/// Forgets results of these protocols, before tests find new ones.
pub(crate) fn forget(root: &Path, protocols: &[&str]) {
    for found in results(root) {
        if protocols.contains(&found.protocol.as_str()) {
            let _ = fs::remove_file(found.path); // what cannot be removed is found again or complained about
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
        with_section(&page, protocol, section).ok_or_else(|| format!("{PAGE} has no section {protocol}"))
    })?;
    match act {
        MatrixAct::Compare if made == there => Ok(()),
        MatrixAct::Compare => Err(format!(
            "{PAGE} does not say what the tests have found; run `cargo xtask matrix --write` and look at the difference"
        )),
        MatrixAct::Write => fs::write(page, made).map_err(|error| format!("{}: {error}", page.display())),
    }
}

/// The page with another table in a section. The section ends at the next heading, and words before its table stay.
fn with_section(page: &str, protocol: &str, section: &str) -> Option<String> {
    let heading = format!("## {protocol}\n");
    let begin = page.find(&heading)? + heading.len();
    let rest = page.get(begin..)?;
    let end = rest.find("\n## ").map_or(rest.len(), |end| end + 1);
    let table = rest.get(..end)?.find("\n|").map_or(end, |table| table + 1);
    let gap = if end < rest.len() { "\n" } else { "" };
    Some(format!("{}{}{section}{gap}{}", page.get(..begin)?, rest.get(..table)?, rest.get(end..)?))
}

fn results(root: &Path) -> Vec<Found> {
    let entries = fs::read_dir(root.join(RESULTS)).into_iter().flatten().flatten();
    let read = |path: PathBuf| {
        let result: Value = serde_json::from_str(&fs::read_to_string(&path).ok()?).ok()?;
        let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Found {
            path,
            protocol: text("protocol")?,
            client: text("client")?,
            version: text("version")?,
            feature: text("feature")?,
            absent: text("absent"),
        })
    };
    entries.filter_map(|entry| read(entry.path())).collect()
}

/// The tables of all protocols that have results. The error names a feature that no test has tried.
fn sections(root: &Path) -> Result<Vec<(String, String)>, String> {
    let text = fs::read_to_string(root.join(FEATURES)).map_err(|error| format!("{FEATURES}: {error}"))?;
    let results = results(root);
    let mut sections = Vec::new();
    for ProtocolFeatures { protocol, features } in listed_features(&text)? {
        let of_protocol: Vec<Found> =
            results.iter().filter(|found| found.protocol == protocol).cloned().collect();
        if !of_protocol.is_empty() {
            let table = table(&features, &of_protocol).map_err(|why| format!("{protocol}: {why}"))?;
            sections.push((protocol, table));
        }
    }
    Ok(sections)
}

/// The names in the order of the file, which a map would not keep.
fn listed_features(text: &str) -> Result<Vec<ProtocolFeatures>, String> {
    let mut listed: Vec<ProtocolFeatures> = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some((name, rest)) = line.split_once(": ") else { continue };
        let unquoted = |text: &str| text.trim_end_matches(',').trim_matches('"').to_owned();
        match (rest, listed.last_mut()) {
            ("{", _) => listed.push(ProtocolFeatures { protocol: unquoted(name), features: Vec::new() }),
            (words, Some(last)) => last.features.push((unquoted(name), unquoted(words))),
            (_, None) => return Err(format!("{FEATURES}: {line} belongs to no protocol")),
        }
    }
    Ok(listed)
}

/// A table: a row for each feature, a column for each client.
fn table(features: &[(String, String)], results: &[Found]) -> Result<String, String> {
    let is_unknown = |found: &&Found| !features.iter().any(|(name, _)| *name == found.feature);
    if let Some(found) = results.iter().find(is_unknown) {
        return Err(format!("{FEATURES} has no feature {}", found.feature));
    }
    let clients: BTreeSet<(&str, &str)> =
        results.iter().map(|found| (found.client.as_str(), found.version.as_str())).collect();
    let mut page = String::from("|");
    let mut notes: Vec<String> = Vec::new();
    for (client, version) in &clients {
        let _ = write!(page, " | {client} {version}");
    }
    let _ = writeln!(page, " |\n|---|{}", "---|".repeat(clients.len()));
    for (feature, words) in features {
        let _ = write!(page, "| {words}");
        for (client, version) in &clients {
            let is_it = |found: &&Found| {
                (found.client.as_str(), found.version.as_str(), &found.feature)
                    == (*client, *version, feature)
            };
            let found = results.iter().find(is_it);
            let found =
                found.ok_or_else(|| format!("no test has tried {feature} with {client} {version}"))?;
            let _ = write!(page, " | {}", cell(found.absent.as_deref(), &mut notes));
        }
        page.push_str(" |\n");
    }
    for (index, note) in notes.iter().enumerate() {
        let _ = write!(page, "{}({}) {note}", if index == 0 { "\n" } else { "; " }, index + 1);
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
    format!("does not apply ({})", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(client: &str, feature: &str, absent: Option<&str>) -> Found {
        Found {
            path: PathBuf::new(),
            protocol: "P".into(),
            client: client.into(),
            version: "1".into(),
            feature: feature.into(),
            absent: absent.map(str::to_owned),
        }
    }

    fn features() -> Vec<(String, String)> {
        [("a", "does a"), ("b", "does b")].map(|(name, words)| (name.into(), words.into())).into()
    }

    #[test]
    fn a_table_says_what_works_and_why_something_does_not_apply() {
        let results = [
            found("x", "a", None),
            found("x", "b", Some("x has no b")),
            found("y", "a", None),
            found("y", "b", None),
        ];
        let expected = "| | x 1 | y 1 |\n|---|---|---|\n| does a | yes | yes |\n\
            | does b | does not apply (1) | yes |\n\n(1) x has no b.\n";
        assert_eq!(table(&features(), &results).as_deref(), Ok(expected));
    }

    #[test]
    fn a_feature_that_nobody_has_tried_is_an_error() {
        let untried = table(&features(), &[found("x", "a", None)]);
        assert_eq!(untried, Err("no test has tried b with x 1".into()));
        assert!(table(&features(), &[found("x", "c", None)]).is_err());
    }

    #[test]
    fn only_the_table_of_a_section_is_replaced() {
        let page = "# Clients\n\n## P\n\nWords.\n\n| old |\n|---|\n\n(1) old.\n\n## Q\n\n| kept |\n";
        let made = with_section(page, "P", "| new |\n").unwrap_or_default();
        assert_eq!(made, "# Clients\n\n## P\n\nWords.\n\n| new |\n\n## Q\n\n| kept |\n");
        assert_eq!(with_section(&made, "P", "| new |\n"), Some(made.clone()));
        let last = with_section(page, "Q", "| new |\n").unwrap_or_default();
        assert!(last.ends_with("## Q\n\n| new |\n"), "{last}");
        assert_eq!(with_section(page, "R", ""), None);
    }

    #[test]
    fn features_keep_their_order() {
        let text = "{\n  \"P\": {\n    \"z\": \"does `z`\",\n    \"a\": \"does a: well\"\n  }\n}\n";
        let features = vec![("z".to_owned(), "does `z`".to_owned()), ("a".into(), "does a: well".into())];
        assert_eq!(listed_features(text), Ok(vec![ProtocolFeatures { protocol: "P".into(), features }]));
    }
}
