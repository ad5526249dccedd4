//! An upgrade under load: nodes of an older revision are replaced, one after the other, by nodes of this one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{build, cargo, succeeds};
use crate::torture;

/// The folder in which the older revision is checked out and built.
const CHECKOUT: &str = "target/upgrade/source";
const BUILDS: &str = "target/upgrade/build";

const USAGE: &str = "usage: cargo xtask upgrade --from REV [--minutes N] [--nodes N] [--seed N] [--dev]

  Builds an older revision, starts nodes of it on one PostgreSQL, and replaces each of them by one of this checkout while
  clients send messages, decide on approvals and follow streams. The checks are those of `cargo xtask torture`.
  Revisions before the one that let several nodes share a database cannot be upgraded in this way.";

/// False if the older revision cannot be built, or if anything was lost.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let Some((revision, mut rest)) = split_revision(args) else {
        eprintln!("{USAGE}");
        return false;
    };
    for (option, value) in [("--nodes", "3"), ("--minutes", "3")] {
        if !rest.iter().any(|arg| arg == option) {
            rest.extend([option.to_owned(), value.to_owned()]);
        }
    }
    let is_dev = rest.iter().any(|arg| arg == "--dev");
    let Some(older) = check_out(root, &revision).and_then(|source| build_older(root, &source, is_dev)) else {
        return false;
    };
    rest.extend(["--store", "postgres", "--older"].map(str::to_owned));
    rest.push(older.display().to_string());
    torture::run(root, &rest)
}

/// The revision, and the options of the trial.
fn split_revision(args: &[String]) -> Option<(String, Vec<String>)> {
    let place = args.iter().position(|arg| arg == "--from")?;
    let revision = args.get(place + 1)?.clone();
    let rest = args.iter().enumerate().filter(|(at, _)| *at != place && *at != place + 1);
    Some((revision, rest.map(|(_, arg)| arg.clone()).collect()))
}

/// Checks the revision out in a folder of its own.
fn check_out(root: &Path, revision: &str) -> Option<PathBuf> {
    let folder = root.join(CHECKOUT);
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(root).args(["-c", "safe.directory=*"]);
        git
    };
    if folder.exists() && !succeeds(git().args(["worktree", "remove", "--force", CHECKOUT])) {
        return None;
    }
    succeeds(git().args(["worktree", "add", "--detach", CHECKOUT, revision])).then_some(folder)
}

fn build_older(root: &Path, source: &Path, is_dev: bool) -> Option<PathBuf> {
    let mut building = cargo(source, &[]);
    building.env("CARGO_TARGET_DIR", root.join(BUILDS));
    let profile: &[&str] = if is_dev { &[] } else { &["--release"] };
    let args = [&["--package", "cli", "--no-default-features"], profile].concat();
    let [server] = build(&mut building, &args, ["rondo"])?;
    Some(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_taken_out_of_the_options() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let split = |text| split_revision(&words(text));
        assert_eq!(split("--from v1 --minutes 2"), Some(("v1".to_owned(), words("--minutes 2"))));
        assert_eq!(split("--seed 3 --from HEAD~1"), Some(("HEAD~1".to_owned(), words("--seed 3"))));
        assert_eq!(split("--minutes 2"), None);
        assert_eq!(split("--from"), None);
    }
}
