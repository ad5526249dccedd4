//! A real nginx that some tests put in front of the server: from Debian's package, or whatever the machine has.
//!
//! The package is fetched once and unpacked into the repository's `target`. Nothing is installed on the machine.

use std::path::Path;
use std::process::{Command, Stdio};

/// Where the tests look for it first.
const UNPACKED: &str = "target/real-proxy/usr/sbin/nginx";

/// Makes sure that there is one that starts. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    if !runs(Command::new("openssl").arg("version")) {
        return Err("there is no openssl to make a certificate with; install openssl".into());
    }
    let unpacked = root.join(UNPACKED);
    if starts(Command::new(&unpacked)) || starts(Command::new("nginx")) {
        return Ok(());
    }
    fetch(root)?;
    if starts(Command::new(&unpacked)) {
        return Ok(());
    }
    Err(format!(
        "{} does not start here; install nginx (Debian: apt-get install nginx-light)",
        unpacked.display()
    ))
}

fn fetch(root: &Path) -> Result<(), String> {
    let missing = "install nginx (Debian: apt-get install nginx-light)";
    for program in ["apt-get", "dpkg"] {
        if !runs(Command::new(program).arg("--version")) {
            return Err(format!("there is neither nginx nor {program} to fetch it with; {missing}"));
        }
    }
    println!("fetching nginx, once, into target: half a megabyte");
    let folder = root.join("target/real-proxy");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut download = Command::new("apt-get");
    if !runs(download.args(["--quiet", "download", "nginx"]).current_dir(&folder)) {
        return Err(format!("apt-get cannot fetch nginx; run `apt-get update`, or {missing}"));
    }
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let package =
        entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "deb"));
    let package = package.ok_or_else(|| format!("apt-get fetched no package; {missing}"))?;
    if !runs(Command::new("dpkg").arg("--extract").arg(&package).arg(&folder)) {
        return Err(format!("dpkg cannot unpack {}; {missing}", package.display()));
    }
    Ok(())
}

fn starts(mut nginx: Command) -> bool {
    runs(nginx.arg("-v"))
}

fn runs(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
