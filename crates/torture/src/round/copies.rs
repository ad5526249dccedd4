//! Copies of the data: backups that are taken in the middle of everything, and copies for the oracle.
//!
//! On SQLite, a backup is made with `rondo backup`. On PostgreSQL, `rondo copy` makes a data folder of what the database
//! holds, and the oracle judges such a copy, too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::{HEALING, RoundTrial, START};
use crate::database::{TrialData, TrialStore};
use crate::heal;
use crate::server::{Launch, STORE, ServerProcess};
use crate::stage::TortureError;
use crate::world::TortureWorld;

/// Attempts at a copy while PostgreSQL is struck again and again, and the pause between them.
const MAX_COPIES: usize = 100;
const COPY_PAUSE: Duration = Duration::from_millis(200);

/// The words of a command if PostgreSQL is away, or has ended its connection.
const UNREACHABLE: &str = "PostgreSQL cannot be reached";

/// Takes a backup after `after` seconds. Gives what went wrong, or nothing.
pub(super) async fn back_up(world: &TortureWorld, to: &Path, after: f64) -> Result<String, TortureError> {
    tokio::time::sleep(Duration::from_secs_f64(after)).await;
    let folder = to.display().to_string();
    match world.store() {
        TrialStore::Sqlite => complaint(world.launch(), &["backup", &folder]).await,
        TrialStore::Postgres => copy_postgres(world, to).await,
    }
}

/// Copies the database into a data folder, again and again while it is away. Gives what went wrong, or nothing.
async fn copy_postgres(world: &TortureWorld, to: &Path) -> Result<String, TortureError> {
    let folder = to.display().to_string();
    let mut complaint = String::new();
    for _ in 0..MAX_COPIES {
        complaint = self::complaint(world.launch(), &["copy", "--to", &folder]).await?;
        if !complaint.contains(UNREACHABLE) {
            break;
        }
        tokio::time::sleep(COPY_PAUSE).await;
    }
    Ok(complaint)
}

/// Returns the words of a command that fails, or nothing.
async fn complaint(launch: &Launch, args: &[&str]) -> Result<String, TortureError> {
    let done = launch.command(args).output().await?;
    Ok(if done.status.success() { String::new() } else { String::from_utf8_lossy(&done.stderr).into_owned() })
}

impl RoundTrial {
    /// A backup that was taken in the middle of everything has to be whole.
    pub(super) async fn check_copy(&mut self, backup: &Path, copied: String) -> Result<(), TortureError> {
        if !copied.is_empty() {
            self.violation("O16", format!("a backup failed: {copied}"));
            return Ok(());
        }
        self.audit(backup, "a backup is not whole").await?;
        if let Some(older) = self.backup.replace(backup.to_path_buf()) {
            std::fs::remove_dir_all(older)?;
        }
        Ok(())
    }

    /// Lets the server's own audit look at a data folder.
    async fn audit(&mut self, data: &Path, complaint: &str) -> Result<(), TortureError> {
        let launch = self.launch_on(data);
        let audited = launch.command(&["audit", "--data", &data.display().to_string()]).output().await?;
        if !audited.status.success() {
            let said = [audited.stdout, audited.stderr].concat();
            self.violation("O16", format!("{complaint}: {}", String::from_utf8_lossy(&said)));
        }
        Ok(())
    }

    /// The data that the oracle is to look at: those of the server, or a copy. None if they cannot be had.
    pub(super) async fn judged_data(&mut self) -> Result<Option<PathBuf>, TortureError> {
        if self.world.store() == TrialStore::Sqlite {
            return Ok(Some(self.world.data.clone()));
        }
        let copy = self.judged_copy();
        if copy.exists() {
            std::fs::remove_dir_all(&copy)?; // of the last round
        }
        let complaint = copy_postgres(&self.world, &copy).await?;
        if complaint.is_empty() {
            return Ok(Some(copy));
        }
        self.violation("O16", format!("a copy failed: {complaint}"));
        Ok(None)
    }

    fn judged_copy(&self) -> PathBuf {
        self.options.out.join("judged")
    }

    /// Keeps the data for people to look at.
    pub(super) fn freeze(&self) -> Result<(), TortureError> {
        let frozen = self.options.out.join("frozen");
        match &self.world.postgres {
            None => self.world.freeze(&frozen),
            Some(postgres) => {
                postgres.keep_log(&self.options.out.join("postgres.log"))?;
                let copy = self.judged_copy();
                if copy.exists() { Ok(std::fs::rename(copy, frozen)?) } else { Ok(()) }
            }
        }
    }

    /// Removes the copies, which are not needed after the trial.
    pub(super) fn remove_copies(&self) -> Result<(), TortureError> {
        let judged = Some(self.judged_copy()).filter(|copy| copy.exists());
        for copy in self.backup.iter().chain(&judged) {
            std::fs::remove_dir_all(copy)?;
        }
        Ok(())
    }

    /// How the server is started on another data folder.
    fn launch_on(&self, data: &Path) -> Launch {
        let mut launch = Launch { older: None, ..self.world.launch().clone() };
        launch.environment.retain(|(name, _)| name != "RONDO_DATA" && name != STORE);
        launch.environment.push(("RONDO_DATA".into(), data.display().to_string()));
        launch
    }

    /// A server that is started on a backup continues as if it had been killed when that was taken.
    pub(super) async fn restore(&mut self, backup: &Path) -> Result<(), TortureError> {
        let mut launch = self.launch_on(backup);
        launch.log = self.options.out.join("restored.log");
        let mut server = ServerProcess::new(launch, self.world.starts.clone())?;
        server.start()?;
        if !server.wait_until_ready(START).await? {
            self.violation("O16", "a server does not start on a backup; see restored.log".into());
            return Ok(());
        }
        let (begun, data) = (Instant::now(), TrialData::Folder(backup.to_path_buf()));
        while heal::is_running(&data).await? && begun.elapsed() < HEALING {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server.term().await?;
        if heal::is_running(&data).await? {
            self.violation("O16", "runs of a restored backup do not come to an end".into());
        }
        self.audit(backup, "a restored backup is not whole").await
    }
}
