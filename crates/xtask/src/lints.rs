//! Lints in the same build as the tests.
//!
//! `cargo clippy` checks every dependency a second time, because it makes no code, and a clean checkout spends ten
//! minutes on that. Clippy's driver is the compiler with lints added, so `cargo xtask test` lets it compile our own crates:
//! one build gives both the findings and the programs. The driver makes the same programs, with less work by the
//! optimiser.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Cargo's setting for the program that compiles our own crates.
const SETTING: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Runs a command of this program again so that all its builds use the driver, and says whether it passed. None if this
/// process uses the driver already, or if there is none, which is printed after `without`.
pub(crate) fn run_driven(command: &str, arguments: &[String], without: &str) -> Option<bool> {
    if is_driven() {
        return None;
    }
    let arguments: Vec<&str> = [command].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    drive(&arguments).inspect_err(|why| println!("{without}: {why}")).ok()
}

/// Lets a command of cargo use the plain compiler.
pub(crate) fn turn_off(cargo: &mut Command) {
    cargo.env_remove(SETTING);
}

#[expect(clippy::disallowed_methods, reason = "it is cargo's setting, not one of the server")]
fn is_driven() -> bool {
    std::env::var_os(SETTING).is_some()
}

fn drive(arguments: &[&str]) -> Result<bool, String> {
    let driver = driver()?;
    let program = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let status = Command::new(program).args(arguments).env(SETTING, driver).status();
    status.map(|status| status.success()).map_err(|error| format!("cannot start this program again: {error}"))
}

/// The path of clippy's driver, which stands beside the compiler.
fn driver() -> Result<PathBuf, String> {
    let rustc = Command::new("rustc").args(["--print", "sysroot"]).output();
    let rustc = rustc.map_err(|error| format!("rustc does not start: {error}"))?;
    let sysroot = String::from_utf8_lossy(&rustc.stdout);
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    if driver.is_file() {
        return Ok(driver);
    }
    Err("there is no clippy; run `rustup component add clippy`".into())
}

/// Builds what the arguments name and shows each warning. False if there is one, or if something does not compile.
pub(crate) fn build(root: &Path, arguments: &[&str]) -> bool {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--message-format", "json-diagnostic-rendered-ansi"]).args(arguments);
    let mut cargo = match cargo.current_dir(root).stdout(Stdio::piped()).spawn() {
        Ok(cargo) => cargo,
        Err(error) => {
            eprintln!("error: cannot run cargo: {error}");
            return false;
        }
    };
    let lines = cargo.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    let findings = lines.map_while(Result::ok).filter_map(|line| finding(&line));
    let count = findings.inspect(|finding| eprintln!("{finding}")).count();
    cargo.wait().is_ok_and(|status| status.success()) && count == 0
}

/// The text of a warning or an error, if cargo's message is one.
fn finding(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_finding = message.get("reason")?.as_str()? == "compiler-message";
    message.pointer("/message/rendered")?.as_str().filter(|_| is_finding).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_found_among_cargos_messages() {
        let warning =
            r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"warning: unused"}}"#;
        let built = r#"{"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}"#;
        let found = [warning, built, "{}", "x"].map(finding);
        assert_eq!(found, [Some("warning: unused".into()), None, None, None]);
    }
}
