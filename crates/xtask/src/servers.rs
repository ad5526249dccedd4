//! Other people's servers that some tests speak to, and clients that speak to us: packages of npm.
//!
//! They are fetched once, into the repository's `target`. Nothing is installed on the machine.

use std::path::Path;
use std::process::{Command, Stdio};

/// Name and version. Pinned, because another version may answer differently.
const PACKAGES: &[&str] = &[
    "@modelcontextprotocol/node@2.1.2",
    "@modelcontextprotocol/server@2.4.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@readme/oas-examples@8.2.2",
    "ai5@npm:ai@5.0.277",
    "ai6@npm:ai@6.0.326",
    "ai7@npm:ai@7.0.169",
    "oidc-provider@9.13.3",
    "zod@4.6.7",
];

/// Names what was fetched, so that a change of the list fetches again.
const STAMP: &str = "fetched";

/// Makes sure that the packages are there. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    let folder = root.join("target/real-servers");
    let stamp = folder.join(STAMP);
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    if let Some(missing) = missing_program() {
        return Err(missing);
    }
    println!("fetching servers and clients to speak with, and descriptions of others: 70 MB");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--loglevel=error",
        "--prefix",
    ]);
    let status = npm.arg(&folder).args(PACKAGES).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("npm could not fetch the packages; look at what it says above".into());
    }
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Returns the program that is missing to fetch packages and to run them, and what to do.
pub(crate) fn missing_program() -> Option<String> {
    let has = |program: &str| {
        let mut asked = Command::new(program);
        let status = asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let missing = ["node", "npm"].into_iter().find(|program| !has(program))?;
    Some(format!("there is no {missing}; install Node.js 20 or newer"))
}
