//! The packages that speak to the server (`clients`): what they need to be built, and their build.
//!
//! A package names exact versions in its lock file. They are fetched into its own `node_modules`, which is in no commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::succeeds;
use crate::servers::missing_program;

/// Holds the lock file that was fetched, so that a changed one is fetched again.
const STAMP: &str = "node_modules/.fetched";

fn folder(root: &Path) -> PathBuf {
    root.join("clients/typescript")
}

/// Makes sure that the compiler is there. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
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

/// Builds the package, which its tests then use.
pub(crate) fn build(root: &Path) -> bool {
    succeeds(Command::new("node").arg("scripts/build.mjs").current_dir(folder(root)))
}
