//! Packages of Debian that are unpacked into the repository's `target`. Nothing is installed on the machine.

use std::path::Path;
use std::process::{Command, Stdio};

/// Fetches a package and unpacks it into a folder. The error says why not, and ends with `remedy`.
pub(crate) fn unpack(package: &str, folder: &Path, remedy: &str) -> Result<(), String> {
    for program in ["apt-get", "dpkg"] {
        if !runs(Command::new(program).arg("--version")) {
            return Err(format!("there is neither {package} nor {program} to fetch it with; {remedy}"));
        }
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut download = Command::new("apt-get");
    if !runs(download.args(["--quiet", "download", package]).current_dir(folder)) {
        return Err(format!("apt-get cannot fetch {package}; run `apt-get update`, or {remedy}"));
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let file =
        entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "deb"));
    let file = file.ok_or_else(|| format!("apt-get fetched no package; {remedy}"))?;
    if !runs(Command::new("dpkg").arg("--extract").arg(&file).arg(folder)) {
        return Err(format!("dpkg cannot unpack {}; {remedy}", file.display()));
    }
    Ok(())
}

/// Whether a command succeeds; what it says is not shown.
pub(crate) fn runs(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
