//! Bugs that are planted on purpose, to show that the crash harness finds each of them.
//!
//! A bug is a patch in `crates/torture/planted`. Its first line says what the bug is, and its line `Found by:` names the
//! checks of the oracle that must find it. A line `Options:` has the options of the trial, if it needs any. A patch is
//! applied to a copy of the repository only, never to the repository.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use walkdir::WalkDir;

/// The folder of the patches.
const PATCHES: &str = "crates/torture/planted";
/// The copy of the repository that patches are applied to. Git takes it as a path relative to the root.
const COPY: &str = "target/planted/tree";
/// The builds of the copy. They are kept apart from those of the repository, which cargo could not tell from them.
const BUILDS: &str = "target/planted/target";
/// Before the names of the checks.
const FOUND_BY: &str = "Found by:";
/// Before the options of the trial.
const OPTIONS: &str = "Options:";

/// One patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlantedBug {
    /// The patch's file name without its ending.
    pub(crate) name: String,
    /// Relative to the root.
    pub(crate) patch: String,
    /// The bug, in a sentence.
    pub(crate) about: String,
    /// The checks of the oracle that must find it.
    pub(crate) checks: Vec<String>,
    /// Options of the trial that can find it.
    pub(crate) options: Vec<String>,
}

impl PlantedBug {
    fn parse(name: &str, text: &str) -> Self {
        let about = text.lines().next().unwrap_or_default().to_owned();
        let words = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect()
        };
        let (checks, options) = (words(FOUND_BY), words(OPTIONS));
        Self { name: name.to_owned(), patch: format!("{PATCHES}/{name}.patch"), about, checks, options }
    }
}

/// All patches, by name.
pub(crate) fn bugs(root: &Path) -> io::Result<Vec<PlantedBug>> {
    let folder = root.join(PATCHES);
    let mut bugs = Vec::new();
    if !folder.is_dir() {
        return Ok(bugs);
    }
    for file in folder.read_dir()? {
        let path = file?.path();
        if path.extension().is_some_and(|ending| ending == "patch") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            bugs.push(PlantedBug::parse(&name, &std::fs::read_to_string(&path)?));
        }
    }
    bugs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(bugs)
}

/// Whether the patch can be applied to the repository as it is; the error is what git says.
pub(crate) fn check_patch(root: &Path, bug: &PlantedBug) -> io::Result<Result<(), String>> {
    let output = git(root).args(["apply", "--check", &bug.patch]).output()?;
    Ok(if output.status.success() { Ok(()) } else { Err(message(&output)) })
}

/// A copy of the repository that has one bug.
pub(crate) struct PlantedCopy {
    root: PathBuf,
}

impl PlantedCopy {
    /// Makes the copy, or brings an earlier one up to date, and applies the patch.
    pub(crate) fn plant(root: &Path, bug: &PlantedBug) -> Result<Self, String> {
        let copy = Self { root: root.to_path_buf() };
        let failed = |error: io::Error| format!("cannot copy the repository to {COPY}: {error}");
        copy_files(root, &copy.folder(), &tracked(root)?).map_err(failed)?;
        // From the root: git ignores all files of a patch when it is called in a folder of its own repository.
        let directory = format!("--directory={COPY}");
        let output = git(root).args(["apply", &directory, &bug.patch]).output();
        let output = output.map_err(|error| format!("cannot run git: {error}"))?;
        if output.status.success() {
            return Ok(copy);
        }
        Err(format!("{} does not apply: {}", bug.patch, message(&output)))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join(COPY)
    }

    pub(crate) fn build_folder(&self) -> PathBuf {
        self.root.join(BUILDS)
    }
}

fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    // A checkout that belongs to another user, as in a container, is fine here.
    git.current_dir(root).args(["-c", "safe.directory=*"]);
    git
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// Every file that git knows or would add, relative to the root.
fn tracked(root: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = git(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output();
    let listed = listed.map_err(|error| format!("cannot run git: {error}; install git"))?;
    if !listed.status.success() {
        return Err(format!("git cannot list the files of the repository: {}", message(&listed)));
    }
    let paths = String::from_utf8_lossy(&listed.stdout);
    Ok(paths.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect())
}

/// Makes `to` hold these files and no others. A file that has not changed is left alone, so that cargo does not build it
/// again.
fn copy_files(from: &Path, to: &Path, files: &[PathBuf]) -> io::Result<()> {
    let files: BTreeSet<&Path> =
        files.iter().map(PathBuf::as_path).filter(|file| from.join(file).is_file()).collect();
    for file in &files {
        let (source, copy) = (from.join(file), to.join(file));
        let bytes = std::fs::read(&source)?;
        if std::fs::read(&copy).is_ok_and(|earlier| earlier == bytes) {
            continue;
        }
        if let Some(folder) = copy.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&copy, bytes)?;
    }
    for entry in WalkDir::new(to) {
        let entry = entry?;
        let is_left_over = entry
            .path()
            .strip_prefix(to)
            .is_ok_and(|file| entry.file_type().is_file() && !files.contains(file));
        if is_left_over {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_what_the_bug_is_and_which_checks_find_it() {
        let bug =
            PlantedBug::parse("gap", "A reader misses an event.\nFound by: O4 O5\n\ndiff --git a/x b/x\n");
        assert_eq!(bug.patch, "crates/torture/planted/gap.patch");
        assert_eq!(bug.about, "A reader misses an event.");
        assert_eq!(bug.checks, ["O4", "O5"]);
        assert_eq!(bug.options, [""; 0]);
        let of_nodes = PlantedBug::parse("late", "It is late.\nFound by: O18\nOptions: --store postgres\n");
        assert_eq!(of_nodes.options, ["--store", "postgres"]);
    }

    #[test]
    fn eleven_bugs_are_there_and_each_names_a_check() {
        let bugs = bugs(crate::root()).unwrap();
        assert_eq!(bugs.len(), 11);
        for bug in bugs {
            assert!(!bug.checks.is_empty() && bug.about.ends_with('.'), "{bug:?}");
        }
    }

    #[test]
    fn a_copy_holds_what_the_original_holds_and_unchanged_files_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("src")).unwrap();
        std::fs::write(from.join("src/a.rs"), "a").unwrap();
        std::fs::write(from.join("src/b.rs"), "b").unwrap();
        let files = ["src/a.rs", "src/b.rs", "src/removed.rs"].map(PathBuf::from);
        copy_files(&from, &to, &files).unwrap();
        let written = to.join("src/a.rs").metadata().unwrap().modified().unwrap();
        std::fs::write(to.join("src/b.rs"), "a bug").unwrap();
        std::fs::write(to.join("src/new.rs"), "of the patch").unwrap();
        copy_files(&from, &to, &files).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("src/b.rs")).unwrap(), "b");
        assert_eq!(to.join("src/a.rs").metadata().unwrap().modified().unwrap(), written);
        assert!(!to.join("src/new.rs").exists());
    }
}
