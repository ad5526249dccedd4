//! The commands behind `cargo xtask`. Each says whether it passed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{border, proxy, real, seeds, servers, statements, tidy, torture};

/// Brings in the tests that ask real models, and those that speak to other people's servers.
const REAL: &str = "cli/real-model,cli/real-servers,service/real-model,local/real-model";

/// Builds the server and becomes it, so that signals reach it directly.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let Some(server) = build_server(root) else { return false };
    let error = Command::new(&server).current_dir(root).args(["serve", "--pull"]).args(args).exec();
    eprintln!("error: cannot start {}: {error}", server.display());
    false
}

pub(crate) fn bench(root: &Path, args: &[String]) -> bool {
    let needed: &[&real::Set] = match args.first().map(String::as_str) {
        Some("local") => &[&real::CHAT, &real::EMBEDDINGS, &real::ONNX],
        Some("memory") => &[&real::EMBEDDINGS, &real::VECTORS],
        Some(_) | None => &[],
    };
    for set in needed {
        if let Err(why) = real::install(root, set) {
            println!("NOT COMPARED: {why}");
        }
    }
    let mut cargo = cargo(root, &["run", "--release", "--package", "bench", "--"]);
    succeeds(cargo.args(args))
}

/// Paths in the arguments are those of whoever calls, so the evaluation runs where it was called.
pub(crate) fn eval(root: &Path, args: &[String]) -> bool {
    let by_words = args.first().is_some_and(|name| name == "injection");
    let fetched = if by_words { Ok(()) } else { real::install(root, &real::EMBEDDINGS) };
    if let Err(why) = fetched {
        println!("NO EMBEDDINGS: {why}");
    }
    let manifest = root.join("Cargo.toml");
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--release", "--package", "bench", "--manifest-path"]).arg(manifest);
    succeeds(cargo.arg("--").args(args))
}

/// Shows that tools reach nothing inside.
pub(crate) fn border(root: &Path) -> bool {
    if let Some(why) = border::obstacle() {
        eprintln!("error: {why}");
        return false;
    }
    // With the tests of the whole workspace, or its libraries would be built again with other features.
    build(root, &["--workspace", "--tests", "--bin", "border"], "border")
        .is_some_and(|program| border::run(root, &program))
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

/// All parts, or those that are named.
pub(crate) fn test(root: &Path, only: &[String]) -> bool {
    let mut report = Report { only: only.to_vec(), ..Report::default() };
    check_parts(root, &mut report);
    // `seeds --mutate` leaves it behind if it is stopped, and tests would look at a broken product.
    let _ = std::fs::remove_file(root.join(seeds::BROKEN));
    if report.wants("tests") {
        statements::begin(root);
    }
    let mut nextest = cargo(root, &["nextest", "--version"]);
    let nextest = succeeds(nextest.stdout(Stdio::null()).stderr(Stdio::null()));
    if nextest {
        report.part("tests", || {
            succeeds(&mut cargo(root, &["nextest", "run", "--workspace", "--no-fail-fast"]))
        });
    } else {
        println!("cargo-nextest is not installed; running the same tests with `cargo test`");
        let args = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"];
        report.part("tests", || succeeds(&mut cargo(root, &args)));
    }
    statements::end(root);
    report.part("statements", || statements::check(root));
    report.part("doc tests", || {
        succeeds(&mut cargo(root, &["test", "--workspace", "--doc", "--no-fail-fast"]))
    });
    report.installed("border", || border::obstacle().map_or(Ok(()), Err), || border(root));
    report.part("torture", || torture::round(root));
    let models = || [&real::CHAT, &real::EMBEDDINGS].into_iter().try_for_each(|set| real::install(root, set));
    report.installed("real models", models, || asks_real(root, nextest, &["real", "real_embeddings"]));
    report.installed("servers", || servers::install(root), || asks_real(root, nextest, &["servers"]));
    report.installed("proxy", || proxy::install(root), || asks_real(root, nextest, &["proxy"]));
    report.conclude()
}

fn asks_real(root: &Path, nextest: bool, tests: &[&str]) -> bool {
    let runner: &[&str] = if nextest { &["nextest", "run"] } else { &["test"] };
    // Of the whole workspace, or the libraries would be built again with other features.
    let mut cargo = cargo(root, runner);
    cargo.args(["--workspace", "--features", REAL]);
    for test in tests {
        cargo.args(["--test", test]);
    }
    succeeds(&mut cargo)
}

fn check_parts(root: &Path, report: &mut Report) {
    report.part("format", || succeeds(&mut cargo(root, &["fmt", "--all", "--check"])));
    // The features bring in the tests against real models, which otherwise nobody would check.
    let lints = ["clippy", "--workspace", "--all-targets", "--features", REAL, "--", "-D", "warnings"];
    report.part("lints", || succeeds(&mut cargo(root, &lints)));
    report.part("tidy", || tidy(root));
}

/// How each part went.
#[derive(Default)]
struct Report {
    parts: Vec<(&'static str, bool, Duration)>,
    /// What could not be run, and why with a remedy.
    not_run: Vec<(&'static str, String)>,
    /// The parts that are wanted; all if none is named.
    only: Vec<String>,
}

impl Report {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    /// A part that needs something to be there first.
    fn installed(
        &mut self,
        name: &'static str,
        install: impl FnOnce() -> Result<(), String>,
        perform: impl FnOnce() -> bool,
    ) {
        if !self.wants(name) {
            return;
        }
        match install() {
            Ok(()) => self.part(name, perform),
            Err(why) => self.not_run(name, why),
        }
    }

    fn part(&mut self, name: &'static str, perform: impl FnOnce() -> bool) {
        if !self.wants(name) {
            return;
        }
        println!("== {name}");
        let begin = Instant::now();
        let passed = perform();
        self.parts.push((name, passed, begin.elapsed()));
    }

    /// Notes a part that needs what is not there. It fails nothing, but it is said aloud.
    fn not_run(&mut self, name: &'static str, why: String) {
        self.not_run.push((name, why));
    }

    /// Prints the table, then what was not run, and says whether every part that ran has passed.
    fn conclude(&self) -> bool {
        println!("\n{:<11} {:<7} {:>9}", "part", "result", "time");
        for (name, passed, time) in &self.parts {
            let result = if *passed { "ok" } else { "FAILED" };
            println!("{name:<11} {result:<7} {:>7.1} s", time.as_secs_f64());
        }
        for (name, why) in &self.not_run {
            println!("NOT RUN: {name}: {why}");
        }
        let is_any = !self.parts.is_empty() || !self.not_run.is_empty();
        if !is_any {
            eprintln!(
                "error: there is no part {}; the table of `cargo xtask test` names them",
                self.only.join(", ")
            );
        }
        is_any && self.parts.iter().all(|(_, passed, _)| *passed)
    }
}

fn build_server(root: &Path) -> Option<PathBuf> {
    build(root, &["--release", "--package", "cli"], "rondo")
}

/// Builds a program and finds out where cargo put it, which a setting may have changed.
pub(crate) fn build(root: &Path, which: &[&str], program: &str) -> Option<PathBuf> {
    let mut cargo = cargo(root, &["build", "--message-format", "json-render-diagnostics"]);
    let output = cargo.args(which).stderr(Stdio::inherit()).output();
    let output = output.inspect_err(|error| eprintln!("error: cannot run cargo: {error}")).ok()?;
    if !output.status.success() {
        return None;
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let built = messages.lines().find_map(|message| executable(message, program));
    if built.is_none() {
        eprintln!("error: cargo built no program `{program}`");
    }
    built
}

/// The path in cargo's message that a program is built.
fn executable(message: &str, program: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_program = message.pointer("/target/name")?.as_str()? == program;
    let is_it = is_program && message.pointer("/profile/test").is_none_or(|test| test == false);
    message.get("executable")?.as_str().filter(|_| is_it).map(PathBuf::from)
}

fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(args);
    command
}

pub(crate) fn succeeds(command: &mut Command) -> bool {
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
        let tests = r#"{"target":{"name":"rondo"},"profile":{"test":true},"executable":"/t/deps/rondo-1"}"#;
        let found = [other, tests, server, "{}", "x"].map(|message| executable(message, "rondo"));
        assert_eq!(found, [None, None, Some("/t/rondo".into()), None, None]);
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

    #[test]
    fn a_part_that_lacks_something_fails_nothing() {
        let mut report = Report::default();
        report.part("good", || true);
        report.not_run("optional", "there is no such program; install it".into());
        assert!(report.conclude());
        report.part("bad", || false);
        assert!(!report.conclude(), "and hides nothing");
    }
}
