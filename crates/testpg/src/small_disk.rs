//! A disk that is soon full: a file system in memory, which one PostgreSQL alone sees.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{PostgresPrograms, PostgresServer};

/// Mounts the disk, and becomes the server. The arguments are the options of the disk, its folder, and the server.
const MOUNT: &str = r#"mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@""#;

/// A disk of this many megabytes. It goes with the server.
#[derive(Debug, Clone, Copy)]
pub struct SmallDisk {
    pub megabytes: u32,
}

impl SmallDisk {
    /// Why this machine cannot have such a disk, if it cannot.
    pub fn obstacle(programs: &PostgresPrograms) -> Option<String> {
        let mut trial = Command::new("unshare");
        trial.args(Self::namespace(programs)).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
        match trial.status() {
            Ok(status) if status.success() => None,
            Ok(_) => Some("this user may not make a mount namespace".to_owned()),
            Err(error) => Some(format!("cannot start unshare: {error}")),
        }
    }

    /// The options that ask `unshare` for a namespace in which something can be mounted.
    fn namespace(programs: &PostgresPrograms) -> &'static [&'static str] {
        if programs.is_root() {
            &["--mount"]
        } else {
            &["--user", "--map-current-user", "--keep-caps", "--mount"]
        }
    }

    fn folder(server: &PostgresServer) -> PathBuf {
        server.folder().join("disk")
    }

    pub(crate) fn make_folder(self, server: &PostgresServer) -> Result<(), String> {
        let folder = Self::folder(server);
        std::fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        server.programs.give_away(&folder)
    }

    /// The command that starts the server, with the disk.
    pub(crate) fn mount_for(self, server: &PostgresServer, start: &Command) -> Command {
        let mut command = Command::new("unshare");
        command.args(Self::namespace(&server.programs)).args(["sh", "-c", MOUNT, "sh"]);
        let owner = server.programs.owner().map_or(String::new(), |user| format!(",uid={user},gid={user}"));
        command.arg(format!("size={}m,mode=700{owner}", self.megabytes)).arg(Self::folder(server));
        command.arg(start.get_program()).args(start.get_args()).current_dir(server.folder());
        command
    }

    /// Puts the tables of the role `rondo` there.
    pub(crate) fn statements(server: &PostgresServer) -> [String; 3] {
        [
            format!("CREATE TABLESPACE small LOCATION '{}'", Self::folder(server).display()),
            "GRANT CREATE ON TABLESPACE small TO rondo".to_owned(),
            "ALTER ROLE rondo SET default_tablespace = small".to_owned(),
        ]
    }
}

impl PostgresServer {
    /// Leaves no free space on the small disk.
    pub fn fill_small_disk(&self) -> Result<(), String> {
        self.run_on_small_disk("dd if=/dev/zero of=filler bs=4096 2>/dev/null || true")
    }

    /// Frees what [`Self::fill_small_disk`] has taken.
    pub fn empty_small_disk(&self) -> Result<(), String> {
        self.run_on_small_disk("rm filler")
    }

    /// The server executes the command, because no other process sees the disk.
    fn run_on_small_disk(&self, command: &str) -> Result<(), String> {
        let folder = SmallDisk::folder(self);
        let statement = format!(
            "COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; cd {} && {{ {command}; }}'",
            folder.display()
        );
        self.run_as_admin("postgres", &[&statement])
    }
}
