//! Clients of other authors that speak to the server in all its protocols: packages of npm and of Python.
//!
//! They are fetched once, into the repository's `target`, in exactly the versions of the lock files beside the drivers.

use std::path::Path;
use std::process::Command;

use crate::cargo::succeeds;
use crate::python;
use crate::servers::missing_program;

/// Holds the lock file that was fetched, so that a changed one is fetched again.
const STAMP: &str = "fetched.json";

/// The folder of the drivers and the lock files.
const DRIVERS: &str = "crates/cli/tests/protocols/drivers";

/// Makes sure that the clients are there. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    let (drivers, folder) = (root.join(DRIVERS), root.join("target/protocol-clients"));
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the Node.js that the clients need is fetched for Linux on x86_64 only".into());
    }
    install_npm(&drivers, &folder)?;
    python::install(&folder.join("venv"), &drivers.join("requirements.txt"))
}

fn install_npm(drivers: &Path, folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let (lock, stamp) = (drivers.join("package-lock.json"), folder.join(STAMP));
    let wanted = std::fs::read_to_string(&lock).map_err(failed)?;
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    if let Some(missing) = missing_program() {
        return Err(missing);
    }
    println!("fetching clients of OpenAI, AG-UI and MCP, and a newer Node.js: 190 MB");
    std::fs::create_dir_all(folder).map_err(failed)?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(drivers.join(name), folder.join(name)).map_err(failed)?;
    }
    let mut npm = Command::new("npm");
    // Forced, because the Node.js that runs npm may be older than the clients want.
    npm.args(["ci", "--force", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    if !succeeds(npm.current_dir(folder)) {
        return Err("npm could not fetch the clients; look at what it says above".into());
    }
    std::fs::write(&stamp, wanted).map_err(failed)
}
