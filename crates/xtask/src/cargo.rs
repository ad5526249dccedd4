//! Calls of cargo, and of other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Lets the store note every statement, for the part `statements`. Every build of tests has this feature, so that nothing
/// is built twice with different features.
pub(crate) const TEST_FEATURES: &str = "store/statements";

/// Cargo with these arguments, in a folder.
pub(crate) fn cargo(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(folder).args(args);
    command
}

/// Runs a command and says whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.status().inspect_err(|error| eprintln!("error: cannot run {command:?}: {error}"));
    status.is_ok_and(|status| status.success())
}

/// Builds programs and gives the path of each. Cargo says where it put them, because a setting may have changed that.
pub(crate) fn build<const N: usize>(
    command: &mut Command,
    args: &[&str],
    programs: [&str; N],
) -> Option<[PathBuf; N]> {
    command.args(["build", "--message-format", "json-render-diagnostics"]).args(args);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.inspect_err(|error| eprintln!("error: cannot run cargo: {error}")).ok()?;
    if !output.status.success() {
        return None;
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let paths = programs.map(|program| {
        let path = messages.lines().find_map(|message| executable(message, program));
        if path.is_none() {
            eprintln!("error: cargo built no program `{program}`");
        }
        path
    });
    paths.iter().all(Option::is_some).then(|| paths.map(Option::unwrap_or_default))
}

/// Builds programs without optimisation, in the build that the tests of the workspace have made.
pub(crate) fn build_for_tests<const N: usize>(root: &Path, programs: [&str; N]) -> Option<[PathBuf; N]> {
    let mut args = vec!["--workspace", "--tests", "--features", TEST_FEATURES];
    args.extend(programs.iter().flat_map(|program| ["--bin", program]));
    build(&mut cargo(root, &[]), &args, programs)
}

/// The path in cargo's message that a program is built.
fn executable(message: &str, program: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_program = message.pointer("/target/name")?.as_str()? == program;
    let is_built = is_program && message.pointer("/profile/test").is_none_or(|test| test == false);
    message.get("executable")?.as_str().filter(|_| is_built).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_among_cargos_messages() {
        let other = r#"{"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}"#;
        let server = r#"{"reason":"compiler-artifact","target":{"name":"rondo"},"executable":"/t/rondo"}"#;
        let tests = r#"{"target":{"name":"rondo"},"profile":{"test":true},"executable":"/t/deps/rondo-1"}"#;
        let found = [other, tests, server, "{}", "x"].map(|message| executable(message, "rondo"));
        assert_eq!(found, [None, None, Some("/t/rondo".into()), None, None]);
    }
}
