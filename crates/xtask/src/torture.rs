//! The crash harness: builds the server and the harness, and lets the one at the other.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cargo::{build, build_for_tests, cargo, succeeds};
use crate::planted::{self, PlantedBug, PlantedCopy};
use crate::{faketime, lints, postgres};

/// How long a round in `cargo xtask test` is.
const MINUTES_IN_TEST: &str = "3";
/// The length of a round for several nodes, which share a PostgreSQL, and how many there are.
const MINUTES_OF_NODES: &str = "2";
const NODES_IN_TEST: &str = "3";

/// The command that the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
struct TortureArguments {
    experiment: TortureExperiment,
    release: bool,
    /// For the harness, with paths relative to the folder of the caller.
    rest: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TortureExperiment {
    Round,
    /// All planted bugs, or the one of this name.
    Planted(Option<String>),
    Load,
}

/// `cargo xtask torture`: in release mode unless `--dev` is given.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let Some(TortureArguments { experiment, release, rest }) =
        parse(args, std::env::current_dir().ok().as_deref())
    else {
        eprintln!("error: --out needs a folder, and --bug the name of a bug");
        return false;
    };
    // The same compiler as in `test`: otherwise all programs of the tests would be built again.
    let driven =
        (!release).then(|| lints::run_driven("torture", args, "THESE ARE NOT THE PROGRAMS OF THE TESTS"));
    if let Some(passed) = driven.flatten() {
        return passed;
    }
    match experiment {
        TortureExperiment::Round => torture(root, release, "round", &rest),
        TortureExperiment::Load => torture(root, release, "load", &rest),
        TortureExperiment::Planted(only) => run_planted(root, release, only.as_deref(), &rest),
    }
}

/// The round of `cargo xtask test`, with what the tests have built anyway.
pub(crate) fn run_round(root: &Path) -> bool {
    torture(root, false, "round", &["--minutes", MINUTES_IN_TEST].map(str::to_owned))
}

/// The round with several nodes of `cargo xtask test`. It has a folder of its own, so that both rounds leave their figures.
pub(crate) fn run_nodes(root: &Path) -> bool {
    let out = root.join("target/torture-nodes").display().to_string();
    let nodes = ["--store", "postgres", "--nodes", NODES_IN_TEST, "--minutes", MINUTES_OF_NODES];
    let args: Vec<String> = nodes.into_iter().chain(["--out", &out]).map(str::to_owned).collect();
    torture(root, false, "round", &args)
}

fn torture(root: &Path, release: bool, experiment: &str, rest: &[String]) -> bool {
    let Some(rest) = &prepare(root, rest) else { return false };
    let Some((harness, server)) = build_both(root, release) else { return false };
    // Another build puts another server in the same place.
    let Some(server) = keep_server(root, &server, "rondo") else { return false };
    succeeds(&mut harness_command(root, &harness, &server, experiment, rest))
}

/// Fetches what a trial with these options needs, and adds options that name it. None if it cannot be had.
fn prepare(root: &Path, rest: &[String]) -> Option<Vec<String>> {
    if is_on_postgres(rest) {
        postgres::install(root).inspect_err(|why| eprintln!("error: {why}")).ok()?;
    }
    let mut rest = rest.to_vec();
    if has_several_nodes(&rest) && !rest.iter().any(|arg| arg.starts_with("--faketime")) {
        match faketime::install(root) {
            Ok(library) => rest.extend(["--faketime".to_owned(), library.display().to_string()]),
            Err(why) => println!("NOT RUN: a node whose clock is an hour ahead: {why}"),
        }
    }
    Some(rest)
}

/// Plants one bug after the other in a copy of the repository, and expects the harness to find each.
fn run_planted(root: &Path, release: bool, only: Option<&str>, rest: &[String]) -> bool {
    let bugs = match planted::bugs(root) {
        Ok(bugs) => bugs,
        Err(error) => {
            eprintln!("error: cannot read the planted bugs: {error}");
            return false;
        }
    };
    let bugs: Vec<PlantedBug> =
        bugs.into_iter().filter(|bug| only.is_none_or(|name| name == bug.name)).collect();
    if bugs.is_empty() {
        eprintln!("error: there is no such planted bug; crates/torture/planted holds them");
        return false;
    }
    let Some((harness, _)) = build_both(root, release) else { return false };
    let mut results = Vec::new();
    for (number, bug) in bugs.iter().enumerate() {
        println!("== planted bug {} of {}: {}: {}", number + 1, bugs.len(), bug.name, bug.about);
        let begin = Instant::now();
        let server = build_planted(root, release, bug);
        println!("-- built after {} s", begin.elapsed().as_secs());
        let is_caught = server.is_some_and(|server| catch(root, &harness, &server, bug, rest));
        results.push((bug, is_caught, begin.elapsed()));
    }
    println!("\n{:<22} {:<10} {:>8}  found by", "planted bug", "result", "time");
    for (bug, is_caught, time) in &results {
        let result = if *is_caught { "caught" } else { "NOT CAUGHT" };
        println!("{:<22} {result:<10} {:>6} s  {}", bug.name, time.as_secs(), bug.checks.join(" or "));
    }
    results.iter().all(|(_, is_caught, _)| *is_caught)
}

/// The server with this bug, built in the copy of the repository.
fn build_planted(root: &Path, release: bool, bug: &PlantedBug) -> Option<PathBuf> {
    let copy = match PlantedCopy::plant(root, bug) {
        Ok(copy) => copy,
        Err(why) => {
            eprintln!("error: {why}");
            return None;
        }
    };
    let mut building = cargo(&copy.folder(), &[]);
    building.env("CARGO_TARGET_DIR", copy.build_folder());
    lints::turn_off(&mut building); // they find some of the bugs
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let args = [&["--package", "cli", "--no-default-features"], profile].concat();
    let [server] = build(&mut building, &args, ["rondo"])?;
    keep_server(root, &server, "rondo-planted")
}

fn catch(root: &Path, harness: &Path, server: &Path, bug: &PlantedBug, rest: &[String]) -> bool {
    let Some(rest) = prepare(root, &[rest, &bug.options].concat()) else { return false };
    let mut args = vec!["--bug".to_owned(), bug.name.clone(), "--checks".to_owned(), bug.checks.join(",")];
    args.extend(rest);
    succeeds(&mut harness_command(root, harness, server, "planted", &args))
}

/// The harness and the server, of the whole workspace at once, or their libraries would be built again with other
/// features. Without optimisation they are built with the tests, which are there anyway.
fn build_both(root: &Path, release: bool) -> Option<(PathBuf, PathBuf)> {
    let programs = ["torture", "rondo"];
    let [harness, server] = if release {
        let args = ["--release", "--workspace", "--bin", "rondo", "--bin", "torture"];
        build(&mut cargo(root, &[]), &args, programs)?
    } else {
        build_for_tests(root, programs)?
    };
    Some((harness, server))
}

fn harness_command(root: &Path, harness: &Path, server: &Path, experiment: &str, rest: &[String]) -> Command {
    let mut command = if is_on_postgres(rest) {
        // No disk is filled, and PostgreSQL runs as a user whom such a namespace does not know.
        let mut command = Command::new("env");
        command.env(testpg::PACKAGE_VARIABLE, postgres::package(root));
        command
    } else {
        namespace().unwrap_or_else(|why| {
            println!("NOT RUN: full disks: {why}");
            Command::new("env")
        })
    };
    command.current_dir(root).arg(harness).arg(experiment).args(rest);
    if !rest.iter().any(|arg| arg == "--out") {
        command.arg("--out").arg(root.join("target/torture"));
    }
    command.arg("--server").arg(server);
    command
}

/// Whether the server under test has a PostgreSQL.
fn is_on_postgres(rest: &[String]) -> bool {
    value_of(rest, "--store").is_some_and(|store| store == "postgres")
}

/// Whether several servers share the database.
fn has_several_nodes(rest: &[String]) -> bool {
    value_of(rest, "--nodes").and_then(|nodes| nodes.parse().ok()).is_some_and(|nodes: u8| nodes > 1)
}

/// Returns the value of an option, after a blank or an equals sign.
fn value_of<'a>(rest: &'a [String], option: &str) -> Option<&'a str> {
    let mut args = rest.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix(option) {
            Some("") => return args.next().map(String::as_str),
            Some(value) if value.starts_with('=') => return value.strip_prefix('='),
            Some(_) | None => {}
        }
    }
    None
}

fn keep_server(root: &Path, server: &Path, name: &str) -> Option<PathBuf> {
    let folder = root.join("target/torture-server");
    let copy = folder.join(name);
    let copied = std::fs::create_dir_all(&folder).and_then(|()| std::fs::copy(server, &copy));
    copied.inspect_err(|error| eprintln!("error: cannot copy the server: {error}")).ok().map(|_| copy)
}

/// A command that has mounts of its own, so that a disk can be filled; or why there is none.
fn namespace() -> Result<Command, String> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]);
        command
    };
    match unshare().arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(unshare()),
        Ok(_) => {
            Err("this machine lets nobody mount a small disk; run it where `unshare --mount` is allowed"
                .into())
        }
        Err(_) => Err("there is no `unshare`; install util-linux".into()),
    }
}

/// None if a folder or a name is missing.
fn parse(args: &[String], here: Option<&Path>) -> Option<TortureArguments> {
    let mut parsed =
        TortureArguments { experiment: TortureExperiment::Round, release: true, rest: Vec::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--planted" => parsed.experiment = TortureExperiment::Planted(None),
            "--bug" => parsed.experiment = TortureExperiment::Planted(Some(args.next()?.clone())),
            "--load" => parsed.experiment = TortureExperiment::Load,
            "--dev" => parsed.release = false,
            "--out" => {
                let out = here.unwrap_or(Path::new("")).join(args.next()?);
                parsed.rest.extend([arg.clone(), out.display().to_string()]);
            }
            _ => parsed.rest.push(arg.clone()),
        }
    }
    Some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_choose_the_experiment_and_the_rest_is_the_harness_s() {
        let parsed = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            parse(&args, Some(Path::new("/here")))
        };
        let expected = |experiment, release, rest: &str| {
            let rest = rest.split_whitespace().map(str::to_owned).collect();
            Some(TortureArguments { experiment, release, rest })
        };
        let one = TortureExperiment::Planted(Some("seam_gap".into()));
        assert_eq!(
            parsed("--minutes 5 --seed 7"),
            expected(TortureExperiment::Round, true, "--minutes 5 --seed 7")
        );
        assert_eq!(parsed("--planted --dev"), expected(TortureExperiment::Planted(None), false, ""));
        assert_eq!(parsed("--planted --bug seam_gap"), expected(one, true, ""));
        assert_eq!(
            parsed("--load --out there"),
            expected(TortureExperiment::Load, true, "--out /here/there")
        );
        assert_eq!(parsed("--out /there"), expected(TortureExperiment::Round, true, "--out /there"));
        assert_eq!((parsed("--out"), parsed("--planted --bug")), (None, None));
    }

    #[test]
    fn the_store_and_the_nodes_are_options_of_the_harness() {
        let args = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let is_on_postgres = |line: &str| super::is_on_postgres(&args(line));
        assert!(is_on_postgres("--minutes 5 --store postgres") && is_on_postgres("--store=postgres"));
        assert!(!is_on_postgres("--minutes 5") && !is_on_postgres("--store sqlite"));
        let has_several_nodes = |line: &str| super::has_several_nodes(&args(line));
        assert!(has_several_nodes("--nodes 3 --minutes 5") && has_several_nodes("--nodes=2"));
        assert!(!has_several_nodes("--nodes 1") && !has_several_nodes("--minutes 5"));
    }
}
