//! The commands behind `cargo xtask`. Each says whether it passed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::cargo::{TEST_FEATURES, build, build_for_tests, cargo, succeeds};
use crate::matrix::{self, MatrixAct};
use crate::report::Report;
use crate::{
    border, clients, console, deploy, dist, instructions, lines, lints, postgres, protocols, proxy,
    react_chat, real, seeds, servers, statements, tidy, torture,
};

/// The note that people are told before the server is built, because a first build takes minutes.
const QUICK_NOTE: &str = "Building the server. The first build takes about 8 minutes on two cores, and later builds take \
    seconds. Most crates are not optimised; `cargo xtask run --release` builds the optimised server.";
const RELEASE_NOTE: &str =
    "Building the optimised server. The first build takes about 25 minutes on two cores.";

/// The tests that need something which is fetched first. `cargo test` leaves them out unless it is given their names.
const FETCHING_TESTS: [&str; 7] =
    ["real", "real_embeddings", "servers", "clients", "protocols", "proxy", "postgres"];

/// The protocols of the table of clients that each of these parts has results for.
const MATRIX_PARTS: [(&str, &[&str]); 3] = [
    ("servers", &["Vercel AI SDK"]),
    ("clients", &["Rondo's own API"]),
    ("protocols", &["OpenAI Chat Completions", "OpenAI Responses", "AG-UI", "MCP"]),
];

/// Builds the server and becomes it, so that signals reach it directly. Most crates are not optimised, because a first
/// build must be ready soon; `--release` asks for the optimised server.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let (release, args): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| *arg == "--release");
    let is_release = !release.is_empty();
    eprintln!("{}", if is_release { RELEASE_NOTE } else { QUICK_NOTE });
    let built = if is_release { build_release(root, "rondo") } else { build_quick(root, "rondo") };
    let Some(server) = built else { return false };
    let error = Command::new(&server).current_dir(root).args(["serve", "--pull"]).args(args).exec();
    eprintln!("error: cannot start {}: {error}", server.display());
    false
}

/// Without a name, what streamed answers cost. Options may follow at once.
pub(crate) fn bench(root: &Path, args: &[String]) -> bool {
    let is_named = args.first().is_some_and(|name| !name.starts_with('-'));
    let default = (!is_named).then(|| "streams".to_owned());
    let args: Vec<String> = default.into_iter().chain(args.iter().cloned()).collect();
    let args = args.as_slice();
    if args.first().is_some_and(|name| name == "instructions") {
        return count_instructions(root, args);
    }
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
    // These benchmarks measure the server that lies beside them.
    let measures_server =
        args.first().is_some_and(|name| ["streams", "growth", "scale"].contains(&name.as_str()));
    if measures_server && build_release(root, "rondo").is_none() {
        return false;
    }
    let compares_stores = args.windows(2).any(|pair| pair == ["--store", "postgres"]);
    let needs_postgres = compares_stores || args.first().is_some_and(|name| name == "scale");
    if needs_postgres && let Err(why) = postgres::install(root) {
        eprintln!("error: {why}");
        return false;
    }
    let Some(program) = build_release(root, "bench") else { return false };
    let mut program = Command::new(program);
    program.env(testpg::PACKAGE_VARIABLE, postgres::package(root));
    succeeds(program.current_dir(root).args(args))
}

/// The guard of `test`, with options of its own. It counts the programs that tests use, which are not optimised.
fn count_instructions(root: &Path, args: &[String]) -> bool {
    // The same compiler as in `test`: otherwise all programs would be built again, and with other instructions.
    if let Some(passed) = lints::run_driven("bench", args, "THESE ARE NOT THE PROGRAMS OF THE TESTS") {
        return passed;
    }
    if let Err(why) = instructions::install(root) {
        eprintln!("error: {why}");
        return false;
    }
    instructions::count(root, args.get(1..).unwrap_or_default())
}

/// Paths in the arguments are relative to the folder of the caller, so the evaluation runs there.
pub(crate) fn eval(root: &Path, args: &[String]) -> bool {
    let by_words = args.first().is_some_and(|name| ["injection", "local-models"].contains(&name.as_str()));
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

/// Checks the house rules.
pub(crate) fn tidy(root: &Path) -> bool {
    let findings = tidy::check(root);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} to put right", findings.len());
    findings.is_empty()
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

/// Formatting, tidy and lints, without making programs.
pub(crate) fn check(root: &Path) -> bool {
    let report = Report::new(&[]);
    let lint = |targets: &[&str]| {
        let mut clippy = cargo(root, &["clippy", "--workspace", "--features", TEST_FEATURES]);
        succeeds(clippy.args(targets).args(["--", "-D", "warnings"]))
    };
    // Cargo does not count tests that it leaves out by default among all targets.
    let lint_all = || lint(&["--all-targets"]) && lint(&by_name(&FETCHING_TESTS));
    thread::scope(|scope| {
        scope.spawn(|| check_sources(root, &report));
        report.part("lints", lint_all);
    });
    report.conclude()
}

/// All parts, or those that are named.
pub(crate) fn test(root: &Path, only: &[String]) -> bool {
    if let Some(passed) = lints::run_driven("test", only, "NO LINTS") {
        return passed;
    }
    let report = Report::new(only);
    check_sources(root, &report);
    // `seeds --mutate` leaves it behind if it is stopped, and tests would look at a broken product.
    let _ = std::fs::remove_file(root.join(seeds::BROKEN));
    thread::scope(|scope| {
        scope.spawn(|| fetch_ahead(root, &report));
        report.part("build", || {
            let build = |targets: &[&str]| {
                lints::build(root, &[&["--workspace", "--features", TEST_FEATURES], targets].concat())
            };
            build(&["--all-targets"]) && build(&by_name(&FETCHING_TESTS))
        });
        let mut nextest = cargo(root, &["nextest", "--version"]);
        let nextest = succeeds(nextest.stdout(Stdio::null()).stderr(Stdio::null()));
        run_tests(root, &report, nextest);
        report.part("statements", || statements::check(root));
        report.installed_part("border", || border::obstacle().map_or(Ok(()), Err), || border(root));
        run_two_lanes(root, &report, nextest);
    });
    report.conclude()
}

/// Makes sure that something is there. The error says what is missing and what to do.
type Install = fn(&Path) -> Result<(), String>;

/// Fetches what parts need while the processors build. A part that finds something missing fetches it again, and says
/// what is wrong.
fn fetch_ahead(root: &Path, report: &Report) {
    let installs: [(&[&str], Install); 10] = [
        (&["nodes", "postgres"], postgres::install),
        (&["servers"], servers::install),
        (&["clients"], clients::install),
        (&["protocols"], protocols::install),
        (&["console"], console::install),
        (&["react-chat"], react_chat::install),
        (&["proxy"], proxy::install),
        (&["deploy"], deploy::install),
        (&["instructions"], instructions::install),
        (&["local models", "real models"], install_models),
    ];
    for (parts, install) in installs {
        if parts.iter().any(|part| report.includes(part)) {
            report.fetch(|| install(root)).unwrap_or_default();
        }
    }
}

/// The last parts, in two lanes at once, because most of them wait most of the time.
fn run_two_lanes(root: &Path, report: &Report, nextest: bool) {
    thread::scope(|scope| {
        scope.spawn(|| run_trials_and_pages(root, report, nextest));
        run_clients_and_packages(root, report, nextest);
    });
}

/// The trials, then the pages in a browser and the servers with real models.
fn run_trials_and_pages(root: &Path, report: &Report, nextest: bool) {
    report.part("torture", || torture::run_round(root));
    report.installed_part("nodes", || postgres::install(root), || torture::run_nodes(root));
    report.installed_part("console", || console::install(root), || console::test(root));
    report.installed_part("react-chat", || react_chat::install(root), || react_chat::test(root));
    let mut tests = fetching_tests(root, nextest, &["real", "real_embeddings"]);
    if nextest {
        tests.args(["--no-fail-fast", "-E", "not package(local)"]);
    }
    report.installed_part(
        "real models",
        || install_models(root),
        || succeeds(&mut at_lowest_priority(&tests)),
    );
}

/// Programs of other authors in front of the server and behind it, its packages, and its second database.
fn run_clients_and_packages(root: &Path, report: &Report, nextest: bool) {
    report.part("doc tests", || {
        let args = ["test", "--workspace", "--features", TEST_FEATURES, "--doc", "--no-fail-fast"];
        succeeds(&mut cargo(root, &args))
    });
    let run = |tests: &[&str]| succeeds(&mut fetching_tests(root, nextest, tests));
    let run_with_matrix = |part: &str| run_with_matrix(root, part, || run(&[part]));
    report.installed_part("servers", || servers::install(root), || run_with_matrix("servers"));
    let run_clients = || clients::build(root) && run_with_matrix("clients");
    report.installed_part("clients", || clients::install(root), run_clients);
    report.installed_part("protocols", || protocols::install(root), || run_with_matrix("protocols"));
    report.installed_part("proxy", || proxy::install(root), || run(&["proxy"]));
    let test_deploy = || deploy::test(root, |what, why| report.not_run(what, why));
    report.installed_part("deploy", || deploy::install(root), test_deploy);
    report.installed_part("dist", || dist::obstacle().map_or(Ok(()), Err), || dist::test(root));
    report.installed_part("postgres", || postgres::install(root), || run_postgres(root, nextest));
    report.installed_part("instructions", || instructions::install(root), || instructions::count(root, &[]));
    if nextest {
        let mut tests = fetching_tests(root, nextest, &["real", "real_embeddings"]);
        tests.args(["--no-fail-fast", "-E", "package(local)"]);
        report.installed_part(
            "local models",
            || install_models(root),
            || succeeds(&mut at_lowest_priority(&tests)),
        );
    }
}

/// The tests of the workspace, while the store notes every statement.
fn run_tests(root: &Path, report: &Report, nextest: bool) {
    if !report.includes("tests") {
        return;
    }
    let mut command = if nextest {
        // One more than there are processors, because some tests wait for time to pass.
        let threads = thread::available_parallelism().map_or(2, |processors| processors.get() + 1);
        cargo(root, &["nextest", "run", "--workspace", "--test-threads", &threads.to_string()])
    } else {
        println!("cargo-nextest is not installed; running the same tests with `cargo test`");
        cargo(root, &["test", "--workspace", "--lib", "--bins", "--tests"])
    };
    command.args(["--features", TEST_FEATURES, "--no-fail-fast"]);
    statements::begin(root);
    report.part("tests", || succeeds(&mut command));
    statements::end(root);
}

/// Tests that need something which was fetched before.
fn fetching_tests(root: &Path, nextest: bool, tests: &[&str]) -> Command {
    let runner: &[&str] = if nextest { &["nextest", "run"] } else { &["test"] };
    let mut cargo = cargo(root, runner);
    cargo.args(["--workspace", "--features", TEST_FEATURES]).args(by_name(tests));
    cargo
}

/// Runs the tests of a part, and compares what they have found about clients with the table in the documents.
fn run_with_matrix(root: &Path, part: &str, run: impl FnOnce() -> bool) -> bool {
    for (_, protocols) in MATRIX_PARTS.iter().filter(|(name, _)| *name == part) {
        matrix::forget(root, protocols);
    }
    run() && matrix::perform(root, MatrixAct::Compare)
}

/// Models that tests ask real questions.
fn install_models(root: &Path) -> Result<(), String> {
    [&real::CHAT, &real::EMBEDDINGS].into_iter().try_for_each(|set| real::install(root, set))
}

/// Returns the command at the lowest priority: models compute all the time, and the trial measures how soon its server
/// answers.
fn at_lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice
}

/// The tests that need a PostgreSQL, with one that was started for them.
fn run_postgres(root: &Path, nextest: bool) -> bool {
    match postgres::start(root) {
        Ok(server) => {
            let mut faults = fetching_tests(root, nextest, &["postgres"]);
            faults.env(testpg::PACKAGE_VARIABLE, postgres::package(root));
            let mut passed = succeeds(faults.env(postgres::ADDRESS, server.address()));
            if nextest {
                let mut suites = cargo(root, &["nextest", "run", "--workspace", "--features", TEST_FEATURES]);
                suites.args(["--no-fail-fast", "-E", &postgres::suites()]).env("RUST_BACKTRACE", "0");
                passed &= succeeds(suites.env(postgres::ADDRESS, server.address()));
            } else {
                eprintln!("note: without cargo-nextest, the suites of SQLite are not run on PostgreSQL");
            }
            passed
        }
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

/// Arguments that name tests.
fn by_name<'a>(tests: &[&'a str]) -> Vec<&'a str> {
    tests.iter().flat_map(|test| ["--test", test]).collect()
}

fn check_sources(root: &Path, report: &Report) {
    report.part("format", || succeeds(&mut cargo(root, &["fmt", "--all", "--check"])));
    report.part("tidy", || tidy(root));
}

/// A program without optimisation, with the features of the whole workspace, so that `test` shares its dependencies.
fn build_quick(root: &Path, program: &str) -> Option<PathBuf> {
    let [path] = build(&mut cargo(root, &[]), &["--workspace", "--bin", program], [program])?;
    Some(path)
}

/// A program in release mode. Of the whole workspace, so that `bench`, `eval` and `torture` share their builds:
/// one package alone would be built with other features of its dependencies.
fn build_release(root: &Path, program: &str) -> Option<PathBuf> {
    let [path] = build(&mut cargo(root, &[]), &["--release", "--workspace", "--bin", program], [program])?;
    Some(path)
}
