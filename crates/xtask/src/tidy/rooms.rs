//! Which crate may use which. Arrows go down only, and a crate that is not in the table may not be there.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::Finding;

enum Uses {
    Only(&'static [&'static str]),
    /// Never shipped, so it may use every crate.
    Any,
}

const ROOMS: &[(&str, Uses)] = &[
    ("protocol", Uses::Only(&[])),
    ("app", Uses::Only(&["protocol"])),
    ("identity", Uses::Only(&["protocol"])),
    ("tokens", Uses::Only(&[])),
    ("images", Uses::Only(&[])),
    ("model", Uses::Only(&["protocol", "tokens"])),
    ("local", Uses::Only(&["protocol", "model"])),
    ("store", Uses::Only(&["protocol"])),
    ("memory", Uses::Only(&["protocol", "app", "model", "store"])),
    ("tools", Uses::Only(&["protocol", "app", "model", "store", "memory"])),
    ("agent", Uses::Only(&["protocol", "app", "model", "store", "memory", "tools"])),
    ("service", Uses::Only(&["protocol", "app", "images", "model", "store", "memory", "tools", "agent"])),
    ("server", Uses::Only(&["protocol", "app", "identity", "service"])),
    (
        "cli",
        Uses::Only(&[
            "protocol", "app", "identity", "model", "local", "store", "memory", "tools", "agent", "service",
            "server",
        ]),
    ),
    ("testkit", Uses::Any),
    ("testpg", Uses::Only(&[])),
    ("torture", Uses::Any),
    ("bench", Uses::Any),
    ("xtask", Uses::Any),
];

/// Any crate's tests may use them.
const FOR_TESTS: &[&str] = &["testkit", "testpg"];

/// True for `crates/{name}/Cargo.toml`.
pub(super) fn is_manifest(path: &str) -> bool {
    let name = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
    name.is_some_and(|name| !name.contains('/'))
}

pub(super) fn check(path: &str, text: &str, members: &BTreeSet<String>) -> Vec<Finding> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 1, format!("is not TOML: {error}"), "correct it")],
    };
    let mut findings = Vec::new();
    let folder = path.split('/').nth(1).unwrap_or_default();
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    if name != Some(folder) {
        findings.push(Finding::new(path, 1, "the crate's name is not its folder's", "name both the same"));
    }
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool);
    if lints != Some(true) {
        let remedy = "add `[lints] workspace = true`";
        findings.push(Finding::new(path, 1, "the crate does not take part in the lint table", remedy));
    }
    let Some((_, uses)) = ROOMS.iter().find(|(room, _)| *room == folder) else {
        let what = format!("crate `{folder}` is not in the table of crates");
        findings.push(Finding::new(
            path,
            1,
            what,
            "add it in crates/xtask/src/tidy/rooms.rs, with what it may use",
        ));
        return findings;
    };
    let Uses::Only(allowed) = uses else { return findings };
    for (table, dependency) in dependencies(&manifest) {
        let for_tests = table == "dev-dependencies" && FOR_TESTS.contains(&dependency);
        if members.contains(dependency) && !allowed.contains(&dependency) && !for_tests {
            let what = format!("`{folder}` may not use `{dependency}` in [{table}]");
            let remedy = match allowed {
                [] => String::from("it may use no other crate of this workspace"),
                _ => format!("it may use {}", allowed.join(", ")),
            };
            findings.push(Finding::new(path, line_of(text, dependency), what, remedy));
        }
    }
    findings
}

/// Every dependency with the table it stands in, those of one platform included.
fn dependencies(manifest: &Table) -> Vec<(&'static str, &str)> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let platforms = platforms.into_iter().flat_map(|targets| targets.values()).filter_map(Value::as_table);
    let tables: Vec<&Table> = std::iter::once(manifest).chain(platforms).collect();
    let mut found = Vec::new();
    for name in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let named = tables.iter().filter_map(|table| table.get(name)?.as_table());
        found.extend(named.flat_map(Table::keys).map(|dependency| (name, dependency.as_str())));
    }
    found
}

fn line_of(text: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        line.trim_start().strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    text.lines().position(names).map_or(1, |index| index + 1)
}
