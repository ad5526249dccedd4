//! A real nginx that some tests put in front of the server: from Debian's package, or the one that the machine has.
//!
//! The package is fetched once and unpacked into the repository's `target`. Nothing is installed on the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::{self, runs};

/// The place at which the tests look for it first.
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

/// The program, after it was installed.
pub(crate) fn program(root: &Path) -> PathBuf {
    let unpacked = root.join(UNPACKED);
    if unpacked.exists() { unpacked } else { PathBuf::from("nginx") }
}

fn fetch(root: &Path) -> Result<(), String> {
    println!("fetching nginx, once, into target: half a megabyte");
    debian::unpack(
        "nginx",
        &root.join("target/real-proxy"),
        "install nginx (Debian: apt-get install nginx-light)",
    )
}

fn starts(mut nginx: Command) -> bool {
    runs(nginx.arg("-v"))
}
