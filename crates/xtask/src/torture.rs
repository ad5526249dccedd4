//! The crash harness: builds the server and the harness, and lets the one at the other.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::commands::{build, succeeds};

/// How long a round in `cargo xtask test` is.
const MINUTES_IN_TEST: &str = "5";

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    what: What,
    release: bool,
    /// For the harness, with paths as whoever calls means them.
    rest: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Round,
    Planted,
    Load,
}

/// `cargo xtask torture`: in release mode unless `--dev` is given.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let Some(asked) = parse(args, std::env::current_dir().ok().as_deref()) else {
        eprintln!("error: --out needs a folder");
        return false;
    };
    let defaults = match asked.what {
        What::Round => vec!["round".to_owned()],
        What::Planted => vec!["planted".to_owned()],
        What::Load => vec!["load".to_owned()],
    };
    harness(root, asked.what, asked.release, &[defaults, asked.rest].concat())
}

/// The round of `cargo xtask test`, with what the tests have built anyway.
pub(crate) fn round(root: &Path) -> bool {
    let args = ["round", "--minutes", MINUTES_IN_TEST].map(str::to_owned);
    harness(root, What::Round, false, &args)
}

fn harness(root: &Path, what: What, release: bool, args: &[String]) -> bool {
    // Without optimisation it is built with the tests, which are there anyway.
    let profile: &[&str] = if release { &["--release"] } else { &["--tests"] };
    let features: &[&str] = match what {
        What::Round | What::Load => &[],
        What::Planted => &["--no-default-features", "--features", "cli/planted"],
    };
    // Both at once and of the whole workspace, or their libraries would be built again with other features.
    let which = [&["--workspace", "--bin", "rondo", "--bin", "torture"], profile, features].concat();
    let Some(harness) = build(root, &which, "torture") else { return false };
    let Some(server) = build(root, &which, "rondo") else { return false };
    // Another build puts another server in the same place.
    let Some(server) = keep(root, &server, what) else { return false };
    let mut command = match apart() {
        Ok(command) => command,
        Err(why) => {
            println!("NOT RUN: full disks: {why}");
            Command::new("env")
        }
    };
    let out = root.join("target/torture");
    if !args.iter().any(|arg| arg == "--out") {
        command.arg(harness).args(args).arg("--out").arg(out);
    } else {
        command.arg(harness).args(args);
    }
    succeeds(command.arg("--server").arg(server).current_dir(root))
}

fn keep(root: &Path, server: &Path, what: What) -> Option<PathBuf> {
    let folder = root.join("target/torture-server");
    let kept = folder.join(if what == What::Planted { "rondo-planted" } else { "rondo" });
    let copied = std::fs::create_dir_all(&folder).and_then(|()| std::fs::copy(server, &kept));
    copied.inspect_err(|error| eprintln!("error: cannot copy the server: {error}")).ok().map(|_| kept)
}

/// A command that has mounts of its own, so that a disk can be filled; or why there is none.
fn apart() -> Result<Command, String> {
    let namespace = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]);
        command
    };
    match namespace().arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(namespace()),
        Ok(_) => {
            Err("this machine lets nobody mount a small disk; run it where `unshare --mount` is allowed"
                .into())
        }
        Err(_) => Err("there is no `unshare`; install util-linux".into()),
    }
}

/// None if a folder is missing.
fn parse(args: &[String], here: Option<&Path>) -> Option<Asked> {
    let mut asked = Asked { what: What::Round, release: true, rest: Vec::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--planted" => asked.what = What::Planted,
            "--load" => asked.what = What::Load,
            "--dev" => asked.release = false,
            "--out" => {
                let out = here.unwrap_or(Path::new("")).join(args.next()?);
                asked.rest.extend([arg.clone(), out.display().to_string()]);
            }
            _ => asked.rest.push(arg.clone()),
        }
    }
    Some(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_choose_what_is_run_and_the_rest_is_the_harness_s() {
        let asked = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            parse(&args, Some(Path::new("/here")))
        };
        let of = |what, release, rest: &str| {
            Some(Asked { what, release, rest: rest.split_whitespace().map(str::to_owned).collect() })
        };
        assert_eq!(asked("--minutes 5 --seed 7"), of(What::Round, true, "--minutes 5 --seed 7"));
        assert_eq!(asked("--planted --dev"), of(What::Planted, false, ""));
        assert_eq!(asked("--load --out there"), of(What::Load, true, "--out /here/there"));
        assert_eq!(asked("--out /there"), of(What::Round, true, "--out /there"));
        assert_eq!(asked("--out"), None);
    }
}
