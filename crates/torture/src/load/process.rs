//! The system's figures about a process and its connections.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::stage::TortureError;

/// Linux counts the time of processes in hundredths of a second, on every machine.
const TICKS_PER_SECOND: u64 = 100;
/// Established, in the words of `/proc/net/tcp`.
const ESTABLISHED: &str = "01";
/// The connection belongs to no process any more; the system only remembers the pair of ports.
const TIME_WAIT: &str = "06";

/// Lets this process open as many files as it may at most, and says how many those are.
pub(crate) fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let most = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) id: u32,
}

impl Process {
    /// Memory that it really holds.
    pub(crate) fn resident_kib(self) -> Result<u64, TortureError> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()).and_then(|text| text.parse().ok());
        number.ok_or_else(|| "the system does not say how much memory the server has".into())
    }

    /// Processor time so far, its own and the system's for it.
    pub(crate) fn processor(self) -> Result<Duration, TortureError> {
        let stat = self.read("stat")?;
        // The name, in parentheses, may hold blanks; the times are the 12th and 13th field after it.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
        let times: Vec<u64> =
            fields.split_whitespace().skip(11).take(2).filter_map(|text| text.parse().ok()).collect();
        let [user, system] = times.as_slice() else {
            return Err("the system does not say how long the server has worked".into());
        };
        Ok(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
    }

    fn read(self, name: &str) -> Result<String, TortureError> {
        Ok(std::fs::read_to_string(format!("/proc/{}/{name}", self.id))?)
    }
}

/// Connections to a port, as its side sees them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldConnections {
    /// Open.
    pub(crate) open: usize,
    /// Closed, but with bytes that the system still wants to deliver.
    pub(crate) closing: usize,
    /// The most bytes that wait for one client.
    pub(crate) most_queued: u64,
}

/// The connections of these clients, by their ports.
pub(crate) fn count_connections(port: u16, clients: &BTreeSet<u16>) -> Result<HeldConnections, TortureError> {
    Ok(read_table(&std::fs::read_to_string("/proc/net/tcp")?, port, clients))
}

fn read_table(table: &str, port: u16, clients: &BTreeSet<u16>) -> HeldConnections {
    let mut held = HeldConnections::default();
    for line in table.lines().skip(1) {
        let mut fields = line.split_whitespace().skip(1);
        let (Some(local), Some(remote), Some(state)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let ours =
            port_of(local) == Some(port) && port_of(remote).is_some_and(|port| clients.contains(&port));
        if !ours || state == TIME_WAIT {
            continue;
        }
        if state == ESTABLISHED {
            held.open += 1;
        } else {
            held.closing += 1;
        }
        let queued = fields.next().and_then(|queues| queues.split(':').next());
        let queued = queued.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
        held.most_queued = held.most_queued.max(queued);
    }
    held
}

fn port_of(address: &str) -> Option<u16> {
    u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_read_off_the_systems_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
             0: 0100007F:2253 00000000:0000 0A 00000000:00000000\n\
             1: 0100007F:2253 0100007F:8001 01 00000100:00000000\n\
             2: 0100007F:2253 0100007F:8002 04 00001000:00000000\n\
             3: 0100007F:2253 0100007F:8003 06 00000000:00000000\n\
             4: 0100007F:2253 0100007F:8004 01 00FFFFFF:00000000\n\
             5: 0100007F:8001 0100007F:2253 01 00000000:00000000\n";
        let clients = BTreeSet::from([0x8001, 0x8002, 0x8003]);
        assert_eq!(
            read_table(table, 0x2253, &clients),
            HeldConnections { open: 1, closing: 1, most_queued: 0x1000 }
        );
    }

    #[test]
    fn this_process_has_memory_and_has_worked() {
        let this = Process { id: std::process::id() };
        assert!(this.resident_kib().unwrap() > 0);
        assert!(this.processor().unwrap() < Duration::from_secs(3600));
    }
}
