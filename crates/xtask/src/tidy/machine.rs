//! Paths of one machine, which mean nothing on any other machine.

use super::Finding;

/// Written in halves so that this file does not find itself.
const PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for machine in PATHS.iter().filter(|machine| mentions(line, machine)) {
            let what = format!("`{machine}` is a path of one machine");
            findings.push(Finding::new(path, index + 1, what, "write a path relative to the repository"));
        }
    }
    findings
}

/// As an absolute path: `/x/` but neither `a/x/` nor `https://host/x/`.
fn mentions(line: &str, machine: &str) -> bool {
    let absolute = |(at, _): (usize, &str)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '}' | ')'))
    };
    line.match_indices(machine).any(absolute)
}
