//! Virtual environments of Python in `target`, with packages of exact versions.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::succeeds;

/// Holds the list that was installed, so that a changed one is installed again.
const STAMP: &str = "installed.txt";

/// Makes sure that an environment has the packages of a list. The error says what is missing and what to do.
pub(crate) fn install(environment: &Path, list: &Path) -> Result<(), String> {
    let stamp = environment.join(STAMP);
    let wanted = std::fs::read_to_string(list).map_err(|error| format!("{}: {error}", list.display()))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    let mut asked = Command::new("python3");
    let new_enough = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
    let status = asked.args(["-c", new_enough]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("there is no python3 with venv; install Python 3.10 or newer (Debian's packages python3 and python3-venv)".into());
    }
    println!("installing Python packages into {}", environment.display());
    if !succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment)) {
        return Err(format!("python3 could not make {}", environment.display()));
    }
    if !succeeds(pip(environment).args(["--only-binary", ":all:", "--no-deps", "-r"]).arg(list)) {
        return Err("pip could not install the packages; look at what it says above".into());
    }
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Installs a package of the repository as it is now. Its build needs what the environment has, and fetches nothing.
pub(crate) fn install_package(environment: &Path, package: &Path) -> bool {
    let mut pip = pip(environment);
    succeeds(pip.args(["--no-deps", "--no-build-isolation", "--force-reinstall"]).arg(package))
}

fn pip(environment: &Path) -> Command {
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}
