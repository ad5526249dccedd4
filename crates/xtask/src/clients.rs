//! The packages that speak to the server (`clients`): what they need to be built, and their build.
//!
//! A package names exact versions in its lock file. Packages of the TypeScript client are fetched into its own
//! `node_modules`, those of the Python client into a virtual environment in `target`. Neither is in a commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::succeeds;
use crate::python;
use crate::servers::missing_program;

/// Holds the lock file that was fetched, so that a changed one is fetched again.
const STAMP: &str = "node_modules/.fetched";

/// The virtual environment of the Python client.
const ENVIRONMENT: &str = "target/python-client";

fn folder(root: &Path) -> PathBuf {
    root.join("clients/typescript")
}

/// Makes sure that the compiler and the Python packages are there. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    install_typescript(root)?;
    python::install(&root.join(ENVIRONMENT), &root.join("clients/python/requirements-test.txt"))
}

fn install_typescript(root: &Path) -> Result<(), String> {
    let folder = folder(root);
    let (lock, stamp) = (folder.join("package-lock.json"), folder.join(STAMP));
    let wanted = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    if let Some(missing) = missing_program() {
        return Err(missing);
    }
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    println!("fetching the TypeScript compiler, a bundler and React: 45 MB");
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(&folder);
    if !succeeds(&mut npm) {
        return Err("npm could not fetch the packages; look at what it says above".into());
    }
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Builds the packages, which their tests then use.
pub(crate) fn build(root: &Path) -> bool {
    let mut typescript = Command::new("node");
    typescript.arg("scripts/build.mjs").current_dir(folder(root));
    succeeds(&mut typescript)
        && python::install_package(&root.join(ENVIRONMENT), &root.join("clients/python"))
}
