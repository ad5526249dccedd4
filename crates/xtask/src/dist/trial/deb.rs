//! The trial of a Debian package: dpkg reads and unpacks it into a folder, and its program takes its configuration.

use std::path::Path;
use std::process::Command;

use super::{Emulator, expect_in, program, run};
use crate::dist::machine::DistMachine;

/// Folders that dpkg needs in a new root.
const DPKG_FOLDERS: [&str; 3] = ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"];

/// Unpacks the package in a root of its own, and lets the program check its configuration.
pub(crate) fn try_deb(package: &Path, machine: DistMachine, emulator: &Emulator) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let (root, control) = (folder.path().join("root"), folder.path().join("control"));
    let mut field = Command::new("dpkg-deb");
    let architecture = run(field.arg("--field").arg(package).arg("Architecture"))?;
    expect_in(&architecture, machine.short_name())?;
    run(Command::new("dpkg-deb").arg("--control").arg(package).arg(&control))?;
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(control.join(script)))?;
    }
    unpack(package, &root)?;
    let unit = read(&root.join("usr/lib/systemd/system/rondo.service"))?;
    expect_in(&unit, "ExecStart=/usr/bin/rondo serve")?;
    for file in read(&control.join("conffiles"))?.lines() {
        // dpkg gives a configuration file its name when it configures the package.
        read(&root.join(format!("{}.dpkg-new", file.trim_start_matches('/'))))?;
    }
    let configuration = root.join("etc/rondo/rondo.toml.dpkg-new");
    let mut doctor = program(&root.join("usr/bin/rondo"), emulator);
    doctor.args(["doctor", "--config"]).arg(&configuration).current_dir(folder.path()).env_clear();
    doctor.env("RONDO_DATA", folder.path().join("data")).env("RONDO_DISCOVER", "false");
    // No model is configured, so the doctor finds something missing; but it has read the file.
    let report = doctor.output().map_err(|error| format!("cannot run {doctor:?}: {error}"))?;
    expect_in(
        &String::from_utf8_lossy(&report.stdout),
        &format!("ok    configuration: {}", configuration.display()),
    )
}

/// Lets dpkg unpack the package with its own database. No script is run.
fn unpack(package: &Path, root: &Path) -> Result<(), String> {
    let unwritable = |error: std::io::Error| format!("cannot write {}: {error}", root.display());
    for folder in DPKG_FOLDERS {
        std::fs::create_dir_all(root.join(folder)).map_err(unwritable)?;
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").map_err(unwritable)?;
    let mut dpkg = Command::new("unshare");
    dpkg.args(["--user", "--map-root-user", "--", "dpkg", "--log=/dev/null", "--force-architecture"]);
    dpkg.args(["--force-depends", "--force-bad-path"]).arg(format!("--root={}", root.display()));
    run(dpkg.arg("--unpack").arg(package))?;
    let mut query = Command::new("dpkg-query");
    let status =
        run(query.arg(format!("--admindir={}/var/lib/dpkg", root.display())).args(["--status", "rondo"]))?;
    expect_in(&status, "Status: install ok unpacked")
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
