//! The guard against a slow growth of costs: instructions of a run under callgrind, relative to the least agent server.
//!
//! Valgrind is what the machine has, or Debian's package, unpacked into the repository's `target`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{build_for_tests, succeeds};
use crate::debian::{self, runs};

const UNPACKED: &str = "target/real-valgrind";
/// Folders with valgrind's parts, in newer and in older packages.
const LIBRARIES: [&str; 2] = ["usr/libexec/valgrind", "usr/lib/x86_64-linux-gnu/valgrind"];
const REMEDY: &str = "install valgrind (Debian: apt-get install valgrind)";

/// Makes sure that there is a valgrind that starts. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    if starts(&mut Command::new("valgrind")) || starts(&mut unpacked_valgrind(root)) {
        return Ok(());
    }
    println!("fetching valgrind, once, into target: 30 MB on the disk");
    let folder = root.join(UNPACKED);
    debian::unpack("valgrind", &folder, REMEDY)?;
    // The program beside it is a script that looks for the real one under /usr.
    let programs = folder.join("usr/bin");
    let _older_packages_have_no_script =
        std::fs::rename(programs.join("valgrind.bin"), programs.join("valgrind")).is_err();
    if starts(&mut unpacked_valgrind(root)) {
        return Ok(());
    }
    Err(format!("{} does not start here; {REMEDY}", programs.join("valgrind").display()))
}

/// Counts with the programs that the tests have built, at the lowest priority: the trial beside it measures how soon its
/// server answers.
pub(crate) fn count(root: &Path, options: &[String]) -> bool {
    let Some([rondo, bench]) = build_for_tests(root, ["rondo", "bench"]) else { return false };
    let mut command = Command::new("nice");
    command
        .args(["-n", "19"])
        .arg(bench)
        .arg("instructions")
        .args(options)
        .current_dir(root)
        .env("RONDO_BIN", rondo);
    if !starts(&mut Command::new("valgrind")) {
        command.envs(environment(root));
    }
    succeeds(&mut command)
}

/// The variables by which the benchmark finds the unpacked valgrind.
fn environment(root: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let folder = root.join(UNPACKED);
    let library = LIBRARIES.iter().map(|library| folder.join(library)).find(|library| library.is_dir());
    let library = library.map(|library| ("VALGRIND_LIB", library));
    [("VALGRIND_BIN", folder.join("usr/bin"))].into_iter().chain(library)
}

fn unpacked_valgrind(root: &Path) -> Command {
    let mut valgrind = Command::new(root.join(UNPACKED).join("usr/bin/valgrind"));
    valgrind.envs(environment(root));
    valgrind
}

/// Whether it can run a program under callgrind.
fn starts(valgrind: &mut Command) -> bool {
    runs(valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]))
}
