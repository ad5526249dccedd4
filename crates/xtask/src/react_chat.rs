//! The chat with React in `examples`: its build, and its tests in a browser.

use std::path::Path;
use std::process::Command;

use crate::cargo::{build_for_tests, succeeds};
use crate::console::install_browser;
use crate::servers::missing_program;

/// Holds the lock file that was fetched, so that a changed one is fetched again.
const STAMP: &str = "node_modules/.fetched";

/// Makes sure that the packages of the page are there. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    if let Some(missing) = missing_program() {
        return Err(missing);
    }
    install_browser()?;
    let folder = root.join("examples/react-chat");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let wanted = std::fs::read_to_string(folder.join("package-lock.json")).map_err(failed)?;
    if std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    println!("fetching the packages of the chat with React: 85 MB");
    // Not `ci`, which refuses a lock file without the packages for other systems.
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    if !succeeds(npm.current_dir(&folder)) {
        return Err("npm could not fetch the packages; look at what it says above".into());
    }
    std::fs::write(folder.join(STAMP), wanted).map_err(failed)
}

/// Builds the page, and tries it in a browser with the binary of the tests.
pub(crate) fn test(root: &Path) -> bool {
    let folder = root.join("examples/react-chat");
    let npm = |script: &str| {
        let mut npm = Command::new("npm");
        npm.args(["run", "--silent", script]).current_dir(&folder);
        npm
    };
    let Some([program]) = build_for_tests(root, ["rondo"]) else { return false };
    succeeds(&mut npm("build")) && succeeds(npm("test").env("RONDO_BINARY", program))
}
