//! The commands behind `cargo xtask`. Each says whether it passed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::cargo::{NOTING, TEST_FEATURES, build, build_for_tests, cargo, succeeds};
use crate::report::Report;
use crate::{border, lines, proxy, real, seeds, servers, statements, tidy, torture};

/// The tests that need something which is fetched first. The part `tests` leaves them out.
const FETCHING_TESTS: [&str; 4] = ["real", "real_embeddings", "servers", "proxy"];

/// Builds the server and becomes it, so that signals reach it directly.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let Some(server) = build_release(root, "rondo") else { return false };
    let error = Command::new(&server).current_dir(root).args(["serve", "--pull"]).args(args).exec();
    eprintln!("error: cannot start {}: {error}", server.display());
    false
}

pub(crate) fn bench(root: &Path, args: &[String]) -> bool {
    let needed: &[&real::PackageSet] = match args.first().map(String::as_str) {
        Some("local") => &[&real::CHAT, &real::EMBEDDINGS, &real::ONNX],
        Some("memory") => &[&real::EMBEDDINGS, &real::VECTORS],
        Some(_) | None => &[],
    };
    for set in needed {
        if let Err(why) = real::install(root, set) {
            println!("NOT COMPARED: {why}");
        }
    }
    let program = build_release(root, "bench");
    program.is_some_and(|program| succeeds(Command::new(program).current_dir(root).args(args)))
}

/// Paths in the arguments are those of whoever calls, so the evaluation runs where it was called.
pub(crate) fn eval(root: &Path, args: &[String]) -> bool {
    let by_words = args.first().is_some_and(|name| name == "injection");
    let fetched = if by_words { Ok(()) } else { real::install(root, &real::EMBEDDINGS) };
    if let Err(why) = fetched {
        println!("NO EMBEDDINGS: {why}");
    }
    build_release(root, "bench").is_some_and(|program| succeeds(Command::new(program).args(args)))
}

/// Shows that tools reach nothing inside.
pub(crate) fn border(root: &Path) -> bool {
    if let Some(why) = border::obstacle() {
        eprintln!("error: {why}");
        return false;
    }
    build_for_tests(root, ["border"]).is_some_and(|[program]| border::run(root, &program))
}

/// Checks the house rules, or lists their debts.
pub(crate) fn tidy(root: &Path, args: &[String]) -> bool {
    match args {
        [] => {
            let findings = tidy::check(root);
            for finding in &findings {
                println!("{finding}");
            }
            println!("tidy: {} to put right", findings.len());
            findings.is_empty()
        }
        [list, debts] if list == "--list" && debts == "debts" => {
            print!("{}", tidy::list_debts(root));
            true
        }
        _ => {
            eprintln!("error: `cargo xtask tidy` takes nothing, or `--list debts`");
            false
        }
    }
}

/// Prints the size of each crate.
pub(crate) fn lines(root: &Path) -> bool {
    match lines::table(root) {
        Ok(table) => print!("{table}"),
        Err(error) => {
            eprintln!("error: {error}");
            return false;
        }
    }
    true
}

pub(crate) fn check(root: &Path) -> bool {
    let report = Report::new(&[]);
    check_parts(root, &report);
    report.conclude()
}

/// All parts, or those that are named.
pub(crate) fn test(root: &Path, only: &[String]) -> bool {
    let report = Report::new(only);
    check_parts(root, &report);
    // `seeds --mutate` leaves it behind if it is stopped, and tests would look at a broken product.
    let _ = std::fs::remove_file(root.join(seeds::BROKEN));
    let mut nextest = cargo(root, &["nextest", "--version"]);
    let nextest = succeeds(nextest.stdout(Stdio::null()).stderr(Stdio::null()));
    run_tests(root, &report, nextest);
    report.part("statements", || statements::check(root));
    report.installed("border", || border::obstacle().map_or(Ok(()), Err), || border(root));
    // The trial waits most of the time, so parts that need few processors run beside it.
    thread::scope(|scope| {
        scope.spawn(|| report.part("torture", || torture::run_round(root)));
        report.part("doc tests", || {
            let args = ["test", "--workspace", "--features", TEST_FEATURES, "--doc", "--no-fail-fast"];
            succeeds(&mut cargo(root, &args))
        });
        report.installed("servers", || servers::install(root), || run_fetching(root, nextest, &["servers"]));
        report.installed("proxy", || proxy::install(root), || run_fetching(root, nextest, &["proxy"]));
    });
    let models = || [&real::CHAT, &real::EMBEDDINGS].into_iter().try_for_each(|set| real::install(root, set));
    report.installed("real models", models, || run_fetching(root, nextest, &["real", "real_embeddings"]));
    report.conclude()
}

/// The tests of the workspace, while the store notes every statement.
fn run_tests(root: &Path, report: &Report, nextest: bool) {
    let mut command = if nextest {
        cargo(root, &["nextest", "run", "--workspace", "--features", TEST_FEATURES, "--no-fail-fast"])
    } else {
        println!("cargo-nextest is not installed; running the same tests with `cargo test`");
        let args = ["--lib", "--bins", "--tests", "--no-fail-fast", "--features", NOTING];
        let mut tests = cargo(root, &["test", "--workspace"]);
        tests.args(args);
        tests
    };
    let mut building = Command::new(command.get_program());
    building.args(command.get_args()).current_dir(root).arg("--no-run");
    report.part("build", || succeeds(&mut building));
    if !report.includes("tests") {
        return;
    }
    if nextest {
        let left_out: Vec<String> = FETCHING_TESTS.iter().map(|name| format!("binary(={name})")).collect();
        command.args(["-E", &format!("not ({})", left_out.join(" | "))]);
    }
    statements::begin(root);
    report.part("tests", || succeeds(&mut command));
    statements::end(root);
}

/// Tests that need something which was fetched before.
fn run_fetching(root: &Path, nextest: bool, tests: &[&str]) -> bool {
    let runner: &[&str] = if nextest { &["nextest", "run"] } else { &["test"] };
    let mut cargo = cargo(root, runner);
    cargo.args(["--workspace", "--features", TEST_FEATURES]);
    for test in tests {
        cargo.args(["--test", test]);
    }
    succeeds(&mut cargo)
}

fn check_parts(root: &Path, report: &Report) {
    report.part("format", || succeeds(&mut cargo(root, &["fmt", "--all", "--check"])));
    report.part("tidy", || tidy(root, &[]));
    let lints =
        ["clippy", "--workspace", "--all-targets", "--features", TEST_FEATURES, "--", "-D", "warnings"];
    report.part("lints", || succeeds(&mut cargo(root, &lints)));
}

/// A program in release mode. Of the whole workspace, so that `run`, `bench`, `eval` and `torture` share their builds:
/// one package alone would be built with other features of its dependencies.
fn build_release(root: &Path, program: &str) -> Option<PathBuf> {
    let [path] = build(&mut cargo(root, &[]), &["--release", "--workspace", "--bin", program], [program])?;
    Some(path)
}
