//! The PostgreSQL under a trial: a real server of its own, and what the nemesis does to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use store::inspection::number_of;
use store::postgres::PostgresAddress;
use testpg::{PACKAGE_VARIABLE, PostgresEnd, PostgresPrograms, PostgresServer};

use crate::stage::TortureError;

/// No trial cuts the power, so nothing has to reach the disk. Commits that do not wait for the log stay in memory for
/// as long as PostgreSQL allows, so that a crash loses as many of them as it can.
const SETTINGS: &[&str] = &["fsync=off", "wal_writer_delay=10s"];

/// How long PostgreSQL may take to recover from the loss of one of its processes.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(60);
const RECOVERY_PAUSE: Duration = Duration::from_millis(20);

/// A process of PostgreSQL that serves Rondo, whichever, or 0.
const ANY_BACKEND: &str = "SELECT coalesce((SELECT CAST(pid AS BIGINT) FROM pg_stat_activity
    WHERE application_name = 'rondo' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1), 0)";

/// Ends all connections of Rondo but the one that says so.
const END_CONNECTIONS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'rondo' AND pid <> pg_backend_pid()";

/// The blows that PostgreSQL can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseBlow {
    /// The server is stopped in order, and started again after a while.
    Restart,
    /// The server is stopped at once, and recovers when it is started again after a while.
    Crash,
    /// One of its processes is killed. It then ends the others, and recovers by itself.
    BackendKill,
    /// All connections of the server are ended.
    ConnectionLoss,
}

/// A PostgreSQL for one trial. It ends with the last clone.
#[derive(Clone)]
pub(crate) struct TrialPostgres {
    server: Arc<Mutex<PostgresServer>>,
    /// As `RONDO_STORE` has it.
    pub(crate) url: String,
    pub(crate) address: PostgresAddress,
}

impl TrialPostgres {
    #[expect(clippy::disallowed_methods, reason = "the variable says where the programs of PostgreSQL are")]
    pub(crate) async fn start() -> Result<Self, TortureError> {
        let package = std::env::var_os(PACKAGE_VARIABLE);
        let start = move || PostgresServer::start(&PostgresPrograms::of_variable(package)?, SETTINGS);
        let server = tokio::task::spawn_blocking(start).await??;
        let (url, address) = (server.url(), server.url().parse()?);
        Ok(Self { server: Arc::new(Mutex::new(server)), url, address })
    }

    /// The folder of its socket.
    pub(crate) fn folder(&self) -> PathBuf {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).folder().to_path_buf()
    }

    /// Strikes, and returns when PostgreSQL accepts connections again. One that is stopped stays down for a while. False
    /// if there was no connection to strike.
    pub(crate) async fn strike(&self, blow: DatabaseBlow, down: Duration) -> Result<bool, TortureError> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.strike_now(blow, down)).await?
    }

    fn strike_now(&self, blow: DatabaseBlow, down: Duration) -> Result<bool, TortureError> {
        match blow {
            DatabaseBlow::Restart => self.restart(PostgresEnd::Fast, down),
            DatabaseBlow::Crash => self.restart(PostgresEnd::Immediate, down),
            DatabaseBlow::BackendKill => self.kill_backend(),
            DatabaseBlow::ConnectionLoss => Ok(number_of(&self.address, END_CONNECTIONS)? > 0),
        }
    }

    fn restart(&self, end: PostgresEnd, down: Duration) -> Result<bool, TortureError> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.stop(end);
        std::thread::sleep(down);
        server.start_again()?;
        Ok(true)
    }

    /// Kills a process and waits until PostgreSQL, after its recovery, no longer knows of it.
    fn kill_backend(&self) -> Result<bool, TortureError> {
        let backend = number_of(&self.address, ANY_BACKEND)?;
        let Some(process) = i32::try_from(backend).ok().and_then(Pid::from_raw) else { return Ok(false) };
        kill_process(process, Signal::KILL)?;
        let is_known = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {backend}");
        let begun = Instant::now();
        while number_of(&self.address, &is_known).map_or(true, |count| count > 0) {
            if begun.elapsed() > RECOVERY_PATIENCE {
                return Err("PostgreSQL does not recover from the loss of a process".into());
            }
            std::thread::sleep(RECOVERY_PAUSE);
        }
        Ok(true)
    }

    /// Copies what PostgreSQL wrote of itself.
    pub(crate) fn keep_log(&self, to: &Path) -> Result<(), TortureError> {
        let log = self.server.lock().unwrap_or_else(PoisonError::into_inner).log();
        std::fs::copy(log, to)?;
        Ok(())
    }
}
