//! The commands behind `cargo xtask`. Each says whether it passed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::tidy;

/// Builds the server and becomes it, so that signals reach it directly.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let Some(server) = build_server(root) else { return false };
    let error = Command::new(&server).current_dir(root).arg("serve").args(args).exec();
    eprintln!("error: cannot start {}: {error}", server.display());
    false
}

pub(crate) fn bench(root: &Path, args: &[String]) -> bool {
    let mut cargo = cargo(root, &["run", "--release", "--package", "bench", "--"]);
    succeeds(cargo.args(args))
}

pub(crate) fn tidy(root: &Path) -> bool {
    let findings = tidy::check(root);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} to put right", findings.len());
    findings.is_empty()
}

pub(crate) fn check(root: &Path) -> bool {
    let mut report = Report::default();
    check_parts(root, &mut report);
    report.conclude()
}

pub(crate) fn test(root: &Path) -> bool {
    let mut report = Report::default();
    check_parts(root, &mut report);
    if succeeds(cargo(root, &["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null())) {
        report.part("tests", || {
            succeeds(&mut cargo(root, &["nextest", "run", "--workspace", "--no-fail-fast"]))
        });
    } else {
        println!("cargo-nextest is not installed; running the same tests with `cargo test`");
        let args = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"];
        report.part("tests", || succeeds(&mut cargo(root, &args)));
    }
    report.part("doc tests", || {
        succeeds(&mut cargo(root, &["test", "--workspace", "--doc", "--no-fail-fast"]))
    });
    report.conclude()
}

fn check_parts(root: &Path, report: &mut Report) {
    report.part("format", || succeeds(&mut cargo(root, &["fmt", "--all", "--check"])));
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    report.part("lints", || succeeds(&mut cargo(root, &lints)));
    report.part("tidy", || tidy(root));
}

/// How each part went.
#[derive(Default)]
struct Report {
    parts: Vec<(&'static str, bool, Duration)>,
}

impl Report {
    fn part(&mut self, name: &'static str, perform: impl FnOnce() -> bool) {
        println!("== {name}");
        let begin = Instant::now();
        let passed = perform();
        self.parts.push((name, passed, begin.elapsed()));
    }

    /// Prints the table and says whether every part passed.
    fn conclude(&self) -> bool {
        println!("\n{:<10} {:<7} {:>9}", "part", "result", "time");
        for (name, passed, time) in &self.parts {
            let result = if *passed { "ok" } else { "FAILED" };
            println!("{name:<10} {result:<7} {:>7.1} s", time.as_secs_f64());
        }
        self.parts.iter().all(|(_, passed, _)| *passed)
    }
}

/// Builds the server and finds out where cargo put it, which a setting may have changed.
fn build_server(root: &Path) -> Option<PathBuf> {
    let args = ["build", "--release", "--package", "cli", "--message-format", "json-render-diagnostics"];
    let output = cargo(root, &args).stderr(Stdio::inherit()).output();
    let output = output.inspect_err(|error| eprintln!("error: cannot run cargo: {error}")).ok()?;
    if !output.status.success() {
        return None;
    }
    let server = String::from_utf8_lossy(&output.stdout).lines().find_map(executable);
    if server.is_none() {
        eprintln!("error: cargo built no program `rondo`");
    }
    server
}

/// The path in cargo's message that `rondo` is built.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_server = message.pointer("/target/name")?.as_str()? == "rondo";
    message.get("executable")?.as_str().filter(|_| is_server).map(PathBuf::from)
}

fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(args);
    command
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.status().inspect_err(|error| eprintln!("error: cannot run {command:?}: {error}"));
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_among_cargos_messages() {
        let other = r#"{"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}"#;
        let server = r#"{"reason":"compiler-artifact","target":{"name":"rondo"},"executable":"/t/rondo"}"#;
        assert_eq!([other, server, "{}", "x"].map(executable), [None, Some("/t/rondo".into()), None, None]);
    }

    #[test]
    fn one_failed_part_fails_the_whole() {
        let mut report = Report::default();
        report.part("good", || true);
        assert!(report.conclude());
        report.part("bad", || false);
        report.part("good", || true);
        assert!(!report.conclude());
        assert_eq!(report.parts.len(), 3, "later parts still ran");
    }
}
