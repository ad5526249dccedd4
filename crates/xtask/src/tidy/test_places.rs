//! Test code stands under `tests`, not under the name of a part of the product.

use super::Finding;
use crate::source::SourceTree;

const REMEDY: &str = "call it `tests`, or move it into a folder `tests`";

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| !file.is_test()) {
        let misplaced = file.rust.modules.iter().filter(|module| module.is_test);
        for module in misplaced.filter(|module| module.declaration.name != "tests") {
            let what = format!("the module `{}` is test code", module.declaration.name);
            let finding = Finding::new(&file.path, module.declaration.line, what, REMEDY);
            findings.push(finding);
        }
    }
    findings
}
