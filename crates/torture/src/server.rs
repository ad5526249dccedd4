//! The server under test: the real binary, one process at a time, always on the same port and the same data.

use std::fs::OpenOptions;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use fastrand::Rng;
use reqwest::{Client, Url};
use rustix::process::{Pid, Signal, kill_process};
use testkit::plain_client;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::stage::{Starts, TortureError};

/// How long a server may take to stop after SIGTERM.
const TERM_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks whether it is ready.
const READY_PAUSE: Duration = Duration::from_millis(5);
/// How long one look may take.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// Ports below those that connections take for themselves, so that none is in the way when the server starts again.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
/// Ports that are tried before there is none.
const PORT_TRIES: usize = 100;
/// The variable that names the database of the server.
pub(crate) const STORE: &str = "RONDO_STORE";
/// Bytes in a page of memory, as `/proc` counts them.
const PAGE: u64 = 4096;

/// How it is started.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) binary: PathBuf,
    /// The binary of the first start and of commands before it, if it is another one.
    pub(crate) older: Option<PathBuf>,
    pub(crate) folder: PathBuf,
    pub(crate) url: String,
    /// All of its environment.
    pub(crate) environment: Vec<(String, String)>,
    /// The file to which its output is added.
    pub(crate) log: PathBuf,
}

impl Launch {
    /// The binary with its environment and nothing else.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(&self.binary, args)
    }

    /// Returns the command before the first restart.
    fn first_command(&self, args: &[&str]) -> Command {
        self.command_of(self.older.as_ref().unwrap_or(&self.binary), args)
    }

    fn command_of(&self, binary: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(binary);
        command.args(args).env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.folder).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Returns this launch with another database, if there is one.
    pub(crate) fn with_database(&self, url: Option<&str>) -> Self {
        let mut launch = self.clone();
        if let Some(url) = url {
            launch.environment.retain(|(name, _)| name != STORE);
            launch.environment.push((STORE.to_owned(), url.to_owned()));
        }
        launch
    }

    /// Makes a key with `rondo keys add` and gives it back.
    pub(crate) async fn add_key(&self, args: &[&str]) -> Result<String, TortureError> {
        let done = self.first_command(&[&["keys", "add"], args].concat()).output().await?;
        let printed = String::from_utf8(done.stdout)?.trim().to_owned();
        if done.status.success() && printed.starts_with("rondo_") {
            return Ok(printed);
        }
        Err(format!("no key was made: {}", String::from_utf8_lossy(&done.stderr).trim()).into())
    }
}

/// A port that no process listens on.
pub(crate) fn free_port(rng: &mut Rng) -> Result<u16, TortureError> {
    let mut ports = std::iter::repeat_with(|| rng.u16(PORTS)).take(PORT_TRIES);
    let free = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.ok_or_else(|| "there is no free port for the server".into())
}

pub(crate) struct ServerProcess {
    launch: Launch,
    client: Client,
    starts: Starts,
    has_started: bool,
    child: Option<Child>,
}

/// The usage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    pub(crate) resident_bytes: u64,
    pub(crate) open_files: usize,
    pub(crate) threads: usize,
}

impl ServerProcess {
    pub(crate) fn new(launch: Launch, starts: Starts) -> Result<Self, TortureError> {
        let client = plain_client().timeout(READY_TIMEOUT).pool_max_idle_per_host(0).build()?;
        Ok(Self { launch, client, starts, has_started: false, child: None })
    }

    pub(crate) fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Starts a process, unless one runs. It need not be ready.
    pub(crate) fn start(&mut self) -> Result<(), TortureError> {
        if self.is_running()? {
            return Ok(());
        }
        let log = OpenOptions::new().create(true).append(true).open(&self.launch.log)?;
        let has_started = std::mem::replace(&mut self.has_started, true);
        let mut command =
            if has_started { self.launch.command(&["serve"]) } else { self.launch.first_command(&["serve"]) };
        command.stdout(log.try_clone()?).stderr(log);
        self.starts.count_start();
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Whether the process that was started is still there.
    pub(crate) fn is_running(&mut self) -> Result<bool, TortureError> {
        Ok(self.exit_status()?.is_none() && self.child.is_some())
    }

    /// How the process ended, if it did so by itself.
    pub(crate) fn exit_status(&mut self) -> Result<Option<ExitStatus>, TortureError> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => Ok(None),
        }
    }

    /// SIGKILL. The process is gone when this returns.
    pub(crate) async fn kill(&mut self) -> Result<(), TortureError> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGSTOP: the process does nothing until it is continued.
    pub(crate) fn pause(&self) -> Result<(), TortureError> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: the process continues as if no time had passed.
    pub(crate) fn unpause(&self) -> Result<(), TortureError> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), TortureError> {
        let id = self.process_id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            kill_process(id, signal)?;
        }
        Ok(())
    }

    /// SIGTERM, and SIGKILL if that takes too long. Says how long it took.
    pub(crate) async fn term(&mut self) -> Result<Duration, TortureError> {
        let begin = Instant::now();
        self.signal(Signal::TERM)?;
        if let Some(mut child) = self.child.take()
            && tokio::time::timeout(TERM_PATIENCE, child.wait()).await.is_err()
        {
            child.kill().await?;
        }
        Ok(begin.elapsed())
    }

    /// Waits until it says that it is ready. False if it does not in time, or has ended.
    pub(crate) async fn wait_until_ready(&mut self, patience: Duration) -> Result<bool, TortureError> {
        let until = Instant::now() + patience;
        let url = format!("{}/readyz", self.launch.url);
        while Instant::now() < until && self.is_running()? {
            let answer = self.client.get(&url).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(true);
            }
            tokio::time::sleep(READY_PAUSE).await;
        }
        Ok(false)
    }

    /// The number of the process, if one runs.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.child.as_ref()?.id()
    }

    /// None if no process runs.
    pub(crate) fn usage(&self) -> Option<ProcessUsage> {
        let id = self.process_id()?;
        let pages = std::fs::read_to_string(format!("/proc/{id}/statm")).ok()?;
        let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
        let count = |what: &str| std::fs::read_dir(format!("/proc/{id}/{what}")).ok().map(Iterator::count);
        Some(ProcessUsage {
            resident_bytes: resident * PAGE,
            open_files: count("fd")?.saturating_sub(self.kept_connections(id)),
            threads: count("task")?,
        })
    }

    /// Connections to the model that are kept for the next request: as many as there were requests at once. One that the
    /// model has closed and the server has not is not among them.
    fn kept_connections(&self, id: u32) -> usize {
        let url = self.launch.environment.iter().find(|(name, _)| name == "OPENAI_BASE_URL");
        let port = url.and_then(|(_, url)| Url::parse(url).ok()?.port());
        let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap_or_default();
        port.map_or(0, |port| table.lines().filter(|line| is_open_to(line, port)).count())
    }
}

/// Whether a line of the kernel's table of connections is an established one to this port.
fn is_open_to(line: &str, port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let mut fields = line.split_whitespace().skip(2);
    let is_to = fields.next().is_some_and(|remote| remote.ends_with(&format!(":{port:04X}")));
    is_to && fields.next() == Some(ESTABLISHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_established_connections_to_the_port_count() {
        let line = |remote: &str, state: &str| {
            format!("   1: 0100007F:A1B2 0100007F:{remote} {state} 00000000:00000000")
        };
        assert!(is_open_to(&line("238C", "01"), 9100));
        assert!(!is_open_to(&line("238C", "08"), 9100), "the other side has closed it");
        assert!(!is_open_to(&line("238D", "01"), 9100));
        assert!(!is_open_to("  sl  local_address rem_address   st tx_queue", 9100));
    }
}
