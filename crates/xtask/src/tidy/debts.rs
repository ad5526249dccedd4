//! Rules that the code does not keep yet. Each crate has a number of findings that it may have, and the number may only
//! fall: a crate with more findings than its number has made new ones, and one with fewer must write down the new number.
//!
//! `cargo xtask tidy --list debts` prints the table as it is now, and every finding.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Finding;

/// Where the table stands.
const FILE: &str = "crates/xtask/src/tidy/debts.rs";

/// The findings that each crate may have.
const DEBTS: &[(Rule, &str, usize)] = &[
    (Rule::BareNames, "app", 7),
    (Rule::BareNames, "cli", 22),
    (Rule::BareNames, "engine", 18),
    (Rule::BareNames, "local", 5),
    (Rule::BareNames, "memory", 17),
    (Rule::BareNames, "model", 8),
    (Rule::BareNames, "protocol", 2),
    (Rule::BareNames, "server", 6),
    (Rule::BareNames, "store", 13),
    (Rule::BareNames, "tools", 11),
    (Rule::Cycles, "app", 2),
    (Rule::Cycles, "cli", 4),
    (Rule::Cycles, "engine", 11),
    (Rule::Cycles, "model", 3),
    (Rule::Cycles, "protocol", 1),
    (Rule::Cycles, "store", 1),
    (Rule::TestPlaces, "engine", 2),
    (Rule::TestPlaces, "local", 1),
    (Rule::TypeNames, "app", 17),
    (Rule::TypeNames, "cli", 31),
    (Rule::TypeNames, "engine", 16),
    (Rule::TypeNames, "local", 15),
    (Rule::TypeNames, "memory", 34),
    (Rule::TypeNames, "model", 20),
    (Rule::TypeNames, "protocol", 14),
    (Rule::TypeNames, "server", 18),
    (Rule::TypeNames, "store", 26),
    (Rule::TypeNames, "testkit", 2),
    (Rule::TypeNames, "tools", 12),
];

/// A rule that may have debts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    BareNames,
    Cycles,
    TestPlaces,
    TypeNames,
}

/// A finding that its crate may be allowed.
#[derive(Debug, Clone)]
pub(super) struct CrateFinding {
    rule: Rule,
    crate_name: String,
    finding: Finding,
}

impl CrateFinding {
    pub(super) fn new(rule: Rule, crate_name: &str, finding: Finding) -> Self {
        Self { rule, crate_name: crate_name.to_owned(), finding }
    }
}

type ByCrate<'f> = BTreeMap<(Rule, &'f str), Vec<&'f Finding>>;

fn by_crate(findings: &[CrateFinding]) -> ByCrate<'_> {
    let mut groups = ByCrate::new();
    for CrateFinding { rule, crate_name, finding } in findings {
        groups.entry((*rule, crate_name.as_str())).or_default().push(finding);
    }
    groups
}

/// The findings of crates that have more of them than they may, and the numbers that are no longer true.
pub(super) fn check(findings: &[CrateFinding]) -> Vec<Finding> {
    settle(findings, DEBTS)
}

fn settle(findings: &[CrateFinding], debts: &[(Rule, &str, usize)]) -> Vec<Finding> {
    let groups = by_crate(findings);
    let owed = debts.iter().map(|(rule, crate_name, _)| (*rule, *crate_name));
    let keys: BTreeSet<(Rule, &str)> = groups.keys().copied().chain(owed).collect();
    let mut wrong = Vec::new();
    for key @ (rule, crate_name) in keys {
        let there = groups.get(&key).map(Vec::as_slice).unwrap_or_default();
        let debt = debts.iter().find(|(of, name, _)| (*of, *name) == key).map_or(0, |(_, _, number)| *number);
        if there.len() > debt {
            wrong.extend(there.iter().map(|finding| (*finding).clone()));
        }
        if there.len() != debt && debt > 0 {
            let what = format!("`{crate_name}` has {} findings of {rule:?}, and not {debt}", there.len());
            let remedy = if there.len() < debt {
                "lower the number in the table"
            } else {
                "put right those that are new; the number may only fall"
            };
            wrong.push(Finding::new(FILE, 1, what, remedy));
        }
    }
    wrong
}

/// The table as it is now, as Rust, and every finding.
pub(super) fn list(findings: &[CrateFinding]) -> String {
    let groups = by_crate(findings);
    let mut text = String::from("const DEBTS: &[(Rule, &str, usize)] = &[\n");
    for ((rule, crate_name), there) in &groups {
        let _ = writeln!(text, "    (Rule::{rule:?}, {crate_name:?}, {}),", there.len());
    }
    text.push_str("];\n");
    for ((rule, crate_name), there) in &groups {
        let _ = writeln!(text, "\n{rule:?} in {crate_name}: {}", there.len());
        for finding in there {
            let _ = writeln!(text, "  {finding}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(number: usize) -> Vec<CrateFinding> {
        let finding = |line| Finding::new("crates/store/src/a.rs", line, "x", "y");
        (1..=number).map(|line| CrateFinding::new(Rule::Cycles, "store", finding(line))).collect()
    }

    #[test]
    fn a_debt_is_allowed_and_may_neither_grow_nor_be_too_large() {
        let debts = [(Rule::Cycles, "store", 2)];
        assert_eq!(settle(&findings(2), &debts), []);
        let more: Vec<String> = settle(&findings(3), &debts).iter().map(ToString::to_string).collect();
        assert_eq!(more.len(), 4, "{more:?}");
        assert!(more[3].contains("has 3 findings of Cycles, and not 2; put right"), "{more:?}");
        let fewer: Vec<String> = settle(&findings(1), &debts).iter().map(ToString::to_string).collect();
        assert_eq!(fewer.len(), 1);
        assert!(fewer[0].ends_with("lower the number in the table"), "{fewer:?}");
        assert_eq!(settle(&[], &debts).len(), 1);
    }

    #[test]
    fn a_crate_without_debts_has_all_its_findings_named() {
        assert_eq!(settle(&findings(2), &[]).len(), 2);
        assert_eq!(settle(&[], &[]), []);
    }

    #[test]
    fn the_list_is_the_table_and_every_finding() {
        let list = list(&findings(2));
        assert!(list.contains("(Rule::Cycles, \"store\", 2),\n"), "{list}");
        assert!(list.contains("  crates/store/src/a.rs:2: x; y\n"), "{list}");
    }
}
