//! Trials of packages: each is installed as a user would, and its server gives a first answer.
//!
//! Nothing is installed on the machine. Programs for another machine run under qemu.

mod deb;
mod image;
mod install_script;
mod loopback;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::machine::DistMachine;

pub(crate) use deb::try_deb;
pub(crate) use image::try_image;
pub(crate) use install_script::try_install_script;

/// The program that runs binaries of another machine, where this one is no such machine.
pub(crate) type Emulator = Option<PathBuf>;

/// Why packages cannot be tried here, with a remedy.
pub(crate) fn obstacle() -> Option<String> {
    for (program, package) in [("dpkg-deb", "dpkg"), ("tar", "tar"), ("curl", "curl")] {
        let mut found = Command::new(program);
        found.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        if !found.status().is_ok_and(|status| status.success()) {
            return Some(format!("there is no {program}; install {package}"));
        }
    }
    let mut namespace = Command::new("unshare");
    namespace.args([
        "--user",
        "--map-root-user",
        "--mount",
        "--",
        "unshare",
        "--user",
        "--map-user=10001",
        "true",
    ]);
    let allowed = namespace.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if allowed.is_ok_and(|status| status.success()) {
        return None;
    }
    let remedy = "run it where `unshare --user --mount` of util-linux 2.38 is allowed";
    Some(format!("this machine lets nobody make a mount namespace; {remedy}"))
}

/// The emulator for a machine: none if this is one, qemu of this system, or else of Debian's package in `target`.
pub(crate) fn emulator(root: &Path, machine: DistMachine) -> Result<Emulator, String> {
    if DistMachine::of_host() == Some(machine) {
        return Ok(None);
    }
    let name = format!("qemu-{}-static", machine.name());
    let folder = root.join("target/dist-qemu");
    let fetched = folder.join("usr/bin").join(&name);
    let of_system = Path::new("/usr/bin").join(&name);
    if let Some(found) = [of_system, fetched.clone()].into_iter().find(|path| path.is_file()) {
        return Ok(Some(found));
    }
    println!("fetching qemu, once, into target: 60 MB");
    fetch_package("qemu-user-static", &folder)?;
    if fetched.is_file() { Ok(Some(fetched)) } else { Err(format!("Debian's package has no {name}")) }
}

/// Downloads a package of Debian and unpacks it into a folder.
fn fetch_package(package: &str, folder: &Path) -> Result<(), String> {
    let remedy = format!("install {package}");
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    run(Command::new("apt-get").args(["--quiet", "download", package]).current_dir(folder))
        .map_err(|why| format!("{why}; {remedy}"))?;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut packages =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "deb"));
    let file = packages.next().ok_or_else(|| format!("apt-get fetched no package; {remedy}"))?;
    run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(folder))?;
    std::fs::remove_file(&file).map_err(|error| format!("cannot remove {}: {error}", file.display()))
}

/// A program, under the emulator if there is one.
fn program(path: &Path, emulator: &Emulator) -> Command {
    match emulator {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(path);
            command
        }
        None => Command::new(path),
    }
}

/// Runs a command to its end and gives its output. The error has everything that it said.
fn run(command: &mut Command) -> Result<String, String> {
    let output = finish(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?} failed ({}): {}", output.status, all_output(&output)))
}

/// Runs a command that must fail, and gives everything that it said.
fn run_refused(command: &mut Command) -> Result<String, String> {
    let output = finish(command)?;
    if output.status.success() {
        return Err(format!("{command:?} did not fail: {}", all_output(&output)));
    }
    Ok(all_output(&output))
}

fn finish(command: &mut Command) -> Result<Output, String> {
    command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {command:?}: {error}"))
}

fn all_output(output: &Output) -> String {
    let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{errors}").trim().to_owned()
}

/// An error that says what was expected, unless a text contains it.
fn expect_in(text: &str, wanted: &str) -> Result<(), String> {
    if text.contains(wanted) { Ok(()) } else { Err(format!("expected {wanted:?} in: {text}")) }
}
