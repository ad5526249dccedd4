//! Child processes: each on its core, with its log in a file, and killed when it is dropped.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The end of a log that an error shows.
const LOG_TAIL_LINES: usize = 8;

/// Which core the server under test has, and which the upstream and the load generator share.
#[derive(Debug, Clone, Copy)]
pub(super) struct CorePair {
    load: usize,
    server: usize,
}

/// The place of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoreSide {
    Load,
    Server,
}

impl CorePair {
    /// The first two cores that this process may use.
    pub(super) fn choose() -> Result<Self, String> {
        let may = sched_getaffinity(None).map_err(|error| format!("cannot read the cores: {error}"))?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| may.is_set(*core));
        match (cores.next(), cores.next()) {
            (Some(load), Some(server)) => Ok(Self { load, server }),
            _ => Err("there is only one core".into()),
        }
    }

    /// Binds this thread, and every process that it starts from now on.
    pub(super) fn bind(self, side: CoreSide) -> Result<(), String> {
        let mut set = CpuSet::new();
        set.set(match side {
            CoreSide::Load => self.load,
            CoreSide::Server => self.server,
        });
        sched_setaffinity(None, &set).map_err(|error| format!("cannot choose a core: {error}"))
    }
}

/// A process that ends with this value.
pub(super) struct ChildProcess {
    child: Child,
    log: PathBuf,
}

impl ChildProcess {
    /// Starts a program. A child begins on the core of the thread that starts it, so the thread changes its core for
    /// the moment of the start.
    pub(super) fn start(
        command: &mut Command,
        cores: Option<(CorePair, CoreSide)>,
        log: &Path,
    ) -> Result<Self, String> {
        let file = File::create(log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        if let Some((cores, side)) = cores {
            cores.bind(side)?;
        }
        let child = command.spawn();
        if let Some((cores, _)) = cores {
            cores.bind(CoreSide::Load)?;
        }
        let name = command.get_program().display();
        let child = child.map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Self { child, log: log.to_owned() })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error if the process has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(format!("a process has ended with {status}; its log ends with:\n{}", self.log_tail()))
            }
            Err(error) => Err(format!("cannot watch a process: {error}")),
        }
    }

    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(LOG_TAIL_LINES)..).unwrap_or_default().join("\n")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // A process that has already ended cannot be killed, and that is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of this machine that no process uses.
pub(super) fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no free port: {error}"))
}

/// Lets this process and its children open as many files as they may at most, and says how many those are.
pub(super) fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let most = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX)
}
