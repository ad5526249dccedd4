//! Every planted bug is a patch that applies to the code as it is now, and says which check finds it.

use std::path::Path;

use super::Finding;
use crate::planted;

pub(super) fn check(root: &Path) -> Vec<Finding> {
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
